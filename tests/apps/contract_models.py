"""What models say about three small contracts in these tests; the model server imports them by name."""

from __future__ import annotations

import json
import re
from typing import Any

from fanfold.testing.script import Asked, Says

TEXTS = {
    "c1": "Supplier shall not sell any product that is competitive with the Products of Buyer.",
    "c2": "Buyer shall pay $500 as liquidated damages for each\n  day of delay. It may not cancel.",
    "c3": "This Agreement may not be assigned without the consent of Owner.",
}
TRUE = {
    "c1": ("Non-Compete", "high", TEXTS["c1"]),
    "c2": ("Liquidated Damages", "high", "Buyer shall pay $500 as liquidated damages for each day of delay."),
    "c3": ("Anti-Assignment", "low", TEXTS["c3"]),
}  # fmt: skip
INVENTED = "Buyer shall pay $5,000 as liquidated damages."

_ID = re.compile(r'<contract id="(\w+)"')


def answer(id: str, evidence: str | None = None) -> dict[str, Any]:
    category, severity, quote = TRUE[id]
    finding = {
        "category": category,
        "severity": severity,
        "evidence": evidence or quote,
        "why": "Risk.",
    }
    return {"title": f"Contract {id}", "findings": [finding]}


def careful(asked: Asked) -> Says:
    """Everything right at once."""
    ids = _ids(asked)
    return Says(data=answer(ids[0]) if len(ids) == 1 else _answers(*map(_entry, ids)))


def inventive(asked: Asked) -> Says:
    """Makes up the quote of c2, and corrects itself when told so."""
    if len(asked.messages) > 1:
        return Says(data=answer("c2"))
    return Says(data=_answers(_entry("c1"), _entry("c2", INVENTED), _entry("c3")))


def stubborn(asked: Asked) -> Says:
    """Makes up the quote of c2 again and again."""
    if len(asked.messages) > 1:
        return Says(data=answer("c2", INVENTED))
    return Says(data=_answers(_entry("c1"), _entry("c2", INVENTED), _entry("c3")))


def forgetful(asked: Asked) -> Says:
    """Leaves c3 out when asked about several, not when asked about it alone."""
    ids = _ids(asked)
    return Says(data=answer(ids[0]) if len(ids) == 1 else _answers(_entry("c1"), _entry("c2")))


def talkative(asked: Asked) -> Says:
    """Puts prose and a fence around its JSON."""
    said = json.dumps(_answers(*map(_entry, _ids(asked))), indent=2)
    return Says(
        text=f"Sure! I found these:\n\n```json\n{said}\n```\n\nLet me know {{if}} you want more."
    )


def _ids(asked: Asked) -> list[str]:
    return [id for turn in asked.messages for id in _ID.findall(turn.text)]


def _entry(id: str, evidence: str | None = None) -> dict[str, Any]:
    return {"id": id, "answer": answer(id, evidence)}


def _answers(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"answers": list(entries)}
