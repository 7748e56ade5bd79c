"""What models say about products in these tests; the model server imports them by name."""

from __future__ import annotations

import json
import re
from typing import Any

from fanfold.testing.script import Asked, Says

INVENTED = "Bolt is released under the MIT License, says its README."
ABSENT = ["since", "data_end", "commits", "tags", "latest_tag", "kubernetes",
          "hosted", "install"]  # fmt: skip
_PRODUCT = re.compile(r"material about \*\*(\w+)\*\*")
_PARTS = re.compile(r"^Products:\n(.+?)\n\nNothing was found of:\n(.+)", re.MULTILINE | re.DOTALL)


def careful(asked: Asked) -> Says:
    """Everything right at once."""
    name = _product(asked)
    return Says(data=_matrix(asked) if name is None else facts(name))


def inventive(asked: Asked) -> Says:
    """Makes up the quote for bolt's licence, and corrects itself when told so."""
    name = _product(asked)
    if name is None:
        return Says(data=_matrix(asked))
    made_up = name == "bolt" and len(asked.messages) == 1
    return Says(data=facts(name, INVENTED if made_up else None))


def stubborn(asked: Asked) -> Says:
    """Makes up the quote for bolt's licence again and again."""
    name = _product(asked)
    if name is None:
        return Says(data=_matrix(asked))
    return Says(data=facts(name, INVENTED if name == "bolt" else None))


def talkative(asked: Asked) -> Says:
    """Puts prose and a fence around its JSON."""
    said = json.dumps(careful(asked).data, indent=1)
    return Says(text=f"Here is {{what}} I found.\n```json\n{said}\n```\nAnything else?")


def flattering(asked: Asked) -> Says:
    """Changes a value on the way into the matrix, until it is told so."""
    name = _product(asked)
    if name is not None:
        return Says(data=facts(name))
    made = _matrix(asked)
    if len(asked.messages) == 1:
        made["matrix"][0]["licence"] = "MIT"
    return Says(data=made)


def facts(name: str, evidence: str | None = None) -> dict[str, Any]:
    told = [
        ("licence", "Apache-2.0", evidence or f"{name} is under the Apache License"),
        ("language", "Rust", f"{name} is written in Rust"),
        ("docker", "yes", f"docker run {name}"),
    ]
    return {
        "product": name,
        "facts": [{"field": f, "value": v, "evidence": quote} for f, v, quote in told],
        "absent": ABSENT,
    }


def readme(name: str) -> str:
    """Of a product about which all this can be said."""
    return (
        f"# {name}\n\n{name} is written in Rust.\n\n    docker run {name}\n\n"
        f"## License\n\n{name} is under the Apache License, version 2.0.\n"
    )


def row(name: str) -> dict[str, str]:
    """Its row in the matrix."""
    absent = dict.fromkeys(ABSENT, "not stated")
    return {"product": name, **absent, "licence": "Apache-2.0", "language": "Rust", "docker": "yes"}


def _matrix(asked: Asked) -> dict[str, Any]:
    found = _PARTS.search(asked.messages[0].text)
    assert found is not None
    parts, missing = json.loads(found[1]), json.loads(found[2])
    return {
        "matrix": [row(part["id"]) for part in parts],
        "missing": [{"product": one["id"], "why": "not found"} for one in missing],
        "summary": ["They are much alike."],
    }


def _product(asked: Asked) -> str | None:
    """None: it is asked for the matrix."""
    found = _PRODUCT.search(asked.messages[0].text)
    return None if found is None else found[1]
