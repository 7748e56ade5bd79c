"""Each field that says what is asked, in one table: in a plan and in Python the same goes over the wire
and is asked once, a preview and a picture show it, mistakes are refused in a line, a page has an example
that is run, and a killed plan pays for nothing twice."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

import fanfold as ff
from fanfold.errors import BadInput
from fanfold.faces.cli.main import main
from fanfold.plans.execute import Audience, execute
from fanfold.plans.prepare import Options, prepare
from fanfold.run.loop import run_sync
from fanfold.testing.running import RunningServer, threaded_server
from fanfold.testing.script import Asked, Says
from tests import media
from tests.docs.pages import blocks, pages
from tests.flow.killed_plans import carried_through
from tests.flow.small_plans import unwatched

ROSTER = """\
members:
  - {{id: m, kind: openai, model: one, base_url: "{url}/v1", max_tokens: 300, batch_price: 0.5,
     price: {{input: 3, output: 3, cache_read: 0.3}}, media: [image, document, audio]}}
  - {{id: a, kind: anthropic, model: one, base_url: "{url}", max_tokens: 300, price: {{input: 1, output: 1}}}}
  - {{id: e, kind: embedding, model: v, base_url: "{url}/v1", price: {{input: 1, output: 0}}}}
  - {{id: p, kind: openai, provider: deepseek, model: d, base_url: "{url}", price: {{input: 1, output: 1}}}}
  - {{id: l, kind: litellm, model: openai/one, base_url: "{url}/v1", price: {{input: 1, output: 1}}}}
"""
TYPES = """\
import msgspec

class FieldsFinding(msgspec.Struct):
    clause: str

def look(place: str) -> str:
    "What is there."
    return f"nothing at {place}"
"""
OBJECT = {"type": "object", "properties": {"n": {"type": "integer"}}}
CONTEXT = "rule " * 2000


class Row(NamedTuple):
    """A field as a plan has it, and as Python has it; what a picture and a preview show; a mistake of
    each, with what is said of it; how the pages write it."""

    plan: str
    python: dict[str, Any]
    drawn: str
    previewed: str
    bad: str
    said: str
    bad_python: dict[str, Any]
    said_in_python: str
    docs: str
    member: str = "m"


ROWS = {
    "system": Row(
        "system: Be brief.", {"system": "Be brief."}, "system", "",
        "system: 5", "`system` must be a text, not the number 5",
        {"system": 5}, "`system` must be a text or a Path, not the number 5", r"^ +system: ",
    ),
    "context": Row(
        f"context: '{CONTEXT}'", {"context": CONTEXT}, "context (1)", "shared 2,5",
        "context_file: none.md", "`context_file` none.md: no such file",
        {"context": Path("none.md")}, "none.md", r"context_file: ",
    ),
    "examples": Row(
        "examples: [{ask: x, reply: y}]", {"examples": [("x", "y")]}, "examples (1)", "",
        "examples: [{ask: x}]", "needs the field `reply`",
        {"examples": [{"ask": "x"}]}, "needs the field `reply`", r"^ +examples:",
    ),
    "cache": Row(
        f"context: '{CONTEXT}', cache: off", {"context": CONTEXT, "cache": "off"}, "cache off", "",
        "cache: maybe", "unknown cache `maybe`",
        {"cache": "maybe"}, "`cache` must be auto or off", r"cache: off",
    ),
    "attach": Row(
        "attach: item.scan", {"attach": "item.scan"}, "with files: item.scan", "2 images",
        "attach: item.scna", "item.scna",
        {"attach": "item.scna"}, "item.scna", r"attach=",
    ),
    "image": Row(
        "prompt: '{{ item.scan | image }}{{ item.id }}'",
        {"prompt": "{{ item.scan | image }}{{ item.id }}"},
        "with files: image", "2 images",
        "prompt: '{{ item.scan | picture }}'", "there is no filter `picture`",
        {"prompt": "{{ item.scan | picture }}"}, "there is no filter `picture`", r"item \| image",
    ),
    "document": Row(
        "prompt: '{{ item.paper | document }}{{ item.id }}'",
        {"prompt": "{{ item.paper | document }}{{ item.id }}"},
        "with files: document", "1 page",
        "prompt: '{{ item.paper | documnet }}'", "there is no filter `documnet`",
        {"prompt": "{{ item.paper | documnet }}"}, "there is no filter `documnet`", r"item \| document",
    ),
    "audio": Row(
        "prompt: '{{ item.voice | audio }}{{ item.id }}'",
        {"prompt": "{{ item.voice | audio }}{{ item.id }}"},
        "with files: audio", "audio",
        "prompt: '{{ item.voice | audoi }}'", "there is no filter `audoi`",
        {"prompt": "{{ item.voice | audoi }}"}, "there is no filter `audoi`", r"item \| audio",
    ),
    "schema": Row(
        "schema: {type: object, properties: {n: {type: integer}}}", {"schema": OBJECT}, "schema", "",
        "schema: {type: objekt}", "not a valid JSON Schema",
        {"schema": {"type": "objekt"}}, "not a valid JSON Schema", r"schema: \{type",
    ),
    "schema type": Row(
        "schema: fields_types:FieldsFinding", {"schema": "fields_types:FieldsFinding"},
        "schema fields_types:FieldsFinding", "the type of its schema is imported only by a run",
        "schema: fields_types:Nothing", "has no `Nothing`",
        {"schema": 5}, "`schema` must be a JSON Schema", r"schema: \w+:\w+",
    ),
    "reasoning": Row(
        "reasoning: low", {"params": {"reasoning": "low"}}, "reasoning low", "",
        "reasoning: much", "unknown reasoning `much`",
        {"params": {"reasoning": "much"}}, "unknown reasoning `much`", r"reasoning: ",
    ),
    "reasoning, the other wire": Row(
        "reasoning: minimal", {"params": {"reasoning": "minimal"}}, "reasoning minimal", "",
        "reasoning: [low]", "`reasoning` must be",
        {"params": {"reasoning": 5}}, "`reasoning` must be", r"reasoning: ", "a",
    ),
    "reasoning, not there": Row(
        "reasoning: none, seed: 7", {"params": {"reasoning": "none", "seed": 7}}, "reasoning none",
        "not sent to a, where it would have no effect: seed: 7, reasoning: none",
        "reasoning: [none]", "`reasoning` must be",
        {"params": {"reasoning": ["none"]}}, "`reasoning` must be", r"reasoning: ", "a",
    ),
    "service_tier, not there": Row(
        "service_tier: flex", {"params": {"service_tier": "flex"}}, "service tier flex",
        "not sent to a, where it would have no effect: service_tier: flex",
        "service_tier: 5", "`service_tier` must be",
        {"params": {"service_tier": 5}}, "`service_tier` must be", r"service_tier: ", "a",
    ),
    "service_tier": Row(
        "service_tier: flex", {"params": {"service_tier": "flex"}}, "service tier flex", "",
        "service_tier: gold", "unknown service_tier `gold`",
        {"params": {"service_tier": "gold"}}, "unknown service_tier `gold`", r"service_tier: ",
    ),
    "batch": Row(
        "batch: {within: 6h}", {"batch": {"within": "6h"}}, "in batches within 6h",
        "in batches at 0.5 of the price, within 6h",
        "batch: {within: soon}", "a time is such as 90s",
        {"batch": {"within": "soon"}}, "a time is such as 90s", r"batch: \{within",
    ),
    "tools": Row(
        "tools: ['fields_types:look'], tool_rounds: 2",
        {"tools": ["fields_types:look"], "tool_rounds": 2}, "tools look (at most 2 rounds)", "",
        "tools: ['fields_types:lok']", "has no `lok`",
        {"tools": ["fields_types:lok"]}, "has no `lok`", r"^ +tools:",
    ),
    "kind embedding": Row(
        "shard: {items: 9}", {"shard": {"items": 9}}, "e", "",
        "batch: auto", "`batch`",
        {"batch": "auto"}, "batch", r"kind: embedding", "e",
    ),
    "kind litellm": Row(
        "reasoning: low", {"params": {"reasoning": "low"}}, "reasoning low", "no history for l",
        "batch: auto", "`batch` needs a member with a batch service, and l has none",
        {"batch": "auto"}, "and l has none", r"kind: litellm", "l",
    ),
    "provider": Row(
        "schema: {type: object, properties: {n: {type: integer}}}", {"schema": OBJECT}, "schema", "",
        "member: nobody", "there is no member `nobody`",
        {"member": "nobody"}, "nobody", r"provider: ", "p",
    ),
}  # fmt: skip
asked: list[Asked] = []


def note(one: Asked) -> Says:
    asked.append(one)
    return answered(one)


def answered(one: Asked) -> Says:
    return Says(data={"n": 1, "clause": "x"}) if one.wire in ("openai", "anthropic") else Says()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    books = tmp_path_factory.mktemp("fields") / "books"
    with threaded_server(books, script=f"{__name__}:note") as running:
        yield running


@pytest.fixture
def folder(
    tmp_path: Path, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """Two rows that name files, and the module with the types; Python is in that folder too."""
    (tmp_path / "roster.yaml").write_text(ROSTER.format(url=server.url))
    write_rows(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    asked.clear()
    yield tmp_path
    sys.modules.pop("fields_types", None)


def write_rows(folder: Path) -> None:
    (folder / "fields_types.py").write_text(TYPES)
    (folder / "scan.png").write_bytes(media.png())
    (folder / "paper.pdf").write_bytes(media.pdf(["a page"]))
    (folder / "voice.wav").write_bytes(media.wav())
    rows = [{"id": one, "scan": "scan.png", "paper": "paper.pdf", "voice": "voice.wav"}
            for one in "xy"]  # fmt: skip
    (folder / "rows.jsonl").write_bytes(b"\n".join(map(msgspec.json.encode, rows)))


def step(name: str, fields: str) -> str:
    """A map with the fields; line 4 of a plan of one."""
    row = ROWS[name]
    stated = {"prompt": f"'{name} {{{{ item.id }}}}'", "member": row.member, "attempts": "1"}
    given = [f"{key}: {value}" for key, value in stated.items() if f"{key}:" not in fields]
    called = name.replace(" ", "_").replace(",", "")
    return f"  - map: {{name: {called}, {', '.join(given)}, {fields}}}\n"


def write_plan(folder: Path, *steps: str) -> Path:
    head = "name: killed\ninput: {jsonl: rows.jsonl}\nsteps:\n"
    (folder / "p.yaml").write_text(head + "".join(steps))
    return folder / "p.yaml"


def carry(folder: Path) -> ff.Receipt:
    job = prepare(str(folder / "p.yaml"), Options(store=str(folder / "store"), allow_paid=True))
    return run_sync(execute(job, Audience(unwatched)))


async def in_python(folder: Path, name: str, **how: Any) -> ff.Receipt:
    """The same as the plan does; a type and a tool are given as such."""
    rows = [msgspec.json.decode(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    given = {
        "prompt": f"{name} {{{{ item.id }}}}",
        "member": ROWS[name].member,
        "attempts": 1,
        **how,
    }
    async with ff.open_run(
        "python", store=folder / "python", roster=folder / "roster.yaml", allow_paid=True
    ) as run:
        return (await ff.map_reduce(run, rows, **given)).receipt


def sent() -> list[bytes]:
    found = sorted(msgspec.json.encode(one.body) for one in asked)
    asked.clear()
    return found


def own(given: dict[str, Any]) -> dict[str, Any]:
    """With the type itself in the place of its name."""
    if isinstance(given.get("schema"), str):
        module = __import__("fields_types")
        return {**given, "schema": module.FieldsFinding}
    return given


ELSEWHERE = ("batch", "kind litellm")
"""Batches wait for their service: `test_batches` has them on a virtual clock, and `test_batches_killed` kills
them. LiteLLM has an environment of its own, in which `test_litellm` holds the same."""
ASKED = {name: row for name, row in ROWS.items() if name not in ELSEWHERE}


@pytest.mark.parametrize("name", ASKED)
def test_a_plan_and_python_send_the_same_once(folder: Path, name: str) -> None:
    write_plan(folder, step(name, ROWS[name].plan))
    first = carry(folder)
    by_plan = sent()
    assert (first.status, first.passed, bool(by_plan)) == ("complete", 2, True)
    again = carry(folder)
    assert (again.calls, again.passed, sent()) == (0, 2, [])
    receipt = run_sync(in_python(folder, name, **own(ROWS[name].python)))
    assert (receipt.passed, sent()) == (2, by_plan)


@pytest.mark.parametrize("name", ROWS)
def test_a_preview_and_a_picture_show_it_and_ask_nothing(
    folder: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_plan(folder, step(name, ROWS[name].plan))
    assert (said(capsys, "run", "p.yaml", "--dry-run")[0], asked) == (0, [])
    code, shown, _ = said(capsys, "run", "p.yaml", "--dry-run", "--allow-paid")
    assert (code, ROWS[name].previewed in shown) == (0, True), shown
    code, drawn, _ = said(capsys, "graph", "p.yaml")
    assert (code, ROWS[name].drawn in " ".join(drawn.replace("│", " ").split())) == (0, True), drawn
    assert not asked


@pytest.mark.parametrize("name", ROWS)
def test_a_mistake_is_refused_in_a_line_with_its_place(
    folder: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_plan(folder, step(name, ROWS[name].bad))
    code, out, err = said(capsys, "run", "p.yaml", "--allow-paid")
    assert (code, out, err.count("\n"), err.startswith("fanfold: p.yaml:4: ")) == (
        2,
        "",
        1,
        True,
    ), err
    assert ROWS[name].said in err
    with pytest.raises(BadInput) as wrong:
        run_sync(in_python(folder, name, **ROWS[name].bad_python))
    assert ROWS[name].said_in_python in str(wrong.value)
    assert not asked


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    found = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, found.out, found.err


@pytest.mark.parametrize("name", ROWS)
def test_a_page_has_an_example_that_is_run(name: str) -> None:
    """A file of a session, or a script."""
    run = [
        block.text
        for page in pages()
        for block in blocks(page)
        if block.file or (block.language == "python" and block.note != "not run")
    ]
    assert any(re.search(ROWS[name].docs, text, re.MULTILINE) for text in run)


@pytest.mark.slow
def test_a_plan_with_all_of_them_that_is_killed_pays_for_nothing_twice(tmp_path: Path) -> None:
    write_rows(tmp_path)
    steps = [step(name, row.plan) for name, row in ASKED.items()]
    plan = write_plan(tmp_path, *steps).read_text()
    killed = carried_through(tmp_path, plan, answered, seed=3, kills=2, roster=ROSTER)
    killed.check()
    assert (killed.receipt.passed, killed.kills) == (2, 2)
