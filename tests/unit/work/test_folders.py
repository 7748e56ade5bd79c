"""The folders of the user: where they are on every system, and which variables move them."""

from __future__ import annotations

from pathlib import Path

import pytest

from fanfold.work.folders import user_folder


def test_they_are_in_the_home_folder_unless_a_variable_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert user_folder("config") == tmp_path / ".config/fanfold"
    assert user_folder("cache") == tmp_path / ".cache/fanfold"
    assert user_folder("state") == tmp_path / ".local/state/fanfold"
    monkeypatch.setenv("XDG_STATE_HOME", "/x")
    assert user_folder("state") == Path("/x/fanfold")
