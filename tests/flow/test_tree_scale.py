"""Many items through map, filter and tree reduce: memory stays flat, also when resumed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.flow.scale_child import Scale
from tests.flow.simulation import outcomes
from tests.flow.tree_scale_child import KEPT

pytestmark = pytest.mark.slow

CHILD = Path(__file__).with_name("tree_scale_child.py")
ROOT = Path(__file__).parents[2]


def reduced(store: Path, count: int, *again: str) -> Scale:
    paths = os.pathsep.join([str(ROOT), *(path for path in sys.path if path)])
    done = subprocess.run(
        [sys.executable, str(CHILD), str(store), str(count), *again],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": paths},
        check=True,
    )
    return msgspec.json.decode(done.stdout, type=Scale)


def check(scale: Scale, count: int) -> None:
    receipt, kept = scale.receipt, len(range(0, count, KEPT))
    assert (receipt.status, receipt.planned, outcomes(receipt)) == (
        "complete", count, {"passed": kept, "skipped": count - kept},
    )  # fmt: skip
    assert receipt.result == 2 * sum(range(0, count, KEPT))


@pytest.mark.parametrize(
    ("count", "most_mb"), [(10_000, 62.0), pytest.param(100_000, 95.0, marks=pytest.mark.sweep)]
)
def test_many_items_in_little_memory(tmp_path: Path, count: int, most_mb: float) -> None:
    """The program itself takes 34 MB, the database's two caches up to 32, which 10,000 do not fill;
    items must not add up: 700 bytes kept of each would break the first bound, 400 the second."""
    scale = reduced(tmp_path, count)
    check(scale, count)
    assert scale.peak_mb < most_mb


def test_resumed_all_are_known_and_the_tree_grows_again(tmp_path: Path) -> None:
    check(reduced(tmp_path, 1_000), 1_000)
    again = reduced(tmp_path, 1_000, "resume")
    check(again, 1_000)
    assert (again.receipt.calls, again.receipt.reused) == (0, 1_000)


@pytest.mark.sweep
def test_a_million_items_in_flat_memory_and_linear_time(tmp_path: Path) -> None:
    tenth = reduced(tmp_path / "tenth", 100_000)
    whole = reduced(tmp_path / "whole", 1_000_000)
    again = reduced(tmp_path / "whole", 1_000_000, "resume")
    check(tenth, 100_000)
    check(whole, 1_000_000)
    check(again, 1_000_000)
    peaks = (tenth.peak_mb, whole.peak_mb, again.peak_mb)
    assert max(peaks) - tenth.peak_mb < 30.0, peaks
    assert whole.seconds < 10 * tenth.seconds * 1.5, (tenth.seconds, whole.seconds)
