"""A kind of member is one module and one line in the table: rosters, scripts and the schema know it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from fanfold.errors import BadInput
from fanfold.members.entry import constructor
from fanfold.members.kinds import KINDS, field_names, record_of
from fanfold.members.roster import DEFAULT_ROSTER, load_roster, read_roster, roster_schema
from fanfold.price import FREE
from fanfold.work.ask import Ask, Message
from fanfold.work.document import parse, read
from fanfold.work.member import Traits, tell_nobody
from tests.architecture.sources import ROOT
from tests.unit.members.echo import EchoFields

ECHO = "members: [{id: e, kind: echo, times: 2}]"


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "echo", "tests.unit.members.echo:EchoFields")


@pytest.mark.usefixtures("echo")
def test_a_new_kind_is_read_built_and_asked() -> None:
    roster = read_roster(parse(ECHO, "r.yaml"))
    assert roster.entry("e").traits == Traits(
        id="e", kind="echo", answerer="echo:2", price=FREE, metered=False, pool="e", keeps_time=True
    )
    member = roster.build("e", folder=".")
    ask = Ask((Message("user", "hi"),))
    assert asyncio.run(member.ask(member.prepare(ask), tell_nobody)).text == "hihi"


@pytest.mark.usefixtures("echo")
@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ("kind: echo, times: 0", "r.yaml:1: `times` must be 1 or more, not 0"),
        ("kind: echo, tims: 2",
         "r.yaml:1: unknown field `tims` in a member of kind echo: did you mean `times`?"),
        ("kind: replay, file: a, times: 2",
         "r.yaml:1: `times` is a field of kind echo, not of kind replay"),
        ("kind: ecco", "r.yaml:1: unknown kind `ecco`: did you mean `echo`?"),
        ("kind: echo, pool: ", "r.yaml:1: `pool` is empty; give it a value, or leave it out"),
        ("kind: echo, concurrency: 2, limits: {rpm: 1}",
         "r.yaml:1: state `limits` or `concurrency`, not both"),
    ],
)  # fmt: skip
def test_its_mistakes_are_refused_like_those_of_any_other(fields: str, says: str) -> None:
    with pytest.raises(BadInput) as error:
        read_roster(parse(f"members: [{{id: e, {fields}}}]", "r.yaml"))
    assert str(error.value) == says


@pytest.mark.usefixtures("echo")
def test_a_script_states_it_with_the_same_fields() -> None:
    made = constructor(EchoFields, lambda given: "echo")(times=2, id="e", concurrency=3)
    in_file = read_roster(parse(ECHO.replace("times", "concurrency: 3, times"), "r.yaml"))
    assert made.entry.fields == in_file.entry("e").fields


def test_what_the_table_names_is_there_under_its_name() -> None:
    assert {kind: record_of(kind).__struct_config__.tag for kind in KINDS} == {k: k for k in KINDS}


def test_each_kind_has_a_module_of_its_own_and_those_of_agents_a_package() -> None:
    modules: dict[str, list[str]] = {}
    for kind, place in KINDS.items():
        modules.setdefault(place.partition(":")[0], []).append(kind)
    shared = {module: kinds for module, kinds in modules.items() if len(kinds) > 1}
    assert shared == {"fanfold.members.agents.agent": ["claude", "codex", "gemini", "opencode"]}


def test_contributing_shows_this_very_example() -> None:
    module = Path(__file__).with_name("echo.py").read_text(encoding="utf-8")
    shown = module.partition('"""\n\n')[2]
    assert shown.strip() in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


# ── the schema ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("echo")
def test_the_schema_of_a_roster_has_every_kind_with_its_fields() -> None:
    kinds = {
        kind["properties"]["kind"]["enum"][0]: list(kind["properties"])
        for kind in roster_schema()["$defs"].values()
        if "kind" in kind["properties"]
    }
    assert {name: sorted(fields) for name, fields in kinds.items()} == {
        name: sorted(field_names(record_of(name))) for name in KINDS
    }


@pytest.mark.parametrize("file", [DEFAULT_ROSTER, *sorted(ROOT.glob("src/**/roster.yaml"))])
def test_rosters_that_load_are_what_the_schema_says(file: Path) -> None:
    assert load_roster(file).entries
    jsonschema_rs.validate(roster_schema(), read(file).value)


@pytest.mark.parametrize(
    "members",
    [
        [{"id": "a", "kind": "openai"}],
        [{"kind": "openai", "model": "m"}],
        [{"id": "a", "kind": "codex", "tools": ["Read"]}],
        [{"id": "a", "kind": "function", "target": "a:b", "timeout": 0}],
        [{"id": "a", "kind": "nobody"}],
    ],
)
def test_the_schema_refuses_what_the_reader_refuses(members: list[dict[str, Any]]) -> None:
    assert not jsonschema_rs.is_valid(roster_schema(), {"members": members})
