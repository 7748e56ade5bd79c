"""How a member behaves: as its calls on record did, as the user states, or as is assumed."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from random import Random
from typing import Literal, NamedTuple

import msgspec

from fanfold.errors import BadInput
from fanfold.work.ask import Usage
from fanfold.work.batch import Seconds
from fanfold.work.member import Traits
from fanfold.work.nearest import quoted, remedy
from fanfold.work.reader import Misfit

Fault = Literal["refused", "error", "lost", "rejected"]
FAULTS: tuple[Fault, ...] = ("refused", "error", "lost", "rejected")
"""Asked too often (429); an error worth another try; no answer, though it may have been carried out; this
very ask is refused, whoever tries again."""
SPREAD = 3.0  # how far the 95th percentile is above the median, where only that is known
TIMES = ("latency", "p95", "retry_after")
SIGMAS = 1.645  # of the 95th percentile
OF_MODELS, OF_PROGRAMS, OF_FUNCTIONS, OF_AGENTS = (
    2.0,
    1.0,
    0.0,
    60.0,
)  # seconds, where nothing is known


class PastCall(msgspec.Struct, frozen=True):
    """A call that brought a reply. `usd`: where its tokens do not say what it cost."""

    seconds: float
    usage: Usage | None = None
    usd: float | None = None
    items: int = 1


class FaultRate(msgspec.Struct, frozen=True):
    """How often, after how many seconds it shows, and how long the member says to wait then; 0: it does
    not say."""

    rate: float
    seconds: tuple[float, ...] = (0.2,)
    waits: tuple[float, ...] = (0.0,)


class DrawnFault(NamedTuple):
    fault: Fault
    seconds: float
    wait: float | None


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """Of one member at one step. `kicked`: the share of first replies that their gate refuses,
    `kicked_again`: of those after a kick-back. `latency`: median and 95th percentile, in place of those of
    `calls`. `known`: where this is from, for people."""

    calls: tuple[PastCall, ...] = ()
    faults: dict[Fault, FaultRate] = {}
    kicked: float = 0.0
    kicked_again: float = 0.0
    latency: tuple[float, float] | None = None
    input: int | None = None
    output: int | None = None
    usd: float | None = None
    known: str = ""

    def fault(self, chance: Random) -> DrawnFault | None:
        """What goes wrong with a call; mostly nothing."""
        drawn = chance.random()
        for name in FAULTS:
            found = self.faults.get(name)
            if found is None:
                continue
            if drawn < found.rate:
                return DrawnFault(
                    name, chance.choice(found.seconds), chance.choice(found.waits) or None
                )
            drawn -= found.rate
        return None

    def call(self, chance: Random) -> PastCall:
        """One that brings a reply."""
        drawn = chance.choice(self.calls) if self.calls else PastCall(0.0)
        if self.latency is None:
            return drawn
        median, slow = self.latency
        if median > 0:
            spread = log(slow / median) / SIGMAS
            median *= exp(spread * chance.gauss(0.0, 1.0))
        return msgspec.structs.replace(drawn, seconds=median)


def assumed(traits: Traits) -> Behaviour:
    """Of a member of which nothing is known."""
    usual = {"function": OF_FUNCTIONS, "replay": OF_FUNCTIONS, "command": OF_PROGRAMS}
    seconds = OF_AGENTS if traits.agent else usual.get(traits.kind, OF_MODELS)
    said = f"assumed: {_latency_text(seconds, seconds * SPREAD)}, no errors, no kick-backs"
    said += ", each call at its worst case" if traits.agent else ""
    return Behaviour(latency=(seconds, seconds * SPREAD), known=said)


def _latency_text(median: float, slow: float) -> str:
    return f"{median:g} s a call (95 % within {slow:g} s)" if median else "a call takes no time"


# ── as it is stated: `--member ada:latency=2s,p95=8s,errors=0.02,kicked=0.1` ─────────────────


class StatedBehaviour(msgspec.Struct, frozen=True, kw_only=True):
    """What the user says of a member, in place of what is on record. Rates are shares of its calls."""

    latency: float | None = None
    p95: float | None = None
    errors: float | None = None
    refused: float | None = None
    retry_after: float | None = None
    lost: float | None = None
    kicked: float | None = None
    input: int | None = None
    output: int | None = None
    usd: float | None = None

    def over(self, found: Behaviour) -> Behaviour:
        """The rest stays as it was found."""
        faults, rates = dict(found.faults), {"error": self.errors, "lost": self.lost}
        rates["refused"] = self.refused
        for name in FAULTS:
            if (rate := rates.get(name)) is not None:
                before = faults.get(name, FaultRate(0.0))
                faults[name] = FaultRate(rate, before.seconds, before.waits)
        if self.retry_after is not None and (refused := faults.get("refused")) is not None:
            faults["refused"] = FaultRate(refused.rate, refused.seconds, (self.retry_after,))
        latency = found.latency
        if self.latency is not None:
            latency = self.latency, self.p95 or SPREAD * self.latency
        kicked = {} if self.kicked is None else {"kicked": self.kicked, "kicked_again": self.kicked}
        said = {
            name: x for name in ("input", "output", "usd") if (x := getattr(self, name)) is not None
        }
        rest = found.known if found.calls else "the rest is assumed"
        return msgspec.structs.replace(
            found, faults=faults, latency=latency, known=f"stated: {self}; {rest}", **kicked, **said
        )

    def __str__(self) -> str:
        given = {name: getattr(self, name) for name in self.__struct_fields__}
        return ", ".join(
            f"{name} {value:g}{' s' if name in TIMES else ''}"
            for name, value in given.items()
            if value is not None
        )


def parse_members(given: Sequence[str], members: Sequence[str]) -> dict[str, StatedBehaviour]:
    """`NAME:latency=2s,errors=0.02`, each; the same member several times is one statement."""
    found: dict[str, dict[str, float]] = {}
    for said in given:
        name, colon, rest = said.partition(":")
        if not colon or not rest:
            what = f"--member {said}: write NAME:latency=2s,p95=8s,errors=0.02,kicked=0.1"
            raise BadInput(what)
        if name not in members:
            raise BadInput(f"--member {said}: there is no member `{name}`: {remedy(name, members)}")
        for part in rest.split(","):
            field, value = _stated(said, part)
            found.setdefault(name, {})[field] = value
    made = {name: StatedBehaviour(**fields) for name, fields in found.items()}  # type: ignore[arg-type]
    for name, one in made.items():
        _check(name, one)
    return made


def _stated(said: str, part: str) -> tuple[str, float]:
    field, equals, text = (word.strip() for word in part.partition("="))
    known = StatedBehaviour.__struct_fields__
    if field not in known:
        raise BadInput(f"--member {said}: unknown field {quoted(field)}: {remedy(field, known)}")
    if not equals:
        raise BadInput(f"--member {said}: `{field}` has no value; write {field}=VALUE")
    try:
        if field in TIMES:
            return field, _seconds(text)
        value = float(text)
        if field in ("input", "output") and not 0 <= value <= 10**7:
            raise ValueError
        if field in ("errors", "refused", "lost", "kicked") and not 0 <= value <= 1:
            raise BadInput(f"--member {said}: `{field}` is a share from 0 to 1, not {text}")
        if not 0 <= value < 1e9:
            raise ValueError
    except Misfit as error:
        raise BadInput(f"--member {said}: `{field}`: {error}") from None
    except ValueError:
        raise BadInput(f"--member {said}: `{field}` is an amount, not {text!r}") from None
    return field, int(value) if field in ("input", "output") else value


def _seconds(text: str) -> float:
    """`2s`, `1m`, or seconds as a number."""
    try:
        given: float | str = float(text)
    except ValueError:
        given = text
    return float(Seconds.from_value(given))


def _check(name: str, one: StatedBehaviour) -> None:
    if one.p95 is not None and (one.latency is None or one.p95 < one.latency):
        other = (
            "is less than `latency`" if one.latency is not None else "needs a `latency` beside it"
        )
        raise BadInput(f"--member {name}: `p95` {other}")
    wrong = sum(rate or 0.0 for rate in (one.errors, one.refused, one.lost))
    if wrong > 0.95:
        what = f"`errors`, `refused` and `lost` add up to {wrong:g}; at most 0.95 is possible"
        raise BadInput(f"--member {name}: {what}")
