"""What the environment says of a process's parent is checked, and never trusted further."""

from __future__ import annotations

import pytest

from fanfold.clock import RealClock
from fanfold.run.inherited import Inherited, inherited
from fanfold.run.record import new_id

RUN = "01JZZZZZZZ" + "0" * 16


def test_a_span_and_a_store_are_taken() -> None:
    given = {"FANFOLD_PARENT": f"{RUN}:17", "FANFOLD_STORE": "/a/.fanfold", "OTHER": "x"}
    assert inherited(given) == Inherited(f"{RUN}:17", "/a/.fanfold")


def test_every_id_of_a_run_is_a_span() -> None:
    for now in (0.0, 1_750_000_000.0, 4_000_000_000.0):
        id = new_id(RealClock(), now)
        assert inherited({"FANFOLD_PARENT": id}).parent == id


def test_without_them_there_is_no_parent_and_the_usual_store() -> None:
    assert inherited({}) == Inherited(None, ".fanfold")


@pytest.mark.parametrize(
    "parent",
    ["", "x", "../../etc", RUN.lower(), RUN + "A", RUN[1:], f"{RUN}:", f"{RUN}:-1", f"{RUN}:1:2",
     f"{RUN}:1\n", f"{RUN}:{'9' * 19}", f"{RUN}:\u0661", f"{RUN}'; drop table runs; --"],
)  # fmt: skip
def test_what_does_not_look_like_a_span_is_none(parent: str) -> None:
    assert inherited({"FANFOLD_PARENT": parent}).parent is None


@pytest.mark.parametrize("store", ["", "here", "./here", "~/here"])
def test_a_store_that_is_no_full_path_is_not_taken(store: str) -> None:
    assert inherited({"FANFOLD_STORE": store}).store == ".fanfold"
