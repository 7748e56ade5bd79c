"""What the model server says in these tests; it imports them by name."""

from __future__ import annotations

from typing import Any

import msgspec

from fanfold.testing.script import Asked, Says


def held_at_first(asked: Asked) -> Says:
    """The first three requests are answered when the test says so, all others at once."""
    return Says(latency=3600.0 if asked.n <= 3 else 0.0)


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
    if asked.wire == "responses":
        return _codex_orchestrates(asked.body["input"])
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


_REMINDER = "\n\n<system-reminder>"  # what claude adds to a tool's answer


def _tool_results(body: dict[str, Any]) -> list[str]:
    blocks = [
        block
        for message in body["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_result"
    ]
    return [_plain(block["content"]).partition(_REMINDER)[0] for block in blocks]


def _plain(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def leads(asked: Asked) -> Says:
    """An API model named `chief-model` that is offered tools: it looks at the menu, delegates three
    parts and answers with what came back. All other models say what they are asked."""
    if asked.model != "chief-model":
        return Says(status=500) if asked.body.get("tools") else Says()
    assert [_name(one) for one in asked.body["tools"]] == [
        "menu", "delegate", "delegate_many", "reduce",
    ]  # fmt: skip
    results = _told(asked.body)
    if not results:
        return Says(tool="menu", data={})
    if "members" in results[-1]:
        return Says(tool="delegate_many", data={"tasks": PARTS})
    texts = [one["text"] for one in results[-1]["results"]]
    return Says(text=f"{'Streamed' if asked.stream else 'Whole'}: {' | '.join(texts)}")


def _name(tool: dict[str, Any]) -> str:
    return str(tool.get("name") or tool["function"]["name"])


def _told(body: dict[str, Any]) -> list[dict[str, Any]]:
    """What tools gave, on either wire."""
    said = [one["content"] for one in body["messages"] if one["role"] == "tool"]
    return [msgspec.json.decode(one) for one in said or _tool_results(body)]


def _codex_orchestrates(items: list[dict[str, Any]]) -> Says:
    """Its tools are found by a search first."""
    given = [item for item in items if item["type"] == "function_call_output"]
    results = [_plain(item["output"]).partition("Output:\n")[2] for item in given]
    if done := [one for one in results if '"results"' in one]:
        return Says(text=f"All of it: {done[0]}")
    if any('"members"' in one for one in results):
        return Says(tool="mcp__fanfold__delegate_many", data={"tasks": PARTS})
    if given:
        return Says(text=f"That did not work: {given}")
    if any(item["type"] == "tool_search_output" for item in items):
        return Says(tool="mcp__fanfold__menu", data={})
    return Says(tool="tool_search", data={"query": "fanfold menu delegate_many", "limit": 8})
