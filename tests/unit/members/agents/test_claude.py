"""The words, the variables and the caps of `claude`."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from fanfold.errors import Terminal
from fanfold.members.agents.claude import Claude
from fanfold.members.agents.dialect import Start
from fanfold.members.agents.dialects import DIALECTS
from fanfold.members.agents.fields import AgentFields
from fanfold.members.agents.worker import WorkerLimits
from fanfold.price import Price, lookup, nanos
from fanfold.work.member import Traits
from tests.unit.members.agents.logs import ASK, NUMBER, WANTED

CLAUDE = Claude()
PLAIN = Traits(id="w", kind="claude", answerer="claude", model="claude-sonnet-4-5", tier="paid")
START = Start(ASK, "/srv/project", "/srv/home", "11111111-2222-4333-8444-555555555555", "fleet-w")
ALWAYS = (
    "claude", "-p", "--input-format", "stream-json", "--replay-user-messages",
    "--output-format", "stream-json", "--verbose", "--include-partial-messages",
    "--permission-mode", "dontAsk",
)  # fmt: skip


def words(setup: AgentFields, traits: Traits = PLAIN, start: Start = START) -> tuple[str, ...]:
    return CLAUDE.words(traits, setup, start).words


def option(name: str, setup: AgentFields, **more: object) -> str | None:
    """The word behind an option; None without it."""
    found = words(setup, **more)  # type: ignore[arg-type]
    return found[found.index(name) + 1] if name in found else None


def test_all_dialects_are_known() -> None:
    assert {name: dialect.name for name, dialect in DIALECTS.items()} == {
        name: name for name in ("claude", "codex", "gemini", "opencode")
    }


def test_a_plain_worker_may_only_look() -> None:
    assert words(AgentFields()) == (
        *ALWAYS, "--tools", "Read,Glob,Grep", "--allowed-tools", "Read", "Glob", "Grep",
        "--model", "claude-sonnet-4-5", "--session-id", START.session, "--name", "fleet-w",
        "--strict-mcp-config",
    )  # fmt: skip


def test_everything_that_can_be_stated() -> None:
    setup = AgentFields(
        program="/opt/claude", fallback_model="haiku", type="reviewer", effort="high", max_turns=30,
        max_budget_usd=0.5, system="Be brief.",
    )  # fmt: skip
    start = msgspec.structs.replace(START, ask=WANTED)
    assert words(setup, start=start) == (
        "/opt/claude", *ALWAYS[1:], "--tools", "Read,Write", "--allowed-tools", "Read", "Write",
        "--model", "claude-sonnet-4-5", "--fallback-model", "haiku", "--effort", "high",
        "--max-turns", "30", "--max-budget-usd", "0.5", "--session-id", START.session,
        "--name", "fleet-w", "--append-system-prompt", "Be brief.",
        "--json-schema", msgspec.json.encode(NUMBER.definition).decode(), "--strict-mcp-config",
    )  # fmt: skip


def test_the_prompt_goes_to_stdin_only() -> None:
    made = CLAUDE.words(PLAIN, AgentFields(), START)
    assert (made.stdin, "do it" in made.words, made.meter) == (b"do it", False, "")


def test_a_session_is_gone_on_with_under_its_own_id() -> None:
    found = words(AgentFields(session="abc"))
    assert (option("--resume", AgentFields(session="abc")), "--session-id" in found) == (
        "abc",
        False,
    )


def test_a_fallback_that_is_the_model_itself_is_left_out() -> None:
    assert option("--fallback-model", AgentFields(fallback_model="claude-sonnet-4-5")) is None


@pytest.mark.parametrize(
    ("budget", "word"), [(1.0, "1"), (0.25, "0.25"), (0.00001, "0.00001"), (1e6, "1000000")]
)
def test_a_budget_is_written_in_plain_decimals(budget: float, word: str) -> None:
    assert option("--max-budget-usd", AgentFields(max_budget_usd=budget)) == word


def test_stated_tools_go_before_the_type() -> None:
    """A rule names its tool for the list of those there are; tools of servers are not in that."""
    found = words(
        AgentFields(type="write", tools=("Read", "Bash(git *)", "Bash(ls *)", "mcp__x__y"))
    )
    at = found.index("--tools")
    assert found[at : at + 7] == (
        "--tools", "Read,Bash", "--allowed-tools", "Read", "Bash(git *)", "Bash(ls *)", "mcp__x__y",
    )  # fmt: skip


def test_no_tools_at_all() -> None:
    found = words(AgentFields(tools=()))
    assert (found[found.index("--tools") + 1], "--allowed-tools" in found) == ("", False)


def test_servers_stated_in_the_roster_are_in_a_file_and_allowed() -> None:
    """The words are for all to see, and a server's settings may hold a key."""
    stated = '{"mcpServers": {"fan": {"command": "x", "env": {"KEY": "secret"}}}}'
    made = CLAUDE.words(PLAIN, AgentFields(mcp=stated), START)
    assert made.files == {"mcp.json": stated.encode()}
    assert made.words[-3:] == ("--strict-mcp-config", "--mcp-config", "/srv/home/mcp.json")
    assert "mcp__fan" in made.words and not any("secret" in word for word in made.words)


def test_servers_stated_in_a_file_beside_the_work(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"a": {}, "b": {}}}')
    start = msgspec.structs.replace(START, folder=str(tmp_path))
    made = CLAUDE.words(PLAIN, AgentFields(mcp="mcp.json"), start)
    assert made.files == {} and made.words[-1] == str(tmp_path / "mcp.json")
    assert {"mcp__a", "mcp__b"} <= set(made.words)


@pytest.mark.parametrize(
    ("stated", "text"),
    [
        ("none.json", "mcp: cannot read /srv/project/none.json: no such file or directory"),
        ('{"servers": {}}', 'mcp: not of the form {"mcpServers": {...}}'),
    ],
)
def test_servers_that_cannot_be_read(stated: str, text: str) -> None:
    with pytest.raises(Terminal) as caught:
        CLAUDE.words(PLAIN, AgentFields(mcp=stated), START)
    assert (str(caught.value), caught.value.scope) == (text, "member")


# ── variables ──


def test_a_claude_inside_another_does_not_know_it() -> None:
    around = {
        "PATH": "/bin", "CLAUDECODE": "1", "CLAUDE_CODE_ENTRYPOINT": "cli", "CLAUDE_PID": "1",
        "CLAUDE_CODE_SSE_PORT": "1", "CLAUDE_CODE_CHILD_SESSION": "1", "CLAUDE_CODE_SIMPLE": "1",
        "CLAUDE_CODE_SESSION_ID": "x", "CLAUDE_CODE_MESSAGING_SOCKET": "x", "IS_SANDBOX": "1",
        "ANTHROPIC_API_KEY": "k",
    }  # fmt: skip
    assert CLAUDE.environment(around, PLAIN, AgentFields()) == {
        "PATH": "/bin", "IS_SANDBOX": "1", "ANTHROPIC_API_KEY": "k", "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "4096", "CLAUDE_CODE_DISABLE_1M_CONTEXT": "1",
    }  # fmt: skip


def test_a_subscription_is_not_billed_to_a_key_that_lies_around() -> None:
    around = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_AUTH_TOKEN": "t", "CLAUDE_CODE_USE_BEDROCK": "1"}
    own = msgspec.structs.replace(PLAIN, tier="subscription")
    assert set(CLAUDE.environment(around, own, AgentFields())) & set(around) == set()
    stated = AgentFields(env={"ANTHROPIC_API_KEY": "env:ANTHROPIC_API_KEY", "X": "1"})
    made = CLAUDE.environment(around, own, stated)
    assert (made["ANTHROPIC_API_KEY"], made["X"]) == ("k", "1")


def test_a_reference_to_nothing_is_an_error() -> None:
    with pytest.raises(Terminal, match="the variable NONE is not set"):
        CLAUDE.environment({}, PLAIN, AgentFields(env={"X": "env:NONE"}))


def test_what_the_roster_states_of_a_context_holds() -> None:
    wide = msgspec.structs.replace(PLAIN, context=1_000_000, max_tokens=32_000)
    made = CLAUDE.environment({}, wide, AgentFields())
    assert made == {"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "32000"}


# ── caps ──

SONNET_CALL = nanos(200_000 * 2 * 3e-6 + 4_096 * 15e-6)  # written to the cache for an hour
LAST_CALL = nanos(64_000 * 2 * 3e-6 + 4_096 * 15e-6)


def test_the_most_is_the_budget_and_a_bounded_last_call() -> None:
    assert CLAUDE.most(PLAIN, AgentFields(max_budget_usd=0.5)) == nanos(0.5) + LAST_CALL


def test_where_an_overrun_is_allowed_only_the_budget_is_reserved() -> None:
    setup = AgentFields(max_budget_usd=0.5, overrun="allow")
    assert CLAUDE.most(PLAIN, setup) == nanos(0.5)
    assert CLAUDE.bounds(PLAIN, setup).most is None


def test_without_a_budget_it_is_as_many_calls_as_turns() -> None:
    assert CLAUDE.most(PLAIN, AgentFields(max_turns=3)) == 3 * SONNET_CALL


def test_without_either_nothing_bounds_it() -> None:
    assert CLAUDE.most(PLAIN, AgentFields()) is None


def test_a_stated_price_and_context_count() -> None:
    stated = Price(input=1.0, output=2.0, cache_write=3.0, call=0.25)
    traits = msgspec.structs.replace(PLAIN, price=stated, context=10_000, max_tokens=1_000)
    call = nanos(0.25 + 10_000 * 3e-6 + 1_000 * 2e-6)
    assert CLAUDE.most(traits, AgentFields(max_budget_usd=1.0)) == nanos(1.0) + call


def test_the_dearer_of_model_and_fallback_counts() -> None:
    """Also where the price of the model itself was looked up, as a roster does; and one of several
    that may take over, or that its subagents use."""
    listed = msgspec.structs.replace(PLAIN, price=lookup("claude-sonnet-4-5", "anthropic"))
    opus, call = "claude-opus-4-1", nanos(64_000 * 30e-6 + 4_096 * 75e-6)
    for setup in (
        AgentFields(max_budget_usd=1.0, fallback_model=opus),
        AgentFields(max_budget_usd=1.0, fallback_model=f"haiku,{opus}"),
        AgentFields(max_budget_usd=1.0, env={"CLAUDE_CODE_SUBAGENT_MODEL": opus}),
    ):
        assert CLAUDE.most(listed, setup) == CLAUDE.most(PLAIN, setup) == nanos(1.0) + call


def test_a_listed_price_does_not_price_the_calls_of_a_fallback() -> None:
    """Each call is billed by the model that answered it; only a stated price goes before that."""
    listed = msgspec.structs.replace(PLAIN, price=lookup("claude-sonnet-4-5", "anthropic"))
    stated = Price(input=1.0, output=2.0)
    assert CLAUDE.rates(listed) is None
    assert CLAUDE.rates(msgspec.structs.replace(PLAIN, price=stated)) == stated


def test_an_unknown_model_has_no_bound() -> None:
    assert (
        CLAUDE.most(msgspec.structs.replace(PLAIN, model="x-1"), AgentFields(max_turns=3)) is None
    )


def test_the_host_sees_to_time_and_silence() -> None:
    traits = msgspec.structs.replace(PLAIN, timeout=60.0)
    setup = AgentFields(silence=30.0, max_budget_usd=1.0, max_turns=5)
    most = nanos(1.0) + LAST_CALL
    assert CLAUDE.bounds(traits, setup) == WorkerLimits(
        seconds=60.0, silence=30.0, turns=5, most=most
    )
    assert (
        CLAUDE.bounds(msgspec.structs.replace(PLAIN, timeout=0.0), AgentFields()) == WorkerLimits()
    )


def test_the_host_counts_dollars_that_claude_does_not_know() -> None:
    """Its own table does not know what a gateway charges."""
    traits = msgspec.structs.replace(PLAIN, timeout=0.0, price=Price(input=30.0, output=150.0))
    assert CLAUDE.bounds(traits, AgentFields(max_budget_usd=1.0)).usd == nanos(1.0)
