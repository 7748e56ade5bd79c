"""What is handed over when work is delegated, what comes back, and who may take it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

import msgspec

from fanfold.errors import BadInput
from fanfold.price import dollars
from fanfold.work.ask import Usage
from fanfold.work.member import Traits
from fanfold.work.nearest import remedy
from fanfold.work.outcome import Outcome, State
from fanfold.work.split import estimate_tokens

Status = Literal["ok", "no_fit", "error", "kicked", "unfunded"]

NAMED = 5  # members whose obstacles are told when nobody fits
_STATUS: dict[State, Status] = {"passed": "ok", "kicked": "kicked", "unfunded": "unfunded"}


class Errand(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One task for somebody else. Who takes it: `member`, else whoever is good at all `needs`,
    else (`local`) somebody on this machine, else anyone.

    `prompt` is data: it is sent as it is, never rendered.
    """

    prompt: str
    member: str | None = None
    needs: tuple[str, ...] | str = ()
    local: bool = False
    max_tokens: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None
    schema: dict[str, Any] | None = None

    @property
    def tags(self) -> tuple[str, ...]:
        return (self.needs,) if isinstance(self.needs, str) else self.needs


def errand_of(given: Any) -> Errand:
    """From what a caller wrote: an object, or just the prompt. BadInput says what is wrong with it."""
    if isinstance(given, Errand):
        errand = given
    else:
        given = {"prompt": given} if isinstance(given, str) else given
        if not isinstance(given, Mapping):
            raise BadInput(f"a task is an object with a `prompt`, not {type(given).__name__}")
        _refuse_unknown(given)
        try:
            errand = msgspec.convert(dict(given), Errand)
        except msgspec.ValidationError as error:
            raise BadInput(f"this task cannot be read: {error}") from None
    if not errand.prompt.strip():
        raise BadInput("this task has an empty `prompt`")
    try:
        errand.prompt.encode()
    except UnicodeEncodeError:
        raise BadInput("this task's `prompt` is not valid Unicode text") from None
    return errand


def _refuse_unknown(given: Mapping[Any, Any]) -> None:
    known = Errand.__struct_fields__
    for name in given:
        if name not in known:
            raise BadInput(f"a task has no field `{name}`: {remedy(str(name), known)}")
    if "prompt" not in given:
        raise BadInput("a task needs a `prompt`: everything its member has to know")


# ── what comes back ──────────────────────────────────────────────────────────────────────────


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """How one delegated task ended. `text` or `data` is there when it is `ok`, else `message`.

    `no_fit` is no error: nobody here is for it, so whoever delegates does it. `kicked`: the reply
    never passed its gate. `id` names it in a later `reduce`.
    """

    index: int = 0
    status: Status
    id: str | None = None
    text: str | None = None
    data: Any = None
    message: str | None = None
    member: str | None = None
    cost_usd: float = 0.0
    tokens: Usage = Usage()

    def plain(self) -> dict[str, Any]:
        """For those who read JSON: without what is not there."""
        used = self.tokens
        whole = {
            "index": self.index, "status": self.status, "id": self.id, "text": self.text,
            "data": self.data, "message": self.message, "member": self.member,
        }  # fmt: skip
        return {
            **{name: value for name, value in whole.items() if value is not None},
            "cost_usd": self.cost_usd,
            "tokens": {"input": used.total - used.output, "output": used.output},
        }


def result_of(index: int, outcome: Outcome) -> Result:
    reply = outcome.reply
    common = {
        "index": index, "id": outcome.id, "member": outcome.member,
        "cost_usd": dollars(outcome.cost),
        "tokens": _used(outcome),
    }  # fmt: skip
    if outcome.state == "passed" and reply is not None:
        said = {"text": reply.text} if reply.data is None else {"data": reply.data}
        return Result(status="ok", **said, **common)  # type: ignore[arg-type]
    message = "; ".join(outcome.reasons) or f"it ended {outcome.state}"
    return Result(status=_STATUS.get(outcome.state, "error"), message=message, **common)  # type: ignore[arg-type]


def _used(outcome: Outcome) -> Usage:
    """Of the last reply; one that was on record took nothing now."""
    usage = None if outcome.reply is None or not outcome.calls else outcome.reply.usage
    return usage or Usage()


# ── who may take it ──────────────────────────────────────────────────────────────────────────


class Rules(msgspec.Struct, frozen=True):
    """What holds for all errands of a desk. `without`: those who lead, who are never asked.
    `priced`: there is a dollar budget, so a price must be known. `broken`: why some cannot be used.
    `leading`: it is not delegated work, so it does not matter who takes that."""

    allow_paid: bool
    priced: bool
    without: frozenset[str] = frozenset()
    broken: Mapping[str, str] = {}
    leading: bool = False


def fitting(members: Iterable[Traits], errand: Errand, rules: Rules) -> tuple[str, ...] | str:
    """The ids of those who may take it; or, when there are none, why not, in one sentence."""
    known = list(members)
    if errand.member is not None:
        known = [traits for traits in known if traits.id == errand.member]
    obstacles = {traits.id: _obstacles(traits, errand, rules) for traits in known}
    free = tuple(id for id, found in obstacles.items() if not found)
    if free:
        return free
    nearest = sorted(obstacles.items(), key=lambda one: len(one[1]))[:NAMED]
    told = "; ".join(f"{id} {' and '.join(found)}" for id, found in nearest)
    return told or "there is nobody to delegate to"


def _obstacles(traits: Traits, errand: Errand, rules: Rules) -> list[str]:
    """All that stands in the way, the heaviest first."""
    named = errand.member is not None
    paid = rules.allow_paid and (traits.enabled_written or named)
    lacks = [] if named else [tag for tag in errand.tags if tag not in traits.good_at]
    local = errand.local and not named and not errand.tags
    checks = [
        (traits.id in rules.without, "is the one who delegates"),
        (not (traits.can_delegate or rules.leading), "takes no delegated work"),
        (not traits.enabled, "is disabled"),
        (traits.id in rules.broken, f"cannot be used: {rules.broken.get(traits.id)}"),
        (traits.tier == "paid" and not paid, "is paid, which is not allowed here"),
        (rules.priced and traits.price is None, "has no known price"),
        (bool(lacks), f"is not good at {', '.join(lacks)}"),
        (local and traits.tier != "local", "is not local"),
        (_too_long(traits, errand), f"takes at most {traits.context} tokens"),
    ]
    return [why for there, why in checks if there]


def _too_long(traits: Traits, errand: Errand) -> bool:
    if traits.context is None:
        return False
    answer = errand.max_tokens or traits.max_tokens
    return estimate_tokens(errand.prompt) + answer > traits.context
