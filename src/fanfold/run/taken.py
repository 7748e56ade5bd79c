"""What a call took, by its reply or by what went wrong: known, or the most it can have been."""

from __future__ import annotations

from fanfold.errors import InvalidReply, MemberError, StoreError
from fanfold.price import cost, nanos
from fanfold.run.ledger import ONE_CALL, Sum
from fanfold.work.ask import Reply
from fanfold.work.member import Traits
from fanfold.work.raised import error_text


def actual_of(traits: Traits, reserved: Sum, reply: Reply) -> Sum:
    """What the call took: as the member said, else by its tokens, else the worst case stands."""
    if not traits.metered:
        return ONE_CALL
    usage = reply.usage
    tokens = reserved.tokens if usage is None else usage.total
    if reply.cost_usd is not None:
        return Sum(nanos(reply.cost_usd), tokens, 1)
    if usage is None or traits.price is None:
        return Sum(reserved.usd, tokens, 1)
    usd = cost(traits.price, usage.input, usage.output, usage.cache_read, usage.cache_write)
    return Sum(usd, tokens, 1)


def is_bound(traits: Traits, reply: Reply) -> bool:
    """It reports neither cost nor tokens, so its worst case stands."""
    if not traits.metered or reply.cost_usd is not None:
        return False
    return reply.usage is None or traits.price is None


def spent_on(error: Exception, reserved: Sum) -> Sum:
    """As the member knows; else all that was reserved when it may have been carried out."""
    if isinstance(error, MemberError) and error.cost is not None and error.cost >= 0:
        return Sum(error.cost, 0 if error.usage is None else error.usage.total, 1)
    return reserved if is_lost(error) or isinstance(error, InvalidReply) else Sum()


def bounded(error: Exception) -> bool:
    """Whether what it counts as is the most it can have cost; else it is known."""
    if isinstance(error, MemberError) and error.cost is not None:
        return error.bound
    return is_lost(error) or isinstance(error, InvalidReply)


def is_lost(error: Exception) -> bool:
    """A defect inside a member says nothing about what was sent, so it counts as lost too."""
    return error.lost if isinstance(error, MemberError) else not isinstance(error, StoreError)


def one_line(error: Exception) -> str:
    text = str(error) if isinstance(error, MemberError) else error_text(error)
    return " ".join(text.encode("utf-8", "replace").decode().split())[:500]
