"""What a model reads about delegating. Written for its habits: when to use it, what to put in, what
to do with what comes back. The menu stands in the descriptions, so that one look suffices."""

from __future__ import annotations

from typing import Any

from fanfold.patterns.delegate import MOST_TASKS, REDUCES
from fanfold.price import Price, price_text
from fanfold.work.ask import Tool

INSTRUCTIONS = (
    "fanfold hands sub-tasks to other models, in parallel, within a budget that is already set. "
    "Break the work down yourself, delegate the parts that others can do (delegate_many for "
    "several at once), check what comes back, and write the final answer yourself."
)
_SHOWN = 20  # members that a description lists; the menu has all

_TASK: dict[str, Any] = {
    "prompt": {
        "type": "string",
        "description": "The whole task. The member sees nothing else: no files, no conversation,"
        " no tools. Put every text it needs in here, and say what to answer with.",
    },
    "member": {"type": "string", "description": "A member's id from the menu. Goes before needs."},
    "needs": {
        "type": "array", "items": {"type": "string"},
        "description": "Tags from the menu; whoever is good at all of them may take it.",
    },
    "local": {"type": "boolean", "description": "Only members on this machine. Default false."},
    "max_tokens": {"type": "integer", "minimum": 1, "description": "Length of the reply at most."},
    "schema": {
        "type": "object",
        "description": "A JSON Schema: the reply is then checked against it and comes as `data`.",
    },
}  # fmt: skip
_STATUSES = (
    "status is: ok (use `text` or `data`); no_fit (nobody here is for it: do it yourself, do not "
    "try again); kicked (the reply failed its check: do it yourself or ask differently); unfunded "
    "(the budget does not bear this one; smaller ones may still fit); error (see `message`)."
)


def desk_tools(menu: list[dict[str, Any]]) -> tuple[Tool, ...]:
    """What a desk does, as it is told to a model, with the members of now in the descriptions."""
    there = _told(menu)
    task = {"type": "object", "properties": _TASK, "required": ["prompt"]}
    return (
        Tool(
            "menu",
            "Who you can delegate to right now: id, what each is good at, tier, price in dollars "
            "per million tokens, context in tokens, and how many calls are under way. Free.",
            arguments({}),
        ),
        Tool(
            "delegate",
            "Hand ONE self-contained sub-task to another model and wait for its reply. Good for "
            "work that needs no judgement of yours: summaries, extraction, classification, drafts, "
            f"second opinions. For two or more use delegate_many. {_STATUSES}\n{there}",
            arguments(_TASK, "prompt"),
        ),
        Tool(
            "delegate_many",
            "Hand several independent sub-tasks over at once; they run in parallel. Returns "
            "`results` in the order of `tasks`, each with its `index`. One call with all tasks is "
            f"much faster than many calls; at most {MOST_TASKS:,} tasks. {_STATUSES}\n{there}",
            arguments(
                {
                    "tasks": {"type": "array", "items": task, "description": "The sub-tasks."},
                    "concurrency": {
                        "type": "integer", "minimum": 1,
                        "description": "At most so many at once. Leave it out: it can only lower.",
                    },
                },
                "tasks",
            ),
        ),
        Tool(
            "reduce",
            "Fold many results into one without reading them all yourself. kind is one of "
            f"{', '.join(REDUCES)}. All but `ask` are computed, free and exact; with `ask` a member "
            "writes the whole (options.prompt says how). Give `ids` of results that were ok, or "
            "`values`.",
            arguments(
                {
                    "kind": {"type": "string", "enum": list(REDUCES)},
                    "ids": {"type": "array", "items": {"type": "string"}},
                    "values": {"type": "array", "items": {}},
                    "options": {
                        "type": "object",
                        "description": "concat: sep. sum, union, vote: field. count: by. sort: by, "
                        "order. top: n, by. best: by. ask: prompt, member or needs, fan_in.",
                    },
                },
                "kind",
            ),
        ),
    )  # fmt: skip


def arguments(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    """The schema of a tool's arguments."""
    made = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**made, "required": list(required)} if required else made


def _told(menu: list[dict[str, Any]]) -> str:
    if not menu:
        return "Nobody is there to delegate to: do the work yourself."
    lines = [f"- {one['id']}: {_described(one)}" for one in menu[:_SHOWN]]
    if len(menu) > _SHOWN:
        lines.append(f"- and {len(menu) - _SHOWN} more: call menu")
    return "\n".join(["Members:", *lines])


def _described(one: dict[str, Any]) -> str:
    price = one["price"]
    told = price_text(None if price is None else Price(**price))
    parts = [
        f"good at {', '.join(one['good_at'])}" if one["good_at"] else "",
        one["tier"],
        one.get("cost", told) if price is None else told,
        f"{one['context']:,} tokens of context" if one["context"] else "",
    ]
    return "; ".join(part for part in parts if part)
