"""What a model says about six small reviews in these tests; the model server imports it by name."""

from __future__ import annotations

import json
import re
from typing import Any

from fanfold.testing.script import Asked, Says

REVIEWS = {
    "r1": ("Dresses", 1, "Awful. The fabric is itchy and it runs small."),
    "r2": ("Tops", 5, "I love the color, so soft and comfortable!"),
    "r3": ("Tops", 5, "Perfect fit, great quality."),
    "r4": ("Tops", 2, "Poor quality, the seam fell apart. Returned it."),
    "r5": ("Dresses", 4, "Beautiful print and it fits well."),
    "r6": ("Dresses", 3, "Pretty, but too short for me."),
}
_ID = re.compile(r'<review id="(\w+)"')
_LABELS = {1: "negative", 2: "negative", 3: "neutral", 4: "positive", 5: "positive"}


def answer(ids: list[str]) -> dict[str, Any]:
    """The truth about these reviews."""
    stars = {id: REVIEWS[id][1] for id in ids}
    unhappy = [id for id in ids if stars[id] < 4]
    happy = [id for id in ids if id not in unhappy]
    return {
        "reviews": [{"id": id, "sentiment": _LABELS[n], "stars": n} for id, n in stars.items()],
        "aspects": [{"aspect": "Fit ", "praised": happy, "criticised": unhappy}],
        "complaints": [{"complaint": "poor  quality", "ids": unhappy}] if unhappy else [],
    }


def ids_of(asked: Asked) -> list[str]:
    return _ID.findall(asked.messages[0].text)


def careful(asked: Asked) -> Says:
    return Says(data=answer(ids_of(asked)))


def forgetful(asked: Asked) -> Says:
    """Leaves r2 out, and corrects itself when told so."""
    said = answer(ids_of(asked))
    if len(asked.messages) == 1:
        said["reviews"] = [one for one in said["reviews"] if one["id"] != "r2"]
    return Says(data=said)


def inventive(asked: Asked) -> Says:
    """Names a review behind a complaint that nobody wrote, and corrects itself when told so."""
    said = answer(ids_of(asked))
    if len(asked.messages) == 1 and said["complaints"]:
        said["complaints"][0]["ids"].append("r99")
    return Says(data=said)


def stubborn(asked: Asked) -> Says:
    """About the leaf with r4 it says everything twice, always."""
    said = answer(ids_of(asked))
    if "r4" in ids_of(asked):
        said["reviews"] *= 2
    return Says(data=said)


def talkative(asked: Asked) -> Says:
    """Prose around the JSON."""
    return Says(text=f"Here you are:\n\n{json.dumps(answer(ids_of(asked)))}\n\nAnything else?")
