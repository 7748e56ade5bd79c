"""What the model server says to members that have tools: it calls them, then it answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fanfold.testing.script import Asked, Says

Calls = list[tuple[str, Any]]


def results(asked: Asked) -> list[str]:
    """What tools gave so far, in order, on either wire."""
    found: list[str] = []
    for message in asked.body["messages"]:
        if message["role"] == "tool":
            found.append(message["content"])
        elif isinstance(message["content"], list):
            found += [
                part["content"] for part in message["content"] if part.get("type") == "tool_result"
            ]
    return found


def calling(
    *rounds: Calls, then: Callable[[list[str]], str] = " | ".join
) -> Callable[[Asked], Says]:
    """Calls these, one round after the other; then it says what came of them."""

    def says(asked: Asked) -> Says:
        done = results(asked)
        closed = asked.body.get("tool_choice") in ("none", {"type": "none"})
        counted = 0
        for calls in () if closed else rounds:
            if len(done) <= counted:
                (name, given), *also = calls
                return Says(tool=name, data=given, also=tuple(also))
            counted += len(calls)
        return Says(text=then(done))

    return says


class Scripted:
    """A script that a test can change while the server runs."""

    says: Callable[[Asked], Says] = staticmethod(calling())

    def __call__(self, asked: Asked) -> Says:
        return self.says(asked)


script = Scripted()
