"""What three models and a judge answer in these tests; the model server imports them by name."""

from __future__ import annotations

import json
import re

from fanfold.testing.script import Asked, Says

SAID = {  # by model, for the questions q1 to q3
    "ada": {"q1": "B", "q2": "A", "q3": "A"},
    "bob": {"q1": "B", "q2": "C", "q3": "B"},
    "cyd": {"q1": "A", "q2": "C", "q3": "C"},
}
_NAME = re.compile(r"Question (q\d)")


def answer(asked: Asked) -> dict[str, str]:
    if asked.model == "dan":  # the judge, who always picks the first
        return {"reasons": "it is the first", "choice": "A"}
    (name,) = set(_NAME.findall(asked.messages[0].text))
    return {"working": f"{asked.model} worked it out", "answer": SAID[asked.model][name]}


def careful(asked: Asked) -> Says:
    return Says(data=answer(asked))


def wild(asked: Asked) -> Says:
    """ada first names an option that q1 does not have, and corrects itself when told so."""
    if asked.model == "ada" and "Question q1" in asked.prompt and len(asked.messages) == 1:
        return Says(data={"working": "I guess", "answer": "H"})
    return Says(data=answer(asked))


def stubborn(asked: Asked) -> Says:
    """ada never names an option that there is."""
    if asked.model == "ada":
        return Says(data={"working": "I guess", "answer": "H"})
    return Says(data=answer(asked))


def talkative(asked: Asked) -> Says:
    """Prose around the JSON, in a block."""
    return Says(text=f"Let me see.\n```json\n{json.dumps(answer(asked))}\n```\nI hope this helps!")


def lonely(asked: Asked) -> Says:
    """Only ada answers."""
    return Says(data=answer(asked)) if asked.model == "ada" else Says(status=400)
