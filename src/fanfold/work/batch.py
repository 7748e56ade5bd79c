"""Asks that may take hours, for a part of the price: what a step says of it, and what crosses between a run
and the batch service of a member."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import msgspec
from msgspec import UNSET

from fanfold.errors import MemberError
from fanfold.work.arguments import Checked
from fanfold.work.ask import Reply
from fanfold.work.member import Request
from fanfold.work.reader import Count, Misfit, Stated, read_options

LINES = 10_000
"""Asks of a step that are in batches, or wait for one, at the same time."""
SMALL = 32
"""Lines from which on a batch is worth waiting for, where that is left to us."""
AT_BATCH = "batch"
"""`Traits.at` of a member that is asked by its batch service, and the queue of its attempts."""
HEDGE_AND_BATCH = (
    "state `batch` or `hedge`, not both: a second request is for calls that are waited for"
)
TOOLS_AND_BATCH = "state `batch` or `tools`, not both: each result of a tool would wait for a batch"
SHARD_AND_BATCH = "state `batch` or `shard`, not both: a line of a batch is about one item"
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd])")


class Seconds(float):
    """A time as it is written: `90s`, `30m`, `6h`, `1d`, or seconds as a number."""

    @classmethod
    def from_value(cls, value: Any) -> Seconds:
        if isinstance(value, int | float) and not isinstance(value, bool):
            found = float(value)
        elif isinstance(value, str) and (parts := _TIME.fullmatch(value.strip())):
            found = float(parts[1]) * _UNITS[parts[2]]
        else:
            raise Misfit(f"a time is such as 90s, 30m or 6h, not {value!r}")
        if not 0 < found < 1e9:
            raise Misfit(f"a time is more than 0, not {value!r}")
        return cls(found)

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        return {"anyOf": [{"type": "string"}, {"type": "number", "exclusiveMinimum": 0}]}


class BatchFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A batch as it is written."""

    called: ClassVar[str] = "a batch"
    within: Stated[Seconds] = UNSET
    auto: bool = False
    most: Stated[Count] = UNSET

    def __post_init__(self) -> None:
        if self.within is UNSET and not self.auto:
            raise Misfit("`batch` needs `within`, such as 6h, or `auto: true`")


class BatchPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, metaclass=Checked):
    """Asks go to the batch service of their member: at half the price, say, but within hours.

    `within`: seconds (or a text such as `6h`) in which the step is to be done, from its first batch on; in
    time before that, what has not come is cancelled and asked online. None: the service's own time.
    `auto`: what is too little to wait for goes online at once: less than 32 asks, kick-backs, retries.
    `most`: at most so many asks are in batches at the same time.
    """

    within: float | str | None = None
    auto: bool = False
    most: int = LINES

    def check(self) -> None:
        given = {"within": self.within, "auto": self.auto, "most": self.most}
        read = read_options(given, BatchFields)
        if read.within is not UNSET:
            msgspec.structs.force_setattr(self, "within", float(read.within))

    @property
    def seconds(self) -> float | None:
        return None if self.within is None else float(self.within)

    def describe(self) -> str:
        time = "" if self.within is None else f" within {written(float(self.within))}"
        return f"in batches{time}{', few at once online' if self.auto else ''}"


def without_service(members: Sequence[str]) -> str:
    """What is wrong with a batch of members none of whom has such a service."""
    return (
        f"`batch` needs a member with a batch service, and {', '.join(members)} has none that is known; if"
        " it has one, state `batch_price` in the roster (0.5 is half the price). Only members of"
        " kind openai or anthropic that are not asked elsewhere (`at`) can have one"
    )


def batch_of(given: Any) -> BatchPolicy:
    """`auto`, a time, or the fields."""
    if isinstance(given, BatchPolicy):
        return given
    if given == "auto":
        return BatchPolicy(auto=True)
    if isinstance(given, BatchFields):
        within = None if given.within is UNSET else float(given.within)
        return BatchPolicy(within, given.auto, LINES if given.most is UNSET else given.most)
    return BatchPolicy(float(Seconds.from_value(given)))


def written(seconds: float) -> str:
    """`6h`, `90m`, `45s`."""
    for unit in ("d", "h", "m"):
        if seconds >= _UNITS[unit] and seconds % _UNITS[unit] == 0:
            return f"{seconds / _UNITS[unit]:g}{unit}"
    return f"{seconds:g}s"


# ── the service of a member ──────────────────────────────────────────────────────────────────


class BatchLine(NamedTuple):
    """`id`: of 1 to 64 letters, digits, `_` or `-`; nobody else's."""

    id: str
    body: bytes


LineEnd = Literal["answered", "refused", "cancelled", "expired"]


class LineResult(NamedTuple):
    """How a line ended. Only what was answered is billed. `body`: the answer, or the error."""

    id: str
    end: LineEnd
    body: bytes = b""
    status: int = 200


class BatchState(NamedTuple):
    """What the service says of a batch. `name`: what we called it, where the service keeps that; `done`:
    lines that have ended so far, as far as it says; `flaw`: why it was refused as a whole."""

    id: str
    ended: bool
    lines: int
    done: int = 0
    created: float = 0.0
    name: str = ""
    flaw: str = ""


class BatchService(Protocol):
    """What a member's provider offers. All may raise a MemberError; one that is `lost` says that what was
    wanted may have been done all the same."""

    most_lines: int
    most_bytes: int
    keeps_names: bool

    async def submit(self, name: str, lines: Sequence[BatchLine]) -> BatchState:
        """A new batch of these. The name is nobody else's."""

    async def since(self, created: float, known: Collection[str]) -> list[BatchState]:
        """The batches that were created since then, the newest first, but for those known."""

    async def look(self, id: str) -> BatchState: ...

    async def results(self, id: str) -> list[LineResult]:
        """Of one that has ended."""

    async def cancel(self, id: str) -> None:
        """Lines that are not begun will not be; the batch ends a little later."""

    def read(self, request: Request, result: LineResult) -> Reply:
        """Of a line that was answered; raises the MemberError of one that was refused."""


class Unfinished(MemberError):
    """A line that was not done before its batch ended: it took nothing, and is asked online."""

    cost = 0


class LeftInBatch(MemberError):
    """Nobody waits for it any more; whoever resumes the run collects it."""


class NeverSubmitted(MemberError):
    """It is in no batch, no worker has it, and it was not sent."""

    cost = 0
