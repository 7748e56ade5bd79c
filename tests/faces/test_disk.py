"""A disk that is full, or may not be written: the run pauses or is refused, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fanfold.price import dollars
from fanfold.testing.running import RunningServer
from tests.faces.cli import Ended, fanfold, started
from tests.faces.disk import fill, make_read_only, make_room, small_disk
from tests.faces.project import write_project


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk") as disk:
        yield disk


def project(tmp_path: Path, server: RunningServer) -> Path:
    write_project(tmp_path / "project", server.url, items=8)
    return tmp_path / "project"


@pytest.fixture
def folder(tmp_path: Path, server: RunningServer) -> Path:
    return project(tmp_path, server)


@pytest.fixture
def quick(tmp_path: Path, quick_server: RunningServer) -> Path:
    return project(tmp_path, quick_server)


def filled_up(folder: Path, disk: Path, server: RunningServer, *, ballast: bool) -> Ended:
    """Run the plan; the disk fills up while the first three calls are under way."""
    with started(folder, "run", "plan.yaml", "--quiet", "--store", f"{disk}/store") as run:
        run.until(lambda: server.totals().in_flight == 3)
        if not ballast:
            (disk / "store" / "ballast").unlink()
        fill(disk)
        server.release()
        ended = run.end()
    server.wait_idle()
    return ended


@pytest.mark.parametrize("ballast", [True, False])
def test_a_disk_that_fills_up_pauses_the_run_and_no_reply_is_paid_again(
    disk: Path, server: RunningServer, folder: Path, ballast: bool
) -> None:
    """PageCapacity was set aside for what is under way, so that even that is not lost; also when somebody
    removed the ballast file."""
    first = filled_up(folder, disk, server, ballast=ballast)
    paid = server.books().paid_calls
    assert (first.code, first.err) == (4, "")
    title, items, *_ = first.out.splitlines()
    assert title == "talk paused: the disk is full; make room, then resume"
    assert items == f"{paid} of 8 done: {paid} passed, {8 - paid} cancelled"
    fill(disk)
    shown = fanfold(folder, "status", "talk", "--json", "--store", f"{disk}/store").receipt
    assert (shown["status"], shown["passed"]) == ("paused", paid), "looking needs no room"
    make_room(disk)
    second = fanfold(folder, *first.resume, "--json")
    assert (second.code, second.err) == (0, "")
    books = server.books()
    receipt = second.receipt
    assert (receipt["status"], receipt["passed"], receipt["in_doubt"]) == ("complete", 8, 0)
    assert (receipt["calls"], receipt["reused"]) == (8 - paid, paid)
    assert (receipt["cost_usd"], receipt["maybe_paid_twice"]) == (dollars(books.bill), 0)
    assert (books.paid_calls, books.paid_twice()) == (8, {})


def test_on_a_full_disk_nothing_is_started(
    disk: Path, quick_server: RunningServer, quick: Path
) -> None:
    fill(disk)
    ended = fanfold(quick, "run", "plan.yaml", "--store", f"{disk}/store")
    assert ended.code in (2, 4)
    assert ended.err == f"fanfold: {disk}/store: the disk is full; make room\n"
    assert quick_server.totals().asked == 0
    make_room(disk)
    assert fanfold(quick, "run", "plan.yaml", "--quiet", "--store", f"{disk}/store").code == 0


def test_a_store_that_may_not_be_written_is_refused(
    disk: Path, quick_server: RunningServer, quick: Path
) -> None:
    kept = disk / "kept"
    assert fanfold(quick, "run", "plan.yaml", "--quiet", "--store", str(kept)).code == 0
    before = (kept / "journal.db").read_bytes()
    make_read_only(disk)
    asked = quick_server.totals().asked
    for store in (kept, disk / "new"):
        ended = fanfold(quick, "run", "plan.yaml", "--store", str(store))
        assert (ended.code, ended.out) == (2, "")
        assert ended.err.startswith(f"fanfold: {store}")
        assert ended.err.endswith("use --store DIR\n") and ended.err.count("\n") == 1
    assert (kept / "journal.db").read_bytes() == before
    assert quick_server.totals().asked == asked
    assert fanfold(quick, "report", "talk", "--store", str(kept)).out.startswith("# talk\n")
