"""Labels by the embedded model: how probable each is after a prompt, and which is the best."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from fanfold.errors import Terminal
from fanfold.members.endpoint import Endpoint
from fanfold.members.keys import Key
from fanfold.members.openai import ROWS, bearer
from fanfold.work.ask import Ask, Reply, Schema, Usage
from fanfold.work.member import Request, Tell, Traits

_LIFT = 100.0  # far above what any other token could reach, so only the labels' are left
_FIELDS = ("completion_probabilities", "tokens_evaluated", "timings/cache_n")


class _Tokens(msgspec.Struct):
    tokens: list[int]


class _Token(msgspec.Struct):
    id: int
    prob: float


class _Place(msgspec.Struct):
    top_probs: list[_Token]


class _Weighed(msgspec.Struct):
    completion_probabilities: list[_Place]
    tokens_evaluated: int = 0
    cached: int = msgspec.field(name="timings/cache_n", default=0)


class Labels:
    """The prompt is sent as it is, without a chat template, less the white space at its end; a
    label follows it after a space. Their probabilities add up to one: the model's own, among
    the labels alone, token by token. That takes one request where all labels begin with different
    tokens, else one for each place where they part.

    A kick-back gets the same reply: the reasons are no part of the prompt.
    """

    def __init__(
        self, traits: Traits, address: str, key: Key, weights: Mapping[str, float] | None = None
    ) -> None:
        self._traits, self._weights = traits, weights or {}
        self._ask = Endpoint(traits, f"{address}/completion", key, bearer, ROWS, direct=True)
        self._cut = Endpoint(traits, f"{address}/tokenize", key, bearer, ROWS, direct=True)
        self._known: dict[tuple[str, ...], dict[str, Tokens]] = {}

    @property
    def traits(self) -> Traits:
        return self._traits

    async def open(self) -> None:
        await self._ask.open()
        await self._cut.open()

    async def close(self) -> None:
        await self._ask.close()
        await self._cut.close()

    def prepare(self, ask: Ask) -> Request:
        body = "\n\n".join(message.content for message in ask.messages).rstrip().encode()
        wanted = choice(ask.schema)
        most = len(wanted.values) - 1 if wanted else 0
        longest = min(len(body) + 1024, self._traits.context or len(body) + 1024)
        return Request(ask, body, input_tokens=most * longest, output_tokens=most)

    async def ask(self, request: Request, tell: Tell) -> Reply:
        wanted = choice(request.ask.schema)
        if wanted is None:
            raise Terminal(
                f"{self._traits.id}: `answers: labels` needs a schema with labels, one item an ask:"
                " {enum: [...]}, or an object with one such field",
                scope="ask",
            )
        strangers = sorted(self._weights.keys() - set(wanted.labels))
        if strangers:
            what = f"{self._traits.id}: `weights` names {strangers[0]!r}, which is no label"
            raise Terminal(f"{what} of the schema", scope="ask")
        found, usage = await self._weigh(request.body.decode(), wanted.labels)
        shares = weighted(found, self._weights)
        text, data = best(shares), wanted.data(shares)
        return Reply(text, data, usage, "stop", self._traits.model)

    async def _weigh(self, prompt: str, labels: tuple[str, ...]) -> tuple[dict[str, float], Usage]:
        tokens = await self._tokens(labels)
        shares, usage, left = dict.fromkeys(labels, 0.0), Usage(), [(labels, 1.0)]
        while left:
            among, share = left.pop()
            parting = fork(tokens, among)
            if parting is None:
                shares |= dict.fromkeys(among, share / len(among))
                continue
            weighed = await self._weighed(prompt, parting)
            cached = min(weighed.cached, weighed.tokens_evaluated)
            usage += Usage(weighed.tokens_evaluated - cached, 1, cache_read=cached)
            odds = _odds(weighed, parting)
            left += [(way, share * odds[token]) for token, way in parting.ways.items()]
        return shares, usage

    async def _weighed(self, prompt: str, parting: Fork) -> _Weighed:
        """Only the tokens asked for have a chance, so their probabilities are among themselves."""
        asked = {
            "prompt": [prompt, *parting.prefix] if parting.prefix else prompt,
            "n_predict": 1,
            "n_probs": len(parting.ways),
            "logit_bias": [[token, _LIFT] for token in parting.ways],
            "post_sampling_probs": True,
            "samplers": [],
            "temperature": 1.0,
            "cache_prompt": True,
            "response_fields": _FIELDS,
        }
        answer = await self._ask.post(msgspec.json.encode(asked))
        weighed = self._ask.read(msgspec.json.Decoder(_Weighed).decode, answer.body)
        if not weighed.completion_probabilities:
            raise self._ask.unreadable("it has no probabilities")
        return weighed

    async def _tokens(self, labels: tuple[str, ...]) -> dict[str, Tokens]:
        if labels not in self._known:
            cut = {label: await self._token(f" {label}") for label in labels}
            end = await self._token("\n")
            self._known[labels] = ended(cut, end[-1])
        return self._known[labels]

    async def _token(self, text: str) -> Tokens:
        answer = await self._cut.post(msgspec.json.encode({"content": text, "add_special": False}))
        found = self._cut.read(msgspec.json.Decoder(_Tokens).decode, answer.body).tokens
        if not found:
            raise self._cut.unreadable(f"no tokens for {text!r}")
        return tuple(found)


def _odds(weighed: _Weighed, parting: Fork) -> dict[int, float]:
    """They add up to one, whatever was lost in rounding."""
    found = {token.id: token.prob for token in weighed.completion_probabilities[0].top_probs}
    odds = {token: found.get(token, 0.0) for token in parting.ways}
    whole = sum(odds.values())
    return {token: one / whole if whole else 1 / len(odds) for token, one in odds.items()}


PROBABILITIES = "probabilities"

Tokens = tuple[int, ...]


class Choice(NamedTuple):
    """What a schema leaves to be chosen: one of `values`, in `field` or as the whole reply.

    `shown`: the schema has room for the probabilities.
    """

    values: tuple[str | int, ...]
    field: str | None
    shown: bool

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(str(value) for value in self.values)

    def data(self, shares: Mapping[str, float]) -> Any:
        """The most probable one as the schema wants it; of several alike the first."""
        label = best(shares)
        value = self.values[self.labels.index(label)]
        if self.field is None:
            return value
        rounded = {name: round(share, 6) for name, share in shares.items()}
        return {self.field: value, **({PROBABILITIES: rounded} if self.shown else {})}


def weighted(shares: Mapping[str, float], weights: Mapping[str, float]) -> dict[str, float]:
    """Each times its weight; they add up to one again."""
    lifted = {label: share * weights.get(label, 1.0) for label, share in shares.items()}
    whole = sum(lifted.values())
    return {label: one / whole for label, one in lifted.items()} if whole else dict(shares)


def best(shares: Mapping[str, float]) -> str:
    return max(shares, key=lambda label: shares[label])


def choice(schema: Schema | None) -> Choice | None:
    """A schema with labels: `{enum: [...]}`, or an object with one such field. None for others."""
    definition = schema.definition if schema else {}
    values = _values(definition)
    if values:
        return Choice(values, None, shown=False)
    found = [
        (name, values)
        for name, field in definition.get("properties", {}).items()
        if (values := _values(field))
    ]
    if len(found) != 1:
        return None
    (field, values), = found  # fmt: skip
    if set(definition.get("required", ())) - {field, PROBABILITIES}:
        return None
    stated = PROBABILITIES in definition["properties"]
    return Choice(values, field, stated or definition.get("additionalProperties") is not False)


def _values(definition: Any) -> tuple[str | int, ...]:
    """At least two, different as texts, each a word or a whole number."""
    values = definition.get("enum", ()) if isinstance(definition, dict) else ()
    usable = all(_is_label(value) for value in values)
    differ = len({str(value) for value in values}) == len(values)
    return tuple(values) if len(values) > 1 and usable and differ else ()


def _is_label(value: Any) -> bool:
    if isinstance(value, str):
        return bool(value.strip())
    return isinstance(value, int) and not isinstance(value, bool)


# ── the way through the labels' tokens ───────────────────────────────────────────────────────


class Fork(NamedTuple):
    """Labels that begin alike, and by which token they continue. Asked for only where they part."""

    prefix: Tokens
    ways: dict[int, tuple[str, ...]]


def ended(tokens: Mapping[str, Tokens], end: int) -> dict[str, Tokens]:
    """Where one label is the beginning of another, it gets the token that ends a line behind it."""

    def begins_another(mine: Tokens) -> bool:
        return any(other != mine and other[: len(mine)] == mine for other in tokens.values())

    return {label: (*mine, end) if begins_another(mine) else mine for label, mine in tokens.items()}


def fork(tokens: Mapping[str, Tokens], among: tuple[str, ...]) -> Fork | None:
    """The first place where these labels part; None for a single one, or if they never do."""
    shortest = min(len(tokens[label]) for label in among)
    for at in range(shortest if len(among) > 1 else 0):
        ways: dict[int, tuple[str, ...]] = {}
        for label in among:
            token = tokens[label][at]
            ways[token] = (*ways.get(token, ()), label)
        if len(ways) > 1:
            return Fork(tokens[among[0]][:at], ways)
    return None
