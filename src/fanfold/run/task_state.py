"""The state of a task until it has an outcome: its ask, reply and verdict, and what comes next."""

from __future__ import annotations

from fanfold.errors import FanfoldError
from fanfold.journal.answers import KnownReply
from fanfold.journal.facts import ItemEnding, NewReply
from fanfold.run.context import Context
from fanfold.run.demand import Eligible
from fanfold.run.unpaid import CannotPay
from fanfold.work.ask import Ask, Reply, Takes
from fanfold.work.kick_back import STATE_OF, KickBacks, ended, raised
from fanfold.work.member import BatchAsk, Event, Tell
from fanfold.work.outcome import Outcome, State, Verdict
from fanfold.work.split import TakeApart
from fanfold.work.task import Place, Task, ToolUser

NOWHERE = Place(-1, -1)
NEVER_KICKED = KickBacks()
NONE_NAMED = "the reply named none of the items"


class NoReply(FanfoldError):
    """The task ends without a reply; `state` is how. `too_long`: it was more than a member takes."""

    def __init__(self, reason: str, state: State = "failed", *, too_long: bool = False) -> None:
        self.state: State = state
        self.too_long = too_long
        super().__init__(reason)


class TaskState:
    """One task, its ask as it stands now, and what was learned so far.

    `filed`: the outcome went into the journal together with the reply.
    `row`: where the reply stands in the journal, when it was filed without an outcome.
    `pending`: there is a reply, and it is to be judged when it is durable.
    `tools`: those that whoever answers may use; `calling`: the reply calls for some, so it is judged by
    nobody, and what it calls for is carried out when it is durable.
    """

    __slots__ = (
        "_keys", "ask", "calling", "calls", "cost", "ctx", "damage", "discards", "eligible", "filed", "final",
        "kept", "kicks", "member", "needed", "pending", "place", "reply", "reused", "row", "step", "task",
        "tell", "too_long", "tools", "verdict",
    )  # fmt: skip

    def __init__(
        self, ctx: Context, task: Task, eligible: Eligible, tell: Tell | None = None
    ) -> None:
        self.ctx, self.task, self.eligible = ctx, task, eligible
        self.step = ctx.steps.open(task.terms)
        self.ask: Ask = task.ask
        self.tools: ToolUser | None = None
        if task.terms.tools is not None or eligible.tools is not None:
            self._equip(task.ask)
        self.place: Place = task.place or NOWHERE
        self._keys: dict[Takes, bytes] = {}
        self.needed = True  # it counts among those that were not asked yet
        self.cost = self.calls = self.row = 0
        self.discards = 0  # the row of a damaged reply that the next attempt replaces
        self.kicks = NEVER_KICKED
        self.reused = self.filed = self.too_long = False
        self.damage = ""  # why the recorded reply must not be used, nor asked for again
        self.tell = tell
        self.kept: NewReply | None = None
        self.member: str | None = None
        self.reply: Reply | None = None
        self.verdict: Verdict | None = None
        self.pending = self.calling = False
        self.final: State | None = None

    def _equip(self, ask: Ask) -> None:
        """The ask for those who are eligible now, with the tools on offer."""
        self.tools = self.ctx.choose.tools_for(self.task.terms, self.eligible)
        self.ask = ask if self.tools is None else self.tools.equipped(ask)

    def key(self, takes: Takes) -> bytes:
        key = self._keys.get(takes)
        if key is None:
            key = self._keys[takes] = self.ask.key(takes)
        return key

    def ask_keys(self) -> list[bytes]:
        return [self.key(takes) for takes in self.eligible.takes]

    @property
    def is_skipped(self) -> bool:
        return self.place is not NOWHERE and self.task.id in self.ctx.outcomes.skipped_ids

    def begun(self) -> None:
        """It is sent, or needs no call."""
        if self.needed:
            self.needed = False
            self.ctx.outcomes.needs.add(self.step.name, -1)

    def needs_another(self) -> None:
        """One more call is needed for it."""
        if not self.needed:
            self.needed = True
            self.ctx.outcomes.needs.add(self.step.name)

    # ── a reply arrives ──

    def receive(self, reply: Reply, member: str, cost: int, landed: int) -> ItemEnding | None:
        """A new reply: judge it. The outcome, when that settles it; None when it goes on, or when
        the gate is one that waits until the reply is durable."""
        self.cost += cost
        self._judge(reply, member)
        if self.final is None:
            return None
        self.filed = self.place is not NOWHERE
        return self._ending(landed) if self.filed else None

    def recall(self, known: KnownReply) -> None:
        """A recorded reply: it goes through the gate as it is now. One that is damaged is refused,
        and the task has none; it is asked for again only on the operator's word."""
        if known.damage:
            again = self.ctx.replies.may_ask_again(self.task.id)
            self.damage, self.discards = ("", known.row) if again else (known.damage, 0)
            return
        if known.reply.files and not self._restored(known):
            return
        self.begun()
        self.ctx.counts.reused += 1
        self.step.reused += 1
        if not known.row:  # it stands with its outcome, and must stay there
            self.kept = NewReply(
                self.key(self.eligible.takes[0]), known.answerer, known.member, known.reply, 0, True
            )
        self.reused, self.row = True, known.row
        self._judge(known.reply, known.member)
        if self.pending and self.task.terms.nature == "foreign":
            self.ctx.judgings.expect(self.mark())

    def _restored(self, known: KnownReply) -> bool:
        """What the reply left is in its place. An item that ended before may have been changed since: of
        those only what is missing is put back."""
        ctx, place = self.ctx, self.place
        ended = place is not NOWHERE and ctx.outcomes.on_record(place, self.step, "passed")
        ask = self.eligible.sent_to(known.answerer, self.ask)
        return ctx.contents.restore(known.reply, ask, only_missing=ended)

    def _judge(self, reply: Reply, member: str) -> None:
        """By a gate and filter of our own at once, before the reply is on record."""
        self.reply, self.member, self.verdict = reply, member, None
        task, terms = self.task, self.task.terms
        if reply.calls and self.ask.wants_tools(reply):
            self.calling = True
            return
        if terms.nature != "pure":
            self.pending = True
            return
        try:
            verdict = terms.gate(task, reply, self.ctx.do)
            assert isinstance(verdict, Verdict)
        except Exception as error:
            verdict = raised("gate", error)
        if terms.keep is not None:
            self.decide(*ended(task, reply, verdict))
        else:
            self.decide(STATE_OF[verdict.state], verdict)

    async def judge(self) -> None:
        """The reply is durable: now the gate may run, whatever it does."""
        assert self.reply is not None
        judging, ask = self.ctx.judgings, self.ctx.do
        self.decide(*await judging.judge(self.task, self.reply, ask, self.mark()))
        self.pending = False

    def mark(self) -> bytes:
        """Under which it is on record that the reply is being judged."""
        return self.key(self.eligible.takes[0])

    def decide(self, state: State, verdict: Verdict) -> None:
        """It has ended; but what failed is kicked back as long as it may be."""
        self.verdict = verdict
        goes_back = state == "kicked" and self.kicks.remain(self.task.terms)
        self.final = None if goes_back else state

    # ── what comes of it ──

    def kick_back(self) -> None:
        """The next ask: revised with the reasons, or the original one to a better member."""
        assert self.reply is not None and self.verdict is not None
        again = self.kicks.next(self.task, self.ask, self.reply, self.verdict.reasons)
        self.ask, self.kicks = again.ask, again.kicks
        if again.member is not None:
            self.eligible = self.ctx.choose.escalation(again.member)
            self._equip(again.ask)
        self.ctx.counts.kicks += 1
        self._ask_next()

    async def use_tools(self) -> None:
        """The reply is durable: what it calls for is carried out, and the next ask has the results."""
        tools, reply, asked = self.tools, self.reply, self.ask.tools
        assert tools is not None and reply is not None and asked is not None
        if self.tell is not None:
            names = ", ".join(dict.fromkeys(one.name for one in reply.calls))
            self.tell(Event("note", f"{self.member} uses {names}", {"tools": names}))
        used = await tools.use(self.task, self.ask, reply, self.ctx.do, self.ctx.record.id)
        last = len(asked.rounds) + 1 >= tools.rounds
        self.ask = self.ask.after(reply, used.results, failed=used.failed, last=last)
        self.calling = False
        self._ask_next()

    def _ask_next(self) -> None:
        """The ask is another one: its reply may be on record."""
        self._keys = {}
        self.reply = None
        self.reused, self.row, self.discards, self.kept = False, 0, 0, None
        known = self.ctx.replies.recorded(self.ask_keys(), self.eligible) or self.recorded_here()
        if known is not None:
            self.recall(known)
        else:
            self.needs_another()

    def recorded_here(self) -> KnownReply | None:
        """A reply to the ask as it stands now that is kept with this item's earlier outcome."""
        place, replies = self.place, self.ctx.replies
        if replies.new_run or not self.eligible.private or place is NOWHERE:
            return None
        found = replies.recorded_at(place.batch, self.step, [place.position])
        key, known = found.get(place.position, (b"", None))
        if known is None or known.answerer not in self.eligible.accept:
            return None
        return known if key in self.ask_keys() else None

    def forget(self) -> None:
        """The reply could not be recorded, so there was none."""
        self.reply = self.verdict = self.final = None
        self.filed = self.pending = self.calling = False
        self.needs_another()

    def conclude(self) -> None:
        """It has ended: write the outcome down, unless it is there already, and count it."""
        assert self.final is not None
        self.begun()
        if self.place is NOWHERE:
            return
        if not (self.filed or self._on_record(self.final)):
            self.ctx.outcomes.note(self._ending(-1 if self.kept is None else 0), self.kept)
        self.ctx.outcomes.count(self.place, self.step, self.final)

    def outcome(self) -> Outcome:
        assert self.final is not None
        reasons = () if self.verdict is None else self.verdict.reasons
        return Outcome(
            self.task.id, self.final, self.reply, reasons, self.member, self.cost, self.calls,
            self.reused, self.place.position, self.too_long,
        )  # fmt: skip

    def _on_record(self, final: State) -> bool:
        recalled = self.reused and not self.calls
        return recalled and self.ctx.outcomes.on_record(self.place, self.step, final)

    def end_without(self, gone: NoReply) -> None:
        self.final, self.verdict = gone.state, Verdict("unjudged", (_writable(str(gone)),))
        self.too_long = gone.too_long
        self.conclude()
        if gone.state == "failed":
            self.ctx.outcomes.item_failed(self.task, str(gone))

    def end_unpaid(self, short: CannotPay) -> None:
        """It cannot be paid: it waits for more money, the others go on."""
        self.end_without(NoReply(str(short), "unfunded"))
        self.ctx.stopping.skip_unpaid(self.task, short)

    def failing(self, reason: str) -> ItemEnding:
        return ItemEnding(
            self.place.batch, self.place.position, self.step.no, "failed", (_writable(reason),),
            self.member, self.cost, self.calls,
        )  # fmt: skip

    def _ending(self, landed: int) -> ItemEnding:
        reasons = () if self.verdict is None else self.verdict.reasons
        assert self.final is not None
        return ItemEnding(
            self.place.batch, self.place.position, self.step.no,
            self.final, reasons, self.member, self.cost, self.calls, landed, self.row,
        )  # fmt: skip


class Shard:
    """What goes out in one ask: one task, or several whose reply is taken apart. `received`: those
    that it has an answer for."""

    __slots__ = ("apart", "ask", "eligible", "ids", "received", "step", "tasks", "tell", "terms")

    def __init__(
        self, tasks: tuple[TaskState, ...], ask: Ask, apart: TakeApart | None = None
    ) -> None:
        first = tasks[0]
        self.tasks, self.ask, self.apart = tasks, ask, apart
        self.eligible, self.terms, self.step = first.eligible, first.task.terms, first.step
        alone = len(tasks) == 1
        self.ids = (first.task.id,) if alone else tuple([p.task.id for p in tasks])
        self.tell: Tell | None = first.tell
        self.received: tuple[TaskState, ...] = tasks

    @property
    def batch_ask(self) -> BatchAsk | None:
        """What its request says where it goes to a batch service."""
        stated = self.terms.batch
        return None if stated is None else BatchAsk(self.step.no, stated.seconds, stated.auto)

    def take_apart(self, reply: Reply) -> list[tuple[TaskState, Reply]]:
        assert self.apart is not None
        answers = self.apart(reply)
        parts = [(p, answers[p.task.id]) for p in self.tasks if p.task.id in answers]
        self.received = tuple(state for state, _ in parts)
        return parts

    def lost(self, why: str) -> None:
        """Nobody waits for the answer any more, though it may have been given."""
        for state in self.tasks:
            state.end_without(NoReply(why, "in_doubt"))

    def failing(self, reason: str) -> tuple[ItemEnding, ...]:
        """The outcomes, when it is not tried again: for the same fact as the attempt's end, so that
        no crash in between has an agent started a second time."""
        return tuple(p.failing(reason) for p in self.tasks if p.place is not NOWHERE)


def _writable(text: str) -> str:
    """Half a surrogate pair is a text in Python, but not in a file."""
    return text.encode("utf-8", "replace").decode()
