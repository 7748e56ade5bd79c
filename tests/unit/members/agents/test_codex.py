"""The dialect of codex, on events and rollouts that the real one wrote (tests/data/agent_clis)."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fanfold.errors import InvalidReply, MemberError, RateLimited, Terminal, Transient
from fanfold.members.agents.codex import Codex
from fanfold.members.agents.codex_meter import CodexMeter
from fanfold.members.agents.codex_reader import CodexReader, failed
from fanfold.members.agents.dialect import EventLine, Start, required_servers
from fanfold.members.agents.fields import AgentFields
from fanfold.members.agents.logs import meter_files
from fanfold.members.agents.worker import Exit, Why, WorkerLimits
from fanfold.price import Price, cost, nanos
from fanfold.run.cost import cost_of_error, error_is_upper_bound
from fanfold.work.ask import Ask, Message, Reply, Schema, Usage
from fanfold.work.budget import Amount
from fanfold.work.member import Traits

DATA = Path(__file__).parents[3] / "data" / "agent_clis"
PRICE = Price(input=1.25, output=10.0, cache_read=0.125)
FIRST = nanos(32_000 * 1.25e-6)
CALL = FIRST + nanos(128_000 * 10e-6)
BEGUN = FIRST + nanos(4_096 * 10e-6)
LAST_CALL = 2 * nanos(64_000 * 1.25e-6) + nanos((32_000 + 4_096) * 10e-6)
PLAIN = Ask(messages=(Message("user", "Say hello"),))
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
AROUND = {"PATH": "/bin", "HOME": "/u", "OPENAI_API_KEY": "sk-o", "CODEX_API_KEY": "sk-c"}


def traits(**more: Any) -> Traits:
    return Traits(id="w", kind="codex", answerer="codex:gpt-5.5", model="gpt-5.5", **more)


def read(
    *logs: str, rollout: str = "", resumed: bool = False, price: Price | None = PRICE
) -> CodexReader:
    reader = Codex().reader(price, resumed=resumed)
    for log in logs:
        for line in (DATA / log).read_bytes().splitlines():
            reader.feed(line)
    for line in (DATA / rollout).read_bytes().splitlines() if rollout else ():
        reader.meter(line)
    return reader


def ended(reader: CodexReader, code: int = 0, why: Why = "", ask: Ask = PLAIN) -> Any:
    return Codex().conclude("w", reader.reading, Exit(code=code, at=0.0, why=why), ask)


# ── words ────────────────────────────────────────────────────────────────────────────────────


def words(
    setup: AgentFields, ask: Ask = PLAIN, folder: str = "/lab", **more: Any
) -> tuple[str, ...]:
    start = Start(ask, folder, f"{folder}/workers/w", "unused", "w")
    return Codex(AROUND).words(traits(**more), setup, start).words


def settings(found: tuple[str, ...]) -> dict[str, str]:
    """What stands behind each `-c`."""
    stated = [found[at + 1] for at, word in enumerate(found) if word == "-c"]
    return dict(setting.split("=", 1) for setting in stated)


def test_the_words_of_a_plain_worker() -> None:
    start = Start(PLAIN, "/lab", "/lab/workers/w", "unused", "w")
    made = Codex(AROUND).words(traits(), AgentFields(type="write", program="/opt/codex"), start)
    assert made.words[:10] == (
        "/opt/codex", "exec", "--json", "-m", "gpt-5.5", "-s", "workspace-write", "-C", "/lab",
        "--skip-git-repo-check",
    )  # fmt: skip
    assert made.words[10:12] == ("-o", "/lab/workers/w/last-message.txt")
    assert made.words[-1] == "-"
    assert (made.stdin, made.files) == (b"Say hello", {})
    assert made.meter == "/u/.codex/sessions/*/*/*/rollout-*-{session}.jsonl"
    assert settings(made.words) == {
        "analytics.enabled": "false",
        "check_for_update_on_startup": "false",
        "features.plugins": "false",
        "features.apps": "false",
        "agents.enabled": "false",
        "features.goals": "false",
        "shell_environment_policy.ignore_default_excludes": "false",
        "web_search": '"disabled"',
        "sandbox_workspace_write.network_access": "false",
    }


@pytest.mark.parametrize(
    ("type", "sandbox", "network", "search"),
    [
        (None, "read-only", None, '"disabled"'),
        ("read-only", "read-only", None, '"disabled"'),
        ("write", "workspace-write", "false", '"disabled"'),
        ("code-run", "workspace-write", "false", '"disabled"'),
        ("research", "workspace-write", "true", '"live"'),
        ("reviewer", "workspace-write", "false", '"disabled"'),
        ("orchestrator", "workspace-write", "false", '"disabled"'),
    ],
)
def test_what_a_type_may_do(type: Any, sandbox: str, network: str | None, search: str) -> None:
    """Network for research alone."""
    found = words(AgentFields(type=type))
    assert found[found.index("-s") + 1] == sandbox
    stated = settings(found)
    assert stated.get("sandbox_workspace_write.network_access") == network
    assert stated["web_search"] == search


def test_a_stated_sandbox_and_network_go_before_the_type() -> None:
    found = words(AgentFields(type="read-only", sandbox="workspace-write", network=True))
    assert found[found.index("-s") + 1] == "workspace-write"
    assert settings(found)["sandbox_workspace_write.network_access"] == "true"


def test_a_session_is_resumed_after_all_options() -> None:
    """After `resume`, codex takes no `-s` any more."""
    found = words(AgentFields(session="01a1"))
    assert found[-3:] == ("resume", "01a1", "-")
    assert found.index("-s") < found.index("resume")


def test_effort_and_instructions() -> None:
    stated = settings(words(AgentFields(effort="high", system='Say "yes"\nor no')))
    assert stated["model_reasoning_effort"] == '"high"'
    assert stated["developer_instructions"] == '"Say \\"yes\\"\\nor no"'


def test_an_output_folder_elsewhere_may_be_written_to(tmp_path: Path) -> None:
    """Only one that is there: with a missing one the sandbox does not start."""
    start = Start(PLAIN, "/tree", str(tmp_path), "unused", "w")
    name = "sandbox_workspace_write.writable_roots"

    def roots() -> str | None:
        made = Codex(AROUND).words(traits(), AgentFields(type="write"), start)
        return settings(made.words).get(name)

    assert roots() is None
    (tmp_path / "output").mkdir()
    assert roots() == f'["{tmp_path}/output"]'


def test_a_schema_is_handed_over_in_a_file() -> None:
    ask = Ask(messages=PLAIN.messages, schema=Schema.of(SCHEMA))
    start = Start(ask, "/lab", "/lab/workers/w", "unused", "w")
    made = Codex(AROUND).words(traits(), AgentFields(), start)
    at = made.words.index("--output-schema")
    assert made.words[at + 1] == "/lab/workers/w/schema.json"
    assert msgspec.json.decode(made.files["schema.json"]) == SCHEMA


def test_mcp_servers_are_translated(tmp_path: Path) -> None:
    """Values that are references stay so: codex passes the variable on by itself."""
    servers = {
        "a": {"command": "serve", "args": ["-x", 'q"'], "env": {"K": "v", "KEY": "env:KEY"}},
        "b": {"type": "http", "url": "http://127.0.0.1/mcp", "headers": {"X": "y"}},
    }
    text = msgspec.json.encode({"mcpServers": servers})
    (tmp_path / "mcp.json").write_bytes(text)
    for stated in (text.decode(), "mcp.json"):
        found = settings(words(AgentFields(mcp=stated), folder=str(tmp_path)))
        assert found["mcp_servers.a"] == (
            '{"command"="serve","args"=["-x","q\\""],"env"={"K"="v"},"env_vars"=["KEY"],'
            '"required"=true,"default_tools_approval_mode"="approve","startup_timeout_sec"=60,'
            '"tool_timeout_sec"=86400}'
        )
        assert found["mcp_servers.b"] == (
            '{"url"="http://127.0.0.1/mcp","http_headers"={"X"="y"},'
            '"required"=true,"default_tools_approval_mode"="approve","startup_timeout_sec"=60,'
            '"tool_timeout_sec"=86400}'
        )


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ("no.json", "w: `mcp`: the file /lab/no.json cannot be read: no such file or directory"),
        ("{}", 'w: `mcp`: it must be JSON: {"mcpServers": {...}}'),
        ('{"mcpServers": []}', "w: `mcp`: `mcpServers` must be a table of servers"),
        ('{"mcpServers": {"a b": {}}}', "w: `mcp`: the server `a b` cannot be read"),
        ('{"mcpServers": {"a": {}}}', "w: `mcp`: the server `a` needs a `command` or a `url`"),
    ],
)
def test_mcp_that_cannot_be_read(stated: str, said: str) -> None:
    with pytest.raises(Terminal) as caught:
        words(AgentFields(mcp=stated))
    assert (str(caught.value), caught.value.scope) == (said, "member")


# ── environment, bounds, money ───────────────────────────────────────────────────────────────


def test_a_subscription_is_not_paid_by_a_key_that_lies_around() -> None:
    inside = {**AROUND, "CODEX_THREAD_ID": "t", "CODEX_SANDBOX_NETWORK_DISABLED": "1"}
    made = Codex().environment(inside, traits(tier="subscription"), AgentFields())
    assert made == {"PATH": "/bin", "HOME": "/u"}


def test_a_key_that_is_stated_is_given_and_looked_up_late() -> None:
    setup = AgentFields(env={"CODEX_API_KEY": "env:CODEX_API_KEY", "A": "b"})
    made = Codex().environment(AROUND, traits(tier="subscription"), setup)
    assert made == {"PATH": "/bin", "HOME": "/u", "CODEX_API_KEY": "sk-c", "A": "b"}
    assert Codex().environment(AROUND, traits(tier="paid"), AgentFields()) == AROUND


def test_the_rollout_is_where_the_program_will_put_it() -> None:
    start = Start(PLAIN, "/lab", "/lab/w", "unused", "w")
    at = {
        name: Codex({**AROUND, "CODEX_HOME": "/around[1]"}).words(
            traits(), AgentFields(env=env), start
        )
        for name, env in {"around": {}, "stated": {"CODEX_HOME": "/own"}}.items()
    }
    tail = "sessions/*/*/*/rollout-*-{session}.jsonl"
    assert at["around"].meter == f"/around[[]1]/{tail}"
    assert at["stated"].meter == f"/own/{tail}"
    moved = Codex(AROUND).words(traits(), AgentFields(env={"HOME": "/h"}), start)
    assert moved.meter == f"/h/.codex/{tail}"


def test_the_host_carries_out_what_codex_cannot() -> None:
    setup = AgentFields(max_budget_usd=2.0, max_turns=7, silence=60.0)
    found = Codex().bounds(traits(price=PRICE, timeout=900.0), setup)
    most = nanos(2.0) + LAST_CALL
    assert found == WorkerLimits(seconds=900.0, silence=60.0, usd=2_000_000_000, turns=7, most=most)
    allowed = Codex().bounds(traits(price=PRICE), AgentFields(max_budget_usd=2.0, overrun="allow"))
    assert (allowed.usd, allowed.most) == (2_000_000_000, None)
    unpriced = Codex().bounds(traits(timeout=0.0), AgentFields(max_budget_usd=2.0))
    assert unpriced == WorkerLimits()


def test_the_most_is_the_cap_and_the_calls_that_can_pass_it() -> None:
    setup = AgentFields(max_budget_usd=2.0)
    assert Codex().most(traits(price=PRICE), setup) == nanos(2.0) + LAST_CALL
    allowed = AgentFields(max_budget_usd=2.0, overrun="allow")
    assert Codex().most(traits(price=PRICE), allowed) == nanos(2.0)
    small = Codex().most(traits(price=PRICE, context=100_000), setup)
    assert small == nanos(2.0) + 2 * nanos(0.125) + nanos((32_000 + 4_096) * 10e-6)
    assert Codex().most(traits(price=PRICE), AgentFields()) is None
    assert Codex().most(traits(), setup) is None


# ── reading ──────────────────────────────────────────────────────────────────────────────────


def test_a_run_that_went_well() -> None:
    reader = read("x01_trivial.jsonl")
    reading = reader.reading
    usage = Usage(input=700, output=100, cache_read=300)
    assert (reading.text, reading.usage, reading.exact) == ("Hello world", usage, True)
    assert reading.cost == cost(PRICE, 700, 100, 300)
    assert (reading.session, reading.turns) == ("01a1e0c1-62c8-7cf0-baae-2d52044d2c9a", 1)
    assert ended(reader) == Reply(text="Hello world", usage=usage, cost_usd=0.0019125)


def test_lines_for_people() -> None:
    told = [
        told
        for line in (DATA / "x06_bypass.jsonl").read_bytes().splitlines()
        for told in Codex().reader(None).feed(line)
    ]
    assert [(one.kind, one.name) for one in told] == [
        ("system", "thread.started"), ("tool", "item.started"), ("result", "item.completed"),
        ("result", "item.completed"), ("thought", "item.completed"), ("text", "item.completed"),
        ("done", "turn.completed"),
    ]  # fmt: skip
    assert told[3] == EventLine("result", "add /lab (completed)", name="item.completed")


def test_what_is_no_event_is_passed_over() -> None:
    reader = Codex().reader(PRICE)
    for line in (b"", b"Warning: hm", b"[1]", b'{"type": 3}', b'{"type": "item.completed"}',
                 b'{"type": "turn.completed", "usage": {"input_tokens": "x"}}', b"\xff{"):  # fmt: skip
        reader.feed(line)
        reader.meter(line)
    assert (reader.reading.usage, reader.reading.text) == (Usage(), "")


def test_the_rollout_tells_each_reply_as_it_comes() -> None:
    """Cost and turns grow with every record, before the log says anything about tokens."""
    reader, seen = Codex().reader(PRICE), []
    for line in (DATA / "x50_rollout_tools.jsonl").read_bytes().splitlines():
        reader.meter(line)
        if not seen or seen[-1] != reader.reading.cost:
            seen.append(reader.reading.cost)
    each = [(1000, 100, 300, 0), (1500, 100, 300, 50), (2000, 50, 1000, 0)]
    sums = [sum(cost(PRICE, *one) for one in each[:many]) for many in range(4)]
    assert seen == sums
    assert (reader.reading.turns, reader.reading.model) == (3, "gpt-5.5")
    assert reader.reading.usage == Usage(4500, 250, 1600, 50)


def test_compactions_are_counted_and_sums_are_not_counted_again() -> None:
    reader = read(rollout="x52_rollout_compacted.jsonl")
    assert (reader.reading.turns, reader.reading.usage) == (3, Usage(170_005, 300))


def test_a_resumed_run_counts_its_own_part_only() -> None:
    """Its log says 2,000 tokens, of which 1,000 are an earlier run's."""
    reader = Codex().reader(PRICE, resumed=True)
    lines = (DATA / "x51_rollout_resumed.jsonl").read_bytes().splitlines()
    own = [line for line in lines if line > b'{"timestamp":"2026-11-16T03:51:38.500']
    done = b'{"type":"turn.completed","usage":{"input_tokens":4600,"output_tokens":60}}'
    for line in own:
        reader.meter(line)
    reader.feed(done)
    assert (reader.reading.usage, reader.reading.exact) == (Usage(1300, 20), True)
    backwards = Codex().reader(PRICE, resumed=True)
    backwards.feed(done)
    for line in own:
        backwards.meter(line)
    assert backwards.reading.usage == Usage(1300, 20)


def test_a_resumed_run_without_a_rollout_is_no_exact_figure() -> None:
    reader = read("x14_resume.jsonl", resumed=True)
    assert (reader.reading.usage, reader.reading.exact) == (Usage(2000, 20), False)


def test_without_records_the_sums_serve() -> None:
    """An older codex has only those; they repeat, and begin where the thread stood before."""
    meter = CodexMeter(PRICE, resumed=True)
    for whole, last in ((1500, 500), (1500, 500), (2600, 1100)):
        info = {
            "total_token_usage": {"input_tokens": whole, "output_tokens": whole // 100},
            "last_token_usage": {"input_tokens": last, "output_tokens": last // 100},
        }
        payload = {"type": "token_count", "info": info}
        meter.feed(msgspec.json.encode({"type": "event_msg", "payload": payload}))
    assert (meter.usage, meter.replies) == (Usage(1600, 16), 2)


def test_a_call_is_under_way_until_its_record_and_after_its_tools() -> None:
    reader, states = Codex().reader(PRICE), []
    reader.feed(b'{"type":"turn.started"}')
    states.append(reader.reading.under_way)
    for line in (DATA / "x50_rollout_tools.jsonl").read_bytes().splitlines():
        reader.meter(line)
        if states[-1] != reader.reading.under_way:
            states.append(reader.reading.under_way)
    assert states == [True, False, True, False, True, False]


# ── how it ended ─────────────────────────────────────────────────────────────────────────────


def test_what_was_asked_as_data_is_parsed_and_no_more() -> None:
    ask = Ask(schema=Schema.of(SCHEMA))
    reader = read("x01_trivial.jsonl")
    assert (ended(reader, ask=ask).text, ended(reader, ask=ask).data) == ("Hello world", None)
    item = {"type": "agent_message", "text": '{"n": 1}'}
    reader.feed(msgspec.json.encode({"type": "item.completed", "item": item}))
    assert ended(reader, ask=ask).data == {"n": 1}


def test_reconnecting_is_not_the_end() -> None:
    reader = Codex().reader(PRICE)
    for line in (DATA / "x20_500.jsonl").read_bytes().splitlines()[:4]:
        reader.feed(line)
    assert (reader.reading.ended, reader.reading.retries) == (False, 2)


@pytest.mark.parametrize(
    ("log", "kind"), [("x20_500.jsonl", Transient), ("x21_429.jsonl", RateLimited)]
)
def test_a_failed_turn_is_free_where_nothing_was_answered(log: str, kind: type) -> None:
    error = ended(read(log), code=1)
    assert type(error) is kind
    assert (error.cost, error.usage, error.lost) == (0, Usage(), False)


@pytest.mark.parametrize(
    ("words", "kind", "scope"),
    [
        ("Quota exceeded. Check your plan and billing details.", Terminal, "pool"),
        ("You've hit your usage limit. Try again at 3:05 PM.", Terminal, "pool"),
        ("unexpected status 401 Unauthorized: Incorrect API key provided.", Terminal, "pool"),
        ("unexpected status 403 Forbidden: Not allowed., url: http://h/", Terminal, "pool"),
        ("Missing environment variable: `FAKE_API_KEY`.", Terminal, "pool"),
        ("The model does not exist.", Terminal, "member"),
        ("The model `nono` does not exist or you do not have access to it.", Terminal, "member"),
        ('{"error":{"message":"It is not valid.","code":null}}', Terminal, "ask"),
        ("unexpected status 413 Payload Too Large: no", Terminal, "ask"),
        ("Incomplete response returned, reason: max_output_tokens", Terminal, "ask"),
        ("exceeded retry limit, last status: 429 Too Many Requests", RateLimited, None),
        ("unexpected status 503 Service Unavailable: overloaded", Transient, None),
        ("stream disconnected before completion: error sending request", Transient, None),
        ("something nobody has seen", Transient, None),
    ],
)
def test_failures_by_their_words(words: str, kind: type, scope: str | None) -> None:
    error = failed("w", words)
    assert (type(error), getattr(error, "scope", None)) == (kind, scope)
    assert str(error).startswith("w: ") and "{" not in str(error)


@pytest.mark.parametrize(
    "words",
    [
        '{"error":{"message":"Your input exceeds it.","code":"context_length_exceeded"}}',
        "Codex ran out of room in the model's context window.",
    ],
)
def test_a_prompt_that_is_too_long(words: str) -> None:
    error = failed("w", words)
    assert isinstance(error, Terminal) and (error.scope, error.too_long) == ("ask", True)


def test_killed_by_a_stranger_it_is_lost_with_its_session_and_one_call() -> None:
    error = ended(read("x40_term_api.jsonl"), code=-9)
    assert str(error) == (
        "w: ended by signal 9 without a result; its session is 01a1e0c3-162a-7f00-aa1b-c282bb98916a"
    )
    assert (type(error), error.lost, error.cost, error.bound) == (MemberError, True, CALL, True)


def test_killed_in_a_call_it_took_at_most_the_context_as_it_stands() -> None:
    """The rollout tells how large that is, and since when the model was asked: what it can have
    written by then bounds the reply."""
    reader = read("x40_term_api.jsonl")
    rollout = (DATA / "x50_rollout_tools.jsonl").read_bytes().splitlines()
    back = next(n for n, line in enumerate(rollout) if b"function_call_output" in line)
    for line in rollout[: back + 1]:
        reader.meter(line)
    asked = datetime.fromisoformat("2026-11-16T03:48:06.866Z").timestamp()
    error = Codex().conclude("w", reader.reading, Exit(code=-9, at=asked + 3, why="killed"), PLAIN)
    context = 1_400 + len(rollout[back])
    assert isinstance(error, MemberError) and error.cost is not None
    spent = cost(PRICE, 1000, 100, 300)
    assert error.cost == spent + cost(PRICE, context, 1_024 + 3_000)
    assert error.bound


def test_the_next_call_is_foreseen_only_where_a_tool_was_called() -> None:
    reader, seen = read("x40_term_api.jsonl"), []
    for line in (DATA / "x50_rollout_tools.jsonl").read_bytes().splitlines():
        reader.meter(line)
        seen.append(reader.reading.next_call())
    called = cost(PRICE, 1_400, 32_000)
    assert (called in seen, seen[0], seen[-1]) == (True, 0, 0)


def test_killed_while_a_tool_ran_it_took_what_was_metered() -> None:
    reader = read("x40_term_api.jsonl")
    for line in (DATA / "x50_rollout_tools.jsonl").read_bytes().splitlines()[:8]:
        reader.meter(line)
    error = ended(reader, code=-15, why="killed")
    assert (error.cost, error.usage) == (cost(PRICE, 1000, 100, 300), Usage(1000, 100, 300))
    assert isinstance(error, Terminal) and "killed by the operator" in str(error)


def test_stopped_at_its_budget_the_next_call_has_only_begun() -> None:
    error = ended(read("x40_term_api.jsonl"), code=-15, why="budget")
    assert (error.cost, error.lost) == (BEGUN, False)


def test_an_answer_that_came_before_the_order_to_end_is_an_answer() -> None:
    assert isinstance(ended(read("x01_trivial.jsonl"), code=0, why="budget"), Reply)


def test_a_reply_that_was_torn_off_may_have_been_paid() -> None:
    reader = Codex().reader(PRICE)
    reader.feed(b'{"type":"turn.started"}')
    torn = "stream disconnected before completion: Transport error: network error"
    reader.feed(msgspec.json.encode({"type": "turn.failed", "error": {"message": torn}}))
    error = ended(reader, code=1)
    assert (type(error), error.cost, reader.reading.exact) == (Transient, CALL, False)


def test_what_answered_and_left_no_figures_counts_with_its_reservation() -> None:
    """No rollout was found, and a turn that failed tells no usage. One that was refused took nothing."""
    broke = msgspec.json.encode({"type": "turn.failed", "error": {"message": "no"}})
    said = {"type": "item.completed", "item": {"type": "agent_message", "text": "half"}}
    found = []
    for events in ((msgspec.json.encode(said), broke), (broke,)):
        reader = Codex().reader(PRICE)
        for event in (b'{"type":"turn.started"}', *events):
            reader.feed(event)
        error = ended(reader, code=1)
        spent = cost_of_error(error, Amount(7, 8, 1))
        found.append((error.cost, spent.usd, error_is_upper_bound(error), reader.reading.exact))
    assert found == [(None, 7, True, False), (0, 0, False, True)]


def test_it_never_began() -> None:
    error = ended(Codex().reader(PRICE), code=1)
    assert isinstance(error, Terminal)
    assert str(error).startswith("w: exit code 1 without output")


def test_a_required_server_that_did_not_start_is_named() -> None:
    """As codex 0.166.0 says it, twice, before its first event."""
    why = "fanfold: No such file or directory (os error 2)"
    said = f"ERROR codex_core::session: required MCP servers failed to initialize: {why} Error:" \
        f" thread/start: required MCP servers failed to initialize: {why} (code -32603)"  # fmt: skip
    error = required_servers("w", said)
    assert error is not None
    assert (str(error), error.scope) == (
        "w: its MCP server `fanfold` did not start: No such file or directory (os error 2)", "member",
    )  # fmt: skip
    assert required_servers("w", "Error: something else") is None


def test_an_exit_code_beside_a_result_is_no_reply() -> None:
    assert isinstance(ended(read("x01_trivial.jsonl"), code=3), InvalidReply)


def test_without_a_price_only_tokens_are_told() -> None:
    reader = read("x40_term_api.jsonl", rollout="x50_rollout_tools.jsonl", price=None)
    error = ended(reader, code=-9)
    assert (error.cost, error.usage) == (None, Usage(4500, 250, 1600, 50))


def test_files_of_a_session_are_found_by_its_name_alone(tmp_path: Path) -> None:
    pattern = f"{tmp_path}/*/rollout-*-{{session}}.jsonl"
    for name in ("ab", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"rollout-1-{name}.jsonl").touch()
    assert meter_files(pattern, "b") == [tmp_path / "b" / "rollout-1-b.jsonl"]
    assert meter_files(pattern, "") == meter_files(pattern, "*") == meter_files("", "b") == []
