from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fanfold.run.sources import Spooled


def test_what_is_kept_of_items_is_for_its_owner_alone(tmp_path: Path) -> None:
    """Also where the folder is not."""
    tmp_path.chmod(0o755)
    spooled = Spooled(({"id": str(n)} for n in range(3)), tmp_path)
    (kept,) = tmp_path.iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert [item.id for _, item in spooled.walk()] == ["0", "1", "2"]


def test_nothing_is_kept_of_items_that_break_off(tmp_path: Path) -> None:
    def broken() -> Iterator[dict[str, str]]:
        yield {"id": "0"}
        raise OSError("the source is gone")

    with pytest.raises(OSError, match="the source is gone"):
        Spooled(broken(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_two_that_are_kept_at_once_do_not_meet(tmp_path: Path) -> None:
    """A file being written is nobody else's, in this process or in another."""
    inner: list[Spooled] = []

    def items() -> Iterator[dict[str, str]]:
        yield {"id": "a"}
        inner.append(Spooled(({"id": str(n)} for n in range(3)), tmp_path))
        assert len(list(tmp_path.glob("*.part"))) == 1
        yield {"id": "b"}

    outer = Spooled(items(), tmp_path)
    assert [item.id for _, item in outer.walk()] == ["a", "b"]
    assert [item.id for _, item in inner[0].walk()] == ["0", "1", "2"]
