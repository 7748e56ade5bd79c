"""What a worker is given of those it depends on: who is missing, their results, their branches."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.faces.fleet_root import Root
from tests.waiting import wait_until

pytestmark = pytest.mark.slow


def state(team: Root, id: str, **fields: Any) -> None:
    """Put fields into a worker of the fleet.json."""
    file = team.root / "fleet.json"
    made = json.loads(file.read_text())
    for one in made["workers"]:
        if one["id"] == id:
            one.update(fields)
    file.write_text(json.dumps(made))


def sent(team: Root, id: str) -> str:
    """What its program read."""
    return (team.root / "workers" / id / "prompt.txt").read_text()


def given(team: Root, id: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((team.root / "workers" / id / "parents.json").read_text())
    return found


def errors(team: Root) -> dict[str, str]:
    shown = team.ok("status", team.name, "--json").receipt
    return {one["id"]: one["error"] for one in shown["workers"] if one["error"]}


# ── some are missing ─────────────────────────────────────────────────────────────────────────


def test_a_partial_worker_starts_with_what_there_is_and_is_told_who_is_missing(team: Root) -> None:
    team.write(
        {"a": "I am a", "b": "I am b\nFAIL", "c": "c: {{ parents.a }} and {{ parents.b }}", "d": "d"},
        c=["a", "b"], d=["a", "b"],
    )  # fmt: skip
    state(team, "c", partial=True)
    team.fanfold("run", str(team.root))
    assert team.states() == {"a": "DONE", "b": "FAILED", "c": "DONE", "d": "FAILED"}
    first, *_, last = sent(team, "c").strip().splitlines()
    assert first == "c: I am a and (there is no answer of b)"
    assert last == "There is no answer for: b"
    assert (given(team, "c")["a"]["passed"], given(team, "c")["b"]["passed"]) == (True, False)


def test_with_no_parent_that_ended_well_only_always_starts(team: Root) -> None:
    team.write({"a": "I am a\nFAIL", "b": "b", "c": "c"}, b=["a"], c=["a"])
    state(team, "b", partial=True)
    state(team, "c", partial="always")
    team.fanfold("run", str(team.root))
    assert team.states() == {"a": "FAILED", "b": "FAILED", "c": "DONE"}
    assert errors(team)["b"] == "parent: a failed"


def test_one_that_failed_for_a_parent_is_relaunched_once_it_can_do_without(team: Root) -> None:
    team.write({"a": "I am a", "b": "I am b\nFAIL", "c": "c"}, c=["a", "b"])
    team.fanfold("run", str(team.root))
    refused = team.fanfold("relaunch", team.name, "c", "--no-tmux")
    assert (refused.code, "c depends on b, which failed" in refused.err) == (2, True)
    state(team, "c", partial=True)
    team.ok("relaunch", team.name, "c", "--no-tmux")
    wait_until(lambda: team.states()["c"] == "DONE")
    assert sent(team, "c").endswith("There is no answer for: b")


# ── their results ────────────────────────────────────────────────────────────────────────────


def test_the_results_and_files_of_parents_are_in_prompt_and_folder(team: Root) -> None:
    note = team.root / "workers" / "a-1" / "output" / "note.md"
    team.write(
        {
            "a-1": f"first {{{{ x }}}} {{% y %}}\nWRITE {note}",
            "b": 'I got "{{ parents.a-1 }}", once more {{parents["a-1"]}}, {{ x }}',
        },
        b=["a-1"],
    )
    team.ok("run", str(team.root))
    said = "first {{ x }} {% y %}"
    assert sent(team, "b").splitlines()[0] == f'I got "{said}", once more {said}, {{{{ x }}}}'
    result = team.root / "workers" / "b" / "parents" / "a-1.md"
    assert given(team, "b") == {
        "a-1": {
            "passed": True, "result": str(result), "output": str(note.parent), "files": ["note.md"],
            "branch": "",
        },
    }  # fmt: skip
    assert result.read_text() == said
    assert not (team.root / "workers" / "a-1" / "parents.json").exists()


def test_a_long_result_is_cut_in_the_prompt_and_whole_in_the_file(team: Root) -> None:
    team.write({"a": "x" * 50_000, "b": "{{ parents.a }}"}, b=["a"])
    team.ok("run", str(team.root))
    assert len(sent(team, "b")) < 17_000
    assert "characters left out" in sent(team, "b")
    assert (team.root / "workers" / "b" / "parents" / "a.md").read_text() == "x" * 50_000


def test_the_preview_knows_no_result_yet_and_stands_one_in(team: Root) -> None:
    team.write({"a": "I am a", "b": "{{ parents.a }}"}, b=["a"])
    shown = team.ok("run", str(team.root), "--dry-run").out
    assert "replies that the prompts will hold are counted at their usual length" in shown


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ("one\n{{ parents.aa }}", "prompt.md:2: `parents.aa` is read, but worker `b` does not depend"
         " on `aa`: did you mean `a`?"),
        ("{{ parents.a | upper }}", "prompt.md:1: the result of a parent is written"
         " {{ parents.ID }}, with nothing else in it"),
        ("\n\n{{ parents }}", "prompt.md:3: the result of a parent is written {{ parents.ID }}, with"
         " nothing else in it"),
    ],
)  # fmt: skip
def test_what_is_no_parent_is_refused_with_file_and_line(
    team: Root, prompt: str, said: str
) -> None:
    team.write({"a": "I am a", "b": prompt}, b=["a"])
    ended = team.fanfold("run", str(team.root))
    assert ended.code == 2
    assert ended.err.strip() == f"fanfold: {team.root}/workers/b/{said}"
    assert not team.store.exists()


# ── their branches ───────────────────────────────────────────────────────────────────────────


def git(folder: Path, *words: str) -> str:
    own = ["-c", "user.name=t", "-c", "user.email=t@localhost"]
    ended = subprocess.run(["git", *own, *words], cwd=folder, capture_output=True, check=True)
    return ended.stdout.decode().strip()


def in_git(team: Root) -> None:
    (team.root / ".gitignore").write_text(".fanfold\nlogs\nworkers\nfleet.json\n")
    git(team.root, "init", "--quiet", "--initial-branch=main")
    git(team.root, "add", ".")
    git(team.root, "commit", "--quiet", "-m", "first")
    for id in json.loads((team.root / "fleet.json").read_text())["workers"]:
        state(team, id["id"], isolation="worktree")


def tree_of(team: Root, id: str) -> Path:
    return Path(json.loads((team.root / "workers" / id / "spec.json").read_text())["folder"])


def test_a_dependent_begins_with_what_its_parents_left_committed_or_not(team: Root) -> None:
    team.write(
        {"a": "by a\nWRITE a.txt", "b": "by b\nWRITE b.txt", "c": "by c\nWRITE c.txt", "d": "d"},
        c=["a"], d=["b", "c"],
    )  # fmt: skip
    in_git(team)
    team.ok("run", str(team.root))
    left = {id: sorted(one.name for one in tree_of(team, id).glob("*.txt")) for id in "abcd"}
    assert left == {
        "a": ["a.txt"], "b": ["b.txt"], "c": ["a.txt", "c.txt"], "d": ["a.txt", "b.txt", "c.txt"],
    }  # fmt: skip
    assert git(tree_of(team, "d"), "status", "--porcelain") == ""
    assert git(tree_of(team, "a"), "status", "--porcelain") == "?? a.txt"
    assert given(team, "c")["a"]["branch"] == git(tree_of(team, "a"), "branch", "--show-current")
    assert git(team.root, "log", "--format=%s", "main") == "first"
    report = team.ok("report", team.name).out
    own = report.partition("### c: `fanfold/")[2].partition("###")[0]
    assert ", the work of a:" in own
    assert ("c.txt" in own, "a.txt" in own) == (True, False)


def test_two_that_began_with_the_same_work_can_be_merged_again(team: Root) -> None:
    """One of them went on with the file that both had from their parent."""
    gate = team.gate("c")
    team.write(
        {"a": "by a\nWRITE x.txt", "b": f"by b\nWRITE {gate}", "c": f"WAIT {gate}\nWRITE x.txt", "d": "d"},
        b=["a"], c=["a"], d=["b", "c"],
    )  # fmt: skip
    in_git(team)
    team.ok("run", str(team.root))
    assert (tree_of(team, "d") / "x.txt").read_text() == f"WAIT {gate}"


def test_parents_that_changed_the_same_lines_fail_their_dependent_in_one_line(team: Root) -> None:
    team.write({"a": "by a\nWRITE x.txt", "b": "by b\nWRITE x.txt", "c": "c"}, c=["a", "b"])
    in_git(team)
    team.fanfold("run", str(team.root))
    assert team.states() == {"a": "DONE", "b": "DONE", "c": "FAILED"}
    assert errors(team) == {
        "c": "isolation: worktree: b and a changed the same lines of x.txt; make one depend on the"
        " other, or relaunch one"
    }
    assert len(git(team.root, "worktree", "list").splitlines()) == 3
