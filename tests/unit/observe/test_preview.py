"""The preview as people and programs see it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from fanfold.observe.preview import preview_json, preview_text
from fanfold.run.forecast import Forecast, Note, Preview, StepPreview, in_turn
from fanfold.work.task import Budget

CENT = 10_000_000


def made(**changes: Any) -> Forecast:
    usual: dict[str, Any] = {
        "step": "map", "tasks": 480, "calls": 500, "reused": 20, "input": 60_000, "output": 12_000,
        "p50": 41 * CENT, "variance": (CENT * 5.0) ** 2, "worst": 912 * CENT, "most_calls": 1000,
        "most_tokens": 2_000_000, "seconds": 62.0,
    }  # fmt: skip
    return Forecast(**{**usual, **changes})


MAP = StepPreview(name="map", kind="map", who=("haiku", "mini"), tasks=500, forecast=made())
REDUCE = StepPreview(
    name="reduce", kind="reduce", who=("opus",), tasks=56,
    forecast=made(step="reduce", tasks=56, calls=56, reused=0, input=5600, output=560, p50=2 * CENT,
                  variance=0.0, worst=30 * CENT, most_calls=112, most_tokens=90_000, seconds=None,
                  at_least=True,
                  notes=(Note("no history for opus at {}: output taken as a quarter of max_tokens",
                              "reduce"),)),
)  # fmt: skip
DIVIDE = StepPreview(
    name="divide", kind="divide", who=("haiku",), tasks=None, most=1000, watched=True,
    forecast=Forecast(step="divide", worst=55 * CENT, most_calls=2000, most_tokens=5),
)  # fmt: skip
OVER = StepPreview(
    name="more", kind="map", who=("haiku",), tasks=None, watched=True, forecast=Forecast(worst=None)
)


def preview(*steps: StepPreview, **changes: Any) -> Preview:
    total = in_turn(step.forecast for step in steps)
    total = msgspec.structs.replace(total, step="")
    return Preview(name="contract-review", steps=steps, total=total, notes=total.notes, **changes)


def test_a_line_for_each_step_one_for_all_and_what_was_assumed() -> None:
    text = preview_text(preview(MAP, REDUCE, budget=Budget(usd=5)), width=120)
    assert text.splitlines() == [
        "contract-review: a preview; nothing is asked, paid or written",
        "",
        "step    who          tasks  calls  reused  tokens    p50    p90  worst      time",
        "map     haiku, mini    500    500      20  72,000  $0.41  $0.47  $9.12    1m 02s",
        "reduce  opus            56     56       0   6,160  $0.02  $0.02  $0.30         ?",
        "total                         556      20  78,160  $0.43  $0.49  $9.42  ≥ 1m 02s",
        "",
        "worst: 1,112 calls, every reply as long as it may be and kicked back as often as allowed",
        "- the worst case, $9.42, is over the budget: at $5.00 the run pauses",
        "- no history for opus at reduce: output taken as a quarter of max_tokens",
    ]


def test_what_is_not_known_is_a_question_mark_and_a_sum_of_the_known_at_least() -> None:
    lines = preview_text(preview(MAP, DIVIDE, OVER, budget=Budget(usd=5)), width=120).splitlines()
    assert lines[2:10] == [
        "step     who            tasks  calls  reused    tokens      p50      p90  worst      time",
        "map      haiku, mini      500    500      20    72,000    $0.41    $0.47  $9.12    1m 02s",
        "divide*  haiku        ≤ 1,000      ?       ?         ?        ?        ?  $0.55         ?",
        "more*    haiku              ?      ?       ?         ?        ?        ?      ?         ?",
        "total                          ≥ 500      20  ≥ 72,000  ≥ $0.41  ≥ $0.47      ?  ≥ 1m 02s",
        "",
        "* measured again before it begins, and held to the limits of `govern`",
        "- the worst case is not known; at $5.00, the budget, the run pauses",
    ]


def test_a_narrow_terminal_gets_the_amounts_that_matter() -> None:
    lines = preview_text(preview(MAP, budget=Budget(usd=50)), width=52).splitlines()
    assert lines[2:5] == [
        "step   tasks  calls    p50    p90  worst    time",
        "map      500    500  $0.41  $0.47  $9.12  1m 02s",
        "total           500  $0.41  $0.47  $9.12  1m 02s",
    ]
    assert all(len(line) <= 52 for line in lines[2:5])


@pytest.mark.parametrize(
    ("budget", "told"),
    [
        (Budget(usd=10), None),
        (Budget(usd=5), None),
        (Budget(usd=0.45), "p90 $0.47 exceeds the budget $0.45: the run may pause"),
        (Budget(usd=0.25), "expected $0.41 exceeds the budget $0.25: the run will pause"),
        (Budget(usd=10, calls=700), None),
        (Budget(usd=10, calls=400), "expected 500 calls exceeds the budget 400: the run will pause"),
        (Budget(usd=10, tokens=100_000), None),
        (Budget(usd=10, seconds=30), "expected 1m 02s exceeds the budget 30s: the run will pause"),
        (
            Budget(),
            "no budget is stated: `--budget USD` or the plan's `budget` holds the run to one",
        ),
    ],
)  # fmt: skip
def test_a_warning_is_for_what_is_expected_or_likely_to_exceed_the_budget(
    budget: Budget, told: str | None
) -> None:
    warnings = json.loads(preview_json(preview(MAP, budget=budget)))["warnings"]
    assert warnings == ([] if told is None else [told])


@pytest.mark.parametrize(
    ("budget", "note"),
    [
        (Budget(usd=5), "the worst case, $9.12, is over the budget: at $5.00 the run pauses"),
        (Budget(calls=700), "the worst case, 1,000 calls, is over the budget: at 700 calls the run pauses"),
        (
            Budget(tokens=100_000),
            "the worst case, 2,000,000 tokens, is over the budget: at 100,000 tokens the run pauses",
        ),
    ],
)  # fmt: skip
def test_a_worst_case_over_the_budget_is_only_a_note(budget: Budget, note: str) -> None:
    """What is likely fits: nobody has to do anything."""
    whole = json.loads(preview_json(preview(MAP, budget=budget)))
    assert note in whole["notes"]
    assert not any("pauses" in line for line in whole["warnings"])


def test_a_dollar_budget_needs_every_price() -> None:
    odd = msgspec.structs.replace(MAP, forecast=made(p50=None, worst=None))
    lines = preview_text(preview(odd, budget=Budget(usd=5)), width=120).splitlines()
    assert lines[3] == (
        "map    haiku, mini    500    500      20  72,000    ?    ?      ?  1m 02s"
    )  # fmt: skip
    assert lines[6] == (
        "a budget of $5.00 needs every price: give those members a `price` in the roster"
    )


def test_a_free_plan_has_no_word_about_money() -> None:
    free = made(p50=0, worst=0, variance=0.0, seconds=None, at_least=True)
    lines = preview_text(preview(msgspec.structs.replace(MAP, forecast=free)), 120).splitlines()
    assert lines[2:] == [
        "step   who          tasks  calls  reused  tokens    p50    p90  worst  time",
        "map    haiku, mini    500    500      20  72,000  $0.00  $0.00  $0.00     ?",
        "total                        500      20  72,000  $0.00  $0.00  $0.00     ?",
    ]


def test_names_from_outside_cannot_steer_a_terminal() -> None:
    odd = StepPreview(name="m\x1b[31m\nap", kind="map", who=("a\x07",), tasks=1, forecast=made())
    text = preview_text(preview(odd))
    assert "\x1b" not in text and "\x07" not in text


CACHE = {"read": 0, "written": 0, "saved_usd": 0.0}


def test_programs_get_dollars_and_null_for_what_is_not_known() -> None:
    whole = json.loads(preview_json(preview(MAP, DIVIDE, budget=Budget(usd=20))))
    assert whole == {
        "name": "contract-review",
        "steps": [
            {
                "name": "map", "kind": "map", "members": ["haiku", "mini"], "tasks": 500,
                "tasks_at_most": 500, "governed": False, "calls": 500, "calls_at_most": 1000,
                "reused": 20, "tokens": {"input": 60_000, "output": 12_000}, "cache": CACHE, "p50_usd": 0.41,
                "p90_usd": 0.47408, "worst_usd": 9.12, "seconds": 62.0, "seconds_at_least": False,
                "measured": True,
            },
            {
                "name": "divide", "kind": "divide", "members": ["haiku"], "tasks": None,
                "tasks_at_most": 1000, "governed": True, "calls": None, "calls_at_most": 2000,
                "reused": None, "tokens": None, "cache": None, "p50_usd": None, "p90_usd": None,
                "worst_usd": 0.55, "seconds": None, "seconds_at_least": False, "measured": True,
            },
        ],
        "total": {
            "calls": 500, "calls_at_most": 3000, "reused": 20,
            "tokens": {"input": 60_000, "output": 12_000}, "cache": CACHE, "p50_usd": 0.41,
            "p90_usd": 0.47408, "worst_usd": 9.67, "seconds": 62.0, "seconds_at_least": False,
            "measured": True,
        },
        "sized": False,
        "budget": {"usd": 20.0, "tokens": None, "calls": None, "seconds": None},
        "warnings": [],
        "notes": [],
    }  # fmt: skip
