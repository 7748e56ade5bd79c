"""Pure gates: plain functions of task and reply. Each function here returns a Gate.

They are built once per step and called once per reply, so what can be prepared is prepared when
they are built, and a mistake in a gate is a BadInput before anything is asked.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from typing import Any

import jsonschema_rs
import msgspec

from fanfold.errors import BadInput
from fanfold.gates.linear_regex import LINEAR, check_patterns, linear
from fanfold.work.arguments import public
from fanfold.work.ask import Reply
from fanfold.work.fields import MISSING, Path, leaves, path_of, spread
from fanfold.work.item import Item
from fanfold.work.outcome import PASS, Verdict, fail, unjudged
from fanfold.work.task import AskPower, Gate, ItemRead, Task, known_as, reading

MOST_REASONS = 3
MOST_QUOTES = 1000  # each is looked for in the whole text
_SHOWN = 10

_encode = msgspec.json.Encoder().encode


@public
def require(*fields: str) -> Gate:
    """The fields are there and not empty or blank; 0 and false are values.

    `findings.clause` is asked of each finding, and a reply that is a list of each element. An
    empty list has no element that could lack something: require the list itself as well.
    """
    if not fields:
        raise BadInput('require() names no field; write require("a", "b")')
    paths = [path_of(field) for field in fields]

    def check(task: Task, reply: Reply, ask: AskPower) -> Verdict:
        value = reply.value
        if isinstance(value, dict):
            for field in fields:
                if _blank(value.get(field)):
                    break
            else:
                return PASS
        lacking = [at for path in paths for at, leaf in leaves(value, path) if _blank(leaf)]
        if not lacking:
            return PASS
        more = f" and {len(lacking) - _SHOWN} more" if len(lacking) > _SHOWN else ""
        return fail("missing or empty: " + ", ".join(f"`{at}`" for at in lacking[:_SHOWN]) + more)

    return known_as("pure", check)


@public
def schema(definition: dict[str, Any]) -> Gate:
    """The reply is valid against a JSON Schema. References to other documents are not followed."""
    try:
        validator = jsonschema_rs.validator_for(definition, pattern_options=LINEAR, offline=True)
    except ValueError as wrong:
        check_patterns(definition)
        raise BadInput(f"not a valid JSON Schema: {_schema_fault(wrong)}") from None

    def check(task: Task, reply: Reply, ask: AskPower) -> Verdict:
        if validator.is_valid(reply.value):
            return PASS
        if reply.data is None and reply.text.strip() == "null" and validator.is_valid(None):
            return PASS
        errors = list(islice(validator.iter_errors(reply.value), MOST_REASONS))
        if reply.data is None and errors[0].schema_path == ["type"]:
            return fail("the reply is not JSON; reply with JSON that fits the schema, nothing else")
        return fail(*[_at(error.instance_path) + _short(error.message) for error in errors])

    return known_as("pure", check)


@public
def shape(model: Any) -> Gate:
    """The reply validates as a pydantic model (or a dataclass or TypedDict that pydantic knows).

    It is validated as JSON, so a strict model still takes a date from its text.
    """
    try:
        from pydantic import PydanticUserError, TypeAdapter, ValidationError
    except ImportError:
        raise BadInput("gate `shape` needs pydantic: pip install 'fanfold[pydantic]'") from None
    if model is None or isinstance(model, str):  # a text would be run as code
        what = "a type, such as a pydantic model or a dataclass"
        raise BadInput(f"gate `shape` needs {what}, not {model!r}")
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(model)
    except (PydanticUserError, SyntaxError, NameError) as wrong:
        said = str(wrong).splitlines()[0]
        raise BadInput(f"gate `shape` cannot use {model!r}: {said}") from None

    def check(task: Task, reply: Reply, ask: AskPower) -> Verdict:
        try:
            adapter.validate_json(reply.text if reply.data is None else _encode(reply.data))
        except ValidationError as wrong:
            return _failed([_at(error["loc"]) + error["msg"] for error in wrong.errors()])
        return PASS

    return check


@public
def quotes(field: str, source: str = "text") -> Gate:
    """Each quote occurs verbatim in the item's `source`; only white space may differ.

    The field holds one quote or a list of them; `findings.evidence` means that of each finding.
    A missing or blank quote fails. No quotes at all (an empty list) pass: `require` the field too
    when there must be one. An item without such a text cannot be judged.
    """
    path, origin = path_of(field), path_of(source)

    def check(task: Task, reply: Reply, ask: AskPower) -> Verdict:
        items, value = task.ask.items, reply.value
        if len(items) == 1 and _plainly_quoted(value, field, items[0].data, source):
            return PASS
        texts = _texts(items, origin)
        if not texts:
            return unjudged(f"item `{task.id}` has no text in `{source}` to find quotes in")
        reasons: list[str] = []
        squeezed: list[str] = []
        seen: set[str] = set()
        for at, quote in spread(value, path):
            if len(seen) > MOST_QUOTES:
                return fail(f"`{at}`: more than {MOST_QUOTES:,} different quotes in one reply")
            if len(reasons) >= _SHOWN:
                break
            if isinstance(quote, str) and quote in seen:
                continue
            if isinstance(quote, str):
                seen.add(quote)
            if not isinstance(quote, str) or not quote.strip():
                reasons.append(f"`{at}` holds no quote")
            elif not any(quote in text for text in texts):
                squeezed = squeezed or [_squeeze(text) for text in texts]
                if not any(_squeeze(quote) in text for text in squeezed):
                    said = _short(_squeeze(quote), 80)
                    reasons.append(f'`{at}` is not in the item\'s {source} word for word: "{said}"')
        return _failed(reasons)

    return known_as("pure", reading(check, [ItemRead("quotes", origin[0])]))


@public
def number_range(field: str | None, low: float | None = None, high: float | None = None) -> Gate:
    """The field is a number from `low` to `high`, both included; None leaves that side open."""
    path = path_of(field)
    for bound in (low, high):
        if bound is not None and not _is_number(bound):
            raise BadInput(f"`range` of `{field}`: {bound!r} is not a number")
    if low is None and high is None:
        raise BadInput(f"`range` of `{field}` has no bounds: give `low`, `high` or both")
    if low is not None and high is not None and low > high:
        raise BadInput(f"`range` of `{field}`: low {low} is above high {high}")

    def check(task: Task, reply: Reply, ask: AskPower) -> Verdict:
        reasons = []
        for at, leaf in spread(reply.value, path):
            if not _is_number(leaf):
                reasons.append(f"{_named(at)} is not a number: {_shown(leaf)}")
            elif low is not None and leaf < low:
                reasons.append(f"{_named(at)} is {leaf}, below {low}")
            elif high is not None and leaf > high:
                reasons.append(f"{_named(at)} is {leaf}, above {high}")
        return _failed(reasons)

    return known_as("pure", check)


@public
def regex(pattern: str, field: str | None = None) -> Gate:
    """The pattern is found in the field (in each, for a list), or in the whole reply's text.

    It may be found anywhere: write `^…$` for the whole. Numbers are read as their text. Look-around
    and back-references are refused: they can take for ever (see `pattern`).
    """
    path = path_of(field)
    search = linear(pattern)

    def check(task: Task, reply: Reply, ask: AskPower) -> Verdict:
        if not path:
            return PASS if search(_text_of(reply)) else fail(f"the reply does not match {pattern}")
        reasons = []
        for at, leaf in spread(reply.value, path):
            text = str(leaf) if _is_number(leaf) else leaf
            if not isinstance(text, str):
                reasons.append(f"{_named(at)} is not text: {_shown(leaf)}")
            elif not search(text):
                reasons.append(f"{_named(at)} does not match {pattern}: {_shown(leaf)}")
        return _failed(reasons)

    return known_as("pure", check)


# ── what the checks share ────────────────────────────────────────────────────────────────────


def _blank(leaf: Any) -> bool:
    if isinstance(leaf, str):
        return not leaf or leaf.isspace()
    return leaf is None or leaf is MISSING or (isinstance(leaf, (list, tuple, dict)) and not leaf)


def _failed(reasons: list[str]) -> Verdict:
    """Pass when there is no reason against it; else the first few, and how many more there are."""
    if not reasons:
        return PASS
    shown = reasons[:MOST_REASONS]
    if more := len(reasons) - len(shown):
        shown[-1] += f" (and {more} more)"
    return fail(*shown)


def _is_number(value: Any) -> bool:
    """A finite number; truth values are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value - value == 0


def _plainly_quoted(value: Any, field: str, data: Any, source: str) -> bool:
    """The common case, without walking paths: one quote, one text, the same to the letter."""
    if not isinstance(value, dict) or not isinstance(data, dict):
        return False
    quote, text = value.get(field), data.get(source)
    if not isinstance(quote, str) or not isinstance(text, str):
        return False
    return quote in text and not _blank(quote)


def _texts(items: Iterable[Item], origin: Path) -> list[str]:
    found = []
    for item in items:
        fields = item.data if isinstance(item.data, dict) else item.view()
        found += [text for _, text in leaves(fields, origin) if isinstance(text, str)]
    return found


def _text_of(reply: Reply) -> str:
    """The reply as text: its string value, or the JSON of any other."""
    value = reply.value
    return value if isinstance(value, str) else _encode(value).decode()


def _squeeze(text: str) -> str:
    return " ".join(text.split())


def _short(text: str, most: int = 200) -> str:
    """Cut in the middle: the beginning tells which value it is, the end what is wrong with it."""
    if len(text) <= most:
        return text
    return f"{text[: most // 2]} … {text[-(most // 2) :]}"


def _shown(leaf: Any) -> str:
    return "it is missing" if leaf is MISSING else _short(_encode(leaf).decode(), 80)


def _named(at: str) -> str:
    return f"`{at}`" if at else "the reply"


def _at(place: Iterable[str | int]) -> str:
    """The place of a fault as a prefix: `findings[2].clause: `; nothing for the whole value."""
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in place]
    return f"`{''.join(steps).lstrip('.')}`: " if steps else ""


def _schema_fault(wrong: ValueError) -> str:
    if not isinstance(wrong, jsonschema_rs.ValidationError):
        return str(wrong)
    return _at(wrong.instance_path) + _short(wrong.message)


# ── a function of the user's as a gate ───────────────────────────────────────────────────────

_MOST_ARGUMENTS = 2


@public
def predicate(fn: Callable[..., Any], reason: str | None = None) -> Gate:
    """Any function of the reply's value, or of the value and its Item.

    It returns true or false, or a text: the reason why not. Trap: a function that returns a text
    it merely found, such as `value.get("name")`, fails the reply with it; wrap it in `bool`. An
    async function works too.
    """
    with_item = _takes_item(fn)
    name = getattr(fn, "__name__", type(fn).__name__)
    no = fail(reason or f"the check {name} failed")

    def heard(said: Any) -> Verdict:
        if inspect.isawaitable(said):
            raise TypeError(f"the check {name} returned an awaitable: write it with `async def`")
        if isinstance(said, str) and said.strip():
            return fail(said)
        return PASS if said and not isinstance(said, str) else no

    async def later(*given: Any) -> Verdict:
        return heard(await fn(*given))

    waits = inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(type(fn).__call__)

    def check(task: Task, reply: Reply, ask: AskPower) -> Verdict | Awaitable[Verdict]:
        items = task.ask.items
        if with_item and len(items) != 1:
            return unjudged(f"the check {name} needs one item, `{task.id}` has {len(items)}")
        given = (reply.value, items[0]) if with_item else (reply.value,)
        if waits:
            return later(*given)
        said = fn(*given)
        return PASS if said is True else heard(said)

    return check


def parameters(fn: Callable[..., Any]) -> list[inspect.Parameter]:
    """The positional parameters of a function; one nameless when it does not say (a builtin)."""
    try:
        stated = inspect.signature(fn).parameters.values()
    except ValueError:
        return [inspect.Parameter("value", inspect.Parameter.POSITIONAL_ONLY)]
    return [p for p in stated if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _takes_item(fn: Callable[..., Any]) -> bool:
    """Whether the second parameter is for the item: it has no default, or is called `item`."""
    if not callable(fn):
        raise BadInput(f"`predicate` needs a function, not {fn!r}")
    takes = parameters(fn)
    needed = sum(p.default is p.empty for p in takes)
    if not takes or needed > _MOST_ARGUMENTS:
        name = getattr(fn, "__name__", repr(fn))
        raise BadInput(f"the check {name} must take the reply's value, or the value and the item")
    return needed == _MOST_ARGUMENTS or (len(takes) > 1 and takes[1].name == "item")
