"""Whether a fleet's budget lets its workers start is known at its launch."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from fanfold.errors import BadInput
from fanfold.fleet.job import prepare_fleet, store_of
from fanfold.fleet.launch import launch
from fanfold.fleet.preflight import budgets_of
from fanfold.plans.prepare import Job, Options
from fanfold.price import dollars
from tests.unit.fleet.fleets import worker, write_fleet, write_prompt

SAMPLE = Path(__file__).parents[2] / "data" / "dag_fleet" / "fleet.json"
CODEX = {"provider": "codex", "model": "gpt-5.5"}


def job_of(root: Path, *workers: dict[str, Any], **config: Any) -> Job:
    quick = {"launch_delay_seconds": 0, "model": "claude-sonnet-4-5"}
    return ready(write_fleet(root, list(workers), config=quick | config))


def ready(root: Path) -> Job:
    for name in ("claude", "codex"):
        (root / name).write_text("#!/bin/sh\n")
        (root / name).chmod(0o755)
    return prepare_fleet(root, Options(store=store_of(root)), {"PATH": str(root)})


def reserved(job: Job) -> list[float]:
    return [round(dollars(one.most), 3) for one in budgets_of(job)]


def test_a_worker_reserves_its_cap_and_a_bounded_last_call(tmp_path: Path) -> None:
    """64,000 tokens of context and one reply above the cap: not a whole window, and for codex not
    the longest reply that a model can give."""
    job = job_of(tmp_path, worker("a", max_budget_usd=1), worker("b", max_budget_usd=1, **CODEX))
    last = 64_000 * 6e-6 + 16_000 * 15e-6
    assert reserved(job) == [round(1 + last, 3), 2.723]


def test_where_an_overrun_is_allowed_the_cap_alone_is_reserved(tmp_path: Path) -> None:
    workers = [worker(id, max_budget_usd=1) for id in "abc"]
    job = job_of(tmp_path, *workers, max_budget_fleet=3, overrun="allow")
    assert (reserved(job), job.warnings) == ([1.0, 1.0, 1.0], ())


def test_what_can_never_start_is_refused_at_launch_with_the_total_that_would_do(
    tmp_path: Path,
) -> None:
    job = job_of(tmp_path, worker("a"), worker("c", max_budget_usd=4, **CODEX), max_budget_fleet=2)
    with pytest.raises(BadInput) as raised:
        launch(job)
    assert str(raised.value) == (
        f"{tmp_path}/fleet.json:5: worker `c` needs $4.00 and $1.72 for its last call, but the budget"
        " is $2.00: it would never start; raise `max_budget_fleet` to $5.73, or lower its"
        ' `max_budget_usd`, or write "overrun": "allow" in `config`, to reserve no more than that'
    )
    assert not Path(store_of(tmp_path)).exists()


def test_those_that_have_to_wait_for_one_another_are_warned_about(tmp_path: Path) -> None:
    workers = [worker("a"), worker("b"), worker("z", "a")]
    job = job_of(tmp_path, *workers, max_budget_fleet=3)
    (said,) = job.warnings
    assert said == (
        "the workers that start first may cost $3.25 with their last calls, but the budget is $3.00: some"
        ' will wait for budget, or start with less; or allow an overrun: "overrun": "allow"'
    )
    assert job_of(tmp_path, *workers, max_budget_fleet=3.25).warnings == ()


def test_the_original_sample_fleet_is_refused_as_it_is_and_starts_with_overruns_allowed(
    tmp_path: Path,
) -> None:
    """Its budget of $0.50 is half of what three of its workers may take each, by default."""
    shutil.copy(SAMPLE, tmp_path / "fleet.json")
    for id in ("r-01", "r-02", "synth", "rev"):
        write_prompt(tmp_path, id, f"Do {id}.\n")
    with pytest.raises(BadInput, match=r"worker `r-02` needs .*it would never start"):
        launch(ready(tmp_path))
    text = SAMPLE.read_text().replace(
        '"max_budget_fleet":0.5', '"max_budget_fleet":0.5,"overrun":"allow"'
    )
    (tmp_path / "fleet.json").write_text(text)
    least = [dollars(one.least) for one in budgets_of(ready(tmp_path))]
    assert max(least) == 0.25, "a quarter of its cap is enough to start with"
