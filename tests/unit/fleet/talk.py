"""Lines as claude and codex write them, made up as needed."""

from __future__ import annotations

from itertools import count
from typing import Any

import msgspec

_numbers = count()


def line(**event: Any) -> bytes:
    return msgspec.json.encode(event) + b"\n"


def said(text: str, **more: Any) -> bytes:
    """Claude says something."""
    message = {"id": f"msg_{next(_numbers)}", "role": "assistant", "model": "claude-haiku-4-5",
               "content": [{"type": "text", "text": text}],
               "usage": {"input_tokens": 10, "output_tokens": 1}}  # fmt: skip
    return line(type="assistant", message=message, session_id="s", **more)


def timed(text: str, stamp: str) -> bytes:
    return said(text, timestamp=stamp)


def tool(name: str, **given: Any) -> bytes:
    message = {"id": f"msg_{next(_numbers)}", "role": "assistant", "model": "claude-haiku-4-5",
               "content": [{"type": "tool_use", "name": name, "input": given}]}  # fmt: skip
    return line(type="assistant", message=message, session_id="s")


def codex_said(text: str) -> bytes:
    return line(type="item.completed", item={"id": "item_0", "type": "agent_message", "text": text})
