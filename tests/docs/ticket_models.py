"""What a model says about the tickets of the tutorial; the model server imports it by name."""

from __future__ import annotations

import re

from fanfold.testing.script import Asked, Says

_TICKET = re.compile(r"<ticket>\n(.*?)\n</ticket>", re.DOTALL)


def polite(asked: Asked) -> Says:
    """Spells `Pls` out in what it quotes, and takes that back when told."""
    (message,) = _TICKET.findall(asked.messages[0].text)
    kicked_back = len(asked.messages) > 1
    quote = message if kicked_back else message.replace("Pls", "Please")
    return Says(data={"topic": "other", "urgency": "low", "evidence": quote})
