"""What a call took: by its reply or by what went wrong; known, or the most it can have been."""

from __future__ import annotations

from typing import NamedTuple

from fanfold.errors import InvalidReply, MemberError, StoreError
from fanfold.price import cost, dollars, nanos
from fanfold.work.ask import Ask, Reply
from fanfold.work.budget import NOTHING, ONE_CALL, Amount
from fanfold.work.member import Request, Traits
from fanfold.work.raised import error_text
from fanfold.work.usage import is_possible, with_plausible_usage

OF_THE_USER = ("function", "command", "replay")
"""Kinds that may do without a model: they are not sent a bound of tokens, nor our words alone."""


def plausible(traits: Traits, request: Request, reply: Reply) -> Reply:
    """Usage that no call can have is no usage: the worst case stands. Only where a model gets our
    words as they are can usage be compared with them."""
    if traits.kind in OF_THE_USER:
        return with_plausible_usage(reply)
    return with_plausible_usage(reply, _sent(request.ask))


def _sent(ask: Ask) -> list[str]:
    """What a model gets word for word, the results of its tools included."""
    texts = [message.content for message in ask.conversation()]
    for one in () if ask.tools is None else ask.tools.rounds:
        texts += [one.said, *one.results]
    return texts


class Charge(NamedTuple):
    """What a call took. `bound`: it reports neither cost nor tokens, so its worst case stands.
    `overrun`: why nothing more is to be sent to the member, in one line. `saved`: what it would have
    cost more without caches; below 0 where it only wrote."""

    amount: Amount
    bound: bool = False
    overrun: str = ""
    saved: int = 0


def charge(traits: Traits, reserved: Amount, reply: Reply, most: int) -> Charge:
    """As the member said, else by its tokens, else the worst case stands, which is what it costs where
    tokens do not count. `most` are the tokens that a reply may have. An agent decides itself how often
    it asks; its own cap bounds it (`members/agents/bounds`)."""
    if not traits.metered:
        return _FREE
    usage, price = reply.usage, traits.price
    tokens = reserved.tokens if usage is None else usage.total
    bound = False
    if reply.cost_usd is not None:
        usd = nanos(reply.cost_usd)
    elif usage is None or price is None:
        usd, bound = reserved.usd, traits.agent or price is None or not price.flat
    else:
        usd = cost(price, usage.input, usage.output, usage.cache_read, usage.cache_write)
    over = ""
    if not traits.agent and usage is not None and usage.output > most:
        over = "" if traits.kind in OF_THE_USER else (
            f"{traits.id}: it does not keep max_tokens ({usage.output:,} tokens for {most:,}),"
            " so nothing bounds what it costs; nothing more is sent to it"
        )  # fmt: skip
    over = over or more_than_stated(traits, reserved, usd)
    saved = 0
    if usage is not None and price is not None and (usage.cache_read or usage.cache_write):
        saved = cost(price, usage.total - usage.output, usage.output)
        saved -= cost(price, usage.input, usage.output, usage.cache_read, usage.cache_write)
    return Charge(Amount(usd, tokens, 1), bound, over, saved)


_FREE = Charge(ONE_CALL)


def more_than_stated(traits: Traits, reserved: Amount, usd: int) -> str:
    """Why nothing more is to be sent to a member whose call, answered or failed, took so much; "" where
    it kept to its price. An agent keeps to a cap of its own."""
    if traits.agent or traits.price is None or usd <= reserved.usd:
        return ""
    return (
        f"{traits.id}: a call took ${dollars(usd):.6f}, but at most"
        f" ${dollars(reserved.usd):.6f} by its price; correct `price` in the roster"
    )


def cost_of_error(error: Exception, reserved: Amount) -> Amount:
    """As the member knows; else all that was reserved when it may have been carried out."""
    if isinstance(error, MemberError) and error.cost is not None:
        tokens = 0 if error.usage is None else error.usage.total
        return Amount(error.cost, tokens, 1) if is_possible(error.cost) else reserved
    if isinstance(error, MemberError) and error.bound:
        return reserved
    return reserved if may_have_run(error) or isinstance(error, InvalidReply) else NOTHING


def error_is_upper_bound(error: Exception) -> bool:
    """Whether what it counts as is the most it can have cost; else it is known."""
    if isinstance(error, MemberError) and (error.bound or error.cost is not None):
        return error.bound or not is_possible(error.cost or 0)
    return may_have_run(error) or isinstance(error, InvalidReply)


def may_have_run(error: Exception) -> bool:
    """A defect inside a member says nothing about what was sent, so it counts as lost too."""
    return error.lost if isinstance(error, MemberError) else not isinstance(error, StoreError)


def one_line(error: Exception) -> str:
    text = str(error) if isinstance(error, MemberError) else error_text(error)
    clean = text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
    return " ".join(clean.split())[:500]


def shares(total: int, count: int) -> list[int]:
    """An amount, divided among so many; the first has the rest."""
    each = total // max(count, 1)
    return [each + (total - each * count if n == 0 else 0) for n in range(count)]
