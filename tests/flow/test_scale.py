"""Many items through a function: memory stays flat, nothing is lost, two runs share one store."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.flow.scale_child import Scale
from tests.flow.simulation import outcomes

pytestmark = pytest.mark.slow

CHILD = Path(__file__).with_name("scale_child.py")
ROOT = Path(__file__).parents[2]
MOST_MB = 150.0


def mapping(store: Path, name: str, count: int) -> subprocess.Popen[bytes]:
    paths = os.pathsep.join([str(ROOT), *(path for path in sys.path if path)])
    return subprocess.Popen(
        [sys.executable, str(CHILD), str(store), name, str(count)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": paths},
    )


def mapped(process: subprocess.Popen[bytes]) -> Scale:
    out, _ = process.communicate()
    assert process.returncode == 0
    return msgspec.json.decode(out, type=Scale)


def check(scale: Scale, count: int) -> None:
    receipt = scale.receipt
    assert (receipt.status, receipt.planned, outcomes(receipt)) == (
        "complete", count, {"passed": count},
    )  # fmt: skip
    assert receipt.result == count * (count - 1)
    assert scale.peak_mb < MOST_MB, f"{scale.peak_mb:.0f} MB at {count} items"


@pytest.mark.parametrize(
    ("count", "most_mb"), [(20_000, 66.0), pytest.param(100_000, 95.0, marks=pytest.mark.sweep)]
)
def test_many_items_in_little_memory(tmp_path: Path, count: int, most_mb: float) -> None:
    """The program itself takes 34 MB, the database's two caches up to 32, which 20,000 do not fill;
    items must not add up: 500 bytes kept of each would break the first bound, 300 the second."""
    scale = mapped(mapping(tmp_path, "many", count))
    check(scale, count)
    assert scale.peak_mb < most_mb


@pytest.mark.sweep
def test_a_million_items_in_flat_memory_and_linear_time(tmp_path: Path) -> None:
    tenth = mapped(mapping(tmp_path / "tenth", "tenth", 100_000))
    whole = mapped(mapping(tmp_path / "whole", "whole", 1_000_000))
    check(tenth, 100_000)
    check(whole, 1_000_000)
    assert whole.peak_mb - tenth.peak_mb < 30.0, (tenth.peak_mb, whole.peak_mb)
    assert whole.seconds < 10 * tenth.seconds * 1.5, (tenth.seconds, whole.seconds)


def test_two_runs_at_once_in_one_store(tmp_path: Path) -> None:
    both = [mapping(tmp_path, name, 1_500) for name in ("first", "second")]
    for process in both:
        check(mapped(process), 1_500)
