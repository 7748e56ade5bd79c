"""Batches at the services of members: the facts, and what is on record of one."""

from __future__ import annotations

from typing import Literal

import msgspec

SubmissionState = Literal["claimed", "sent", "cancelling", "ended", "unsent"]
"""Of a batch: it may be sent · its service has it · it is to end before its lines are done · it has ended
there · it was never sent."""


class SubmitBatch(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """These attempts go to the batch service of their member, in one submission named `id`. Written before
    it is sent: from now on they are the service's, and no end of this process puts them in doubt. `due`:
    when what has not come is asked otherwise. `reading`: how the replies are to be read. Answer: its
    number."""

    run: int
    step: int
    id: str
    member: str
    attempts: tuple[int, ...]
    at: float
    due: float | None
    reading: bytes


class NoteSubmission(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """How far a submission is. `service`: its id there, once that is known."""

    run: int
    submission: int
    state: SubmissionState
    at: float
    service: str = ""


class SubmissionRecord(msgspec.Struct, frozen=True):
    """A batch at the service of a member; see `SubmitBatch`. `at`: when it came into its state; `lines`:
    attempts in it."""

    no: int
    run: int
    step: int
    id: str
    member: str
    service: str
    state: SubmissionState
    lines: int
    claimed: float
    at: float
    due: float | None
    reading: bytes


class InBatches(msgspec.Struct, frozen=True):
    """Asks of a run that batch services have: how many, at most how much they cost, since when the oldest
    of them is there; and how many came `back` by now. `unconfirmed`: so many were sent, or are being sent,
    and the service has not said that it has them."""

    lines: int = 0
    at_most: int = 0
    oldest: float | None = None
    back: int = 0
    unconfirmed: int = 0
