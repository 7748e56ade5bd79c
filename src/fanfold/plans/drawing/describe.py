"""What a plan states, in a few words each: who answers, the gate, the options that matter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from fanfold.members.roster import Roster
from fanfold.plans.asking import Asking
from fanfold.plans.header import Input
from fanfold.work.task import Budget, Who

_TIMES = {1: "once", 2: "twice"}
_AMOUNTS = ("tokens", "calls", "seconds")


def joined(parts: Iterable[str]) -> tuple[str, ...]:
    """All that is not empty in one line; no line when nothing is left."""
    said = " · ".join(part for part in parts if part)
    return (said,) if said else ()


def describe_input(spec: Input, items: int | None) -> tuple[str, ...]:
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


def many(number: int, one: str) -> str:
    return f"{number:,} {one}" if number == 1 else f"{number:,} {one}s"


def describe_budget(budget: Budget) -> str:
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


def describe_who(who: Who, roster: Roster | None) -> str:
    found = ", ".join(known_members(who, roster))
    if who.members:
        said = found
    else:
        need = f"needs {', '.join(who.needs)}" if who.needs else "any member"
        said = f"{need}: {found}" if found else need
    said = f"{said} (at most {who.use} of them)" if who.use else said
    said = f"{said}, waits for the best" if who.spread == "best" else said
    return f"{said}, else {', '.join(who.fallback)}" if who.fallback else said


# ── gate ─────────────────────────────────────────────────────────────────────────────────────


def describe_gate(asking: Asking) -> tuple[str, ...]:
    """Each check of the gate; without one, what is checked always."""
    stated = tuple(
        _describe_check(kind, v) for check in asking.gate or () for kind, v in check.items()
    )
    if stated:
        return stated
    return (
        "not empty, not cut off"
        + (", fits the schema" if asking.schema or asking.schema_type else ""),
    )


def _describe_check(kind: str, given: Any) -> str:
    if kind == "judge" and isinstance(given, dict):
        who = given.get("member") or given.get("members") or given.get("needs") or ""
        return f"judge {describe_value(who)}".rstrip()
    if kind == "schema":
        return "schema"
    return f"{kind} {describe_value(given)}"


def describe_value(given: Any) -> str:
    if isinstance(given, dict):
        return ", ".join(f"{name} {describe_value(v)}" for name, v in given.items())
    if isinstance(given, list | tuple):
        return ", ".join(map(describe_value, given))
    return str(given)


def describe_kick_back(asking: Asking) -> str:
    """What happens to a reply that does not pass."""
    again = _TIMES.get(asking.revise, f"{asking.revise} times")
    kick = f"kick back {again}" if asking.revise else ""
    then = f"then ask {', '.join(asking.escalate)}" if asking.escalate else ""
    return ", ".join(part for part in (kick, then) if part)


def gate_line(asking: Asking) -> tuple[str, ...]:
    """The gate in one line, for a box that has no gate of its own beside it."""
    stated = f"gate: {'; '.join(describe_gate(asking))}" if asking.gate else ""
    return joined([stated, describe_kick_back(asking) if asking.gate or asking.escalate else ""])


# ── options ────────────────────────────────────────────────────────────────────────────────────


def describe_options(asking: Asking) -> tuple[str, ...]:
    """What a step that asks states beside prompt and gate, as far as it is not the usual."""
    failure = "" if asking.on_failure == "skip" else f"on failure: {asking.on_failure}"
    doubt = "" if asking.in_doubt is None else f"in doubt: {asking.in_doubt}"
    hedge = "" if asking.hedge is None else f"hedge up to {asking.hedge.extra:.0%} of calls"
    batch = "" if asking.batch is None else asking.batch.describe()
    schema = "schema" if asking.schema or asking.schema_type else ""
    schema += f" {asking.schema_type}" if asking.schema_type else ""
    tools = "" if asking.tools is None else asking.tools.describe()
    return joined([f"{asking.concurrency} at once", asking.opening.describe(), _attached(asking), tools,
                   schema, *_params(asking), failure, doubt, hedge, batch,
                   describe_budget(asking.budget)])  # fmt: skip


def _params(asking: Asking) -> tuple[str, ...]:
    """Of the parameters those that change what is paid, or how long it takes."""
    reasoning, tier = asking.params.reasoning, asking.params.service_tier
    return (
        f"reasoning {reasoning}" if reasoning else "",
        f"service tier {tier}" if tier else "",
        "cache off" if asking.opening.cache == "off" else "",
    )


def _attached(asking: Asking) -> str:
    """Which files go with an ask."""
    shown = ", ".join((*asking.media, *asking.attach))
    return f"with files: {shown}" if shown else ""
