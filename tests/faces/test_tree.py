"""`fanfold tree`: a plan whose command member runs fanfold itself, in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fanfold.price import dollars
from fanfold.testing.running import threaded_server
from tests.faces.cli import WARM, Ended, fanfold
from tests.faces.project import PRICE, write_project

BOSS = """\
import subprocess, sys
prompt = sys.stdin.read()
done = subprocess.run(["../fanfold", "run", "plan.yaml", "--name", prompt, "--quiet"],
                      cwd="work", capture_output=True, text=True)
print(done.returncode, done.stderr)
print('{"fanfold": {"usd": 0.25, "input": 7, "output": 3}}')
"""

SCRIPT = """\
import asyncio, sys
import fanfold as ff

async def main():
    member = ff.function(lambda item: item["text"].upper(), id="shout")
    async with ff.open_run("script", members=[member]) as run:
        await ff.map_reduce(run, [{"id": "a", "text": "x"}], reduce=ff.collect())

asyncio.run(main())
print("fine")
"""

PLAN = """\
name: orchestrate
input: {{list: [{{id: one, text: "alpha"}}, {{id: two, text: "beta"}}]}}
steps:
  - map: {{prompt: "{{{{ item.text }}}}", member: {member}, concurrency: 1}}
  - reduce: {{kind: concat, sep: ","}}
"""


def write_boss(folder: Path, url: str) -> None:
    """A plan of two items for a program that runs another plan, of three calls, for each."""
    folder.mkdir()
    write_project(folder / "work", url, items=3)
    WARM.write_program(folder / "fanfold")
    WARM.write_program(folder / "script", "-c", SCRIPT)
    (folder / "boss.py").write_text(BOSS)
    (folder / "plan.yaml").write_text(PLAN.format(member="boss"))
    (folder / "script.yaml").write_text(PLAN.format(member="script"))
    (folder / "roster.yaml").write_text(
        "members:\n"
        f"  - {{id: boss, kind: command, cmd: [{sys.executable}, boss.py], price: {{call: 0.3}}}}\n"
        "  - {id: script, kind: command, cmd: [./script], price: {call: 0}}\n"
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where it was run; the second child finds all replies of the first and pays nothing."""
    top = tmp_path_factory.mktemp("tree")
    with threaded_server(top / "books", price=PRICE) as server:
        write_boss(top / "project", server.url)
        ended = fanfold(top / "project", "run", "plan.yaml", "--json")
        assert (ended.code, ended.receipt["result"]) == (0, "0 ,0 "), ended
        assert len(server.books()) == 3
        (top / "project" / "bill").write_text(str(server.books().bill))
        yield top / "project"


def told(ended: Ended) -> dict[str, Any]:
    assert (ended.code, ended.err) == (0, ""), ended
    found: dict[str, Any] = msgspec.json.decode(ended.out)
    return found


def test_the_runs_of_other_processes_hang_below_the_attempts_that_started_them(
    folder: Path,
) -> None:
    tree = told(fanfold(folder, "tree", "orchestrate", "--json"))
    attempts = tree["steps"][0]["attempts"]
    children = [child for attempt in attempts for child in attempt["children"]]
    assert [(a["member"], a["verdict"], a["cost_usd"]) for a in attempts] == [
        ("boss", "passed", 0.25), ("boss", "passed", 0.25),
    ]  # fmt: skip
    assert [(c["name"], c["status"], c["parent"]) for c in children] == [
        ("alpha", "complete", attempts[0]["span"]), ("beta", "complete", attempts[1]["span"]),
    ]  # fmt: skip
    assert [attempt["span"] for attempt in attempts] == [
        f"{tree['run']}:{attempt['attempt']}" for attempt in attempts
    ]
    assert [child["total"]["calls"] for child in children] == [3, 0]
    assert [member["reused"] for c in children for member in c["steps"][0]["members"]] == [0, 3]
    assert tree["children"] == []


def test_there_is_one_total_with_each_dollar_once(folder: Path) -> None:
    tree = told(fanfold(folder, "tree", "orchestrate", "--json"))
    bill = dollars(int((folder / "bill").read_text()))
    assert (tree["own"]["cost_usd"], tree["own"]["calls"]) == (0.5, 2)
    assert tree["total"]["cost_usd"] == pytest.approx(0.5 + bill)
    assert (tree["total"]["runs"], tree["total"]["calls"]) == (3, 5)


def test_there_is_one_store_and_the_child_is_shown_by_itself_too(folder: Path) -> None:
    assert not (folder / "work" / ".fanfold").exists()
    child = told(fanfold(folder, "tree", "alpha", "--json"))
    assert (child["own"], child["total"]["runs"]) == (child["total"], 1)


def test_it_is_drawn_for_people(folder: Path) -> None:
    ended = fanfold(folder, "tree", "orchestrate", "--all")
    assert (ended.code, ended.err) == (0, "")
    first, step, member, boss, child, *_ = ended.out.splitlines()
    assert first.startswith("orchestrate ")
    assert "3 runs, 5 calls" in first
    assert step == "└─ map"
    assert member.startswith("   └─ boss: 2 calls, 20 tokens, $0.50, ")
    assert boss.startswith("      ├─ #1 one: passed, 10 tokens, $0.25, ")
    assert child.startswith("      │  └─ alpha ")


def test_a_script_that_a_free_command_starts_is_below_the_run(folder: Path) -> None:
    """Calls that cost nothing are no attempts on record, so the run itself is the parent."""
    ended = fanfold(folder, "run", "script.yaml", "--json", "--name", "scripts", "--store", "s")
    assert (ended.code, ended.receipt["result"]) == (0, "fine,fine"), ended
    tree = told(fanfold(folder, "tree", "scripts", "--json", "--store", "s"))
    assert [(c["name"], c["parent"], c["status"]) for c in tree["children"]] == [
        ("script", tree["run"], "complete"), ("script", tree["run"], "complete"),
    ]  # fmt: skip


def test_a_parent_that_is_no_span_is_none(folder: Path) -> None:
    ended = fanfold(
        folder, "run", "script.yaml", "--json", "--name", "odd", "--store", "odd",
        FANFOLD_PARENT="'; drop table runs; --", FANFOLD_STORE="nowhere",
    )  # fmt: skip
    assert ended.code == 0
    assert told(fanfold(folder, "tree", "odd", "--json", "--store", "odd"))["parent"] is None


def test_a_run_that_is_not_there_is_refused(folder: Path) -> None:
    ended = fanfold(folder, "tree", "nothing")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "fanfold: no run 'nothing'; there are: alpha, beta, orchestrate\n"


def test_members_shows_what_is_used_of_the_month(folder: Path) -> None:
    (folder / "budgeted.yaml").write_text(
        "members:\n"
        "  - {id: boss, kind: command, cmd: [x], price: {call: 0.3}, budget_usd_month: 20}\n"
        "  - {id: free, kind: command, cmd: [x]}\n"
    )
    ended = fanfold(folder, "members", "--roster", "budgeted.yaml")
    assert [line.split("  ")[-1].strip() for line in ended.out.splitlines()[:2]] == [
        "this month", "$0.50 of $20.00",
    ]  # fmt: skip
    found = told(fanfold(folder, "members", "--roster", "budgeted.yaml", "--json"))
    assert [(m["budget_usd_month"], m["used_usd_month"]) for m in found] == [
        (20.0, 0.5), (None, None),
    ]  # fmt: skip
    elsewhere = fanfold(folder, "members", "--roster", "budgeted.yaml", "--store", "new", "--json")
    assert [m["used_usd_month"] for m in told(elsewhere)] == [0.0, None]
