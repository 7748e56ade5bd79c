"""A desk's tools: what a model reads about them, and how a call of one is carried out, the same over
every protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from fanfold.errors import BadInput
from fanfold.patterns.delegate import MOST_TASKS, REDUCES, Desk, Progress
from fanfold.price import Price, price_text
from fanfold.work.ask import Tool
from fanfold.work.nearest import quoted, remedy
from fanfold.work.nesting import DEEPEST, too_deep

# ── what a model reads ───────────────────────────────────────────────────────────────────────────


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


def delegation_tools(menu: list[dict[str, Any]]) -> tuple[Tool, ...]:
    """What a desk does, as it is told to a model, with the members of now in the descriptions."""
    there = _describe_menu(menu)
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


def _describe_menu(menu: list[dict[str, Any]]) -> str:
    if not menu:
        return "Nobody is there to delegate to: do the work yourself."
    lines = [f"- {one['id']}: {_described(one)}" for one in menu[:_SHOWN]]
    if len(menu) > _SHOWN:
        lines.append(f"- and {len(menu) - _SHOWN} more: call menu")
    return "\n".join(["Members:", *lines])


def _described(one: dict[str, Any]) -> str:
    price = one["price"]
    price_words = price_text(None if price is None else Price(**price))
    parts = [
        f"good at {', '.join(one['good_at'])}" if one["good_at"] else "",
        one["tier"],
        one.get("cost", price_words) if price is None else price_words,
        f"{one['context']:,} tokens of context" if one["context"] else "",
    ]
    return "; ".join(part for part in parts if part)


# ── calls ────────────────────────────────────────────────────────────────────────────────────────


_decode = msgspec.json.Decoder().decode

TOOLS = ("menu", "delegate", "delegate_many", "reduce")
ASKING = ("delegate", "delegate_many", "reduce")
"""Those by which members are asked, or may be."""
_DEEP = f"the arguments are nested too deeply: at most {DEEPEST} levels"
_THEIR_TOOLS = {"delegate_targets": "menu", "delegate_local": "delegate"}
_THEIR_TASK = {"target": "member", "task": "needs"}
_THEIR_CALL = {"max_concurrency": "concurrency"}
_CHANGING = {"busy", "cost_usd", "tokens"}


async def use_tool(desk: Desk, tool: str, given: Any, progress: Progress | None = None) -> Any:
    """What the tool gives, as plain data. BadInput is for the model to read."""
    match our_name(tool):
        case "menu":
            Nothing.read(given)
            return {"members": desk.menu()}
        case "delegate":
            task = _renamed(_listed(given, "needs"))
            if tool == "delegate_local":
                task["local"] = True
            (result,) = await desk.delegate_many([task], progress=progress)
            return result.plain()
        case "delegate_many":
            many = _Many.read(_renamed(_listed(given, "tasks"), _THEIR_CALL))
            tasks = many.tasks
            if isinstance(tasks, list):
                tasks = [_renamed(one) if isinstance(one, dict) else one for one in tasks]
            results = await desk.delegate_many(tasks, many.concurrency, progress)
            return {"results": [one.plain() for one in results]}
        case "reduce":
            fold = _Fold.read(_listed(given, "ids", "values", "options"))
            found = await desk.reduce(fold.kind, fold.values, ids=fold.ids, options=fold.options)
            return found.plain()
    raise BadInput(f"there is no tool `{tool}`")


def our_name(tool: str) -> str:
    """TangleBrain's tools are known by its names too: prompts and rules that were written for it
    still name them."""
    return _THEIR_TOOLS.get(tool, tool)


def without_load(found: dict[str, Any]) -> dict[str, Any]:
    """Without what is another the next time, though nothing has changed: load and cost. So that the
    ask which holds it has the same key then, and is not paid again."""
    kept = {name: value for name, value in found.items() if name not in _CHANGING}
    for many in ("members", "results"):
        if many in kept:
            kept[many] = [without_load(one) for one in kept[many]]
    return kept


# ── what comes in ────────────────────────────────────────────────────────────────────────────


class ToolArguments(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of a tool."""

    @classmethod
    def read(cls, given: Any) -> Any:
        known = cls.__struct_fields__
        for name in given if isinstance(given, dict) else ():
            if name not in known:
                how = remedy(str(name), known) if known else "it takes none"
                raise BadInput(f"the arguments have no field {quoted(str(name))}: {how}")
        try:
            return msgspec.convert(given, cls)
        except msgspec.ValidationError as error:
            raise BadInput(f"the arguments cannot be read: {error}") from None


class Nothing(ToolArguments):
    pass


class _Many(ToolArguments):
    tasks: Any
    concurrency: Any = None


class _Fold(ToolArguments):
    kind: str
    values: Any = None
    ids: Any = None
    options: dict[str, Any] | None = None


def _renamed(given: dict[str, Any], names: Mapping[str, str] = _THEIR_TASK) -> dict[str, Any]:
    """With our names for TangleBrain's fields; where both are there, theirs is left to be refused."""
    found = dict(given)
    for theirs, ours in names.items():
        if theirs in found and ours not in found:
            value = found.pop(theirs)
            if value is not None:
                found[ours] = value
    return found


def _listed(given: Any, *names: str) -> dict[str, Any]:
    """Models write lists and objects as JSON texts now and then: they are read as what they are."""
    if not isinstance(given, dict):
        raise BadInput("the arguments cannot be read: a JSON object is needed")
    found = dict(given)
    for name in names:
        written = found.get(name)
        if isinstance(written, str) and written.lstrip()[:1] in ("[", "{"):
            try:
                found[name] = _decode(written)
            except msgspec.DecodeError:
                continue
            except RecursionError:
                raise BadInput(_DEEP) from None
    if too_deep(found):
        raise BadInput(_DEEP)
    return found
