# ruff: noqa: E501
"""Changes by chance: of values, of texts and of bytes; and values that fit a JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Any

ODD: list[Any] = [
    None, True, False, 0, -1, 1, 2, 2**31, 2**53 + 1, 2**63, 2**64, 10**30, -(10**30), 10**400,
    0.5, -0.0, -1.5, 1e308, 1e-320, float("nan"), float("inf"), float("-inf"),
    "", " ", "\n", "a\nb", "\0", "\x1b[2J", "\ud800", "\ufeff", "\u202egnp", "é\u0301\u0301", "😀" * 30,
    "x" * 20_000, "a:b", "a:b:c", ":", "*", "&a", "<<", "~", "null", "NaN", "1e999", "12:30", "0x10", "-",
    "{{", "}}", "{{ item }}", "{{ item.text }}", "{{ item.a.b[0] }}", "{% for x in range(10**9) %}",
    "{{ 'a' * 10**10 }}", "{{ item.__class__ }}", "{%", "../../x", "/", ".", "..", "a/../b", "(((", "[", "(a+)+$",
    "2024-13-45T99:99", "https://", "$HOME", "env:X", "sk-" + "a" * 48, "item.text", "steps.x", "all", "auto",
    [], {}, [[]], [None], [{}], {"": ""}, {"a": {"b": [1]}}, {"__class__": 1}, [1, "a", None, {}], ["a"] * 50,
]  # fmt: skip
Path = tuple[Any, ...]


def deep(levels: int, mapping: bool = False) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value} if mapping else [value]
    return value


def odd(rng: Random) -> Any:
    if rng.random() < 0.04:
        return deep(rng.choice((20, 70, 120, 900)), rng.random() < 0.5)
    return rng.choice(ODD)


# ── values ───────────────────────────────────────────────────────────────────────────────────


def paths(value: Any) -> list[Path]:
    """Of all that is in it, as far as it can be followed."""
    found: list[Path] = [()]
    for path in found:
        inner = at(value, path)
        keys = (
            inner
            if isinstance(inner, dict)
            else range(len(inner))
            if isinstance(inner, list)
            else ()
        )
        found += ((*path, key) for key in keys if len(path) < 60)
    return found


def at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def put(value: Any, path: Path, new: Any) -> Any:
    """A copy with this in that place."""
    if not path:
        return new
    key, copy = path[0], dict(value) if isinstance(value, dict) else list(value)
    copy[key] = put(copy[key], path[1:], new)
    return copy


class Mutation:
    """Changes values like these. With a schema, fields that it knows are added and filled."""

    def __init__(self, like: Sequence[Any], schema: dict[str, Any] | None = None) -> None:
        self._like, self._defs = like, schema["$defs"] if schema else {}
        self._records = [one["properties"] for one in self._defs.values() if one.get("properties")]
        self._seen: dict[str, list[Any]] = {}
        for value in like:
            for path in paths(value):
                if path and isinstance(path[-1], str):
                    self._seen.setdefault(path[-1], []).append(at(value, path))

    def changed(self, rng: Random, value: Any) -> Any:
        """With one to four changes: half of the values are left as they might be meant."""
        gentle = rng.random() < 0.5
        for _ in range(rng.choice((1, 1, 2, 2, 3, 4))):
            path = rng.choice(paths(value))
            old, name = at(value, path), path[-1] if path else None
            value = put(value, path, self._meant(rng, old, name) if gentle else self._odd(rng, old))
        return value

    def fitting(self, rng: Random, schema: dict[str, Any]) -> Any:
        """A value for a schema, with what values of these names were seen."""
        drawn = self._drawn(rng, schema)
        if not isinstance(drawn, dict):
            return drawn
        seen = self._seen
        return {
            k: rng.choice(seen[k]) if k in seen and rng.random() < 0.7 else v
            for k, v in drawn.items()
        }

    def _meant(self, rng: Random, old: Any, name: Any) -> Any:
        """As somebody could write it in good faith."""
        way = rng.randrange(4)
        if isinstance(old, dict) and old:
            key = rng.choice(list(old))
            if way == 0:
                return {one: inner for one, inner in old.items() if one != key}
            if way == 1 or not self._records:
                return {**old, key: rng.choice(self._seen.get(key, [old[key]]))}
            return self._with_field(rng, old)
        if isinstance(old, list) and old and way < 3:
            n = rng.randrange(len(old))
            return (old[:n] + old[n + 1 :], [*old, old[n]], [*old[n:], *old[:n]])[way]
        if isinstance(old, int | float) and not isinstance(old, bool) and way < 2:
            return rng.choice((0, old + 1, abs(old) * 3, old / 2 if abs(old) < 1e300 else 1))
        known = [record[name] for record in self._records if name in record]
        if known and way < 3:
            return self._drawn(rng, rng.choice(known))
        return rng.choice(self._seen.get(name, [old]))

    def _with_field(self, rng: Random, old: dict[str, Any]) -> dict[str, Any]:
        """One field more of a record that has most of its keys."""
        alike = sorted(self._records, key=lambda one: -len(one.keys() & old.keys()))[:2]
        record = rng.choice(alike)
        name = rng.choice(list(record))
        if name in self._seen and rng.random() < 0.4:
            return {**old, name: rng.choice(self._seen[name])}
        return {**old, name: self._drawn(rng, record[name])}

    def _odd(self, rng: Random, old: Any) -> Any:
        way = rng.randrange(8)
        if way == 0:
            donor = rng.choice(self._like)
            return at(donor, rng.choice(paths(donor)))
        if way == 1:
            return [old] if rng.random() < 0.5 else {rng.choice(("a", "map", "member", "")): old}
        if isinstance(old, dict) and old and way < 6:
            key = rng.choice(list(old))
            if way == 2:
                return {(str(odd(rng)) if one == key else one): inner for one, inner in old.items()}
            return {**old, key: odd(rng)} if way < 5 else {**old, str(odd(rng)): odd(rng)}
        if isinstance(old, list) and old and way < 5:
            n = rng.randrange(len(old))
            return [*old[:n], odd(rng), *old[n + 1 :]] if way < 4 else old * 50
        if isinstance(old, str) and way < 4:
            return noisy(rng, old.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")
        if isinstance(old, int) and way < 4:
            return rng.choice((-old, old - 1, old * 1000, str(old), old**3))
        return odd(rng)

    def _drawn(self, rng: Random, schema: Any, depth: int = 0) -> Any:
        """A value that fits, more or less."""
        if not isinstance(schema, dict) or depth > 6:
            return odd(rng)
        if "$ref" in schema:
            return self._drawn(rng, self._defs[schema["$ref"].rpartition("/")[2]], depth + 1)
        if "enum" in schema or "const" in schema:
            return rng.choice(schema.get("enum", [schema.get("const")]))
        if several := schema.get("anyOf") or schema.get("oneOf"):
            return self._drawn(rng, rng.choice(several), depth + 1)
        match schema.get("type"):
            case "object":
                needed = schema.get("required", ())
                return {
                    name: self._drawn(rng, one, depth + 1)
                    for name, one in schema.get("properties", {}).items()
                    if name in needed or rng.random() < 0.15
                }
            case "array":
                many = range(rng.choice((1, 1, 2, 3)))
                return [self._drawn(rng, schema.get("items"), depth + 1) for _ in many]
            case kind:
                least = schema.get("minimum", 0)
                return rng.choice(_PLAIN.get(str(kind), [odd(rng)]) + [least] * (kind in _NUMBERS))


_NUMBERS = ("integer", "number")
_PLAIN: dict[str, list[Any]] = {
    "integer": [1, 2, 3, 10, 10**6], "number": [0.5, 1, 2.5, 1e-9, 1e9], "boolean": [True, False],
    "null": [None], "string": ["a", "fine", "item.text", "{{ item.text }}", "steps.a", "a.txt", "up"],
}  # fmt: skip


def written(rng: Random, value: Any) -> bytes:
    """JSON: also with what JSON has not (NaN), or with keys twice, or with escapes for all."""
    try:
        text = json.dumps(value, ensure_ascii=rng.random() < 0.5, default=str)
    except RecursionError:
        text = '{"a": [' * 2000 + "]}" * 2000
    if rng.random() < 0.03:
        text = text.replace("{", '{"type": 1, ', 1).replace(': "', ': "\\ud800', 1)
    return text.encode("utf-8", "replace")


# ── bytes ────────────────────────────────────────────────────────────────────────────────────


def noisy(rng: Random, raw: bytes) -> bytes:
    """With a few bytes changed, gone, twice, swapped or put in."""
    data = bytearray(raw)
    for _ in range(rng.choice((1, 1, 2, 5))):
        here, there = sorted(rng.randrange(len(data) + 1) for _ in range(2))
        few = slice(here, min(there, here + rng.choice((1, 4, 200))))
        match rng.randrange(6):
            case 0 if here < len(data):
                data[here] ^= 1 << rng.randrange(8)
            case 1:
                del data[few]
            case 2:
                data[here:here] = data[few]
            case 3:
                data[here:here] = rng.randbytes(rng.choice((1, 2, 8)))
            case 4:
                data[here:here] = rng.choice(SPICES)
            case 5 if rng.random() < 0.3:
                del data[here:]
    return bytes(data)


SPICES = (
    b"\0", b"\n", b"\r\n\r\n", b"\t", b"\xff\xfe", b"\xef\xbb\xbf", b'"', b"'", b"{", b"}", b"[", b"]", b":",
    b": ", b"- ", b"&a ", b"*a", b"<<: *a\n", b"!!python/object:os.system x", b"!!binary a", b"%YAML 9.9\n---\n",
    b"---\n", b"...\n", b"? ", b"|\n", b">-\n", b"#", b"@", b"`", b"[" * 100, b"{a: " * 100, b"&a [*a]",
    b"9" * 5000, b"1e999", b".nan", b"\\ud800", b"\\u0000", b"data: ", b"\x1b[2J", "\u2028".encode(),
)  # fmt: skip
