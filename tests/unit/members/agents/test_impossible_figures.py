"""Figures in agents' logs that cannot be: nothing breaks, and none of them is believed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fanfold.errors import MemberError
from fanfold.members.agents.dialects import DIALECTS
from fanfold.members.agents.worker import Exit
from fanfold.price import Price
from fanfold.run.cost import cost_of_error, error_is_upper_bound
from fanfold.work.ask import Reply
from fanfold.work.budget import Amount
from fanfold.work.usage import is_possible, with_plausible_usage
from tests.unit.members.agents.logs import ASK

HUGE = 10**400
PRICE = Price(input=1.0, output=5.0)
RESULT = {"type": "result", "subtype": "success", "is_error": False, "result": "done"}
LOGS: dict[str, list[dict[str, Any]]] = {
    "claude": [{"type": "system", "subtype": "init", "claude_code_version": "9" * 5000},
               {**RESULT, "total_cost_usd": 1e308, "usage": {"input_tokens": HUGE},
                "modelUsage": {"m": {"costUSD": 1.7e308}, "n": {"costUSD": 1.7e308}}}],
    "codex": [{"type": "thread.started", "thread_id": "a\nb"},
              {"type": "item.completed", "item": {"type": "agent_message", "text": "done"}},
              {"type": "turn.completed", "usage": {"cache_write_input_tokens": HUGE}}],
    "gemini": [{"type": "message", "timestamp": HUGE, "role": "assistant", "content": "done"},
               {"type": "result", "status": "success", "stats": {"input": HUGE}}],
    "opencode": [{"type": "text", "part": {"text": "done"}},
                 {"type": "step_finish",
                  "part": {"reason": "stop", "cost": 1e308, "tokens": {"input": HUGE}}}],
}  # fmt: skip


@pytest.mark.parametrize("name", LOGS)
def test_a_reply_with_impossible_figures_counts_with_its_worst_case(name: str) -> None:
    reader = DIALECTS[name].reader(PRICE)
    lines = [told.text for line in LOGS[name] for told in reader.feed(json.dumps(line).encode())]
    assert lines and not any("\n" in line for line in lines)
    made = DIALECTS[name].conclude("w", reader.reading, Exit(code=0, at=1.8e9), ASK)
    assert isinstance(made, Reply)
    counted = with_plausible_usage(made)
    assert (counted.usage, counted.cost_usd) == (None, None) and counted.unusable


@pytest.mark.parametrize("cost", [-1, 10**30])
def test_an_error_with_an_impossible_cost_counts_as_all_that_was_reserved(cost: int) -> None:
    error = MemberError("gone")
    error.cost = cost
    reserved = Amount(7, 8, 1)
    assert not is_possible(cost)
    assert (cost_of_error(error, reserved), error_is_upper_bound(error)) == (reserved, True)
