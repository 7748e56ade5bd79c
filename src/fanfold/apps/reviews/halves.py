"""The data for fitting and scoring: labelled reviews and sentences, in two halves."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from words import singular, words

HERE = Path(__file__).parent
LABELS = ("negative", "neutral", "positive")
_NOT_THERE = frozenset("up")  # flags of aspects that the sentence means but does not name


class Sentence(NamedTuple):
    """`aspects`: those that are named in it, with the sign of the opinion."""

    id: str
    said: list[str]
    aspects: dict[str, int]


def fits(id: str) -> bool:
    """The half that weights may be fitted on; the other one is reported on."""
    return sha256(id.encode()).digest()[0] % 2 == 0


def reviews(data: Path) -> list[dict[str, str]]:
    with _file(data, "reviews_clothing", "reviews.csv").open(
        encoding="utf-8", newline=""
    ) as stream:
        return list(csv.DictReader(stream))


def label_of(review: dict[str, str]) -> str:
    """1 and 2 stars are negative, 3 neutral, 4 and 5 positive."""
    stars = int(review["rating"])
    return "negative" if stars < 3 else "neutral" if stars == 3 else "positive"


def sentences(data: Path) -> list[Sentence]:
    return list(_sentences(_file(data, "reviews_aspects", "aspect_sentences.jsonl")))


def _file(data: Path, folder: str, name: str) -> Path:
    """In the folder itself, or in one below it."""
    return data / name if (data / name).exists() else data / folder / name


def _sentences(file: Path) -> Iterator[Sentence]:
    with file.open(encoding="utf-8", newline="\n") as stream:
        for record in map(json.loads, stream):
            id = f"{record['product']}/{record['review']}"
            yield Sentence(id, words(record["text"]), dict(_named(record["aspects"])))


def _named(stated: list[dict[str, Any]]) -> Iterator[tuple[str, int]]:
    for one in stated:
        if _NOT_THERE.isdisjoint(one["flags"]):
            name = " ".join(map(singular, words(one["aspect"])))
            yield name, 1 if one["score"] > 0 else -1
