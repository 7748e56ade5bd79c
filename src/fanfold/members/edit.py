"""Changes of a roster file that leave every other line, and every comment, as it is.

A field's value is replaced in its line; a new field is a new line, or goes into the brackets of
`{id: a, …}`. What cannot be done that way is refused. Nothing is written before the new text was
read again: it must differ in exactly that field, and be a roster.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, NamedTuple

from fanfold.errors import BadInput
from fanfold.members.keys import check_reference, looks_like_key
from fanfold.members.roster import DEFAULT_ROSTER, read_roster
from fanfold.work.document import Node, Place, parse, read_text
from fanfold.work.files import replacing
from fanfold.work.nearest import remedy
from fanfold.work.reader import Misfit
from fanfold.work.rewrite import CannotEdit, with_field, without
from fanfold.work.written import YamlPart, written

REMOVED: Any = object()
"""Instead of a value: the field is removed."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_WORD = re.compile(r"[A-Za-z0-9_.+-]+")
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
_ODD_BREAKS = re.compile("\r(?!\n)|[\x85\u2028\u2029]")


class Edit(NamedTuple):
    """One field of a member, by its path, and its new value."""

    path: tuple[str, ...]
    value: Any

    @property
    def name(self) -> str:
        return ".".join(self.path)


class Changed(NamedTuple):
    """A line that went (`-`) or came (`+`), without its line break."""

    line: int
    sign: str
    text: str


# ── what is wanted ───────────────────────────────────────────────────────────────────────────


def parse_edit(word: str) -> Edit:
    """`field=value`, `field=[a, b]`, `price={input: 1, output: 5}`, `limits.rpm=60`; `field=` takes
    it away. A key in clear is refused, and not repeated."""
    name, equals, said = word.partition("=")
    name, said = name.strip(), said.strip()
    if not equals or not _NAME.fullmatch(name):
        shown = "that" if looks_like_key(word) else f"`{word}`"
        raise BadInput(f"{shown} is not field=value; write, for example, enabled=false")
    path = tuple(name.split("."))
    if not said:
        return Edit(path, REMOVED)
    if path[-1] in ("key", "key_ref"):
        check_key(path[-1], said)
    if looks_like_key(said):
        raise BadInput(f"`{name}`: that looks like a key; write key=env:NAME or key=file:PATH")
    return Edit(path, _value(name, said))


def check_key(name: str, said: str) -> None:
    try:
        check_reference(said, name)
    except Misfit as misfit:
        raise BadInput(misfit.what) from None


def _value(name: str, said: str) -> Any:
    if said[0] in "[{\"'" or _WORD.fullmatch(said):
        try:
            return parse(said, name).value
        except BadInput as error:
            raise BadInput(f"`{name}`: {error.what}") from None
    if name == "good_at" and "," in said:
        return [tag.strip() for tag in said.split(",") if tag.strip()]
    return said


# ── the file ─────────────────────────────────────────────────────────────────────────────────


def edit_roster(path: str | Path, id: str, edits: Sequence[Edit]) -> list[Changed]:
    """Change a member in a roster file, all edits or none. The lines that differ now.

    The file is replaced in one step and keeps its mode; a link stays a link.
    """
    file = str(path)
    if Path(path) == DEFAULT_ROSTER:
        raise BadInput("there is no roster.yaml here, and fanfold's own roster stays as it is")
    if file.endswith(".json"):
        raise BadInput("only rosters in YAML can be changed here", file=file)
    before = read_text(path)
    after = edited(before, file, id, edits)
    if after != before:
        _replace(Path(path).resolve(), before, after)
    return list(_differences(before, after))


def add_member(path: Path, fields: Mapping[str, str]) -> list[Changed]:
    """Write a new member at the end of the list, in one line; a file that is not there is made."""
    if str(path).endswith(".json"):
        raise BadInput("only rosters in YAML can be changed here", file=str(path))
    shown = ", ".join(f"{name}: {_plain(value)}" for name, value in fields.items())
    if not path.exists():
        text = f"members:\n  - {{{shown}}}\n"
        read_roster(parse(text, str(path)))
        with replacing(path) as out:
            out.write(text.encode())
        return [Changed(n, "+", line) for n, line in enumerate(text.splitlines(), 1)]
    before = read_text(path)
    after = _with_entry(before, str(path), f"- {{{shown}}}")
    read_roster(parse(after, str(path)))
    _replace(path.resolve(), before, after)
    return list(_differences(before, after))


def _with_entry(text: str, file: str, entry: str) -> str:
    top, whole = parse(text, file).value, written(text)
    named = whole.named("members") if whole.shape == "mapping" else None
    held = whole if named is None else named[1]
    if held.shape != "list" or held.flow or not held.inner:
        raise BadInput("its members are not one below the other; add it by hand", file=file)
    column = held.start - text.rfind("\n", 0, held.start) - 1
    at = text.find("\n", held.end - 1)
    before, rest = (text, "") if at < 0 else (text[:at], text[at:])
    new = f"{before}\n{' ' * column}{entry}{rest}"
    found = parse(new, file).value
    lists = [one["members"] if isinstance(one, dict) else one for one in (top, found)]
    if lists[0] != lists[1][:-1]:
        raise BadInput("more than that would change; add it by hand", file=file)
    return new


def _plain(value: str) -> str:
    return value if _PLAIN.fullmatch(value) else json.dumps(value)


def edited(text: str, file: str, id: str, edits: Sequence[Edit]) -> str:
    """The text with these changes and no others; BadInput when they cannot be made."""
    if odd := _ODD_BREAKS.search(text):
        line = text.count("\n", 0, odd.start()) + 1
        raise BadInput(
            "has line breaks of an unusual kind; change it by hand", file=file, line=line
        )
    for edit in edits:
        text = _with(text, file, id, edit)
    read_roster(parse(text, file))
    return text


def _replace(path: Path, before: str, after: str) -> None:
    new = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        old = path.read_bytes()
        mark = b"\xef\xbb\xbf" if old.startswith(b"\xef\xbb\xbf") else b""
        if old != mark + before.encode():
            raise BadInput("was changed by someone else meanwhile; try again", file=str(path))
        # A new file beside the old one, with its mode and, where that is allowed, its owner
        found = path.stat()
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(handle, "wb") as stream:
            stream.write(mark + after.encode())
            stream.flush()
            with contextlib.suppress(PermissionError):
                os.fchown(handle, found.st_uid, found.st_gid)
            os.fchmod(handle, found.st_mode & 0o7777)
            os.fsync(handle)
        os.replace(new, path)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise BadInput(f"cannot be written ({why})", file=str(path)) from None
    finally:
        with contextlib.suppress(OSError):
            new.unlink()


def _differences(before: str, after: str) -> Iterator[Changed]:
    old, new = ([line.rstrip("\r") for line in text.split("\n")] for text in (before, after))
    for tag, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            yield from (Changed(n + 1, "-", old[n]) for n in range(a, b))
            yield from (Changed(n + 1, "+", new[n]) for n in range(c, d))


# ── one change ───────────────────────────────────────────────────────────────────────────────


def _with(text: str, file: str, id: str, edit: Edit) -> str:
    top = parse(text, file)
    place = _find(top, id)
    member = _at(top, place)
    wanted = _expected(top, place, edit)
    if wanted == top.value and _same_types(wanted, top.value):
        return text
    spot = _written_at(written(text), (*place, *edit.path[:-1]))
    if spot is None or spot.shape != "mapping":
        raise _by_hand(member, edit, f"its `{'.'.join(edit.path[:-1]) or id}` is not written there")
    name = edit.path[-1]
    try:
        removes = edit.value is REMOVED
        new = without(text, spot, name) if removes else with_field(text, spot, name, edit.value)
    except CannotEdit as why:
        raise _by_hand(member, edit, str(why)) from None
    try:
        found = parse(new, file).value
    except BadInput:
        found = None
    if found != wanted or not _same_types(found, wanted):
        raise _by_hand(member, edit, "more than that would change")
    return new


def _by_hand(member: Node, edit: Edit, why: str) -> BadInput:
    return member.bad(f"`{edit.name}` cannot be changed here: {why}; change it by hand")


def _find(top: Node, id: str) -> Place:
    """Where the member is: below `members`, or in TangleBrain's list."""
    start: Place = () if isinstance(top.value, list) else ("members",)
    held = top.value.get("members") if isinstance(top.value, dict) else top.value
    if not isinstance(held, list):
        raise top.bad("this is not a roster: it needs a list `members`")
    ids = [one.get("id") if isinstance(one, dict) else None for one in held]
    if id not in ids:
        known = {one for one in ids if isinstance(one, str)}
        raise BadInput(f"there is no member `{id}`: {remedy(id, known)}", file=top.file)
    return (*start, ids.index(id))


def _at(top: Node, place: Place) -> Node:
    for step in place:
        top = top.child(step)
    return top


def _expected(top: Node, place: Place, edit: Edit) -> Any:
    """The values as they are to be. A field below one that is not there has no place."""
    whole = copy.deepcopy(top.value)
    spot, member = whole, _at(top, place)
    for step in (*place, *edit.path[:-1]):
        inside = spot.get(step) if isinstance(spot, dict) else spot[step]
        if not isinstance(inside, dict | list):
            what = f"the member has no `{step}` to hold `{edit.name}`; set `{step}` whole"
            if edit.value is not REMOVED and len(edit.path) == 2:
                shown = json.dumps(edit.value, default=str)
                what += f": '{step}={{{edit.path[-1]}: {shown}}}'"
            raise member.bad(what)
        spot = inside
    if not isinstance(spot, dict):
        raise member.bad(f"`{edit.path[-2]}` is a list; set it whole")
    if edit.value is not REMOVED:
        spot[edit.path[-1]] = edit.value
    elif spot.pop(edit.path[-1], REMOVED) is REMOVED:
        raise member.bad(f"the member has no `{edit.name}`: {remedy(edit.path[-1], spot)}")
    return whole


def _same_types(one: Any, other: Any) -> bool:
    """Python holds 1, 1.0 and True for equal; a roster does not."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _written_at(part: YamlPart, place: Place) -> YamlPart | None:
    for step in place:
        if isinstance(step, int):
            part = part.inner[step]
            continue
        pair = part.named(step)
        if pair is None:
            return None
        part = pair[1]
    return part
