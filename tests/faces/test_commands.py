"""Each command, used as it should be: what it prints, what it leaves, how it exits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from fanfold.faces.cli.main import SECTIONS
from fanfold.price import dollars
from fanfold.testing.books import ServerBooks
from fanfold.testing.running import RunningServer, threaded_server
from fanfold.work.ask import Usage
from tests.faces.cli import Ended, fanfold, started
from tests.faces.project import PRICE, write_function_project, write_project

OUTCOMES = (
    "passed", "kicked", "failed", "skipped", "unjudged", "unfunded", "in_doubt", "cancelled",
)  # fmt: skip
FIELDS = {
    *("run", "name", "status", "reason", "planned", *OUTCOMES, "calls", "reused", "tokens"),
    *(
        "cost_usd",
        "budget_usd",
        "overrun_usd",
        "cost_at_most",
        "below_usd",
        "maybe_paid_twice_usd",
        "seconds",
        "steps",
        "result",
    ),
}
TITLES = ["NAME", "ID", "STATUS", "DONE", "PASSED", "COST", "BUDGET", "STARTED", "ACTIVE"]
NO_TOKENS = msgspec.structs.asdict(Usage())
RESULT = " / ".join(f"Say word {n}" for n in range(6))


PATIENT = """\
import asyncio
from pathlib import Path

async def shout(item):
    Path("begun").touch()
    while not Path("go").exists():
        await asyncio.sleep(0.01)
    return item["text"]
"""


class Done(NamedTuple):
    """A project whose plan was run once, with all that came of it."""

    folder: Path
    ended: Ended
    server: RunningServer
    books: ServerBooks


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Done]:
    top = tmp_path_factory.mktemp("commands")
    folder = top / "project"
    with threaded_server(top / "books", price=PRICE) as server:
        write_project(folder, server.url)
        ended = fanfold(folder, "run", "plan.yaml", "--json")
        yield Done(folder, ended, server, server.books())


def settled(receipt: dict[str, Any]) -> dict[str, Any]:
    """A receipt without what differs every time; that is checked here."""
    assert re.fullmatch("[0-9A-Z]{26}", receipt["run"])
    assert receipt["seconds"] >= 0
    kept = ("name", "calls", "cost_usd", "tokens")
    steps = [{name: step[name] for name in kept} for step in receipt["steps"]]
    return {**receipt, "run": "", "seconds": 0, "steps": steps}


def billed(books: ServerBooks) -> tuple[dict[str, int], float]:
    """Tokens and dollars by the server's books."""
    usage = sum((entry.usage for entry in books.asked), Usage())
    return msgspec.structs.asdict(usage), dollars(books.bill)


def a_receipt(**more: Any) -> dict[str, Any]:
    """A settled receipt in which nothing happened, but for `more`."""
    nothing: dict[str, Any] = dict.fromkeys(OUTCOMES, 0)
    nothing |= {"run": "", "name": "talk", "status": "complete", "reason": None, "planned": 0}
    nothing |= {"calls": 0, "reused": 0, "retries": 0, "tokens": NO_TOKENS, "cost_usd": 0.0}
    nothing |= {
        "budget_usd": None,
        "overrun_usd": 0.0,
        "cost_at_most": False,
        "below_usd": 0.0,
        "seconds": 0,
        "steps": [],
        "result": None,
        "cause": None,
    }
    nothing |= {"hedged": 0, "hedged_usd": 0.0, "reasons": [], "resume": None, "details": None}
    return (
        nothing
        | {"maybe_paid_twice": 0, "maybe_paid_twice_usd": 0.0, "unusable_usage": 0, "cascades": []}
        | {"written": []}
        | more
    )


def a_step(**more: Any) -> dict[str, Any]:
    return {"name": "map", "calls": 0, "cost_usd": 0.0, "tokens": NO_TOKENS} | more


def test_run_prints_one_receipt_that_agrees_with_the_servers_books(done: Done) -> None:
    tokens, bill = billed(done.books)
    assert (done.ended.code, done.ended.err) == (0, "")
    assert done.ended.receipt.keys() >= FIELDS
    assert settled(done.ended.receipt) == a_receipt(
        planned=6, passed=6, calls=6, tokens=tokens, cost_usd=bill, budget_usd=100.0,
        steps=[a_step(calls=6, tokens=tokens, cost_usd=bill)], result=RESULT,
    )  # fmt: skip


def test_run_for_people_says_it_in_four_lines(tmp_path: Path) -> None:
    with threaded_server(tmp_path / "books", price=PRICE) as server:
        write_project(tmp_path / "project", server.url)
        ended = fanfold(tmp_path / "project", "run", "plan.yaml")
    assert (ended.code, ended.err) == (0, "")
    *lines, calls = ended.out.splitlines()
    assert lines == ["talk complete", "6 of 6 done: 6 passed", "cost $0.16 of $100.00"]
    assert re.fullmatch(r"6 calls, 0 reused, 156 tokens, \d[\dms. ]*", calls)


def test_a_run_counts_the_replies_it_reuses_and_what_is_told_later_the_items_they_ended(
    tmp_path: Path,
) -> None:
    write_function_project(tmp_path, gate="regex: '^GOOD'", code="""\
def shout(item, ask):
    return item["text"] if item["text"] != "good" and not ask.turns else "GOOD"
""")  # fmt: skip
    plan = (tmp_path / "plan.yaml").read_text().replace("gate:", "revise: 1\n      gate:")
    (tmp_path / "plan.yaml").write_text(plan)
    roster = (tmp_path / "roster.yaml").read_text().replace("kind:", "version: 1, kind:")
    (tmp_path / "roster.yaml").write_text(roster)
    first, again = (fanfold(tmp_path, "run", "plan.yaml", "--name", name) for name in "ab")
    assert "\n5 calls, 0 reused, " in first.out and "\n0 calls, 5 reused, " in again.out
    told = "3 items from replies of earlier runs"
    assert "calls       5 calls\n" in fanfold(tmp_path, "status", "a").out
    assert f"calls       0 calls, {told}\n" in fanfold(tmp_path, "status", "b").out
    assert f"shout: 0 calls, $0.00, {told}" in fanfold(tmp_path, "tree", "b").out
    report = fanfold(tmp_path, "report", "b").out
    assert "| items from replies of earlier runs | 3 |" in " ".join(report.split(" ")).replace(
        "  ", ""
    )


def test_a_second_run_under_another_name_reuses_everything(done: Done, tmp_path: Path) -> None:
    asked = len(done.server.books())
    words = ("run", "plan.yaml", "--json", "--store", str(tmp_path / "store"), "--name")
    ended, first = fanfold(done.folder, *words, "again"), fanfold(done.folder, *words, "more")
    assert ended.receipt["calls"] == 6, "another store knows nothing of the first"
    assert len(done.server.books()) == asked + 6
    assert settled(first.receipt) == a_receipt(
        name="more", planned=6, passed=6, reused=6, budget_usd=100.0,
        steps=[a_step()], result=RESULT,
    )  # fmt: skip


def test_the_steps_say_what_they_reused(tmp_path: Path) -> None:
    write_function_project(tmp_path)
    assert fanfold(tmp_path, "run", "plan.yaml", "--quiet").code == 1
    receipt = fanfold(tmp_path, "resume", "shout", "--json").receipt
    (step,) = receipt["steps"]
    assert (step["calls"], step["reused"]) == (receipt["calls"], receipt["reused"]) == (1, 2)


# ── exit codes ───────────────────────────────────────────────────────────────────────────────


def test_flagged_exits_with_1_and_names_what_did_not_pass(tmp_path: Path) -> None:
    write_function_project(tmp_path, gate="regex: '^[A-Z]+$'")
    ended = fanfold(tmp_path, "run", "plan.yaml", "--json")
    assert (ended.code, ended.err) == (1, "")
    run, reasons = ended.receipt["run"], ended.receipt["reasons"]
    assert [(one["items"], one["example"]) for one in reasons] == [(1, "two"), (1, "three")]
    assert settled(ended.receipt) == a_receipt(
        name="shout", status="flagged", planned=3, passed=1, kicked=1, failed=1, calls=4,
        steps=[a_step(calls=4)], result=[{"id": "one", "value": "GOOD"}], reasons=reasons,
        resume=f"fanfold resume {run}", details=f"fanfold status {run} -v",
    )  # fmt: skip
    shown = fanfold(tmp_path, "status", "shout", "-v")
    assert shown.code == 0
    assert re.search(r"^  two +kicked +.*\^\[A-Z\]\+\$", shown.out, re.MULTILINE)
    assert re.search(r"^  three +failed +.*ValueError: cannot", shown.out, re.MULTILINE)


def test_aborted_exits_with_3(tmp_path: Path) -> None:
    write_function_project(tmp_path, on_failure="abort")
    ended = fanfold(tmp_path, "run", "plan.yaml", "--json")
    receipt = ended.receipt
    assert (ended.code, receipt["status"]) == (3, "aborted")
    assert receipt["reason"].startswith("three: ")
    assert sum(receipt[name] for name in OUTCOMES) == receipt["planned"] == 3


def test_out_of_budget_exits_with_4_and_a_new_total_finishes_it(tmp_path: Path) -> None:
    """The worst case of one call is about $1.16, of which $0.026 are used."""
    with threaded_server(tmp_path / "books", price=PRICE) as server:
        write_project(tmp_path / "project", server.url, concurrency=1)
        folder = tmp_path / "project"
        first = fanfold(folder, "run", "plan.yaml", "--budget", "1.20")
        shown = fanfold(folder, "status", "talk", "--json").receipt
        tokens, bill = billed(server.books())
        second = fanfold(folder, "resume", "talk", "--budget", "5", "--json")
        all_tokens, whole_bill = billed(server.books())
        twice = server.books().paid_twice()
    assert (first.code, first.err) == (4, "")
    assert "2 of 6 done: 2 passed, 4 unfunded" in first.out
    assert first.resume == ["resume", shown["run"], "--budget", "TOTAL"]
    assert (shown["cost_usd"], shown["tokens"], shown["budget_usd"]) == (bill, tokens, 1.2)
    assert twice == {}
    assert second.code == 0
    assert settled(second.receipt) == a_receipt(
        planned=6, passed=6, calls=4, reused=2, tokens=all_tokens, cost_usd=whole_bill,
        budget_usd=5.0, result=RESULT,
        steps=[a_step(calls=4, tokens=all_tokens, cost_usd=whole_bill)],
    )  # fmt: skip


def test_a_step_out_of_its_own_budget_gets_a_new_total_of_its_own(tmp_path: Path) -> None:
    """More for the run would not help it, so that is not what the end advises. What the operator
    allowed holds at the next resume too."""
    folder = tmp_path / "project"
    with threaded_server(tmp_path / "books", price=PRICE) as server:
        write_project(folder, server.url, concurrency=1)
        plan = (folder / "plan.yaml").read_text()
        (folder / "plan.yaml").write_text(plan.replace("member: m", "member: m\n      budget: 1.2"))
        first = fanfold(folder, "run", "plan.yaml")
        slip = fanfold(folder, "resume", "talk", "--budget", "mop.usd=5")
        less = fanfold(folder, "resume", "talk", "--budget", "map.usd=0.01")
        second = fanfold(folder, "resume", "talk", "--budget", "map.usd=1.25")
        third = fanfold(
            folder, "resume", "talk", "--budget", "map.calls=9,map.usd=5,usd=50", "--json"
        )
        twice = server.books().paid_twice()
    assert first.code == second.code == 4
    assert "paused: out of budget: dollars of the step map: " in first.out
    assert first.resume is not None and first.resume[2:] == ["--budget", "map.usd=TOTAL"]
    assert slip.code == less.code == 2
    assert slip.err == "fanfold: --budget: no step `mop` in plan.yaml: did you mean `map`?\n"
    assert "--budget map.usd=0.01 is below what is spent already" in less.err
    assert "calls, 2 reused" in second.out
    assert (third.code, third.receipt["passed"], third.receipt["budget_usd"]) == (0, 6, 50.0)
    assert twice == {}


# ── looking ──────────────────────────────────────────────────────────────────────────────────


def test_status_lists_all_runs(done: Done) -> None:
    title, line = fanfold(done.folder, "status").out.splitlines()
    assert title.split() == TITLES
    run = done.ended.receipt["run"]
    assert line.split()[:7] == ["talk", run[:10], "complete", "6/6", "6", "$0.16", "$100.00"]
    (row,) = msgspec.json.decode(fanfold(done.folder, "status", "--json").out)
    assert {**row, "started": "", "seconds": 0} == {
        "run": run, "name": "talk", "status": "complete", "reason": None, "planned": 6, "done": 6,
        "passed": 6, "cost_usd": done.ended.receipt["cost_usd"], "cost_at_most": False,
        "budget_usd": 100.0,
        "started": "", "seconds": 0, "resumable": False, "tags": [],
    }  # fmt: skip


def test_status_of_one_run_has_its_whole_receipt(done: Done) -> None:
    shown = fanfold(done.folder, "status", "talk", "--json").receipt
    assert shown.keys() >= done.ended.receipt.keys()
    known = {**done.ended.receipt, "written": None}  # which files it wrote is not on record
    assert {name: shown[name] for name in known} == known
    assert (shown["pending"], shown["resume"], shown["errors"]) == (0, None, [])


def test_a_run_is_known_by_name_id_and_the_beginning_of_its_id(done: Done) -> None:
    run = done.ended.receipt["run"]
    found = [fanfold(done.folder, "status", word).out for word in ("talk", run, run[:10])]
    assert [text.splitlines()[0].split() for text in found] == [["run", "talk", f"({run})"]] * 3


def test_status_can_watch_a_run_until_it_ends(tmp_path: Path) -> None:
    """The function of this plan answers when a file is there."""
    write_function_project(tmp_path, code=PATIENT)
    with started(tmp_path, "run", "plan.yaml", "--quiet") as run:
        run.until((tmp_path / "begun").exists)
        with started(tmp_path, "status", "shout", "--watch") as watch:
            watch.until(lambda: "running" in watch.shown)
            (tmp_path / "go").touch()
            assert run.end().code == 0
            ended = watch.end()
    assert (ended.code, ended.err) == (0, "")
    states = re.findall(r"^status +(\w+)$", ended.out, re.MULTILINE)
    assert (states[0], states[-1]) == ("running", "complete")


def test_report_tells_result_receipt_gate_and_cost(done: Done) -> None:
    ended = fanfold(done.folder, "report", "talk")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("# talk\n\n**complete**\n\n6 of 6 items done · $0.16 of $100.00 · ")
    sections = [
        "Receipt", "Result", "What the gate caught", "Cost and time by member",
        "Cost and time by step", "Tree",
    ]  # fmt: skip
    assert re.findall(r"^## (.+)$", ended.out, re.MULTILINE) == sections
    assert f"## Result\n\n{RESULT}\n" in ended.out
    assert "| planned | 6 |\n| passed | 6 |\n| kicked | 0 |" in ended.out
    assert re.search(
        r"^\| m \| 6 \| 6 \| 0 \| 0 \| 156 \| \d[\dms. ]* \| \$0\.16 \|$", ended.out, re.MULTILINE
    )
    written = fanfold(done.folder, "report", "talk", "-o", "account.md")
    assert written == Ended(0, "", "")
    assert (done.folder / "account.md").read_text() == ended.out.removesuffix("\n")


def test_members_shows_the_menu(tmp_path: Path) -> None:
    with threaded_server(tmp_path / "books") as server:
        write_project(tmp_path / "project", server.url)
        roster = tmp_path / "project" / "roster.yaml"
        roster.write_text(
            f"{roster.read_text()}  - {{id: far, kind: anthropic, model: claude-haiku-4-5}}\n"
            "  - {id: gone, kind: openai, model: x, base_url: 'http://127.0.0.1:1/v1'}\n"
            "  - {id: prog, kind: command, cmd: [no-such-program], price: {call: 0.5}}\n"
            "  - {id: agent, kind: codex, program: no-such-codex}\n"
        )
        plain = fanfold(roster.parent, "members")
        ended = fanfold(roster.parent, "members", "--json", "--check")
    assert plain.code == ended.code == 0
    assert plain.out.splitlines()[0].split("  ")[0] == "member"
    assert re.search(r"^m +openai +test-model +local +\$1000 in, \$1000 out per M +8 +talking$",
                     plain.out, re.MULTILINE)  # fmt: skip
    rows = {row["id"]: row for row in msgspec.json.decode(ended.out)}
    assert rows["m"] == {
        "id": "m", "kind": "openai", "model": "test-model", "tier": "local", "enabled": True,
        "good_at": ["talking"], "price": {"input": 1000.0, "output": 1000.0}, "context": None,
        "limits": {"concurrency": 8, "rpm": None, "tpm": None}, "ready": True, "trouble": None,
        "pool": f"openai:{server.url}/v1:none", "budget_usd_month": None, "used_usd_month": None,
    }  # fmt: skip
    assert {id: row["trouble"] for id, row in rows.items() if not row["ready"]} == {
        "far": f"{roster}:10: member `far`: the variable ANTHROPIC_API_KEY is not set; "
               "export it, or change `key`",
        "gone": "127.0.0.1:1 cannot be reached",
        "prog": f"{roster}:12: member `prog`: there is no program `no-such-program`; "
                "install it, or correct its name",
        "agent": f"{roster}:13: member `agent`: there is no program `no-such-codex`; "
                 "install it, or correct its name",
    }  # fmt: skip


def test_help_and_version(tmp_path: Path) -> None:
    helped = fanfold(tmp_path, "--help")
    assert (helped.code, helped.err) == (0, "")
    _, *sections = re.split(r"^(?=\w.*:$)", helped.out.partition("--help")[2], flags=re.MULTILINE)
    listed = {
        text.partition(":")[0]: re.findall(r"^  (\w+)  ", text, re.MULTILINE) for text in sections
    }
    assert listed == {title: list(commands) for title, commands in SECTIONS.items()}
    assert list(listed)[:2] == ["First steps", "Run a plan"] and listed["Run a plan"][0] == "run"
    assert fanfold(tmp_path, "run", "--help").code == 0
