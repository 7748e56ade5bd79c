"""Rank: the items in order, by comparing a few of them at a time in the rounds of a tournament."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from string import ascii_uppercase
from typing import Any, Unpack

import msgspec

from fanfold.errors import BadInput
from fanfold.gates.combine import all_of
from fanfold.patterns.arguments import Folded, PatternOptions, pattern, terms_of
from fanfold.patterns.asked_reduce import placeholder_asks
from fanfold.patterns.gathered import Gathered, passed, terms_of_nobody, terms_within
from fanfold.patterns.map_reduce import map_batch
from fanfold.patterns.pairs import pair_id, refuse_keep
from fanfold.patterns.prompt import Prompt, check_prompt, prompt_of
from fanfold.run.planning import Batch
from fanfold.run.run import Run
from fanfold.run.sources import Rows, source_of
from fanfold.work.ask import Reply
from fanfold.work.check import text, whole
from fanfold.work.item import Item, Source
from fanfold.work.options import needed, option
from fanfold.work.outcome import PASS, Outcome, Verdict, fail
from fanfold.work.ranking import Tournament, planned_windows, usual_rounds
from fanfold.work.task import AskPower, Task, Terms, known_as

MOST = len(ascii_uppercase)
_decode = msgspec.json.Decoder().decode
_BETWEEN = re.compile(r"[\s>,;]+")


class RankingWay(msgspec.Struct, frozen=True):
    """How it is done. `terms` are those of the comparisons, `items` those on which items are settled.
    `rounds` None: as many as are usual for so many items."""

    items: Terms
    terms: Terms
    prompt: Prompt
    window: int = 2
    rounds: int | None = None
    seed: int = 0

    def rounds_of(self, items: int) -> int:
        return self.rounds or usual_rounds(items, self.window)


@pattern
async def rank(
    run: Run,
    items: Source | Iterable[Any],
    *,
    prompt: str | None = None,
    schema: dict[str, Any] | type | None = None,
    window: int = 2,
    rounds: int | None = None,
    seed: int = 0,
    **how: Unpack[PatternOptions],
) -> Folded:
    """Put the items in order, the best first. In each of the `rounds`, items that did about as well
    so far are compared, `window` at a time; n items take about n / window asks in a round.

    The prompt sees `item.choices`, a list of {"label", "item"}; an answer names the labels, the best
    first: {"order": ["B", "A"]}, or `B > A`. The value is a list of {"id", "rank", "score"}; the
    reply of each item has the same with `compared`, the number of others it was compared with.
    """
    check_window(needed("window", window, whole(least=2)))
    option("rounds", rounds, whole(least=1))
    needed("seed", seed, whole())
    said = option("prompt", prompt, text)
    asked = prompt_of(said and rank_prompt(said), schema, how=how)
    terms = terms_of(how, asked.schema, "rank")
    compared = rank_terms(terms_within(terms, "compare"))
    way = RankingWay(terms_of_nobody(terms.step), compared, asked, window, rounds, seed)
    check_prompt(asked, way.terms, run.traits(way.terms))
    await run.begin(way.terms)
    batch = await run.plan(source_of(items, run.spool), way.items)
    value = await rank_batch(run, batch, way)
    run.set_result(value)
    return Folded(value, run.receipt(), run, batch, way.items)


def check_window(window: int) -> None:
    if window > MOST:
        raise BadInput(f"`window` is at most {MOST} items, not {window}")


async def rank_batch(
    run: Run, batch: Batch, way: RankingWay, *, govern: bool = False
) -> list[dict[str, Any]]:
    """Of the items of a batch, which are settled on `way.items`."""
    gathered = Gathered(batch)
    items, many = gathered.items, len(gathered.items)
    if govern:
        asks = planned_windows(many, way.window, way.rounds_of(many))
        await run.govern(way.terms, placeholder_asks(sum(1 for _ in asks)))
    contest = Tournament(many, way.window, way.seed)
    most = many * (many - 1) // 2 if way.window == 2 else way.rounds_of(many) * many // 2
    run.needs.add(way.terms.step, min(most, way.rounds_of(many) * -(-many // way.window)))
    for number in range(1, way.rounds_of(many) + 1):
        windows = contest.windows()
        if not windows:  # all have met
            break
        await _round(run, items, contest, windows, way, number)
    scores, compared = contest.scores(), contest.compared
    order = sorted(
        (n for n in range(many) if compared[n] or many == 1), key=lambda n: (-scores[n], n)
    )
    found = {
        n: {"rank": at, "score": scores[n], "compared": compared[n]}
        for at, n in enumerate(order, 1)
    }
    await gathered.settle(
        run, way.items, (_ranked(item, found.get(n)) for n, item in enumerate(items))
    )
    return [{"id": items[n].id, "rank": found[n]["rank"], "score": scores[n]} for n in order]


def _ranked(item: Item, found: dict[str, Any] | None) -> Outcome:
    if found is None:
        return Outcome(item.id, "failed", reasons=("no comparison of it was answered",))
    return passed(item, found)


async def _round(
    run: Run, items: Sequence[Item], contest: Tournament, windows: list[list[int]], way: RankingWay,
    number: int,
) -> None:  # fmt: skip
    rows = [compared_item(items, window, f"{number}.{n}") for n, window in enumerate(windows, 1)]
    run.needs.add(way.terms.step, -len(rows))
    batch = await run.plan(Rows(rows), way.terms, name=f"{way.items.step}.round{number}")
    await map_batch(run, batch, way.terms, way.prompt)
    run.pause_if_unpaid()
    for part in run.passed(batch, way.terms):
        window = windows[part.position]
        said = order_in(part.value, len(window))
        assert isinstance(said, list)
        contest.found([window[n] for n in said])


def compared_item(items: Sequence[Item], window: Sequence[int], id: str) -> Item:
    """Several items as one that is asked about; two of them are known as `a|b`."""
    labels = zip(ascii_uppercase, window, strict=False)
    choices = [{"label": label, "item": items[n].view()} for label, n in labels]
    if len(window) == 2:
        id = f"{id.split('.')[0]}:{pair_id(*(items[n].id for n in window))}"
    return Item(id, {"choices": choices})


def rank_prompt(prompt: str) -> str:
    """A text that does not show the items has them appended, and how to answer."""
    if "choices" in prompt or "item" in prompt:
        return prompt
    shown = "{% for one in item.choices %}{{ one.label }}: {{ one.item | tojson }}\n\n{% endfor %}"
    return f'{prompt.rstrip()}\n\n{shown}Answer {{"order": [labels, the best first]}}.'


def rank_terms(terms: Terms) -> Terms:
    """On which terms items are compared: an answer must give an order of all."""
    refuse_keep(terms)
    gate = all_of(terms.gate, known_as("pure", _orders_all))
    return msgspec.structs.replace(terms, gate=gate, keep=None)


def _orders_all(task: Task, reply: Reply, ask: AskPower) -> Verdict:
    said = order_in(reply.value, len(task.ask.items[0].data["choices"]))
    return PASS if isinstance(said, list) else fail(said)


def order_in(value: Any, many: int) -> list[int] | str:
    """The places of the labels that an answer names, the best first; or what is wrong with it. Of two
    the better one suffices."""
    if isinstance(value, str) and value.lstrip().startswith(("{", "[")):
        try:
            return order_in(_decode(value.encode()), many)
        except msgspec.DecodeError:
            return "the answer is not valid JSON"
    if isinstance(value, dict):
        value = value.get("order", value.get("best"))
    labels = ascii_uppercase[:many]
    said = _BETWEEN.split(value.strip()) if isinstance(value, str) else value
    if not isinstance(said, list):
        said = []
    said = [str(one).strip().strip(".\"'").upper() for one in said]
    if many == 2 and len(said) == 1:
        said += [label for label in labels if label not in said]
    if sorted(said) != list(labels):
        return f"name each of the labels {', '.join(labels)} once, the best first"
    return [labels.index(one) for one in said]
