"""A summariser without a model: it picks the most central sentences of a text, word for word.

It is what the packaged roster has to offer, so that fanfold works with no account. It understands
nothing: it cannot write, reason, answer a question or fill in a schema. The same text always gives
the same sentences. Words are what it counts, so in scripts without spaces between words it only
takes the first sentences.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from fanfold.errors import Terminal

MOST_SENTENCES = 5
MOST_READ = 2_000
_END = re.compile(
    r"(?<=[.!?…])[\"'”’)\]]*\s+(?=[^\s a-z])|(?<=[。！？])|\s*\n\s*\n\s*|\n(?=\s*[-*#\d])"
)
_WORD = re.compile(r"\w+")
_ALIKE = 0.6
_FIELDS = ("text", "content", "body", "value", "prompt")

Vector = dict[str, float]


def summarise(data: Any) -> str:
    """The central sentences of an item's text; of a reduce's parts, those of all of them together.

    What a prompt says beside the item is not looked at.
    """
    sentences = central("\n\n".join(_texts(data)))
    if not sentences:
        raise Terminal("extractive: there is no text to take sentences from", scope="ask")
    return " ".join(sentences)


def central(text: str, most: int = MOST_SENTENCES) -> list[str]:
    """At most a third of the sentences, and no more than `most`, in the order of the text.

    A sentence is central when it is like many others: the sum of its cosines to all of them, which
    takes one pass. One that says what a better one says is left out.
    """
    sentences = split_sentences(text)[:MOST_READ]
    wanted = min(most, math.ceil(len(sentences) / 3))
    # The words of each, weighted by how rare they are among the sentences; of length one
    counted = [Counter(_WORD.findall(sentence.casefold())) for sentence in sentences]
    spread = Counter(word for words in counted for word in words)
    vectors = [
        _unit({w: n * math.log(1 + len(sentences) / spread[w]) for w, n in words.items()})
        for words in counted
    ]
    whole: Counter[str] = Counter()
    for vector in vectors:
        whole.update(vector)
    scores = [_dot(vector, whole) for vector in vectors]
    chosen: list[int] = []
    for n in sorted(range(len(sentences)), key=lambda n: (-scores[n], n)):
        if len(chosen) == wanted:
            break
        if all(_dot(vectors[n], vectors[other]) < _ALIKE for other in chosen):
            chosen.append(n)
    return [sentences[n] for n in sorted(chosen)]


def split_sentences(text: str) -> list[str]:
    parts = (" ".join(part.split()) for part in _END.split(text))
    return [part for part in parts if part]


def _unit(vector: Vector) -> Vector:
    length = math.sqrt(sum(weight * weight for weight in vector.values()))
    return {word: weight / length for word, weight in vector.items()}


def _dot(one: Vector, other: Vector | Counter[str]) -> float:
    return sum(weight * other.get(word, 0.0) for word, weight in one.items())


def _texts(data: Any) -> Iterator[str]:
    """The texts in an item: its text field, or else every text of more than one word."""
    match data:
        case str():
            yield data
        case dict():
            named = next((data[name] for name in _FIELDS if isinstance(data.get(name), str)), None)
            inner = data.values() if named is None else (named,)
            for value in inner:
                if not isinstance(value, str) or value is named or " " in value.strip():
                    yield from _texts(value)
        case list() | tuple():
            for value in data:
                yield from _texts(value)
