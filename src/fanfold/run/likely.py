"""What calls are expected to take: by what is on record of their like, else by their sizes."""

from __future__ import annotations

from math import ceil

import msgspec

from fanfold.journal.answers import CallHistory
from fanfold.price import FREE, cost
from fanfold.run.forecast import Z90
from fanfold.work.member import Request, Traits

OVERHEAD = 1024  # tokens that a worst case has on top of its bytes
BYTES_PER_TOKEN = 4  # of a usual text
PART_OF_MOST = (
    4  # without calls on record, a reply takes a quarter of what it may; so does an agent
)
UNLIKE = 2.0  # prompts that are so many times as long as those on record are of another sort


class Share:
    """One member's part of the calls, and what these would take by their sizes alone. `most` is what
    agents may spend; `unbounded`: nobody knows."""

    def __init__(self, traits: Traits, past: CallHistory | None) -> None:
        self.traits, self.past = traits, past
        self.calls = self.input = self.output = self.most = 0.0
        self.unbounded = False

    def add(self, request: Request, more: int, weight: float) -> None:
        self.calls += weight
        if self.traits.agent:
            self.most += weight * (request.most or 0)
            self.unbounded |= request.most is None and self.traits.price is not None
            return
        if request.input_tokens:
            size = request.input_tokens - OVERHEAD + more
            self.input += weight * max(0, size) / BYTES_PER_TOKEN
        self.output += weight * request.output_tokens / PART_OF_MOST


class Likely(msgspec.Struct, frozen=True):
    """What one member's part is expected to take; `cost` is 0 when its price is not known. `untold`:
    how many tokens, nobody can tell."""

    traits: Traits
    calls: float
    input: float = 0.0
    output: float = 0.0
    cost: float = 0.0
    variance: float = 0.0
    latency: float | None = None
    note: str = ""
    untold: bool = False


def likely_of(share: Share) -> Likely:
    """Cases: it costs nothing; nothing is on record of it; of other prompts; of this step."""
    past, id, n = share.past, share.traits.id, share.calls
    if not share.traits.metered:
        return Likely(share.traits, n)
    if share.traits.agent:
        return _of_agent(share)
    if past is None:
        return _assumed(share)
    known = past.input > 0 or past.output > 0
    alike = share.input <= UNLIKE * n * past.input and n * past.input <= UNLIKE * share.input
    if past.step is not None and past.cost > 0 and (alike or not known):
        return Likely(
            share.traits, n, n * past.input, n * past.output, n * past.cost,
            n * past.cost_variance, past.latency,
        )  # fmt: skip
    note = f"no history for {id} at {{}}: replies as long as its {past.calls:,} at other steps"
    if past.step is not None:
        note = f"{{}}: the prompts are not like those on record for {id}; counted by their size"
    output = n * past.output if known else share.output
    spent = _priced(share, output) if known else n * past.cost
    ratio = spent / (n * past.cost) if past.cost else 0.0
    return Likely(
        share.traits, n, share.input, output, spent, n * past.cost_variance * ratio * ratio,
        past.latency, note if output else "",
    )  # fmt: skip


def _assumed(share: Share) -> Likely:
    """A quarter of the longest reply; a half of it is taken for the 90th percentile."""
    spent = _priced(share, share.output)
    deviation = (_priced(share, 2 * share.output) - spent) / Z90
    note = f"no history for {share.traits.id} at {{}}: output taken as a quarter of max_tokens"
    return Likely(
        share.traits, share.calls, share.input, share.output, spent, deviation * deviation,
        None, note if share.output else "",
    )  # fmt: skip


def _of_agent(share: Share) -> Likely:
    """What it takes does not follow from the length of its prompt: as on record, at other steps too;
    else a quarter of what it may take, and a half of that for the 90th percentile."""
    past, n, traits = share.past, share.calls, share.traits
    if past is not None and past.cost > 0:
        note = f"no history for {traits.id} at {{}}: as its {past.calls:,} at other steps"
        return Likely(
            traits, n, n * past.input, n * past.output, n * past.cost, n * past.cost_variance,
            past.latency, "" if past.step is not None else note,
        )  # fmt: skip
    spent = share.most / PART_OF_MOST
    note = "{}: agents without a history there are taken to spend a quarter of what they may"
    deviation = spent / Z90
    return Likely(
        traits, n, cost=spent, variance=deviation * deviation, note=note if spent else "",
        untold=True,
    )  # fmt: skip


def _priced(share: Share, output: float) -> float:
    price = share.traits.price or FREE
    n = share.calls
    return n * cost(price, ceil(share.input / n), ceil(output / n))
