"""What users write: YAML and JSON files as plain values that remember their lines.

YAML is read by the rules of YAML 1.2, so `no` and `on` are texts and `12:30` is not a number.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from fanfold.errors import BadInput
from fanfold.work.surrogates import half_surrogate

Place: TypeAlias = tuple[str | int, ...]
Lines: TypeAlias = dict[Place, int]

_SHELL = ("/dev/fd/", "/dev/stdin", "/proc/")
MAX_BYTES = 8_000_000
MAX_DEPTH = 60
MAX_VALUES = 200_000
_NULL = "a text holds a null character, which no path, program or database takes"
MAX_DIGITS, MAX_BITS = 1000, 1000  # of a whole number; what is longer is no floating-point number

_CORE_TAGS = {f"tag:yaml.org,2002:{n}" for n in ("str", "int", "float", "bool", "null", "map",
                                                 "seq", "timestamp", "merge", "value")}  # fmt: skip
_MERGE = "tag:yaml.org,2002:merge"
_WORDS: dict[str, object] = {"": None, "~": None, "null": None, "Null": None, "NULL": None,
                             "true": True, "True": True, "TRUE": True,
                             "false": False, "False": False, "FALSE": False}  # fmt: skip
_WHOLE = re.compile(r"[-+]?[0-9]+|0x[0-9a-fA-F]+|0o[0-7]+")
_REAL = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"([-+]?)\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]|[^\s{}\[\],:"]+')


class Node:
    """A value with its place: which file, which line, which way from the top."""

    __slots__ = ("file", "lines", "place", "value")

    def __init__(self, value: Any, file: str, lines: Lines, place: Place = ()) -> None:
        self.value, self.file, self.lines, self.place = value, file, lines, place

    def __repr__(self) -> str:
        return f"<Node {self.name} {self.file}:{self.line}>"

    @property
    def line(self) -> int:
        """The line of the key (or of the list element) that holds this value."""
        return self.lines.get(self.place, 1)

    @property
    def name(self) -> str:
        """What to call it in an error: `good_at[1]`, `timeout`."""
        numbers = ""
        for step in reversed(self.place):
            if isinstance(step, str):
                return step + numbers
            numbers = f"[{step}]{numbers}"
        return numbers or "the file"

    def bad(self, what: str) -> BadInput:
        return BadInput(what, file=self.file, line=self.line)

    def line_in_text(self, number: int) -> int:
        """The file's line of the n-th line of a text value; block texts start below their key."""
        start = self.lines.get((*self.place, "|"))
        return self.line if start is None else start + number

    def child(self, key: str | int) -> Node:
        return Node(self.value[key], self.file, self.lines, (*self.place, key))


def read(path: str | Path) -> Node:
    """Parse a YAML or JSON file (by its ending). Raises BadInput, one line, whatever is wrong."""
    text = read_text(path)
    return parse(text, str(path), as_json=str(path).endswith(".json"))


def read_text(path: str | Path, *, limit: int = MAX_BYTES) -> str:
    """The text of a UTF-8 file; a missing, foreign or oversized one is BadInput."""
    file = str(path)
    try:
        if _is_named_pipe(file):  # nobody may ever write to it
            raise BadInput("is a pipe, not a file; save what it gives to a file", file=file)
        with open(path, "rb") as stream:
            raw = stream.read(limit + 1)
    except OSError as error:
        raise BadInput(why_unreadable(error), file=file) from None
    except ValueError:
        raise BadInput("is not a file name", file=repr(file)) from None
    if len(raw) > limit:
        raise BadInput(f"is larger than {limit // 1_000_000} MB", file=file)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise BadInput("is not UTF-8 text; save it as UTF-8", file=file, line=line) from None


def _is_named_pipe(file: str) -> bool:
    """Pipes that a shell made for one call (`<(…)`) have a writer, so they can be waited for."""
    return stat.S_ISFIFO(os.stat(file).st_mode) and not file.startswith(_SHELL)


def why_unreadable(error: OSError) -> str:
    """An OSError in the words of this project, without the path."""
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, IsADirectoryError):
        return "is a directory, not a file"
    if isinstance(error, PermissionError):
        return "may not be read (permission denied)"
    return f"cannot be read ({(error.strerror or str(error)).lower()})"


def parse(text: str, file: str, *, as_json: bool = False) -> Node:
    """Text to a Node. Duplicate keys, foreign tags, alias bombs and deep nesting are refused."""
    if not text.strip():
        raise BadInput("is empty", file=file)
    return _parse_json(text, file) if as_json else _parse_yaml(text, file)


def _parse_yaml(text: str, file: str) -> Node:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _refuse_deep(text, file, loader)
        root = yaml.compose(text, loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        problem = error.problem or error.context or ""
        what = f"broken YAML: {problem}{_yaml_remedy(problem, text, mark)}"
        raise BadInput(what, file=file, line=line) from None
    except yaml.YAMLError as error:
        line = text.count("\n", 0, getattr(error, "position", 0)) + 1
        reason = str(getattr(error, "reason", error)).splitlines()[0]
        raise BadInput(f"broken YAML: {reason}", file=file, line=line) from None
    if root is None:
        raise BadInput("is empty", file=file)
    lines: Lines = {}
    return Node(_Composed(file, lines).value(root, ()), file, lines)


_YAML_REMEDIES = {
    "mapping values are not allowed in this context":
        "; quote a text that has `: ` in it, or correct the indentation",
    "did not find expected key": "; is the line indented like the one before?",
    "found undefined alias": "; quote a text that begins with `*`",
    "found invalid Unicode character escape code":
        "; \\uD800 to \\uDFFF are halves of one: write the character itself",
    "found character that cannot start any token": "; quote a text that begins with it",
}  # fmt: skip


def _yaml_remedy(problem: str, text: str, mark: Any) -> str:
    lines = text.splitlines()
    if "token" in problem and mark and "\t" in "".join(lines[mark.line : mark.line + 1]):
        return "; indent with spaces, not tabs"
    return _YAML_REMEDIES.get(problem, "")


def _refuse_deep(text: str, file: str, loader: Any) -> None:
    """Looks at the events first: the C composer overruns the stack on some thousand levels."""
    depth = 0
    for event in yaml.parse(text, loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                line = event.start_mark.line + 1 if event.start_mark else None
                raise BadInput(f"nested deeper than {MAX_DEPTH} levels", file=file, line=line)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


class _Composed:
    """Turns PyYAML's nodes into plain values and notes where each began."""

    def __init__(self, file: str, lines: Lines) -> None:
        self._file, self._lines, self._count, self._merging = file, lines, 0, 0

    def value(self, node: yaml.Node, place: Place, line: int | None = None) -> Any:
        self._refuse_foreign(node, place)
        self._lines[place] = node.start_mark.line + 1 if line is None else line
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, place)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(child, (*place, n)) for n, child in enumerate(node.value)]
        assert isinstance(node, yaml.ScalarNode)
        if "\0" in node.value:
            raise self._bad(node, _NULL)
        if node.style in ("|", ">"):
            self._lines[(*place, "|")] = node.start_mark.line + 1
        return node.value if node.style else self._plain(node)

    def _refuse_foreign(self, node: yaml.Node, place: Place) -> None:
        self._count += 1
        if self._count > MAX_VALUES:
            raise self._bad(node, f"holds more than {MAX_VALUES:,} values (aliases count)")
        if len(place) > MAX_DEPTH:
            raise self._bad(node, f"nested deeper than {MAX_DEPTH} levels")
        if node.tag not in _CORE_TAGS:
            tag = node.tag.replace("tag:yaml.org,2002:", "!!")
            raise self._bad(node, f"the tag {tag} is not allowed here")

    def _mapping(self, node: yaml.MappingNode, place: Place) -> dict[str, Any]:
        found: dict[str, Any] = {}
        written: set[str] = set()
        for key, child in node.value:
            if _is_merge(key):
                found = self._merged(child, place)
        for key, child in node.value:
            if _is_merge(key):
                continue
            if not isinstance(key, yaml.ScalarNode):
                braces = isinstance(key, yaml.MappingNode)
                hint = "; quote a text that begins with `{{`" if braces else ""
                raise self._bad(key, f"a key must be a text{hint}")
            if key.value in written:
                raise self._bad(key, f"duplicate key `{key.value}`")
            written.add(key.value)
            found[key.value] = self.value(child, (*place, key.value), key.start_mark.line + 1)
        return found

    def _merged(self, node: yaml.Node, place: Place) -> dict[str, Any]:
        """`<<: *other` (or a list of them): fields not written out are taken from there."""
        found: dict[str, Any] = {}
        others = node.value if isinstance(node, yaml.SequenceNode) else [node]
        for other in reversed(others):
            if not isinstance(other, yaml.MappingNode):
                raise self._bad(other, "`<<` takes a mapping or a list of mappings")
            if self._merging > MAX_DEPTH:
                raise self._bad(other, f"`<<` leads to itself, or through {MAX_DEPTH} others")
            self._merging += 1
            found.update(self.value(other, place, self._lines[place]))
            self._merging -= 1
        return found

    def _plain(self, node: yaml.ScalarNode) -> Any:
        text: str = node.value
        if text in _WORDS:
            return _WORDS[text]
        try:
            if _WHOLE.fullmatch(text):
                return _whole_number(text, 0 if text[:2] in ("0x", "0o") else 10)
            if _REAL.fullmatch(text):
                return float(text)
        except ValueError:
            raise self._bad(node, "this number is too long") from None
        return float(text.replace(".", "")) if _SPECIAL.fullmatch(text) else text

    def _bad(self, node: yaml.Node, what: str) -> BadInput:
        return BadInput(what, file=self._file, line=node.start_mark.line + 1)


def _whole_number(text: str, base: int = 10) -> int:
    """ValueError: it is too long."""
    value = int(text, base) if len(text) <= MAX_DIGITS else 1 << MAX_BITS
    if value.bit_length() > MAX_BITS:
        raise ValueError("too long")
    return value


def _is_merge(key: yaml.Node) -> bool:
    return isinstance(key, yaml.ScalarNode) and key.tag == _MERGE and not key.style


def _parse_json(text: str, file: str) -> Node:
    try:
        value = json.loads(text, parse_int=_whole_number)
        if "\\ud" in text.lower() and (half := half_surrogate(text)) is not None:
            line = text.encode().count(b"\n", 0, half.position) + 1
            raise BadInput(f"broken JSON: {half}", file=file, line=line)
    except json.JSONDecodeError as error:
        problem = error.msg[0].lower() + error.msg[1:]
        raise BadInput(f"broken JSON: {problem}", file=file, line=error.lineno) from None
    except RecursionError:
        raise BadInput(f"nested deeper than {MAX_DEPTH} levels", file=file) from None
    except ValueError:
        raise BadInput("broken JSON: a number is too long", file=file) from None
    lines: Lines = {}
    tokens = _json_tokens(text, file)
    _mark_json(next(tokens), tokens, (), Node(value, file, lines))
    return Node(value, file, lines)


def _json_tokens(text: str, file: str) -> Iterator[tuple[str, int]]:
    """Brackets, keys and values of a text known to be valid JSON, each with its line."""
    line, seen = 1, 0
    for match in _JSON_TOKEN.finditer(text):
        line += text.count("\n", seen, match.start())
        seen, token = match.start(), match.group()
        if "\\u0000" in token and "\0" in json.loads(token):
            raise BadInput(_NULL, file=file, line=line)
        yield token, line


def _mark_json(
    token: tuple[str, int], tokens: Iterator[tuple[str, int]], place: Place, top: Node
) -> None:
    word, line = token
    top.lines.setdefault(place, line)
    if len(place) > MAX_DEPTH:
        raise BadInput(f"nested deeper than {MAX_DEPTH} levels", file=top.file, line=line)
    if word == "[":
        for number in count():
            if (token := next(tokens))[0] == "]":
                return
            _mark_json(token, tokens, (*place, number), top)
    elif word == "{":
        while (token := next(tokens))[0] != "}":
            inner = (*place, json.loads(token[0]))
            if inner in top.lines:
                raise BadInput(f"duplicate key `{inner[-1]}`", file=top.file, line=token[1])
            top.lines[inner] = token[1]
            _mark_json(next(tokens), tokens, inner, top)
