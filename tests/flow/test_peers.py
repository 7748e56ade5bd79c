"""`bench/peers`: each peer is one file that states what it needs, and the tasks count what they say."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent.parent.parent / "bench" / "peers"


@pytest.fixture(scope="module")
def bench() -> Iterator[Any]:
    sys.path.insert(0, str(HERE))
    yield import_module("run")
    sys.path.remove(str(HERE))
    for name in ("run", "scene", "tasks", "job"):
        del sys.modules[name]


def test_every_peer_states_its_packages_its_settings_and_what_it_does_not_offer(bench: Any) -> None:
    peers = bench.peers()
    assert [peer.name for peer in peers[:2]] == ["raw", "fanfold"]
    assert len(peers) == len({*HERE.glob("*_.py")}) + 1
    for peer in peers:
        assert peer.settings
        assert peer.not_offered.keys() <= bench.TASKS.keys()
        assert all(peer.not_offered.values())


def test_a_peer_that_lacks_a_task_or_cannot_be_installed_says_so_in_the_table(bench: Any) -> None:
    one = bench.Peer("one", HERE / "one_.py", ["one"], "plainly", {"cap": "no budget"})
    two = bench.Peer("two", HERE / "two_.py", ["two"], "as it is", {})
    found = {
        "one": {"bad_key": ["7", "7", "9"], "http": [1.0, 3.0, 2.0]},
        "two": {"cap": ["3% · 0 of 4"]},
    }
    text = bench.tables(found, [one, two], {"one": "one 1.2"}, 3)
    assert "| one | not offered: no budget | 7<br>9 | 2.0 (1.0 to 3.0) |" in text
    assert "| two | 3% · 0 of 4 |  |  |" in text
    assert "| two | cannot be installed | as it is |" in text


@pytest.mark.sweep
def test_the_tasks_are_counted_by_the_servers_books(bench: Any) -> None:
    (ours,) = (peer for peer in bench.peers() if peer.name == "fanfold")
    assert bench.TASKS["bad_key"].measure(ours, 0) == "1"
    assert bench.TASKS["edit"].measure(ours, 0) == "1 · 0"
    over, _, held = bench.TASKS["cap"].measure(ours, 0).partition(" · ")
    assert (over, held.split()[0]) == ("0%", "0")
