"""How a run of claude ended: a reply, or a typed error with what it took all the same."""

from __future__ import annotations

import msgspec
import pytest

from fanfold.errors import InvalidReply, MemberError, RateLimited, Terminal, Transient
from fanfold.members.agents.claude import Claude
from fanfold.members.agents.worker import Exit, Why
from fanfold.price import nanos
from fanfold.work.ask import Reply, Usage
from tests.unit.members.agents.logs import WANTED, ended, failed, lines, without_results

CLAUDE = Claude()
WELL, BADLY = Exit(code=0, at=0.0), Exit(code=1, at=0.0)
SESSION = "its session is 45b63e4e-7738-4fad-9983-bce8dad423c0"


def test_success() -> None:
    assert ended(CLAUDE, lines("c01_trivial"), WELL) == Reply(
        "Hello world", usage=Usage(1000, 100, 2000, 500), model="claude-sonnet-4-5",
        cost_usd=0.006975,
    )  # fmt: skip


@pytest.mark.parametrize("status", ["failed", "needs-auth", "disabled"])
def test_an_answer_without_the_servers_it_was_given_is_none(status: str) -> None:
    """What it took counts, and nothing more is sent to this member."""
    error = failed(CLAUDE, served("c01_trivial", status), WELL)
    assert isinstance(error, Terminal)
    assert (error.scope, error.cost, str(error)) == (
        "member", nanos(0.006975),
        "w: its MCP server `fanfold` did not start, so it lacks the tools it needs;"
        " start it by hand to see why",
    )  # fmt: skip


@pytest.mark.parametrize("status", ["connected", "pending", None])
def test_servers_that_are_there_or_may_come_are_no_failure(status: str | None) -> None:
    assert isinstance(ended(CLAUDE, served("c01_trivial", status), WELL), Reply)


def served(log: str, status: str | None) -> list[bytes]:
    """A log whose first event tells of a server."""
    first, *rest = lines(log)
    event = msgspec.json.decode(first)
    event["mcp_servers"] = [{"name": "fanfold", "status": status}, 7]
    return [msgspec.json.encode(event), *rest]


def test_the_answer_by_a_schema() -> None:
    made = ended(CLAUDE, lines("c28_schema"), WELL, WANTED)
    assert isinstance(made, Reply) and made.data == {"name": "bob", "n": 3}


def test_the_model_that_took_over_gave_the_answer() -> None:
    made = ended(CLAUDE, lines("c26_fallback"), WELL)
    assert isinstance(made, Reply) and made.model == "claude-haiku-4-5"


def test_a_refusal_is_a_reply_for_the_gate() -> None:
    made = ended(CLAUDE, lines("c85_refusal"), BADLY)
    assert isinstance(made, Reply)
    assert (made.finish, made.usage, made.cost_usd) == ("refusal", Usage(42_775, 40), 0.128925)


@pytest.mark.parametrize(
    ("log", "text", "cost"),
    [
        ("c10_budget", "w: stopped at its budget of $0.5", 0.63),
        ("c11_budget_first", "w: stopped at its budget of $0.01", 0.315),
        ("c12_maxturns", "w: stopped at its limit of turns: 2", 0.63),
        ("c84_stop_maxtok",
         "w: a reply was longer than one call may be; raise its max_tokens", 0.258876),
    ],
)  # fmt: skip
def test_a_limit_that_it_kept_to_itself(log: str, text: str, cost: float) -> None:
    error = failed(CLAUDE, lines(log), BADLY)
    assert isinstance(error, Terminal)
    assert (str(error), error.scope, error.lost, error.cost) == (text, "ask", False, nanos(cost))
    assert error.usage.total > 0


@pytest.mark.parametrize(
    ("log", "code", "text"),
    [
        ("c29_schema_bad", 1, "w: Failed to provide valid structured output after 2 attempts"),
        ("c30_schema_never", 0, "w: it never gave the data that the schema asks for"),
    ],
)
def test_a_schema_that_was_never_satisfied(log: str, code: int, text: str) -> None:
    """The second is silent: exit code 0, and no error told."""
    error = failed(CLAUDE, lines(log), Exit(code=code, at=0.0), WANTED)
    assert isinstance(error, InvalidReply) and str(error).startswith(text)
    assert error.cost is not None and error.cost > nanos(0.129)


@pytest.mark.parametrize(
    ("log", "kind", "scope"),
    [
        ("c18_500_retry2", Transient, None),
        ("c97_fallback429", RateLimited, None),
        ("c15_model404", Terminal, "member"),
    ],
)
def test_an_error_of_the_server(log: str, kind: type[MemberError], scope: str | None) -> None:
    error = failed(CLAUDE, lines(log), BADLY)
    found = (type(error), getattr(error, "scope", None), error.cost, error.lost)
    assert found == (kind, scope, 0, False)


@pytest.mark.parametrize(
    ("status", "kind", "scope"),
    [
        (401, Terminal, "pool"), (403, Terminal, "pool"), (400, Terminal, "ask"),
        (413, Terminal, "ask"), (529, RateLimited, None), (503, Transient, None),
        (None, Transient, None),
    ],
)  # fmt: skip
def test_the_status_says_what_it_means(
    status: int | None, kind: type[MemberError], scope: str | None
) -> None:
    *before, last = lines("c18_500_retry2")
    result = msgspec.json.encode({**msgspec.json.decode(last), "api_error_status": status})
    error = failed(CLAUDE, [*before, result], BADLY)
    assert (type(error), getattr(error, "scope", None)) == (kind, scope)


def test_too_long_a_prompt_is_known_as_such() -> None:
    *before, last = lines("c18_500_retry2")
    told = {"api_error_status": None, "result": "Prompt is too long"}
    result = msgspec.json.encode({**msgspec.json.decode(last), **told})
    error = failed(CLAUDE, [*before, result], BADLY)
    assert isinstance(error, Terminal) and (error.scope, error.too_long) == ("ask", True)


def test_a_used_up_subscription_closes_the_pool_until_it_comes_back() -> None:
    rejected = (
        b'{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":5000}}'
    )
    *before, last = lines("c97_fallback429")
    error = failed(CLAUDE, [*before, rejected, last], Exit(code=1, at=4000.0))
    assert isinstance(error, Terminal)
    assert (error.scope, error.reset_after) == ("pool", 1000.0)


# ── without a result ──


@pytest.mark.parametrize(
    ("log", "code", "how"),
    [
        ("c40_sigterm_api", 143, "exit code 143"),
        ("c40_sigterm_api", -9, "signal 9"),
        ("c40_sigterm_api", 0, "exit code 0"),
    ],
)
def test_ended_by_a_stranger_it_is_in_doubt(log: str, code: int, how: str) -> None:
    """Its first call was under way: it may have taken all that it starts with, and the longest reply."""
    error = failed(CLAUDE, lines(log), Exit(code=code, at=0.0))
    assert (type(error), error.lost) == (MemberError, True)
    assert str(error) == f"w: ended by {how} without a result; {SESSION}"
    assert (error.cost, error.bound) == (nanos(64_000 * 6e-6 + 32_000 * 15e-6), True)


def test_interrupted_by_sigint_it_gives_no_result_and_exit_code_0() -> None:
    error = failed(CLAUDE, lines("c41_sigint_api"), WELL)
    assert (type(error), error.lost) == (MemberError, True)


def test_what_the_meter_saw_is_not_lost_with_the_result() -> None:
    seen = without_results(lines("c33_partial"))
    error = failed(CLAUDE, seen, Exit(code=-9, at=0.0))
    assert (error.lost, error.cost, error.usage) == (True, nanos(0.064365), Usage(21_355, 20))
    assert not error.bound, "no call was under way"


def test_it_never_began() -> None:
    error = failed(CLAUDE, [], BADLY)
    assert isinstance(error, Terminal) and (error.scope, error.cost) == ("ask", None)
    assert str(error) == "w: exit code 1 without output"


def test_a_session_that_it_does_not_know() -> None:
    unknown = (
        b'{"type":"result","subtype":"error_during_execution","is_error":true,'
        b'"errors":["No conversation found with session ID: x"],"total_cost_usd":0,"usage":{}}'
    )
    error = failed(CLAUDE, [unknown], BADLY)
    assert isinstance(error, Terminal)
    found = (str(error), error.scope, error.cost)
    assert found == ("w: No conversation found with session ID: x", "ask", 0)


# ── ended from outside ──


@pytest.mark.parametrize(
    ("why", "said", "kind", "text"),
    [
        ("killed", "", Terminal, "w: killed by the operator"),
        ("budget", "", Terminal, "w: ended at its budget"),
        ("turns", "", Terminal, "w: ended at its limit of turns"),
        ("time", "ended at its limit of 5 s", Terminal, "w: ended at its limit of 5 s"),
        ("silence", "", Terminal, "w: ended after its limit of silence"),
        ("cancelled", "the run was cancelled", MemberError, "w: the run was cancelled"),
    ],
)
def test_ended_from_outside(why: Why, said: str, kind: type[MemberError], text: str) -> None:
    error = failed(CLAUDE, lines("c40_sigterm_api"), Exit(code=-15, at=0.0, why=why, said=said))
    assert (type(error), str(error)) == (kind, f"{text}; {SESSION}")
    assert error.lost == (kind is not Terminal)
    assert error.cost is not None


def test_a_kill_that_came_too_late_changes_nothing() -> None:
    made = ended(CLAUDE, lines("c01_trivial"), Exit(code=0, at=0.0, why="killed"))
    assert isinstance(made, Reply)


def test_a_result_with_another_exit_code_is_none() -> None:
    error = failed(CLAUDE, lines("c01_trivial"), Exit(code=3, at=0.0))
    assert isinstance(error, InvalidReply)
    assert (str(error), error.cost) == (
        "w: exit code 3 although there is a result", nanos(0.006975),
    )  # fmt: skip
