"""Divide and conquer: split until a piece fits, ask about the pieces, combine bottom-up."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Unpack, cast

import msgspec

from fanfold.errors import BadInput, FanfoldError
from fanfold.patterns.arguments import (
    Folded,
    KnowsMembers,
    NoValue,
    PatternOptions,
    TaskHandler,
    pattern,
    prompt_for,
    reply_of,
    terms_of,
)
from fanfold.patterns.asked_reduce import AskedReduce, begin_asked
from fanfold.patterns.conquer import DivideRun, Problem, ending
from fanfold.patterns.prompt import Prompt, check_prompt, prompt_of
from fanfold.run.planning import Batch
from fanfold.run.run import Run
from fanfold.run.sources import Rows, source_of
from fanfold.work.arguments import at_once, public, refuse_async
from fanfold.work.ask import Ask, Message
from fanfold.work.check import whole
from fanfold.work.cut import Cutter, SplitMethod, Splitter
from fanfold.work.item import Item, Source, canonical
from fanfold.work.nearest import quoted, remedy
from fanfold.work.neighbours import Around, Neighbours
from fanfold.work.options import instance, needed, reducer
from fanfold.work.outcome import Outcome
from fanfold.work.pieces import Fits, Piece
from fanfold.work.raised import error_text
from fanfold.work.split import estimate_tokens, message_tokens
from fanfold.work.task import Reducer, Task, Terms
from fanfold.work.template import unshown

SPLITS = ("items", "paragraphs")


class Division(msgspec.Struct, frozen=True):
    """The options of a divide beside its prompt and terms.

    `split` is how one item that does not fit alone is split: `items` (not at all), `paragraphs`, a
    function from its data to a list of data, or a member that is asked for such a list.
    `max_pieces` are the pieces that are asked about, `max_depth` the splits above any of them.
    `around`: what goes with a stretch of a text of those beside it.
    """

    combine: Reducer | AskedReduce
    fits: Fits = Fits()
    split: str | Splitter | AskedReduce = "items"
    max_depth: int = 8
    max_pieces: int = 1000
    around: Around = Around()

    def __post_init__(self) -> None:
        if not isinstance(self.combine, AskedReduce):
            reducer("combine", self.combine)
        needed("fits", self.fits, instance(Fits, "Fits(…)"))
        if isinstance(self.split, str) and self.split not in SPLITS:
            raise BadInput(f"unknown split {quoted(self.split)}: {remedy(self.split, SPLITS)}")
        if not isinstance(self.split, str | AskedReduce) and not callable(self.split):
            raise BadInput(f"`split` is a word, a function or asked(...), not {self.split!r}")
        refuse_async("`split`", self.split)
        for name, limit in (("max_depth", self.max_depth), ("max_pieces", self.max_pieces)):
            needed(name, limit, whole(least=1))
        if self.around and self.split != "paragraphs":
            raise BadInput('`context_before` and `context_after` need `split="paragraphs"`')

    @property
    def method(self) -> SplitMethod:
        return "asked" if isinstance(self.split, AskedReduce) else cast(SplitMethod, self.split)

    @property
    def splitter(self) -> AskedReduce | None:
        """Who is asked to split."""
        return self.split if isinstance(self.split, AskedReduce) else None

    async def begin(self, run: Run) -> None:
        """Before the first ask: whoever splits and combines is there."""
        for other in (self.splitter, self.combine):
            if isinstance(other, AskedReduce):
                await begin_asked(run, other)


class DivideOptions(PatternOptions, total=False):
    """How items are split (see `Division`): `fits`, `split` (`items`, for a stage `paragraphs`),
    `max_depth` (8), `max_pieces` (1000); what a piece is given of those beside it."""

    fits: Fits
    split: str | Splitter | AskedReduce
    max_depth: int
    max_pieces: int
    context_before: Neighbours | None
    context_after: Neighbours | None


def division_of(
    combine: Reducer | AskedReduce, how: DivideOptions, split: str = "items"
) -> Division:
    """`split`: how, where nothing else is stated."""
    stated = {name: how[name] for name in _STATED if name in how}  # type: ignore[literal-required]
    around = Around(how.get("context_before"), how.get("context_after"))
    return Division(combine, around=around, **{"split": split, **stated})


_STATED = ("fits", "split", "max_depth", "max_pieces")


@pattern
async def divide_and_conquer(
    run: Run,
    items: str | Source | Iterable[Any],
    *,
    combine: Reducer | AskedReduce,
    prompt: str | None = None,
    schema: dict[str, Any] | type | None = None,
    **how: Unpack[DivideOptions],
) -> Folded:
    """Split all items, or one text, into pieces that fit, ask `prompt` about each, and combine.

    Items stay together as long as they fit: `items` in the prompt are those of one piece. A prompt
    that shows only `item` is about one item (or a part of one) at a time. A function member gets
    `{"items": [...], "text": ...}`, the data of the piece's items and their texts; the plain data
    when a piece never has more than one, as for a text or with `fits=Fits(items=1)`.

    `combine` works on the parts of each split, bottom-up: a reducer, also on a single piece, or
    `asked(...)`, which is not asked for one piece alone. Of no items it is the reducer of nothing,
    or None. An item passes when every piece of it did; what did not is missing from the result.

    With `split="paragraphs"`, `context_before=Neighbours(paragraphs=1)` gives each piece so much of
    what stands before it as its field `context_before`, and `context_after` of what comes after it.
    These are for reading only: a gate looks for quotes in the piece's own `text`.
    """
    division = division_of(combine, how)
    asked = prompt_of(prompt, schema, how=how)
    terms = terms_of(how, asked.schema, "divide")
    check_prompt(asked, terms, run.traits(terms))
    _measure(run, terms, asked, division.fits)
    given = items
    if isinstance(items, str):
        given, one = [items], msgspec.structs.replace(division.fits, items=1)
        division = msgspec.structs.replace(division, fits=one)
    batch = await run.plan(source_of(given, run.spool), terms)
    value = await divide_batch(run, batch, terms, asked, division)
    run.set_result(value)
    return Folded(value, run.receipt(), run, batch, terms)


async def divide_batch(
    run: Run, batch: Batch, terms: Terms, prompt: Prompt, division: Division
) -> Any:
    """The same for a batch that is planned: the combined value. Each item has its outcome then."""
    cutter, ask = cutting(run, terms, prompt, division)
    await division.begin(run)
    problem = Problem(run, batch, terms, ask, cutter, division.combine, division.splitter)
    return await DivideRun(problem).result()


# ── one item, as a stage ─────────────────────────────────────────────────────────────────────


@public
def divided(
    prompt: str | None = None,
    *,
    combine: Reducer | AskedReduce,
    schema: dict[str, Any] | type | None = None,
    **how: Unpack[DivideOptions],
) -> TaskHandler:
    """A divide of each item for a stage, with the arguments of `divide_and_conquer`:
    `stage(by=divided(...))`. The item passes when every piece of it did; its value is the combined
    one, which the stage's gate judges."""
    made = prompt_of(prompt, schema, how=how)
    terms = terms_of(how, made.schema, "divide")
    return DividedItem(made, terms, division_of(combine, how, "paragraphs"))


class DividedItem(msgspec.Struct, frozen=True):
    """The way of a task through the pieces of its item."""

    prompt: Prompt
    terms: Terms
    division: Division

    async def begin(self, run: Run) -> None:
        """Before the first ask: those who work on the pieces are there, and who combines them."""
        await run.begin(self.terms)
        check_prompt(self.prompt, self.terms, run.traits(self.terms))
        _measure(run, self.terms, self.prompt, self.division.fits)
        await self.division.begin(run)

    async def __call__(self, run: Run, task: Task) -> Outcome:
        division, whole = self.division, Rows([task.ask.items[0]])
        cutter, ask = cutting(run, self.terms, self.prompt, division)
        problem = Problem(run, whole, self.terms, ask, cutter, division.combine, division.splitter)
        work = DivideRun(problem)
        try:
            value = await work.result()
            ended = ending(task.id, work.first_missing)
            if ended.state != "passed":
                return run.settle(task, ended)
            reply = reply_of(value, "combine")
        except (NoValue, BadInput) as error:
            return run.settle(task, Outcome(task.id, "failed", reasons=(str(error),)))
        state, verdict = await run.judge(task, reply)
        return run.settle(task, Outcome(task.id, state, reply, verdict.reasons))


# ── how items become pieces ──────────────────────────────────────────────────────────────────


def cutting(
    run: KnowsMembers, terms: Terms, prompt: Prompt, division: Division
) -> tuple[Cutter, PieceAsk]:
    """How items become pieces, and a piece an ask."""
    fits = _measure(run, terms, prompt, division.fits)
    cutter = Cutter(fits, division.method, division.max_depth, division.max_pieces, division.around)
    alone = _limit(prompt, division.fits) == 1
    return cutter, PieceAsk(prompt_for(run, terms, prompt), alone)


# ── how a piece is asked about ───────────────────────────────────────────────────────────────


class PieceAsk(msgspec.Struct, frozen=True):
    """From a piece to its ask. `alone`: a piece never has more than one item."""

    prompt: Prompt
    alone: bool

    def __call__(self, piece: Piece) -> Ask:
        ask = _shown(self.prompt, piece)
        if self.alone:
            return ask
        return msgspec.structs.replace(ask, items=(Item(piece.id, _together(piece.items)),))


def _shown(prompt: Prompt, piece: Piece) -> Ask:
    """What the prompt does not show by itself is appended, each item under its id."""
    ask = prompt.ask(piece.items)

    def items() -> str:
        return "\n\n".join(f"### {item.id}\n{_text(item)}" for item in piece.items)

    more = "" if prompt.user is None else unshown(prompt.shows, (("item", "items"), items))
    if not more:
        return ask
    *system, user = ask.messages
    said = f"{user.content.rstrip()}\n\n{more}"
    return msgspec.structs.replace(ask, messages=(*system, Message("user", said, user.parts)))


def _text(item: Item) -> str:
    text = item.view().get("text")
    return text if isinstance(text, str) else canonical(item.data).decode()


def _together(items: tuple[Item, ...]) -> dict[str, Any]:
    """What a function receives, and where a gate looks for quotes."""
    texts = [item.view().get("text") for item in items]
    said = [text for text in texts if isinstance(text, str)]
    return {"items": [item.data for item in items], "text": "\n\n".join(said)}


# ── what fits ────────────────────────────────────────────────────────────────────────────────


def _measure(
    run: KnowsMembers, terms: Terms, prompt: Prompt, fits: Fits
) -> Callable[[Piece], bool]:
    """Whether a piece fits: as stated, and in the context of those who may answer."""
    items, test = _limit(prompt, fits), fits.test
    tokens = fits.tokens or _room(run, terms, prompt)
    if tokens is None and fits.items is None and test is None:
        raise BadInput(
            "no member that may answer states a context, so the size of a piece is not known: set"
            " `fits`, such as fits=Fits(tokens=3000)"
        )
    reads = run.reads_messages(terms)

    def fit(piece: Piece) -> bool:
        if items is not None and len(piece.items) > items:
            return False
        if tokens is not None or reads:
            size = _size(prompt if reads else Prompt(), piece)
            if tokens is not None and size > tokens:
                return False
        return test is None or _says(test, piece)

    return fit


def _limit(prompt: Prompt, fits: Fits) -> int | None:
    """How many items may be in a piece; one, when the prompt shows no more than one."""
    if not prompt.shows("item") or prompt.shows("items"):
        return fits.items
    if fits.items not in (None, 1):
        raise BadInput(
            f"a piece may have {fits.items} items, but the prompt shows only `item`: show `items`"
        )
    return 1


def _room(run: KnowsMembers, terms: Terms, prompt: Prompt) -> int | None:
    """The tokens that the smallest known context leaves for a prompt."""
    most = prompt.params.max_tokens
    known = [(one.context, one) for one in run.traits(terms) if one.context is not None]
    if not known:
        return None
    room, least = min(
        ((context - (most or one.max_tokens), one.id) for context, one in known),
    )
    if prompt.schema is not None:
        room -= estimate_tokens(canonical(prompt.schema.definition).decode())
    if room < 1:
        raise BadInput(
            f"the context of member {least} is used up by its max_tokens: no room for a prompt"
        )
    return room


def _size(prompt: Prompt, piece: Piece) -> int:
    """About how many tokens: of the prompt, or of what a function receives."""
    said = _shown(prompt, piece).messages
    if said:
        return sum(map(message_tokens, said))
    return sum(estimate_tokens(canonical(item.data).decode()) for item in piece.items)


def _says(test: Callable[[Piece], bool], piece: Piece) -> bool:
    try:
        return bool(at_once(test(piece)))
    except Exception as error:
        raise FanfoldError(f"`{piece.id}`: the test of `fits` raised {error_text(error)}") from None
