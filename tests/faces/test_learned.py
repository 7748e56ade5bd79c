"""`route: learned`: what `tune` learned is written in plain words, run by plans, explained by `members`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.faces.cli import fanfold

MODELS = """\
import random


def answer(item, name, skill):
    chance = random.Random(f"{name} {item['id']}")
    return item["label"] if chance.random() < skill else "neither"


def small(item):
    return answer(item, "small", 0.98 if item["kind"] in ("a", "b") else 0.2)


def large(item):
    return answer(item, "large", 0.97)
"""
ROSTER = """\
members:
  - {id: small, kind: function, target: "models:small", price: {call: 0.001}, good_at: [words]}
  - {id: large, kind: function, target: "models:large", price: {call: 0.02}, good_at: [words]}
  - {id: dull, kind: function, target: "models:small", price: {call: 0.001}}
"""
PLAN = """\
name: words
roster: roster.yaml
input: {jsonl: items.jsonl}
steps:
  - map:
      prompt: "{{ item.text }}"
      needs: [words]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [
        {"id": f"i{n}", "text": f"word {n}", "kind": "abcd"[n % 4], "label": ("yes", "no")[n % 2]}
        for n in range(300)
    ]
    (tmp_path / "items.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    (tmp_path / "models.py").write_text(MODELS)
    (tmp_path / "roster.yaml").write_text(ROSTER)
    (tmp_path / "plan.yaml").write_text(PLAN)
    return tmp_path


def test_what_was_learned_is_written_run_and_explained(folder: Path) -> None:
    words = ("--truth", "item.label", "--target", "0.93", "--sample", "300")
    ended = fanfold(
        folder, "tune", "plan.yaml", *words, "--learned", "learned.yaml", "--out", "t.yaml"
    )
    assert ended.code == 0, ended
    learned = yaml.safe_load((folder / "learned.yaml").read_text())
    assert (folder / "learned.yaml").read_text().startswith("# Learned by `fanfold tune` on 300")
    tuned = yaml.safe_load((folder / "t.yaml").read_text())["steps"][0]["map"]
    assert tuned["route"] == learned
    (folder / "plan.yaml").write_text(f"{PLAN}      route: learned\n")
    for plan in ("plan.yaml", "t.yaml"):
        ran = fanfold(folder, "run", plan, "--json", "--name", plan).receipt
        assert (ran["status"], ran["passed"]) == ("complete", 300)
        assert 150 * 0.021 - 0.2 < ran["cost_usd"] < 150 * 0.021 + 0.2, "half of them by each"
    why = fanfold(folder, "members", "--why", "--route", "learned")
    assert why.code == 0, why
    assert why.out.splitlines()[-1].startswith(("else ", "by kind"))
    for kind, member in (("a", "small"), ("d", "large")):
        item = json.dumps({"kind": kind, "text": "word 7"})
        told = fanfold(folder, "members", "--why", "--route", "learned", "--item", item, "--json")
        assert json.loads(told.out)["member"] == member


def test_mistakes_are_one_line(folder: Path) -> None:
    (folder / "plan.yaml").write_text(f"{PLAN}      route: learned\n")
    ended = fanfold(folder, "run", "plan.yaml")
    assert (ended.code, "plan.yaml:8: `route` learned: there is no learned.yaml" in ended.err) == (
        2,
        True,
    )
    (folder / "learned.yaml").write_text(
        "rules:\n  - {when: {kind: [a]}, member: dull}\nelse: large\n"
    )
    ended = fanfold(folder, "run", "plan.yaml")
    assert (ended.code, "`route` names `dull`, which is not good at words" in ended.err) == (
        2,
        True,
    ), ended
    (folder / "learned.yaml").write_text("rules:\n  - {when: {kind: [a]}}\nelse: large\n")
    ended = fanfold(folder, "run", "plan.yaml")
    assert (ended.code, "learned.yaml:2: a rule needs the field `member`" in ended.err) == (
        2,
        True,
    ), ended
    ended = fanfold(folder, "members", "--why", "--item", "{}")
    assert (ended.code, "`--item` goes with `--route`" in ended.err) == (2, True)
    (folder / "learned.yaml").write_text("rules: []\nelse: nobody\n")
    ended = fanfold(folder, "members", "--why", "--route", "learned", "--item", "{}")
    assert (ended.code, "there is no member `nobody`" in ended.err) == (2, True)


def test_a_vote_is_no_route(folder: Path) -> None:
    (folder / "models.py").write_text(MODELS.replace("0.97", "0.8").replace(
        '0.98 if item["kind"] in ("a", "b") else 0.2', "0.8").replace('"neither"', 'f"{name}?"'))  # fmt: skip
    third = '  - {id: third, kind: function, target: "models:third", price: {call: 0.002}}\n'
    third = third.replace("}}", "}, good_at: [words]}")
    (folder / "roster.yaml").write_text(ROSTER + third)
    more = '\n\ndef third(item):\n    return answer(item, "third", 0.8)\n'
    (folder / "models.py").write_text((folder / "models.py").read_text() + more)
    ended = fanfold(folder, "tune", "plan.yaml", "--truth", "item.label", "--learned", "l.yaml")
    assert (ended.code, "--learned: the way that was chosen is a vote" in ended.err) == (2, True), (
        ended
    )
