"""The arguments that the patterns have in common: who answers, how replies are judged, and what
happens when it goes wrong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeAlias, TypedDict

import msgspec

from fanfold.errors import BadInput
from fanfold.gates.default import standard
from fanfold.run.planning import Batch
from fanfold.run.run import Run
from fanfold.work.ask import Schema
from fanfold.work.outcome import Missing, Outcome, Receipt
from fanfold.work.task import Budget, Gate, Hedge, InDoubt, OnFailure, Task, Terms, Who

By: TypeAlias = Callable[[Run, Task], Awaitable[Outcome]]
"""How a task is carried to its outcome: by the run itself, by a vote, by a pattern inside."""


class How(TypedDict, total=False):
    """`member` or `members` or `needs` say who; `use`: at most so many of them. `fallback`: these,
    in order, each only when all before it are closed or have failed."""

    step: str
    member: str
    members: Sequence[str]
    needs: Sequence[str]
    use: int
    fallback: Sequence[str]
    gate: Gate
    revise: int
    escalate: Sequence[str]
    on_failure: OnFailure
    in_doubt: InDoubt
    hedge: Hedge
    attempts: int
    concurrency: int
    budget: Budget
    keep: Callable[[Any], bool]


def terms_of(how: How, schema: Schema | None, step: str) -> Terms:
    """The terms that a pattern's arguments state; `step` is its name when none is given."""
    _check_counts(how)
    members = how.get("members", ())
    who = Who(
        tuple([how["member"]] if "member" in how else members), tuple(how.get("needs", ())),
        how.get("use"), tuple(how.get("fallback", ())),
    )  # fmt: skip
    keep = how.get("keep")
    return Terms(
        step=how.get("step", step), gate=standard(how.get("gate"), schema), who=who,
        revise=how.get("revise", 1), escalate=tuple(how.get("escalate", ())),
        on_failure=how.get("on_failure", "skip"), in_doubt=how.get("in_doubt"),
        attempts=how.get("attempts", 4), concurrency=how.get("concurrency", 8),
        budget=how.get("budget", Budget()), hedge=how.get("hedge"),
        keep=None if keep is None else lambda task, reply: bool(keep(reply.value)),
    )  # fmt: skip


def _check_counts(how: How) -> None:
    """What would hang, or mean nothing, is refused; negative numbers have no meaning here."""
    least = {"concurrency": 1, "attempts": 1, "revise": 0, "use": 1}
    for name, fewest in least.items():
        many = how.get(name, fewest)
        if many is not None and (
            not isinstance(many, int) or isinstance(many, bool) or many < fewest
        ):
            raise BadInput(f"`{name}` is a whole number from {fewest} on, not {many!r}")


async def by_run(run: Run, task: Task) -> Outcome:
    """The plain way: one ask, with all that a run does for it."""
    return await run.do(task)


class Folded(msgspec.Struct, frozen=True):
    """The result, and the account as it stood when the result was made.

    `behind` and `missing` read the journal, so ask them while the run is open.
    """

    value: Any
    receipt: Receipt
    run: Run | None = None
    batch: Batch | None = None
    terms: Terms | None = None

    def behind(self) -> Iterator[str]:
        """The ids of the items that the result rests on, in planned order."""
        assert self.run and self.batch and self.terms, "this result is not made of planned items"
        return self.run.behind(self.batch, self.terms)

    def missing(self) -> Iterator[Missing]:
        """The planned items that it does not rest on, each with its outcome and the reasons."""
        assert self.run and self.batch and self.terms, "this result is not made of planned items"
        return self.run.missing(self.batch, self.terms)
