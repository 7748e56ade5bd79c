"""The kind `embedding`: texts become vectors, many of them in one request.

Over the wire of OpenAI's embeddings, which most servers speak, or by the embedded engine with a model
file of its own (`engine: local`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

import msgspec

from fanfold.errors import InvalidReply
from fanfold.members.endpoint import ApiFields, Endpoint
from fanfold.members.entry import constructor
from fanfold.members.keys import Key, fetcher
from fanfold.members.kinds import UNSENT, BuildContext
from fanfold.members.local_server import EngineMember, Serving
from fanfold.members.local_store import cache_folder, find_engine, find_weights
from fanfold.members.openai import ROWS, OpenAIFields, bearer, header_of
from fanfold.members.providers import PROVIDERS, Provider
from fanfold.members.reported import of_embeddings
from fanfold.price import FREE
from fanfold.work.ask import Ask, Reply
from fanfold.work.files import expanded
from fanfold.work.member import Request, Tell, Traits
from fanfold.work.reader import Count, Misfit
from fanfold.work.split import texts_of

_CONTEXT = 512  # tokens of a slot of the engine, where the roster does not say
_THREADS = 2


class EmbeddingFields(OpenAIFields, frozen=True, kw_only=True, tag="embedding"):
    """A model that makes vectors: `members=[ff.embedding("text-embedding-3-small")]`.

    The fields are those of `ff.openai`; `dimensions` asks for shorter vectors. `engine="local"`: the
    embedded engine makes them, with the GGUF file `model`; `pooling`: how one vector is made of those of
    all tokens, where the model does not say.
    """

    absent: ClassVar[tuple[str, ...]] = ("batch_price", "tools", "tool_rounds", "tool_calls")
    unsent: ClassVar[tuple[str, ...]] = UNSENT

    dimensions: Count | None = None
    engine: Literal["openai", "local"] = "openai"
    pooling: Literal["mean", "cls", "last"] | None = None

    def __post_init__(self) -> None:
        if self.engine == "local":
            for name in ("base_url", "provider", "dimensions"):
                if getattr(self, name):
                    raise Misfit(f"`{name}` has no use with `engine: local`", name)
        elif self.pooling is not None:
            raise Misfit("`pooling` has no use without `engine: local`", "pooling")
        if self.engine == "local":
            self.put(base_url="http://127.0.0.1", key="none", tier=self.tier or "local")
        super().__post_init__()

    @property
    def usual_media(self) -> tuple[()]:
        return ()

    def usual_batch_price(self) -> None:
        return None

    def traits(self, roster: Path) -> Traits:
        """Another length, or another way to make one, is another answer."""
        known = super().traits(roster)
        length = f":{self.dimensions or self.pooling}" if self.dimensions or self.pooling else ""
        own: dict[str, Any] = {"answerer": f"embedding:{self.model}{length}", "takes_tools": False}
        if self.engine == "local":
            own |= {
                "price": self.stated_price or FREE,
                "remote": False,
                "pool": self.pool or self.id,
            }
        return msgspec.structs.replace(known, **own)

    def build(self, traits: Traits, context: BuildContext) -> Embedding | LocalEmbedding:
        if self.engine == "local":
            return LocalEmbedding(traits, self, context.roster)
        key = fetcher(self.id, self.key, context.roster)
        provider = PROVIDERS[self.provider]
        return Embedding(traits, self.base_url, key, self.dimensions, provider)

    async def trouble(self, traits: Traits, context: BuildContext) -> str | None:
        if self.engine == "local":
            return await super(ApiFields, self).trouble(traits, context)
        return await super().trouble(traits, context)


embedding = constructor(EmbeddingFields, lambda given: given["model"])


class _Asked(msgspec.Struct, frozen=True, omit_defaults=True):
    model: str
    input: tuple[str, ...]
    encoding_format: str = ""
    dimensions: int | None = None


class _Vector(msgspec.Struct):
    embedding: list[float]
    index: int = -1


class _Answer(msgspec.Struct):
    data: list[_Vector]
    usage: Any = None
    model: str | None = None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Answer).decode


class Embedding:
    """An ask of several items (`work/split.inputs_together`) is one request with an input for each. The
    reply's data is a vector, or a list of them in the order of the inputs."""

    def __init__(
        self, traits: Traits, base_url: str, key: Key, dimensions: int | None, provider: Provider
    ) -> None:
        headers = header_of(provider.header) if provider.header else bearer
        self._traits, self._dimensions = traits, dimensions
        self._endpoint = Endpoint(traits, _url(base_url), key, headers, ROWS)

    @property
    def traits(self) -> Traits:
        return self._traits

    async def open(self) -> None:
        await self._endpoint.open()

    async def close(self) -> None:
        await self._endpoint.close()

    def prepare(self, ask: Ask) -> Request:
        """A token is a byte at least, so there are no more of them than bytes."""
        texts = texts_of(ask)
        asked = _Asked(self._traits.model or "", texts, "float", self._dimensions)
        return Request(ask, _encode(asked), input_tokens=1024 + sum(map(_bytes, texts)))

    async def ask(self, request: Request, tell: Tell) -> Reply:
        answer = await self._endpoint.post(request.body)
        return self._reply(request, self._endpoint.read(_decode, answer.body))

    def _reply(self, request: Request, answer: _Answer) -> Reply:
        """Every input has one vector, all of one length, or none of them can be used."""
        wanted = len(texts_of(request.ask))
        found = {n if one.index < 0 else one.index: one for n, one in enumerate(answer.data)}
        vectors = [found[n].embedding for n in range(wanted) if n in found]
        lengths = {len(one) for one in vectors}
        if (
            len(vectors) != wanted
            or len(answer.data) != wanted
            or len(lengths) != 1
            or 0 in lengths
        ):
            raise InvalidReply(
                f"{self._traits.id}: {wanted} vectors were asked for, {len(answer.data)} came"
            )
        usage, unusable = of_embeddings(answer.usage)
        data: Any = vectors if len(request.ask.items) > 1 else vectors[0]
        return Reply(data=data, usage=usage, model=answer.model, unusable=unusable)


class LocalEmbedding(EngineMember):
    """The embedded engine with an embedding model."""

    def __init__(self, traits: Traits, fields: EmbeddingFields, beside: Path) -> None:
        self._fields, self._beside = fields, beside
        super().__init__(traits)

    def speaking(self, address: str) -> Embedding:
        return Embedding(self._traits, f"{address}/v1", self.key, None, PROVIDERS[""])

    def serving(self) -> Serving:
        cache = cache_folder()
        stated = self._beside / expanded(self._fields.model)
        return Serving(
            model=str(find_weights(stated, cache).absolute()), name=Path(self._fields.model).name,
            path=find_engine(cache), slots=1, context=self._traits.context or _CONTEXT,
            threads=_THREADS, embedding=self._fields.pooling or "model",
        )  # fmt: skip


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _url(base_url: str) -> str:
    base = base_url.rstrip("/")
    return f"{base}/embeddings" if urlsplit(base).path else f"{base}/v1/embeddings"
