"""TangleBrain's roster loads as it stands, and its command lines are asked and read as it does."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from fanfold.errors import BadInput, InvalidReply, MemberError, RateLimited, Terminal, Transient
from fanfold.members.command import CommandFields, CommandMember
from fanfold.members.roster import Roster, load_roster
from fanfold.patterns.delegate_tools import TOOLS
from fanfold.price import FREE, Price
from fanfold.work.ask import Ask, Finish, Message, Reply, Schema, Usage
from fanfold.work.member import Traits, tell_nobody

WHOLE = """\
# a roster as TangleBrain has it: a list
- id: ollama            # on this machine
  tier: local
  invoke:
    kind: openai-compat
    base_url: http://localhost:11434/v1
    model: llama3.2
  cost: free (local)
  good_at: [summarization, classification]
  can_delegate: true

- id: claude
  tier: sub
  invoke:
    kind: cli
    cmd: ["claude", "-p", "--output-format", "json"]
    parse: claude-json
    scrub_env: [ANTHROPIC_API_KEY]
    delegate_args: ["--mcp-config", "{delegate_mcp_json}", "--strict-mcp-config"]
  cost: flat monthly fee
  good_at: [reasoning]
  can_orchestrate: true

- id: agy
  tier: sub
  invoke: {kind: cli, cmd: [agy, -p, "{prompt}"]}

- id: paid
  tier: api
  invoke:
    kind: api
    base_url: https://api.example.test/v1
    model: big-1
    key_ref: env:ZZ_KEY
  enabled: true
  budget_usd_month: 5
"""


def roster(folder: Path, text: str = WHOLE) -> Roster:
    path = folder / "roster.yaml"
    path.write_text(text)
    return load_roster(path)


def of_command(found: Roster, id: str) -> CommandFields:
    fields = found.entries[id].fields
    assert isinstance(fields, CommandFields)
    return fields


def test_a_roster_of_tanglebrain_loads_unchanged(tmp_path: Path) -> None:
    found = roster(tmp_path)
    answerers = {id: entry.traits.answerer for id, entry in found.entries.items()}
    unsent = ("temperature", "top_p", "seed", "stop", "reasoning", "service_tier")
    assert [entry.traits for entry in found.entries.values()] == [
        Traits(
            id="ollama", kind="openai", answerer="openai:llama3.2", model="llama3.2", price=FREE,
            pool="openai:http://localhost:11434/v1:none", tier="local", keeps_time=True,
            good_at=("summarization", "classification"), takes_tools=True, remote=True,
            cost_text="free (local)",
        ),
        Traits(
            id="claude", kind="command", answerer=answerers["claude"], shared=False, pool="claude",
            good_at=("reasoning",), tier="subscription", can_orchestrate=True, can_delegate=False,
            timeout=300.0, keeps_time=True, cost_text="flat monthly fee", unsent=unsent,
        ),
        Traits(
            id="agy", kind="command", answerer=answerers["agy"], shared=False, pool="agy",
            tier="subscription", can_delegate=False, timeout=300.0, keeps_time=True, unsent=unsent,
        ),
        Traits(
            id="paid", kind="openai", answerer="openai:big-1", model="big-1", tier="paid",
            pool="openai:https://api.example.test/v1:env:ZZ_KEY", enabled_written=True,
            can_delegate=False, budget_usd_month=5.0, keeps_time=True, takes_tools=True, remote=True,
        ),
    ]  # fmt: skip
    claude, agy = of_command(found, "claude"), of_command(found, "agy")
    assert (claude.cmd, claude.prompt, claude.parse, claude.scrub_env, claude.delegate_args) == (
        ("claude", "-p", "--output-format", "json"), "argument", "claude-json",
        ("ANTHROPIC_API_KEY",), ("--mcp-config", "{delegate_mcp_json}", "--strict-mcp-config"),
    )  # fmt: skip
    assert (agy.cmd, agy.prompt, agy.parse, found.entries["claude"].traits.price_text) == (
        ("agy", "-p", "{prompt}"), "argument", "plain", "flat monthly fee",
    )  # fmt: skip
    assert (found.entries["paid"].fields.key_reference, found.entries["paid"].line("key")) == (
        "env:ZZ_KEY",
        34,
    )
    assert found.settings.allow_paid is False


@pytest.mark.parametrize(
    ("cost", "price"),
    [("free", FREE), ("Free, on my own machine", FREE), ("0", FREE), ("$0.00", FREE),
     ("subscription", None), ("freemium", None), ("$0.02 a call", None), ("paid", None)],
)  # fmt: skip
def test_a_cost_that_says_free_is_a_price_and_other_words_are_shown(
    tmp_path: Path, cost: str, price: Price | None
) -> None:
    written = f"- id: a\n  tier: sub\n  invoke: {{kind: cli, cmd: [a]}}\n  cost: '{cost}'\n"
    traits = roster(tmp_path, written).entries["a"].traits
    assert (traits.price, traits.price_text) == (price, "free" if price else cost)


def test_a_local_entry_is_delegated_to_without_a_word(tmp_path: Path) -> None:
    """As its `delegate_local` does; others say `can_delegate: true`."""
    lines = [f"- id: {tier}\n  tier: {tier}\n  invoke: {{kind: cli, cmd: [a]}}\n"
             for tier in ("local", "sub", "api")]  # fmt: skip
    lines.append("- {id: no, tier: local, invoke: {kind: cli, cmd: [a]}, can_delegate: false}\n")
    found = roster(tmp_path, "".join(lines)).entries
    assert {id: one.traits.can_delegate for id, one in found.items()} == {
        "local": True, "sub": False, "api": False, "no": False,
    }  # fmt: skip


OURS = ",".join(f"mcp__fanfold__{tool}" for tool in TOOLS)


@pytest.mark.parametrize(
    ("written", "word"),
    [
        ("mcp__tanglebrain-delegate__delegate_local", OURS),
        ("Read,mcp__tanglebrain-delegate__delegate,mcp__tanglebrain-delegate__delegate_many,Bash",
         f"Read,{OURS},Bash"),
        ("mcp__tanglebrain-delegate", OURS),
        ("mcp__other__delegate_local", "mcp__other__delegate_local"),
    ],
)  # fmt: skip
def test_where_its_tools_are_allowed_ours_are(tmp_path: Path, written: str, word: str) -> None:
    args = f'["--mcp-config", "{{delegate_mcp_json}}", "--allowedTools", "{written}"]'
    text = f"- id: a\n  tier: sub\n  invoke: {{kind: cli, cmd: [a], delegate_args: {args}}}\n"
    assert of_command(roster(tmp_path, text), "a").delegate_args[-1] == word


def test_our_own_fields_may_be_added_to_an_entry(tmp_path: Path) -> None:
    more = "  price: {call: 0.5}\n  limits: {concurrency: 2}\n  timeout: 20\n  version: 3\n"
    entry = roster(tmp_path, f"- id: a\n  tier: sub\n  invoke: {{kind: cli, cmd: [a]}}\n{more}")
    traits = entry.entries["a"].traits
    assert (traits.price, traits.limits.concurrency, traits.timeout, traits.shared) == (
        Price(call=0.5), 2, 20.0, True,
    )  # fmt: skip


def test_delegate_args_are_filled_in_for_an_orchestrator(tmp_path: Path) -> None:
    entry = roster(tmp_path).entries["claude"].delegating('{"mcpServers": {}}', "fanfold mcp")
    assert isinstance(entry.fields, CommandFields)
    assert entry.fields.cmd == (
        "claude", "-p", "--output-format", "json", "--mcp-config", '{"mcpServers": {}}',
        "--strict-mcp-config",
    )  # fmt: skip


def entry(fields: str) -> str:
    return "- id: a\n" + "".join(f"  {line}\n" for line in fields.splitlines())


CLI = "tier: sub\ninvoke: {kind: cli, cmd: [a]}\n"
REFUSED = [
    ("- a\n", "1: a member must be a mapping, not the text 'a'"),
    (entry("tier: sub"), "1: an entry needs the field `invoke`"),
    (entry("invoke: {kind: cli, cmd: [a]}"), "1: an entry needs the field `tier`"),
    (entry("kind: command\ncmd: [a]"),
     "1: a list of members belongs under `members:`; write that above it"),
    (entry("tier: gold\ninvoke: {kind: cli, cmd: [a]}"),
     "2: unknown tier `gold`: known: api, local, paid, sub, subscription"),
    (entry("tier: sub\ninvoke: {cmd: [a]}"),
     "3: `invoke` needs the field `kind`: one of openai-compat, cli, api"),
    (entry("tier: sub\ninvoke: cli"), "3: `invoke` must be a mapping, not the text 'cli'"),
    (entry("tier: sub\ninvoke: {kind: clii, cmd: [a]}"),
     "3: unknown kind `clii`: did you mean `cli`?"),
    (entry("tier: sub\ninvoke: {kind: cli}"), "3: an invoke of kind cli needs the field `cmd`"),
    (entry("tier: sub\ninvoke: {kind: cli, cmd: [a], parse: xml}"),
     "3: unknown parse `xml`: known: claude-json, gemini-json, plain"),
    (entry("tier: sub\ninvoke: {kind: cli, cmd: [a], scrub_env: [A-B]}"),
     "3: `A-B` is not the name of an environment variable"),
    (entry("tier: sub\ninvoke: {kind: cli, cmd: ['{prompt}']}"),
     "3: `cmd` must begin with a program, not with {prompt}"),
    (entry("tier: local\ninvoke: {kind: openai-compat, model: x}"),
     "3: an invoke of kind openai-compat needs the field `base_url`"),
    (entry("tier: api\ninvoke: {kind: api, model: x, base_url: 'https://h'}"),
     "3: an invoke of kind api needs the field `key_ref`"),
    (entry("tier: api\ninvoke:\n  kind: api\n  model: x\n  base_url: https://h\n  key_ref: hush"),
     "7: `key_ref` must be env:NAME, file:PATH or none, never the key itself; "
     "put the key into a variable and write env: and its name"),
    (entry(f"{CLI}enabled: 'yes'"), "4: `enabled` must be true or false, not the text 'yes'"),
    (entry(f"{CLI}budget_usd_month: 0"), "4: `budget_usd_month` must be more than 0, not 0"),
    (entry(f"{CLI}can_delegate: 1"), "4: `can_delegate` must be true or false, not the number 1"),
    (entry(f"{CLI}good_att: [b]"), "4: unknown field `good_att` in an entry: "
                                   "did you mean `good_at`?"),
    (entry(CLI) + entry(CLI), "4: duplicate member `a`, first in line 1"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "says"), REFUSED)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(BadInput) as error:
        roster(tmp_path, text)
    assert str(error.value) == f"{tmp_path / 'roster.yaml'}:{says}"


# ── a prompt as an argument ──────────────────────────────────────────────────────────────────


def member(cmd: list[str], **changes: Any) -> CommandMember:
    traits = Traits(id="cli", kind="command", answerer="command:0@run", timeout=30)
    return CommandMember(traits, cmd, Path(), **{"prompt": "argument", **changes})


def asked(cmd: list[str], text: str, **changes: Any) -> Reply:
    schema = changes.pop("schema", None)

    async def once() -> Reply:
        one = member(cmd, **changes)
        ask = Ask((Message("user", text),), schema=schema)
        return await one.ask(one.prepare(ask), tell_nobody)

    return asyncio.run(once())


SHOW = [
    sys.executable,
    "-c",
    "import json, sys; print(json.dumps(sys.argv[1:] + [sys.stdin.read()]))",
]


@pytest.mark.parametrize(
    ("words", "prompt", "argv"),
    [
        (["-x"], "say hi", ["-x", "say hi"]),
        (["-p", "{prompt}", "-x"], "say hi", ["-p", "say hi", "-x"]),
        (["--ask={prompt}"], "a\nb", ["--ask=a\nb"]),
        ([], "$(id) `id` ; * {prompt}", ["$(id) `id` ; * {prompt}"]),
        ([], "--help", [" --help"]),
        (["{prompt}"], "-rf", [" -rf"]),
        (["--ask={prompt}"], "-rf", ["--ask=-rf"]),
    ],
)
def test_the_prompt_is_one_argument_never_an_option_and_stdin_is_closed(
    words: list[str], prompt: str, argv: list[str]
) -> None:
    assert json.loads(asked([*SHOW, *words], prompt).text) == [*argv, ""]


def test_on_stdin_the_words_stay_as_they_are() -> None:
    given = asked([*SHOW, "{prompt}"], "hi", prompt="stdin")
    assert json.loads(given.text) == ["{prompt}", "hi"]


def test_a_prompt_that_no_argument_can_hold_fails_its_item_only() -> None:
    for prompt, too_long in (("x" * 3_000_000, True), ("a\0b", False)):
        with pytest.raises(Terminal) as error:
            asked(["echo"], prompt)
        assert (error.value.scope, error.value.too_long) == ("ask", too_long)


@pytest.mark.parametrize(
    "cmd",
    ["[sh, -c, '{prompt}']", "[/bin/bash, -lc, 'x {prompt}']", "[env, python3, -c, '{prompt}']",
     "[node, --eval, '{prompt}']", "[perl, -w, -e, '{prompt}']", "[ssh, host, run, '{prompt}']"],
)  # fmt: skip
def test_a_text_is_never_run_as_code(tmp_path: Path, cmd: str) -> None:
    with pytest.raises(BadInput, match=r"\{prompt\} after `.+` would be run as code"):
        roster(tmp_path, f"members:\n  - {{id: a, kind: command, cmd: {cmd}}}\n")


@pytest.mark.parametrize(
    ("fields", "prompt"),
    [("cmd: [a, '{prompt}']", "argument"), ("cmd: [a], prompt: argument", "argument"),
     ("cmd: [a, '{prompt}'], prompt: stdin", "stdin"), ("cmd: [a]", "stdin"),
     ("cmd: [sh, -c, 'run \"$1\"', sh, '{prompt}']", "argument"),
     ("cmd: [python3, agent.py, -c, '{prompt}']", "argument")],
)  # fmt: skip
def test_our_own_commands_take_the_prompt_either_way(
    tmp_path: Path, fields: str, prompt: str
) -> None:
    found = roster(tmp_path, f"members:\n  - {{id: a, kind: command, {fields}}}\n")
    assert of_command(found, "a").prompt == prompt


def test_how_a_command_is_given_and_read_is_part_of_who_answers(tmp_path: Path) -> None:
    forms = ("cmd: [a]", "cmd: [a], prompt: argument", "cmd: [a], parse: claude-json",
             "cmd: [a], prompt: stdin, parse: plain")  # fmt: skip
    text = "members:\n" + "".join(
        f"  - {{id: m{n}, kind: command, {form}}}\n" for n, form in enumerate(forms)
    )
    plain, by_argument, parsed, stated = (
        e.traits.answerer for e in roster(tmp_path, text).entries.values()
    )
    assert stated == plain
    assert len({plain, by_argument, parsed}) == 3


def test_scrubbed_variables_do_not_reach_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZZ_SCRUBBED", "secret")
    monkeypatch.setenv("ZZ_PLAIN", "plain")
    found = roster(
        tmp_path, "members:\n  - {id: c, kind: command, cmd: [env], scrub_env: [ZZ_SCRUBBED]}\n"
    )
    one = found.build("c", folder=tmp_path)

    async def output() -> str:
        return (await one.ask(one.prepare(Ask()), tell_nobody)).text

    lines = asyncio.run(output()).splitlines()
    assert [line for line in lines if line.startswith("ZZ_")] == ["ZZ_PLAIN=plain"]


# ── what they print ──────────────────────────────────────────────────────────────────────────


def claude(**changes: Any) -> dict[str, Any]:
    """A result as claude 2.1 gives it."""
    return {
        "type": "result", "subtype": "success", "is_error": False, "result": "the answer",
        "stop_reason": "end_turn", "total_cost_usd": 0.006975, "api_error_status": None,
        "usage": {"input_tokens": 1000, "cache_creation_input_tokens": 500,
                  "cache_read_input_tokens": 2000, "output_tokens": 100},
        "modelUsage": {}, **changes,
    }  # fmt: skip


def printed(parse: str, out: str | dict[str, Any] | list[Any], code: int = 0, **more: Any) -> Reply:
    text = out if isinstance(out, str) else json.dumps(out)
    program = f"import sys; sys.stdout.write(sys.argv[1]); sys.exit({code})"
    return asked([sys.executable, "-c", program, text], "hi", prompt="stdin", parse=parse, **more)


def failed(parse: str, out: str | dict[str, Any], code: int = 1) -> tuple[type[MemberError], str]:
    with pytest.raises(MemberError) as error:
        printed(parse, out, code)
    return type(error.value), str(error.value)


TOKENS = Usage(input=1000, output=100, cache_read=2000, cache_write=500)
BY_MODEL = {"claude-sonnet-4-5": {"inputTokens": 7, "outputTokens": 3, "cacheReadInputTokens": 2,
                                  "cacheCreationInputTokens": 1}}  # fmt: skip
MORE = {"claude-haiku-4-5": {"inputTokens": 10, "outputTokens": 10}}


@pytest.mark.parametrize(
    ("out", "reply"),
    [
        (claude(), Reply("the answer", usage=TOKENS, cost_usd=0.006975)),
        ([{"type": "system"}, claude(result="first"), claude()],
         Reply("the answer", usage=TOKENS, cost_usd=0.006975)),
        ("noise\n" + json.dumps({"type": "system"}) + "\n" + json.dumps(claude()) + "\n",
         Reply("the answer", usage=TOKENS, cost_usd=0.006975)),
        ("a warning\n" + json.dumps(claude(), indent=2),
         Reply("the answer", usage=TOKENS, cost_usd=0.006975)),
        (claude(modelUsage=BY_MODEL),
         Reply("the answer", usage=Usage(7, 3, 2, 1), cost_usd=0.006975, model="claude-sonnet-4-5")),
        (claude(modelUsage={**BY_MODEL, **MORE}),
         Reply("the answer", usage=Usage(17, 13, 2, 1), cost_usd=0.006975)),
        (claude(result=None, total_cost_usd="?", usage=None),
         Reply("", unusable="it reports 0 tokens for a prompt of 2 characters")),
    ],
)  # fmt: skip
def test_the_reply_of_claude_with_its_tokens_and_cost(out: Any, reply: Reply) -> None:
    assert printed("claude-json", out) == reply


def test_a_refusal_of_claude_is_a_reply_that_no_gate_takes() -> None:
    refusal = claude(is_error=True, stop_reason="refusal", result="no")
    assert printed("claude-json", refusal, 1) == Reply(
        "no", usage=TOKENS, cost_usd=0.006975, finish="refusal"
    )


@pytest.mark.parametrize(
    ("parse", "out", "code", "cost", "usage"),
    [("claude-json", claude(is_error=True, total_cost_usd=0.5), 1, 500_000_000, TOKENS),
     ("claude-json", claude(), 1, 6_975_000, TOKENS),
     ("claude-json", claude(is_error=True, total_cost_usd=-5), 1, None, TOKENS),
     ("gemini-json", {"error": "no", "stats": {"models": {"m": {"tokens": {"prompt": 9}}}}}, 1, None,
      Usage(9))],
)  # fmt: skip
def test_a_failure_that_cost_something_says_what(
    parse: str, out: dict[str, Any], code: int, cost: int | None, usage: Usage
) -> None:
    """Without a cost that can be true it counts with all that was reserved."""
    with pytest.raises(InvalidReply) as error:
        printed(parse, out, code)
    assert (error.value.cost, error.value.bound, error.value.usage) == (cost, False, usage)


@pytest.mark.parametrize("cost", [0, -5, "0.36", None])
def test_a_cost_of_claude_that_cannot_be_is_none(cost: Any) -> None:
    """It tells a cost for the tokens of any model."""
    assert printed("claude-json", claude(total_cost_usd=cost)) == Reply("the answer", usage=TOKENS)


@pytest.mark.parametrize(
    ("stop_reason", "finish", "reason"),
    [("end_turn", "stop", ""), ("stop_sequence", "stop", ""), (None, "stop", ""),
     ("max_tokens", "length", ""), ("model_context_window_exceeded", "length", ""),
     ("length", "length", ""), ("error", "other", "error"), ("abort", "other", "abort"),
     ("pause_turn", "other", "pause_turn"), ("tool_use", "other", "tool_use"), (7, "other", "")],
)  # fmt: skip
def test_only_a_known_good_end_of_claude_is_one(
    stop_reason: Any, finish: Finish, reason: str
) -> None:
    found = printed("claude-json", claude(stop_reason=stop_reason))
    assert (found.finish, found.reason) == (finish, reason)


def test_an_end_of_claude_that_is_not_told_is_good_and_so_is_data_by_its_tool() -> None:
    """Older programs leave it out; the tool gives the data that a schema asks for."""
    untold = claude()
    del untold["stop_reason"]
    assert printed("claude-json", untold).finish == "stop"
    data = claude(stop_reason="tool_use", structured_output={"a": 2})
    assert printed("claude-json", data).finish == "stop"


def test_with_a_schema_structured_output_goes_before_the_text() -> None:
    schema = Schema.of({"type": "object"})
    assert printed("claude-json", claude(result='{"a": 1}'), schema=schema).data == {"a": 1}
    both = claude(result="x", structured_output={"a": 2})
    assert printed("claude-json", both, schema=schema).data == {"a": 2}
    assert printed("claude-json", both).data is None


NOTHING = {"total_cost_usd": 0, "usage": {"input_tokens": 0}}


@pytest.mark.parametrize(
    ("out", "code", "kind", "text"),
    [
        (claude(is_error=True, result="API Error: 429 slow down", api_error_status=429, **NOTHING), 1,
         RateLimited, "cli: API Error: 429 slow down (429)"),
        (claude(is_error=True, result="log in", api_error_status=401, **NOTHING), 1,
         Terminal, "cli: log in (401)"),
        (claude(is_error=True, result="no such model", api_error_status=404, **NOTHING), 1,
         Terminal, "cli: no such model (404)"),
        (claude(is_error=True, result="broken", api_error_status=500, **NOTHING), 1,
         Transient, "cli: broken (500)"),
        (claude(is_error=True, result="broken", api_error_status=500), 1,
         InvalidReply, "cli: broken (500)"),
        (claude(is_error=True, subtype="error_max_budget_usd", result=None, errors=["too dear"]), 1,
         InvalidReply, "cli: too dear"),
        (claude(is_error=True, subtype="error_max_turns", result=None), 0,
         InvalidReply, "cli: error_max_turns"),
        (claude(), 3, InvalidReply, "cli: exit code 3 although there is a result"),
        ("", 1, Transient, "cli: exit code 1"),
        ("not json", 0, InvalidReply, "cli: its output is not claude-json"),
        ({"type": "result"}, 0, InvalidReply, "cli: its output is not claude-json"),
        ("", 0, InvalidReply, "cli: its output is not claude-json"),
    ],
)  # fmt: skip
def test_what_counts_as_a_failure_of_claude(
    out: Any, code: int, kind: type[MemberError], text: str
) -> None:
    """Success is exit code 0 and a last result without `is_error`; nothing else is."""
    assert failed("claude-json", out, code) == (kind, text)


def gemini(**changes: Any) -> dict[str, Any]:
    tokens = {"prompt": 100, "candidates": 20, "total": 130, "cached": 40, "thoughts": 10}
    models = {"gemini-2.5-flash": {"api": {"totalRequests": 1}, "tokens": tokens}}
    return {"response": "the answer", "stats": {"models": models}, **changes}


def test_the_reply_of_gemini_with_its_tokens() -> None:
    assert printed("gemini-json", gemini()) == Reply(
        "the answer", usage=Usage(input=60, output=30, cache_read=40), model="gemini-2.5-flash"
    )
    assert printed("gemini-json", {"response": "bare"}) == Reply(
        "bare", unusable="it reports 0 tokens for a reply of 4 characters"
    )


@pytest.mark.parametrize(
    ("out", "kind", "text"),
    [
        ({"error": {"type": "Api", "message": "too many", "code": 429}}, RateLimited,
         "cli: too many (429)"),
        (gemini(response=None, error={"message": "too many", "code": 429}), InvalidReply,
         "cli: too many (429)"),
        ({"error": {"type": "FatalAuthenticationError", "message": "log in", "code": 41}}, Transient,
         "cli: log in (41)"),
        ({"other": 1}, Transient, "cli: exit code 1"),
    ],
)  # fmt: skip
def test_what_counts_as_a_failure_of_gemini(
    out: dict[str, Any], kind: type[MemberError], text: str
) -> None:
    assert failed("gemini-json", out) == (kind, text)
