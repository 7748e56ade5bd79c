"""Ensembles of a roster: members under one name, checked when the roster is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from fanfold.errors import BadInput
from fanfold.members.roster import Roster, RosterEnsemble, load_roster

MEMBERS = """\
members:
  - {id: a, kind: command, cmd: [cat]}
  - {id: b, kind: command, cmd: [cat]}
"""


def roster(folder: Path, ensembles: str) -> Roster:
    path = folder / "roster.yaml"
    path.write_text(f"{MEMBERS}ensembles:\n  {ensembles}\n")
    return load_roster(path)


GOOD = [
    ("both: {members: [a, b]}", RosterEnsemble(members=("a", "b"))),
    ("both: {members: [a, b], decide: quorum, quorum: 2, stop_early: true, samples: 3}",
     RosterEnsemble(members=("a", "b"), decide="quorum", quorum=2, stop_early=True, samples=3)),
    ("both: {members: [a, b], decide: weighted, weights: {a: 2}}",
     RosterEnsemble(members=("a", "b"), decide="weighted", weights={"a": 2.0})),
    ("both: {members: [a, b], decide: judge, judge: {member: b}}",
     RosterEnsemble(members=("a", "b"), decide="judge", judge="b")),
    ("both: {members: [a, b], decide: quorum, judge: {member: b}}",
     RosterEnsemble(members=("a", "b"), decide="quorum", judge="b")),
    ("both: {members: [a, b], decide: plurality}",
     RosterEnsemble(members=("a", "b"), decide="plurality")),
    ("both: {members: [a], judge: {member: b, picks: false}}",
     RosterEnsemble(members=("a",), decide="judge", judge="b", picks=False)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "made"), GOOD)
def test_an_ensemble_is_read(tmp_path: Path, text: str, made: RosterEnsemble) -> None:
    assert roster(tmp_path, text).ensembles == {"both": made}


def test_a_roster_without_them_has_none(tmp_path: Path) -> None:
    (tmp_path / "roster.yaml").write_text(MEMBERS)
    assert load_roster(tmp_path / "roster.yaml").ensembles == {}


WRONG = [
    ("a: {members: [b]}", "`a` is taken; give the ensemble a name of its own"),
    ("auto: {members: [b]}", "`auto` is taken; give the ensemble a name of its own"),
    ("x: {members: []}", "`members` is empty"),
    ("x: {}", "an ensemble needs the field `members`"),
    ("x: {members: [a, c]}", "there is no member `c`"),
    ("x: {members: [a], judge: {member: c}}", "there is no member `c`"),
    ("x: {members: [a], decide: dice}", "unknown decide `dice`"),
    ("x: {members: [a], decide: judge}", "`decide: judge` needs a `judge: {member: …}`"),
    ("x: {members: [a], decide: plurality, judge: {member: b}}",
     "`judge` goes with `decide: judge`, majority or quorum"),
    ("x: {members: [a], weights: {a: -1}}", "`a` must be 0 or more"),
    ("x: {members: [a], qorum: 1}", "unknown field `qorum` in an ensemble: did you mean `quorum`?"),
    ("x: [a, b]", "an ensemble must be a mapping, not a list"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "says"), WRONG)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(BadInput) as caught:
        roster(tmp_path, text)
    assert says in str(caught.value)
    assert caught.value.line == 5
