"""From a chat request to its answer: each is an item of the server's run, planned, budgeted, gated
and on record like any other."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from fanfold.errors import BadInput, FanfoldError, RunStopped, StoreError
from fanfold.faces.serve.parents import Parents
from fanfold.faces.serve.wire import AUTO, Chat, Refused, Said
from fanfold.gates.default import standard
from fanfold.members.ensembles import Ensemble
from fanfold.patterns.ensemble import voters
from fanfold.patterns.how import By
from fanfold.patterns.judged import judged
from fanfold.patterns.panel import Knobs
from fanfold.price import dollars
from fanfold.run.choose import Company
from fanfold.run.inherited import SPAN
from fanfold.run.run import Run
from fanfold.run.sources import Rows
from fanfold.work.ask import Ask, Reply
from fanfold.work.item import Item
from fanfold.work.member import Tell
from fanfold.work.nearest import remedy
from fanfold.work.outcome import Outcome
from fanfold.work.task import Place, Task, Terms, Who

MOST_AT_ONCE = 1000
_encode = msgspec.json.Encoder().encode


class Manner(msgspec.Struct, frozen=True):
    """How a request wants to be treated, beside what it says. `fresh`: not from the journal.
    `parent`: the span that it is made for."""

    fresh: bool = False
    parent: str = ""


def read_manner(fresh: str, parent: str) -> Manner:
    """From the headers of a request. Raises Refused."""
    if parent and not SPAN.fullmatch(parent):
        raise Refused("X-Fanfold-Parent is no span: a run's id, and `:` with an attempt's number")
    if fresh.lower() not in ("", "0", "1", "false", "true"):
        raise Refused("X-Fanfold-Fresh is 1 or 0")
    return Manner(fresh.lower() in ("1", "true"), parent)


class Service:
    """Answers chats with the members, `auto` and the ensembles of a roster, out of one run.

    `most` requests are under way at once; beyond that, clients are told to come back.
    """

    def __init__(
        self,
        run: Run,
        company: Company,
        ensembles: Mapping[str, Voting],
        concurrency: int = 64,
        most: int = MOST_AT_ONCE,
    ) -> None:
        self._company, self._concurrency, self._most = company, concurrency, most
        self._parents = Parents(run)
        self._ensembles = ensembles
        self._under_way: set[asyncio.Task[Said]] = set()

    @property
    def models(self) -> list[str]:
        """Those that may be asked: `auto`, the members that are enabled and allowed, ensembles."""
        return [AUTO, *usable(self._company), *self._ensembles]

    @property
    def busy(self) -> int:
        return len(self._under_way)

    def begin(self, id: str, chat: Chat, manner: Manner, tell: Tell | None) -> asyncio.Task[Said]:
        """Start on an answer. It is finished also when nobody waits for it any more: it is paid
        for, and on record for the next time."""
        self._check_model(chat.model)
        if self.busy >= self._most:
            raise Refused(
                f"{self._most} requests are under way; try again later",
                status=429, code="rate_limit_exceeded", again=True,
            )  # fmt: skip
        work = asyncio.create_task(self._answer(id, chat, manner, tell))
        self._under_way.add(work)
        work.add_done_callback(self._over)
        return work

    def _over(self, work: asyncio.Task[Said]) -> None:
        self._under_way.discard(work)
        if not work.cancelled():
            work.exception()  # seen, also when the client is gone

    async def abandon(self) -> None:
        """Cancel what is under way: it is in doubt then."""
        for work in self._under_way:
            work.cancel()
        await self.idle()

    async def idle(self) -> None:
        """Wait until nothing is under way."""
        while self._under_way:
            await asyncio.wait(self._under_way)

    async def close(self) -> None:
        """The books of those requests that others made; when nothing is under way any more."""
        await self._parents.close()

    def hands_on(self, chat: Chat) -> bool:
        """May what a member says be handed on while it speaks? Not before a vote or a revision."""
        return chat.schema is None and chat.model not in self._ensembles

    # ── one answer ──

    def _check_model(self, model: str) -> None:
        if model != AUTO and model not in self._company.traits and model not in self._ensembles:
            hint = remedy(model, self.models)
            raise Refused(
                f"there is no model `{model}`: {hint}", status=404, code="model_not_found",
                param="model",
            )  # fmt: skip

    async def _answer(self, id: str, chat: Chat, manner: Manner, tell: Tell | None) -> Said:
        try:
            async with self._parents.of(manner.parent) as run:
                return told(await self._outcome(run, id, chat, manner, tell), run.record.id, chat)
        except BadInput as error:
            code = "no_fit" if chat.model == AUTO else None
            raise Refused(str(error), code=code, param="model") from None
        except RunStopped as error:
            raise Refused(str(error), status=503, code="stopped") from None
        except Refused:
            raise
        except StoreError as error:
            raise Refused(str(error), status=500, code="store") from None
        except FanfoldError as error:
            raise Refused(str(error), status=502, code="member_failed") from None

    async def _outcome(
        self, run: Run, id: str, chat: Chat, manner: Manner, tell: Tell | None
    ) -> Outcome:
        terms = self._terms(chat)
        item = Item(id, _data(chat))
        batch = await run.plan(Rows([item]), terms, name=id)
        sample = secrets.randbits(48) + 1 if manner.fresh else 0
        ask = Ask(chat.messages, (item,), (), chat.schema, chat.params, sample)
        task = Task(id, ask, terms, Place(batch.no, 0))
        ensemble = self._ensembles.get(chat.model)
        if ensemble is not None:
            return await ensemble.by(run, task)
        return await run.do(task, tell if self.hands_on(chat) else None)

    def _terms(self, chat: Chat) -> Terms:
        """A cut-off reply or a refusal is an answer in a chat; only a schema is worth a revision."""
        ensemble = self._ensembles.get(chat.model)
        if chat.model == AUTO:
            who = Who(needs=chat.needs)
        else:
            who = Who(members=(chat.model,) if ensemble is None else ensemble.members)
        return Terms(
            step=chat.model, gate=standard(None, chat.schema), who=who,
            revise=0 if chat.schema is None else 1, concurrency=self._concurrency,
        )  # fmt: skip


def _data(chat: Chat) -> dict[str, Any]:
    """What a function receives: the conversation, and the last thing the user said as `text`."""
    text = next((m.content for m in reversed(chat.messages) if m.role == "user"), "")
    messages = [{"role": m.role, "content": m.content} for m in chat.messages]
    return {"text": text, "messages": messages}


def usable(company: Company) -> list[str]:
    """The members that are enabled and allowed."""
    return [
        id for id, traits in company.traits.items()
        if traits.enabled and (company.settings.allow_paid or traits.tier != "paid")
    ]  # fmt: skip


class Voting(msgspec.Struct, frozen=True):
    """An ensemble made ready."""

    members: tuple[str, ...]
    by: By


def voting(ensemble: Ensemble) -> Voting:
    """BadInput for votes that cannot be held, before the server starts."""
    knobs: Knobs = {"stop_early": ensemble.stop_early}
    if ensemble.judge is not None:
        knobs["decide"] = judged(member=ensemble.judge, picks=ensemble.picks)
    else:
        knobs["decide"] = ensemble.decide
    if ensemble.weights:
        knobs["weights"] = ensemble.weights
    knobs["quorum"], knobs["samples"] = ensemble.quorum, ensemble.samples
    return Voting(ensemble.members, voters(ensemble.members, **knobs))


# ── how it ended ─────────────────────────────────────────────────────────────────────────────


def told(outcome: Outcome, run: str, chat: Chat) -> Said:
    """What the client hears of an outcome. Raises Refused where there is no answer to give.

    The gate's verdict is told in OpenAI's own words where it has some: a reply that was cut off
    ends with `length`, a refusal is one. Both are kicked, and on record as that.
    """
    about = {
        "run": run, "item": outcome.id, "state": outcome.state, "member": outcome.member,
        "cost_usd": dollars(outcome.cost), "calls": outcome.calls, "reused": outcome.reused,
    }  # fmt: skip
    reply = outcome.reply
    usage = outcome.usage or (reply.usage if reply else None)
    if outcome.state == "passed" and reply is not None:
        return Said(_text(reply), usage=usage, about=about)
    if outcome.state == "kicked" and reply is not None and _text(reply).strip():
        if reply.finish == "length":
            return Said(_text(reply), "length", usage=usage, about=about)
        if reply.finish == "refusal" or (chat.schema is None and reply.finish == "stop"):
            return Said(_text(reply), refused=True, usage=usage, about=about)
    why = "; ".join(outcome.reasons) or "no reason was given"
    raise _REFUSALS[outcome.state](outcome, why)


def _text(reply: Reply) -> str:
    if reply.text or reply.data is None:
        return reply.text
    return reply.data if isinstance(reply.data, str) else _encode(reply.data).decode()


def _failed(outcome: Outcome, why: str) -> Refused:
    if outcome.too_long:
        return Refused(why, code="context_length_exceeded", param="messages")
    return Refused(f"no member gave an answer: {why}", status=502, code="member_failed")


def _not_good(outcome: Outcome, why: str) -> Refused:
    return Refused(f"the reply did not pass: {why}", status=422, code=outcome.state)


def _lost(outcome: Outcome, why: str) -> Refused:
    return Refused(why, status=502, code=outcome.state)


_REFUSALS: Mapping[str, Callable[[Outcome, str], Refused]] = {
    "failed": _failed,
    "kicked": _not_good,
    "unjudged": _not_good,
    "unfunded": lambda _, why: Refused(why, status=402, code="insufficient_quota"),
    "in_doubt": _lost,
    "cancelled": _lost,
    "skipped": _not_good,
    "passed": _not_good,  # without a reply: not by a run
}
