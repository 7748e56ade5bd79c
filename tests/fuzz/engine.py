"""Seeded fuzzing. A part makes inputs by chance and checks what becomes of each.

Case N of a part under a seed is always the same: `part:seed:N`. What fails is made as small as it can be
by leaving pieces out, and told once for each place where it failed.
"""

from __future__ import annotations

import re
import resource
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from types import FrameType
from typing import Protocol

CPU_SECONDS, SECONDS = 10, 120  # that one case may take; thousands of times what it does take
GROWTH = 250_000  # kB by which one case may raise the most memory that the process ever had
TRIES = 400  # smaller inputs that are tried of one that fails
SOURCE = str(Path(__file__).parents[2] / "src")

Given = list[bytes]
"""The input of one case in pieces: lines of a file, answers of a service, edits of a store."""


class Wrong(Exception):
    """A rule was broken, though nothing was raised."""


class _Hangs(BaseException):
    """Raised by the guard; no product code catches it."""


class FuzzPart(Protocol):
    """`divisible`: pieces mean something when they are cut too."""

    name: str
    divisible: bool

    def make(self, rng: Random) -> Given: ...

    def check(self, given: Given) -> None:
        """Raises whatever is wrong: `Wrong`, or an exception that nobody expected."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Failure:
    case: str
    place: str
    text: str
    given: Given

    def __str__(self) -> str:
        shown = "\n".join(f"    {piece[:300]!r}" for piece in self.given[:40])
        return f"{self.case}: {self.place}\n{self.text}\n  smallest input:\n{shown}"


@dataclass
class Tally:
    part: str
    cases: int = 0
    cpu: float = 0.0
    found: dict[str, Failure] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.part:<10} {self.cases:>9,} cases {self.cpu / 60:6.1f} min {len(self.found)} found"


def fuzz(
    part: FuzzPart,
    seed: int,
    *,
    cases: int | None = None,
    cpu: float | None = None,
    tell: Callable[[Failure], None] = lambda failure: None,
) -> Tally:
    """So many cases, or so many seconds of CPU time."""
    tally, began = Tally(part.name), time.process_time()
    for number in count() if cases is None else range(cases):
        failure = one(part, seed, number, known=tally.found)
        tally.cases += 1
        tally.cpu = time.process_time() - began
        if failure is not None:
            tally.found[failure.place] = failure
            tell(failure)
        if cpu is not None and tally.cpu > cpu:
            break
    return tally


def one(
    part: FuzzPart, seed: int, number: int, known: dict[str, Failure] | None = None
) -> Failure | None:
    case = f"{part.name}:{seed}:{number}"
    given = part.make(Random(case))
    trouble = _trouble(part, given)
    if trouble is None or trouble[0] in (known or {}):
        return None
    place, text = trouble

    def fails(smaller: Given) -> bool:
        again = _trouble(part, smaller)
        return again is not None and again[0] == place

    slow = place.startswith(("hangs", "memory"))
    small = given if slow else smallest(given, fails, divisible=part.divisible)
    return Failure(case, place, text, small)


def _trouble(part: FuzzPart, given: Given) -> tuple[str, str] | None:
    """The place and the text of what is wrong with a case."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        with _guarded():
            part.check(given)
    except Wrong as error:
        return re.sub(r"\d+|'.*'|`.*`", "…", str(error))[:80], str(error)
    except _Hangs as error:
        return f"hangs {_place(error)}", traceback.format_exc()
    except Exception as error:
        return f"{type(error).__name__} {_place(error)}", traceback.format_exc()
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return (f"memory {more // GROWTH}", f"{more:,} kB") if more > GROWTH else None


@contextmanager
def _guarded() -> Iterator[None]:
    def hangs(number: int, frame: FrameType | None) -> None:
        raise _Hangs("it takes too long")

    timers = ((signal.SIGVTALRM, signal.ITIMER_VIRTUAL, CPU_SECONDS),
              (signal.SIGALRM, signal.ITIMER_REAL, SECONDS))  # fmt: skip
    before = [signal.signal(number, hangs) for number, _, _ in timers]
    for _, timer, seconds in timers:
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for _, timer, _ in timers:
            signal.setitimer(timer, 0)
        for (number, _, _), handler in zip(timers, before, strict=True):
            signal.signal(number, handler)


def _place(error: BaseException) -> str:
    """Where it was raised: the innermost function of ours."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [one for one in frames if one.filename.startswith(SOURCE)] or frames
    return f"in {Path(ours[-1].filename).name}:{ours[-1].name}"


def smallest(given: Given, fails: Callable[[Given], bool], *, divisible: bool) -> Given:
    """Leaves out runs of pieces, then parts of each piece, as long as it still fails."""
    tries = iter(range(TRIES))
    given = _fewer(given, lambda few: next(tries, None) is not None and fails(few))
    for n, piece in enumerate(given if divisible else ()):
        before, after = given[:n], given[n + 1 :]

        def fits(few: list[bytes], before: Given = before, after: Given = after) -> bool:
            changed = [*before, b"".join(few), *after]
            return next(tries, None) is not None and fails(changed)

        kept = _fewer([piece[k : k + 1] for k in range(len(piece))], fits)
        given = [*before, b"".join(kept), *after]
    return given


def _fewer(pieces: list[bytes], fails: Callable[[list[bytes]], bool]) -> list[bytes]:
    size = len(pieces) // 2
    while size:
        at = 0
        while at < len(pieces):
            fewer = pieces[:at] + pieces[at + size :]
            if fails(fewer):
                pieces = fewer
            else:
                at += size
        size //= 2
    return pieces
