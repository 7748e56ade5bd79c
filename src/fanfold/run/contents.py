"""Files that go with asks: what is in each is in the store once, and stays what it was."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from fanfold.errors import InvalidReply, Terminal
from fanfold.journal.contract import Store
from fanfold.journal.facts import RunRecord
from fanfold.journal.kept import KeepContent
from fanfold.run.planning import TO_DO, Refuse
from fanfold.work.ask import Ask, Reply
from fanfold.work.carried import CarriedFile, FileTrouble, is_there, is_wild, matches, put_below
from fanfold.work.media import Attachment, read_content
from fanfold.work.member import Request
from fanfold.work.wire import contents_folder


class Contents:
    """Keeps the files of a run: those of asks before they are first sent, those that come back before
    their reply counts."""

    def __init__(self, store: Store, record: RunRecord, refuse: Refuse) -> None:
        self._store, self._run, self._refuse = store, record.no, refuse
        self._known = store.read.attached(record.no) if record.resumed else {}
        self._kept: set[str] = set()
        self._left_by: dict[str, str] = {}  # outputs that asks name, each with its item

    async def keep(self, ask: Ask) -> None:
        """Durable when this returns. Where one of them is not what it was, the run stops. Terminal: another
        item leaves the same file."""
        for one in ask.attachments():
            hash = bytes.fromhex(one.hash)
            known = self._known.setdefault(one.name, hash)
            if known != hash:
                self._refuse(f"{one.name}: was changed after it was read in this run; {TO_DO}")
            if one.name in self._kept:
                continue
            content = b"" if self._store.read.has_content(hash) else await self._read(one)
            await self._store.write(KeepContent(self._run, one.name, hash, content))
            self._kept.add(one.name)
        if ask.files is not None and ask.items:
            self._claim_outputs(ask.files.outputs, ask.items[0].id)

    def _claim_outputs(self, outputs: tuple[str, ...], item: str) -> None:
        for path in outputs:
            other = self._left_by.setdefault(path, item)
            if other != item and not is_wild(path):
                what = f"`outputs`: `{path}` would be left by `{other}` and by `{item}`"
                raise Terminal(f"{what}; put {{{{ item.id }}}} into its path", scope="ask")

    async def _read(self, one: Attachment) -> bytes:
        try:
            return await asyncio.to_thread(read_content, one)
        except Terminal as error:
            self._refuse(f"{error}; {TO_DO}")

    # ── what comes back ──

    async def take_in(self, reply: Reply, request: Request) -> Reply:
        """What a reply left is durable, and then in its place. InvalidReply: it cannot be put there."""
        await self.store_outputs(reply.files)
        files = request.ask.files
        try:
            if files is not None and files.folder and not files.shared:
                _check_paths(reply.files, files.outputs)
                await asyncio.to_thread(_put, Path(files.folder), reply.files, self._content)
        except FileTrouble as error:
            raise InvalidReply(str(error)) from None
        return reply

    async def store_outputs(self, files: tuple[CarriedFile, ...]) -> None:
        """A file that was collected is in the folder of the store until the store itself has it."""
        for one in files:
            hash, file = bytes.fromhex(one.hash), self._folder / one.hash
            content = b"" if self._store.read.has_content(hash) else await _read_kept(file)
            await self._store.write(KeepContent(self._run, _named(one), hash, content))
            await asyncio.to_thread(file.unlink, missing_ok=True)

    def restore(self, reply: Reply, ask: Ask, *, only_missing: bool) -> bool:
        """The files of a recorded reply are in their places. False: the store has them no more."""
        files = ask.files
        if files is None or not files.folder or files.shared:
            return True
        folder = Path(files.folder)
        wanted = [one for one in reply.files if not is_there(folder, one)]
        if only_missing:
            wanted = [one for one in wanted if not (folder / one.path).exists()]
        if any(one.size and self._content(one.hash) is None for one in wanted):
            return False
        for one in reply.files:
            self._store.note(KeepContent(self._run, _named(one), bytes.fromhex(one.hash), b""))
        _put(folder, tuple(wanted), self._content)
        return True

    @property
    def _folder(self) -> Path:
        return contents_folder(str(self._store.files))

    def _content(self, hash: str) -> bytes | None:
        return self._store.read.content(bytes.fromhex(hash))


def _named(one: CarriedFile) -> str:
    """A path may have one content after the other."""
    return f"output {one.hash} {one.path}"


async def _read_kept(file: Path) -> bytes:
    try:
        return await asyncio.to_thread(file.read_bytes)
    except OSError as error:
        raise InvalidReply(f"its outputs cannot be read: {error.strerror}") from None


def _check_paths(files: tuple[CarriedFile, ...], outputs: tuple[str, ...]) -> None:
    """Another machine names files that were asked for, and no others."""
    for one in files:
        if ".." in one.path.split("/") or not any(matches(each, one.path) for each in outputs):
            raise FileTrouble(f"`outputs`: `{one.path}` was not asked for")


def _put(
    folder: Path, files: tuple[CarriedFile, ...], content: Callable[[str], bytes | None]
) -> None:
    for one in files:
        if not is_there(folder, one):
            put_below(folder, one, content(one.hash) or b"")
