"""The MCP server as agents have it: a process of its own, spoken to by the official SDK's client."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from mcp import Client

from fanfold.patterns.delegate import REDUCES, find_members
from fanfold.testing.running import RunningServer, threaded_server
from tests.faces.cli import MCP, environment, fanfold, lacking, runs, started
from tests.faces.desk import HANDSHAKE, MODERN, call, over_http, over_stdio, trouble, write_roster
from tests.faces.project import PRICE
from tests.waiting import LONG

TASKS = [
    {"prompt": "Sum this up", "needs": ["summaries"]},
    {"prompt": "Is this legal?", "needs": ["legal"]},
    {"prompt": "What is 2+2?", "needs": ["maths"]},
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    """Whatever it is asked comes back, at once."""
    with threaded_server(tmp_path / "books", price=PRICE) as server:
        yield server


@pytest.fixture
def project(tmp_path: Path, server: RunningServer) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    write_roster(folder, server.url)
    return folder


async def fan_out(client: Client) -> Any:
    """What an orchestrator does: look at the menu, delegate three parts at once."""
    menu = await call(client, "menu")
    done = await call(client, "delegate_many", tasks=TASKS)
    return menu, done


def receipt_of(folder: Path, name: str = "delegates") -> dict[str, Any]:
    ended = fanfold(folder, "status", name, "--json")
    assert ended.code == 0, ended
    found: dict[str, Any] = msgspec.json.decode(ended.out)
    return found


def check_fan_out(folder: Path, server: RunningServer, found: Any) -> None:
    menu, done = found
    assert [(one["id"], one["good_at"]) for one in menu["members"]] == [
        ("alba", ["summaries"]), ("bruno", ["legal"]), ("carla", ["maths"]),
    ]  # fmt: skip
    results = done["results"]
    assert [(r["index"], r["status"], r["member"], r["text"]) for r in results] == [
        (0, "ok", "alba", "Sum this up"),
        (1, "ok", "bruno", "Is this legal?"),
        (2, "ok", "carla", "What is 2+2?"),
    ]
    receipt = receipt_of(folder)
    assert (receipt["status"], receipt["planned"], receipt["passed"]) == ("complete", 3, 3)
    assert sum(r["cost_usd"] for r in results) == pytest.approx(receipt["cost_usd"])
    assert done["spent_usd"] == pytest.approx(receipt["cost_usd"])
    assert receipt["cost_usd"] == pytest.approx(server.totals().bill / 1e9)
    assert sum(r["tokens"]["input"] for r in results) == receipt["tokens"]["input"]


VERSIONS = pytest.mark.parametrize("mode", [HANDSHAKE, MODERN])


@VERSIONS
def test_three_parts_land_on_three_members_over_stdio(
    project: Path, server: RunningServer, mode: str
) -> None:
    """In one of the versions as a client starts it, too."""
    found = over_stdio(project, fan_out, "--budget", "5", mode=mode, started=mode == MODERN)
    check_fan_out(project, server, found)
    assert "delegates complete" in (project / "mcp.err").read_text()


@VERSIONS
def test_three_parts_land_on_three_members_over_http(
    project: Path, server: RunningServer, mode: str
) -> None:
    """The same tools; a wrong token, a wrong path and a foreign page get nothing."""
    with started(project, "mcp", "--http", "--token", "env:T", T="sesame") as program:
        program.until_it_says("/mcp")
        url = program.said.split()[-1]
        assert url.startswith("http://127.0.0.1:")
        found = over_http(url, "sesame", fan_out, mode=mode)
        assert refusal(url, "wrong") == 401
        assert refusal(url, "sesam") == 401
        assert refusal(url.replace("/mcp", "/other"), "sesame") == 404
        assert refusal(url, "sesame", Origin="http://example.com") == 403
        assert refusal(url, "sesame", Host="example.com") == 421
        program.send(signal.SIGTERM)
        assert program.end().code == 0
    check_fan_out(project, server, found)


def refusal(url: str, token: str, **headers: str) -> int:
    given = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    given |= headers
    return httpx.post(url, json=asked, headers=given, verify=False).status_code


def test_a_token_is_made_when_none_is_named(project: Path) -> None:
    with started(project, "mcp", "--http") as program:
        program.until_it_says("/mcp")
        token = program.said.split("token: ")[1].split()[0]
        assert len(token) >= 32
        url = program.said.split()[-1]
        found = over_http(url, token, lambda client: call(client, "menu"))
        assert len(found["members"]) == 3
        program.send(signal.SIGTERM)
        program.end()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--token", "sesame"], "--token is env:NAME or file:PATH, never the token itself"),
        (
            ["--token", "env:NOTHING"],
            "--token env:NOTHING: there is no token; set it, or omit --token",
        ),
    ],
)
def test_a_token_that_is_not_there_or_in_clear_is_refused(
    project: Path, words: list[str], said: str
) -> None:
    ended = fanfold(project, "mcp", "--http", *words)
    assert (ended.code, ended.err) == (2, f"fanfold: {said}\n")


def test_the_descriptions_carry_the_menu(project: Path) -> None:
    async def act(client: Client) -> Any:
        return (await client.list_tools()).tools

    tools = {tool.name: tool for tool in over_stdio(project, act)}
    assert list(tools) == [
        "menu", "delegate", "delegate_many", "reduce", "run_plan", "status", "report",
    ]  # fmt: skip
    for name in ("delegate", "delegate_many"):
        assert "- bruno: good at legal; local; $1000 in, $1000 out per M" in str(
            tools[name].description
        )


def test_nobody_fits_is_no_error_and_the_leader_is_never_asked(project: Path) -> None:
    async def act(client: Client) -> Any:
        return (
            await call(client, "delegate", prompt="x", needs=["physics"]),
            await call(client, "delegate", prompt="x", member="alba"),
            await call(client, "menu"),
        )

    nobody, leader, menu = over_stdio(project, act, "--without", "alba")
    assert nobody == {
        "index": 0, "status": "no_fit", "cost_usd": 0.0, "tokens": {"input": 0, "output": 0},
        "message": "No member fits: bruno is not good at physics; carla is not good at physics;"
        " alba is the one who delegates and is not good at physics. Do this one yourself.",
    }  # fmt: skip
    assert leader["message"] == (
        "No member fits: alba is the one who delegates. Do this one yourself."
    )
    assert [one["id"] for one in menu["members"]] == ["bruno", "carla"]


def test_bad_arguments_are_told_in_words(project: Path) -> None:
    async def act(client: Client) -> Any:
        return [
            await trouble(client, "delegate_many", tasks=[{"prompt": "x"}] * 10_000),
            await trouble(client, "delegate_many", tasks="x"),
            await trouble(client, "delegate_many", tasks=[], concurrency=0),
            await trouble(client, "delegate_many", task=[]),
            await trouble(client, "reduce", kind="magic", values=[]),
            await trouble(client, "reduce", kind="concat", values="[" * 9999 + "]" * 9999),
            await trouble(client, "delegate", prompt="x", needs="[" * 150 + "]" * 150),
            await trouble(client, "run_plan", plan="../elsewhere.yaml"),
            await trouble(client, "run_plan", plan="a\0b"),
            await trouble(client, "status", run="nobody"),
            await trouble(client, "dance"),
            await trouble(client, "run_plan", path="plan.yaml"),
        ]

    assert over_stdio(project, act) == [
        "10,000 tasks are too many for one call: at most 1,000; send them in parts, or write a"
        " plan for them",
        "`tasks` is a list of tasks, not str",
        "`concurrency` is a whole number of at least 1, not 0",
        "the arguments have no field `task`: did you mean `tasks`?",
        f"there is no reduce `magic`; there are: {', '.join(REDUCES)}",
        "the arguments are nested too deeply: at most 100 levels",
        "the arguments are nested too deeply: at most 100 levels",
        "../elsewhere.yaml is not in this server's folder",
        "'a\\x00b': not a path: it contains a null character",
        "there is no run 'nobody'; call status without a run to see them",
        "there is no tool `dance`",
        "the arguments have no field `path`: known: plan",
    ]


def test_lists_written_as_json_texts_are_understood(project: Path) -> None:
    async def act(client: Client) -> Any:
        done = await call(client, "delegate_many", tasks='["one", {"prompt": "two"}]')
        ids = [one["id"] for one in done["results"]]
        return await call(client, "reduce", kind="concat", ids=ids, options={"sep": " + "})

    assert over_stdio(project, act)["text"] == "one + two"


def test_each_task_stands_alone_before_the_budget(project: Path) -> None:
    """The one that does not fit is unfunded; smaller ones still go, in the same call and later."""

    async def act(client: Client) -> Any:
        tasks = ["one", "two " * 200, "three"]
        done = await call(client, "delegate_many", tasks=tasks, concurrency=1)
        return done, await call(client, "delegate", prompt="four"), await call(client, "menu")

    done, later, menu = over_stdio(project, act, "--budget", "1.8")
    assert [one["status"] for one in done["results"]] == ["ok", "unfunded", "ok"]
    assert done["results"][1]["message"].startswith("out of budget: dollars of the run: $")
    assert (later["status"], later["text"]) == ("ok", "four")
    assert menu["spent_usd"] <= 1.8
    receipt = receipt_of(project)
    assert (receipt["status"], receipt["planned"], receipt["passed"], receipt["unfunded"]) == (
        "flagged", 4, 3, 1,
    )  # fmt: skip


def test_fresh_asks_anew_what_is_on_record(project: Path, server: RunningServer) -> None:
    asked = []
    for words in ((), (), ("--fresh",)):
        over_stdio(project, fan_out, *words)
        asked.append(server.totals().asked)
    assert asked == [3, 3, 6]


@pytest.mark.parametrize(("at_once", "most"), [(None, 20), (3, 3), (500, 500)])
def test_the_operator_says_how_many_go_at_once_else_the_roster(
    project: Path, server: RunningServer, at_once: int | None, most: int
) -> None:
    write_roster(project, server.url, more="settings: {max_concurrency: 20}\n")
    staff = find_members(None, project, at_once=at_once)
    assert staff.settings.max_concurrency == most


@VERSIONS
def test_a_client_that_wants_to_know_hears_how_far_it_is(project: Path, mode: str) -> None:
    """Over both transports; a client without a token hears nothing, and gets the same results."""
    tasks = ["one", {"prompt": "two", "needs": ["physics"]}, "three"]

    async def act(client: Client) -> Any:
        heard: list[tuple[float, float | None, str | None]] = []

        async def progress(done: float, all: float | None, message: str | None) -> None:
            heard.append((done, all, message))

        told = await client.call_tool(
            "delegate_many", {"tasks": tasks, "concurrency": 1}, progress_callback=progress
        )
        untold = await call(client, "delegate_many", tasks=tasks)
        return heard, told.structured_content, untold

    expected = [(2, 3, "2 of 3 tasks done"), (3, 3, "3 of 3 tasks done")]
    heard, told, untold = over_stdio(project, act, mode=mode)
    assert heard == expected
    assert [one["status"] for one in told["results"]] == ["ok", "no_fit", "ok"]
    assert [one["status"] for one in untold["results"]] == ["ok", "no_fit", "ok"]
    with started(project, "mcp", "--http", "--token", "env:T", T="sesame") as program:
        program.until_it_says("/mcp")
        assert over_http(program.said.split()[-1], "sesame", act, mode=mode)[0] == expected
        program.send(signal.SIGTERM)
        program.end()


def test_what_the_router_decided_is_on_record(project: Path, server: RunningServer) -> None:
    """Named is only who was named; of those that fit the cheapest goes first."""
    write_roster(project, server.url, bruno="tier: subscription")
    text = (project / "roster.yaml").read_text()
    (project / "roster.yaml").write_text(text.replace("input: 1000", "input: 10", 1))

    async def act(client: Client) -> Any:
        tasks = [{"prompt": "a", "member": "carla"}, {"prompt": "b", "needs": ["legal"]}, "c"]
        return await call(client, "delegate_many", tasks=tasks)

    over_stdio(project, act)
    tree = msgspec.json.decode(fanfold(project, "tree", "delegates", "--json", "--all").out)
    attempts = tree["steps"][0]["attempts"]
    assert {(one["items"][0], one["member"], one["why"]) for one in attempts} == {
        ("1.0", "carla", "named"), ("1.1", "bruno", "best that is good at legal"),
        ("1.2", "alba", "cheapest"),
    }  # fmt: skip


PLAN = """\
name: small
input: {list: [a, b]}
steps:
  - map: {prompt: "Say {{ item.text }}", member: bruno}
  - reduce: {kind: concat, sep: "+"}
"""


def test_a_plan_runs_on_what_is_left_and_stands_below_the_server(project: Path) -> None:
    (project / "plan.yaml").write_text(PLAN)

    async def act(client: Client) -> Any:
        one = await call(client, "delegate", prompt="one")
        plan = await call(client, "run_plan", plan="plan.yaml")
        status = await call(client, "status")
        (report,) = (await client.call_tool("report", {"run": "small"})).content
        return one, plan, status, report.text

    one, plan, status, report = over_stdio(project, act, "--budget", "8")
    assert (plan["status"], plan["result"], plan["passed"]) == ("complete", "Say a+Say b", 2)
    assert plan["budget_usd"] == pytest.approx(8 - one["cost_usd"])
    spent = one["cost_usd"] + plan["cost_usd"]
    assert status["spent_usd"] == pytest.approx(spent)
    assert status["left_usd"] == pytest.approx(8 - spent)
    assert [run["name"] for run in status["runs"]] == ["small", "delegates"]
    assert report.startswith("# small")
    assert receipt_of(project)["cost_usd"] == pytest.approx(one["cost_usd"])


def test_a_plan_that_finds_no_money_left_is_unfunded(project: Path) -> None:
    (project / "plan.yaml").write_text(PLAN)
    plan = over_stdio(
        project, lambda client: call(client, "run_plan", plan="plan.yaml"), "--budget", "1"
    )
    assert (plan["status"], plan["unfunded"]) == ("paused", 2)


# ── its end ──────────────────────────────────────────────────────────────────────────────────


def speak(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*MCP.command, "mcp", *words], cwd=folder, env=environment(folder),
        stdin=pipe, stdout=pipe, stderr=pipe,
    )  # fmt: skip


HELLO = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {},
               "clientInfo": {"name": "test", "version": "0"}},
}  # fmt: skip


def say(process: subprocess.Popen[bytes], message: dict[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(msgspec.json.encode(message) + b"\n")
    process.stdin.flush()


@pytest.mark.parametrize("how", ["eof", "sigterm", "nobody reads"])
def test_it_closes_its_books_at_the_end(project: Path, how: str) -> None:
    """Also while its stdin is still open."""
    process = speak(project)
    try:
        say(process, HELLO)
        assert process.stdout is not None and process.stdin is not None
        assert (
            msgspec.json.decode(process.stdout.readline())["result"]["serverInfo"]["name"]
            == "fanfold"
        )
        if how == "eof":
            process.stdin.close()
        elif how == "nobody reads":
            process.stdout.close()
            say(process, {"jsonrpc": "2.0", "id": 2, "method": "ping"})
        else:
            process.send_signal(signal.SIGTERM)
        assert process.wait(LONG) == 0
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
    assert receipt_of(project)["status"] == "complete"


PRINTS = """\
def loud(item):
    print("noise on stdout")
    return item["text"].upper()
"""


def test_nothing_but_the_protocol_is_on_stdout(project: Path) -> None:
    """A function that prints does not disturb the client."""
    (project / "loud.py").write_text(PRINTS)
    (project / "roster.yaml").write_text(
        "members:\n  - {id: loud, kind: function, target: 'loud:loud'}\n"
    )
    found = over_stdio(project, lambda client: call(client, "delegate", prompt="quiet"))
    assert (found["status"], found["text"]) == ("ok", "QUIET")
    assert "noise on stdout" in (project / "mcp.err").read_text()


def test_a_server_that_is_started_by_an_attempt_names_it_as_its_parent(project: Path) -> None:
    span = "01ARZ3NDEKTSV4RRFFQ69G5FAV:7"
    store = str(project / "elsewhere")
    over_stdio(project, fan_out, FANFOLD_PARENT=span, FANFOLD_STORE=store)
    (run,) = runs(project, "--store", store)
    assert (run["name"], run["passed"]) == ("delegates", 3)
    ended = fanfold(project, "tree", run["run"], "--store", store, "--json")
    assert ended.code == 0, ended
    assert msgspec.json.decode(ended.out)["parent"] == span


def test_without_the_extra_it_says_how_to_install_it(project: Path) -> None:
    ended = lacking({"mcp"}, project, "mcp")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == (
        "fanfold: fanfold mcp needs the MCP SDK; install it with: pip install 'fanfold[mcp]'\n"
    )
