"""Several items in one ask, and its reply split into one for each item."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from fanfold.price import dollars, nanos
from fanfold.work.ask import Ask, Message, Params, Reply, Schema, Usage
from fanfold.work.media import Attachment
from fanfold.work.nesting import decode_json, too_deep

_BYTES_PER_TOKEN = 4
_AROUND_AN_ANSWER = 16  # tokens of {"id": , "answer": }, with room to spare
_ANSWER_AT = "#/properties/answers/items/properties/answer"
_DEFINITIONS = ("$defs", "definitions")

_LIST_OF_ANSWERS = re.compile(r'(?:\{\s*"answers"\s*:\s*)?\[\s*')
_BETWEEN = re.compile(r"\s*,\s*")
_DECODER = json.JSONDecoder()

_encode = msgspec.json.Encoder().encode


def estimate_tokens(text: str) -> int:
    """About how many tokens a text has: one for every four bytes, at least one.

    Good for sizing shards. Too low for scripts other than Latin by up to a half, and never a bound:
    the ledger reserves by bytes.
    """
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return max(1, -(-size // _BYTES_PER_TOKEN))


def message_tokens(message: Message) -> int:
    """The same of a message, with its files."""
    files = sum([part.estimate for part in message.parts]) if message.parts else 0
    return estimate_tokens(message.content) + files


# ── several asks into one ────────────────────────────────────────────────────────────────────


def shard_ask(asks: Sequence[tuple[str, Ask]], rendered_together: Message | None = None) -> Ask:
    """One ask for several items, each with its id, that is to be answered id by id.

    `rendered_together` is the prompt when the template itself takes all `items`; else each item's
    own prompt is put under a heading with its id. Schema, parameters and all messages but
    the last are those of the first ask, so all must be of one step; a kick-back is never sharded. A
    stated `max_tokens` is for one item, so it grows with the shard; a member's own default does not:
    if it cuts the reply off, the answers that are whole count and the other items are asked alone.
    """
    if not asks or any(ask.turns for _, ask in asks):
        raise ValueError("a shard is made of one or more asks that were not kicked back")
    first = asks[0][1]
    body = _side_by_side(asks) if rendered_together is None else rendered_together
    opening = first.messages[:-1]
    said = f"{body.content.rstrip()}\n\n{_how_to_answer(asks)}"
    return Ask(
        messages=(*opening, Message("user", said, body.parts)),
        items=tuple(item for _, ask in asks for item in ask.items),
        schema=_wrapped(first.schema),
        params=_grown(first.params, [id for id, _ in asks]),
        sample=first.sample,
        shared=min(first.shared, sum(len(message.content) for message in opening)),
    )


def inputs_together(asks: Sequence[tuple[str, Ask]]) -> Ask:
    """One ask for several items whose reply is a list in their order: a message for each."""
    messages = [Message("user", said) for _, ask in asks for said in texts_of(ask)]
    items = tuple(item for _, ask in asks for item in ask.items)
    return Ask(tuple(messages), items, params=asks[0][1].params, sample=asks[0][1].sample)


def texts_of(ask: Ask) -> tuple[str, ...]:
    """What is to be embedded: the whole of an ask about one item; of one about several, each message."""
    said = tuple(message.content for message in ask.messages)
    return said if len(ask.items) > 1 and len(said) == len(ask.items) else ("\n\n".join(said),)


def _vectors_apart(reply: Reply, ids: Sequence[str]) -> dict[str, Reply]:
    """The vector of each item, with its share of usage and cost."""
    usages, costs = _usage_shares(reply.usage, len(ids)), _cost_shares(reply, len(ids))
    vectors = reply.data if isinstance(reply.data, list) else []
    return {
        id: _one_reply(reply, vector, True, usages[n], costs[n])
        for n, (id, vector) in enumerate(zip(ids, vectors, strict=False))
    }


def _grown(params: Params, ids: Sequence[str]) -> Params:
    """Room for as many replies, and for the ids and brackets around each."""
    if params.max_tokens is None:
        return params
    around = sum(2 * estimate_tokens(_quoted(id)) + _AROUND_AN_ANSWER for id in ids)
    return msgspec.structs.replace(params, max_tokens=params.max_tokens * len(ids) + around)


def _side_by_side(asks: Sequence[tuple[str, Ask]]) -> Message:
    """Each under its id, with its own files."""
    text, parts = "", list[Attachment]()
    for id, ask in asks:
        text += f"{chr(10) * 2 if text else ''}### {_quoted(id)}\n"
        for one in ask.messages[-1:]:
            before = len(one.content) - len(one.content.lstrip())
            said = one.content.strip()
            for part in one.parts:
                at = min(max(part.at - before, 0), len(said))
                parts.append(msgspec.structs.replace(part, at=len(text) + at))
            text += said
    return Message("user", text, tuple(parts))


def _how_to_answer(asks: Sequence[tuple[str, Ask]]) -> str:
    ids = ", ".join(_quoted(id) for id, _ in asks)
    return (
        f"These were {len(asks)} separate items. Their ids, in the same order: {ids}\n"
        "Answer each of them once and by itself, under its id exactly as written here. "
        "Reply with this JSON and nothing else:\n"
        '{"answers": [{"id": "...", "answer": ...}]}'
    )


def _quoted(id: str) -> str:
    return _encode(id).decode()


def _wrapped(schema: Schema | None) -> Schema:
    """The schema of a whole shard's reply around that of one answer (a text when there is none)."""
    answer: dict[str, Any] = {"type": "string"} if schema is None else schema.definition
    shared = {name: _moved(answer[name]) for name in _DEFINITIONS if name in answer}
    kept = {name: part for name, part in answer.items() if name not in (*shared, "$schema", "$id")}
    one = {
        "type": "object",
        "properties": {"id": {"type": "string"}, "answer": _moved(kept)},
        "required": ["id", "answer"],
        "additionalProperties": False,
    }
    whole = {
        "type": "object",
        "properties": {"answers": {"type": "array", "items": one}},
        "required": ["answers"],
        "additionalProperties": False,
    }
    return Schema.of({**whole, **shared})


def _moved(part: Any) -> Any:
    """A piece of the answer's schema with references that still lead there inside the wrapper.

    Its definitions move to the top, where `#/$defs/…` finds them; all else moves down.
    """
    if isinstance(part, list):
        return [_moved(one) for one in part]
    if not isinstance(part, dict):
        return part
    return {name: _led(v) if name == "$ref" else _moved(v) for name, v in part.items()}


def _led(reference: Any) -> Any:
    if not isinstance(reference, str) or not reference.startswith("#"):
        return _moved(reference)
    if reference.startswith(tuple(f"#/{name}/" for name in _DEFINITIONS)):
        return reference
    return _ANSWER_AT + reference[1:]


# ── one reply into several ───────────────────────────────────────────────────────────────────


def fields_of(schema: Schema | None) -> frozenset[str]:
    """The names of the fields that a schema states for one answer, as far as they can be seen."""
    return frozenset() if schema is None else frozenset(_stated(schema.definition, schema, 8))


def _stated(part: Any, schema: Schema, depth: int) -> Iterator[str]:
    if not isinstance(part, dict) or not depth:
        return
    properties = part.get("properties")
    yield from properties if isinstance(properties, dict) else ()
    for name in ("allOf", "anyOf", "oneOf"):
        for one in part.get(name, ()):
            yield from _stated(one, schema, depth - 1)
    match str(part.get("$ref", "")).split("/"):
        case ["#", ("$defs" | "definitions") as group, name]:
            yield from _stated(schema.definition.get(group, {}).get(name), schema, depth - 1)


class TakeApart(msgspec.Struct, frozen=True):
    """How the reply to a shard becomes one for each of its items. It can be stored: a reply that comes
    to another process is taken apart there. `in_order`: it is a list with a vector for each."""

    ids: tuple[str, ...]
    typed: bool
    fields: frozenset[str] = frozenset()
    in_order: bool = False

    def __call__(self, reply: Reply) -> dict[str, Reply]:
        if self.in_order:
            return _vectors_apart(reply, self.ids)
        return take_apart(reply, self.ids, self.typed, self.fields)


def take_apart(
    reply: Reply,
    ids: Sequence[str],
    per_item_schema: bool,
    fields: frozenset[str] = frozenset(),
) -> dict[str, Reply]:
    """The reply of each item, in the order of `ids`, with its share of usage and cost.

    Read are the shape that was asked for, a bare list of it, records with an `id` among their
    fields, and an object of id to answer. The first answer of an id counts; unknown ids are
    ignored; forgotten ones are not in the result. The shares add up to the whole. `fields` are
    those of one answer, where they are known: an `id` that is one of them stays in it.
    """
    answers: dict[str, Any] = {}
    for id, answer in _answers(_parsed(reply), frozenset(ids), fields):
        answers.setdefault(id, answer)
    answered = [id for id in dict.fromkeys(ids) if id in answers]
    usages, costs = _usage_shares(reply.usage, len(answered)), _cost_shares(reply, len(answered))
    return {
        id: _one_reply(reply, answers[id], per_item_schema, usages[n], costs[n])
        for n, id in enumerate(answered)
    }


def _parsed(reply: Reply) -> Any:
    """The reply's data, or what can be read out of its text.

    That is the text from its first bracket to its last, or, when it was cut off, the answers that
    are whole. Never a list further inside: its records may carry other things' ids.
    """
    if reply.data is not None:
        return reply.data
    text = reply.text
    start = next((at for at, sign in enumerate(text) if sign in "{["), len(text))
    try:
        return decode_json(text[start : max(text.rfind("}"), text.rfind("]")) + 1])
    except ValueError:
        return _whole_ones(text, start)


def _whole_ones(text: str, start: int) -> list[Any]:
    """The elements of a list of answers that breaks off, as far as they are complete."""
    found: list[Any] = []
    opening = _LIST_OF_ANSWERS.match(text, start)
    at = opening.end() if opening else len(text)
    while at < len(text):
        try:
            one, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        if not too_deep(one):
            found.append(one)
        between = _BETWEEN.match(text, at)
        at = between.end() if between else len(text)
    return found


def _answers(
    data: Any, wanted: frozenset[str], fields: frozenset[str]
) -> Iterator[tuple[str, Any]]:
    """Each (id, answer) in what a member returned, in whichever of the known shapes."""
    if isinstance(data, list):
        for record in data:
            if isinstance(record, dict) and "id" in record:
                yield _id(record["id"]), _answer(record, fields)
    elif isinstance(data, dict):
        inner = data.get("answers")
        if isinstance(inner, (list, dict)):
            yield from _answers(inner, wanted, fields)
        elif _id(data.get("id")) in wanted:
            yield from _answers([data], wanted, fields)
        elif len(data) == 1 and isinstance(only := next(iter(data.values())), list):
            yield from _answers(only, wanted, fields)
        else:
            yield from data.items()


def _id(given: Any) -> str:
    """An id as text: members like to write 7 for "7"."""
    whole = isinstance(given, int) and not isinstance(given, bool)
    return given if isinstance(given, str) else str(given) if whole else ""


def _answer(record: dict[str, Any], fields: frozenset[str]) -> Any:
    """The field `answer`, unless that is one of several fields of an answer given inline."""
    inline = "answer" in fields and record.keys() - {"id", "answer"}
    if "answer" in record and not inline:
        return record["answer"]
    return {name: part for name, part in record.items() if name != "id" or "id" in fields}


def _one_reply(
    whole: Reply, answer: Any, as_data: bool, usage: Usage | None, cost_usd: float | None
) -> Reply:
    """One item's reply, like the one it would have got alone: text, or data under a schema.

    A shard that was cut off lost its last answers; those that can be read are whole.
    """
    plain = isinstance(answer, str) and not as_data
    return Reply(
        text=answer if plain else _encode(answer).decode(),
        data=answer if as_data else None,
        usage=usage,
        finish="stop" if whole.finish == "length" else whole.finish,
        reason=whole.reason,
        model=whole.model,
        cost_usd=cost_usd,
    )


def _share(total: int, n: int) -> list[int]:
    """`total` in n whole parts; what is left over goes to the first."""
    each, rest = divmod(total, n)
    return [each + rest, *[each] * (n - 1)]


def _usage_shares(usage: Usage | None, n: int) -> Sequence[Usage | None]:
    if usage is None or n == 0:
        return [None] * n
    kinds = (usage.input, usage.output, usage.cache_read, usage.cache_write)
    return [Usage(*parts) for parts in zip(*(_share(kind, n) for kind in kinds), strict=True)]


def _cost_shares(reply: Reply, n: int) -> Sequence[float | None]:
    """In whole nano-dollars, which is how money is counted."""
    if reply.cost_usd is None or n == 0:
        return [None] * n
    return [dollars(part) for part in _share(nanos(reply.cost_usd), n)]
