"""From a chat request to its answer: each is an item of the server's run, or of a run below the
parent it names; planned, budgeted, gated and on record like any other."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial

import msgspec

from fanfold.errors import BadInput, FanfoldError, RunStopped, StoreError
from fanfold.faces.serve.wire import AUTO, Chat, ChatAnswer
from fanfold.faces.web import RequestRefused
from fanfold.gates.default import standard
from fanfold.members.roster import RosterEnsemble
from fanfold.observe.metrics import metrics_of
from fanfold.patterns.arguments import TaskHandler
from fanfold.patterns.ensemble import voters
from fanfold.patterns.vote_rules import VoteOptions, judged
from fanfold.price import dollars
from fanfold.run.inherited import SPAN
from fanfold.run.member_sources import MemberSource
from fanfold.run.run import Run
from fanfold.run.sources import Rows
from fanfold.work.ask import Ask, Reply
from fanfold.work.item import Item
from fanfold.work.member import Tell
from fanfold.work.nearest import remedy
from fanfold.work.outcome import Outcome
from fanfold.work.task import Place, Task, Terms, Who

MOST_AT_ONCE = 1000
MOST_PARENT_RUNS = 64
_encode = msgspec.json.Encoder().encode


class RequestOptions(msgspec.Struct, frozen=True):
    """The headers of a request. `fresh`: not from the journal. `parent`: the span it is made for."""

    fresh: bool = False
    parent: str = ""


def read_options(fresh: str, parent: str) -> RequestOptions:
    """From the headers of a request. Raises RequestRefused."""
    if parent and not SPAN.fullmatch(parent):
        raise RequestRefused(
            "X-Fanfold-Parent is not a span: a run's id, or RUN:NUMBER for an attempt"
        )
    if fresh.lower() not in ("", "0", "1", "false", "true"):
        raise RequestRefused("X-Fanfold-Fresh must be 1 or 0")
    return RequestOptions(fresh.lower() in ("1", "true"), parent)


class _ParentRun:
    """A run below a parent, and its number of requests under way."""

    def __init__(self, run: Run) -> None:
        self.run, self.busy = run, 0


class ParentRuns:
    """One run for each parent that requests are made for, on the budget of the server's own run.
    When there are many, idle ones are closed, the oldest first; `close` all before the server's."""

    def __init__(self, run: Run, most: int = MOST_PARENT_RUNS) -> None:
        self._run, self._most = run, most
        self._open: dict[str, _ParentRun] = {}
        self._opening = asyncio.Lock()

    @asynccontextmanager
    async def of(self, span: str) -> AsyncIterator[Run]:
        """The run that a request belongs to; it stays open meanwhile. Raises RequestRefused."""
        if not span:
            yield self._run
            return
        async with self._opening:
            found = self._open.get(span) or await self._start(span)
            found.busy += 1
        try:
            yield found.run
        finally:
            found.busy -= 1

    async def _start(self, span: str) -> _ParentRun:
        id = span.partition(":")[0]
        record = self._run.store.read.find(id)
        if record is None or record.id != id:
            why = f"X-Fanfold-Parent: there is no run {id} in this server's store"
            raise RequestRefused(why, code="unknown_parent")
        await self._make_room()
        branch = await self._run.branch(f"{self._run.record.name} requests", span)
        self._open[span] = _ParentRun(branch)
        return self._open[span]

    async def _make_room(self) -> None:
        idle = [span for span, one in self._open.items() if not one.busy]
        for span in idle[: len(self._open) - self._most + 1]:
            await self._open.pop(span).run.close()

    async def close(self) -> None:
        """Only when no request is under way any more."""
        while self._open:
            _, one = self._open.popitem()
            await one.run.close()


class Service:
    """Answers chats with the members, `auto` and the ensembles of a roster, out of one run.

    At most `most` requests are under way at once; more get a 429.
    """

    def __init__(
        self,
        run: Run,
        company: MemberSource,
        ensembles: Mapping[str, ReadyEnsemble],
        concurrency: int = 64,
        most: int = MOST_AT_ONCE,
    ) -> None:
        self._company, self._concurrency, self._most = company, concurrency, most
        self._parents = ParentRuns(run)
        self._ensembles = ensembles
        self._under_way: set[asyncio.Task[ChatAnswer]] = set()
        self.metrics = partial(metrics_of, run.store)

    @property
    def models(self) -> list[str]:
        """Those that may be asked: `auto`, the members that are enabled and allowed, ensembles."""
        return [AUTO, *usable(self._company), *self._ensembles]

    @property
    def busy(self) -> int:
        return len(self._under_way)

    def begin(
        self, id: str, chat: Chat, options: RequestOptions, tell: Tell | None
    ) -> asyncio.Task[ChatAnswer]:
        """Start an answer. It is finished even if the client disconnects: it is paid for, and on
        record for the next time."""
        model = chat.model
        if model != AUTO and model not in self._company.traits and model not in self._ensembles:
            hint = remedy(model, self.models)
            raise RequestRefused(
                f"there is no model `{model}`: {hint}", status=404, code="model_not_found",
                param="model",
            )  # fmt: skip
        if self.busy >= self._most:
            raise RequestRefused(
                f"{self._most} requests are under way; try again later",
                status=429, code="rate_limit_exceeded", again=True,
            )  # fmt: skip
        work = asyncio.create_task(self._answer(id, chat, options, tell))
        self._under_way.add(work)
        work.add_done_callback(self._ended)
        return work

    def _ended(self, work: asyncio.Task[ChatAnswer]) -> None:
        self._under_way.discard(work)
        if not work.cancelled():
            work.exception()  # retrieved, even if the client disconnected

    async def abandon(self) -> None:
        """Cancel the answers under way: they are in doubt then."""
        for work in self._under_way:
            work.cancel()
        await self.idle()

    async def idle(self) -> None:
        """Wait until no answer is under way."""
        while self._under_way:
            await asyncio.wait(self._under_way)

    async def close(self) -> None:
        """Close the runs of parents; only when nothing is under way any more."""
        await self._parents.close()

    def streams(self, chat: Chat) -> bool:
        """May deltas be sent before the answer is complete? Not before a vote or a revision."""
        return chat.schema is None and chat.model not in self._ensembles

    # ── one answer ──

    async def _answer(
        self, id: str, chat: Chat, options: RequestOptions, tell: Tell | None
    ) -> ChatAnswer:
        try:
            async with self._parents.of(options.parent) as run:
                outcome = await self._outcome(run, id, chat, options, tell)
                return answer_of(outcome, run.record.id, chat)
        except BadInput as error:
            code = "no_fit" if chat.model == AUTO else None
            raise RequestRefused(str(error), code=code, param="model") from None
        except RunStopped as error:
            raise RequestRefused(str(error), status=503, code="stopped") from None
        except RequestRefused:
            raise
        except StoreError as error:
            raise RequestRefused(str(error), status=500, code="store") from None
        except FanfoldError as error:
            raise RequestRefused(str(error), status=502, code="member_failed") from None

    async def _outcome(
        self, run: Run, id: str, chat: Chat, options: RequestOptions, tell: Tell | None
    ) -> Outcome:
        terms = self._terms(chat)
        # What a function receives: the conversation, and the last user message as `text`
        text = next((m.content for m in reversed(chat.messages) if m.role == "user"), "")
        messages = [{"role": m.role, "content": m.content} for m in chat.messages]
        item = Item(id, {"text": text, "messages": messages})
        batch = await run.plan(Rows([item]), terms, name=id)
        sample = secrets.randbits(48) + 1 if options.fresh else 0
        ask = Ask(chat.messages, (item,), (), chat.schema, chat.params, sample)
        task = Task(id, ask, terms, Place(batch.no, 0))
        ensemble = self._ensembles.get(chat.model)
        if ensemble is not None:
            return await ensemble.by(run, task)
        return await run.do(task, tell if self.streams(chat) else None)

    def _terms(self, chat: Chat) -> Terms:
        """A truncated reply or a refusal is an answer in a chat; only a schema is worth a revision."""
        ensemble = self._ensembles.get(chat.model)
        if chat.model == AUTO:
            who = Who(needs=chat.needs)
        else:
            who = Who(members=(chat.model,) if ensemble is None else ensemble.members)
        return Terms(
            step=chat.model, gate=standard(None, chat.schema), who=who,
            revise=0 if chat.schema is None else 1, concurrency=self._concurrency,
        )  # fmt: skip


def usable(company: MemberSource) -> list[str]:
    """The members that are enabled and allowed."""
    return [
        id for id, traits in company.traits.items()
        if traits.enabled and (company.settings.allow_paid or traits.tier != "paid")
    ]  # fmt: skip


class ReadyEnsemble(msgspec.Struct, frozen=True):
    """An ensemble whose votes can be held."""

    members: tuple[str, ...]
    by: TaskHandler


def ready(ensemble: RosterEnsemble) -> ReadyEnsemble:
    """BadInput for votes that cannot be held, before the server starts."""
    options: VoteOptions = {"stop_early": ensemble.stop_early}
    judge = None if ensemble.judge is None else judged(member=ensemble.judge, picks=ensemble.picks)
    if ensemble.decide == "judge":
        options["decide"] = judge or "majority"
    else:
        options["decide"], options["judge"] = ensemble.decide, judge
    if ensemble.weights:
        options["weights"] = ensemble.weights
    options["quorum"], options["samples"] = ensemble.quorum, ensemble.samples
    return ReadyEnsemble(ensemble.members, voters(ensemble.members, **options))


# ── outcomes as answers ─────────────────────────────────────────────────────────────────────────────


def answer_of(outcome: Outcome, run: str, chat: Chat) -> ChatAnswer:
    """The answer of an outcome. Raises RequestRefused where there is none.

    A verdict that OpenAI has a field for is put there: a truncated reply ends with `length`, a
    refusal is one. Both are kicked, and on record as that.
    """
    about = {
        "run": run, "item": outcome.id, "state": outcome.state, "member": outcome.member,
        "cost_usd": dollars(outcome.cost), "calls": outcome.calls, "reused": outcome.reused,
    }  # fmt: skip
    reply = outcome.reply
    usage = outcome.usage or (reply.usage if reply else None)
    if outcome.state == "passed" and reply is not None:
        return ChatAnswer(_text(reply), usage=usage, about=about)
    if outcome.state == "kicked" and reply is not None and _text(reply).strip():
        if reply.finish == "length":
            return ChatAnswer(_text(reply), "length", usage=usage, about=about)
        if reply.finish == "refusal" or (chat.schema is None and reply.finish == "stop"):
            return ChatAnswer(_text(reply), refused=True, usage=usage, about=about)
    why = "; ".join(outcome.reasons) or "no reason was given"
    raise _REFUSALS[outcome.state](outcome, why)


def _text(reply: Reply) -> str:
    if reply.text or reply.data is None:
        return reply.text
    return reply.data if isinstance(reply.data, str) else _encode(reply.data).decode()


def _failed(outcome: Outcome, why: str) -> RequestRefused:
    if outcome.too_long:
        return RequestRefused(why, code="context_length_exceeded", param="messages")
    return RequestRefused(f"no member gave an answer: {why}", status=502, code="member_failed")


def _not_good(outcome: Outcome, why: str) -> RequestRefused:
    return RequestRefused(f"the reply did not pass: {why}", status=422, code=outcome.state)


def _lost(outcome: Outcome, why: str) -> RequestRefused:
    return RequestRefused(why, status=502, code=outcome.state)


_REFUSALS: Mapping[str, Callable[[Outcome, str], RequestRefused]] = {
    "failed": _failed,
    "kicked": _not_good,
    "unjudged": _not_good,
    "unfunded": lambda _, why: RequestRefused(why, status=402, code="insufficient_quota"),
    "in_doubt": _lost,
    "cancelled": _lost,
    "skipped": _not_good,
    "passed": _not_good,  # without a reply: not by a run
}
