"""What a model reads about the tools. Written for its habits: when to use it, what to put in, what
to do with what comes back. The menu stands in the descriptions, so that one look suffices."""

from __future__ import annotations

from typing import Any, NamedTuple

from fanfold.observe.menu import price_text
from fanfold.patterns.delegate import MOST_TASKS, REDUCES
from fanfold.price import Price

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
    "(the budget is used up: delegate nothing more); error (see `message`)."
)


class Tool(NamedTuple):
    name: str
    description: str
    schema: dict[str, Any]


def tools(menu: list[dict[str, Any]]) -> list[Tool]:
    """The tools as they are told to a model, with the members of now in their descriptions."""
    there = _told(menu)
    task = {"type": "object", "properties": _TASK, "required": ["prompt"]}
    return [
        Tool(
            "menu",
            "Who you can delegate to right now: id, what each is good at, tier, price in dollars "
            "per million tokens, context in tokens, and how many calls are under way. Free.",
            _object({}),
        ),
        Tool(
            "delegate",
            "Hand ONE self-contained sub-task to another model and wait for its reply. Good for "
            "work that needs no judgement of yours: summaries, extraction, classification, drafts, "
            f"second opinions. For two or more use delegate_many. {_STATUSES}\n{there}",
            _object(_TASK, "prompt"),
        ),
        Tool(
            "delegate_many",
            "Hand several independent sub-tasks over at once; they run in parallel. Returns "
            "`results` in the order of `tasks`, each with its `index`. One call with all tasks is "
            f"much faster than many calls; at most {MOST_TASKS:,} tasks. {_STATUSES}\n{there}",
            _object(
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
            _object(
                {
                    "kind": {"type": "string", "enum": list(REDUCES)},
                    "ids": {"type": "array", "items": {"type": "string"}},
                    "values": {"type": "array"},
                    "options": {
                        "type": "object",
                        "description": "concat: sep. sum, union, vote: field. count: by. sort: by, "
                        "order. top: n, by. best: by. ask: prompt, member or needs, fan_in.",
                    },
                },
                "kind",
            ),
        ),
        Tool(
            "run_plan",
            "Carry out a fanfold plan file (YAML) that lies in this server's folder, for work with "
            "many items: it is durable and checked. Returns its receipt; waits until it has ended.",
            _object({"plan": {"type": "string", "description": "Path of the file."}}, "plan"),
        ),
        Tool(
            "status",
            "What was spent and what is left here, and the newest runs; or one run in detail.",
            _object({"run": {"type": "string", "description": "A run's name or id."}}),
        ),
        Tool(
            "report",
            "The account of a run as Markdown: result, receipt, cost by member. Without `run`: of "
            "what was delegated here so far.",
            _object({"run": {"type": "string", "description": "A run's name or id."}}),
        ),
    ]  # fmt: skip


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
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
    parts = [
        f"good at {', '.join(one['good_at'])}" if one["good_at"] else "",
        one["tier"],
        price_text(None if price is None else Price(**price)),
        f"{one['context']:,} tokens of context" if one["context"] else "",
    ]
    return "; ".join(part for part in parts if part)
