"""What is wrong is refused: exit 2, one line that says what, where and what to do; nothing was
started, nothing is lost."""

from __future__ import annotations

import re
import shlex
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fanfold.testing.running import RunningServer, threaded_server
from tests.faces.cli import fanfold, runs
from tests.faces.project import PRICE, write_function_project, write_project
from tests.faces.spoiled import (
    Spoil,
    add,
    both,
    change,
    foreign,
    in_map,
    in_member,
    link,
    newer,
    nothing,
    pipe,
    plan,
    put,
    remove,
    roster,
    scratched,
    torn,
)  # fmt: skip

RUN = "run plan.yaml"
SPECIAL = "is a pipe or a device; it is read more than once, so save it to a file first"
CIRCLE = "too many levels of symbolic links"
BARE = "input: {jsonl: items.jsonl}\nsteps:\n  - command: {cmd: [cat]}\n"
CASES: list[tuple[str, Spoil, str]] = [
    # the plan file
    ("run none.yaml", nothing, "none.yaml: no such file"),
    ("run .", nothing, ".: holds no fleet.json; name a plan, or the folder of a fleet"),
    (RUN, put("plan.yaml", ""), "plan.yaml: is empty"),
    (RUN, put("plan.yaml", b"name: \xff"), "plan.yaml:1: is not UTF-8 text; save it as UTF-8"),
    (RUN, put("plan.yaml", "name: x\nsteps: [\n  - a: {b\n"),
     "plan.yaml:3: broken YAML: did not find expected node content"),
    ("run plan.json", put("plan.json", '{"name": "x",\n "steps": [}\n'),
     "plan.json:2: broken JSON: expecting value"),
    (RUN, plan("budget", "bugdet"),
     "plan.yaml:2: unknown field `bugdet` in a plan: did you mean `budget`?"),
    (RUN, plan("- map:", "- mpa:"), "plan.yaml:5: unknown step `mpa`: did you mean `map`?"),
    (RUN, plan("member:", "mebmer:"),
     "plan.yaml:7: unknown field `mebmer` in a map: did you mean `member`?"),
    (RUN, plan("kind: concat", "kind: concatenate"),
     "plan.yaml:9: unknown kind `concatenate`: did you mean `concat`?"),
    (RUN, plan("concurrency: 3", "concurrency: many"),
     "plan.yaml:8: `concurrency` must be a whole number, not the text 'many'"),
    (RUN, in_map("gate:", "  - requires: [a]"),
     "plan.yaml:10: unknown gate `requires`: did you mean `require`?"),
    (RUN, in_map("gate:", "  - [{require: [a]}]"),
     "plan.yaml:10: a gate is a mapping such as `require: [a, b]`, not [{'require': ['a']}]"),
    (RUN, in_map("schema: {type: objekt}"),
     'plan.yaml:9: not a valid JSON Schema: `type`: "objekt" is not valid under any of the '
     "schemas listed in the 'anyOf' keyword"),
    (RUN, in_map("schema_file: none.json"), "plan.yaml:9: `schema_file` none.json: no such file"),
    (RUN, add("plan.yaml", "  - reduce: {kind: collect, fan_in: 1}\n"),
     "plan.yaml:10: `fan_in` must be 2 or more, not 1"),
    (f"{RUN} --name a\udcff", nothing,
     "a word of the command line, 'a\\udcff', is not UTF-8 text; type it in UTF-8, or rename the file"),
    (RUN, in_map("keep: replay.ok"),
     "plan.yaml:9: template: `replay` is not defined: did you mean `reply`?"),
    (RUN, in_map("keep: reply.ok +"),
     "plan.yaml:9: template: an expression is incomplete"),
    (RUN, add("plan.yaml", "  - write: items.jsonl/report.md\n"),
     "plan.yaml:10: `write` items.jsonl/report.md: items.jsonl is a file, not a folder"),
    (RUN, add("plan.yaml", '  - write: "\\0"\n'),
     "plan.yaml:10: a text holds a null character, which no path, program or database takes"),
    ("run plan.json", put("plan.json", '{"name": "x",\n "input": {"json": "a\\u0000"}}'),
     "plan.json:2: a text holds a null character, which no path, program or database takes"),
    # the prompt
    (RUN, plan("item.text", "itm.text"),
     "plan.yaml:6: template: `itm` is not defined: did you mean `item`?"),
    (RUN, plan("item.text }}", "item.text }"),
     "plan.yaml:6: template: unexpected `}`; a value ends with `}}`, a tag with `%}`"),
    (RUN, plan("item.text", "item.txet"),
     "plan.yaml:6: the prompt reads item.txet, but items have: id, text"),
    (RUN, both(put("items.jsonl", '{"n": 1, "id": "a"}\n'), put("plan.yaml", BARE)),
     "plan.yaml:3: `command` has no `prompt`, so it gets item.text, but items have: n, id; "
     'give it one, such as `prompt: "{{ item.n }}"`'),
    (RUN, plan('      prompt: "Say {{ item.text }}"\n', ""),
     "plan.yaml:5: `map` has no `prompt`, but member `m` (kind openai) needs one"),
    # the roster
    (f"{RUN} --roster none.yaml", nothing, "none.yaml: no such file"),
    (f"{RUN} --roster .", nothing, ".: is a directory, not a file"),
    (RUN, plan("budget", "roster: none.yaml\nbudget"),
     "plan.yaml:2: `roster` none.yaml: no such file"),
    (RUN, put("roster.yaml", "members:\n - id: m\n  kind: openai\n"),
     "roster.yaml:3: broken YAML: did not find expected '-' indicator"),
    (RUN, change("roster.yaml", "max_tokens", "max_token"),
     "roster.yaml:7: unknown field `max_token` in a member of kind openai: "
     "did you mean `max_tokens`?"),
    (RUN, change("roster.yaml", "kind: openai", "kind: opnai"),
     "roster.yaml:3: unknown kind `opnai`: did you mean `openai`?"),
    (RUN, add("roster.yaml", "  - {id: m, kind: command, cmd: [cat]}\n"),
     "roster.yaml:10: duplicate member `m`, first in line 2"),
    (RUN, remove("roster.yaml"),
     "plan.yaml:7: there is no member `m` in fanfold's own roster (no roster.yaml was found): "
     "known: extractive"),
    (RUN, plan("member: m", "member: mm"),
     "plan.yaml:7: there is no member `mm` in the roster: did you mean `m`?"),
    (RUN, plan("member: m", "needs: [law]"),
     "plan.yaml:7: no member of the roster roster.yaml is good at law"),
    (RUN, in_member("enabled: false"),
     "plan.yaml:7: member `m` is switched off (enabled: false)"),
    (RUN, in_member("key: env:NO_SUCH_KEY"),
     "roster.yaml:10: member `m`: the variable NO_SUCH_KEY is not set; export it, or change `key`"),
    (RUN, in_member("key: file:none.key"),
     "roster.yaml:10: member `m`: its key file none.key is missing, empty or not "
     "readable; write the key into it, or change `key`"),
    (RUN, in_member("key: sk-hush"),
     "roster.yaml:10: `key` must be env:NAME, file:PATH or none, never the key itself; "
     "put the key into a variable and write env: and its name"),
    (RUN, in_member("tier: paid"),
     "roster.yaml:10: member m is paid; allow it with --allow-paid or settings.allow_paid"),
    (RUN, change("roster.yaml", "    price: {input: 1000, output: 1000}\n", ""),
     "roster.yaml:2: member m has no known price, so it cannot run under a dollar budget; "
     "give it a `price`, or `tier: local` if its model runs on this machine"),
    (RUN, roster("{id: m, kind: command, cmd: [cat]}"),
     "roster.yaml:2: member m has no known price, so it cannot run under a dollar budget; "
     "give it a `price`, such as `price: {call: 0}` for one that is free"),
    (RUN, roster("{id: m, kind: command, cmd: [no-such-program]}"),
     "roster.yaml:2: member `m`: there is no program `no-such-program`; "
     "install it, or correct its name"),
    (RUN, roster("{id: m, kind: function, target: 'nowhere:f'}"),
     "roster.yaml:2: cannot import `nowhere` for target `nowhere:f`: "
     "no module named `nowhere` here or installed"),
    (RUN, both(roster("{id: m, kind: function, target: 'odd:f'}"), put("odd.py", "def f(:\n")),
     "roster.yaml:2: cannot import `odd` for target `odd:f`: invalid syntax (odd.py:1)"),
    (RUN, roster("{id: m, kind: replay, file: none.jsonl}"), "none.jsonl: no such file"),
    ("members --roster none.yaml", nothing, "none.yaml: no such file"),
    # the items
    (RUN, plan("{jsonl: items.jsonl, id: id}", "items.jsonl"),
     "plan.yaml:3: an input must be a mapping, not the text 'items.jsonl'; "
     "write `input: {jsonl: items.jsonl}`"),
    (RUN, remove("items.jsonl"), "plan.yaml:3: input `items.jsonl`: no such file"),
    (RUN, plan("jsonl: items.jsonl", "jsonl: ."),
     "plan.yaml:3: input `.`: is a directory, not a file"),
    (RUN, add("items.jsonl", '{"id": "i9", "text": \n'),
     "items.jsonl:7: broken JSON: input data was truncated"),
    (RUN, add("items.jsonl", '{"text": "nameless"}\n'),
     "items.jsonl:7: the item has no id: field `id` is missing"),
    (RUN, add("items.jsonl", '{"id": "i2", "text": "again"}\n'),
     "duplicate id 'i2': items.jsonl:3 and :7; make ids unique"),
    (RUN, plan("jsonl: items.jsonl, id: id", "command: [no-such-program]"),
     "plan.yaml:3: input command `no-such-program` cannot be started: no such file or directory"),
    (RUN, pipe("items.jsonl"), f"plan.yaml:3: input `items.jsonl`: {SPECIAL}"),
    (RUN, link("items.jsonl", "/dev/zero"), f"plan.yaml:3: input `items.jsonl`: {SPECIAL}"),
    (RUN, link("items.jsonl", "/proc/self/mem"),
     "items.jsonl: cannot be read (input/output error)"),
    (RUN, pipe("plan.yaml"), "plan.yaml: is a pipe, not a file; save what it gives to a file"),
    # homes that nobody has
    (RUN, plan("jsonl: items", "jsonl: ~no-such-user/items"),
     "plan.yaml:3: input `~no-such-user/items.jsonl`: no such file"),
    (f"{RUN} --input ~no-such-user/items.jsonl", nothing,
     "--input: input `~no-such-user/items.jsonl`: no such file"),
    # links that lead to themselves
    ("run round", link("round", "round"), f"round: cannot be read ({CIRCLE})"),
    ("graph round", link("round", "round"), f"round: cannot be read ({CIRCLE})"),
    ("launch round", link("round", "round"), f"round: cannot be read ({CIRCLE})"),
    ("launch round/plan.yaml", link("round", "round"), f"round/plan.yaml: cannot be read ({CIRCLE})"),
    (RUN, link("items.jsonl", "items.jsonl"),
     f"plan.yaml:3: input `items.jsonl`: cannot be read ({CIRCLE})"),
    (RUN, both(link("round", "round"), plan("jsonl: items.jsonl", "jsonl: round/items.jsonl"),
               add("plan.yaml", "  - write: out.md\n")),
     f"plan.yaml:3: input `round/items.jsonl`: cannot be read ({CIRCLE})"),
    (RUN, both(link("round", "round"), add("plan.yaml", "  - write: round/out.md\n")),
     f"plan.yaml:10: `round/out.md`: {CIRCLE}"),
    (f"{RUN} --allow-outside",
     both(link("round", "round"), add("plan.yaml", "  - write: round\n")),
     f"plan.yaml:10: `round`: {CIRCLE}"),
    *((RUN, both(link("round", "round"), in_map(f"{field}: round")), f"plan.yaml:9: `round`: {CIRCLE}")
      for field in ("context_file", "examples_file", "schema_file", "system_file")),
    (RUN, both(link("round", "round"), plan('prompt: "Say {{ item.text }}"', "prompt_file: round")),
     f"plan.yaml:6: `round`: {CIRCLE}"),
    (f"{RUN} --roster round", link("round", "round"), f"round: cannot be read ({CIRCLE})"),
    (f"{RUN} --store round/deep", link("round", "round"),
     "round/deep: Too many levels of symbolic links; use --store DIR"),
    # budgets
    (RUN, plan("usd: 100", "usd: 0"), "plan.yaml:2: `usd` must be more than 0, not 0"),
    (RUN, plan("usd: 100", "usd: -1"), "plan.yaml:2: `usd` must be more than 0, not -1"),
    (RUN, plan("usd: 100", "usd: .nan"),
     "plan.yaml:2: `usd` must be a finite number, not the number nan"),
    (RUN, plan("{usd: 100}", "lots"),
     "plan.yaml:2: `budget` must be dollars or a mapping of usd, tokens, calls, seconds, "
     "not the text 'lots'"),
    (f"{RUN} --budget 0", nothing, "--budget: `usd` must be more than 0, not 0"),
    (f"{RUN} --budget -1", nothing, "--budget: `usd` must be more than 0, not -1"),
    (f"{RUN} --budget nan", nothing,
     "--budget: `usd` must be a finite number, not the number nan"),
    (f"{RUN} --budget lots", nothing, "--budget: `usd` must be a number, not the text 'lots'"),
    (f"{RUN} --budget cents=5", nothing,
     "--budget: unknown field `cents` in a budget: known: calls, seconds, tokens, usd"),
    (f"{RUN} --budget usd=1,usd=2", nothing, "--budget: `usd` is given twice"),
    # runs
    ("resume none", nothing, "no run 'none'; there are: talk"),
    ("status none", nothing, "no run 'none'; there are: talk"),
    ("report none", nothing, "no run 'none'; there are: talk"),
    ("report talk -o none/account.md", nothing,
     "none/account.md: cannot be written: No such file or directory"),
    # words
    ("rnu plan.yaml", nothing, "no command 'rnu': did you mean `run`?; see: fanfold --help"),
    ("--nonsense", nothing, "no such option '--nonsense'; see: fanfold --help"),
    ("run", nothing, "missing argument 'PLAN'; see: fanfold run --help"),
    ("run a.yaml b.yaml", nothing,
     "got unexpected extra argument (b.yaml); see: fanfold run --help"),
    ("resume talk i1", nothing,
     "item ids require --retry-in-doubt: 'i1'; see: fanfold resume --help"),
    ("demo contrats", nothing, "no application 'contrats': did you mean `contracts`?"),
    # stores
    (f"{RUN} --store items.jsonl", nothing, "items.jsonl: is a file, not a folder; use --store DIR"),
    (f"{RUN} --store items.jsonl/deep", nothing,
     "items.jsonl/deep: Not a directory; use --store DIR"),
    ("demo --store items.jsonl", nothing,
     "items.jsonl/demo/contracts: not a directory; use --store DIR"),
    ("status --store none", nothing,
     "none/journal.db: no such store; run a plan here first or use --store DIR"),
]  # fmt: skip

STORES: list[tuple[str, Spoil, str]] = [
    ("other", foreign, "another program's database; use another --store DIR"),
    ("other", put("other/journal.db", "This is no database. " * 9),
     "not a fanfold store; move it or use another --store DIR"),
    (".fanfold", torn, "torn (cut short); restore a copy or use --store DIR"),
    (".fanfold", scratched, "torn or damaged; restore a copy or use another --store DIR"),
    (".fanfold", newer, "made by a newer fanfold; upgrade, or use --store DIR"),
]  # fmt: skip


class Ready(NamedTuple):
    """A project with one finished run, to be copied and spoiled; and the server it asked."""

    folder: Path
    server: RunningServer


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ready]:
    top = tmp_path_factory.mktemp("ready")
    with threaded_server(top / "books", price=PRICE) as server:
        write_project(top / "project", server.url)
        assert fanfold(top / "project", "run", "plan.yaml", "--quiet").code == 0
        yield Ready(top / "project", server)


@pytest.fixture
def folder(ready: Ready, tmp_path: Path) -> Path:
    return shutil.copytree(ready.folder, tmp_path / "project")


def rows(folder: Path) -> dict[str, list[Any]]:
    """Everything that stands in the journal."""
    with closing(sqlite3.connect(folder / ".fanfold" / "journal.db")) as db:
        tables = [
            name for (name,) in db.execute("select name from sqlite_master where type = 'table'")
        ]
        kept = [name for name in tables if name not in ("log", "sqlite_sequence")]  # who follows
        return {name: db.execute(f"select * from {name}").fetchall() for name in kept}


def refused(folder: Path, words: str) -> str:
    """What the command said as it refused; paths within the folder as a user there sees them."""
    ended = fanfold(folder, *shlex.split(words))
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("fanfold: ") and ended.err.endswith("\n")
    return ended.err.removeprefix("fanfold: ").removesuffix("\n").replace(f"{folder}/", "")


@pytest.mark.parametrize(("words", "spoil", "says"), CASES, ids=[case[2] for case in CASES])
def test_bad_input(ready: Ready, folder: Path, words: str, spoil: Spoil, says: str) -> None:
    spoil(folder)
    before, asked = rows(folder), ready.server.totals().asked
    assert refused(folder, words) == says
    assert rows(folder) == before
    assert ready.server.totals().asked == asked


@pytest.mark.parametrize(("store", "spoil", "says"), STORES, ids=[case[2] for case in STORES])
@pytest.mark.parametrize("words", ["run plan.yaml", "status"])
def test_a_store_that_cannot_be_used_stays_as_it_is(
    ready: Ready, folder: Path, words: str, store: str, spoil: Spoil, says: str
) -> None:
    spoil(folder)
    journal, asked = folder / store / "journal.db", ready.server.totals().asked
    before, files = journal.read_bytes(), sorted(journal.parent.iterdir())
    assert refused(folder, f"{words} --store {store}") == f"{store}/journal.db: {says}"
    assert (journal.read_bytes(), sorted(journal.parent.iterdir())) == (before, files)
    assert ready.server.totals().asked == asked


def test_a_refused_run_is_not_among_the_runs(folder: Path) -> None:
    add("items.jsonl", '{"id": "i2", "text": "again"}\n')(folder)
    before = runs(folder)
    assert refused(folder, "run plan.yaml --name other").startswith("duplicate id 'i2'")
    assert runs(folder) == before
    assert [run["name"] for run in before] == ["talk"]


@pytest.mark.parametrize(
    "cmd",
    ["no-such-program", "sh, -c, 'echo 1; exit 3'", "echo, hi", "echo, '{\"id\": 1}'", "printf, '1\\n{'"],
)  # fmt: skip
def test_a_refused_run_leaves_nothing_of_what_a_program_gave(folder: Path, cmd: str) -> None:
    inputs = folder / ".fanfold" / "inputs"
    before = sorted(inputs.iterdir())
    plan("jsonl: items.jsonl, id: id", f"command: [{cmd}]")(folder)
    assert refused(folder, "run plan.yaml").startswith("plan.yaml:")
    assert sorted(inputs.iterdir()) == before


# ── resume ───────────────────────────────────────────────────────────────────────────────────

AGAIN = "start a new run with: fanfold run plan.yaml (it reuses what is unchanged)"
RESUMES: list[tuple[str, Spoil, str]] = [
    ("", add("plan.yaml", "  - write: out.md\n"),
     f"plan.yaml has changed since talk was started; {AGAIN}"),
    ("", plan("Say {{", "Shout {{"), f"plan.yaml has changed since talk was started; {AGAIN}"),
    ("", add("items.jsonl", '{"id": "i9", "text": "more"}\n'),
     f"the input has changed since talk (RUN) was started; {AGAIN}"),
    ("", remove("items.jsonl"), "plan.yaml:3: input `items.jsonl`: no such file"),
    ("", remove("roster.yaml"), "roster.yaml: no such file"),
    ("--budget 0.001", nothing, "--budget 0.001 is below what is spent already ($0.052000); "
                                "it is the new total, so give more than that"),
    ("--budget nan", nothing, "--budget: `usd` must be a finite number, not the number nan"),
    ("", in_member("tier: paid"),
     "roster.yaml:10: member m is paid; allow it with --allow-paid or settings.allow_paid"),
]  # fmt: skip


@pytest.fixture
def paused(ready: Ready, tmp_path: Path) -> Path:
    """A project whose run is out of money after two of six items."""
    folder = tmp_path / "project"
    write_project(folder, ready.server.url, concurrency=1)
    ended = fanfold(folder, "run", "plan.yaml", "--budget", "1.20", "--quiet")
    assert ended.code == 4, ended
    return folder


@pytest.mark.parametrize(("more", "spoil", "says"), RESUMES, ids=[case[2] for case in RESUMES])
def test_a_resume_that_is_refused_leaves_the_run_as_it_was(
    ready: Ready, paused: Path, more: str, spoil: Spoil, says: str
) -> None:
    spoil(paused)
    before, asked = rows(paused), ready.server.totals().asked
    said = refused(paused, f"resume talk {more}")
    assert re.sub(r"\([0-9A-Z]{26}\)", "(RUN)", said) == says
    assert rows(paused) == before
    assert ready.server.totals().asked == asked


def test_a_comment_in_the_plan_is_no_change(ready: Ready, paused: Path) -> None:
    text = (paused / "plan.yaml").read_text()
    (paused / "plan.yaml").write_text(f"# reviewed\n\n{text}# to the end\n")
    ended = fanfold(paused, "resume", "talk", "--budget", "9", "--quiet")
    assert ended.code == 0, ended


def test_after_all_refusals_the_run_can_still_be_resumed(ready: Ready, paused: Path) -> None:
    for more, spoil, _ in RESUMES:
        spoil(paused)
        refused(paused, f"resume talk {more}")
        write_project(paused, ready.server.url, concurrency=1)
    ended = fanfold(paused, "resume", "talk", "--budget", "5", "--json", "--quiet")
    assert (ended.code, ended.receipt["calls"], ended.receipt["reused"]) == (0, 4, 2)


def test_debug_shows_where_it_was_refused(folder: Path) -> None:
    for words in (("--debug", "run", "none.yaml"), ("run", "none.yaml", "--debug")):
        ended = fanfold(folder, *words)
        assert ended.code == 2
        assert ended.err.startswith("Traceback ")
        assert ended.err.endswith("\nfanfold: none.yaml: no such file\n")


@pytest.mark.parametrize("command", ["run", "status"])
def test_a_name_that_is_too_long_is_not_written_out(folder: Path, command: str) -> None:
    said = refused(folder, f"{command} {'x' * 5000}")
    assert said.endswith("is too long for the name of a file")
    assert len(said) < 2000


@pytest.mark.parametrize("more", [(), ("--dry-run",), ("--dry-run", "--json")])
def test_a_duplicate_id_is_refused_by_a_preview_too_in_the_same_words(
    tmp_path: Path, more: tuple[str, ...]
) -> None:
    write_function_project(tmp_path)
    (tmp_path / "items.jsonl").write_text(
        '{"id": "a", "text": "x"}\n{"id": "b", "text": "y"}\n{"id": "a", "text": "z"}\n'
    )
    ended = fanfold(tmp_path, "run", "plan.yaml", *more)
    file = tmp_path / "items.jsonl"
    line = f"fanfold: duplicate id 'a': {file}:1 and :3; make ids unique\n"
    assert (ended.code, ended.out, ended.err) == (2, "", line)
