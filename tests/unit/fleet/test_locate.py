"""Which run is meant: a folder goes before a run of the store, and that before the registry."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fanfold.clock import RealClock
from fanfold.errors import BadInput, StoreError
from fanfold.fleet.runs import LocatedRun, Registry, RegistryEntry, locate
from fanfold.journal.opening import open_store
from fanfold.run.record import Launch, start
from fanfold.work.task import Budget

FLEET = b'{"kind": "fleet"}'


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(tmp_path / "registry.json")


def run_in(store: Path, name: str, plan: bytes = b"", parent: str | None = None) -> str:
    """A run on record; its id."""

    async def made() -> str:
        journal = open_store(store)
        try:
            launch = Launch(plan, str(store.parent), parent)
            return (await start(journal, name, RealClock(), Budget(), launch)).id
        finally:
            journal.close()

    return asyncio.run(made())


def fleet_in(root: Path, text: str = '{"fleet_name": "team"}') -> None:
    root.mkdir(exist_ok=True)
    (root / "fleet.json").write_text(text)


def test_a_folder_with_a_fleet_is_its_newest_run(here: Path, registry: Registry) -> None:
    fleet_in(here / "root")
    store = here / "root" / ".fanfold"
    run_in(store, "team", FLEET)
    newest = run_in(store, "team", FLEET)
    run_in(store, "inner", parent=newest)
    expected = LocatedRun(str(store), newest, here / "root")
    assert locate("root", None, registry) == expected
    assert locate(str(here / "root"), "elsewhere", registry) == expected


def test_a_fleet_under_another_name_is_found_all_the_same(here: Path, registry: Registry) -> None:
    fleet_in(here / "root", "{")
    store = here / "root" / ".fanfold"
    other = run_in(store, "other", FLEET)
    run_in(store, "inner", parent=other)
    assert locate("root", None, registry) == LocatedRun(str(store), other, here / "root")


def test_a_folder_with_a_store_is_its_newest_run(here: Path, registry: Registry) -> None:
    run_in(here / "project" / ".fanfold", "old")
    new = run_in(here / "project" / ".fanfold", "new")
    assert locate("project", None, registry) == LocatedRun(str(here / "project/.fanfold"), new)


def test_a_folder_of_neither_kind_does_not_hide_a_run_of_its_name(
    here: Path, registry: Registry
) -> None:
    (here / "talk").mkdir()
    id = run_in(here / ".fanfold", "talk")
    assert locate("talk", None, registry) == LocatedRun(".fanfold", id)


def test_the_store_goes_before_the_registry(tmp_path: Path, here: Path, registry: Registry) -> None:
    far = run_in(tmp_path / "far" / ".fanfold", "talk", FLEET)
    registry.put(
        RegistryEntry("talk", str(tmp_path / "far"), str(tmp_path / "far/.fanfold"), far, 1, "")
    )
    expected = LocatedRun(str(tmp_path / "far/.fanfold"), far, tmp_path / "far")
    assert locate("talk", None, registry) == expected
    near = run_in(here / ".fanfold", "talk")
    assert locate("talk", None, registry) == LocatedRun(".fanfold", near)
    assert locate(near[:12], None, registry) == LocatedRun(".fanfold", near)


def test_a_named_store_is_the_only_one_that_is_looked_into(
    tmp_path: Path, here: Path, registry: Registry
) -> None:
    far = run_in(tmp_path / "far" / ".fanfold", "talk")
    registry.put(
        RegistryEntry("talk", str(tmp_path / "far"), str(tmp_path / "far/.fanfold"), far, 1, "")
    )
    run_in(here / "mine", "other")
    with pytest.raises(BadInput, match="no run 'talk'; there are: other, talk"):
        locate("talk", "mine", registry)
    with pytest.raises(StoreError, match="no such store"):
        locate("talk", "nowhere", registry)


def test_a_fleet_that_was_never_launched_says_how_to(here: Path, registry: Registry) -> None:
    fleet_in(here / "root")
    with pytest.raises(BadInput, match=r"nothing was launched here yet.*fanfold launch root"):
        locate("root", None, registry)


def test_an_entry_whose_store_is_gone_says_so(
    tmp_path: Path, here: Path, registry: Registry
) -> None:
    run_in(here / ".fanfold", "other")
    registry.put(RegistryEntry("talk", "/gone", str(tmp_path / "gone"), "01A", 1, ""))
    with pytest.raises(BadInput, match=r"talk was launched in /gone, but its store .* was deleted"):
        locate("talk", None, registry)
