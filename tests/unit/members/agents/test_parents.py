"""What a worker is given of its parents is written by us, whatever an earlier attempt left there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fanfold.members.agents.parents import Parents
from fanfold.work.ask import Ask
from fanfold.work.item import Item


def parents(place: Path, data: Any) -> Parents:
    place.mkdir(parents=True, exist_ok=True)
    return Parents(Ask(items=(Item("c", data),)), place, place.parent / "store")


def test_links_in_the_folder_are_replaced_and_never_followed(tmp_path: Path) -> None:
    theirs, place = tmp_path / "theirs", tmp_path / "workers" / "c"
    theirs.mkdir()
    (theirs / "a.md").write_text("precious")
    place.mkdir(parents=True)
    (place / "parents").symlink_to(theirs)
    (place / "parents.json").symlink_to(theirs / "a.md")
    told = parents(place, {"parents": {"a": {"n": 1}}, "missing": ["b"]})
    told.write()
    assert (theirs / "a.md").read_text() == "precious"
    assert (place / "parents" / "a.md").read_text() == '{"n":1}'
    assert list(json.loads((place / "parents.json").read_text())) == ["a", "b"]


def test_a_result_of_an_earlier_attempt_is_gone_when_its_parent_is_missing(tmp_path: Path) -> None:
    parents(tmp_path / "c", {"parents": {"a": "old"}, "missing": []}).write()
    file = parents(tmp_path / "c", {"parents": {}, "missing": ["a"]}).write()
    assert json.loads(file.read_text())["a"]["result"] is None
    assert not (tmp_path / "c" / "parents" / "a.md").exists()


@pytest.mark.parametrize(
    "data",
    [
        None,
        "text",
        {"parents": ["Ada", "Bob"], "missing": []},
        {"parents": {"a": 1}},
        {"parents": {"../a": "x"}, "missing": []},
        {"parents": {}, "missing": ["/etc/x"]},
        {"parents": {}, "missing": []},
    ],
)
def test_fields_of_an_item_that_are_no_parents_are_none(tmp_path: Path, data: Any) -> None:
    assert not parents(tmp_path / "c", data)
