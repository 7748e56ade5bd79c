"""Names of files that values of items give: always one name, and never the same for two values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.plans.places import fixed_folder, safe_name


@pytest.mark.parametrize("id", ["a", "contract-7", "Ünï 1", "a.b", "a'b"])
def test_what_can_be_a_name_stays_as_it_is(id: str) -> None:
    assert safe_name(id) == id


@pytest.mark.parametrize(
    ("id", "begins"),
    [("../x", "_.___x-"), ("a/b", "a_b-"), ("..", "_.-"), ("", "_-"), ("a\0b", "a_b-"),
     (".ssh", "_ssh-"), ("x" * 999, "x" * 150 + "-"), ("C:\\x", "C__x-"), ("a\n", "a_-")],
)  # fmt: skip
def test_what_cannot_is_replaced_and_kept_apart(id: str, begins: str) -> None:
    made = safe_name(id)
    assert made.startswith(begins.replace("_.___x", "_._x"))
    assert len(made) == len(begins.replace("_.___x", "_._x")) + 8


@given(st.text(), st.text())
def test_two_values_have_two_names_of_one_part_each(one: str, other: str) -> None:
    first, second = safe_name(one), safe_name(other)
    assert (first == second) == (one == other)
    for name in (first, second):
        assert "/" not in name and "\0" not in name and name[:1] not in ("", ".")
        assert len(name.encode()) < 200


def test_the_folder_is_what_stands_before_the_first_template() -> None:
    assert fixed_folder("out/deep/{{ item.id }}.md") == "out/deep"
    assert fixed_folder("out/a-{{ item.id }}/x.md") == "out"
    assert fixed_folder("{{ item.id }}.md") == ""
