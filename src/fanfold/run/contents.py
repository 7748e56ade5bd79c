"""Files that go with asks: what is in each is in the store once, and stays what it was."""

from __future__ import annotations

import asyncio

from fanfold.errors import Terminal
from fanfold.journal.contract import Store
from fanfold.journal.facts import RunRecord
from fanfold.journal.kept import KeepContent
from fanfold.run.planning import TO_DO, Refuse
from fanfold.work.media import Attachment, read_content


class Contents:
    """Keeps the files of a run before they are first sent."""

    def __init__(self, store: Store, record: RunRecord, refuse: Refuse) -> None:
        self._store, self._run, self._refuse = store, record.no, refuse
        self._known = store.read.attached(record.no) if record.resumed else {}
        self._kept: set[str] = set()

    async def keep(self, files: tuple[Attachment, ...]) -> None:
        """Durable when this returns. Where one of them is not what it was, the run stops."""
        for one in files:
            hash = bytes.fromhex(one.hash)
            known = self._known.setdefault(one.name, hash)
            if known != hash:
                self._refuse(f"{one.name}: was changed after it was read in this run; {TO_DO}")
            if one.name in self._kept:
                continue
            content = b"" if self._store.read.has_content(hash) else await self._read(one)
            await self._store.write(KeepContent(self._run, one.name, hash, content))
            self._kept.add(one.name)

    async def _read(self, one: Attachment) -> bytes:
        try:
            return await asyncio.to_thread(read_content, one)
        except Terminal as error:
            self._refuse(f"{error}; {TO_DO}")
