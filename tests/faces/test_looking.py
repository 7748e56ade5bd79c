"""Looking never executes: a plan that somebody else wrote can be looked at."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fanfold.errors import BadInput
from fanfold.members.target import look_for
from fanfold.plans.load import import_all, load_plan
from tests.faces.cli import fanfold

CODE = (
    "open({marker!r}, 'w').close()\ndef check(value): return True\ndef answer(data): return 'x'\n"
)
PLAN = """\
input: {list: [a, b]}
steps:
  - map:
      prompt: "{{ item.text }}"
      member: mine
      gate:
        - python: hostile:check
        - all_of: [{require: [text]}, {python: "hostile:check"}]
  - reduce: {name: all, kind: python, target: "hostile:check"}
  - ensemble:
      prompt: "{{ item.text }}"
      name: vote
      member: mine
      samples: 3
      decide: hostile:check
"""
ROSTER = "members: [{id: mine, kind: function, target: 'hostile:answer'}]\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "hostile.py").write_text(CODE.format(marker=str(tmp_path / "EXECUTED")))
    (tmp_path / "plan.yaml").write_text(PLAN)
    (tmp_path / "roster.yaml").write_text(ROSTER)
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ["graph", "plan.yaml"],
        ["run", "plan.yaml", "--dry-run"],
        ["run", "plan.yaml", "--dry-run", "--json"],
        ["members", "--check"],
        ["members"],
    ],
    ids=" ".join,
)
def test_what_only_looks_runs_no_code_of_the_plan(project: Path, words: list[str]) -> None:
    done = fanfold(project, *words)
    assert done.code == 0, done.err
    assert not (project / "EXECUTED").exists()


def test_the_run_itself_imports_it(project: Path) -> None:
    import_all(load_plan(project / "plan.yaml"))
    assert (project / "EXECUTED").exists()


TARGETS = {
    "reduce": ("- reduce: {kind: python, target: 'slow:it'}", 4),
    "decide": ("- ensemble: {prompt: x, member: mine, samples: 3, decide: 'slow:it'}", 4),
    "split": ("- divide: {prompt: x, member: mine, fits: {items: 1}, split: 'slow:it', combine: concat}", 4),
    "combine": ("- divide: {prompt: x, member: mine, fits: {items: 1}, combine: 'slow:it'}", 4),
    "of a group": ("- group: {by: item.text, reduce: {kind: python, target: 'slow:it'}}", 4),
    "of a vote": (
        "- reduce: {kind: ensemble, prompt: x, member: mine, samples: 3, decide: 'slow:it'}", 4
    ),
    "of a stage": (
        "- pipeline:\n      stages:\n        - map_reduce: {over: item.l, map: {prompt: x, member: mine},"
        " reduce: {kind: python, target: 'slow:it'}}", 6
    ),
}  # fmt: skip


@pytest.mark.parametrize("where", TARGETS)
def test_an_async_function_where_nothing_awaits_it_is_refused_before_anything_is_asked(
    project: Path, where: str
) -> None:
    step, line = TARGETS[where]
    (project / "slow.py").write_text(
        "async def ok(value): return True\nasync def it(parts): return 'x'\n"
    )
    first = "  - map: {prompt: x, member: mine, gate: {python: 'slow:ok'}}\n"  # there it may be
    (project / "plan.yaml").write_text(f"input: {{list: [a]}}\nsteps:\n{first}  {step}\n")
    with pytest.raises(BadInput) as refused:
        import_all(load_plan(project / "plan.yaml"))
    what = "target `slow:it` is `async def`, but nothing awaits it there: give a plain function"
    assert (refused.value.what, refused.value.line) == (what, line)


def test_a_target_is_found_without_importing_it(project: Path) -> None:
    source = '''
"""Says nothing."""
import json as js
from os.path import join
LIMIT = 5
if LIMIT:
    def inside(value): return True
try:
    class Box:
        def method(self, value): return value
except ImportError:
    pass
later = print
a, b = print, len
'''
    (project / "defs.py").write_text(source)
    (project / "star.py").write_text("from os.path import *\n")
    (project / "wrong.py").write_text("def x(:\n")
    package = project / "pack"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "deep.py").write_text("def here(value): return True\n")
    for good in (
        "defs:inside", "defs:Box", "defs:Box.method", "defs:later", "defs:join", "defs:js", "defs:a",
        "star:anything", "pack.deep:here", "json:dumps", "builtins:len", "os.path:join", "math:sqrt",
        "msgspec:json",
    ):  # fmt: skip
        look_for(good, project)
    for bad, said in {
        "defs:insid": "`defs` has no `insid`: did you mean `inside`?",
        "defs:LIMIT": "is a int, not a function",
        "defs:Box.metod": "did you mean `method`?",
        "nowhere:x": "no module named `nowhere` here or installed",
        "pack.deeper:x": "no module named `pack.deeper`",
        "wrong:x": "wrong.py:1",
        "no colon": "must be module:attribute",
    }.items():
        with pytest.raises(BadInput) as refused:
            look_for(bad, project, file="plan.yaml", line=7)
        assert said in refused.value.what
        assert (refused.value.file, refused.value.line) == ("plan.yaml", 7)
    assert "defs" not in sys.modules and "pack" not in sys.modules
