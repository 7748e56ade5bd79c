"""The kind `local`: a model on this machine, in a server of its own that comes and goes with us."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from fanfold.members.kinds import BuildContext, MemberFields
from fanfold.members.local_labels import Labels
from fanfold.members.local_server import EngineMember, Serving
from fanfold.members.local_store import WEIGHTS, cache_folder, find_engine, find_weights
from fanfold.members.openai import OpenAI
from fanfold.price import FREE
from fanfold.work.files import expanded
from fanfold.work.item import canonical, digest
from fanfold.work.member import Member, Traits
from fanfold.work.reader import Count, Positive, Text
from fanfold.work.started import MAX_BYTES

CONTEXT = 2048  # tokens of a slot, where the roster does not say


class LocalFields(MemberFields, frozen=True, kw_only=True, tag="local"):
    """How the embedded model is served. No `model`: the one that setup fetched. `slots` is how many
    asks at once; no `threads`: half of the processors. `weights`: a label's probability is
    multiplied by its own, 1 where none is stated."""

    context: Count | None = CONTEXT
    max_tokens: Count = 512
    max_bytes: Count = MAX_BYTES
    model: Text = ""
    slots: Count = 4
    threads: Count | None = None
    answers: Literal["chat", "labels"] = "chat"
    weights: Mapping[str, Positive] = msgspec.field(default_factory=dict)

    @property
    def name(self) -> str:
        """What the model is called: its file's name."""
        assert WEIGHTS.proof is not None
        return Path(self.model or WEIGHTS.proof.path).name.removesuffix(".gguf")

    def traits(self, roster: Path) -> Traits:
        """More asks at once than its slots would only wait in line, and their time runs."""
        common, price = self.common(), self.stated_price or FREE
        limits = common["limits"]
        most = min(limits.concurrency, self.slots)
        weights = digest(canonical(self.weights)).hex()[:16] if self.weights else ""
        size = _file_size(roster, self.model)
        return Traits(
            **common | {"limits": msgspec.structs.replace(limits, concurrency=most)},
            answerer=f"local:{self.name}:{size}:{self.answers}{weights}", model=self.name,
            max_bytes=self.max_bytes, price=price, metered=price != FREE,
        )  # fmt: skip

    def build(self, traits: Traits, context: BuildContext) -> Local:
        return Local(traits, self, beside=context.roster)


def _file_size(folder: Path, model: str) -> str:
    """Of the model that is stated; nobody waits for a hash of many gigabytes."""
    try:
        return str((folder / expanded(model)).stat().st_size) if model else "usual"
    except OSError:
        return "unreadable"


class Local(EngineMember):
    """A relative `model` is looked for in `beside`."""

    def __init__(
        self, traits: Traits, fields: LocalFields, *, beside: Path, cache: Path | None = None
    ) -> None:
        self._fields, self._beside = fields, beside
        self._cache = cache or cache_folder()
        super().__init__(traits)

    def speaking(self, address: str) -> Member:
        if self._fields.answers == "labels":
            return Labels(self._traits, address, self.key, self._fields.weights)
        return OpenAI(self._traits, f"{address}/v1", self.key, own=True)

    def serving(self) -> Serving:
        fields = self._fields
        stated = self._beside / expanded(fields.model) if fields.model else None
        return Serving(
            model=str(find_weights(stated, self._cache).absolute()),
            name=fields.name,
            path=find_engine(self._cache),
            slots=fields.slots,
            context=self._traits.context or CONTEXT,
            threads=fields.threads or usual_threads(_processors()),
        )


def usual_threads(processors: int) -> int:
    """Half of them, as two often share one core; of a few, two."""
    return min(processors, max(2, processors // 2))


def _processors() -> int:
    """Those that this process may use."""
    usable = getattr(os, "sched_getaffinity", None)
    return len(usable(0)) if usable else os.cpu_count() or 1
