"""Texts become vectors: many inputs in one request, priced, metered and reused like other asks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import fanfold as ff
from fanfold.errors import BadInput
from fanfold.members.embedding import embedding
from fanfold.members.roster import load_roster
from fanfold.plans.execute import Audience, execute
from fanfold.plans.inputs import open_input
from fanfold.plans.load import load_plan
from fanfold.plans.prepare import Options, prepare
from fanfold.plans.preview.asks import Premises
from fanfold.plans.preview.estimate import estimate
from fanfold.price import Price
from fanfold.run.loop import run_sync
from fanfold.testing.running import threaded_server
from fanfold.testing.script import Asked, Says
from fanfold.testing.wire_embeddings import vector
from fanfold.work.outcome import Receipt
from tests.flow.killed_plans import carried_through
from tests.flow.small_plans import unwatched

ROSTER = """\
members:
  - {{id: e, kind: embedding, model: text-embedding-3-small, base_url: "{url}/v1", price: {{input: 1, output: 0}}}}
  - {{id: short, kind: embedding, model: text-embedding-3-small, dimensions: 8, base_url: "{url}/v1", price: {{input: 1, output: 0}}}}
  - {{id: m, kind: openai, model: one, base_url: "{url}/v1", max_tokens: 50, price: {{input: 1, output: 1}}}}
"""  # noqa: E501
NAMES = [
    "blue metal chair", "chair, metal, blue", "red wooden table", "table of red wood",
    "glass lamp", "lamp made of glass", "black leather sofa", "green garden hose",
]  # fmt: skip
EMBED = "  - map: {name: embed, member: e, prompt: '{{ item.name }}', shard: {items: 3}}\n"
asked: list[Asked] = []


def note(one: Asked) -> Says:
    asked.append(one)
    return Says(data={"same": False}) if one.wire == "openai" else Says()


def written(folder: Path, steps: str, url: str = "http://127.0.0.1:9") -> Path:
    rows = [{"id": str(n), "name": name} for n, name in enumerate(NAMES)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "p.yaml").write_text(f"name: killed\ninput: {{jsonl: rows.jsonl}}\nsteps:\n{steps}")
    (folder / "roster.yaml").write_text(ROSTER.format(url=url))
    return folder / "p.yaml"


def carry(folder: Path, calls: int | None = None) -> Receipt:
    options = Options(store=str(folder / "store"), budget=ff.Budget(calls=calls))
    return run_sync(execute(prepare(str(folder / "p.yaml"), options), Audience(unwatched)))


def served(folder: Path) -> Any:
    asked.clear()
    return threaded_server(
        folder / "books", script=f"{__name__}:note", price=Price(input=1, output=1)
    )


def near(found: list[float], wanted: list[float]) -> bool:
    return len(found) == len(wanted) and all(
        abs(a - b) < 1e-6 for a, b in zip(found, wanted, strict=True)
    )


def test_many_inputs_are_one_request_and_each_item_has_its_vector(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        written(tmp_path, EMBED + "  - reduce: collect\n", server.url)
        receipt = carry(tmp_path)
        books = server.books()
    assert (receipt.passed, receipt.calls, receipt.cost_usd) == (8, 3, books.bill / 1e9)
    assert [len(one.messages) for one in asked] == [3, 3, 2]
    for part, name in zip(receipt.result, NAMES, strict=True):
        assert near(part["value"], vector(name))
    assert carry(tmp_path).calls == 0


def test_one_input_is_one_request_and_another_length_another_answer(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        step = "  - map: {member: short, prompt: '{{ item.name }}'}\n  - reduce: collect\n"
        written(tmp_path, step, server.url)
        receipt = carry(tmp_path)
        assert (receipt.calls, len(receipt.result[0]["value"])) == (8, 8)
        written(tmp_path, step.replace("short", "e"), server.url)
        assert carry(tmp_path).calls == 8
    assert asked[0].body == {
        "model": "text-embedding-3-small", "input": [asked[0].prompt],
        "encoding_format": "float", "dimensions": 8,
    }  # fmt: skip


def test_records_are_compared_by_their_embeddings(tmp_path: Path) -> None:
    """The vectors themselves are in no prompt."""
    step = "  - resolve: {member: m, block: {vector: steps.embed, neighbours: 1}}\n"
    with served(tmp_path) as server:
        written(tmp_path, EMBED + step, server.url)
        receipt = carry(tmp_path)
    compared = [one.prompt for one in asked if one.wire == "openai"]
    assert receipt.status == "complete"
    assert any("blue metal chair" in text and "chair, metal, blue" in text for text in compared)
    assert not any("steps" in text or "0." in text for text in compared)


def test_a_plan_with_embeddings_that_is_killed_pays_for_nothing_twice(tmp_path: Path) -> None:
    rows = [{"id": str(n), "name": f"thing {n}"} for n in range(240)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    plan = f"name: killed\ninput: {{jsonl: rows.jsonl}}\nsteps:\n{EMBED}"
    killed = carried_through(tmp_path, plan, lambda one: Says(), seed=3, roster=ROSTER)
    assert (killed.receipt.passed, killed.kills) == (240, 3)
    again = sum(killed.asked.values()) - len(killed.asked)
    assert again <= killed.receipt.maybe_paid_twice


def test_a_preview_counts_requests_and_no_output(tmp_path: Path) -> None:
    path = written(tmp_path, EMBED)
    plan = load_plan(path)
    assert plan.input is not None
    source = open_input(plan.input, plan.folder)
    found = estimate(plan, load_roster(tmp_path / "roster.yaml"), source, None, Premises())
    assert (found.total.calls, found.total.output) == (3, 0)


def test_vectors_that_lack_are_no_reply(tmp_path: Path) -> None:
    with threaded_server(tmp_path / "books", script=f"{__name__}:lacking") as server:
        written(tmp_path, EMBED.replace("items: 3}", "items: 8}, attempts: 1"), server.url)
        receipt = carry(tmp_path)
    assert (receipt.passed, receipt.failed) == (0, 8)


def lacking(one: Asked) -> Says:
    return Says(broken=True)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ("dimensions: 0", "`dimensions`"),
        ("engine: other", "unknown engine `other`: known: local, openai"),
        ("engine: local, base_url: http://x", "`base_url` has no use with `engine: local`"),
        (
            "batch_price: 0.5",
            "`batch_price` is a field of kind openai, anthropic, not of kind embedding",
        ),
        ("tools: [os:getcwd]", "`tools` is a field of kind"),
    ],
)
def test_bad_fields_are_refused(tmp_path: Path, fields: str, said: str) -> None:
    roster = tmp_path / "roster.yaml"
    roster.write_text(f"members:\n  - {{id: e, kind: embedding, model: x, {fields}}}\n")
    with pytest.raises(BadInput, match=said):
        load_roster(roster)


def test_there_are_no_batches_of_them_also_where_the_provider_has_a_batch_service() -> None:
    for name in ("text-embedding-3-small", "nomic"):
        for more in ({}, {"provider": "groq"}):
            assert embedding(name, **more).traits.batch is None


def test_in_python(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        url = f"{server.url}/v1"
        member = embedding("small", base_url=url, price={"input": 1, "output": 0})

        async def main() -> Any:
            async with ff.open_run("s", members=[member], store=str(tmp_path / "store")) as run:
                rows = [{"id": str(n), "name": name} for n, name in enumerate(NAMES)]
                prompt = "{{ item.name }}"
                return await ff.map_reduce(run, rows, prompt=prompt, shard=8, reduce=ff.collect())

        found = run_sync(main())
    assert (found.receipt.calls, len(asked)) == (1, 1)
    assert near(found.value[0]["value"], vector(NAMES[0]))
