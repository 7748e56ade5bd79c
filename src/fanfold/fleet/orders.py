"""What the operator tells a supervisor: one file for each word, in a folder of its session.

The folder is there as long as somebody listens, so a run in the foreground has none.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Literal

from fanfold.journal.store import Store

Word = Literal["kill", "hand-over"]
_REFUSED, _STOPPING = "refused", "stopping"


class Orders:
    """The folder of one session. Words are written by others, and answered by its supervisor."""

    def __init__(self, store: Path, session: str) -> None:
        self._folder = store / "orders" / session

    @property
    def heard(self) -> bool:
        """Somebody listens, or did until it was killed with -9."""
        return self._folder.is_dir()

    def listen(self, store: Store) -> None:
        """From here on words are heard. Folders of those who died are removed."""
        for folder in self._folder.parent.glob("*"):
            if not store.alive(folder.name):
                shutil.rmtree(folder, ignore_errors=True)
        self._folder.mkdir(parents=True, exist_ok=True)

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def give(self, word: Word) -> None:
        """Trap: the supervisor may leave at this very moment; then there is nobody to tell."""
        with suppress(FileNotFoundError):
            (self._folder / _REFUSED).unlink(missing_ok=True)
            (self._folder / word).touch()

    def given(self, word: Word) -> bool:
        return (self._folder / word).exists()

    def refuse(self, word: Word, why: str) -> None:
        """The word is forgotten, and whoever gave it hears why."""
        (self._folder / word).unlink(missing_ok=True)
        self._tell(_REFUSED, why)

    def refusal(self) -> str | None:
        return self._told(_REFUSED)

    def stop(self, why: str) -> None:
        """It starts nothing more, and waits for what is under way: said for those who look on."""
        with suppress(OSError):
            self._tell(_STOPPING, why)

    def stopping(self) -> str | None:
        """Why it starts nothing more; None while it does."""
        return self._told(_STOPPING)

    def _tell(self, name: str, why: str) -> None:
        (self._folder / f".{name}").write_text(why, encoding="utf-8")
        (self._folder / f".{name}").replace(self._folder / name)

    def _told(self, name: str) -> str | None:
        try:
            return (self._folder / name).read_text(encoding="utf-8")
        except OSError:
            return None
