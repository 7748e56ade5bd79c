"""The dialect of gemini."""

from __future__ import annotations

import pytest

from fanfold.errors import InvalidReply, MemberError, Terminal
from fanfold.members.agents.dialect import Start
from fanfold.members.agents.fields import AgentFields
from fanfold.members.agents.gemini import Gemini
from fanfold.members.agents.worker import Exit, WorkerLimits, WorkerType
from fanfold.price import Price, nanos
from fanfold.work.ask import Reply, Usage
from fanfold.work.member import Traits
from tests.unit.members.agents.logs import ASK, ended, failed, fed, lines

GEMINI = Gemini()
TRAITS = Traits(id="w", kind="gemini", answerer="gemini", model="gemini-2.5-flash", timeout=60.0)
PRICE = Price(input=1.0, output=2.0)
WELL = Exit(code=0, at=0.0)


@pytest.mark.parametrize(
    ("type", "mode"), [(None, "default"), ("research", "auto_edit"), ("code-run", "yolo")]
)
def test_its_words(type: WorkerType | None, mode: str) -> None:
    made = GEMINI.words(TRAITS, AgentFields(type=type), Start(ASK, "/w", "/h", "id", "label"))
    assert (made.words, made.stdin) == (
        ("gemini", "-o", "stream-json", "-m", "gemini-2.5-flash", "--skip-trust",
         "--approval-mode", mode),
        b"do it",
    )  # fmt: skip


def test_only_time_and_silence_bound_it() -> None:
    setup = AgentFields(silence=5.0, max_budget_usd=1.0)
    assert GEMINI.bounds(TRAITS, setup) == WorkerLimits(seconds=60.0, silence=5.0)
    assert GEMINI.most(TRAITS, setup) is None


def test_success_is_priced_by_its_tokens() -> None:
    assert ended(GEMINI, lines("g02_tool_yolo"), WELL, price=PRICE) == Reply(
        "done", usage=Usage(37_047, 60), model="gemini-2.5-flash", cost_usd=0.037167
    )


def test_what_people_are_told() -> None:
    told = [(one.kind, one.text) for one in fed(GEMINI.reader(None), lines("g02_tool_yolo"))]
    assert told == [
        ("system", "session 2b974fa8-42d9-49fa-a896-cade97331587 of gemini-2.5-flash"),
        ("tool", "write_file a.txt"), ("result", "success"),
        ("tool", "run_shell_command id -u; pwd"), ("result", "0"),
        ("text", "do"), ("text", "ne"), ("done", "done"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("log", "code", "scope"), [("g04_500", 144, "ask"), ("g06_403", 147, "pool")]
)
def test_the_status_is_in_the_words_not_in_the_exit_code(log: str, code: int, scope: str) -> None:
    error = failed(GEMINI, lines(log), Exit(code=code, at=0.0), price=PRICE)
    assert isinstance(error, Terminal) and (error.scope, error.cost) == (scope, 0)


def test_a_limit_of_turns() -> None:
    error = failed(GEMINI, lines("g05_maxturns"), Exit(code=53, at=0.0), price=PRICE)
    assert isinstance(error, Terminal)
    assert (str(error), error.cost) == ("w: stopped at its limit of turns", nanos(0.01228))


def test_without_a_result_it_is_in_doubt() -> None:
    error = failed(GEMINI, lines("g02_tool_yolo")[:-1], Exit(code=-9, at=0.0))
    assert (type(error), error.lost) == (MemberError, True)


def test_a_result_with_another_exit_code_is_none() -> None:
    error = failed(GEMINI, lines("g02_tool_yolo"), Exit(code=1, at=0.0))
    assert isinstance(error, InvalidReply)
