"""The server's own books: what was asked, how often, and what it would have billed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Literal

import msgspec

from fanfold.price import FREE, Price, cost, scaled
from fanfold.testing.script import Asked
from fanfold.work.ask import Usage

End = Literal["open", "answered", "broken", "dropped", "gone", "refused", "hung"]
"""How a request ended: still open · a whole reply was sent · a reply that is not JSON was sent ·
the script cut the connection · the client (or the server) went away first · an error was sent ·
it was never answered."""


class BookEntry(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One request. `key` is a digest, never the value; `cost` is in nano-dollars, by our prices;
    `session` is that of the agent which asked, if one did; `batch` the batch that it was a line of;
    `files`: the hashes of what is in its files."""

    n: int
    path: str
    prompt: str
    model: str
    content: str
    key: str = ""
    end: End = "open"
    status: int = 200
    billed: bool = False
    usage: Usage = Usage()
    cost: int = 0
    session: str = ""
    batch: str = ""
    files: tuple[str, ...] = ()

    @property
    def answered(self) -> bool:
        return self.end == "answered"


class Totals(msgspec.Struct, frozen=True):
    """The books in one line, with the CPU seconds the server's process has used so far."""

    asked: int
    in_flight: int
    max_in_flight: int
    paid_calls: int
    bill: int
    cpu_seconds: float = 0.0


Prices = Price | Mapping[str, Price]
BATCH_PRICE = 0.5  # of the usual one

_line = msgspec.json.Encoder().encode
_entry = msgspec.json.Decoder(BookEntry).decode


def key_digest(key: str) -> str:
    return blake2b(key.encode(), digest_size=8).hexdigest() if key else ""


class ServerBooks:
    """Every request, from its arrival on. `prices`: one for all models, or by model (others free).

    With a file, a request's line is written there when it ends and before its reply is sent, so
    the file is true whatever happens to the client.
    """

    def __init__(self, prices: Prices = FREE, file: Path | None = None) -> None:
        self._prices = prices
        self._entries: list[BookEntry] = []
        self._file = None if file is None else os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.in_flight = 0
        self.max_in_flight = 0

    @staticmethod
    def read(file: Path) -> ServerBooks:
        """The books another process keeps. A last line that is half written is left out."""
        whole = file.read_bytes() if file.exists() else b""
        return ServerBooks.of(_entry(line) for line in whole.split(b"\n")[:-1])

    @staticmethod
    def of(entries: Iterable[BookEntry]) -> ServerBooks:
        books = ServerBooks()
        books._entries = list(entries)
        return books

    def __len__(self) -> int:
        return len(self._entries)

    def arrive(self, asked: Asked, batch: str = "") -> None:
        """Requests arrive in the order of their numbers, from 1."""
        key = key_digest(asked.key)
        entry = BookEntry(
            *(asked.n, asked.path, asked.prompt, asked.model, asked.content, key),
            session=asked.session,
            batch=batch,
            files=tuple(one.hash for one in asked.files),
        )
        self._entries.append(entry)
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)

    def settle(self, n: int, end: End, *, status: int = 200, usage: Usage | None = None) -> None:
        """`usage` given: a reply was produced, so it is billed."""
        entry = self._entries[n - 1]
        billed = usage is not None
        usage = usage or Usage()
        entry = BookEntry(
            *(n, entry.path, entry.prompt, entry.model, entry.content, entry.key),
            end=end,
            status=status,
            billed=billed,
            usage=usage,
            cost=self._cost(entry.model, usage, entry.batch) if billed else 0,
            session=entry.session,
            batch=entry.batch,
            files=entry.files,
        )
        self._entries[n - 1] = entry
        self.in_flight -= 1
        if self._file is not None:
            os.write(self._file, _line(entry) + b"\n")

    def _cost(self, model: str, usage: Usage, batch: str) -> int:
        prices = self._prices
        price = prices if isinstance(prices, Price) else prices.get(model, FREE)
        if batch:
            price = scaled(price, BATCH_PRICE)
        return cost(price, usage.input, usage.output, usage.cache_read, usage.cache_write)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    @property
    def asked(self) -> list[BookEntry]:
        """All requests in the order of arrival; those under way have the end `open`."""
        return list(self._entries)

    def of_prompt(self, prompt: str) -> list[BookEntry]:
        return [entry for entry in self._entries if entry.prompt == prompt]

    def count(self, prompt: str) -> int:
        """How often this very prompt (the last user text) was asked, whatever came of it."""
        return len(self.of_prompt(prompt))

    @property
    def paid(self) -> list[BookEntry]:
        return [entry for entry in self._entries if entry.billed]

    @property
    def paid_calls(self) -> int:
        return len(self.paid)

    @property
    def bill(self) -> int:
        """Nano-dollars."""
        return sum(entry.cost for entry in self._entries)

    def of_session(self, session: str) -> ServerBooks:
        """The books of one agent's session alone."""
        return ServerBooks.of(entry for entry in self._entries if entry.session == session)

    def paid_twice(self) -> dict[str, int]:
        """Contents that were billed more than once, with how often."""
        counts = Counter(entry.content for entry in self.paid)
        return {content: times for content, times in counts.items() if times > 1}

    def totals(self, cpu_seconds: float = 0.0) -> Totals:
        return Totals(
            len(self), self.in_flight, self.max_in_flight, self.paid_calls, self.bill, cpu_seconds
        )
