"""group, resolve, join, rank and sample as steps of plans: what they write, show beforehand and draw,
what they are held to, and what is refused."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import fanfold as ff
from bench.operators import Matcher, Matching, across, fits, joined, knows, load, merged
from fanfold.errors import BadInput
from fanfold.testing.running import RunningServer, threaded_server
from fanfold.work.blocking import Block
from tests.faces.cli import Ended, fanfold
from tests.flow.operator_scenes import RECORDS

CODE = """
import json

def same(item):
    first, second = (item[side]["name"].split()[0] for side in item)
    return {"same": first == second}

def order(item):
    best = sorted(item["choices"], key=lambda one: -one["item"]["n"])
    return {"order": [one["label"] for one in best]}

def ids(given):
    return " ".join(part["id"] for part in given["parts"])

def name(item):
    return {"name": item["records"][0]["name"].upper()}

def first_word(item):
    return {"word": item["name"].split()[0]}

def nobody(item):
    raise ValueError("no")

def records(given):
    with open("items.jsonl") as file:
        return [json.loads(line) for line in file]
"""
MEMBERS = ("same", "order", "ids", "name", "first_word", "nobody", "records")


def project(folder: Path, steps: str, more: str = "", url: str = "") -> Path:
    (folder / "code.py").write_text(CODE)
    (folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in RECORDS))
    rows = [f"  - {{id: {id}, kind: function, target: 'code:{id}'}}\n" for id in MEMBERS]
    if url:
        rows.append(
            f"  - {{id: model, kind: openai, model: m, base_url: '{url}/v1', max_tokens: 20,\n"
            "     price: {input: 1000, output: 1000}}\n"
        )
    (folder / "roster.yaml").write_text("members:\n" + "".join(rows))
    plan = folder / "plan.yaml"
    plan.write_text(f"input: {{jsonl: items.jsonl}}\n{more}steps:\n{steps}")
    return plan


def ran(folder: Path, steps: str, *words: str, **how: Any) -> Ended:
    project(folder, steps, **how)
    return fanfold(folder, "run", "plan.yaml", *words)


def written(folder: Path, name: str = "out.json") -> Any:
    return json.loads((folder / name).read_text())


def test_resolve_gives_entities_and_every_item_its_own(tmp_path: Path) -> None:
    steps = """\
  - resolve: {member: same, block: {on: name}}
  - write: out.json
  - write: {name: table, path: out.csv, with: input}
"""
    done = ran(tmp_path, steps)
    assert done.code == 0, done.err
    found = written(tmp_path)
    assert [one["ids"] for one in found["entities"]] == [
        [f"r{n}", f"r{n + 6}", f"r{n + 12}"] for n in range(6)
    ]
    assert found["conflicts"] == found["unanswered"] == []
    rows = (tmp_path / "out.csv").read_text().splitlines()
    assert rows[0] == "id,name,kind,n,entity,result.name,size,state" and len(rows) == 19
    assert rows[14] == "r13,Beta works no2,k1,1,r1,Beta works no0,3,passed"


def test_a_member_may_be_asked_for_names_and_groups_follow_from_entities(tmp_path: Path) -> None:
    steps = """\
  - resolve: {member: same, block: {on: name}, canonical: {field: name, member: name}}
  - group: {by: steps.resolve.name, reduce: {kind: ask, member: ids}}
  - write: out.json
"""
    done = ran(tmp_path, steps)
    assert done.code == 0, done.err
    first = written(tmp_path)[0]
    assert first["key"] == "ACME WORKS NO0" and first["ids"] == ["r0", "r6", "r12"]
    assert first["value"] == "r0 r6 r12"


def test_asks_for_names_are_in_the_preview_as_a_bound(tmp_path: Path) -> None:
    step = "resolve: {member: same, block: {on: name}, canonical: {member: name}}"
    seen = ran(tmp_path, f"  - {step}\n", "--dry-run")
    (row,) = [line for line in seen.out.splitlines() if line.startswith("resolve.canonical")]
    assert row.split()[2:4] == ["≤", "9"]


async def resolved(folder: Path, **how: Any) -> tuple[Any, int]:
    """Functions that say that all but one pair with a `z` are the same, and that name an entity."""

    def alike(item: Any) -> bool:
        return not (item["a"]["name"].endswith("z") and item["b"]["name"].endswith("z"))

    def called(item: Any) -> str:
        return "/".join(one["name"] for one in item["records"])

    members = [ff.function(alike, id="alike"), ff.function(called, id="called")]
    rows = [{"id": str(n), "name": name} for n, name in enumerate(["lamp az", "lamp b", "lamp cz"])]
    async with ff.open_run("r", members=members, store=str(folder), progress=False) as run:
        made = await ff.resolve(run, rows, member="alike", block=ff.Block(on=["name"]), **how)
        return made.value, made.receipt.calls


def test_answers_that_contradict_one_another_are_told(tmp_path: Path) -> None:
    """0 and 2 are said to differ, both are said to be the same as 1."""
    strict, _ = asyncio.run(resolved(tmp_path / "strict"))
    assert sorted(map(len, (one["ids"] for one in strict["entities"]))) == [1, 2]
    (told,) = strict["conflicts"]
    assert told["answer"] == "same" and "1" in (told["a"], told["b"])
    loose, _ = asyncio.run(resolved(tmp_path / "loose", closure="transitive"))
    assert [one["ids"] for one in loose["entities"]] == [["0", "1", "2"]]
    assert loose["conflicts"] == [{"a": "0", "b": "2", "answer": "different"}]


def test_in_python_a_stage_is_asked_for_the_names(tmp_path: Path) -> None:
    naming = ff.stage(member="called")
    made, calls = asyncio.run(resolved(tmp_path, closure="transitive", canonical=naming))
    assert made["entities"] == [
        {"id": "0", "name": "lamp az/lamp b/lamp cz", "ids": ["0", "1", "2"]}
    ]
    assert calls == 3 + 1


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda run: ff.resolve(run, [], closure="loose"), "`closure` is strict or transitive"),
        (lambda run: ff.resolve(run, [], canonical=3), "canonical"),
        (lambda run: ff.rank(run, [], window=1), "window"),
        (lambda run: ff.rank(run, [], window=30), "at most 26"),
        (lambda run: ff.rank(run, [], rounds=0), "rounds"),
        (lambda run: ff.sample(run, [], 0), "`n`"),
        (lambda run: ff.group(run, [], by="", reduce=ff.collect()), "by"),
        (lambda run: ff.group(run, [], by="x", reduce=ff.collect), "call it"),
    ],
)
def test_python_refuses_the_same_mistakes(call: Any, says: str, tmp_path: Path) -> None:
    async def main() -> None:
        members = [ff.function(lambda item: True, id="f")]
        async with ff.open_run("r", members=members, store=str(tmp_path), progress=False) as run:
            await call(run)

    with pytest.raises(BadInput, match=says):
        asyncio.run(main())


def test_of_nothing_and_of_one_item(tmp_path: Path) -> None:
    async def main(rows: list[Any]) -> list[Any]:
        members = [ff.function(lambda item: True, id="f")]
        store = str(tmp_path / str(len(rows)))
        async with ff.open_run("r", members=members, store=store, progress=False) as run:
            return [
                (await ff.resolve(run, rows)).value["entities"], (await ff.join(run, rows, rows[:0])).value,
                (await ff.rank(run, rows)).value, (await ff.sample(run, rows, 5)).value,
                (await ff.group(run, rows, by="k", reduce=ff.collect())).value,
            ]  # fmt: skip

    assert asyncio.run(main([])) == [[], [], [], [], []]
    one = {"id": "x", "k": 1}
    entity, none, ranked, sampled, groups = asyncio.run(main([one]))
    assert (entity, none) == ([{"id": "x", "ids": ["x"]}], [])
    assert [row["rank"] for row in ranked] == [1] and sampled == [one]
    assert [(row["key"], row["ids"]) for row in groups] == [(1, ["x"])]


def test_group_makes_one_of_each_by_any_reduce_and_feeds_a_map(tmp_path: Path) -> None:
    steps = """\
  - map: {member: first_word}
  - group: {by: item.kind, reduce: {kind: union, field: word}}
  - write: out.json
  - sample: {over: steps.group, items: 2}
"""
    done = ran(tmp_path, steps)
    assert done.code == 0, done.err
    assert [(one["key"], one["value"]) for one in written(tmp_path)] == [
        ("k0", ["Acme", "Delta"]), ("k1", ["Beta", "Omega"]), ("k2", ["Gamma", "Sigma"]),
    ]  # fmt: skip
    assert "24 of 24 done: 23 passed, 1 skipped" in done.out, "items, groups, and those chosen from"


def test_an_item_without_the_field_fails_and_the_others_are_grouped(tmp_path: Path) -> None:
    steps = "  - group: {by: item.city, reduce: collect}\n  - write: out.json\n"
    project(tmp_path, steps)
    (tmp_path / "items.jsonl").write_text('{"id": "a", "city": "Rome"}\n{"id": "b"}\n')
    done = fanfold(tmp_path, "run", "plan.yaml")
    assert "1 failed" in done.out and "it has no field `item.city` to group by" in done.out
    assert [one["ids"] for one in written(tmp_path)] == [["a"]]


def test_join_gives_the_matches_of_each_item(tmp_path: Path) -> None:
    steps = """\
  - join:
      member: same
      right: {list: [{id: x, name: Acme ltd}, {id: y, name: Sigma ltd}, {id: z, name: Kappa ltd}]}
      block: {on: name}
  - write: out.jsonl
"""
    done = ran(tmp_path, steps)
    assert done.code == 0, done.err
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == ["r0|x", "r5|y", "r6|x", "r11|y", "r12|x", "r17|y"]
    assert rows[0]["left"] == RECORDS[0] and rows[0]["right"] == {"id": "x", "name": "Acme ltd"}


@pytest.mark.parametrize("window", [2, 6])
def test_rank_puts_the_items_in_order(tmp_path: Path, window: int) -> None:
    steps = f"  - rank: {{member: order, window: {window}, rounds: 17}}\n  - write: out.json\n"
    done = ran(tmp_path, steps)
    assert done.code == 0, done.err
    best = sorted(RECORDS, key=lambda row: -row["n"])  # type: ignore[operator]
    assert [one["id"] for one in written(tmp_path)] == [row["id"] for row in best]


def test_sample_is_in_proportion_and_the_same_for_a_seed(tmp_path: Path) -> None:
    steps = "  - sample: {items: 6, by: item.kind, seed: 4}\n  - write: out.jsonl\n"
    found = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        done = ran(tmp_path / name, steps)
        assert "18 of 18 done: 6 passed, 12 skipped" in done.out
        rows = (tmp_path / name / "out.jsonl").read_text().splitlines()
        found.append([json.loads(line)["value"]["kind"] for line in rows])
        assert sorted(found[-1]) == ["k0", "k0", "k1", "k1", "k2", "k2"]
    assert found[0] == found[1]


def test_an_item_of_which_no_comparison_was_answered_fails(tmp_path: Path) -> None:
    done = ran(tmp_path, "  - rank: {member: nobody, rounds: 1, attempts: 1}\n")
    assert done.code == 1 and "no comparison of it was answered" in done.out


# ── before anything is paid ──────────────────────────────────────────────────────────────────────


ASKS = {
    "resolve: {member: same, block: {on: name, neighbours: 2}}": ("resolve.pairs", 18),
    "join: {member: same, right: {jsonl: items.jsonl}, block: {at_most: 7}}": ("join.pairs", 7),
    "rank: {member: order, rounds: 3}": ("rank.compare", 27),
    "rank: {member: order, window: 6, rounds: 2}": ("rank.compare", 7),
    "group: {by: kind, reduce: {kind: ask, member: ids, fan_in: 3}}": ("group.reduce", 9),
}


@pytest.mark.parametrize("step", ASKS)
def test_the_preview_says_how_many_asks_there_will_be(tmp_path: Path, step: str) -> None:
    name, asks = ASKS[step]
    seen = ran(tmp_path, f"  - {step}\n", "--dry-run")
    (row,) = [line.split() for line in seen.out.splitlines() if line.startswith(name)]
    assert row[2] == str(asks), seen.out
    done = fanfold(tmp_path, "run", "plan.yaml")
    assert f"\n{asks} calls" in done.out, "and so many there are"


@pytest.mark.parametrize("on", ["on: steps.map.word, ", "on: item.kind, ", ""])
def test_a_bound_is_stated_where_pairs_follow_from_replies(tmp_path: Path, on: str) -> None:
    """Whatever it goes by: records that are equal in all fields are not asked about."""
    steps = f"""\
  - map: {{member: first_word}}
  - resolve: {{member: same, block: {{{on}neighbours: 2, at_most: 30}}}}
"""
    seen = ran(tmp_path, steps, "--dry-run")
    (row,) = [line for line in seen.out.splitlines() if line.startswith("resolve.pairs")]
    assert "30" in row and "at most 30 pairs of 18 records" in seen.out


@pytest.mark.parametrize("step", [*ASKS, "sample: {items: 3, by: kind}"])
def test_each_is_drawn(tmp_path: Path, step: str) -> None:
    project(tmp_path, f"  - {step}\n")
    drawn = fanfold(tmp_path, "graph", "plan.yaml")
    assert drawn.code == 0 and step.split(":")[0] in drawn.out


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    books = tmp_path_factory.mktemp("server") / "books.jsonl"
    with threaded_server(books, script="tests.flow.operator_scenes:answered") as running:
        yield running


def test_a_budget_holds_and_the_rest_is_asked_on_resume(
    server: RunningServer, tmp_path: Path
) -> None:
    """Nothing is made of a part of the answers."""
    steps = """\
  - resolve:
      prompt: "SAME <{{ item.a.name }}> <{{ item.b.name }}>"
      member: model
      block: {on: name, neighbours: 2}
      concurrency: 2
  - write: out.json
"""
    done = ran(tmp_path, steps, "--budget", "calls=5", url=server.url)
    server.wait_idle()
    assert "paused" in done.out and not (tmp_path / "out.json").exists()
    assert len(server.books().asked) == 5
    more = fanfold(tmp_path, "resume", "plan", "--budget", "calls=100")
    assert more.code == 0, more.err + more.out
    server.wait_idle()
    asked = [entry.prompt for entry in server.books().asked]
    assert len(asked) == len(set(asked)) == 18
    assert len(written(tmp_path)["entities"]) == 6


def test_what_nobody_could_foresee_is_governed(server: RunningServer, tmp_path: Path) -> None:
    steps = """\
  - group: {by: item.name, reduce: collect}
  - rank:
      over: steps.group
      prompt: "ORDER {% for one in item.choices %}{{ one.label }}=1 {% endfor %}"
      member: model
"""
    govern = "govern: {max_tasks: 3}\n"
    done = ran(tmp_path, steps, url=server.url, more=govern)
    assert "rank.compare would ask" in done.out + done.err and "--yes" in done.out + done.err
    server.wait_idle()
    assert server.books().asked == []


# ── bad input ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("step", "says"),
    [
        ("resolve: {member: same, closure: loose}", "closure"),
        ("resolve: {member: same, block: {neighbours: 0}}", "neighbours"),
        ("resolve: {member: same, block: {on: steps.map.x}}", "no earlier step of that name"),
        ("resolve: {member: same, block: {neighbour: 2}}", "did you mean `neighbours`?"),
        ("join: {member: same}", "right"),
        ("join: {member: same, right: {command: [ls]}}", "can be read again"),
        ("rank: {member: order, window: 1}", "window"),
        ("rank: {member: order, window: 27}", "at most 26"),
        ("rank: {member: ordr}", "did you mean `order`"),
        ("group: {by: kind}", "reduce"),
        ("group: {by: steps.nope.kind, reduce: collect}", "no earlier step of that name"),
        ("sample: {items: 0}", "items"),
        ("sample: {items: 3, seed: x}", "seed"),
    ],
)
def test_a_mistake_is_named_with_its_line_and_nothing_starts(
    tmp_path: Path, step: str, says: str
) -> None:
    done = ran(tmp_path, f"  - {step}\n")
    assert done.code == 2 and done.err.startswith("fanfold: plan.yaml:3: "), done.err
    assert says in done.err and len(done.err.splitlines()) <= 2
    assert not (tmp_path / ".fanfold").exists()


# ── against the truth ────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def beer() -> tuple[Matching, Matcher]:
    """Records of two lists, and who was fitted on one half of them."""
    data = load("beer")
    return data, Matcher(data)


def test_joined_records_against_the_truth_of_others(beer: tuple[Matching, Matcher]) -> None:
    """Fitted on one half, scored on the other; who knows the truth misses only what was not asked."""
    data, matcher = beer
    asks, made = asyncio.run(joined(data, matcher, Block()))
    _, best = asyncio.run(joined(data, knows(data), Block()))
    left = sum(not fits(row["id"]) for row in data.left)
    assert asks <= Block().bound(left + len(data.right))
    assert best.precision == 1.0 and best.f1 >= 0.98
    assert 0.85 <= made.f1 <= best.f1


def test_resolved_records_against_the_truth_of_others(beer: tuple[Matching, Matcher]) -> None:
    """At most 2 % of all pairs of the list are asked about, and at least 98 % of the matches found."""
    data, matcher = beer
    asks, made = asyncio.run(merged(data, across(data, matcher), Block()))
    _, best = asyncio.run(merged(data, knows(data), Block()))
    many = sum(not fits(row["id"]) for row in data.left) + len(data.right)
    assert asks <= 0.02 * many * (many - 1) / 2
    assert best.precision == 1.0 and best.recall >= 0.98
    assert 0.85 <= made.f1 <= best.f1


GOES_BY = [
    ("resolve: {member: same, block: {on: nam}}", "`block` reads item.nam"),
    ("resolve: {member: same, block: {on: [nam, titel]}}", "`block` reads item.nam or item.titel"),
    (
        "join: {member: same, right: {jsonl: items.jsonl}, block: {key: kidn}}",
        "`block` reads item.kidn",
    ),
    ("group: {by: item.kidn, reduce: count}", "`by` reads item.kidn"),
    ("resolve: {member: same, canonical: {field: kidn}}", "`canonical` reads item.kidn"),
    ("sample: {items: 3, by: kidn}", "`by` reads item.kidn"),
    ("map: {member: first_word, shard: {hash: kidn, count: 2}}", "`shard` reads item.kidn"),
    ("map: {route: {by: kidn, to: {a: same}, else: first_word}}", "`route` reads item.kidn"),
]


@pytest.mark.parametrize(("step", "says"), GOES_BY)
def test_a_field_that_items_do_not_have_is_refused_before_anything_starts(
    tmp_path: Path, step: str, says: str
) -> None:
    done = ran(tmp_path, f"  - {step}\n")
    assert (done.code, done.out) == (2, "")
    assert done.err == f"fanfold: plan.yaml:3: {says}, but items have: id, name, kind, n\n"
    previewed = fanfold(tmp_path, "run", "plan.yaml", "--dry-run")
    assert (previewed.code, previewed.out, previewed.err) == (2, "", done.err)


HAVE = "but items have: id, name, kind, n"
IN_PYTHON: list[tuple[str, Any, str]] = [
    ("resolve", {"block": ff.Block(on=["nam"])}, f"`block` reads item.nam, {HAVE}"),
    ("resolve", {"block": {"on": "name"}}, "`block` must be a Block(…), not a mapping"),
    ("resolve", {"canonical": "nam"}, f"`canonical` reads item.nam, {HAVE}"),
    ("join", {"right": RECORDS, "block": ff.Block(key="nam")}, f"`block` reads item.nam, {HAVE}"),
    ("join", {"right": [{"id": "x"}, {"id": "x"}]},
     "duplicate id 'x' in `right`: item 0 and item 1; make ids unique"),
    ("group", {"by": "kidn", "reduce": len}, f"`by` reads item.kidn, {HAVE}"),
    ("sample", {"n": 3, "by": "kidn"}, f"`by` reads item.kidn, {HAVE}"),
]  # fmt: skip


@pytest.mark.parametrize(("operator", "given", "says"), IN_PYTHON)
def test_in_python_the_same_is_refused_in_the_same_words(
    tmp_path: Path, operator: str, given: dict[str, Any], says: str
) -> None:
    async def main() -> None:
        members = [ff.function(lambda pair: True, id="same")]
        async with ff.open_run("r", members=members, store=str(tmp_path), progress=False) as run:
            await getattr(ff, operator)(run, RECORDS, **given)

    with pytest.raises(BadInput) as refused:
        asyncio.run(main())
    assert str(refused.value) == says


def test_a_right_side_with_one_id_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "right.jsonl").write_text('{"id": "x", "name": "a"}\n{"id": "x", "name": "b"}\n')
    done = ran(
        tmp_path, "  - join: {member: same, right: {jsonl: right.jsonl}, block: {on: name}}\n"
    )
    file = tmp_path / "right.jsonl"
    says = f"fanfold: duplicate id 'x' in `right`: {file}:1 and :2; make ids unique\n"
    assert (done.code, done.err) == (2, says)


WITHIN = {
    "resolve": "resolve: {member: same, block: {on: name}}",
    "join": "join: {member: same, right: {jsonl: items.jsonl}, block: {on: name}}",
    "rank": "rank: {member: order, rounds: 2}",
    "sample": "sample: {items: 5}",
    "group": "group: {over: steps.all, by: kind, reduce: {kind: ask, member: ids}}",
}


@pytest.mark.parametrize("kind", WITHIN)
def test_within_a_repeat_each_round_asks_anew_and_items_end_once(tmp_path: Path, kind: str) -> None:
    listed = "{}- ask: {{name: all, prompt: x, member: records}}\n" if kind == "group" else ""
    once = f"{listed.format('  ')}  - {WITHIN[kind]}\n"
    inside = f"{listed.format(' ' * 8)}        - {WITHIN[kind]}\n"
    again = f"  - repeat:\n      steps:\n{inside}      until: round == 3\n      at_most: 9\n"
    receipts = []
    for steps in (once, again):
        plan = project(tmp_path, steps)
        if listed:
            plan.write_text(f"steps:\n{steps}")
        done = fanfold(tmp_path, "run", "plan.yaml", "--json", "--fresh")
        assert done.code == 0, done.err
        receipts.append(json.loads(done.out))
    alone, repeated = receipts
    assert repeated["calls"] == 3 * alone["calls"]
    assert repeated["planned"] == repeated["passed"] + repeated["skipped"]
    names = {one["name"] for one in repeated["steps"]}
    assert {f"{kind}#2", f"{kind}#3"} <= {name.removesuffix(".key") for name in names}
