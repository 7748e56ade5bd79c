"""What the model server says in these tests; it imports them by name."""

from __future__ import annotations

from typing import Any

from fanfold.testing.script import Asked, Says

SLOW = 1.5


def slow_at_first(asked: Asked) -> Says:
    """The first three requests take a while: long enough to interrupt them. The others do not."""
    return Says(latency=SLOW if asked.n <= 3 else 0.0)


def never(asked: Asked) -> Says:
    """Nobody gets an answer, so that a run stays under way until it is ended."""
    return Says(hang=True)


def tells_the_key(asked: Asked) -> Says:
    """Refuses every key and repeats it, as careless servers do."""
    return Says(status=401, message=f"Incorrect API key provided: {asked.key}.")


def with_key(asked: Asked) -> Says:
    """Only whoever has the key gets an answer."""
    return Says() if asked.key == "sesame" else Says(status=401)


PARTS = [
    {"prompt": "Sum this up", "needs": ["summaries"]},
    {"prompt": "Is this legal?", "needs": ["legal"]},
    {"prompt": "What is 2+2?", "needs": ["maths"]},
]


def orchestrates(asked: Asked) -> Says:
    """The model of an agent that looks at the menu, delegates three parts and answers with what
    came back; all other models say what they are asked."""
    if asked.wire != "anthropic":
        return Says()
    results = _tool_results(asked.body)
    if done := [one for one in results if '"results"' in one]:
        return Says(text=f"All of it: {done[0]}")
    if any('"members"' in one for one in results):
        return Says(tool="mcp__fanfold__delegate_many", data={"tasks": PARTS})
    if results and "WaitForMcpServers" in results[-1]:
        return Says(tool="WaitForMcpServers", data={})
    return Says(tool="mcp__fanfold__menu", data={})


def _tool_results(body: dict[str, Any]) -> list[str]:
    blocks = [
        block
        for message in body["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_result"
    ]
    return [_plain(block["content"]) for block in blocks]


def _plain(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)
