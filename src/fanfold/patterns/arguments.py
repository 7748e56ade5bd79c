"""The arguments that the patterns have in common: who answers, how replies are judged, and what
happens when it goes wrong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from html import escape
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, TypeVar

import msgspec

from fanfold.errors import BadArgument, BadInput, FanfoldError
from fanfold.gates.default import standard
from fanfold.patterns.prompt import Prompt, check_prompt
from fanfold.patterns.tables import Table, missing_extra, write_table
from fanfold.run.planning import Batch
from fanfold.run.run import Run
from fanfold.work.arguments import Checked, at_once, is_uncalled, public, takes
from fanfold.work.ask import Reply, Schema
from fanfold.work.batch import HEDGE_AND_BATCH, TOOLS_AND_BATCH
from fanfold.work.check import described
from fanfold.work.files import replacing
from fanfold.work.item import canonical
from fanfold.work.member import Named, Traits
from fanfold.work.opening import CacheMode
from fanfold.work.options import HOW, TERMS, stated, who_of
from fanfold.work.outcome import Missing, Outcome, Part, Receipt
from fanfold.work.task import Budget, Gate, Hedge, InDoubt, OnFailure, Spread, Task, Terms
from fanfold.work.tool import CALLS, ROUNDS, StatedTool, StatedTools, script_tools
from fanfold.work.typed import as_type

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

TaskHandler: TypeAlias = Callable[[Run, Task], Awaitable[Outcome]]
"""How a task is carried to its outcome: by the run itself, by a vote, by a pattern inside."""
SHOWN, ROWS, COLUMNS, CELL = 4_000, 10, 12, 200  # of a result, in a notebook: letters, or a table


def pattern(fn: F) -> F:
    """A pattern for scripts, which may have several under way in a run."""

    def within(given: Mapping[str, Any], work: Coroutine[Any, Any, T]) -> Awaitable[T]:
        if isinstance(given["run"], Run):
            return given["run"].after_all_calls(work)
        work.close()
        swapped = next((name for name, one in given.items() if isinstance(one, Run)), None)
        if swapped is not None:
            call = f"{fn.__name__}(run, {swapped})"
            raise BadArgument(f"{fn.__name__}(): the run comes first: {call}")
        how = f"async with open_run(…) as run: await {fn.__name__}(run, …)"
        raise BadArgument(f"{fn.__name__}() needs a run that is open: {how}")

    return public(fn, within)


class PatternOptions(TypedDict, total=False):
    """`member` or `members` or `needs` say who; `use`: at most so many of them. `fallback`: these,
    in order, each only when all before it are closed or have failed. `spread`: when the best of
    those who fit cannot take a call now, the next best does (`overflow`), or it waits (`best`).

    All asks begin with `system`, `context` (texts, or files as `Path`) and `examples` (pairs of ask and
    reply, or a `Path` with JSON lines), in this order. Services that keep what many asks begin with
    are told so, and one ask goes ahead of the others; `cache="off"`: neither.

    `batch`: asks go to the batch service of their member, at a part of the price: `{"within": "6h"}`, or
    `"auto"`.

    `params` are sampling parameters: `temperature`, `top_p`, `max_tokens`, `seed`, `stop`, `reasoning`,
    `service_tier`. `attach`: fields of an item that name files (images, PDFs, audio) which go with its
    ask; paths are looked for in the current folder. `inputs`, `outputs`: paths and patterns below that
    folder, as templates over the item, that a command or an agent needs and leaves.

    `tools`: functions, `module:function` or `tool(…)` that whoever answers may call, at most
    `tool_rounds` times before it must answer, and `tool_calls` in one reply."""

    step: str
    member: str | Named
    members: Sequence[str | Named]
    needs: Sequence[str]
    use: int
    fallback: Sequence[str | Named]
    spread: Spread
    gate: Gate
    revise: int
    escalate: Sequence[str | Named]
    on_failure: OnFailure | Literal["partial"]
    in_doubt: InDoubt
    hedge: Hedge
    batch: str | Mapping[str, Any]
    attempts: int
    concurrency: int
    budget: Budget
    keep: Callable[[Any], bool]
    system: str | Path
    context: str | Path | Sequence[str | Path]
    examples: Path | Sequence[tuple[str, Any] | Mapping[str, Any]]
    cache: CacheMode
    params: Mapping[str, Any]
    attach: str | Sequence[str]
    inputs: str | Sequence[str]
    outputs: str | Sequence[str]
    tools: Sequence[Callable[..., Any] | str | StatedTool | Mapping[str, Any]]
    tool_rounds: int
    tool_calls: int


OF_ASKS = (
    "prompt", "system", "context", "examples", "cache", "params", "attach", "inputs", "outputs", "tools",
    "tool_rounds", "tool_calls",
)  # fmt: skip
"""What is said of asks alone: it has no use where none is made."""


def terms_of(options: PatternOptions, schema: Schema | None, step: str) -> Terms:
    """The terms that a pattern's arguments state; `step` is its name when none is given."""
    checked = stated({name: value for name, value in options.items() if name in HOW}, HOW, step)
    if "batch" in checked and "hedge" in checked:
        raise BadInput(HEDGE_AND_BATCH)
    if "batch" in checked and checked.get("tools"):
        raise BadInput(TOOLS_AND_BATCH)
    keep = checked.get("keep")
    given = {name: checked[name] for name in TERM_NAMES if name in checked}
    return Terms(
        step=checked.get("step", step), gate=standard(checked.get("gate"), schema), who=who_of(checked),
        keep=None if keep is None else lambda task, reply: bool(at_once(keep(reply.value))),
        tools=_tools(checked), **given,
    )  # fmt: skip


def _tools(checked: Mapping[str, Any]) -> StatedTools | None:
    stated = checked.get("tools")
    for name in ("tool_rounds", "tool_calls"):
        if not stated and name in checked:
            raise BadInput(f"`{name}` is for a step with `tools`")
    if stated is None:
        return None
    return StatedTools(
        script_tools(stated), checked.get("tool_rounds", ROUNDS), checked.get("tool_calls", CALLS)
    )


TERM_NAMES = (*TERMS, "attempts")


def handler(by: Any) -> TaskHandler:
    """What a user gives as `by`."""
    if is_uncalled(by):
        raise BadInput(f"`by` is the function {by.__name__} itself; call it: {by.__name__}(…)")
    if isinstance(by, type) or not takes(by, 2):
        what = "must be a pattern such as voters([…]), or a function of the run and the task"
        raise BadInput(f"`by` {what}, not {described(by)}")
    made: TaskHandler = by
    return made


async def ask_member(run: Run, task: Task) -> Outcome:
    """The usual handler: one ask, with all that a run does for it."""
    return await run.do(task)


async def begin_handler(run: Run, by: TaskHandler, prompt: Prompt, terms: Terms) -> None:
    """Before the first ask: whoever will be asked is there, and a prompt for those who read one."""
    if by is ask_member:
        check_prompt(prompt, terms, run.traits(terms))
    begin = getattr(by, "begin", None)
    if begin is not None:
        await begin(run)


class KnowsMembers(Protocol):
    """A run, or who only looks at one, as far as it says who may answer."""

    def traits(self, terms: Terms) -> list[Traits]: ...

    def reads_messages(self, terms: Terms) -> bool: ...


def prompt_for(run: KnowsMembers, terms: Terms, prompt: Prompt) -> Prompt:
    """Nothing is rendered when nobody would read it: a function receives the item."""
    if run.reads_messages(terms) or prompt.media:
        return prompt
    attach, files = prompt.attach, prompt.files
    return Prompt(
        schema=prompt.schema, params=prompt.params, attach=attach, files=files,
        carries=prompt.carries, names=prompt.names,
    )  # fmt: skip


class Folded(msgspec.Struct, frozen=True, metaclass=Checked):
    """The result, and the account as it stood when the result was made.

    `behind` and `missing` read the journal, so ask them while the run is open. The tables (`rows`,
    `to_pandas`, `to_csv`, `to_parquet`) can be had later too.
    """

    value: Any
    receipt: Receipt
    run: Run | None = None
    batch: Batch | None = None
    terms: Terms | None = None

    def behind(self) -> Iterator[str]:
        """The ids of the items that the result rests on, in planned order."""
        assert self.run and self.batch and self.terms, "this result is not made of planned items"
        return self.run.behind(self.batch, self.terms)

    def values(self, kind: type[T]) -> Iterator[T]:
        """The replies that passed, in planned order, each as this type: that of `schema`, say."""
        assert self.run and self.batch and self.terms, "this result is not made of planned items"
        return (as_type(one.value, kind) for one in self.run.passed(self.batch, self.terms))

    def missing(self) -> Iterator[Missing]:
        """The planned items that it does not rest on, each with its outcome and the reasons."""
        assert self.run and self.batch and self.terms, "this result is not made of planned items"
        return self.run.missing(self.batch, self.terms)

    def rows(self) -> list[dict[str, Any]]:
        """One for each planned item, in planned order: its `id`, how it ended (`state`), the fields of its
        reply, or that as `value`, and the `reasons` where it did not pass. Of a result that is not made
        of items: the rows of its value."""
        if self.run is None or self.batch is None or self.terms is None:
            listed = self.value if isinstance(self.value, list) else [self.value]
            return [one if isinstance(one, dict) else {"value": one} for one in listed]
        run, batch = self.run.record.no, self.batch.no
        step = self.run.step_number(self.terms)
        with self.run.reading() as read:
            made = {part.position: _row(part) for part in read.parts(run, batch, step)}
            for one in read.items_missing(run, batch, step, 0, None):
                reasons = "; ".join(one.reasons)
                made[one.position] = {"id": one.id, "state": one.state, "reasons": reasons}
        return [made[position] for position in sorted(made)]

    def to_pandas(self) -> Any:
        """The rows as a DataFrame. Needs pandas, which fanfold does not bring along."""
        try:
            pandas = import_module("pandas")
        except ImportError:
            raise BadInput(
                "to_pandas() needs pandas; install it with: pip install pandas"
            ) from None
        return pandas.DataFrame(self.rows())

    def to_csv(self, path: str | Path) -> None:
        """The rows as a file. A text that a spreadsheet would run as a formula gets an apostrophe."""
        self._write(Path(path), ".csv")

    def to_parquet(self, path: str | Path) -> None:
        """The rows as a file, each column with its type. Needs the extra `parquet`."""
        if extra := missing_extra(".parquet"):
            install = f"install it with: pip install 'fanfold[{extra}]'"
            raise BadInput(f"to_parquet() needs the extra `{extra}`; {install}")
        self._write(Path(path), ".parquet")

    def _write(self, path: Path, ending: str) -> None:
        rows = self.rows()
        with replacing(path) as file:
            out = TextIOWrapper(file, encoding="utf-8", newline="", errors="replace")
            write_table(file, out, ending, Table.of(lambda: iter(rows)))
            out.flush()
            out.detach()

    def _repr_html_(self) -> str:
        """For notebooks: the result (without a reduce, the first rows), and the account below it. What a
        model wrote is text."""
        value = self.value
        if value is None:
            with suppress(FanfoldError):  # its store is gone
                value = self.rows()[:ROWS]
        receipt = self.receipt if self.run is None else self.run.closing or self.receipt
        return f"{_result_html(value)}{receipt._repr_html_()}"


def _row(part: Part) -> dict[str, Any]:
    fields = part.value if isinstance(part.value, dict) else {"value": part.value}
    return {"id": part.id, "state": "passed", **fields}


def _result_html(value: Any) -> str:
    """Records as a table, of which the first rows and columns are shown; anything else as text."""
    if not isinstance(value, list) or not value or not all(isinstance(one, dict) for one in value):
        text = _cut(value if isinstance(value, str) else _shown(value), SHOWN)
        return f"<pre>{text}</pre>"
    names = list(dict.fromkeys(name for one in value[:ROWS] for name in one))[:COLUMNS]
    head = "".join(f"<th>{_cut(str(name), CELL)}</th>" for name in names)
    rows = "".join(
        f"<tr>{''.join(f'<td>{_cell(one.get(name))}</td>' for name in names)}</tr>"
        for one in value[:ROWS]
    )
    more = len(value) - ROWS
    rest = f"<p>… and {more:,} more</p>" if more > 0 else ""
    return f"<table><tr>{head}</tr>{rows}</table>{rest}"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return _cut(value if isinstance(value, str) else _shown(value), CELL)


def _cut(text: str, most: int) -> str:
    return escape(f"{text[:most]}…" if len(text) > most else text)


def _shown(value: Any) -> str:
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    except (TypeError, OverflowError, RecursionError):
        return repr(value)


class NoValue(FanfoldError):
    """Nothing could be made of this item; the text says why."""


def reply_of(value: Any, made_by: str) -> Reply:
    """As the journal would give it back, so that a resumed run sees the same."""
    if value is None:
        raise NoValue(f"the {made_by} gave no value")
    if isinstance(value, str):
        return Reply(text=value)
    try:
        return Reply(data=msgspec.json.decode(canonical(value)))
    except (UnicodeError, TypeError, OverflowError, RecursionError) as error:
        raise NoValue(f"what the {made_by} gave is not plain JSON: {error}") from None
