"""The registry: names of launched runs, safe against each other, against torn files, and in any
folder."""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec
import pytest

from fanfold.fleet.runs import Registry, RegistryEntry, registry_file, utc

ONE = RegistryEntry("one", "/a", "/a/.fanfold", "01A", 11, "2026-11-16T04:00:00Z")
TWO = RegistryEntry("two", "/b", "/b/.fanfold", "01B", 12, "2026-11-16T04:00:01Z")


def test_an_entry_takes_the_place_of_the_one_with_its_name(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "deep" / "registry.json")
    for entry in (ONE, TWO, msgspec.structs.replace(ONE, run="01C", pid=13)):
        registry.put(entry)
    assert registry.entries() == [msgspec.structs.replace(ONE, run="01C", pid=13), TWO]
    assert registry.find("two") == TWO
    assert registry.find("three") is None
    assert msgspec.json.decode(registry.file.read_bytes())[1] == {
        "name": "two", "root": "/b", "store": "/b/.fanfold", "run": "01B", "pid": 12,
        "started_at": "2026-11-16T04:00:01Z",
    }  # fmt: skip


def test_a_run_is_taken_out_but_not_a_later_one_of_its_name(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "registry.json")
    registry.remove("one", "01A")
    assert not registry.file.exists(), "nothing is made for that"
    registry.put(ONE)
    registry.remove("one", "01Z")
    assert registry.entries() == [ONE]
    registry.remove("one", "01A")
    assert registry.entries() == []


def test_a_file_that_is_no_registry_counts_as_empty_and_is_kept_aside(tmp_path: Path) -> None:
    file, said = tmp_path / "registry.json", list[str]()
    file.write_text('[{"name": "torn')
    registry = Registry(file, said.append)
    assert registry.entries() == []
    assert file.read_text() == '[{"name": "torn', "looking changes nothing"
    registry.put(ONE)
    assert registry.entries() == [ONE]
    assert (tmp_path / "registry.json.corrupt").read_text() == '[{"name": "torn'
    assert said == [
        f"{file}: not a registry, so it counts as empty",
        f"{file}: not a registry; it is kept as registry.json.corrupt, and a new one is written",
    ]


def test_many_at_once_lose_nothing(tmp_path: Path) -> None:
    file = tmp_path / "registry.json"

    def put(n: int) -> None:
        for m in range(5):
            Registry(file).put(msgspec.structs.replace(ONE, name=f"{n}-{m}"))

    threads = [threading.Thread(target=put, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    names = {entry.name for entry in Registry(file).entries()}
    assert names == {f"{n}-{m}" for n in range(6) for m in range(5)}


def test_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/h")
    monkeypatch.setenv("XDG_STATE_HOME", "/s")
    monkeypatch.setenv("FANFOLD_REGISTRY", "/x/r.json")
    assert registry_file() == Path("/x/r.json")
    monkeypatch.delenv("FANFOLD_REGISTRY")
    assert registry_file() == Path("/s/fanfold/registry.json")
    monkeypatch.delenv("XDG_STATE_HOME")
    assert registry_file() == Path("/h/.local/state/fanfold/registry.json")


def test_times_are_utc() -> None:
    assert utc(0.0) == "1970-01-01T00:00:00Z"
