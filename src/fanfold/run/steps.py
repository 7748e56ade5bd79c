"""The steps of a run: their numbers, their accounts, and how members did at such a step before."""

from __future__ import annotations

from typing import Any

from fanfold.errors import BadInput
from fanfold.journal.contract import Store
from fanfold.journal.facts import DeclareCascade, NameStep
from fanfold.journal.limits import SharedLimit
from fanfold.members.route import standing
from fanfold.run.choose import Chooser
from fanfold.run.demand import StepState
from fanfold.run.dispatch import Dispatch
from fanfold.run.hedge import Hedging
from fanfold.work.budget import NOTHING, Account, Amount, combined
from fanfold.work.task import Budget, Hedge, Terms


class Steps:
    """Steps are numbered in the order in which they are first used, and keep their numbers when the
    run is resumed, in whichever order they are used then."""

    def __init__(
        self, store: Store, run: int, account: Account, choose: Chooser, dispatch: Dispatch,
        shared: bool = False,
    ) -> None:  # fmt: skip
        """`shared`: other processes carry the run out too."""
        self._store, self._run, self._account, self._shared = store, run, account, shared
        self._choose, self._dispatch = choose, dispatch
        self.by_name: dict[str, StepState] = {}
        self._numbers = {name: no for no, name in enumerate(store.read.step_names(run))}
        self._budgets: dict[str, Budget] = {}
        self._spent = spent_before(store, run)
        self._adopted: dict[int, Amount] = {}  # reserved for attempts that were adopted, by step
        self._hedging: dict[int, Hedging] = {}
        self._changes: dict[str, dict[str, Any]] = {}  # by orders, to steps that may come later

    def open(self, terms: Terms) -> StepState:
        step = self.by_name.get(terms.step)
        return self._first(terms) if step is None else step

    def _first(self, terms: Terms) -> StepState:
        no = self._numbers.setdefault(terms.step, len(self._numbers))
        own = Account(
            f"step {terms.step}", terms.budget, self._spent.get(no, NOTHING), terms.seen_as
        )
        own.reserve(self._adopted.pop(no, NOTHING))
        step = StepState(no, terms.step, terms.concurrency, (self._account, own))
        step.lines = 0 if terms.batch is None else terms.batch.most
        self.by_name[terms.step] = step
        self._store.note(NameStep(self._run, no, terms.step))
        self._budgets[terms.step] = terms.budget
        self._choose.check_prices(terms.whos, terms.budget)
        step.who = terms.who
        step.free = not self._choose.eligible(terms.who).metered
        self._apply_changes(step)
        step.past = self._past_of(terms, {})
        if terms.escalate:
            better = self._choose.escalation(terms.escalate[0]).candidates[0].traits
            self._store.note(DeclareCascade(self._run, no, terms.escalate, better.price))
        return step

    def note(self, name: str, note: str) -> None:
        no = self._numbers.setdefault(name, len(self._numbers))
        self._store.note(NameStep(self._run, no, name, note))

    def begin(self, terms: Terms) -> None:
        """A step that is open already may get others to ask, and another number at once. It has one
        account, so a second budget under its name is refused: which of them should hold?"""
        if (step := self.by_name.get(terms.step)) is None:
            self._first(terms)
            return
        stated = self._budgets[terms.step]
        if terms.budget not in (stated, Budget()):
            raise BadInput(
                f"two steps are named `{terms.step}`, with different budgets; give one of them"
                " another name"
            )
        step.resize(terms.concurrency)
        step.lines = max(step.lines, 0 if terms.batch is None else terms.batch.most)
        self._apply_changes(step)
        step.past |= self._past_of(terms, step.past)
        self._choose.check_prices(terms.whos, stated)

    def shared_limits(self, step: StepState) -> tuple[SharedLimit, ...]:
        """That a claim of the step must name: what other processes of the run take counts too."""
        if not self._shared:
            return ()
        whole, own = step.accounts
        return tuple(
            SharedLimit(one.name, no, one.max_usd, one.max_tokens, one.max_calls)
            for one, no in ((whole, None), (own, step.no))
            if one.bounded
        )

    def look_at_dollars(self) -> None:
        for step in self.by_name.values():
            step.look_at_dollars()

    def change(self, name: str, field: str, value: Any) -> None:
        """At an operator's word: the `concurrency` or the `budget` of a step, now or when it comes. A
        budget holds for all that have it: votes, the rounds of a repeat."""
        self._changes.setdefault(name, {})[field] = value
        for step in self.by_name.values():
            if name in (step.name, step.accounts[-1].step):
                self._apply_changes(step)

    def _apply_changes(self, step: StepState) -> None:
        stated = self._changes.get(step.accounts[-1].step, {})
        shared = {"budget": stated["budget"]} if "budget" in stated else {}
        for field, value in {**shared, **self._changes.get(step.name, {})}.items():
            if field == "concurrency":
                step.resize(value)
            else:
                own = step.accounts[-1]
                own.set_limit(combined(own.limit, value))
                step.look_at_dollars()

    def _past_of(self, terms: Terms, known: dict[str, Any]) -> dict[str, tuple[int, int]]:
        """How those did at such a step before between whom there is a choice; not those known."""
        candidates = self._choose.eligible(terms.who).candidates
        if terms.who.members or len(candidates) < 2:
            return {}
        read = self._store.read
        return {
            t.id: standing(read.member_stats(t.id, t.answerer, terms.step))
            for t in (candidate.traits for candidate in candidates)
            if t.metered and t.id not in known
        }

    def hedging(self, step: StepState, stated: Hedge) -> Hedging:
        """What is usual at the step, learned from its calls in this run and in earlier ones."""
        hedging = self._hedging.get(step.no)
        if hedging is None:
            read = self._store.read
            hedging = self._hedging[step.no] = Hedging(
                stated, lambda traits: read.latencies(traits.id, traits.answerer, step.name)
            )
        return hedging

    # ── attempts of a process that died, taken over ──

    def reopen(self, step: int, amount: Amount) -> None:
        """Before the steps are open: what an attempt counted as is reserved for it again."""
        self._account.reopen(amount)
        self._spent[step] = self._spent.get(step, NOTHING) - amount
        self._adopted[step] = self._adopted.get(step, NOTHING) + amount

    def settle(self, step: int, reserved: Amount, actual: Amount) -> None:
        """Such an attempt has ended."""
        self._account.settle(reserved, actual)
        opened = next((one for one in self.by_name.values() if one.no == step), None)
        if opened is not None:
            opened.accounts[-1].settle(reserved, actual)
        else:
            self._adopted[step] -= reserved
            self._spent[step] += actual
        self._dispatch.poke()


def spent_before(store: Store, run: int) -> dict[int, Amount]:
    """What earlier invocations of the run took, by step."""
    free = store.read.free_calls(run)
    spent = {
        no: Amount(s.cost, s.tokens, s.charged + free.pop(no, 0))
        for no, s in store.read.spent(run).items()
    }
    return spent | {no: Amount(calls=calls) for no, calls in free.items()}
