"""The kind `replay`: recorded replies from a JSON Lines file, by key or by item id."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec

from fanfold.errors import BadInput, Terminal
from fanfold.members.kinds import BuildContext, MemberFields
from fanfold.price import FREE
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.document import why_unreadable
from fanfold.work.files import expanded
from fanfold.work.item import Item
from fanfold.work.member import Request, Tell, Traits
from fanfold.work.nesting import decode_json
from fanfold.work.reader import Text
from fanfold.work.usage import with_plausible_usage


class ReplayFields(MemberFields, frozen=True, kw_only=True, tag="replay"):
    """`file` is looked for beside the roster."""

    file: Text

    def traits(self, roster: Path) -> Traits:
        price = self.stated_price or FREE
        answerer = f"replay:{_digest(roster / expanded(self.file))}"
        return Traits(**self.common(), answerer=answerer, price=price, metered=price != FREE)

    def build(self, traits: Traits, context: BuildContext) -> Replay:
        return Replay(traits, context.roster / expanded(self.file))


def _digest(path: Path) -> str:
    """Of the recorded replies. A missing file shows when the member is opened, not before."""
    if path.exists() and not path.is_file():
        return "unreadable"
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except OSError:
        return "unreadable"


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reply: str | dict[str, Any] | list[Any] | int | float | bool
    key: str | None = None
    id: str | int | None = None
    usage: Usage | None = None


class Replay:
    """Gives back what was recorded: one JSON object per line, for example

    `{"id": "c-17", "reply": {"clause": "…"}}` or `{"key": "9f…", "reply": "…", "usage": {…}}`.

    A reply by key goes before one by item id. A shard is answered when all its items are there.
    Replies are held in memory; what is not recorded is refused, it is never made up.
    """

    def __init__(self, traits: Traits, path: str | Path) -> None:
        self._traits, self._path = traits, Path(path)
        self._by_key: dict[str, Reply] = {}
        self._by_id: dict[str, Reply] = {}

    @property
    def traits(self) -> Traits:
        return self._traits

    async def open(self) -> None:
        if self._path.is_fifo() or self._path.is_char_device():
            what = "is a pipe or a device; it is read more than once, so save it to a file first"
            raise BadInput(what, file=str(self._path))
        try:
            with self._path.open("rb") as stream:
                for number, line in enumerate(stream, 1):
                    if not line.isspace():
                        self._record(line, number)
        except OSError as error:
            raise BadInput(why_unreadable(error), file=str(self._path)) from None

    async def close(self) -> None:
        """Nothing to close."""

    def prepare(self, ask: Ask) -> Request:
        """What it will take is on record, so the worst case is what was taken."""
        try:
            usage = self._recorded(ask).usage or Usage()
        except Terminal:
            usage = Usage()
        return Request(ask, b"", usage.total - usage.output, usage.output)

    async def ask(self, request: Request, tell: Tell) -> Reply:
        return self._recorded(request.ask)

    def _recorded(self, ask: Ask) -> Reply:
        known = self._by_key.get(ask.key("messages").hex()) if self._by_key else None
        if known is not None:
            return known
        if len(ask.items) == 1:
            return self._of(ask.items[0])
        if not ask.items:
            raise self._missing("this ask")
        replies = [(item, self._of(item)) for item in ask.items]
        answers = [{"id": item.id, "answer": reply.value} for item, reply in replies]
        return Reply(data={"answers": answers}, usage=_together([r.usage for _, r in replies]))

    def _of(self, item: Item) -> Reply:
        reply = self._by_id.get(item.id)
        if reply is None:
            raise self._missing(f"item `{item.id}`")
        return reply

    def _missing(self, what: str) -> Terminal:
        return Terminal(f"no recorded reply for {what} in {self._path}", scope="ask")

    def _record(self, line: bytes, number: int) -> None:
        try:
            found = msgspec.convert(decode_json(line), _Line)
        except ValueError as error:
            raise self._bad(f"broken recorded reply: {error}", number) from None
        if (found.key is None) == (found.id is None):
            raise self._bad("a recorded reply needs either `key` or `id`", number)
        text = found.reply if isinstance(found.reply, str) else ""
        data = None if isinstance(found.reply, str) else found.reply
        reply = with_plausible_usage(Reply(text=text, data=data, usage=found.usage))
        if reply.unusable:
            raise self._bad(f"the usage of a recorded reply is wrong: {reply.unusable}", number)
        table, name = (
            (self._by_id, str(found.id)) if found.key is None else (self._by_key, found.key.lower())
        )
        if name in table:
            raise self._bad(f"duplicate reply for `{name}`", number)
        table[name] = reply

    def _bad(self, what: str, line: int) -> BadInput:
        return BadInput(what, file=str(self._path), line=line)


def _together(usages: list[Usage | None]) -> Usage | None:
    """The sum, when at least one of the recorded replies says what it took."""
    known = [usage for usage in usages if usage is not None]
    return sum(known, Usage()) if known else None
