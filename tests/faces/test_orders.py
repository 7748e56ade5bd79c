"""Orders on the command line: a run in another process is paused, changed and goes on, by the server's
books."""

from __future__ import annotations

from pathlib import Path
from signal import SIGKILL

import pytest
from mcp import Client

from fanfold.testing.running import RunningServer
from tests.faces.cli import fanfold, started
from tests.faces.desk import over_stdio
from tests.faces.project import SHOUT, write_function_project, write_project

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path, server: RunningServer) -> Path:
    """Six items, three at once."""
    write_project(tmp_path / "project", server.url)
    return tmp_path / "project"


def ok(folder: Path, *words: str) -> str:
    ended = fanfold(folder, *words)
    assert (ended.code, ended.err) == (0, ""), ended
    return ended.out


def test_paused_changed_and_resumed_while_its_process_waits(
    folder: Path, server: RunningServer
) -> None:
    with started(folder, "run", "plan.yaml") as run:
        run.until(lambda: server.totals().in_flight == 3)
        assert ok(folder, "pause", "talk").endswith(": pause\n")
        server.release()
        run.until(lambda: fanfold(folder, "status", "talk", "--json").receipt["passed"] == 3)
        shown = fanfold(folder, "status", "talk", "--json").receipt
        assert (shown["status"], shown["reason"].split()[:2]) == ("paused", ["paused", "by"])
        assert ok(folder, "set", "talk", "map.concurrency=1", "budget=50").count("\n") == 2
        refused = fanfold(folder, "set", "talk", "mapp.concurrency=1")
        assert refused.code == 2 and "no step 'mapp': did you mean `map`?" in refused.err
        assert server.totals().asked == 3
        assert ok(folder, "resume", "talk").endswith(": resume\n")
        ended = run.end()
    assert (ended.code, ended.out.splitlines()[0]) == (0, "talk complete")
    assert "of $50.00" in ended.out
    assert (server.books().paid_calls, server.books().paid_twice()) == (6, {})


def test_what_lasts_can_be_ordered_when_nothing_runs(folder: Path, server: RunningServer) -> None:
    with started(folder, "run", "plan.yaml") as run:
        run.until(lambda: server.totals().in_flight == 3)
        run.send(SIGKILL)
        run.end()
    server.release()
    refused = fanfold(folder, "pause", "talk")
    assert refused.code == 2 and refused.err.endswith("the run is not under way\n")
    assert ok(folder, "set", "talk", "budget=0.0001").endswith(", when it is resumed\n")
    ended = fanfold(folder, "resume", "talk", "--retry-in-doubt")
    assert ended.code == 4, ended
    assert server.totals().asked == 3, "what was ordered holds before anything is sent"


def test_bad_orders_start_nothing(tmp_path: Path, quick_server: RunningServer) -> None:
    folder = tmp_path / "project"
    write_project(folder, quick_server.url)
    ok(folder, "run", "plan.yaml", "--quiet")

    def last(*words: str) -> str:
        ended = fanfold(folder, *words)
        assert ended.code == 2 and ended.out == "", ended
        return ended.err.splitlines()[-1]

    assert last("pause", "nobody") == "fanfold: no run 'nobody'; there are: talk"
    assert last("pause", "talk").endswith("is over: complete")
    assert last("set", "talk", "colour=red").startswith("fanfold: 'colour=red' cannot be set;")
    assert "there is no item 'x'" in last("retry", "talk", "x")
    for item in ("x", "i1"):  # no agent will ever work for it
        said = last("tell", "talk", item, "hello")
        assert f"there is no worker '{item}' in talk" in said
        assert said.endswith("): no agent has worked in this run")
    assert not (folder / "elsewhere").exists()
    elsewhere = fanfold(folder, "pause", "talk", "--store", "elsewhere")
    assert elsewhere.code == 2 and not (folder / "elsewhere").exists()


COUNTED = """\
    with open("asked", "a") as asked:
        asked.write(item["id"] + "\\n")
    if item["text"] == "boom":
        raise ValueError("cannot")
    return item["text"].upper()
"""


def calls_of(folder: Path) -> int:
    calls: int = fanfold(folder, "status", "shout", "--json").receipt["calls"]
    return calls


def test_single_items_are_carried_out_again(tmp_path: Path) -> None:
    """Two fail; one of them is tried again, the other stays as it is."""
    write_function_project(tmp_path)
    items = (tmp_path / "items.jsonl").read_text()
    (tmp_path / "items.jsonl").write_text(items + '{"id": "four", "text": "boom"}\n')
    assert fanfold(tmp_path, "run", "plan.yaml", "--quiet").code == 1
    (tmp_path / "shouting.py").write_text(SHOUT.replace('== "boom"', '== "never"'))
    ended = fanfold(tmp_path, "retry", "shout", "three", "--json")
    receipt = ended.receipt
    assert (receipt["passed"], receipt["failed"], receipt["calls"]) == (3, 1, 1), ended
    assert [one["value"] for one in receipt["result"]] == ["GOOD", "BAD 2", "BOOM"]


def test_a_function_without_a_version_is_called_again_for_an_item_that_passed_and_each_call_counts(
    tmp_path: Path,
) -> None:
    """One with a version is not: its reply is on record."""
    write_function_project(tmp_path, code="def shout(item):\n" + COUNTED)
    assert fanfold(tmp_path, "run", "plan.yaml", "--quiet").code == 1
    before = calls_of(tmp_path)
    for item, calls in (("one", 1), ("one", 1), ("three", 1)):
        ended = fanfold(tmp_path, "retry", "shout", item, "--json")
        assert ended.receipt["calls"] == calls
    assert fanfold(tmp_path, "retry", "shout", "one", "--quiet").code == 1
    made = (tmp_path / "asked").read_text().count("\n")
    assert calls_of(tmp_path) == made == before + 4
    roster = (tmp_path / "roster.yaml").read_text().replace("kind:", "version: 1, kind:")
    (tmp_path / "roster.yaml").write_text(roster)
    assert fanfold(tmp_path, "run", "plan.yaml", "--name", "more", "--quiet").code == 1
    assert fanfold(tmp_path, "retry", "more", "one", "--json").receipt["calls"] == 0


def test_a_changed_roster_is_taken_up_when_that_is_ordered(
    folder: Path, server: RunningServer
) -> None:
    """What is under way keeps its price, the rest has the new one. A wrong file is refused."""
    roster = folder / "roster.yaml"
    with started(folder, "run", "plan.yaml") as run:
        run.until(lambda: server.totals().in_flight == 3)
        roster.write_text(roster.read_text().replace("{input: 1000, output: 1000}", "{call: 0.5}"))
        assert ok(folder, "set", "talk", "roster").endswith(": set roster\n")
        before = roster.read_text()
        roster.write_text("members: [{id: m}]\n")
        refused = fanfold(folder, "set", "talk", "roster")
        assert refused.code == 2 and "roster.yaml" in refused.err, refused
        roster.write_text(before)
        server.release()
        assert run.end().code == 0
    cost = fanfold(folder, "status", "talk", "--json").receipt["cost_usd"]
    assert 1.5 < cost < 1.7, "three by tokens, three at half a dollar each"


def test_an_mcp_client_gives_orders_where_that_is_allowed(
    folder: Path, server: RunningServer
) -> None:
    async def act(client: Client) -> list[str]:
        assert "order" in [tool.name for tool in (await client.list_tools()).tools]
        said = []
        for what, value in (("pause", ""), ("set", "budget=50"), ("set", "m=lots"), ("resume", "")):
            found = await client.call_tool("order", {"run": "talk", "what": what, "value": value})
            said.append(str(found.structured_content or found.content[0].text))  # type: ignore[union-attr]
        return said

    async def without(client: Client) -> list[str]:
        return [tool.name for tool in (await client.list_tools()).tools]

    with started(folder, "run", "plan.yaml") as run:
        run.until(lambda: server.totals().in_flight == 3)
        paused, changed, refused, resumed = over_stdio(folder, act, "--orders")
        assert all("'state': 'done'" in one for one in (paused, changed, resumed))
        assert "cannot be set" in refused
        server.release()
        assert "of $50.00" in run.end().out
    assert "order" not in over_stdio(folder, without)
