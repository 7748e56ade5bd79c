"""`fanfold runs`: the list, `rm` and `prune`; what was paid for is not forgotten."""

from __future__ import annotations

import os
import pty
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from fanfold.journal.facts import RemoveRuns
from fanfold.journal.sqlite.log import decode_light
from fanfold.testing.running import RunningServer
from tests.faces.cli import WARM, Ended, environment, fanfold, started
from tests.faces.project import write_function_project, write_project
from tests.waiting import LONG, wait_until

pytestmark = pytest.mark.slow

KEPT = "6 replies kept, which other runs can use without paying again"


@pytest.fixture
def project(tmp_path: Path, quick_server: RunningServer) -> Path:
    write_project(tmp_path / "project", quick_server.url)
    return tmp_path / "project"


def run(project: Path, name: str = "talk", *more: str) -> str:
    ended = fanfold(project, "run", "plan.yaml", "--json", "--name", name, *more)
    assert ended.code == 0
    return str(ended.receipt["run"])


def names(project: Path) -> list[str]:
    ended = fanfold(project, "runs", "--json")
    assert (ended.code, ended.err) == (0, ""), "nothing seems to be missing in the store"
    return [row["name"] for row in msgspec.json.decode(ended.out)]


def size(project: Path) -> int:
    return (project / ".fanfold" / "journal.db").stat().st_size


def test_alone_it_lists_the_runs(project: Path) -> None:
    run(project)
    assert fanfold(project, "runs").out == fanfold(project, "status").out
    assert names(project) == ["talk"]


def test_a_removed_run_is_gone_and_what_it_paid_for_is_not_paid_again(
    project: Path, quick_server: RunningServer
) -> None:
    first = run(project)
    ended = fanfold(project, "runs", "rm", "talk", "--yes")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("removed 1 run, ") and KEPT in ended.out
    assert names(project) == []
    for name in ("talk", first, first[:12]):
        assert "no run" in fanfold(project, "status", name).err
    again = fanfold(project, "run", "plan.yaml", "--json").receipt
    assert (again["reused"], again["calls"], again["cost_usd"]) == (6, 0, 0.0)
    assert quick_server.totals().asked == 6


def test_with_replies_they_go_too_and_are_paid_for_again(
    project: Path, quick_server: RunningServer
) -> None:
    run(project)
    ended = fanfold(project, "runs", "rm", "talk", "--yes", "--replies")
    assert ended.code == 0 and "kept" not in ended.out
    assert run(project) and quick_server.totals().asked == 12
    assert run(project) and quick_server.totals().asked == 12, "these are found again as ever"


def test_replies_that_another_run_holds_stay_until_that_goes_too(project: Path) -> None:
    first = run(project, "first")
    second = run(project, "second")
    before = fanfold(project, "report", second).out
    assert KEPT in fanfold(project, "runs", "rm", first, "--yes", "--replies").out
    assert fanfold(project, "report", second).out == before
    third = run(project, "third")
    ended = fanfold(project, "runs", "rm", second, third, "--yes", "--replies", "--json")
    freed = msgspec.json.decode(ended.out)
    assert freed["runs"] == [second, third] and freed["shrunk"]


def test_the_file_shrinks_and_says_by_how_much(project: Path) -> None:
    items = b"".join(b'{"id": "%d", "text": "%s"}\n' % (n, b"x" * 2000) for n in range(400))
    (project / "items.jsonl").write_bytes(items)
    run(project)
    before = size(project)
    ended = fanfold(project, "runs", "rm", "talk", "--yes", "--replies", "--json")
    freed = msgspec.json.decode(ended.out)["bytes"]
    assert before - size(project) == freed > 500_000


def test_a_run_after_a_removed_one_has_its_own_account_only(project: Path) -> None:
    run(project)
    fanfold(project, "runs", "rm", "talk", "--yes", "--replies")
    receipt = fanfold(project, "run", "plan.yaml", "--json").receipt
    assert (receipt["calls"], receipt["planned"]) == (6, 6)
    status = msgspec.json.decode(fanfold(project, "status", "talk", "--json").out)
    assert status["cost_usd"] == receipt["cost_usd"] == pytest.approx(receipt["tokens"]["input"] / 1000
        + receipt["tokens"]["output"] / 1000)  # fmt: skip


def test_nothing_of_its_content_is_left_in_any_table(project: Path) -> None:
    """Also not in tables that will be added: what stays of a run is stated here, column by column."""
    stays = {"runs", "steps", "unplaced", "attempts", "claims", "spending", "store", "replies"}
    stays |= {"log", "sqlite_sequence", "sums"}  # sums are amounts, by step and member
    run(project)
    fanfold(project, "runs", "rm", "talk", "--yes", "--replies")
    with closing(sqlite3.connect(project / ".fanfold" / "journal.db")) as db:
        tables = [
            name for (name,) in db.execute("select name from sqlite_master where type = 'table'")
        ]
        counted = {
            name: db.execute(f"select count(*) from {name}").fetchone()[0] for name in tables
        }
        assert {name for name, rows in counted.items() if rows} <= stays
        ((light,),) = db.execute("select facts from log").fetchall()
        assert [type(fact) for fact in decode_light(0, 0.0, light).facts] == [RemoveRuns]
        assert set(db.execute("select ids, error from attempts")) == {(b"[]", None)}
        assert db.execute("select key, reply, blob from replies").fetchall() == [(b"", None, None)]
        assert db.execute("select status, plan, folder, result from runs").fetchall() == [
            ("removed", b"", "", None)
        ]


def test_what_a_removed_run_took_counts_in_the_budget_of_the_month(project: Path) -> None:
    roster = (project / "roster.yaml").read_text(encoding="utf-8")
    (project / "roster.yaml").write_text(f"{roster}    budget_usd_month: 50\n", encoding="utf-8")
    run(project)
    before = fanfold(project, "members", "--json").out
    fanfold(project, "runs", "rm", "talk", "--yes", "--replies")
    assert fanfold(project, "members", "--json").out == before != ""
    assert b'"used_usd":0.0' not in before.encode()


def test_what_a_removed_run_took_counts_for_the_run_that_started_it(project: Path) -> None:
    above = run(project)
    inside = {"FANFOLD_PARENT": above, "FANFOLD_STORE": str(project / ".fanfold")}
    fanfold(project, "run", "plan.yaml", "--name", "below", "--fresh", **inside)
    before = msgspec.json.decode(fanfold(project, "tree", above, "--json").out)
    assert fanfold(project, "runs", "rm", "below", "--yes").code == 0
    after = msgspec.json.decode(fanfold(project, "tree", above, "--json").out)
    assert after["total"] == before["total"] != after["own"]
    assert [child["status"] for child in after["children"]] == ["removed"]
    assert fanfold(project, "tree", above).code == fanfold(project, "report", above).code == 0


def test_without_a_terminal_nothing_is_removed_without_yes(project: Path) -> None:
    run(project)
    for words in (("rm", "talk"), ("prune", "--keep", "0")):
        ended = fanfold(project, "runs", *words)
        said = "fanfold: this would remove 1 run; say --yes to do it\n"
        assert (ended.code, ended.out, ended.err) == (2, "", said)
    assert names(project) == ["talk"]


@pytest.mark.parametrize(("answer", "code", "left"), [(b"y\n", 0, []), (b"n\n", 3, ["talk"])])
def test_on_a_terminal_it_asks_first(
    project: Path, answer: bytes, code: int, left: list[str]
) -> None:
    run(project)
    ours, theirs = pty.openpty()
    os.write(ours, answer)
    command = [*WARM.command, "runs", "rm", "talk"]
    ended = subprocess.run(
        command, cwd=project, env=environment(project, {}), stdin=theirs, stdout=subprocess.DEVNULL,
        stderr=theirs, timeout=LONG, check=False,
    )  # fmt: skip
    asked = os.read(ours, 4096).decode()
    os.close(theirs)
    os.close(ours)
    assert "Remove 1 run?" in asked and ended.returncode == code
    assert names(project) == left


def test_a_store_named_before_rm_is_the_one_that_is_meant(project: Path) -> None:
    run(project, "mine")
    run(project, "mine", "--store", "other")
    assert fanfold(project, "runs", "--store", "other", "rm", "mine", "--yes").code == 0
    assert names(project) == ["mine"]
    assert fanfold(project, "runs", "--store", "other", "--json").out == "[]\n"
    assert (
        fanfold(
            project, "runs", "--store", "other", "rm", "mine", "--store", ".fanfold", "--yes"
        ).code
        == 0
    )
    assert names(project) == []


def refused(ended: Ended) -> str:
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    return ended.err


def test_a_run_that_is_under_way_is_never_removed(tmp_path: Path, server: RunningServer) -> None:
    project = tmp_path / "project"
    write_project(project, server.url)
    with started(project, "run", "plan.yaml", "--json") as program:
        wait_until(lambda: server.totals().in_flight == 3)
        id = names_and_ids(project)["talk"]
        said = refused(fanfold(project, "runs", "rm", "talk", "--yes"))
        assert said == f"fanfold: talk ({id}) is running; end it first: fanfold kill {id} all\n"
        assert (
            fanfold(project, "runs", "prune", "--keep", "0", "--yes").out == "nothing to remove\n"
        )
        server.release()
        assert program.end().code == 0


def names_and_ids(project: Path) -> dict[str, str]:
    rows = msgspec.json.decode(fanfold(project, "runs", "--json").out)
    return {row["name"]: row["run"] for row in rows}


def test_while_others_work_in_the_store_replies_stay_and_it_does_not_shrink(
    tmp_path: Path, server: RunningServer
) -> None:
    """They may have found a reply already that would be removed."""
    project = tmp_path / "project"
    write_project(project, server.url)
    (tmp_path / "shout").mkdir()
    write_function_project(tmp_path / "shout")
    store = str(project / ".fanfold")
    fanfold(tmp_path / "shout", "run", "plan.yaml", "--store", store, "--name", "old")
    with started(project, "run", "plan.yaml", "--json") as program:
        wait_until(lambda: server.totals().in_flight == 3)
        said = refused(fanfold(project, "runs", "rm", "old", "--yes", "--replies"))
        assert "replies cannot be removed while a run of this store is running" in said
        ended = fanfold(project, "runs", "rm", "old", "--yes")
        assert (
            ended.code == 0 and "the file does not shrink while others use the store" in ended.out
        )
        server.release()
        assert program.end().code == 0
    assert names(project) == ["talk"]


def test_prune_goes_by_age_and_keeps_the_newest(project: Path) -> None:
    for name in ("a", "b", "c"):
        run(project, name)
    assert (
        fanfold(project, "runs", "prune", "--older-than", "30d", "--yes").out
        == "nothing to remove\n"
    )
    assert "removed 1 run" in fanfold(project, "runs", "prune", "--keep", "2", "--yes").out
    assert names(project) == ["b", "c"]
    ended = fanfold(project, "runs", "prune", "--older-than", "0m", "--keep", "1", "--yes")
    assert "removed 1 run" in ended.out
    assert names(project) == ["c"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("prune",), "fanfold: say which: --older-than 30d, or --keep N; see: fanfold runs prune --help"),
        (("prune", "--older-than", "month"),
         "fanfold: --older-than month: give a number and m, h, d or w, such as 30d"),
        (("rm", "nobody", "--yes"), "fanfold: no run 'nobody'; there are: talk"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line(project: Path, words: tuple[str, ...], said: str) -> None:
    run(project)
    assert refused(fanfold(project, "runs", *words)) == f"{said}\n"
    assert names(project) == ["talk"]
