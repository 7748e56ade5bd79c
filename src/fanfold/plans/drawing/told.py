"""What a plan states, in a few words each: who answers, the gate, the knobs that matter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from fanfold.members.roster import Roster
from fanfold.plans.plan import Asking, Ensemble, Input, Map, Reduce, Scatter, Write
from fanfold.work.task import Budget, Who

_TIMES = {1: "once", 2: "twice"}
_AMOUNTS = ("tokens", "calls", "seconds")
_SILENT = ("prompt", "schema", "members", "needs")


def joined(parts: Iterable[str]) -> tuple[str, ...]:
    """All that is not empty in one line; no line when nothing is left."""
    said = " · ".join(part for part in parts if part)
    return (said,) if said else ()


def input_told(spec: Input, items: int | None) -> tuple[str, ...]:
    """Where items come from, and how many. What a URL asks for may be secret: it is left out."""
    match spec.kind, spec.value:
        case "list", _:
            source = "a list in the plan"
        case "count", number:
            source = f"count {number:,}"
        case "command", words:
            source = f"command {' '.join(words)}"
        case "http", url:
            parts = urlsplit(url)
            source = f"http {parts.hostname}{parts.path}"
        case kind, name:
            source = f"{kind} from stdin" if name in ("-", "/dev/stdin") else f"{kind} {name}"
    first = f"the first {spec.limit:,}" if spec.limit else ""
    return (source, *joined([first, "" if items is None else many(items, "item")]))


def write_told(step: Write) -> tuple[str, ...]:
    """The file, and what of each item is in it."""
    if step.each:
        return (step.path, "a file for each item")
    return (step.path, "with the input's fields") if step.with_input else (step.path,)


def many(number: int, one: str) -> str:
    return f"{number:,} {one}" if number == 1 else f"{number:,} {one}s"


def budget_told(budget: Budget) -> str:
    amounts = [] if budget.usd is None else [f"${budget.usd:,.2f}"]
    for name in _AMOUNTS:
        if (amount := getattr(budget, name)) is not None:
            amounts.append(f"{amount:,} {name}")
    return f"at most {', '.join(amounts)}" if amounts else ""


# ── who ──────────────────────────────────────────────────────────────────────────────────────


def known_members(who: Who, roster: Roster | None) -> tuple[str, ...]:
    """The members that may answer, as far as it is known."""
    if who.members or roster is None:
        return who.members
    needs = set(who.needs)
    return tuple(
        id for id, entry in roster.entries.items()
        if entry.traits.enabled and needs <= set(entry.traits.good_at)
    )  # fmt: skip


def who_told(who: Who, roster: Roster | None) -> str:
    found = ", ".join(known_members(who, roster))
    if who.members:
        said = found
    else:
        need = f"needs {', '.join(who.needs)}" if who.needs else "any member"
        said = f"{need}: {found}" if found else need
    said = f"{said} (at most {who.use} of them)" if who.use else said
    return f"{said}, else {', '.join(who.fallback)}" if who.fallback else said


def answerer_told(asking: Asking, roster: Roster | None) -> str:
    """Who answers a step; a command is a member of the step's own."""
    if isinstance(asking, Map) and asking.command is not None:
        return f"command {' '.join(map(str, asking.command.get('cmd', ())))}"
    return who_told(asking.who, roster)


# ── gate ─────────────────────────────────────────────────────────────────────────────────────


def gate_told(asking: Asking) -> tuple[str, ...]:
    """Each check of the gate; without one, what is checked always."""
    stated = tuple(_check_told(kind, v) for check in asking.gate or () for kind, v in check.items())
    if stated:
        return stated
    return ("not empty, not cut off" + (", fits the schema" if asking.schema else ""),)


def _check_told(kind: str, given: Any) -> str:
    if kind == "judge" and isinstance(given, dict):
        who = given.get("member") or given.get("members") or given.get("needs") or ""
        return f"judge {_value_told(who)}".rstrip()
    if kind == "schema":
        return "schema"
    return f"{kind} {_value_told(given)}"


def _value_told(given: Any) -> str:
    if isinstance(given, dict):
        return ", ".join(f"{name} {_value_told(v)}" for name, v in given.items())
    if isinstance(given, list | tuple):
        return ", ".join(map(_value_told, given))
    return str(given)


def kick_told(asking: Asking) -> str:
    """What happens to a reply that does not pass."""
    again = _TIMES.get(asking.revise, f"{asking.revise} times")
    kick = f"kick back {again}" if asking.revise else ""
    then = f"then ask {', '.join(asking.escalate)}" if asking.escalate else ""
    return ", ".join(part for part in (kick, then) if part)


def gate_line(asking: Asking) -> tuple[str, ...]:
    """The gate in one line, for a box that has no gate of its own beside it."""
    stated = f"gate: {'; '.join(gate_told(asking))}" if asking.gate else ""
    return joined([stated, kick_told(asking) if asking.gate or asking.escalate else ""])


# ── knobs ────────────────────────────────────────────────────────────────────────────────────


def knobs_told(asking: Asking) -> tuple[str, ...]:
    """What a step that asks states beside prompt and gate, as far as it is not the usual."""
    failure = "" if asking.on_failure == "skip" else f"on failure: {asking.on_failure}"
    doubt = "" if asking.in_doubt is None else f"in doubt: {asking.in_doubt}"
    hedge = "" if asking.hedge is None else f"hedge up to {asking.hedge.extra:.0%} of calls"
    at_once = f"{asking.concurrency} at once"
    return joined([at_once, "schema" if asking.schema else "", failure, doubt, hedge,
                   budget_told(asking.budget)])  # fmt: skip


def map_told(step: Map) -> tuple[str, ...]:
    shard = ""
    if step.shard is not None:
        by_items = step.shard.items
        shard = many(by_items, "item") if by_items else f"{step.shard.tokens or 0:,} tokens"
        shard = f"{shard} in one ask"
    over = f"over {step.over}" if step.over else ""
    return joined([over, shard, f"keep {step.keep}" if step.keep else ""])


def decision_told(step: Ensemble, roster: Roster | None) -> tuple[str, ...]:
    """First how it is decided, then the knobs of that."""
    names = {
        "majority": "majority vote", "weighted": "weighted vote", "judge": "judge",
        "quorum": f"quorum of {step.quorum}",
    }  # fmt: skip
    judge = "" if step.judge is None else who_told(step.judge.who, roster)
    weights = ", ".join(f"{name} {weight:g}" for name, weight in step.weights.items())
    field = f"on {step.field}" if step.field else ""
    sure = f"confidence {step.confidence:g}" if step.confidence is not None else ""
    early = "stops early" if step.stop_early else ""
    title = names.get(step.decide, f"decide by {step.decide}")
    return (title, *joined([judge, weights, field, early, sure]))


def gather_told(step: Scatter) -> str:
    if step.first is not None:
        return f"gather the first {step.first}"
    return "gather all" if step.within is None else f"gather within {step.within:g} s"


def reduce_told(step: Reduce, roster: Roster | None) -> tuple[str, ...]:
    options = [
        f"{name} {value!r}" if name == "sep" else f"{name} {_value_told(value)}"
        for name, value in step.options.items() if name not in _SILENT
    ]  # fmt: skip
    tree = f"tree of {step.fan_in}" if step.fan_in else ""
    if step.ask is None:
        return joined([step.kind, *options, tree])
    said = joined([f"asked: {who_told(step.ask.who, roster)}", tree])
    return (*said, *gate_line(step.ask))
