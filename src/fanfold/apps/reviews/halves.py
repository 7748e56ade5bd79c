"""The data for fitting and scoring: labelled reviews and sentences, in two halves."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from words import singular, words

from fanfold import FanfoldError, read_items

HERE = Path(__file__).parent
STARS = frozenset(f"{stars}{end}" for stars in range(1, 6) for end in ("", ".0"))
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
    """All of them, with the stars that were given; title and department may be missing."""
    file = _file(data, "reviews_clothing", "reviews.csv")
    found = list(read_items(file, "id", "text", "rating"))
    for row in found:
        if row["rating"] not in STARS:
            raise FanfoldError(f"{file}: {row['id']}: rating {row['rating']!r}; 1 to 5 is expected")
    return found


def label_of(review: dict[str, str]) -> str:
    """1 and 2 stars are negative, 3 neutral, 4 and 5 positive."""
    stars = float(review["rating"])
    return "negative" if stars < 3 else "neutral" if stars == 3 else "positive"


def sentences(data: Path) -> list[Sentence]:
    """None where the folder has no such file."""
    file = _file(data, "reviews_aspects", "aspect_sentences.jsonl")
    return list(_sentences(file)) if _is_there(file) else []


def _file(data: Path, folder: str, name: str) -> Path:
    """In the folder itself, or in one below it."""
    below = data / folder / name
    return below if _is_there(below) else data / name


def _is_there(file: Path) -> bool:
    return file.exists() or file.with_name(f"{file.name}.gz").exists()


def _sentences(file: Path) -> Iterator[Sentence]:
    for record in read_items(file, "product", "review", "text", "aspects"):
        id = f"{record['product']}/{record['review']}"
        yield Sentence(id, words(record["text"]), dict(_named(record["aspects"])))


def _named(stated: list[dict[str, Any]]) -> Iterator[tuple[str, int]]:
    for one in stated:
        if _NOT_THERE.isdisjoint(one["flags"]):
            name = " ".join(map(singular, words(one["aspect"])))
            yield name, 1 if one["score"] > 0 else -1
