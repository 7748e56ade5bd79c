"""Asks about two records at a time: are they the same? Each pair is a planned item of its own, `a|b`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from fanfold.errors import BadInput
from fanfold.gates.combine import all_of
from fanfold.patterns.map_reduce import map_batch
from fanfold.patterns.prompt import Prompt, make_task
from fanfold.run.planning import Batch
from fanfold.run.run import Run
from fanfold.work import check
from fanfold.work.ask import Ask, Reply
from fanfold.work.blocking import Blocked
from fanfold.work.cluster import PairAnswer
from fanfold.work.item import Item, canonical
from fanfold.work.options import option
from fanfold.work.outcome import PASS, Verdict, fail
from fanfold.work.task import AskPower, Task, Terms, known_as

_decode = msgspec.json.Decoder().decode
_SAME = {"same": True, "yes": True, "true": True, "different": False, "no": False, "false": False}
_FORM = 'say whether the two are the same: {"same": true} or {"same": false}'


def pair_prompt(prompt: str | None, a: str, b: str) -> str:
    """What is asked about two records, called `item.a` and `item.b`, say. A text that does not show
    them has them appended, and how to answer."""
    text = option("prompt", prompt, check.text) or "Do these two records describe the same thing?"
    if "item" in text:
        return text
    shown = "\n\n".join(f"{name.title()}: {{{{ item.{name} | tojson }}}}" for name in (a, b))
    return f'{text.rstrip()}\n\n{shown}\n\nAnswer {{"same": true}} or {{"same": false}}.'


def same_or_not(value: Any) -> bool | None:
    """What an answer says; None: it does not say. An object says it in its field `same`."""
    if isinstance(value, dict):
        value = value.get("same")
    if not isinstance(value, str):
        return value if isinstance(value, bool) else None
    text = value.strip()
    if text.startswith("{"):
        try:
            return same_or_not(_decode(text.encode()))
        except msgspec.DecodeError:
            return None
    first = text.casefold().split(maxsplit=1)[:1]
    return _SAME.get(first[0].strip(".,;:!\"'")) if first else None


def _says_same(task: Task, reply: Reply, ask: AskPower) -> Verdict:
    return PASS if same_or_not(reply.value) is not None else fail(_FORM)


def pair_terms(terms: Terms) -> Terms:
    """On which terms pairs are asked about: an answer must say what it is asked."""
    refuse_keep(terms)
    gate = all_of(terms.gate, known_as("pure", _says_same))
    return msgspec.structs.replace(terms, gate=gate, keep=None)


def refuse_keep(terms: Terms) -> None:
    """A comparison is an answer that the result needs, whatever it says."""
    if terms.keep is not None:
        raise BadInput("`keep` is for replies about items, not about comparisons of them")


def pair_id(*ids: str) -> str:
    """`a|b`; a bar in an id is escaped, so that no two pairs have one id."""
    return "|".join(id.replace("\\", "\\\\").replace("|", "\\|") for id in ids)


class PairSource:
    """A Source of pairs: `left` and `right` are called `a` and `b`, or as `names` says, in each."""

    def __init__(
        self, left: Sequence[Item], right: Sequence[Item], blocked: Blocked, names: tuple[str, str]
    ) -> None:
        self._left, self._right, self._names = left, right, names
        self.blocked = blocked

    def walk(self, skip: bytes | bytearray = b"") -> Iterator[tuple[int, Item]]:
        first, second = self._names
        for position, pair in enumerate(self.blocked.pairs):
            if position >= len(skip) or not skip[position]:
                a, b = self._left[pair.a], self._right[pair.b]
                yield position, Item(pair_id(a.id, b.id), {first: a.view(), second: b.view()})

    def fingerprint(self) -> str:
        whole = blake2b(digest_size=16)
        for _, item in self.walk():
            whole.update(canonical([item.id, item.data]))
        return whole.hexdigest()

    def asks(self, prompt: Prompt, terms: Terms) -> Iterator[Ask]:
        return (make_task(prompt, item, terms, None).ask for _, item in self.walk())


class Answered(NamedTuple):
    """The answers that passed, and the ids of the pairs that have none."""

    answers: list[PairAnswer]
    unanswered: list[str]
    batch: Batch


async def ask_pairs(
    run: Run, pairs: PairSource, terms: Terms, prompt: Prompt, *, govern: bool
) -> Answered:
    """Ask about each pair. `govern`: how many there are was in no preview, so may they be asked?"""
    batch = await run.plan(pairs, terms)
    if govern:
        await run.govern(terms, pairs.asks(prompt, terms))
    await map_batch(run, batch, terms, prompt)
    run.pause_if_unpaid()
    answers = []
    for part in run.passed(batch, terms):
        a, b, score = pairs.blocked.pairs[part.position]
        answers.append(PairAnswer(a, b, bool(same_or_not(part.value)), score))
    return Answered(answers, [one.id for one in run.missing(batch, terms)], batch)


def one_of_words(name: str, given: Any, words: Sequence[str]) -> Any:
    if given not in words:
        raise BadInput(f"`{name}` is {' or '.join(words)}, not {given!r}")
    return given
