"""What a run of codex takes, from its rollout file: one record for each reply of the model.

The log itself tells it only when all is over, and then for the whole thread, earlier runs included.
The rollout's record is there as soon as a reply is, before the tools that it calls are run, and
compactions of the context have theirs too (measured with 0.166.0).
"""

from __future__ import annotations

from typing import Any

import msgspec

from fanfold.members.agents.dialect import ConversationSize, moment
from fanfold.members.agents.worker import CallSize
from fanfold.members.printed import count, decoded
from fanfold.price import Price, cost, nanos, worst
from fanfold.work.ask import Usage

CONTEXT = 272_000
OUTPUT = 128_000
"""The most that one call can take in and give out: codex states no bound of its own for its output,
so it is the model's."""
LONG = 32_000
"""Tokens of a reply that money is reserved for. codex can be told no limit; one that is longer, and
passes what is reserved, is recorded as an overrun."""
FIRST = 32_000  # tokens of its own instructions and tools, at most: the first call takes them
BEGUN = 4_096  # tokens that a call can have written before the host looks the next time
_HEAD = 200  # of a line: its type is there, and most lines are long and of no interest


def tokens(counted: Any) -> Usage:
    """Cached tokens are part of the input here; reasoning is part of the output."""
    if not isinstance(counted, dict):
        return Usage()
    read = count(counted.get("cached_input_tokens"))
    write = count(counted.get("cache_write_input_tokens"))
    whole = count(counted.get("input_tokens"))
    return Usage(max(0, whole - read - write), count(counted.get("output_tokens")), read, write)


def less(whole: Usage, part: Usage) -> Usage:
    """Never below nothing."""
    names = Usage.__struct_fields__
    return Usage(*(max(0, getattr(whole, name) - getattr(part, name)) for name in names))


class CodexMeter:
    """`price` None: tokens only. A flat price per call is for the whole run, however many replies.

    Records and the thread's closing sum may come in any order. `resumed`: that sum holds earlier
    runs of the thread too.
    """

    def __init__(
        self, price: Price | None, *, resumed: bool = False, call: CallSize | None = None
    ) -> None:
        self._rates = None if price is None else msgspec.structs.replace(price, call=0.0)
        self._flat = 0 if price is None else nanos(price.call)
        self._resumed = resumed
        self._base: Usage | None = None  # what the thread had taken before
        self._recorded, self._amount = Usage(), 0
        self._seen: set[str] = set()
        self._summed = False  # there were no records, only sums
        self._closing: Usage | None = None
        self.asking = True  # nothing says that the model is not being asked just now
        self.again = False  # its last reply wants tools used, so it will be asked once more
        self.model: str | None = None
        self.context = ConversationSize(call or CallSize(CONTEXT, OUTPUT), FIRST, resumed=resumed)

    # ── what is told ──

    def feed(self, line: bytes) -> None:
        """A line of the rollout."""
        head = line[:_HEAD]
        if b'"token_usage_record"' in head:
            self._record(_payload(line))
        elif b'"token_count"' in head:
            self._sum(_payload(line).get("info"))
        elif b'"response_item"' in head:
            self._item(line, head)
        elif b'"turn_context"' in head:
            model = _payload(line).get("model")
            self.model = model if isinstance(model, str) else self.model

    def _item(self, line: bytes, head: bytes) -> None:
        """A part of the conversation: what its tools gave back is sent with the next call."""
        if b'_output"' in head:
            self.asking, self.again = True, False
            self.context.grew(len(line))
            self.context.asked(moment(_event(line).get("timestamp")))
        elif b'_call"' in head:
            self.again = True
        elif not self._seen:
            self.context.grew(len(line))
            self.context.asked(moment(_event(line).get("timestamp")))

    def close(self, whole: Usage) -> None:
        """The thread's own sum, at the end of the run."""
        self._closing = whole

    def _record(self, told: dict[str, Any]) -> None:
        name = f"{told.get('turn_id')}:{told.get('response_id')}"
        if name in self._seen:
            return
        self._seen.add(name)
        self.asking = False
        usage = tokens(told.get("usage"))
        if self._base is None:
            self._base = less(tokens(told.get("thread_token_usage")), usage)
        self.context.replied(usage.total)
        self._add(usage)

    def _sum(self, told: Any) -> None:
        """Over the thread. Without records (an older codex) it is what there is to go by."""
        if not isinstance(told, dict):
            return
        if self._seen and not self._summed:
            return
        self._summed = True
        whole, last = tokens(told.get("total_token_usage")), tokens(told.get("last_token_usage"))
        if self._base is None:
            self._base = less(whole, last)
        more = less(less(whole, self._base), self._recorded)
        if more.total:
            self._seen.add(f"sum {whole.total}")
            self.context.replied(last.total)
            self._add(more)

    def _add(self, usage: Usage) -> None:
        self._recorded += usage
        self._amount += self._priced(usage)

    # ── what it comes to ──

    @property
    def replies(self) -> int:
        return len(self._seen)

    @property
    def usage(self) -> Usage:
        return self._recorded + self._rest

    @property
    def cost(self) -> int | None:
        """Nano-dollars; each reply by itself, since a long one may cost more for each token."""
        if self._rates is None:
            return None
        return self._flat + self._amount + self._priced(self._rest)

    @property
    def sure(self) -> bool:
        """False: earlier runs may be in it, since nothing says what was there before."""
        return self._base is not None or not self._resumed

    @property
    def _rest(self) -> Usage:
        """What the closing sum has and no record says."""
        if self._closing is None:
            return Usage()
        return less(less(self._closing, self._base or Usage()), self._recorded)

    def _priced(self, usage: Usage) -> int:
        if self._rates is None:
            return 0
        read, write = usage.cache_read, usage.cache_write
        return cost(self._rates, usage.input, usage.output, read, write)

    def one_call(self, output: int) -> int:
        """The most that one more call of the context, as it is now, can take; 0 without a price."""
        return 0 if self._rates is None else worst(self._rates, self.context.tokens, output)


def _event(line: bytes) -> dict[str, Any]:
    event = decoded(line)
    return event if isinstance(event, dict) else {}


def _payload(line: bytes) -> dict[str, Any]:
    payload = _event(line).get("payload")
    return payload if isinstance(payload, dict) else {}
