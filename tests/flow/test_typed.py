"""Schemas from types of the user's, replies as these types, and the parameters of reasoning and tier."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pydantic
import pytest

import fanfold as ff
from fanfold.errors import BadInput
from fanfold.members.roster import load_roster
from fanfold.observe.preview import preview_text
from fanfold.plans.execute import Audience, execute
from fanfold.plans.inputs import open_input
from fanfold.plans.load import load_plan
from fanfold.plans.prepare import Options, prepare
from fanfold.plans.preview.asks import Premises
from fanfold.plans.preview.estimate import estimate
from fanfold.run.loop import run_sync
from fanfold.testing.running import threaded_server
from fanfold.testing.script import Asked, Says
from fanfold.work.outcome import Receipt
from fanfold.work.typed import as_type, definition_of
from tests.flow.small_plans import unwatched


class Place(msgspec.Struct):
    page: int


class Finding(msgspec.Struct):
    clause: str
    place: Place


class Node(msgspec.Struct):
    name: str
    below: list[Node] = []


class PydanticFinding(pydantic.BaseModel):
    clause: str
    place: dict[str, int]


@dataclass
class PlainFinding:
    clause: str
    place: Place


FOUND = {"clause": "late fee", "place": {"page": 3}}
asked: list[dict[str, Any]] = []


def finding(one: Asked) -> Says:
    asked.append(one.body)
    return Says(data=FOUND)


ROSTER = """\
members:
  - {{id: o, kind: openai, model: one, base_url: "{url}/v1", price: {{input: 1, output: 1}}}}
  - {{id: a, kind: anthropic, model: one, base_url: "{url}", price: {{input: 1, output: 1}}}}
"""


async def found(folder: Path, member: str, kind: Any, **how: Any) -> list[Any]:
    roster = folder / "roster.yaml"
    async with ff.open_run("t", store=folder / "store", roster=roster, allow_paid=True) as run:
        made = await ff.map_reduce(
            run, ["x", "y"], prompt="{{ item.text }}", schema=kind, member=member, **how
        )
        return list(made.values(kind))


@pytest.mark.parametrize("kind", [Finding, PydanticFinding, PlainFinding])
@pytest.mark.parametrize("member", ["o", "a"])
def test_replies_come_back_as_the_type_of_the_schema(
    tmp_path: Path, member: str, kind: Any
) -> None:
    with threaded_server(tmp_path / "books", script=f"{__name__}:finding") as server:
        (tmp_path / "roster.yaml").write_text(ROSTER.format(url=server.url))
        assert run_sync(found(tmp_path, member, kind)) == [as_type(FOUND, kind)] * 2
    assert definition_of(kind)["type"] == "object"


def test_a_type_that_refers_to_itself_keeps_its_definition() -> None:
    made = definition_of(Node)
    assert (made["type"], made["properties"]["below"]["items"]) == (
        "object",
        {"$ref": "#/$defs/Node"},
    )
    assert "Node" in made["$defs"]


@pytest.mark.parametrize("kind", [5, int, list, "Finding", lambda: 1])
def test_what_is_no_such_type_is_refused(kind: Any) -> None:
    with pytest.raises(BadInput, match="`schema` must be a JSON Schema"):
        definition_of(kind)


def test_a_reply_that_does_not_fit_is_named() -> None:
    with pytest.raises(BadInput, match=r"a reply is no Finding: .*clause"):
        as_type({"place": {"page": 1}}, Finding)


PLAN = """\
input: {{list: [x, y]}}
steps:
  - map: {{prompt: "{{{{ item.text }}}}", member: o, schema: "{target}"}}
  - reduce: collect
"""
TYPES = """\
import pathlib
import msgspec

pathlib.Path(__file__).with_name("imported").touch()

class Finding(msgspec.Struct):
    clause: str

def function():
    pass
"""


def carry(folder: Path) -> Receipt:
    job = prepare(str(folder / "p.yaml"), Options(store=str(folder / "store"), allow_paid=True))
    return run_sync(execute(job, Audience(unwatched)))


def test_a_plan_names_a_type_which_only_a_run_imports(tmp_path: Path) -> None:
    asked.clear()
    (tmp_path / "types_here.py").write_text(TYPES)
    with threaded_server(tmp_path / "books", script=f"{__name__}:finding") as server:
        (tmp_path / "roster.yaml").write_text(ROSTER.format(url=server.url))
        (tmp_path / "p.yaml").write_text(PLAN.format(target="types_here:Finding"))
        plan, roster = load_plan(tmp_path / "p.yaml"), load_roster(tmp_path / "roster.yaml")
        assert plan.input is not None
        source = open_input(plan.input, plan.folder)
        said = preview_text(estimate(plan, roster, source, None, Premises(allow_paid=True)))
        assert "the type of its schema is imported only by a run" in said
        assert not (tmp_path / "imported").exists()
        assert carry(tmp_path).status == "complete"
        assert carry(tmp_path).calls == 0
    sent = asked[0]["response_format"]["json_schema"]["schema"]
    assert (sent["properties"], (tmp_path / "imported").exists()) == (
        {"clause": {"type": "string"}},
        True,
    )


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("types_here:Nothing", "has no `Nothing`"),
        ("nowhere:Finding", "cannot import `nowhere`"),
        ("words", "module:Type"),
        ("types_here:function", "`schema` must be a JSON Schema"),
    ],
)
def test_what_a_plan_cannot_find_is_refused_before_anything_is_asked(
    tmp_path: Path, target: str, said: str
) -> None:
    (tmp_path / "types_here.py").write_text(TYPES)
    (tmp_path / "roster.yaml").write_text(ROSTER.format(url="http://127.0.0.1:9"))
    (tmp_path / "p.yaml").write_text(PLAN.format(target=target))
    with pytest.raises(BadInput) as wrong:
        carry(tmp_path)
    assert said in str(wrong.value)
    assert wrong.value.line == 3


SENT = {
    "o": {"reasoning_effort": "minimal", "service_tier": "flex"},
    "a": {"output_config": {"effort": "low"}},
}


@pytest.mark.parametrize("member", ["o", "a"])
def test_reasoning_and_tier_are_sent_where_the_service_has_them(
    tmp_path: Path, member: str
) -> None:
    asked.clear()
    with threaded_server(tmp_path / "books", script=f"{__name__}:finding") as server:
        (tmp_path / "roster.yaml").write_text(ROSTER.format(url=server.url))
        how = {"params": {"reasoning": "minimal", "service_tier": "flex", "temperature": 0}}
        run_sync(plain(tmp_path, member, **how))
    names = ("reasoning_effort", "service_tier", "output_config", "effort")
    assert {name: asked[0][name] for name in names if name in asked[0]} == SENT[member]
    assert asked[0]["temperature"] == 0


async def plain(folder: Path, member: str, **how: Any) -> None:
    roster = folder / "roster.yaml"
    async with ff.open_run("t", store=folder / "store", roster=roster, allow_paid=True) as run:
        await ff.map_reduce(run, ["x"], prompt="{{ item.text }}", member=member, **how)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"reasoning": "much"}, "unknown reasoning `much`"),
        ({"service_tier": "priority"}, "unknown service_tier `priority`"),
        ({"temprature": 1}, "did you mean `temperature`?"),
    ],
)
def test_other_parameters_are_refused(tmp_path: Path, params: dict[str, Any], said: str) -> None:
    (tmp_path / "roster.yaml").write_text(ROSTER.format(url="http://127.0.0.1:9"))
    with pytest.raises(BadInput) as wrong:
        run_sync(plain(tmp_path, "o", params=params))
    assert said in str(wrong.value)
