"""The plan with the way that was chosen in it, as a file that runs as it is."""

from __future__ import annotations

import os
from pathlib import Path
from textwrap import wrap
from typing import Any

from fanfold.errors import BadInput
from fanfold.plans.load import check_plan, read_plan
from fanfold.plans.prepare import Job
from fanfold.tune.choose import Tuning
from fanfold.tune.sample import AskedSample
from fanfold.tune.variants import changed_document
from fanfold.work.document import parse
from fanfold.work.files import is_inside
from fanfold.work.written import dumped

_WHO = frozenset({
    "member", "members", "agent", "needs", "use", "spread", "fallback", "escalate", "hedge",
    "samples", "decide", "weights", "order", "quorum", "stop_early", "confidence", "judge",
    "route", "watch", "field", "shard",
})  # fmt: skip
"""The fields of a step that say who is asked, and by what it is watched."""


def tuned_plan(
    job: Job, asked: AskedSample, found: Tuning, advice: str, watch: dict[str, Any] | None
) -> str:
    """The text of the plan, with what it was tuned on as its first lines."""
    assert asked.sample is not None
    plan, step, chosen = job.stored.plan, asked.sample.step, found.step()
    said = [
        f"Tuned by `fanfold tune {Path(plan.file).name}` on {len(asked.items)} items:"
        f" a reply is right if {asked.sample.truth.describe()}.",
        *wrap(advice, 96),
    ]
    kind, fields = chosen
    if kind == "ensemble" and asked.sample.field:
        fields = {**fields, "field": ".".join(asked.sample.field)}
    fields = fields if watch is None else {**fields, "watch": watch}
    variant = asked.sample.chosen

    def change(before: str, given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        gone = _WHO | variant.replaced
        kept = {name: value for name, value in given.items() if name not in gone}
        if step.name != kind and "name" not in kept:  # others may read its replies by it
            kept = {"name": step.name, **kept}
        return kind, {**kept, **variant.fields, **fields}

    document = changed_document(plan, step, change)
    if job.stored.roster is not None and "roster" not in document:
        document["roster"] = _from_folder(job.stored.roster, plan.folder)
    text = "".join(f"# {line}\n" for line in said) + dumped(document)
    again = parse(text, plan.file)
    if again.value != document:
        what = "its steps are written in a form that cannot be changed"
        raise BadInput(what, file=plan.file)
    check_plan(read_plan(again, Path(plan.folder), allow_outside=True), job.roster)
    return text


def _from_folder(file: str, folder: str) -> str:
    """As the plan names it, where it lies in its folder."""
    inside = is_inside(Path(folder), file)
    return os.path.relpath(file, folder) if inside else file


def learned_route(asked: AskedSample, found: Tuning, advice: str) -> str:
    """For `route: learned`: who is asked for which items, as far as one member answers each."""
    kind, fields = found.step()
    if kind == "ensemble":
        what = "the way that was chosen is a vote, which no route can state"
        raise BadInput(f"--learned: {what}; --out writes it as a plan")
    route = fields.get("route") or {"rules": [], "else": fields["member"]}
    truth = "" if asked.sample is None else f", right if {asked.sample.truth.describe()}"
    said = [f"Learned by `fanfold tune` on {len(asked.items)} items{truth}.", *wrap(advice, 96)]
    return "".join(f"# {line}\n" for line in said) + dumped(route)
