"""What the tuned plan is watched by: against what, how often, and from which share on it has drifted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from fanfold.errors import BadInput
from fanfold.tune.bounds import lower
from fanfold.tune.choose import RISK, Goal, Tuning, halves
from fanfold.tune.policy import Labelled, Way
from fanfold.tune.sample import AskedSample, TuningSample
from fanfold.work.nearest import remedy
from fanfold.work.truth import Truth, read_truth
from fanfold.work.watch import RATE, OnDrift

NONE = "none"


class DriftOptions(msgspec.Struct, frozen=True):
    """`against`: as `--truth` says it; the same, where nothing is stated, and `none` for no watch."""

    against: str | None = None
    rate: float | None = None
    usd: float | None = None
    on_drift: OnDrift = "warn"

    @property
    def reference(self) -> str:
        """The member whose answers it is compared with; empty where it is none."""
        kind, _, name = (self.against or "").partition(":")
        return name if kind == "member" else ""

    def check(self, sample: TuningSample) -> None:
        """Before anything is asked: the reference is one that was tried, so it is known how often the
        chosen way says the same."""
        if self.against in (None, NONE):
            return
        truth = read_truth(str(self.against), "--watch")
        if truth.kind == "member" and truth.name not in sample.members:
            raise BadInput(f"--watch {self.against}: {remedy(truth.name, sample.members)}")
        if truth.kind == "member" and 1 not in sample.sizes:
            raise BadInput(f"--watch {self.against}: it is asked alone; add 1 to --shards")
        if truth.kind not in ("member", "gate") and truth != sample.truth:
            raise BadInput(
                "--watch: what --truth says, member:ID of one that is tried, gate, or none"
            )


def watch_fields(
    options: DriftOptions, asked: AskedSample, found: Tuning, goal: Goal, folder: Path
) -> dict[str, Any] | None:
    """As the step states it; paths start from the plan's folder."""
    sample = asked.sample
    if options.against == NONE or sample is None:
        return None
    truth, target = sample.truth, _promised(found, goal)
    if options.against is not None and read_truth(options.against, "--watch") != truth:
        truth = read_truth(options.against, "--watch")
        target = agreement(found.ways[found.recommended].way, truth, halves(asked.items)[1])
    fields: dict[str, Any] = {"truth": truth.written(folder), "target": target}
    if truth.kind == "member" or options.rate is not None:
        fields["rate"] = options.rate or RATE
    if options.usd is not None:
        fields["budget"] = {"usd": options.usd}
    fields |= {"on_drift": options.on_drift} if options.on_drift != "warn" else {}
    return fields | ({"field": ".".join(sample.field)} if sample.field else {})


def _promised(found: Tuning, goal: Goal) -> float:
    """What was wanted, where that was reached; else what is promised."""
    if goal.target is not None and found.reached and goal.target > 0:
        return goal.target
    return _rounded(found.promised)


def agreement(way: Way, truth: Truth, items: Sequence[Labelled]) -> float:
    """How often the way says what a member says, or anything that passes, at least: on the items that
    had no part in choosing it."""
    if truth.kind == "gate":
        same = [way.answer(item) is not None for item in items]
    else:
        said = [item.replies.get(truth.name) for item in items]
        same = [
            way.answer(item) == one.answer
            for item, one in zip(items, said, strict=True)
            if one is not None and one.answer is not None
        ]
    if not same:
        raise BadInput(f"--watch: {truth.name} has answered nothing of the reporting half")
    return _rounded(lower(sum(same), len(same), RISK))


def _rounded(share: float) -> float:
    return max(0.01, int(share * 1000) / 1000)
