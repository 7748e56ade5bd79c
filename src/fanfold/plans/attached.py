"""Whether those who would be asked take the files that items name, looked at before anything is asked."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from fanfold.errors import BadInput, FanfoldError
from fanfold.members.roster import Roster
from fanfold.patterns.prompt import attached
from fanfold.plans.asking import Asking
from fanfold.plans.flow import leg
from fanfold.plans.load import candidates
from fanfold.plans.plan import Plan
from fanfold.work.item import Item
from fanfold.work.media import Attachment, MediaKind
from fanfold.work.media_ask import refused_media
from fanfold.work.media_files import MediaFiles


def check_attached(plan: Plan, roster: Roster, items: Iterable[tuple[int, Item]]) -> None:
    """Every file that a step attaches is read once, so that its asks find it known. One that cannot be
    read is its item's flaw, and is left to the run."""
    first = next((n for n, step in enumerate(plan.steps) if step.takes_items), None)
    if first is None:
        return
    asking = [
        (name, one)
        for step in leg(plan.steps, first)
        for name, one in step.asks()
        if any(not field.startswith("steps.") for field in one.attach)
    ]
    seen: dict[tuple[str, MediaKind], None] = {}
    files = MediaFiles(plan.folder, inside=not plan.allow_outside)
    for _, item in items if asking else ():
        for name, one in asking:
            for kind in _kinds(one, item, files):
                if (name, kind) not in seen:
                    seen[name, kind] = None
                    _check(plan, roster, name, one, (kind, item.id))


def _kinds(asking: Asking, item: Item, files: MediaFiles) -> list[MediaKind]:
    found: list[Attachment] = []
    fields = [field for field in asking.attach if not field.startswith("steps.")]
    with suppress(FanfoldError):
        found = list(attached(item.view(), fields, files))
    return [one.kind for one in found]


def _check(
    plan: Plan, roster: Roster, name: str, asking: Asking, found: tuple[MediaKind, str]
) -> None:
    kind, item = found
    named = (*asking.who.members, *asking.who.fallback, *asking.escalate)
    asked = dict.fromkeys((*candidates(asking.who, roster), *named))
    everyone = [roster.entries[id].traits for id in asked]
    if why := refused_media(everyone, (kind,), named):
        line = asking.lines.get("attach", asking.line)
        raise BadInput(f"`{name}`: item {item!r}: {why}", file=plan.file, line=line)
