"""The combine: what several leaves say, as one leaf would have said it, with every id."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any


def merged(parts: Iterable[Any]) -> dict[str, Any]:
    """The same shape again, so it can be merged further up the tree. Names of aspects and complaints
    are compared without case and white space. `by`: who read them."""
    reviews: list[dict[str, Any]] = []
    praised: dict[str, list[str]] = defaultdict(list)
    criticised: dict[str, list[str]] = defaultdict(list)
    blamed: dict[str, list[str]] = defaultdict(list)
    by: dict[str, None] = {}
    for part in parts:
        by[part.value.get("by", "models")] = None
        reviews += part.value["reviews"]
        for one in part.value["aspects"]:
            praised[_plain(one["aspect"])] += one["praised"]
            criticised[_plain(one["aspect"])] += one["criticised"]
        for one in part.value["complaints"]:
            blamed[_plain(one["complaint"])] += one["ids"]
    return {
        "by": " and ".join(by),
        "reviews": reviews,
        "aspects": [
            {"aspect": name, "praised": _once(praised[name]), "criticised": _once(criticised[name])}
            for name in sorted({*praised, *criticised})
        ],
        "complaints": [{"complaint": name, "ids": _once(blamed[name])} for name in sorted(blamed)],
    }


def _plain(name: str) -> str:
    return " ".join(name.lower().split())


def _once(ids: list[str]) -> list[str]:
    return list(dict.fromkeys(map(str, ids)))
