"""Members with tools: the loop, its bounds, what goes wrong in it, what is on record of it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fanfold as ff
from fanfold.errors import BadInput
from fanfold.patterns.fold import collect
from fanfold.patterns.streamed import on_parts
from fanfold.price import Price
from fanfold.testing.running import RunningServer, threaded_server
from fanfold.testing.script import Asked, Says
from tests.flow.tool_models import calling, results, script
from tests.waiting import LONG, however_slow, wait_until

PRICE = Price(input=1.0, output=1.0)
ITEM = [{"id": "1", "text": "hello"}]
WIRES = pytest.mark.parametrize("kind", ["openai", "anthropic"])


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with threaded_server(
        tmp_path / "books", script="tests.flow.tool_models:script", price=PRICE
    ) as server:
        yield server


def member(server: RunningServer, kind: str = "openai", **how: Any) -> Any:
    price = {"input": 1, "output": 1}
    if kind == "openai":
        base = f"{server.url}/v1"
        return ff.openai("test", id="m", base_url=base, price=price, max_tokens=200, **how)
    return ff.anthropic("test", id="m", base_url=server.url, price=price, max_tokens=200, **how)


def run(folder: Path, server: RunningServer, kind: str = "openai", **how: Any) -> tuple[Any, Any]:
    """The value of the only item (or the error that ended it), and the receipt."""
    own, name = how.pop("own", {}), how.pop("name", "tools")
    items = how.pop("items", ITEM)

    async def whole() -> tuple[Any, Any]:
        members = [member(server, kind, **own)]
        async with ff.open_run(name, store=folder / "store", members=members) as run:
            found = await ff.map_reduce(
                run, items, prompt="Say {{ item.text }}", reduce=collect(), member="m", **how
            )
        values = [one["value"] for one in found.value]
        return values[0] if len(values) == 1 else values, run.closing

    return ff.run_sync(whole())


def look_up(word: str, times: int = 1) -> str:
    """What a word means.

    Ask for one word only."""
    return f"{word} means {'x' * times}"


# ── the loop ─────────────────────────────────────────────────────────────────────────────────


@WIRES
def test_a_model_calls_tools_and_answers_with_what_they_gave(
    tmp_path: Path, server: RunningServer, kind: str
) -> None:
    script.says = calling(
        [("look_up", {"word": "a"})],
        [("look_up", {"word": "b", "times": 2}), ("look_up", {"word": "c"})],
    )
    said, receipt = run(tmp_path, server, kind, tools=[look_up])
    assert said == "a means x | b means xx | c means x"
    assert len(server.books().asked) == 3
    assert (receipt.status, receipt.passed, receipt.calls) == ("complete", 1, 6)
    assert receipt.cost_usd == pytest.approx(server.totals().bill / 1e9)


@WIRES
def test_a_streamed_reply_may_call_tools(tmp_path: Path, server: RunningServer, kind: str) -> None:
    """The stage before one on its parts is asked for a stream."""
    inner = calling([("look_up", {"word": "a"}), ("look_up", {"word": "b"})], then="\n".join)
    streams: list[bool] = []

    def says(asked: Asked) -> Says:
        streams.append(asked.stream)
        return inner(asked) if "tools" in asked.body else Says(text=f"<{asked.prompt}>")

    script.says = says

    async def whole() -> Any:
        members = [member(server, kind)]
        async with ff.open_run("streamed", store=tmp_path / "store", members=members) as run:
            return await ff.pipeline(
                run, ITEM,
                ff.stage(prompt="Say {{ item.text }}", member="m", step="first", tools=[look_up]),
                ff.stage(by=on_parts("lines", prompt="And {{ item.text }}", member="m"), step="then"),
            )  # fmt: skip

    rows = ff.run_sync(whole()).rows()
    assert "<And a means x>" in str(rows) and "<And b means x>" in str(rows)
    assert streams[:2] == [True, True]


def test_what_a_model_reads_of_a_function_is_its_signature_and_docstring(
    tmp_path: Path, server: RunningServer
) -> None:
    seen: list[Any] = []

    def says(asked: Asked) -> Says:
        seen.append(asked.body["tools"])
        return Says(text="done")

    script.says = says
    run(tmp_path, server, tools=[look_up, ff.tool(look_up, name="again", description="Once more.")])
    schema = {
        "type": "object",
        "properties": {
            "word": {"type": "string"}, "times": {"type": "integer", "default": 1},
        },
        "required": ["word"],
        "additionalProperties": False,
    }  # fmt: skip
    told = "What a word means.\n\nAsk for one word only."
    assert seen[0] == [
        {"type": "function", "function": {"name": name, "description": text, "parameters": schema}}
        for name, text in (("look_up", told), ("again", "Once more."))
    ]


def test_what_goes_wrong_in_a_tool_is_told_to_the_model(
    tmp_path: Path, server: RunningServer
) -> None:
    def fails(word: str) -> str:
        raise ValueError(f"no {word}")

    script.says = calling(
        [
            ("fails", {"word": "luck"}), ("invented", {}), ("fails", {"sword": 1}),
            ("fails", {"word": "a"}), ("fails", {"word": "b"}),
        ],
        then=lambda done: json.dumps([json.loads(one)["error"] for one in done]),
    )  # fmt: skip
    said, receipt = run(tmp_path, server, tools=[fails], tool_calls=4)
    assert json.loads(said) == [
        "ValueError: no luck", "there is no tool `invented`; there are: fails",
        "the arguments do not fit: Object contains unknown field `sword`", "ValueError: no a",
        "not done: at most 4 calls in one reply",
    ]  # fmt: skip
    assert receipt.status == "complete"


def test_errors_are_marked_as_such_where_the_api_can(tmp_path: Path, server: RunningServer) -> None:
    seen: list[Any] = []
    inner = calling([("look_up", {"word": "a"}), ("nobody", {})])

    def says(asked: Asked) -> Says:
        seen.append(asked.body["messages"][-1]["content"])
        return inner(asked)

    script.says = says
    run(tmp_path, server, "anthropic", tools=[look_up])
    good, bad = seen[1]
    assert ("is_error" in good, bad["is_error"]) == (False, True)


@WIRES
def test_after_the_last_round_an_answer_is_due(
    tmp_path: Path, server: RunningServer, kind: str
) -> None:
    script.says = calling(*([("look_up", {"word": str(n)})] for n in range(9)))
    said, _ = run(tmp_path, server, kind, tools=[look_up], tool_rounds=3)
    assert said == "0 means x | 1 means x | 2 means x"
    assert len(server.books().asked) == 4


@WIRES
def test_a_kick_back_continues_the_loop_in_order(
    tmp_path: Path, server: RunningServer, kind: str
) -> None:
    """The gate sees the final reply only; after it, tools may be used again."""
    bodies: list[Any] = []

    def says(asked: Asked) -> Says:
        bodies.append(asked.body["messages"])
        done = results(asked)
        kicked = "not accepted" in json.dumps(asked.body["messages"])
        if len(done) < (2 if kicked else 1):
            return Says(tool="look_up", data={"word": f"w{len(done)}"})
        return Says(text="good" if kicked else "bad")

    script.says = says
    gate = ff.predicate(lambda value: value == "good", "say good")
    said, receipt = run(tmp_path, server, kind, tools=[look_up], gate=gate)
    assert (said, len(bodies), receipt.status) == ("good", 4, "complete")
    last = ["assistant" if one["role"] == "assistant" else "other" for one in bodies[-1]]
    assert last == ["other", "assistant", "other", "assistant", "other", "assistant", "other"]
    order = [json.dumps(one) for one in bodies[-1]]
    where = [next(n for n, one in enumerate(order) if word in one)
             for word in ("w0 means", "not accepted", "w1 means")]  # fmt: skip
    assert where == sorted(where)


def test_calls_of_one_reply_run_at_once(tmp_path: Path, server: RunningServer) -> None:
    """None of them could end before the others have begun."""
    there = 0
    all_there = asyncio.Event()

    async def meet(who: str) -> str:
        nonlocal there
        there += 1
        if there == 4:
            all_there.set()
        await all_there.wait()
        return who

    script.says = calling([("meet", {"who": name}) for name in "abcd"])
    said, _ = run(tmp_path, server, tools=[ff.tool(meet, timeout=LONG)])
    assert said == "a | b | c | d"


def test_a_plain_function_that_hangs_does_not_hold_up_the_run(
    tmp_path: Path, server: RunningServer
) -> None:
    import threading

    wait = threading.Event()

    ended: list[bool] = []

    def hangs() -> str:
        ended.append(wait.wait(LONG))
        return "late"

    script.says = calling([("hangs", {})])
    try:
        said, _ = run(tmp_path, server, tools=[ff.tool(hangs, timeout=0.2)])
        assert ended == []  # nor is it waited for when the run ends
    finally:
        wait.set()
    assert json.loads(said) == {"error": "no result within 0.2 s"}


# ── programs ─────────────────────────────────────────────────────────────────────────────────


def program(folder: Path, code: str) -> list[str]:
    file = folder / f"p{abs(hash(code))}.py"
    file.write_text(code)
    return [sys.executable, str(file)]


def test_a_program_gets_the_arguments_on_stdin_and_no_more_than_it_is_given(
    tmp_path: Path, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hidden")
    monkeypatch.setenv("GIVEN", "seen")
    code = (
        "import json, os, sys\n"
        "given = json.load(sys.stdin)\n"
        "print(json.dumps([given, os.environ.get('GIVEN'), 'SECRET_TOKEN' in os.environ]))\n"
    )
    script.says = calling([("count", {"text": "$(ls); `id`"})])
    tool = ff.tool(command=program(tmp_path, code), name="count", env=["GIVEN"])
    said, _ = run(tmp_path, server, tools=[tool])
    assert json.loads(said) == [{"text": "$(ls); `id`"}, "seen", False]


def test_a_program_that_fails_says_why(tmp_path: Path, server: RunningServer) -> None:
    code = "import sys\nprint('half')\nsys.exit('no such city')\n"
    script.says = calling([("t", {})])
    said, _ = run(tmp_path, server, tools=[ff.tool(command=program(tmp_path, code), name="t")])
    assert json.loads(said) == {"error": "exit code 1\nno such city\nhalf"}


def test_a_program_that_hangs_is_ended_with_its_children(
    tmp_path: Path, server: RunningServer
) -> None:
    pids = tmp_path / "pids"
    code = (
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(pids) + '.part'!r}, 'w').write(str(child.pid))\n"
        f"os.rename({str(pids) + '.part'!r}, {str(pids)!r})\n"
        "time.sleep(600)\n"
    )

    def hangs(scale: float) -> None:
        script.says = calling([("t", {})])
        tool = ff.tool(command=program(tmp_path, code), name="t", timeout=3 * scale)
        said, _ = run(tmp_path / f"{scale}", server, tools=[tool])
        assert f"no result within {3 * scale:g} s" in said
        assert pids.exists()
        wait_until(lambda: gone(int(pids.read_text())))

    however_slow(hangs)


def gone(pid: int) -> bool:
    """It has ended; what nobody has reaped yet has ended too."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.parametrize("how", ["function", "command"])
def test_of_ten_megabytes_a_model_sees_both_ends(
    tmp_path: Path, server: RunningServer, how: str
) -> None:
    def big() -> str:
        return "begin" + "\n" * 10_000_000 + "end"

    code = "print('begin' + '\\n' * 10_000_000 + 'end')"
    tool = (
        ff.tool(big, max_bytes=2000)
        if how == "function"
        else ff.tool(command=program(tmp_path, code), name="big", max_bytes=2000)
    )
    script.says = calling([("big", {})])
    said, _ = run(tmp_path, server, tools=[tool])
    assert said.startswith("begin\n") and said.endswith("\nend")
    assert "characters left out" in said
    assert len(json.dumps(said)) < 2100
    assert sum(one.usage.input for one in server.books().asked) < 20_000


# ── on record ────────────────────────────────────────────────────────────────────────────────


def test_a_later_run_uses_tools_again_and_pays_only_for_what_is_new(
    tmp_path: Path, server: RunningServer
) -> None:
    used: list[str] = []
    answers = {"a": "1"}

    def ask(word: str) -> str:
        used.append(word)
        return answers[word]

    script.says = calling([("ask", {"word": "a"})])
    assert run(tmp_path, server, tools=[ask])[0] == "1"
    assert run(tmp_path, server, tools=[ask], name="again")[0] == "1"
    assert (used, len(server.books().asked)) == (["a", "a"], 2)
    answers["a"] = "2"
    assert run(tmp_path, server, tools=[ask], name="third")[0] == "2"
    assert (len(used), len(server.books().asked)) == (3, 3)


def test_items_with_one_prompt_share_a_look_but_not_an_effect(
    tmp_path: Path, server: RunningServer
) -> None:
    looked: list[str] = []
    sent: list[str] = []

    def look() -> str:
        looked.append("x")
        return "seen"

    def send() -> str:
        sent.append("x")
        return "sent"

    script.says = calling([("look", {})], [("send", {})])
    items = [{"id": str(n), "text": "same"} for n in range(3)]
    said, _ = run(
        tmp_path, server, items=items, tools=[look, ff.tool(send, effects=True)], concurrency=3
    )
    assert said == ["seen | sent"] * 3
    assert (len(looked), len(sent), len(server.books().asked)) == (1, 3, 3)


def test_a_member_brings_its_own_tools(tmp_path: Path, server: RunningServer) -> None:
    script.says = calling([("look_up", {"word": "a"})])
    said, _ = run(tmp_path, server, own={"tools": [look_up]})
    assert said == "a means x"
    script.says = calling([("other", {})])
    said, _ = run(
        tmp_path, server, own={"tools": [look_up]}, tools=[ff.tool(look_up, name="other")]
    )
    assert "missing required" in said
    script.says = lambda asked: Says(text="none" if "tools" not in asked.body else "some")
    assert run(tmp_path, server, own={"tools": [look_up]}, tools=[], name="c")[0] == "none"


@pytest.mark.parametrize(
    ("how", "what"),
    [
        ({"tools": look_up}, "`tools` must be a list, not"),
        ({"tools": [3]}, "`tools` must hold functions or ff.tool(…), not the number 3"),
        ({"tools": [look_up, look_up]}, "two tools are called `look_up`"),
        ({"tool_rounds": 3}, "`tool_rounds` is for a step with `tools`"),
        ({"tools": [look_up], "tool_rounds": 0}, "`tool_rounds` must be"),
        ({"tools": [look_up], "shard": 2}, "items that share an ask cannot use tools"),
        ({"tools": [lambda *words: 1]}, "`<lambda>` is no name of a tool"),
        ({"tools": [ff.tool(lambda *words: 1, name="x")]}, "cannot be given by name"),
        ({"tools": [ff.tool(command=["no-such-program"], name="x")]}, "there is no program"),
        ({"tools": [ff.tool("no_module:x")]}, "no module named `no_module`"),
    ],
)  # fmt: skip
def test_bad_tools_are_refused_before_anything_is_asked(
    tmp_path: Path, server: RunningServer, how: dict[str, Any], what: str
) -> None:
    items = [{"id": str(n), "text": "x"} for n in range(3)]
    with pytest.raises(BadInput, match=None) as found:
        run(tmp_path, server, items=items, **how)
    assert what in str(found.value)
    assert server.books().asked == []


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({}, "a tool is one of function, command, mcp: it has none of them"),
        ({"command": ["x"], "mcp": ["y"], "name": "z"}, "not both `command` and `mcp`"),
        ({"command": ["x"]}, "needs a `name`"),
        ({"command": "wc -l", "name": "x"}, "a list of words"),
        ({"command": ["x"], "name": "a b"}, "`a b` is no name of a tool"),
        ({"command": ["x"], "name": "a", "arguments": {"type": "array"}}, "`type: object`"),
        ({"command": ["x"], "name": "a", "only": ["b"]}, "`only` is not for a tool by `command`"),
        ({"mcp": "server.py"}, "`mcp` must be a URL or a list of words"),
        ({"mcp": "http://x/mcp", "env": ["A"]}, "`env` is for a server that is started"),
        ({"mcp": "http://x/mcp", "key": "sk-ant-api03-0123456789abcdef"}, "never the key itself"),
        ({"mcp": ["x"], "key": "env:A"}, "`key` is for a URL"),
        ({"command": ["x"], "name": "a", "env": ["A-B"]}, "`A-B` is not the name"),
        ({"command": ["x"], "name": "a", "timeout": 0}, "`timeout` must be more than 0"),
    ],
)  # fmt: skip
def test_what_a_tool_may_state(fields: dict[str, Any], what: str) -> None:
    with pytest.raises(BadInput) as found:
        ff.tool(**fields)
    assert what in str(found.value)
    assert "0123456789abcdef" not in str(found.value)


def test_members_without_tools_of_that_kind_are_refused(tmp_path: Path) -> None:
    async def whole() -> None:
        members = [ff.function(lambda item: "x", id="f")]
        async with ff.open_run("f", store=tmp_path / "store", members=members) as run:
            await ff.map_reduce(run, ITEM, prompt="x", member="f", tools=[look_up])

    with pytest.raises(BadInput, match=r"member f \(kind function\) cannot be given tools"):
        ff.run_sync(whole())
