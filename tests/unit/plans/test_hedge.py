"""`hedge` in a plan: read, refused where it is wrong, and handed on to the run and the preview."""

from __future__ import annotations

from pathlib import Path

import pytest

from fanfold.errors import BadInput
from fanfold.plans.load import load_plan
from fanfold.plans.plan import Plan
from fanfold.plans.ready import Ready
from fanfold.plans.steps.map import Map
from fanfold.run.meter import StepMembers, forecast
from fanfold.run.remaining import RemainingAsks
from fanfold.testing.member import Scripted, traits
from fanfold.work.ask import Ask, Message, Reply
from fanfold.work.task import Hedge


def plan(folder: Path, hedge: str) -> Plan:
    file = folder / "p.yaml"
    file.write_text(
        f"input: {{count: 1}}\nsteps:\n  - map:\n      prompt: x\n      hedge: {hedge}\n"
    )
    return load_plan(file)


@pytest.mark.parametrize(
    ("stated", "read"),
    [("{extra: 0.05}", Hedge(0.05)), ("{extra: 1, after: 20}", Hedge(1.0, 20.0))],
)
def test_a_step_states_its_hedge(tmp_path: Path, stated: str, read: Hedge) -> None:
    found = plan(tmp_path, stated)
    (step,) = found.steps
    assert isinstance(step, Map)
    assert (step.hedge, Ready(found, {}).terms(step, "map").hedge) == (read, read)


@pytest.mark.parametrize(
    ("stated", "what"),
    [
        ("true", "a hedge must be a mapping, not true"),
        ("{after: 3}", "a hedge needs the field `extra`"),
        ("{extra: 5}", "`extra` is a share of the calls, such as 0.05, not 5"),
        ("{extra: 0}", "`extra` must be more than 0, not 0"),
        ("{extra: 0.1, after: -1}", "`after` must be more than 0, not -1"),
        ("{extra: 0.1, afer: 1}", "unknown field `afer` in a hedge: did you mean `after`?"),
    ],
)
def test_a_wrong_hedge_is_named_with_its_line(tmp_path: Path, stated: str, what: str) -> None:
    with pytest.raises(BadInput) as refused:
        plan(tmp_path, stated)
    assert str(refused.value) == f"{tmp_path / 'p.yaml'}:5: {what}"


def test_the_preview_counts_what_hedging_may_add_at_worst() -> None:
    """Forty asks and two second requests, each of them as dear as the dearest ask."""
    member = Scripted(lambda ask, n: Reply("fine"), traits())
    asks = [Ask((Message("user", "x" * size),)) for size in (1000, *([10] * 39))]
    lefts = [RemainingAsks(ask, ask, 0) for ask in asks]
    plain = forecast(lefts, StepMembers("map", (member,)))
    hedged = forecast(lefts, StepMembers("map", (member,), extra=0.05))
    dear = forecast(lefts[:1], StepMembers("map", (member,)))
    assert (hedged.most_calls, hedged.calls) == (42, plain.calls)
    assert (plain.worst, dear.worst, hedged.worst) == (
        plain.worst, dear.worst, (plain.worst or 0) + 2 * (dear.worst or 0),
    )  # fmt: skip
    assert hedged.most_tokens == plain.most_tokens + 2 * dear.most_tokens
