"""The embedded member: reads the reviews of one leaf. No model of language, but weights and patterns."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from aspects import mentioned
from complaints import complaints
from sentiment import content, judgeable, leaning, model, sentiment
from words import clauses, words

Review = dict[str, Any]
NOT_JUDGED = "not judged"


def read(leaf: dict[str, list[Review]]) -> dict[str, Any]:
    """A leaf's reviews: how content each is, what is praised and blamed, what is complained about.

    It looks at `title` and `text` only; stars that a review may have are what is to be found out. A
    review without words, or in another language, is not judged.
    """
    reviews: list[dict[str, Any]] = []
    sides: dict[str, dict[str, list[str]]] = defaultdict(lambda: {"praised": [], "criticised": []})
    blamed: dict[str, list[str]] = defaultdict(list)
    for review in leaf["items"]:
        id, title, text = str(review["id"]), review.get("title") or "", review.get("text") or ""
        if not judgeable(title, text):
            reviews.append({"id": id, "sentiment": NOT_JUDGED, "stars": None})
            continue
        label, stars = sentiment(title, text)
        reviews.append({"id": id, "sentiment": label, "stars": stars})
        for aspect, praised in opinions(f"{title}. {text}").items():
            sides[aspect]["praised" if praised else "criticised"].append(id)
        for name in complaints(f"{title}. {text}") if label != "positive" else ():
            blamed[name].append(id)
    return {
        "by": "fitted weights and patterns",
        "reviews": reviews,
        "aspects": [{"aspect": name, **ids} for name, ids in sorted(sides.items())],
        "complaints": [{"complaint": name, "ids": ids} for name, ids in sorted(blamed.items())],
    }


def opinions(text: str) -> dict[str, bool]:
    """What a text speaks about, and whether it praises it, going by all clauses that name it."""
    leanings: dict[str, float] = defaultdict(float)
    for clause in clauses(words(text)):
        found = mentioned(clause)
        lean = leaning(clause) if found else 0.0
        for aspect in found:
            leanings[aspect] += lean
    return {aspect: lean >= 0 for aspect, lean in leanings.items()}


def label(review: Review) -> dict[str, Any]:
    """One review, for sentiment.yaml: content or not, and how surely."""
    title, text = review.get("title") or "", review.get("text") or ""
    if not judgeable(title, text):
        return {"sentiment": NOT_JUDGED, "probabilities": {}}
    positive = round(content(title, text), 3)
    return {
        "sentiment": "positive" if positive >= model().content else "negative",
        "probabilities": {"negative": round(1 - positive, 3), "positive": positive},
    }
