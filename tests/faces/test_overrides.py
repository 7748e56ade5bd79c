"""What is said on the command line in place of the plan: `--limit`, `--input`, `--set`, `-j`, stdin.
It is part of the run, so a resume goes on with the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from fanfold.testing.running import RunningServer, threaded_server
from tests.faces.cli import WARM, Ended, environment, fanfold, runs, started
from tests.faces.project import MEMBER, PRICE, write_items
from tests.waiting import LONG, wait_until

PLAN = """\
name: talk
vars: {tone: kind, times: 2, loud: false}
input: {jsonl: items.jsonl}
steps:
  - map: {prompt: "Be {{ vars.tone }}, {{ vars.times + 1 }} times: {{ item.text }}", member: m}
  - reduce: {kind: concat, sep: " / "}
  - write: "out-{{ vars.tone }}.txt"
"""


@pytest.fixture
def folder(tmp_path: Path, quick_server: RunningServer) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    (made / "plan.yaml").write_text(PLAN)
    (made / "roster.yaml").write_text("members:\n" + MEMBER.format(url=quick_server.url))
    write_items(made, [f"word {n}" for n in range(6)])
    return made


def prompts(server: RunningServer) -> list[str]:
    return sorted(entry.prompt for entry in server.books().asked)


def piped(folder: Path, given: str, *words: str) -> Ended:
    ended = subprocess.run(
        [*WARM.command, *words], cwd=folder, env=environment(folder), input=given,
        capture_output=True, text=True, timeout=LONG, check=False,
    )  # fmt: skip
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def run(folder: Path, *words: str) -> Ended:
    return fanfold(folder, "run", "plan.yaml", "--quiet", *words)


def refused(folder: Path, server: RunningServer, *words: str) -> str:
    ended = run(folder, *words)
    assert (ended.code, ended.out, len(server.books().asked)) == (2, "", 0)
    return ended.err.removeprefix("fanfold: ").rstrip("\n")


# ── --limit ──────────────────────────────────────────────────────────────────────────────────


def test_a_run_over_the_first_items_is_known_as_that_and_is_not_paid_again(
    folder: Path, quick_server: RunningServer
) -> None:
    first = run(folder, "--limit", "2", "--json").receipt
    assert (first["name"], first["planned"], first["calls"]) == ("talk-first-2", 2, 2)
    whole = run(folder, "--json").receipt
    assert (whole["name"], whole["planned"], whole["calls"], whole["reused"]) == ("talk", 6, 4, 2)
    assert len(quick_server.books().asked) == 6


def test_a_limit_of_the_plan_holds_too(folder: Path) -> None:
    (folder / "plan.yaml").write_text(PLAN.replace("items.jsonl}", "items.jsonl, limit: 3}"))
    assert run(folder, "--limit", "5", "--json").receipt["planned"] == 3


# ── --set ────────────────────────────────────────────────────────────────────────────────────


def test_variables_are_in_prompts_and_paths(folder: Path, quick_server: RunningServer) -> None:
    assert run(folder, "--limit", "1").code == 0
    assert run(folder, "--limit", "1", "--set", "tone=stern", "--set", "times=4").code == 0
    assert prompts(quick_server) == ["Be kind, 3 times: word 0", "Be stern, 5 times: word 0"]
    assert [(folder / f"out-{tone}.txt").exists() for tone in ("kind", "stern")] == [True, True]


def test_variables_are_in_filters_and_inputs(folder: Path, quick_server: RunningServer) -> None:
    (folder / "plan.yaml").write_text(
        "vars: {file: none.jsonl, least: 1}\ninput: {jsonl: '{{ vars.file }}'}\nsteps:\n"
        "  - map: {prompt: 'Say {{ item.text }}', member: m, keep: reply | length > vars.least}\n"
    )
    ended = run(folder, "--set", "file=items.jsonl", "--set", "least=1000", "--json")
    assert (ended.receipt["planned"], ended.receipt["skipped"]) == (6, 6)


MISTAKES = [
    (["--set", "tne=x"], "--set tne: no variable of plan.yaml: did you mean `tone`?"),
    (["--set", "times=often"], "--set times: must be a number as in the plan, not 'often'"),
    (["--set", "loud=maybe"], "--set loud: must be true or false, not 'maybe'"),
    (["--set", "tone"], "--set tone: must be NAME=VALUE"),
    (["--set", "tone=a", "--set", "tone=b"], "--set: `tone` is given twice"),
    (["--input", "none.jsonl"], "--input: input `{folder}/none.jsonl`: no such file"),
    (["--input", "odd.bin"], "--input: input `{folder}/odd.bin`: no such file"),
    (["--input", "."], "--input {folder}: is a directory; for the files in it: --input '{folder}/*'"),
    (["--limit", "0"], "invalid value for '--limit': 0 is not in the range x>=1;"
     " see: fanfold run --help"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "said"), MISTAKES)
def test_a_mistake_is_one_line(
    folder: Path, quick_server: RunningServer, words: list[str], said: str
) -> None:
    assert refused(folder, quick_server, *words) == said.format(folder=folder)


IN_PLANS = [
    ("vars: {tone: kind, times: 2, loud: false}", "vars: {tone: kind}",
     "plan.yaml:5: the prompt reads `vars.times`, which is not there: known: tone"),
    ("vars: {tone: kind, times: 2, loud: false}\n", "",
     "plan.yaml:4: the prompt reads `vars.times`, which is not there: the plan has no `vars`"),
    ("tone: kind", "tone: ", "plan.yaml:2: the variable `tone` has no value: --set tone=VALUE"),
    ("tone: kind", "tone: [a]",
     "plan.yaml:2: `tone` must be a text, a number, true or false, not a list"),
    ("tone: kind", "my-tone: kind",
     "plan.yaml:2: `my-tone` cannot be a variable: use letters, digits and _"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "said"), IN_PLANS)
def test_a_mistake_in_the_plan_has_its_line(
    folder: Path, quick_server: RunningServer, old: str, new: str, said: str
) -> None:
    (folder / "plan.yaml").write_text(PLAN.replace(old, new))
    assert refused(folder, quick_server) == said


def test_a_plan_without_variables_takes_none(folder: Path, quick_server: RunningServer) -> None:
    (folder / "plan.yaml").write_text("input: {count: 1}\nsteps:\n  - map: {prompt: x}\n")
    assert refused(folder, quick_server, "--set", "a=1") == "--set a: plan.yaml has no `vars`"


# ── --input ──────────────────────────────────────────────────────────────────────────────────


def test_another_file_is_read_in_place_of_the_input(
    folder: Path, quick_server: RunningServer
) -> None:
    (folder / "other.tsv").write_text("id\ttext\nx\tfrom a table\n")
    assert run(folder, "--input", "other.tsv").code == 0
    assert prompts(quick_server) == ["Be kind, 3 times: from a table"]


def test_it_is_named_from_the_current_folder(folder: Path, quick_server: RunningServer) -> None:
    (folder.parent / "far.txt").write_text("a line\n")
    ended = fanfold(folder.parent, "run", "project/plan.yaml", "--quiet", "--input", "far.txt")
    assert (ended.code, prompts(quick_server)) == (0, ["Be kind, 3 times: a line"])


def test_a_fleet_takes_none_of_them(folder: Path) -> None:
    (folder / "fleet.json").write_text("{}")
    for command in ("run", "launch"):
        ended = fanfold(folder, command, ".", "--limit", "1")
        assert (ended.code, ended.out) == (2, "")
        assert ended.err.startswith(
            "fanfold: --limit, --input, --set, --batch and -j are for plans"
        )


# ── stdin ────────────────────────────────────────────────────────────────────────────────────

LINES = '{"id": "p", "text": "one"}\n{"id": "q", "text": "two"}\n{"id": "r", "text": "three"}\n'


@pytest.mark.parametrize("name", ["-", "/dev/stdin", "/dev/fd/0"])
def test_stdin_is_read_once_and_kept_for_a_resume(
    folder: Path, quick_server: RunningServer, name: str
) -> None:
    paused = piped(
        folder, LINES, "run", "plan.yaml", "--input", name, "--budget", "calls=1", "--quiet"
    )
    assert paused.code == 4, paused
    done = fanfold(folder, "resume", "talk", "--budget", "calls=9", "--json").receipt
    assert (done["status"], done["passed"], done["calls"]) == ("complete", 3, 2)
    assert len(quick_server.books().asked) == 3


def test_stdin_of_a_plan_is_read_by_its_kind(folder: Path, quick_server: RunningServer) -> None:
    (folder / "plan.yaml").write_text(PLAN.replace("jsonl: items.jsonl", "lines: '-'"))
    assert piped(folder, "one\ntwo\n", "run", "plan.yaml", "--quiet").code == 0
    assert prompts(quick_server) == ["Be kind, 3 times: one", "Be kind, 3 times: two"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (LINES + "{oops\n", "stdin:4: broken JSON: object keys must be strings"),
        (LINES + LINES, "duplicate id 'p': stdin:1 and :4; make ids unique"),
    ],
)
def test_what_is_wrong_on_stdin_has_its_line(
    folder: Path, quick_server: RunningServer, given: str, said: str
) -> None:
    ended = piped(folder, given, "run", "plan.yaml", "--quiet", "--input", "-")
    assert (ended.code, ended.out, ended.err) == (2, "", f"fanfold: {said}\n")
    assert not quick_server.books().asked


def test_a_resume_without_what_was_kept_says_so(folder: Path) -> None:
    piped(folder, LINES, "run", "plan.yaml", "--input", "-", "--budget", "calls=1", "--quiet")
    (kept,) = (folder / ".fanfold" / "inputs").glob("*/*")
    kept.unlink()
    ended = piped(folder, LINES, "resume", "talk", "--budget", "calls=9")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == (
        f"fanfold: --input: the items were read from `-`, and {kept.relative_to(folder)}, where they"
        " were kept, is gone; start a new run\n"
    )


def test_a_launched_run_has_the_stdin_of_its_launcher(folder: Path) -> None:
    ended = piped(folder, LINES, "launch", "plan.yaml", "--input", "-", "--json", "--no-tmux")
    assert ended.code == 0, ended

    def finished() -> bool:
        return [one["status"] for one in runs(folder)] == ["complete"]

    wait_until(finished)
    assert runs(folder)[0]["planned"] == 3


# ── all of it is part of the run ─────────────────────────────────────────────────────────────


def test_a_resume_goes_on_with_the_same(folder: Path, quick_server: RunningServer) -> None:
    (folder / "other.jsonl").write_text(LINES)
    words = ["--input", "other.jsonl", "--limit", "2", "--set", "tone=stern", "-j", "1"]
    assert run(folder, *words, "--budget", "calls=1").code == 4
    done = fanfold(folder.parent, "resume", "talk-first-2", "--store", "project/.fanfold",
                   "--budget", "calls=9", "--json").receipt  # fmt: skip
    assert (done["status"], done["planned"], done["calls"]) == ("complete", 2, 1)
    assert prompts(quick_server) == ["Be stern, 3 times: one", "Be stern, 3 times: two"]
    assert done["written"] == [{"path": str(folder / "out-stern.txt"), "files": None}]


def test_a_plan_that_was_changed_is_started_anew_in_the_same_way(folder: Path) -> None:
    words = ["--limit", "2", "-j", "1", "--set", "tone=very kind"]
    assert run(folder, *words, "--budget", "calls=1").code == 4
    (folder / "plan.yaml").write_text(PLAN.replace("Be {{", "Please be {{"))
    ended = fanfold(folder, "resume", "talk-first-2", "--budget", "calls=9")
    assert (ended.code, ended.err) == (
        2, "fanfold: plan.yaml has changed since talk-first-2 was started; start a new run with:"
        " fanfold run plan.yaml --limit 2 -j 1 --set 'tone=very kind' (it reuses what is unchanged)\n",
    )  # fmt: skip


def test_a_task_that_is_relaunched_has_the_same(folder: Path, quick_server: RunningServer) -> None:
    (folder / "plan.yaml").write_text(
        "name: talk\nvars: {tone: }\nsteps:\n"
        "  - graph: {member: m, tasks: [{id: a, prompt: 'Be {{ vars.tone }}'}]}\n"
    )
    assert run(folder, "--set", "tone=stern").code == 0
    registry = {"FANFOLD_REGISTRY": str(folder / "registry.json")}
    assert fanfold(folder, "relaunch", "talk", "a", "--no-tmux", **registry).code == 0
    wait_until(lambda: prompts(quick_server) == ["Be stern", "Be stern"])
    wait_until(lambda: [one["status"] for one in runs(folder)] == ["complete"])


@pytest.mark.parametrize("many", [2, 5])
def test_calls_at_once(folder: Path, tmp_path: Path, many: int) -> None:
    """None of them is answered before all are there, and there are never more."""
    with threaded_server(tmp_path / "held", price=PRICE, latency_ms=3.6e6) as held:
        (folder / "roster.yaml").write_text("members:\n" + MEMBER.format(url=held.url))
        with started(folder, "run", "plan.yaml", "-j", str(many)) as program:
            program.until(lambda: held.totals().in_flight == many)
            wait_until(lambda: held.release() or program.process.poll() is not None)
            assert program.end().code == 0
        assert (held.totals().max_in_flight, held.totals().asked) == (many, 6)


# ── previews ─────────────────────────────────────────────────────────────────────────────────


def sized(ended: Ended) -> tuple[int, int | None, int | None]:
    found = msgspec.json.decode(ended.out)
    (only,) = [step for step in found["steps"] if step["name"] == "map"]
    return ended.code, only["tasks"], only["calls"]


def test_a_preview_is_of_the_run_that_is_meant(folder: Path, quick_server: RunningServer) -> None:
    look = ["run", "plan.yaml", "--dry-run", "--json"]
    assert sized(fanfold(folder, *look, "--limit", "2")) == (0, 2, 2)
    (folder / "one.jsonl").write_text('{"id": "x", "text": "y"}\n')
    assert sized(fanfold(folder, *look, "--input", "one.jsonl")) == (0, 1, 1)
    assert sized(piped(folder, LINES, *look, "--input", "-")) == (0, 3, 3)
    drawn = piped(folder, LINES, "run", "plan.yaml", "--dry-run", "--input", "-").out
    assert "jsonl from stdin" in drawn and "3 items" in drawn
    assert not (folder / ".fanfold").exists() and not quick_server.books().asked


def test_a_program_is_run_for_a_preview_only_when_that_is_said(folder: Path) -> None:
    (folder / "list.py").write_text(
        "open('ran', 'a').write('x')\nprint('{\"text\": 1}\\n{\"text\": 2}')"
    )
    command = f"command: ['{sys.executable}', list.py]"
    (folder / "plan.yaml").write_text(PLAN.replace("jsonl: items.jsonl", command))
    look = ["run", "plan.yaml", "--dry-run", "--json"]
    assert sized(fanfold(folder, *look)) == (0, None, None)
    assert not (folder / "ran").exists()
    assert sized(fanfold(folder, *look, "--read-input")) == (0, 2, 2)
    assert (folder / "ran").read_text() == "x"
    alone = fanfold(folder, "run", "plan.yaml", "--read-input")
    assert (alone.code, alone.err) == (
        2, "fanfold: --read-input goes with --dry-run: a run reads its input anyway;"
        " see: fanfold run --help\n",
    )  # fmt: skip
