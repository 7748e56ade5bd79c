"""How steps are read: prompts and schemas taken in, gates tried out, so that mistakes show with
their lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from fanfold.errors import BadInput
from fanfold.gates import checks
from fanfold.gates.kinds import from_plan
from fanfold.members.target import look_for, resolve_target
from fanfold.plans.asking import ALL_NAMES, AskTerms, keep_template
from fanfold.plans.tools import read_step_tools
from fanfold.plans.variables import NAME as VARS
from fanfold.plans.variables import check_reads
from fanfold.work.ask import Params, Schema
from fanfold.work.batch import HEDGE_AND_BATCH, TOOLS_AND_BATCH
from fanfold.work.check import at, described, elements, mapping
from fanfold.work.document import Node, read, read_text
from fanfold.work.fields import path_of
from fanfold.work.file_templates import path_template
from fanfold.work.files import is_inside
from fanfold.work.item import Item
from fanfold.work.nearest import remedy
from fanfold.work.opening import ContextText, Example, Opening, examples_in, one_example
from fanfold.work.options import WHO, budget_of, read_batch, read_who
from fanfold.work.reader import listed, stated_in
from fanfold.work.task import Hedge, Who
from fanfold.work.template import Template

KNOWN_NAMES = ("item", "items", "steps", "task")
_OPENING_NAMES = ("steps", "task")
_OVER = re.compile(r"steps\.([A-Za-z_][A-Za-z0-9_]*)")
_FLOW = ("files", "items")
_ONE = ("member", "agent", "use", "spread")
_SEVERAL = ("members", "needs", "fallback")


class StepContext(msgspec.Struct, frozen=True):
    """What a step needs of the plan around it: where files are, the task, the steps before it.

    `targets` are noted here with their lines: reading a plan imports none of them; and in `when`, by
    its name, on which condition a step is taken.
    `replies` are the steps that gave each item in the flow a reply, `results` those that made one
    result; `ended` those whose items are no longer in the flow, with the step that began with others.
    Prompts about items see both under `steps`, others only results.
    """

    folder: Path
    task: str | None = None
    replies: Sequence[str] = ()
    results: Sequence[str] = ()
    ended: dict[str, str] = {}
    targets: dict[str, int] = {}
    when: dict[str, str] = {}
    allow_outside: bool = False
    in_stage: bool = False
    vars: dict[str, Any] = {}
    lists_files: bool = False  # the plan is written in the short form

    @property
    def earlier(self) -> list[str]:
        return [*self.replies, *self.results]

    def asking(
        self, node: Node, given: Any, known: Collection[str] | None = None
    ) -> dict[str, Any]:
        """The fields of an `Asking` that the step states, and its lines. `known` are the names in
        its prompt, when it is not about items."""
        made = {
            name: getattr(given, name) for name in AskTerms.__struct_fields__ if name in node.value
        }
        if verbatim := getattr(given, "verbatim", False):
            made |= {"verbatim": verbatim, "prompt": read_verbatim(node, self)}
        else:
            seen = self.earlier if known is None else list(self.results)
            made["prompt"] = read_prompt(node, self, seen, known or KNOWN_NAMES)
        if isinstance(node.value.get("schema"), str):
            if ":" not in node.value["schema"]:
                what = f"not {described(node.value['schema'])}"
                raise node.child("schema").bad(
                    f"`schema` must be a JSON Schema or module:Type, {what}"
                )
            made["schema_type"] = read_target(node.child("schema"), self)
        else:
            made["schema"] = read_schema(node, self)
        made["gate"] = read_gate(node, self)
        made["opening"] = read_opening(node, self, made["prompt"] if known is None else None)
        if "attach" in node.value:
            made["attach"] = tuple(map(self._attached, _each(node, "attach")))
        for field in ("inputs", "outputs"):
            made[field] = tuple(self._path(one, field, known) for one in _each(node, field))
        if (budget := getattr(given, "budget", UNSET)) is not UNSET:
            made["budget"] = budget_of(budget)
        if isinstance(getattr(given, "over", None), str):
            made["over"] = self.over(node.child("over"))
        made["tools"] = read_step_tools(
            node, given, self.folder, lambda one: noting_resolver(one, self)
        )
        if given.hedge is not UNSET:
            made["hedge"] = Hedge(**stated_in(given.hedge))
        if given.batch is not UNSET:
            made["batch"] = read_batch(node.child("batch"))
            if given.hedge is not UNSET:
                raise node.child("hedge").bad(HEDGE_AND_BATCH)
            if getattr(given, "tools", ()):
                raise node.child("batch").bad(TOOLS_AND_BATCH)
        if given.escalate:
            made["escalate"] = listed(given.escalate)
        if who := who_of(node, given):
            made["who"] = who
        if params := {
            name: getattr(given, name) for name in Params.__struct_fields__ if name in node.value
        }:
            made["params"] = Params(**{**params, "stop": listed(given.stop)})
        made = {name: value for name, value in made.items() if value is not None}
        return {**made, "lines": lines_of(node), "line": node.line}

    def over(self, node: Node) -> str | None:
        """`files` and `items` are those in the flow; `steps.NAME` is what an earlier step produced."""
        said: str = node.value
        if said in _FLOW:
            return None
        found = _OVER.fullmatch(said)
        if found is None:
            raise node.bad(f"`over` is items, files or steps.NAME of an earlier step, not {said!r}")
        if found[1] not in self.earlier:
            why = self.lacks(found[1], self.earlier, "no earlier step has that name")
            raise node.bad(f"`over` names `{said}`, but {why}")
        return said

    def lacks(self, name: str, seen: Collection[str], why: str) -> str:
        """Of a step that cannot be read here; `why`: where none has ever had that name."""
        if name in self.ended:
            why = f"its replies ended where `{self.ended[name]}` began with other items"
        return f"{why}; {remedy(name, seen) if seen else 'there is none'}"

    def item_field(self, node: Node) -> str:
        """`item.brand`, or `brand`; or `steps.NAME.brand`, of the item's reply at an earlier step."""
        field: str = node.value
        root, _, rest = field.partition(".")
        step = rest.partition(".")[0]
        if root == "steps" and step not in self.replies:
            why = self.lacks(step, self.replies, "no earlier step of that name gave items a reply")
            raise node.bad(f"`{field}`: {why}")
        at(node, lambda: path_of(field))
        return field

    def _attached(self, node: Node) -> str:
        return str(node.value) if node.value == "item" else self.item_field(node)

    def _path(self, node: Node, field: str, known: Collection[str] | None) -> str:
        names = (*(known or KNOWN_NAMES), "item", VARS)
        template = at(node, lambda: path_template(node.value, field, names))
        check_reads(template, self.vars, node, f"`{field}`")
        return str(node.value)

    def keep(self, node: Node) -> str:
        """A filter's expression over the reply and the item, tried out so that mistakes show now."""
        expression: str = node.value
        if expression == "prompts":
            raise node.bad(
                "`keep` of a step is a filter; to store prompts, state `keep: prompts` at the top of"
                " the plan"
            )
        template = at(node, lambda: keep_template(expression, node.file))
        check_reads(template, self.vars, node, "`keep`")
        return expression


def who_of(node: Node, given: Any) -> Who | None:
    """Who may answer, where that is stated."""
    said = {name: getattr(given, name) for name in _ONE if name in node.value}
    said |= {name: listed(getattr(given, name)) for name in _SEVERAL if name in node.value}
    return read_who(node, said) if said else None


def lines_of(node: Node) -> dict[str, int]:
    """The lines of a step's fields, and those of the members that its gate asks."""
    lines = {name: node.child(name).line for name in node.value}
    if "gate" in node.value:
        lines |= _lines_of_judges(node.child("gate"))
    return lines


def _lines_of_judges(node: Node, place: str = "gate") -> dict[str, int]:
    """By the path to each: `gate[0].all_of[1].judge`. A single check is the first of a list."""
    if isinstance(node.value, list):
        found = [_lines_of_judges(one, f"{place}[{n}]") for n, one in enumerate(elements(node))]
        return {name: line for lines in found for name, line in lines.items()}
    if not isinstance(node.value, dict):
        return {}
    place = "gate[0]" if place == "gate" else place
    lines: dict[str, int] = {}
    for kind in node.value:
        child = node.child(kind)
        if kind == "judge" and isinstance(child.value, dict):
            who = next((name for name in WHO if name in child.value), None)
            lines[f"{place}.judge"] = child.line if who is None else child.child(who).line
        elif kind in ("all_of", "any_of"):
            lines |= _lines_of_judges(child, f"{place}.{kind}")
    return lines


def resolver(folder: Path) -> Callable[[str], Any]:
    """For a run: what a target names is imported."""
    return lambda target: resolve_target(target, folder)


def inspecting_resolver(folder: Path) -> Callable[[str], Any]:
    """For those who only look: nothing is imported."""
    return lambda target: look_for(target, folder)


def noting_resolver(node: Node, reading: StepContext) -> Callable[[str], Any]:
    """The same, and its line is noted for the run, which imports it."""

    def look(target: str) -> Any:
        found = look_for(target, reading.folder)
        reading.targets.setdefault(target, node.line)
        return found

    return look


def read_prompt(
    node: Node, reading: StepContext, earlier: Collection[str], known: Collection[str] = KNOWN_NAMES
) -> str | None:
    """The step's `prompt` or the text of its `prompt_file`, checked for names nobody defines."""
    child = _one_way(node, "prompt", "prompt_file")
    return None if child is None else _template_text(child, reading, earlier, known)


def _template_text(
    child: Node, reading: StepContext, earlier: Collection[str], known: Collection[str]
) -> str:
    """A template that is written there, or in the file that is named there."""
    known = (*known, VARS)
    if not str(child.place[-1]).endswith("_file"):
        source, template = str(child.value), _inline_template(child, known)
    else:
        source = _file_text(child, reading)
        template = Template(source, name=str(reading.folder / child.value), known=known)
    what = f"the {child.name.removesuffix('_file')}"
    for step in sorted(template.fields("steps") - set(earlier)):
        why = reading.lacks(step, earlier, "it cannot see an earlier step of that name")
        raise child.bad(f"{what} reads `steps.{step}`, but {why}")
    check_reads(template, reading.vars, child, what)
    if template.media and child.name.removesuffix("_file") != "prompt":
        raise child.bad(f"`{template.media[0]}` has no use in {what}: files go with an item")
    return source


def read_opening(node: Node, reading: StepContext, prompt: str | None) -> Opening | None:
    """What all asks of the step begin with. `prompt` shows the items of examples, where it is about
    items."""
    system = _one_way(node, "system", "system_file")
    texts = []
    for child in _each(node, "context_file"):
        texts.append(ContextText(_file_text(child, reading), child.value))
    for child in _each(node, "context"):
        texts.append(ContextText(_template_text(child, reading, reading.results, _OPENING_NAMES)))
    made = Opening(
        "" if system is None
        else _template_text(system, reading, reading.results, _OPENING_NAMES),
        tuple(texts), _read_examples(node, reading, prompt), node.value.get("cache"),
    )  # fmt: skip
    return None if made == Opening() else made


def _each(node: Node, field: str) -> list[Node]:
    if field not in node.value:
        return []
    child = node.child(field)
    return list(elements(child)) if isinstance(child.value, list) else [child]


def _read_examples(node: Node, reading: StepContext, prompt: str | None) -> tuple[Example, ...]:
    """Each with what the prompt reads of an item, where it has one."""
    child = _one_way(node, "examples", "examples_file")
    if child is None:
        return ()
    if child.place[-1] == "examples":
        found = tuple(one_example(one.value) for one in elements(child))
    else:
        found = examples_in(_file_text(child, reading), str(reading.folder / child.value))
    if not found:
        raise child.bad(f"`{child.name}` is empty")
    reads = set() if prompt is None else Template(prompt, name="", known=ALL_NAMES).fields("item")
    for number, one in enumerate(found, 1):
        if one.item is UNSET:
            continue
        if prompt is None:
            raise child.bad(
                f"example {number}: the prompt of this step shows no item; give an `ask`"
            )
        for field in sorted(reads - set(Item("", one.item).view())):
            raise child.bad(f"example {number}: its item has no `{field}`, which the prompt reads")
    return found


def read_verbatim(node: Node, reading: StepContext) -> str | None:
    """The same text, but no template: nothing in it is looked at."""
    child = _one_way(node, "prompt", "prompt_file")
    if child is None:
        raise node.child("verbatim").bad("`verbatim` needs a `prompt` or a `prompt_file`")
    return str(child.value) if child.place[-1] == "prompt" else _file_text(child, reading)


def _inline_template(node: Node, known: Collection[str]) -> Template:
    """In a block text the very line of a mistake is known; else that of the field has to do."""
    source, first = node.value, node.line_in_text(1)
    if first == node.line:
        return at(node, lambda: Template(source, name=node.file, known=known))
    return Template(source, name=node.file, known=known, line=first)


def read_schema(node: Node, reading: StepContext) -> Schema | None:
    """The step's `schema`, or that of its `schema_file`; what is no JSON Schema is refused."""
    child = _one_way(node, "schema", "schema_file")
    if child is None:
        return None
    if child.place[-1] == "schema":
        found = child
    else:
        _file_text(child, reading)
        found = read(reading.folder / child.value)
    definition = mapping(found)
    at(found, lambda: checks.schema(definition))
    return Schema.of(definition)


def _one_way(node: Node, inline: str, in_file: str) -> Node | None:
    if inline in node.value and in_file in node.value:
        raise node.child(in_file).bad(f"state `{inline}` or `{in_file}`, not both")
    name = next((name for name in (inline, in_file) if name in node.value), None)
    return None if name is None else node.child(name)


def check_inside(node: Node, path: str, reading: StepContext) -> None:
    """A plan may come from somebody else: what it writes, and reads to send, lies in its folder."""
    if not at(node, lambda: is_inside(reading.folder, path)) and not reading.allow_outside:
        what = f"`{node.name}` {path} leads out of the plan's folder"
        raise node.bad(f"{what}; if that is meant, allow it with --allow-outside")


def _file_text(node: Node, reading: StepContext) -> str:
    name: str = node.value
    check_inside(node, name, reading)
    try:
        found = read_text(reading.folder / name)
    except BadInput as error:
        raise node.bad(f"`{node.name}` {name}: {error.what}") from None
    if not found.strip():
        raise node.bad(f"`{node.name}` {name}: is empty")
    return found


def read_gate(node: Node, reading: StepContext) -> tuple[dict[str, Any], ...] | None:
    """The step's `gate` as it is written, each check tried out so that mistakes show now."""
    if "gate" not in node.value:
        return None
    gate = node.child("gate")
    listed = list(elements(gate)) if isinstance(gate.value, list) else [gate]
    for child in listed:
        _try_out(child, reading)
    if not listed:
        raise gate.bad("`gate` states no check: give one, such as `require: [a]`, or leave it out")
    return tuple(child.value for child in listed)


def read_target(node: Node, reading: StepContext) -> str:
    """`module:attribute` that can be found from the plan's folder."""
    target: str = node.value
    at(node, lambda: noting_resolver(node, reading)(target))
    return target


def _try_out(check: Node, reading: StepContext) -> None:
    at(check, lambda: from_plan([check.value], noting_resolver(check, reading)))
