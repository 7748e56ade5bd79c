"""Facts that the store does not take: what becomes of them, and of whoever waits for them.

How attempts ended, with their replies, goes into a side file until the store is opened again. Each
writer has a file of its own, locked while it lives. A record is a length, a checksum and a fact; a torn
record ends the file. To apply a fact twice does no harm.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import msgspec

from fanfold.errors import InvalidReply, RunStopped, StoreError, StoreUnavailable
from fanfold.journal.facts import (
    AddRun,
    CloseRun,
    DeclareCascade,
    DropRun,
    EndAttempt,
    EndItems,
    Fact,
    ItemEnding,
    KeepPrompt,
    LoseAttempts,
    NameStep,
    NewReply,
    PlanItems,
    RecordFailure,
    ReleaseClaims,
    ReopenRun,
    decode,
    encode,
)
from fanfold.journal.kept import KeepContent
from fanfold.work.ask import Reply, Usage
from fanfold.work.folders import user_folder
from fanfold.work.item import digest

_HEAD = struct.Struct(">II")
_KEPT = (EndAttempt, NameStep)


def is_kept(fact: Any) -> bool:
    """What must not be lost: how attempts ended, with their replies, and the steps they name."""
    return isinstance(fact, _KEPT)


def folders(store: Path) -> tuple[Path, ...]:
    """Where side files of a store may be: in it, or in the user's state folder when it is full or
    gone."""
    name = digest(os.fsencode(store.absolute())).hex()
    return store / "unsaved", user_folder("state") / "unsaved" / name


class SideFile:
    """The facts of one writer. `file` is None until something was saved."""

    def __init__(self, store: Path, identity: str) -> None:
        self._store, self._identity = store, identity
        self._handle = -1
        self._saved: set[int] = set()
        self.file: Path | None = None
        self.replies = 0

    def save(self, facts: Iterable[Any]) -> bool:
        """Add those that are not in it yet, durably. False: nowhere is room for them."""
        new = [fact for fact in facts if is_kept(fact) and id(fact) not in self._saved]
        if not new:
            return True
        record = b"".join(map(_record, new))
        if not (self._handle >= 0 and self._append(record)) and not self._elsewhere(record):
            return False
        self._saved.update(map(id, new))
        self.replies += sum(isinstance(fact, EndAttempt) and bool(fact.landed) for fact in new)
        return True

    def clear(self) -> None:
        """All of it is in the store now."""
        if self._handle >= 0:
            with suppress(OSError):
                if self.file is not None:
                    self.file.unlink(missing_ok=True)
            os.close(self._handle)
        self._handle, self.file, self.replies = -1, None, 0
        self._saved.clear()

    def close(self) -> None:
        """Leave the file to whoever opens the store next."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _elsewhere(self, record: bytes) -> bool:
        """A new file, in the first folder that takes it. One that is full already stays."""
        for folder in folders(self._store):
            with suppress(OSError):
                self._begin(folder)
                if self._append(record):
                    return True
        return False

    def _begin(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = folder / f"{secrets.token_hex(8)}.facts"
        handle = os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.close()
        self._handle, self.file = handle, file
        if not self._append(self._identity.encode().ljust(32, b" ")):
            file.unlink(missing_ok=True)
            raise OSError
        _settle(folder)

    def _append(self, data: bytes) -> bool:
        size = os.fstat(self._handle).st_size
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._handle, rest) :]
            os.fsync(self._handle)
            return True
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._handle, size)
            return False


def _record(fact: Any) -> bytes:
    payload = encode(fact)
    return _HEAD.pack(len(payload), crc32(payload)) + payload


def _settle(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# ── applied later ────────────────────────────────────────────────────────────────────────────


@contextmanager
def left_behind(store: Path, identity: str) -> Iterator[list[Any]]:
    """The facts that dead writers of this store left, oldest first. Their files are removed at the
    end of the block, unless it raises."""
    found = [one for folder in folders(store) for one in _files(folder, identity)]
    facts: list[Any] = []
    try:
        whole = [_read(handle, facts) for handle, _ in found]
        yield facts
        for (_, file), good in zip(found, whole, strict=True):
            if good:
                file.unlink(missing_ok=True)
            else:  # what could be read of it is in the store now
                file.rename(file.with_suffix(".damaged"))
    finally:
        for handle, _ in found:
            os.close(handle)


def _files(folder: Path, identity: str) -> Iterator[tuple[int, Path]]:
    try:
        files = sorted(folder.glob("*.facts"), key=lambda file: file.stat().st_mtime)
    except OSError:
        return
    for file in files:
        handle = _locked(file)
        if handle is None:
            continue
        if os.pread(handle, 32, 0).decode(errors="replace").strip() == identity:
            yield handle, file
        else:
            os.close(handle)


def _locked(file: Path) -> int | None:
    """None: its writer lives and has it in memory too, or it cannot be read now."""
    try:
        handle = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return handle
    except OSError:
        os.close(handle)
        return None


def _read(handle: int, facts: list[Any]) -> bool:
    """Add its facts. False: a record of it is damaged, and what follows cannot be read."""
    with open(handle, "rb", closefd=False) as stream:
        stream.seek(32)
        while head := stream.read(_HEAD.size):
            size, checksum = _HEAD.unpack(head) if len(head) == _HEAD.size else (0, 1)
            payload = stream.read(size)
            if len(payload) < size or crc32(payload) != checksum:
                return False
            facts.append(_of_0_1_0(payload) if payload[0] < len(_KEPT) else decode(payload))
    return True


def _of_0_1_0(payload: bytes) -> Fact:
    """Version 0.1.0 wrote one byte for the kind, and a map; no wire form of today begins like that."""
    fields = msgspec.msgpack.decode(payload[1:])
    if _KEPT[payload[0]] is NameStep:
        return NameStep(**fields)
    replies = ({**one, "reply": msgspec.convert(one["reply"], Reply)} for one in fields["landed"])
    fields["landed"] = tuple(NewReply(**one) for one in replies)
    endings = ({**one, "reasons": tuple(one["reasons"])} for one in fields["endings"])
    fields["endings"] = tuple(ItemEnding(**one) for one in endings)
    usage = fields["usage"]
    fields["usage"] = None if usage is None else msgspec.convert(usage, Usage)
    return EndAttempt(**{**fields, "released": tuple(fields["released"])})


# ── what becomes of a fact that is not taken ─────────────────────────────────────────────────

WAIT: Final = object()
"""No answer yet: it is saved nowhere but in memory."""


def answer_to(fact: Any, error: StoreError, reason: str, saved: bool) -> tuple[Any, bool]:
    """What whoever waits for it gets, and whether it is kept to be committed later.

    An end is as good as recorded once it is saved: its reply has no row yet. Outcomes
    without a reply of their own are found again from the replies. What was to begin does not.
    """
    match fact:
        case EndAttempt():
            return ((0,) * len(fact.landed) if saved else WAIT), True
        case NameStep() | ReleaseClaims() | RecordFailure() | LoseAttempts():
            return None, True
        case EndItems() | DeclareCascade() | KeepPrompt() | KeepContent() | PlanItems(rows=[]):
            return None, False
        case AddRun() | ReopenRun() | DropRun():
            return error, False
        case CloseRun():
            return StoreUnavailable(reason), False
        case _:
            return RunStopped(f"paused: {reason}"), False


def unholdable(fact: Any) -> InvalidReply | None:
    """Why no file can hold it: half of a surrogate pair is no text."""
    try:
        encode(fact)
    except Exception as error:
        return InvalidReply(f"cannot be recorded: {error}")
    return None


def without_reply(fact: Any, why: Exception) -> Any:
    """Of an attempt whose reply nothing can hold: that it ended, and what was paid. None: of no attempt."""
    if isinstance(fact, EndAttempt) and fact.attempt and fact.landed:
        return msgspec.structs.replace(fact, state="error", error=str(why), landed=(), endings=())
    return None


def paused(fact: Any, reason: str) -> Any:
    """A run whose store disappeared in mid-run did not end well, even if all its items did."""
    if isinstance(fact, CloseRun) and fact.status in ("complete", "flagged"):
        return msgspec.structs.replace(fact, status="paused", reason=reason)
    return fact


def with_replies(fact: Any) -> Any:
    """Outcomes of replies that went into the side file have no row to point to: they are left out,
    and found again from the replies when the run is resumed. One that nobody answered, such as a vote
    without a decision, has no reply to point to."""
    if isinstance(fact, EndItems):
        known = tuple(
            e for e in fact.endings if e.reply or e.member == "" or e.state not in _WITH_REPLY
        )
        return fact if len(known) == len(fact.endings) else EndItems(fact.run, known)
    return fact


_WITH_REPLY = ("passed", "skipped", "kicked")
