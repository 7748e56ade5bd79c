"""Errors. One root; each says what happened, where, and what to do about it."""

from __future__ import annotations

from typing import Any, Literal


class FanfoldError(Exception):
    """Root of everything fanfold raises on purpose. Its text is one or two lines for people."""


class BadInput(FanfoldError):
    """The plan, roster, input or an argument is wrong. Nothing was started.

    The text begins with `file:line:` when there is a file, and ends with the remedy.
    """

    def __init__(self, what: str, *, file: str | None = None, line: int | None = None) -> None:
        self.what, self.file, self.line = what, file, line
        where = "" if not file else f"{file}: " if line is None else f"{file}:{line}: "
        super().__init__(where + what)


class BadArgument(BadInput, TypeError):
    """A call with an argument that the function does not have, or without one that it needs."""


class StoreError(FanfoldError):
    """The store cannot be used: foreign, torn, newer than this program, locked or not writable."""


class StoreDamaged(StoreError):
    """What is on record of a run is not what was recorded: nothing is told of it. Others are as they were."""


class StoreBusy(StoreError):
    """Another process holds the store's write lock."""


class StoreAway(StoreBusy):
    """The server of the store does not answer. It is waited for."""


class StoreFenced(StoreError):
    """This process was cut off from the store for longer than its lease: others may have taken its
    calls over. It sends and writes nothing more; a new process resumes the run."""


class StoreUnavailable(StoreError):
    """The store cannot be written for now: full, locked for long, a disk error, moved or deleted in
    mid-run. The run pauses; nothing that was durable is lost, and replies that were paid are kept."""


class StoreFull(StoreUnavailable):
    """The disk filled up while journaling."""


class AlreadyRunning(FanfoldError):
    """Another process carries this run out right now."""


class RunStopped(FanfoldError):
    """Raised inside a pattern when the run stops early: paused, aborted or killed.

    Patterns let it pass; whoever opened the run closes the books.
    """


class ReduceFailed(FanfoldError):
    """A function of the parts made no result of them, or raised. Their replies are on record: a script
    that ends with this pauses its run, and asks for none of them again."""


# ── what can go wrong with a member: a small closed set ──────────────────────────────────────


class MemberError(FanfoldError):
    """A member gave no reply. `lost` means that the request may have been carried out (and billed)
    although no answer came back: a timeout, a connection dropped after sending, a cancelled call.

    `cost` (nano-dollars) and `usage` (a work.ask.Usage): what it took all the same, when the member
    knows. None is nothing, or the whole reservation when it was lost or invalid, or a `bound`: nobody
    knows its cost exactly, which is the most that it can have been.
    """

    cost: int | None = None
    bound: bool = False
    usage: Any = None

    def __init__(self, text: str, *, lost: bool = False) -> None:
        self.lost = lost
        super().__init__(text)


LONGEST_WAIT = 1e9
"""Seconds; a member that says to wait for longer than 30 years says for ever."""


def seconds_told(told: float | None) -> float | None:
    """How long to wait as it was told, as something that can be calculated with."""
    return None if told is None or told != told else min(max(0.0, told), LONGEST_WAIT)


class Transient(MemberError):
    """Worth another try: refused connection, 5xx, overloaded, a dropped connection."""


class RateLimited(MemberError):
    """Asked too often (429, 529). `retry_after` in seconds when the member said so."""

    def __init__(self, text: str, *, retry_after: float | None = None) -> None:
        self.retry_after = seconds_told(retry_after)
        super().__init__(text)


class Terminal(MemberError):
    """Trying again is useless. `scope` says for whom:

    `pool`: bad key or quota gone, for all members of the account; `member`: model unknown;
    `ask`: this very request was refused (too long, malformed). `too_long` marks the first of these.
    `reset_after`: seconds until a quota comes back, when the member said so.
    """

    def __init__(
        self,
        text: str,
        *,
        scope: Literal["pool", "member", "ask"],
        too_long: bool = False,
        reset_after: float | None = None,
        lost: bool = False,
    ) -> None:
        self.scope, self.too_long = scope, too_long
        self.reset_after = seconds_told(reset_after)
        super().__init__(text, lost=lost)


class InvalidReply(MemberError):
    """An answer came, but not one that can be read (a broken envelope). It was paid for."""


class TimedOut(MemberError):
    """No answer in time. The request may have been carried out, so it counts as spent."""

    def __init__(self, text: str) -> None:
        super().__init__(text, lost=True)


class CalledOff(MemberError):
    """The work was ended because its run was called off, not for anything that it did."""
