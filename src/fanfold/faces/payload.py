"""The JSON that clients of the HTTP faces send, read strictly: what two readers could understand
differently is refused."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from fanfold.errors import BadInput
from fanfold.work.nesting import DEEPEST, too_deep

_decode = msgspec.json.Decoder().decode
_DEEP = f"the body is nested too deeply: at most {DEEPEST} levels"


def read_json(raw: bytes) -> Any:
    """The value of a body. BadInput: not JSON, not UTF-8, a key twice, nested too deeply."""
    try:
        found = _decode(raw)
        if too_deep(found):
            raise BadInput(_DEEP)
        json.loads(raw, object_pairs_hook=_check_keys)
    except RecursionError:
        raise BadInput(_DEEP) from None
    except ValueError as error:
        raise BadInput(f"the body is not JSON: {error}") from None
    return found


def _check_keys(pairs: list[tuple[str, Any]]) -> None:
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys):
        twice = next(key for n, key in enumerate(keys) if key in keys[:n])
        raise BadInput(f"the body has the key `{twice}` twice in one object")


def is_json(content_type: str) -> bool:
    """Does a Content-Type header announce JSON in UTF-8? None at all is taken for that."""
    kind, *more = [part.strip().lower() for part in content_type.split(";")]
    charsets = [part.partition("=")[2].strip('" ') for part in more if part.startswith("charset")]
    return kind in ("", "application/json") and set(charsets) <= {"utf-8", "utf8"}
