"""Variants of the step that is tuned: other prompts, how often a reply is kicked back, how many items are
in one ask."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from fanfold.errors import BadInput
from fanfold.plans.load import read_plan
from fanfold.plans.plan import Plan
from fanfold.plans.steps.ensemble import Ensemble
from fanfold.plans.steps.map import Map
from fanfold.work.document import parse, read
from fanfold.work.written import dumped

AskingStep = Map | Ensemble
_PROMPT = ("prompt", "prompt_file")


class StepVariant(msgspec.Struct, frozen=True):
    """`fields`: of the step, as a plan states them; they take the place of its own."""

    name: str
    step: AskingStep
    fields: dict[str, Any] = {}

    @property
    def replaced(self) -> frozenset[str]:
        """The fields of the step that are not kept."""
        return frozenset(self.fields) | (
            frozenset(_PROMPT) if "prompt_file" in self.fields else set()
        )


class TriedVariant(msgspec.Struct, frozen=True):
    """What a variant came to, over all members: the share that was right, and dollars for 1,000 asks."""

    name: str
    share: float
    usd_1000: float
    items: int

    def describe(self) -> str:
        return f"{self.name} {self.share:.1%} at ${self.usd_1000:.2f}"


def variants_of(
    plan: Plan, step: AskingStep, prompts: str | None, revise: str | None
) -> tuple[StepVariant, ...]:
    """All that are typed, with commas between them; without any, the step as it is. Each is read as if
    it stood in the plan, so a mistake shows before anything is asked."""
    files: list[str | None] = [*_words(prompts)] or [None]
    times: list[int | None] = [
        *(_number(word, "--revise", "0,1,2") for word in _words(revise))
    ] or [None]
    if len(files) * len(times) == 1 and files[0] is None and times[0] is None:
        return (StepVariant("as it is", step),)
    found = []
    for file in files:
        for many in times:
            fields: dict[str, Any] = {} if file is None else {"prompt_file": file}
            fields |= {} if many is None else {"revise": many}
            name = ", ".join(
                [*([file] if file else []), *([] if many is None else [f"revise {many}"])]
            )
            found.append(_variant(plan, step, name, fields))
    return tuple(found)


def sizes_of(plan: Plan, step: AskingStep, typed: str | None) -> tuple[int, ...]:
    """How many items in one ask are tried: those that are typed, or what the step states."""
    if typed is None:
        shard = step.shard if isinstance(step, Map) else None
        if shard is None:
            return (1,)
        if shard.items is None or shard.divides or shard.hash is not None:
            what = "`shard` does not go by `items` alone: name sizes to try with --shards 1,10,50"
            raise BadInput(what, file=plan.file, line=step.lines.get("shard", step.line))
        return (shard.items,)
    sizes = [_number(word, "--shards", "1,10,50", 1) for word in _words(typed)]
    if not isinstance(step, Map):
        raise BadInput("--shards: an ensemble asks about one item at a time; only a map has shards")
    return tuple(dict.fromkeys(sizes)) or (1,)


def _words(said: str | None) -> list[str]:
    return [word for word in (one.strip() for one in (said or "").split(",")) if word]


def _number(word: str, option: str, such_as: str, least: int = 0) -> int:
    if not word.isdecimal() or int(word) < least:
        raise BadInput(f"{option}: {word!r} is no number of these; give some, such as {such_as}")
    return int(word)


def _variant(plan: Plan, step: AskingStep, name: str, fields: dict[str, Any]) -> StepVariant:
    made = StepVariant(name, step, fields)

    def change(kind: str, given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        kept = {field: value for field, value in given.items() if field not in made.replaced}
        return kind, {**kept, **fields}

    document = changed_document(plan, step, change)
    node = parse(dumped(document), plan.file)
    again = read_plan(node, Path(plan.folder), allow_outside=plan.allow_outside)
    other = again.steps[plan.steps.index(step)]
    assert isinstance(other, Map | Ensemble)
    return msgspec.structs.replace(made, step=msgspec.structs.replace(other, line=step.line))


def changed_document(
    plan: Plan,
    step: AskingStep,
    change: Callable[[str, dict[str, Any]], tuple[str, dict[str, Any]]],
) -> dict[str, Any]:
    """The plan's file with another step in place of this one: its kind and its fields."""
    top = read(Path(plan.folder) / Path(plan.file).name)
    entries = top.child("steps")
    for n, entry in enumerate(entries.value):
        before = next((name for name in ("map", "ensemble") if name in entry), None)
        if before is None or entries.child(n).child(before).line != step.line:
            continue
        kind, fields = change(before, entry[before])
        beside = {name: value for name, value in entry.items() if name != before}
        changed: list[Any] = [*entries.value]
        changed[n] = {kind: fields, **beside}
        return {**top.value, "steps": changed}
    raise BadInput("its steps are written in a form that cannot be changed", file=plan.file)
