"""The report of a fleet: the original's sections first, then ours."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec

from fanfold.fleet.report import Diff, diff_of, fleet_report
from fanfold.fleet.worker_view import WorkerView
from fanfold.members.agents.worktree import make_worktree
from tests.unit.fleet.fleets import worker
from tests.unit.fleet.staged import Stage, small_fleet
from tests.unit.fleet.test_fleet_table import status_of


def report_of(stage: Stage, after: float, diffs: dict[str, Diff] | None = None) -> list[str]:
    archive, _ = stage.look()
    status = status_of(stage, after, root=str(stage.root))
    text = fleet_report(archive.read, status, diffs or {})
    archive.close()
    return text.splitlines()


def section(lines: list[str], title: str) -> list[str]:
    start = lines.index(title) + 2
    later = [n for n, line in enumerate(lines) if n > start and line.startswith("## ")]
    return [line for line in lines[start : min(later, default=len(lines))] if line]


def test_a_fleet_that_went_well_reads_as_the_original_does(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "fleet", [worker("a", model="haiku"), worker("b", model="haiku")])
    for id in ("a", "b"):
        attempt = stage.starts(id, 0)
        stage.works(id, attempt, "c01_trivial")
        stage.writes(id, "finding.md", "five\n")
        stage.writes(id, "deep/more.md", "x")
        stage.exits(id, 0, 5)
        stage.ends(id, attempt, 5, 0.006975)
    stage.closes("complete", 6)
    lines = report_of(stage, 60)
    stage.close()
    assert lines[: lines.index("## Billing")] == [
        "# Fleet Report: demo",
        "",
        "**Completed**: 2025-06-15 15:06:46 UTC",
        "**Duration**: 5.0s",
        "**Total Cost**: $0.0140 (estimated)",
        "",
        "## Workers",
        "",
        "| Worker | Status | Files | Cost | Turns | Duration |",
        "| --- | --- | --- | --- | --- | --- |",
        "| a | SUCCESS | 2 | ~$0.0070 / $1.00 | 1 | 5.0s |",
        "| b | SUCCESS | 2 | ~$0.0070 / $1.00 | 1 | 5.0s |",
        "",
        "`~` is estimated.",
        "",
        "## Output Files",
        "",
        "### a",
        "",
        "- `workers/a/output/finding.md` (5 bytes)",
        "- `workers/a/output/deep/more.md` (1 byte)",
        "",
        "### b",
        "",
        "- `workers/b/output/finding.md` (5 bytes)",
        "- `workers/b/output/deep/more.md` (1 byte)",
        "",
        "## Errors",
        "",
        "_No errors — all workers completed successfully._",
        "",
    ]


def test_what_went_wrong_and_what_failed_for_a_parent_are_told_apart(tmp_path: Path) -> None:
    stage = small_fleet(tmp_path / "fleet")
    stage.writes("b", "summary.md", "as far as it came")
    lines = report_of(stage, 30)
    stage.close()
    assert section(lines, "## Errors") == [
        "### b",
        "- **Status**: FAILED (error_max_budget_usd)",
        "- **Detail**: stopped at its budget of $0.5",
        "- **Exit code**: 1",
        "- **Session**: `9f4affdf-49f3-41e0-8095-2bc0d728369c`",
        "- **Summary**: `workers/b/output/summary.md`",
    ]
    assert section(lines, "## Failed For A Parent") == ["- `d`: parent: b failed"]
    assert section(lines, "## Billing") == [
        "| Lane | Workers | Cost |  |",
        "| --- | --- | --- | --- |",
        "| subscription | 5 | ~$0.83 | estimated by list prices; no bill by the dollar |",
        "Fleet: $1.84 of $5.00, $1.20 of it reserved for what is under way.",
    ]
    assert lines[2] == "**Completed**: not yet: running"
    assert "| planned | 5 |" in section(lines, "## Receipt")


def test_one_that_has_not_started_says_what_it_waits_for(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "fleet", [worker("a"), worker("b", "a")])
    stage.works("a", stage.starts("a", 0), "c01_trivial")
    stage.hosted("a", alive=True)
    lines = report_of(stage, 1)
    stage.close()
    assert "| b | PENDING (waits for a) | 0 | - / $1.00 | 0 | n/a |" in lines


def test_each_session_is_there_with_the_command_that_continues_it(tmp_path: Path) -> None:
    """Not while it runs: two at once would spoil it. One that never began has none."""
    root = tmp_path / "the fleet"
    stage = small_fleet(root)
    lines = report_of(stage, 30)
    stage.close()
    a, b, c, e = section(lines, "## Sessions")
    there = f"cd '{root}' &&"
    assert [a, b, c, e] == [
        f"- `a` `e6960be6-0002-4586-af2b-63bc76920a26`: `{there} claude --resume"
        " e6960be6-0002-4586-af2b-63bc76920a26`",
        f"- `b` `9f4affdf-49f3-41e0-8095-2bc0d728369c`: `{there} claude --resume"
        " 9f4affdf-49f3-41e0-8095-2bc0d728369c`",
        "- `c` `71321460-a747-40e7-97b5-ed2d77ef445c`",
        f"- `e-by-codex` `01a1e0c1-62c8-7cf0-baae-2d52044d2c9a`: `{there} codex resume"
        " 01a1e0c1-62c8-7cf0-baae-2d52044d2c9a`",
    ]


def test_what_a_worker_was_denied_is_told(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "fleet", [worker("a")])
    attempt = stage.starts("a", 0)
    stage.works("a", attempt, "c04_default_perm")
    stage.exits("a", 0, 5)
    stage.ends("a", attempt, 5, 0.01)
    lines = report_of(stage, 30)
    stage.close()
    assert section(lines, "## Permission Denials") == ["- `a`: Bash, Write"]


def test_words_of_workers_are_shown_and_never_obeyed(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "fleet", [worker("a")])
    odd = WorkerView(id="a", state="FAILED", error="# no | head\n## Receipt <b>`x`", subtype="a|b")
    archive, _ = stage.look()
    status = msgspec.structs.replace(status_of(stage, 1), workers=[odd])
    lines = fleet_report(archive.read, status, {}).splitlines()
    archive.close()
    stage.close()
    assert section(lines, "## Errors") == [
        "### a",
        "- **Status**: FAILED (a\\|b)",
        "- **Detail**: # no \\| head ## Receipt \\<b\\>\\`x\\`",
    ]


# ── branches ─────────────────────────────────────────────────────────────────────────────────


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", *who, *words], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def repository(folder: Path) -> Path:
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / "a.txt").write_text("one\n")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "first")
    return folder


def test_the_changes_of_a_worktree_are_those_since_it_was_made(tmp_path: Path) -> None:
    """Committed or not, and also when the main checkout has gone on meanwhile."""
    top, store = repository(tmp_path / "repo"), tmp_path / "store"
    base = git(top, "rev-parse", "HEAD")
    tree = make_worktree(top, store, "RUN:7", "w")
    (tree / "b.txt").write_text("new\n")
    git(tree, "add", ".")
    git(tree, "commit", "--quiet", "-m", "work")
    (tree / "a.txt").write_text("one\ntwo\n")
    (tree / "c.txt").write_text("unknown\n")
    (top / "z.txt").write_text("elsewhere\n")
    git(top, "add", ".")
    git(top, "commit", "--quiet", "-m", "meanwhile")
    before = git(tree, "status", "--porcelain")
    found = diff_of(store, "RUN:7", "w")
    assert found == Diff(
        "fanfold/RUN/w-7", str(tree), base,
        (" a.txt | 1 +", " b.txt | 1 +", " 2 files changed, 2 insertions(+)"), ("c.txt",),
        lines=(("1", "0"), ("1", "0")),
    )  # fmt: skip
    assert found.short == "2 files +2 −0, 1 new"
    assert git(tree, "status", "--porcelain") == before


def test_a_worktree_that_is_gone_is_said_to_be(tmp_path: Path) -> None:
    found = diff_of(tmp_path, "RUN:7", "w")
    assert (found.branch, found.trouble) == (
        "fanfold/RUN/w-7", "its worktree was removed; the branch may still exist",
    )  # fmt: skip


def test_branches_are_listed_and_nothing_is_merged(tmp_path: Path) -> None:
    stage = small_fleet(tmp_path / "fleet")
    diffs = {
        "a": Diff("fanfold/R/a-1", "/srv/a", "0123456789abcdef", (" a.txt | 1 +",), ("new.md",)),
        "b": Diff("fanfold/R/b-2", "/srv/b", "0123456789abcdef"),
        "c": Diff("fanfold/R/c-3", "/srv/c", trouble="its worktree is gone"),
    }
    lines = report_of(stage, 30, diffs)
    stage.close()
    assert section(lines, "## Branches") == [
        "Nothing was merged into yours. Each worker's changes are on its own branch.",
        "### a: `fanfold/R/a-1`",
        "In `/srv/a`, against `0123456789ab`:",
        "```", "a.txt | 1 +", "new.md (not added to git)", "```",
        "### b: `fanfold/R/b-2`",
        "In `/srv/b`, against `0123456789ab`:",
        "_No changes._",
        "### c: `fanfold/R/c-3`",
        "its worktree is gone",
    ]  # fmt: skip
