"""A desk's tools, carried out from the arguments that a model wrote. The same over every wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from fanfold.errors import BadInput
from fanfold.patterns.delegate import Desk, Progress
from fanfold.work.nesting import DEEPEST, too_deep

_decode = msgspec.json.Decoder().decode

TOOLS = ("menu", "delegate", "delegate_many", "reduce")
ASKING = ("delegate", "delegate_many", "reduce")
"""Those by which members are asked, or may be."""
_DEEP = f"the arguments are nested too deeply: at most {DEEPEST} levels"
_THEIR_TOOLS = {"delegate_targets": "menu", "delegate_local": "delegate"}
_THEIR_TASK = {"target": "member", "task": "needs"}
_THEIR_CALL = {"max_concurrency": "concurrency"}
_PASSING = {"busy", "cost_usd", "tokens"}


async def use(desk: Desk, tool: str, given: Any, progress: Progress | None = None) -> Any:
    """What the tool gives, as plain data. BadInput is for the model to read."""
    match our_name(tool):
        case "menu":
            Nothing.read(given)
            return {"members": desk.menu()}
        case "delegate":
            task = _task(given)
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


def steady(found: dict[str, Any]) -> dict[str, Any]:
    """Without what is another the next time, though nothing has changed: load and cost. So that the
    ask which holds it has the same key then, and is not paid again."""
    kept = {name: value for name, value in found.items() if name not in _PASSING}
    for many in ("members", "results"):
        if many in kept:
            kept[many] = [steady(one) for one in kept[many]]
    return kept


# ── what comes in ────────────────────────────────────────────────────────────────────────────


class Given(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of a tool."""

    @classmethod
    def read(cls, given: Any) -> Any:
        try:
            return msgspec.convert(given, cls)
        except msgspec.ValidationError as error:
            raise BadInput(f"the arguments cannot be read: {error}") from None


class Nothing(Given):
    pass


class _Many(Given):
    tasks: Any
    concurrency: Any = None


class _Fold(Given):
    kind: str
    values: Any = None
    ids: Any = None
    options: dict[str, Any] | None = None


def _task(given: Any) -> dict[str, Any]:
    return _renamed(_listed(given, "needs"))


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
