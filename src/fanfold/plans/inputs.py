"""Where items come from: files, globs, lists, programs, URLs; read lazily, again and again."""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any

from msgspec.structs import replace

from fanfold.errors import BadInput
from fanfold.plans import rows
from fanfold.plans.from_outside import STDIN, bad, drain, fetch, run_command
from fanfold.plans.header import Input, InputFields, InputKind, InputUrl, Overrides
from fanfold.plans.rows import Row
from fanfold.plans.variables import filled
from fanfold.run.sources import own
from fanfold.work.check import described
from fanfold.work.document import Node, why_unreadable
from fanfold.work.files import expanded, replacing
from fanfold.work.item import Item, canonical, digest

_STREAM = re.compile(r"-|/dev/stdin|(/dev|/proc/self)/fd/\d+")

_GIVEN_BY: dict[str, Callable[[Any], str]] = {
    "command": lambda cmd: f"the output of `{cmd[0]}`",
    "http": lambda url: "what the input URL gave",
}
_PATHS = ("jsonl", "json", "csv", "tsv", "lines", "files")


def read_input(node: Node, given: InputFields, values: dict[str, Any]) -> Input:
    """Where items come from, with the variables of the plan in its paths."""
    (kind,) = given.kinds()
    value = getattr(given, kind)
    if kind in _PATHS:
        value = filled(node.child(kind), value, values)
    elif isinstance(value, tuple | InputUrl):
        value = list(value) if isinstance(value, tuple) else str(value)  # as JSON stores it
    return Input(kind, value, given.id or None, given.limit or None, node.file, node.line)


def is_stream_name(said: str) -> bool:
    """Stdin, or another open handle."""
    return _STREAM.fullmatch(said) is not None


def is_stream(spec: Input) -> bool:
    """Whether the items can be read only once."""
    return spec.kind in rows.READERS and is_stream_name(spec.value)


def overridden(stated: Input | None, overrides: Overrides) -> Input | None:
    """What the operator names in place of the plan's input, or only the first of its items."""
    found = stated if overrides.input is None else _instead(stated, overrides.input)
    if overrides.limit is None:
        return found
    if found is None:
        raise BadInput("--limit: the plan has no `input` of which it could be a part")
    limit = overrides.limit if found.limit is None else min(overrides.limit, found.limit)
    return replace(found, limit=limit)


def _instead(stated: Input | None, said: str) -> Input:
    """Another file, relative to the current folder. Its kind follows from its ending, or else is that
    of the plan's input."""
    before = Input("jsonl", "") if stated is None else stated
    kind = _kind_of(said, before.kind)
    value = said if is_stream_name(said) else str(expanded(said).absolute())
    id = before.id if kind not in ("lines", "files") else None
    return Input(kind, value, id, before.limit, "--input")


def _kind_of(said: str, before: InputKind) -> InputKind:
    path = Path(said)
    by_ending = rows.kind_of(path)
    if is_stream_name(said):
        return before if before in rows.READERS else "jsonl"
    if path.is_dir():
        raise BadInput(f"--input {said}: is a directory; for the files in it: --input '{said}/*'")
    if glob.has_magic(said) and not path.exists():
        return "files"
    if by_ending is not None and before != "lines":
        return by_ending
    if before in rows.READERS:
        return before
    known = ", ".join(rows.ENDINGS)
    raise BadInput(f"--input {said}: its ending does not say what it is; known: {known}")


class Records:
    """A Source over rows. Rows that are skipped are not decoded; nothing is kept in memory.

    `rows` walks through (line, raw row), `read` decodes one, `name` gives an item its id.
    """

    def __init__(
        self,
        file: str,
        rows: Callable[[], Iterator[Row]],
        read: Callable[[Any, int], Any],
        name: Callable[[Any, int, int], str],
        limit: int | None,
        fingerprint: Callable[[], str],
    ) -> None:
        self._file, self._rows, self._read, self._name = file, rows, read, name
        self._limit, self._fingerprint = limit, fingerprint

    def __repr__(self) -> str:
        return f"<Records {self._file}>"

    def walk(self, skip: bytes | bytearray = b"") -> Iterator[tuple[int, Item]]:
        read, name, known, limit = self._read, self._name, len(skip), self._limit
        for position, (line, raw) in enumerate(self._rows()):
            if position == limit:
                return
            if position < known and skip[position]:
                continue
            data = read(raw, line)
            yield position, Item(name(data, position, line), data)

    def fingerprint(self) -> str:
        return self._fingerprint()

    def where(self, position: int) -> str:
        """`file:line` of an item, for error texts."""
        for n, (line, _) in enumerate(self._rows()):
            if n == position:
                return f"{self._file}:{line}"
        return self._file


class _Files(Records):
    """Whole files, each an item."""

    def where(self, position: int) -> str:
        _, name = next(islice(self._rows(), position, None), (1, ""))
        return str(Path(self._file) / name)


def open_input(
    spec: Input, folder: str | Path, *, spool: str | Path | None = None, again: bool = False
) -> Records:
    """The source that a plan's `input` names; paths start from `folder`. BadInput if it cannot be.

    Programs, URLs and stdin are read once and what they give is kept in `spool`; a file that is
    already there is used again. So give each run a spool folder of its own, and a resumed run the
    same. `again`: it was read before, so stdin is another one now.
    """
    if is_stream(spec):
        return _from_stream(spec, spool, again)
    match spec.kind:
        case "list":
            return _listed(spec)
        case "count":
            return Numbered(spec)
        case "files":
            return _globbed(spec, Path(folder))
        case "command":
            return _from_spool(spec, spool, lambda to: run_command(spec, Path(folder), to))
        case "http":
            return _from_spool(spec, spool, lambda to: fetch(spec, to))
        case _:
            return _from_file(spec, Path(folder) / expanded(spec.value))


def _from_file(spec: Input, path: Path, name: str | None = None) -> Records:
    """`name`: what people know it by, where that is not its path."""
    try:
        if not path.is_file() and path.exists() and not path.is_dir():
            what = "is a pipe or a device; it is read more than once, so save it to a file first"
            raise bad(spec, f"input `{spec.value}`: {what}")
        with path.open("rb"):
            pass
    except (OSError, ValueError) as error:
        why = why_unreadable(error) if isinstance(error, OSError) else "is not a file name"
        raise bad(spec, f"input `{spec.value}`: {why}") from None
    walk, read = rows.READERS[spec.kind]
    source = Records(
        str(path), lambda: walk(path), lambda raw, line: read(raw, line, path),
        _namer(spec, str(path)), spec.limit, lambda: rows.file_digest(path),
    )  # fmt: skip
    return source if name is None else _Renamed(source, str(path), name)


class _Renamed(Records):
    """Rows of a file that was kept of something else: what is wrong with them is wrong with that."""

    def __init__(self, kept: Records, path: str, name: str) -> None:
        self._kept, self._path, self._file = kept, path, name

    def walk(self, skip: bytes | bytearray = b"") -> Iterator[tuple[int, Item]]:
        try:
            yield from self._kept.walk(skip)
        except BadInput as error:
            if error.file != self._path:
                raise
            raise self._wrong(error) from None

    def _wrong(self, error: BadInput) -> BadInput:
        return BadInput(error.what, file=self._file, line=error.line)

    def fingerprint(self) -> str:
        return self._kept.fingerprint()

    def where(self, position: int) -> str:
        return self._kept.where(position).replace(self._path, self._file)


class _Fetched(_Renamed):
    """What a program or a URL gave: people look for it where the plan names that."""

    def __init__(self, kept: Records, path: str, spec: Input) -> None:
        super().__init__(kept, path, _GIVEN_BY[spec.kind](spec.value))
        self._spec = spec

    def _wrong(self, error: BadInput) -> BadInput:
        who = "a program prints" if self._spec.kind == "command" else "it must be"
        hint = f"; {who} JSON lines or one array" if error.what.startswith("broken JSON") else ""
        at = "" if error.line is None else f", line {error.line}"
        return bad(self._spec, f"{self._file}{at}: {error.what}{hint}")


def _as_it_is(raw: Any, line: int) -> Any:
    return own(raw)


def _listed(spec: Input) -> Records:
    file = spec.file or "list"
    line = spec.line or 1
    return Records(
        file, lambda: ((line, value) for value in spec.value), _as_it_is, _namer(spec, file),
        spec.limit, lambda: digest(canonical(spec.value)).hex(),
    )  # fmt: skip


class Numbered(Records):
    """Numbered items: how many there are is known, and each can be made without those before it."""

    def __init__(self, spec: Input) -> None:
        line, many = spec.line or 1, spec.value
        super().__init__(
            spec.file or "count", lambda: ((line, {"n": n}) for n in range(many)), _as_it_is,
            lambda data, position, line: str(position), spec.limit,
            lambda: digest(canonical(["count", many])).hex(),
        )  # fmt: skip
        self.size: int = many if spec.limit is None else min(many, spec.limit)

    def every(self, stride: int) -> Iterator[tuple[int, Item]]:
        """The first, and then each that is so many later."""
        return ((n, self.item(n)) for n in range(0, self.size, stride))

    def item(self, position: int) -> Item:
        return Item(str(position), own({"n": position}))


def _globbed(spec: Input, folder: Path) -> Records:
    names = rows.matching(folder, spec.value)
    if not names:
        raise bad(spec, f"input: no file matches `{spec.value}` in {folder}")
    return _Files(
        str(folder), lambda: ((1, name) for name in names),
        lambda name, line: rows.read_whole(folder, name), lambda data, position, line: data["path"],
        spec.limit, lambda: rows.files_digest(folder, names),
    )  # fmt: skip


# ── ids ──────────────────────────────────────────────────────────────────────────────────────


def _namer(spec: Input, file: str) -> Callable[[Any, int, int], str]:
    """Who gives an item its id: its field, or its position when no field was named or found."""
    field, stated = spec.id or "id", spec.id is not None

    def name(data: Any, position: int, line: int) -> str:
        if type(data) is dict:
            id = data.get(field)
            if type(id) is str and id:
                return id
            if id is not None:
                return _odd_id(id, field, file, line)
        if stated:
            raise BadInput(f"the item has no id: field `{field}` is missing", file=file, line=line)
        return str(position)

    return name


def _odd_id(id: Any, field: str, file: str, line: int) -> str:
    if isinstance(id, int | float) and not isinstance(id, bool):
        return str(id)
    what = "is empty" if id == "" else f"is {described(id)}"
    raise BadInput(
        f"the item's id must be a text or a number, but `{field}` {what}", file=file, line=line
    )


# ── programs, URLs and stdin, read once ──────────────────────────────────────────────────────


def _from_spool(
    spec: Input, spool: str | Path | None, fetch: Callable[[IO[bytes]], None]
) -> Records:
    path = spool_file(spec, spool)
    if not path.exists():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with _whole_or_not(path) as stream:
                fetch(stream)
        except OSError as error:
            raise bad(spec, f"input cannot be kept in {spool}: {error.strerror}") from None
    kind = spec.kind
    if kind in ("command", "http", "json", "jsonl"):
        kind = "json" if rows.is_array(path) else "jsonl"
    name = None if not is_stream(spec) else STDIN.get(spec.value, spec.value)
    kept = _from_file(replace(spec, kind=kind, value=str(path)), path, name)
    return _Fetched(kept, str(path), spec) if spec.kind in _GIVEN_BY else kept


def spool_file(spec: Input, spool: str | Path | None) -> Path:
    """Where the output of a program, what a URL gave or what came from stdin is kept."""
    if spool is None:
        raise ValueError(f"input kind {spec.kind} needs a spool folder")
    name = digest(canonical([spec.kind, spec.value])).hex()
    return Path(spool) / f"input-{name}.jsonl"


def _from_stream(spec: Input, spool: str | Path | None, again: bool) -> Records:
    path = spool_file(spec, spool)
    if again and not path.exists():
        what = f"the items were read from `{spec.value}`, and {path}, where they were kept, is gone"
        raise bad(spec, f"{what}; start a new run")
    return _from_spool(spec, spool, lambda to: drain(spec, to))


@contextmanager
def _whole_or_not(path: Path) -> Iterator[IO[bytes]]:
    """A file that appears under its name only when all of it is written."""
    with replacing(path, mode=0o600) as stream:
        yield stream
