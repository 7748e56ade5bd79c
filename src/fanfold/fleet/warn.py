"""What is allowed in a fleet, but likely to end badly. Told at launch; nothing is refused for it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fanfold.fleet.records import Fleet, WorkerSpec
from fanfold.members.agents.models import pricing_model
from fanfold.price import lookup

_WRITES = re.compile(
    r"\b(?:write|save|store|create|append|put|export|dump)\b[^.\n]{0,80}?"
    r"(?:\bfiles?\b|\boutput/|\bdisk\b|\w\.(?:md|json|txt|csv|html|ya?ml|py|ts|js)\b)",
    re.IGNORECASE,
)
_NOT = re.compile(r"\b(?:not|never|no|without|nor|neither)\b|n't\b", re.IGNORECASE)


def warnings_of(fleet: Fleet) -> list[str]:
    """One line each, with the worker's id and what to do about it."""
    return [
        *_unable_to_write(fleet), *_other_caps(fleet), *_without_price(fleet), *_not_done(fleet),
    ]  # fmt: skip


def _unable_to_write(fleet: Fleet) -> Iterator[str]:
    for one in fleet.workers:
        if one.type != "read-only":
            continue
        readers = [r.id for r in fleet.workers if one.id in r.depends_on and _reads(r, one)]
        if _asks_to_write(f"{one.task}\n{one.prompt}"):
            why = "is asked to write files"
        elif readers:
            why = f"cannot write the files that {', '.join(readers)} is told to read"
        else:
            continue
        yield (
            f"worker `{one.id}` is read-only and {why}: it would look for a tool that it does not"
            " have until its budget is gone; use the type write, research or code-run"
        )


def _asks_to_write(text: str) -> bool:
    """`do not write any files` does not."""
    return any(
        not _NOT.search(text, max(0, found.start() - 25), found.start())
        for found in _WRITES.finditer(text)
    )


def _reads(reader: WorkerSpec, one: WorkerSpec) -> bool:
    return re.search(rf"\bworkers/{re.escape(one.id)}/", reader.prompt) is not None


def _other_caps(fleet: Fleet) -> Iterator[str]:
    capped = [
        f"`{one.id}`"
        for one in fleet.workers
        if one.provider == "codex" and "max_budget_usd" in one.stated and _has_price(one)
    ]
    if capped:
        yield (
            f"codex takes no budget: `max_budget_usd` of {', '.join(capped)} is kept by fanfold's own"
            " meter, which ends the worker when it has been passed"
        )


def _without_price(fleet: Fleet) -> Iterator[str]:
    """Not those that are bounded otherwise."""
    codex = [one for one in fleet.workers if one.provider == "codex" and not _has_price(one)]
    free = [f"`{one.id}`" for one in codex if not (one.max_turns or one.timeout_seconds)]
    if free:
        yield (
            f"no price is known for the model of {', '.join(free)}, so nothing bounds what codex spends"
            " there: name a model, or set `max_turns` or `timeout_seconds`"
        )


def _has_price(one: WorkerSpec) -> bool:
    return lookup(pricing_model(one.provider, one.model), "openai") is not None


def _not_done(fleet: Fleet) -> Iterator[str]:
    if fleet.config.record:
        yield "`record` is ignored: every worker's log is kept, see `fanfold view`"
