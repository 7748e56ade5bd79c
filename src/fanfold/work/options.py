"""What a plan's step and a Python call can both state, with one check for each: both refuse the same
values in the same words."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Annotated, Any, TypeAlias

from msgspec import UNSET, Meta

from fanfold.errors import BadInput
from fanfold.work.arguments import is_uncalled, refuse_async, takes
from fanfold.work.batch import BatchFields, BatchPolicy, batch_of
from fanfold.work.check import Check, described, fields, one_of, one_or_many, text, whole
from fanfold.work.document import Node
from fanfold.work.member import Traits
from fanfold.work.reader import Misfit, Positive, read_record, stated_in
from fanfold.work.task import Budget, BudgetFields, Hedge, HedgeFields, Who

BudgetField: TypeAlias = Annotated[
    Positive | BudgetFields,
    Meta(
        description="What may be spent: dollars, or amounts.",
        extra={"expected": "dollars or a mapping of usd, tokens, calls, seconds"},
    ),
]
GATE_ARGUMENTS = 3  # the task, the reply, and the power to ask


def stated(given: Mapping[str, Any], known: Mapping[str, Check], what: str) -> dict[str, Any]:
    """The options of a Python call, by the checks of plan files. None is not stated."""
    return fields(Node(plain(given), "", {}), known, what)


def plain(given: Mapping[str, Any]) -> dict[str, Any]:
    """What was given, in the values that files have. None is not stated."""
    return {name: _listed(value) for name, value in given.items() if value is not None}


def option(name: str, value: Any, check: Check) -> Any:
    """One of them; None is not stated."""
    return None if value is None else needed(name, value, check)


def needed(name: str, value: Any, check: Check) -> Any:
    """The same for one that cannot be None."""
    return check(Node({name: _listed(value)}, "", {}).child(name))


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple | set | frozenset) else value


def read_budget(node: Node) -> Budget:
    """A mapping of amounts, or plain dollars."""
    if isinstance(node.value, Budget):
        return node.value
    given: Any = read_record(node, BudgetField)  # type: ignore[arg-type]
    return budget_of(given)


def budget_of(given: float | BudgetFields) -> Budget:
    return Budget(**stated_in(given)) if isinstance(given, BudgetFields) else Budget(usd=given)


def parse_budget(said: str, where: str = "--budget") -> Budget:
    """`5` (dollars) or `usd=5,calls=900`, as typed after `--budget`."""
    amounts: dict[str, Any] = {}
    for part in said.split(",") if "=" in said else [f"usd={said}"]:
        name, _, amount = part.partition("=")
        if name.strip() in amounts:
            raise BadInput(f"{where}: `{name.strip()}` is given twice")
        amounts[name.strip()] = _amount(amount.strip())
    try:
        return read_budget(Node(amounts, where, {}))
    except BadInput as error:
        raise BadInput(f"{where}: {error.what}") from None


def parse_budgets(said: str) -> tuple[Budget | None, dict[str, Budget]]:
    """The same with amounts of single steps among them: `usd=5,map.usd=2`. None: nothing was said of
    the whole."""
    whole: list[str] = []
    steps: dict[str, list[str]] = {}
    for part in said.split(",") if "=" in said else [said]:
        step, dot, name = part.partition("=")[0].strip().rpartition(".")
        if dot and "=" in part:
            steps.setdefault(step, []).append(f"{name}={part.partition('=')[2]}")
        else:
            whole.append(part)
    found = {step: parse_budget(",".join(parts)) for step, parts in steps.items()}
    for budget in found.values():
        if budget.seconds is not None:
            raise BadInput("--budget: `seconds` are of the whole run, not of a step")
    return parse_budget(",".join(whole)) if whole else None, found


def _amount(written: str) -> Any:
    for kind in (int, float):
        try:
            return kind(written)
        except ValueError:
            continue
    return written


def read_hedge(node: Node) -> Hedge:
    if isinstance(node.value, Hedge):
        return node.value
    return Hedge(**stated_in(read_record(node, HedgeFields)))


def read_batch(node: Node) -> BatchPolicy:
    """`auto`, a time such as `6h`, or its fields."""
    if isinstance(node.value, BatchPolicy):
        return node.value
    if isinstance(node.value, dict):
        return batch_of(read_record(node, BatchFields))
    try:
        return batch_of(node.value)
    except Misfit as error:
        what = f"`{node.name}` is auto, a time such as 6h, or {{within: 6h}}: {error.what}"
        raise node.bad(what) from None


def parse_batch(said: str, where: str = "--batch") -> BatchPolicy:
    """`auto` or `6h`, as typed after `--batch`."""
    try:
        return batch_of(said)
    except Misfit as error:
        raise BadInput(f"{where}: {error.what}, and auto is without one") from None


def read_who(node: Node, known: Mapping[str, Any]) -> Who:
    """Who may answer, from `member`, `members`, `agent` or `needs`: at most one of them."""
    said = [name for name in ("member", "members", "agent", "needs") if name in known]
    if len(said) > 1:
        raise node.child(said[1]).bad(f"state `{said[0]}` or `{said[1]}`, not both")
    one = known.get("member") or known.get("agent")
    members = (one,) if one else known.get("members", ())
    if members and "spread" in known:
        what = f"`spread` goes with `needs`: those that `{said[0]}` names share the work anyway"
        raise node.child("spread").bad(what)
    return Who(
        members, known.get("needs", ()), known.get("use"), tuple(known.get("fallback", ())),
        spread=known.get("spread", UNSET),
    )  # fmt: skip


def who_of(known: Mapping[str, Any]) -> Who:
    """The same for a Python call, from options that were checked."""
    return read_who(Node(dict(known), "", {}), known)


def gate(node: Node) -> Any:
    """Something to call with task, reply and the power to ask."""
    check_gate(f"`{node.name}`", node.value)
    return node.value


def check_gate(name: str, given: Any) -> None:
    if is_uncalled(given):
        raise BadInput(
            f"{name} is the function {given.__name__} itself; call it: {given.__name__}(…)"
        )
    if not callable(given):
        raise BadInput(f'{name} must be a gate such as require("field"), not {described(given)}')
    if not takes(given, GATE_ARGUMENTS):
        raise BadInput(
            f"{name} must take the task, the reply and the power to ask; wrap a check of the"
            " reply's value in predicate(…)"
        )


def takes_missing(given: Any) -> bool:
    """Whether a reducer wants to know which items have no part."""
    try:
        return callable(given) and "missing" in signature(given).parameters
    except (TypeError, ValueError):  # some built-in functions have no signature
        return False


def reducer(name: str, given: Any) -> None:
    """A function of the parts."""
    if is_uncalled(given):
        raise BadInput(
            f"`{name}` is the function {given.__name__} itself; call it: {given.__name__}(…)"
        )
    refuse_async(f"`{name}`", given)
    if not takes(given, 1) and not takes_missing(given):
        raise BadInput(
            f"`{name}` must be a function of the parts, such as concat(), or asked(…),"
            f" not {described(given)}"
        )


def function(node: Node) -> Any:
    if not callable(node.value) or is_uncalled(node.value):
        raise node.bad(f"`{node.name}` must be a function, not {described(node.value)}")
    return node.value


def plain_function(node: Node) -> Any:
    """One whose answer is taken as it comes."""
    refuse_async(f"`{node.name}`", function(node))
    return node.value


def instance(kind: type, shown: str) -> Check:
    def check(node: Node) -> Any:
        if not isinstance(node.value, kind):
            raise node.bad(f"`{node.name}` must be {shown}, not {described(node.value)}")
        return node.value

    return check


def one_member(node: Node) -> str:
    """A member by its id. In scripts the member itself stands for its id."""
    id = member_id(node.value)
    return id if isinstance(id, str) and id is not node.value else text(node)


def member_id(given: Any) -> Any:
    """The id of a member; anything else as it is."""
    traits = getattr(given, "traits", None)
    return traits.id if isinstance(traits, Traits) else given


def member_ids(given: Any) -> Any:
    """The same for a list of them; one alone is a list of one."""
    if isinstance(given, list | tuple):
        return [member_id(one) for one in given]
    id = member_id(given)
    return given if id is given else [id]


WHO: dict[str, Check] = {
    "member": one_member,
    "members": one_or_many(one_member),
    "needs": one_or_many(text),
    "use": whole(least=1),
    "fallback": one_or_many(one_member),
    "spread": one_of("overflow", "best"),
}
TERMS: dict[str, Check] = {
    "concurrency": whole(least=1),
    "budget": read_budget,
    "revise": whole(least=0),
    "escalate": one_or_many(one_member),
    "on_failure": one_of("skip", "abort", "hold"),
    "in_doubt": one_of("retry", "hold"),
    "hedge": read_hedge,
    "batch": read_batch,
}
HOW: dict[str, Check] = {
    **WHO,
    **TERMS,
    "step": text,
    "attempts": whole(least=1),
    "gate": gate,
    "keep": plain_function,
    "tools": lambda node: node.value,
    "tool_rounds": whole(least=1),
    "tool_calls": whole(least=1),
}
"""What the patterns take in Python: a gate and a filter as functions, and how often to try."""
