"""Did a call take more than was reserved for it? Then no worst case holds for its member any more."""

from __future__ import annotations

from fanfold.price import dollars
from fanfold.run.ledger import Sum
from fanfold.work.ask import Reply
from fanfold.work.member import Request, Traits

OF_THE_USER = ("function", "command", "replay")
"""Kinds that may do without a model: they are not sent a bound of tokens, nor our words alone."""


def overrun(traits: Traits, request: Request, reserved: Sum, reply: Reply, actual: Sum) -> str:
    """Why nothing more is to be sent to the member, in one line; empty while it keeps its bounds.

    An agent decides itself how often it asks; its own cap bounds it (`members/agents/bounds`).
    """
    if traits.agent or not traits.metered:
        return ""
    most, usage = request.output_tokens, reply.usage
    if usage is not None and traits.kind not in OF_THE_USER and usage.output > most:
        return (
            f"{traits.id}: it does not keep max_tokens ({usage.output:,} tokens for {most:,}), so"
            " nothing bounds what it costs; nothing more is sent to it"
        )
    if traits.price is not None and actual.usd > reserved.usd:
        took, bound = dollars(actual.usd), dollars(reserved.usd)
        return (
            f"{traits.id}: a call took ${took:.6f}, but at most ${bound:.6f} by its price; correct"
            " `price` in the roster"
        )
    return ""
