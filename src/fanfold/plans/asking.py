"""What every step that asks can state: as it is written in a plan file, and as a run works with it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, Literal, Union

import msgspec
from msgspec import UNSET, Meta

from fanfold.gates.kinds import from_plan
from fanfold.members.target import unloaded
from fanfold.plans.variables import NAME as VARS
from fanfold.work.ask import Params, Schema
from fanfold.work.batch import BatchFields, BatchPolicy
from fanfold.work.media import MediaKind
from fanfold.work.opening import CacheMode, Example, Opening
from fanfold.work.options import BudgetField
from fanfold.work.reader import Count, Stated, Text, Texts, Whole, Word
from fanfold.work.task import (
    Budget,
    Hedge,
    HedgeFields,
    InDoubt,
    ItemRead,
    OnFailure,
    Spread,
    Who,
    reads_of,
)
from fanfold.work.template import Template, shown_media
from fanfold.work.tool import CallsField, RoundsField, StatedTools, ToolField

ALL_NAMES = (
    "item", "items", "steps", "task", "parts", "missing", "parents", "question", "answers", "vars",
)  # fmt: skip
"""Whatever a prompt may read, wherever it is."""
_KEEP_NAMES = ("item", "reply", VARS)


class AskTerms(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Written and worked with in the same form."""

    concurrency: Annotated[Count, Meta(description="Calls at the same time.")] = 8
    attempts: Annotated[
        Count, Meta(description="How often a call that fails (rate limit, timeout, …) is tried.")
    ] = 4
    revise: Annotated[
        Whole, Meta(description="How often a reply that its gate refuses is kicked back.")
    ] = 1
    on_failure: Annotated[
        OnFailure, Meta(description="An item that fails is skipped, held, or ends the run.")
    ] = "skip"
    in_doubt: Annotated[
        InDoubt | None, Meta(description="A call that may have been carried out before a crash.")
    ] = None


class Asking(AskTerms, frozen=True, omit_defaults=True, kw_only=True):
    """What a step asks. Without a prompt only functions and replay can answer.

    `verbatim`: the prompt is no template, it is sent as it is; `parents`: but for the places of
    parents' answers. `schema_type`: a type whose schema it is, known only when it is imported.
    `gate` is as written in the plan; None is the default gate alone. `line` is the step's, `lines`
    those of its fields.
    """

    prompt: str | None = None
    verbatim: bool | Literal["parents"] = False
    schema: Schema | None = None
    schema_type: str | None = None
    who: Who = Who()
    budget: Budget = Budget()
    gate: tuple[dict[str, Any], ...] | None = None
    escalate: tuple[str, ...] = ()
    hedge: Hedge | None = None
    batch: BatchPolicy | None = None
    params: Params = Params()
    opening: Opening = Opening()
    attach: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    tools: StatedTools | None = None
    lines: dict[str, int] = {}
    line: int | None = None

    @property
    def media(self) -> tuple[MediaKind, ...]:
        """The kinds of files that its prompt shows."""
        if self.prompt is None or self.verbatim:
            return ()
        return shown_media(self.prompt)

    def fields_read(self, name: str) -> set[str]:
        """Which fields of `item`, or which of the `steps`, its prompt reads."""
        if self.prompt is None or self.verbatim or name not in self.prompt:
            return set()
        return Template(self.prompt, name="prompt", known=ALL_NAMES).fields(name)

    def gate_reads(self) -> tuple[ItemRead, ...]:
        """Which fields of an item its gate reads. Nothing of the user's code is imported."""
        if self.gate is None:
            return ()
        return reads_of(from_plan(list(self.gate), lambda target: unloaded))


def keep_template(expression: str, file: str) -> Template:
    """`reply.relevant` as a template that is empty where the expression is false."""
    return Template("{% if " + expression + " %}1{% endif %}", name=file, known=_KEEP_NAMES)


def keep_fields(expression: str | None) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Which fields of an item a filter reads; the replies of earlier steps come with the item."""
    read = set() if expression is None else keep_template(expression, "keep").fields("item")
    yield from (("keep", (name,)) for name in sorted(read - {"steps"}))


def judges_in(gate: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Each `judge` in a gate as it is written, with the path to it: `[0].all_of[1].judge`."""
    if isinstance(gate, list | tuple):
        for n, one in enumerate(gate):
            yield from judges_in(one, f"{place}[{n}]")
    elif isinstance(gate, dict):
        for kind, given in gate.items():
            if kind == "judge" and isinstance(given, dict):
                yield f"{place}.judge", given
            elif kind in ("all_of", "any_of"):
                yield from judges_in(given, f"{place}.{kind}")


class AskBase(AskTerms, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same as it is written in a plan file."""

    prompt: Annotated[
        Stated[Text], Meta(description="A template over item, items, steps, task and vars.")
    ] = UNSET
    prompt_file: Annotated[Stated[Text], Meta(description="The prompt, in a file.")] = UNSET
    schema: Annotated[
        Stated[dict[str, Any] | Word],
        Meta(
            description="A JSON Schema that replies must fit, or module:Type.",
            extra={"expected": "a JSON Schema (a mapping) or the text module:Type"},
        ),
    ] = UNSET
    schema_file: Stated[Text] = UNSET
    gate: Annotated[
        Stated[dict[str, Any] | list[Any]],
        Meta(description="Checks that a reply must pass, such as `require: [field]`."),
    ] = UNSET
    member: Annotated[Stated[Text], Meta(description="Who answers: an id of the roster.")] = UNSET
    members: Stated[Texts] = UNSET
    agent: Stated[Text] = UNSET
    needs: Annotated[Stated[Texts], Meta(description="Whoever is good at this answers.")] = UNSET
    use: Annotated[Stated[Count], Meta(description="At most so many of those who fit.")] = UNSET
    spread: Annotated[
        Stated[Spread],
        Meta(
            description="When the best who fit are full: ask the next best, or wait for the best."
        ),
    ] = UNSET
    fallback: Annotated[
        Texts, Meta(description="Who answers when all others are closed or have failed.")
    ] = ()
    budget: Stated[BudgetField] = UNSET
    escalate: Annotated[
        Texts, Meta(description="Who is asked, in order, when kick-backs were not enough.")
    ] = ()
    hedge: Annotated[
        Stated[HedgeFields], Meta(description="A second request for a call that takes long.")
    ] = UNSET
    batch: Annotated[
        Stated[BatchFields | Word],
        Meta(
            description="Asks go to the member's batch service: {within: 6h}, or auto.",
            extra={"expected": "a mapping such as {within: 6h}, or the text auto"},
        ),
    ] = UNSET
    stop: Texts = ()
    system: Annotated[
        Stated[Text],
        Meta(description="What all asks begin with: a template over task, vars and steps."),
    ] = UNSET
    system_file: Stated[Text] = UNSET
    context: Annotated[
        Stated[Texts], Meta(description="Texts that all asks share, after `system`.")
    ] = UNSET
    context_file: Annotated[
        Stated[Texts], Meta(description="Files that all asks share, sent as they are.")
    ] = UNSET
    examples: Annotated[
        Stated[tuple[Example, ...]],
        Meta(description="Questions (`ask`, or an `item`) with good replies, before the item."),
    ] = UNSET
    examples_file: Annotated[
        Stated[Text], Meta(description="The same, a JSON object in each line.")
    ] = UNSET
    attach: Annotated[
        Stated[Texts],
        Meta(description="Fields of an item that name files: images, PDFs, audio."),
    ] = UNSET
    inputs: Annotated[
        Stated[Texts],
        Meta(description="Files that a command or an agent needs: paths as templates."),
    ] = UNSET
    outputs: Annotated[
        Stated[Texts],
        Meta(description="Files that a command or an agent leaves: paths as templates."),
    ] = UNSET
    cache: Annotated[
        Stated[CacheMode],
        Meta(description="off: what all asks share is not kept by the service."),
    ] = UNSET
    tools: Annotated[
        Stated[tuple[ToolField, ...]],
        Meta(description="What whoever answers may call: functions, programs, MCP servers."),
    ] = UNSET
    tool_rounds: Stated[RoundsField] = UNSET
    tool_calls: Stated[CallsField] = UNSET


def written(record: type[msgspec.Struct], called: str, *without: str, **changed: Any) -> Any:
    """What may be written for a record of a plan: its own fields, beside those of every step that
    asks and the sampling parameters if it is one. Not those in `without`; those in `changed` in
    another form (a type, or a type and its default)."""
    sources: list[type[msgspec.Struct]] = (
        [Params, AskBase, record] if issubclass(record, Asking) else [record]
    )
    stored = Asking.__struct_fields__ if issubclass(record, Asking) else ("lines", "line")
    found: dict[str, Any] = {
        field.name: (field.type, _default(field))
        for source in sources
        for field in _fields(source)
        if not (source is record and field.name in stored) and field.name not in without
    }
    found |= {name: _changed(of) for name, of in changed.items()}
    return msgspec.defstruct(
        f"{''.join(word.title() for word in called.replace('_', ' ').split()[1:])}Fields",
        [(name, *of) for name, of in found.items()],
        namespace={"called": called, "__doc__": record.__doc__},
        module=record.__module__,
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )


@cache
def _fields(record: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """Their annotations are evaluated once."""
    return msgspec.structs.fields(record)


def _changed(of: Any) -> tuple[Any, ...]:
    """A type and its default; what is UNSET by default need not be there."""
    if not isinstance(of, tuple):
        return (of,)
    kind, default = of
    return (Union[kind, msgspec.UnsetType] if default is UNSET else kind, default)  # noqa: UP007


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default is not msgspec.NODEFAULT:
        return field.default
    if field.default_factory is not msgspec.NODEFAULT:
        return msgspec.field(default_factory=field.default_factory)
    return msgspec.field()
