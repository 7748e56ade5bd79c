"""The folders of the user that fanfold keeps things in: settings, caches, state."""

from __future__ import annotations

from pathlib import Path
from typing import Literal


def user_folder(kind: Literal["config", "cache", "state"]) -> Path:
    """`fanfold` in ~/.config, ~/.cache or ~/.local/state; XDG_CONFIG_HOME and its kin go before.

    The same on macOS, whose users have their files there already.
    """
    from platformdirs.unix import Unix

    folders = Unix("fanfold")
    found = {
        "config": folders.user_config_path,
        "cache": folders.user_cache_path,
        "state": folders.user_state_path,
    }
    return found[kind]
