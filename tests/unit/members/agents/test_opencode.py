"""The dialect of opencode."""

from __future__ import annotations

import msgspec
import pytest

from fanfold.errors import InvalidReply, MemberError, Terminal
from fanfold.members.agents.dialect import Start
from fanfold.members.agents.fields import AgentFields
from fanfold.members.agents.opencode import CONFIG, Opencode
from fanfold.members.agents.worker import Exit, WorkerLimits, WorkerType
from fanfold.price import Price, nanos
from fanfold.work.ask import Reply, Usage
from fanfold.work.member import Traits
from tests.unit.members.agents.logs import ASK, ended, failed, fed, lines

OPENCODE = Opencode()
TRAITS = Traits(id="w", kind="opencode", answerer="opencode", model="fake/m", timeout=0.0)
WELL = Exit(code=0, at=0.0)


def test_its_words() -> None:
    start = Start(ASK, "/w", "/h", "id", "label")
    made = OPENCODE.words(TRAITS, AgentFields(session="ses_1"), start)
    assert (made.words, made.stdin) == (
        ("opencode", "run", "--format", "json", "--auto", "--title", "label", "-m", "fake/m",
         "--session", "ses_1"),
        b"do it",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("type", "bash", "edit"),
    [(None, "deny", "deny"), ("write", "deny", "allow"), ("code-run", "allow", "allow")],
)
def test_its_type_goes_into_its_configuration(
    type: WorkerType | None, bash: str, edit: str
) -> None:  # fmt: skip
    around = {CONFIG: '{"model": "x", "permission": {"webfetch": "ask", "bash": "ask"}}'}
    made = OPENCODE.environment(around, TRAITS, AgentFields(type=type, env={"A": "1"}))
    assert made["A"] == "1"
    assert msgspec.json.decode(made[CONFIG]) == {
        "model": "x", "permission": {"webfetch": "ask", "bash": bash, "edit": edit},
    }  # fmt: skip


def test_its_host_counts_dollars_and_turns() -> None:
    setup = AgentFields(max_budget_usd=1.0, max_turns=3)
    assert OPENCODE.bounds(TRAITS, setup) == WorkerLimits(usd=nanos(1.0), turns=3)
    assert OPENCODE.most(TRAITS, setup) is None


@pytest.mark.parametrize(
    ("price", "cost"), [(None, 0.02718), (Price(input=1.0, output=1.0, call=0.5), 0.50885)]
)
def test_its_cost_is_its_own_or_by_a_stated_price(price: Price | None, cost: float) -> None:
    """7,730 and 700 in, 20 and 60 out, 40 of reasoning, 300 from a cache."""
    made = ended(OPENCODE, lines("o03_tool_stdin"), WELL, price=price)
    assert made == Reply("done", usage=Usage(8_430, 120, 300), cost_usd=cost)


def test_what_people_are_told() -> None:
    reader = OPENCODE.reader(None)
    told = [(one.kind, one.text, one.name) for one in fed(reader, lines("o03_tool_stdin"))]
    assert told == [
        ("tool", "bash id -u; pwd; touch q", "tool_use"),
        ("text", "done", "text"), ("done", "done", "step_finish"),
    ]  # fmt: skip
    assert reader.reading.last is not None and reader.reading.last.at == 1794772537.614


def test_a_refused_key() -> None:
    error = failed(OPENCODE, lines("o04_401"), Exit(code=1, at=0.0))
    assert isinstance(error, Terminal) and error.scope == "pool"


def test_a_refused_tool_is_a_failure_though_the_exit_code_is_0() -> None:
    error = failed(OPENCODE, lines("o05_noauto"), WELL)
    assert isinstance(error, InvalidReply)
    found = (str(error), error.cost)
    assert found == ("w: it gave up, not allowed to use bash", nanos(0.023451))


def test_cut_off_in_the_middle() -> None:
    killed = failed(OPENCODE, lines("o03_tool_stdin")[:3], Exit(code=-9, at=0.0))
    assert (type(killed), killed.lost, killed.cost) == (MemberError, True, nanos(0.02349))
    gone = failed(OPENCODE, lines("o03_tool_stdin")[:3], WELL)
    assert isinstance(gone, InvalidReply)
