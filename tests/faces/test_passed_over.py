"""Who lacks a key or a program is passed over where nobody named it, and others are left."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faces.cli import fanfold

ROSTER = """\
members:
  - {id: gone, kind: command, cmd: [no-such-program], good_at: [words], price: {call: 0}}
  - {id: locked, kind: openai, model: m, base_url: "http://127.0.0.1:9", key: "env:ZZ_NO_KEY",
     price: {input: 1, output: 1}, good_at: [words], tier: local}
"""
THERE = "  - {id: cat, kind: command, cmd: [cat], good_at: [words], price: {call: 0.01}}\n"
PLAN = """\
name: routed
budget: {usd: 1}
input: {list: [a, b]}
steps:
  - map: {WHO, prompt: "{{ item.text }}"}
  - reduce: concat
"""


def _written(folder: Path, roster: str, who: str = "needs: [words]") -> None:
    (folder / "roster.yaml").write_text(roster)
    (folder / "plan.yaml").write_text(PLAN.replace("WHO", who))


def test_the_router_takes_the_next_best(tmp_path: Path) -> None:
    _written(tmp_path, ROSTER + THERE)
    ended = fanfold(tmp_path, "run", "plan.yaml", "--json")
    assert (ended.code, ended.receipt["passed"], ended.receipt["cost_usd"]) == (0, 2, 0.02)


def test_a_preview_counts_with_the_one_who_would_be_asked(tmp_path: Path) -> None:
    _written(tmp_path, ROSTER + THERE)
    ended = fanfold(tmp_path, "run", "plan.yaml", "--dry-run")
    (row,) = [line.split() for line in ended.out.splitlines() if line.startswith("map ")]
    assert row[:3] == ["map", "cat", "2"]


def test_where_nobody_is_left_it_is_said_what_the_best_lacks(tmp_path: Path) -> None:
    _written(tmp_path, ROSTER)
    ended = fanfold(tmp_path, "run", "plan.yaml")
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert ended.err.startswith(
        f"fanfold: {tmp_path}/roster.yaml:2: member `gone`: there is no program `no-such-program`"
    )


@pytest.mark.parametrize(
    "who", ["member: gone", "members: [gone, cat]", "member: cat, fallback: [gone]"]
)
def test_one_that_is_named_must_be_there(tmp_path: Path, who: str) -> None:
    _written(tmp_path, ROSTER + THERE, who)
    ended = fanfold(tmp_path, "run", "plan.yaml")
    assert ended.code == 2
    assert "roster.yaml:2: member `gone`: there is no program `no-such-program`" in ended.err
