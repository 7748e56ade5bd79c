"""Why calls of a run wait, in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fanfold.observe.amounts import clock_time, count, duration, local_time
from fanfold.observe.table import one_line
from fanfold.work.waiting import WaitingCalls, WaitReason

LONGEST = 300
DAY = 86_400.0


def wait_text(one: WaitingCalls, now: float) -> str:
    """`3 calls wait for the rate limit of fast (rpm), until 12:31:05, in 4s`."""
    if one.calls:
        many = f"{count(one.calls, 'call')} {'waits' if one.calls == 1 else 'wait'}"
        text = f"{many} {wait_reason(one)}"
    else:
        text = f"{one.who} is not asked: {one.said}"
    until = "" if one.until is None else _until(one.until, now)
    return one_line(text, LONGEST) + until


def wait_reason(one: WaitingCalls) -> str:
    """`for the rate limit of fast (rpm)`."""
    return _FOR[one.why](one)


def _until(until: float, now: float) -> str:
    left = until - now
    after = f", in {duration(left)}" if left >= 1 else ""
    at = clock_time(until) if left < DAY else local_time(until)
    return f", until {at}{after}"


def _said(one: WaitingCalls) -> str:
    return f" ({one.said})" if one.said else ""


_FOR: dict[WaitReason, Callable[[WaitingCalls], str]] = {
    "paused": lambda one: f"for `fanfold resume`: {one.said}",
    "slot": lambda one: f"for a slot{_of(one)}{_said(one)}",
    "money": lambda one: f"for money of the {one.who}: {one.said}",
    "rate": lambda one: f"for the rate limit of {one.who}{_said(one)}",
    "refused": lambda one: f"since {one.who} refused some: {one.said}",
    "breaker": lambda one: f"for {one.who}, which is not asked now: {one.said}",
    "probe": lambda one: f"for the answer to the first call of {one.who}",
    "cache": lambda one: f"for {one.who}, whose cache is being written by the first of them",
    "retry": lambda one: f"before they are sent to {one.who} again",
}


def _of(one: WaitingCalls) -> str:
    return f" of {one.who}" if one.who else ""


def waits_json(waits: tuple[WaitingCalls, ...]) -> list[dict[str, Any]]:
    return [
        {"why": one.why, "who": one.who, "calls": one.calls, "until": one.until, "said": one.said}
        for one in waits
    ]
