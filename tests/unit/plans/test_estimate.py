"""A preview of a plan: sizes of all steps, what is on record, what it will take; nobody is asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fanfold.errors import BadInput
from fanfold.journal import opening
from fanfold.members.roster import load_roster
from fanfold.plans.execute import Audience, execute
from fanfold.plans.load import check_plan, load_plan, with_commands
from fanfold.plans.prepare import Options, prepare
from fanfold.plans.preview.asks import Premises
from fanfold.plans.preview.estimate import estimate, readable_input
from fanfold.price import Price, nanos
from fanfold.run.forecast import Preview, StepPreview, in_words
from fanfold.run.run import Run
from fanfold.testing.running import threaded_server
from fanfold.work.outcome import Receipt
from fanfold.work.tree import widths

PRICE = Price(input=1.0, output=5.0)
MEMBER = "limits: {concurrency: 8}, price: {input: 1, output: 5}, max_tokens: 100"
ROSTER = f"""
members:
  - {{id: a, kind: openai, model: m-a, base_url: "URL", {MEMBER}}}
  - {{id: b, kind: openai, model: m-b, base_url: "URL", {MEMBER}}}
  - {{id: j, kind: openai, model: m-j, base_url: "URL", {MEMBER}}}
  - {{id: keyed, kind: openai, model: m-k, base_url: "URL", key: env:NO_SUCH_KEY, {MEMBER}}}
  - {{id: odd, kind: openai, model: m-o, base_url: "URL"}}
  - {{id: code, kind: function, target: "no_such_module:nothing"}}
"""
NOWHERE = "http://127.0.0.1:9"
ANSWER = r"""
{
    while (match($0, /i[0-9][0-9][0-9]/)) {
        said[substr($0, RSTART, 4)]
        $0 = substr($0, RSTART + 4)
    }
}
END {
    for (id in said) printf "%s\"%s\": \"said\"", (n++ ? ", " : "{"), id
    print "}"
}
"""
"""A program that answers each item of a shard."""


def write(folder: Path, steps: str, *, items: int = 12, url: str = NOWHERE, more: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "roster.yaml").write_text(ROSTER.replace("URL", url))
    rows = [{"id": f"i{n:03}", "text": f"word {n}", "files": [f"f{n}", "g"]}
            for n in range(items)]  # fmt: skip
    (folder / "items.jsonl").write_bytes(b"".join(msgspec.json.encode(r) + b"\n" for r in rows))
    plan = folder / "plan.yaml"
    given = "" if "input:" in more else "input: {jsonl: items.jsonl, id: id}\n"
    plan.write_text(f"name: test\n{given}{more}\nsteps:\n{steps}")
    return plan


def previewed(plan: Path, store: Path | None = None, **premises: Any) -> Preview:
    """As the command line would: plan, roster, input, store; only to look."""
    loaded = load_plan(plan)
    roster = with_commands(loaded, load_roster(plan.parent / "roster.yaml"))
    check_plan(loaded, roster)
    archive = None if store is None else opening.look(store)
    try:
        source = readable_input(loaded)
        return estimate(loaded, roster, source, archive, Premises(**premises))
    finally:
        if archive is not None:
            archive.close()


def sizes(preview: Preview) -> dict[str, tuple[int | None, int, int]]:
    """Tasks, expected calls and calls at most of each step."""
    return {
        step.name: (step.tasks, step.forecast.calls, step.forecast.most_calls)
        for step in preview.steps
    }


def step(preview: Preview, name: str) -> StepPreview:
    return next(one for one in preview.steps if one.name == name)


def carried_out(plan: Path, store: Path) -> Receipt:
    @asynccontextmanager
    async def watch(run: Run) -> AsyncIterator[None]:
        yield

    job = prepare(str(plan), Options(store=str(store)))
    return asyncio.run(execute(job, Audience(watch, lambda line: None)))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    with threaded_server(tmp_path / "books.jsonl", price=PRICE) as server:
        yield server.url


# ── sizes ────────────────────────────────────────────────────────────────────────────────────

SIZES: list[tuple[str, dict[str, tuple[int | None, int, int]]]] = [
    ("- map: {prompt: 'Say {{ item.text }}', member: a}", {"map": (12, 12, 24)}),
    ("- map: {prompt: 'Say {{ item.text }}', member: a, revise: 0}", {"map": (12, 12, 12)}),
    (
        "- map: {prompt: 'Say {{ item.text }}', member: a, revise: 2, escalate: [b]}",
        {"map": (12, 12, 48)},
    ),
    (
        "- map: {prompt: 'Say {{ item.text }}', member: a, revise: 0, shard: {bytes: 35}}",
        {"map": (12, 4, 16)},
    ),
    (
        "- map: {prompt: 'Say {{ item.text }}', member: a, revise: 0, shard: {items: 5}}",
        {"map": (12, 3, 3 + 12)},
    ),
    (
        "- map: {prompt: 'Say {{ item.text }}', member: a, revise: 0, shard: {count: 5}}",
        {"map": (12, 5, 5 + 12)},
    ),
    (
        "- map: {prompt: 'Say {{ item.text }}', member: a, revise: 0,"
        " gate: [{judge: {prompt: 'Good?', member: j, revise: 0}}]}",
        {"map": (12, 12, 12), "map.judge": (12, 12, 12)},
    ),
    (
        "- map: {prompt: 'Say {{ item.text }}', member: a, revise: 1,"
        " gate: [{any_of: [{judge: {prompt: 'Good?', member: j, revise: 0}}, {require: [x]}]}]}",
        {"map": (12, 12, 24), "map.judge": (12, 12, 24)},
    ),
    (
        "- map: {prompt: 'Say {{ item.text }}', member: a, revise: 0}\n"
        "  - reduce: {kind: ask, prompt: 'All', member: b, fan_in: 5, revise: 0}",
        {"map": (12, 12, 12), "reduce": (4, 4, 4)},
    ),
    (
        "- map: {prompt: 'Say {{ item.text }}', member: a, revise: 0}\n"
        "  - reduce: {kind: ensemble, prompt: 'All', members: [a, b, j], fan_in: 4, revise: 0}",
        {"map": (12, 12, 12), "reduce": (4, 12, 12)},
    ),
    (
        "- map: {prompt: 'Say {{ item.text }}', member: a, revise: 0}\n"
        "  - reduce: {kind: concat}\n  - ask: {prompt: 'So {{ steps.reduce }}', member: b}",
        {"map": (12, 12, 12), "ask": (1, 1, 2)},
    ),
    (
        "- ensemble: {prompt: 'Say {{ item.text }}', members: [a, b, j], revise: 0}",
        {"ensemble": (12, 36, 36)},
    ),
    (
        "- ensemble: {prompt: 'Say {{ item.text }}', member: a, samples: 3, revise: 0,"
        " escalate: [b, j]}",
        {"ensemble": (12, 36, 36 + 2 * 12)},
    ),
    (
        "- map: {prompt: 'Say {{ item.text }}', member: a, fallback: [b, j], revise: 0}",
        {"map": (12, 12, 12)},
    ),
    (
        "- ensemble: {prompt: 'Say {{ item.text }}', members: [a, b, j], revise: 0,"
        " stop_early: true}",
        {"ensemble": (12, 30, 36)},
    ),
    (
        "- ensemble: {prompt: 'Say {{ item.text }}', member: a, samples: 3, revise: 0,"
        " judge: {member: j, prompt: 'Which?', revise: 0}}",
        {"ensemble": (12, 36, 36), "ensemble.judge": (12, 12, 12)},
    ),
    (
        "- ensemble: {prompt: 'Say {{ item.text }}', members: [a, b], revise: 0, decide: majority,"
        " judge: {member: j, prompt: 'Which?', revise: 0}}",
        {"ensemble": (12, 24, 24), "ensemble.judge": (12, 0, 12)},
    ),
    (
        "- pipeline: {stages: [{map: {prompt: 'Say {{ item.text }}', member: a, revise: 0}},"
        " {map: {prompt: 'On {{ steps.stage1 }}', member: b, revise: 0}}]}",
        {"stage1": (12, 12, 12), "stage2": (12, 12, 12)},
    ),
    (
        "- map_reduce: {over: item.files, map: {prompt: 'In {{ item.text }}', member: a, revise: 0},"
        " reduce: {kind: ask, prompt: 'One', member: b, revise: 0}}",
        {"map_reduce.map": (24, 13, 13), "map_reduce.reduce": (12, 12, 12)},
    ),
    (
        "- scatter: {prompt: 'Q {{ item.text }}', member: a, revise: 0,"
        " synthesise: {prompt: 'All', member: b, revise: 0}}",
        {"scatter": (12, 12, 12), "scatter.synthesise": (3, 3, 3)},
    ),
    (
        "- conduct: {prompt: 'Q {{ item.text }}', member: a, synthesise: {kind: concat}}",
        {"conduct": (12, 12, 24)},
    ),
]


@pytest.mark.parametrize(("steps", "expected"), SIZES)
def test_each_kind_of_step_has_its_size(
    tmp_path: Path, steps: str, expected: dict[str, tuple[int | None, int, int]]
) -> None:
    made = previewed(write(tmp_path / "p", f"  {steps}"))
    assert sizes(made) == expected
    assert made.sized
    assert made.total.calls == sum(calls for _, calls, _ in expected.values())
    assert made.total.worst == sum(one.forecast.worst or 0 for one in made.steps)


def test_the_cost_of_members_that_overflow_is_counted_by_their_slots(tmp_path: Path) -> None:
    """Of eight at once the cheap one takes two; with `spread: best` it takes all of them."""
    text = (
        "{{id: {id}, kind: openai, model: {id}, base_url: 'http://127.0.0.1:9',"
        " price: {{call: {usd}}}, {more}}}"
    )
    rows = [
        text.format(id="cheap", usd=1, more="concurrency: 2"),
        text.format(id="dear", usd=5, more="concurrency: 6"),
    ]
    expected = {}
    for spread in ("overflow", "best"):
        steps = f"  - map: {{prompt: 'Say {{{{ item.text }}}}', spread: {spread}, revise: 0}}"
        plan = write(tmp_path / spread, steps)
        roster = "members:\n" + "".join(f"  - {row}\n" for row in rows)
        (plan.parent / "roster.yaml").write_text(roster)
        made = previewed(plan)
        expected[spread] = (made.total.p50, made.total.worst)
    assert expected == {
        "overflow": (nanos(12 * (1 * 2 + 5 * 6) / 8), nanos(12 * 5)),
        "best": (nanos(12.0), nanos(12 * 5)),
    }


def test_a_tree_has_the_nodes_that_the_run_will_ask(tmp_path: Path) -> None:
    """Counted by the tree itself; a single part is passed on without an ask."""
    steps = (
        "  - map: {prompt: 'Say {{ item.text }}', member: a}\n"
        "  - reduce: {kind: ask, prompt: 'All', member: b, fan_in: 10}"
    )
    made = previewed(write(tmp_path / "p", steps, items=101))
    assert widths(101, 10) == (101, 11, 2, 1)
    assert step(made, "reduce").tasks == 11 + 1 + 1  # the eleventh goes up alone


def test_graph_and_scatter_need_no_input(tmp_path: Path) -> None:
    steps = (
        "  - graph: {tasks: [{id: x, prompt: 'X', member: a, revise: 0},"
        " {id: y, prompt: 'Y {{ parents.x }}', member: b, depends_on: [x], revise: 0}]}\n"
        "  - scatter: {prompt: 'Q {{ item.t }} {{ steps.graph.x }}', revise: 0,"
        " over: [{id: p, t: u, member: a}, {id: q, t: v, member: b}],"
        " synthesise: {prompt: 'All', member: j, revise: 0}}\n"
    )
    plan = write(tmp_path / "p", steps)
    plan.write_text(plan.read_text().replace("input: {jsonl: items.jsonl, id: id}\n", ""))
    made = previewed(plan)
    assert sizes(made) == {
        "graph": (2, 2, 2),
        "scatter": (2, 2, 2),
        "scatter.synthesise": (1, 1, 1),
    }
    assert step(made, "graph").who == ("a", "b")
    assert made.notes


def test_an_ensemble_without_items_is_one_question(tmp_path: Path) -> None:
    plan = write(tmp_path / "p", "  - ensemble: {prompt: 'Is it?', members: [a, b], revise: 0}")
    plan.write_text(plan.read_text().replace("input: {jsonl: items.jsonl, id: id}\n", ""))
    assert sizes(previewed(plan)) == {"ensemble": (1, 2, 2)}


# ── sizes that nobody knows ──────────────────────────────────────────────────────────────────


def test_a_map_over_what_a_step_produces_is_unknown_and_watched(tmp_path: Path) -> None:
    steps = (
        "  - ask: {name: plan, prompt: 'Which?', member: a}\n"
        "  - map: {over: steps.plan, prompt: 'Say {{ item.text }}', member: b}\n"
        "  - reduce: {kind: ask, prompt: 'All', member: a}\n"
    )
    plan = write(tmp_path / "p", steps)
    plan.write_text(plan.read_text().replace("input: {jsonl: items.jsonl, id: id}\n", ""))
    made = previewed(plan)
    known, over, reduce = made.steps
    assert (known.tasks, known.watched) == (1, False)
    assert (over.tasks, over.most, over.watched) == (None, None, True)
    assert (reduce.tasks, reduce.who) == (None, ("a",))
    assert not made.sized
    assert (made.total.p50, made.total.worst) == (known.forecast.p50, None)


DIVIDES = [
    "prompt: 'Sum {{ items }}', fits: {items: 3}",
    "prompt: 'Sum {{ items }}', fits: {tokens: 900}",
    "prompt: 'Sum {{ item.text }}', fits: {tokens: 40}, split: paragraphs",
    "prompt: 'Sum', fits: {tokens: 100}, split: paragraphs",
]


@pytest.mark.parametrize("combine", ["{prompt: Join, member: b, fan_in: 3}", "concat"])
@pytest.mark.parametrize("stated", DIVIDES)
def test_a_divide_is_cut_as_the_run_cuts_it(
    tmp_path: Path, served: str, stated: str, combine: str
) -> None:
    """Calls and tokens of the pieces are known beforehand; those of a combine by their number."""
    step = f"  - divide: {{{stated}, member: a, combine: {combine}}}"
    plan = write(tmp_path / "p", step, items=0, url=served)
    texts = ["\n\n".join(f"Paragraph {n} of {m} in a few words." for n in range(3 * m + 1))
             for m in range(10)]  # fmt: skip
    rows = [{"id": f"i{n}", "text": text} for n, text in enumerate(texts)]
    (tmp_path / "p" / "items.jsonl").write_bytes(
        b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
    )
    made = previewed(plan)
    done = carried_out(plan, tmp_path / "store")
    assert done.status in ("complete", "flagged")
    assert made.total.calls == done.calls > 1
    assert all(line.tasks == line.forecast.calls and line.watched for line in made.steps)
    again = previewed(plan, tmp_path / "store")
    assert (again.total.calls, again.total.reused) == (0, done.calls)


SHARDS = [
    "{items: 5}", "{tokens: 40}", "{items: 3, tokens: 40}", "{count: 7}", "{count: 2, items: 4}",
    "{hash: item.text, count: 4}", "{range: item.text, bounds: [word 15, word 3]}",
]  # fmt: skip


@pytest.mark.parametrize("shard", SHARDS)
def test_shards_are_filled_as_the_run_fills_them(tmp_path: Path, served: str, shard: str) -> None:
    step = f"  - map: {{prompt: 'Say {{{{ items }}}}', member: shards, shard: {shard}, revise: 0}}"
    plan = write(tmp_path / "p", step, items=23, url=served)
    roster = tmp_path / "p" / "roster.yaml"
    answers = "  - {id: shards, kind: command, cmd: [awk, -f, answer.awk], price: {call: 1.0}}\n"
    roster.write_text(roster.read_text() + answers)
    made = previewed(plan)
    (tmp_path / "p" / "answer.awk").write_text(ANSWER)
    done = carried_out(plan, tmp_path / "store")
    assert (done.status, done.calls) == ("complete", made.total.calls)
    assert 1 < made.total.calls < 23


def test_a_divide_of_items_with_replies_is_cut_by_their_number_only(tmp_path: Path) -> None:
    """How long the replies of an earlier step will be decides how much fits by tokens."""
    before = "  - map: {prompt: 'Say {{ item.text }}', member: a}\n"
    step = "  - divide: {prompt: 'Sum {{ items }}', member: a, fits: FITS, combine: concat}"
    by_number = previewed(write(tmp_path / "p", before + step.replace("FITS", "{items: 5}")))
    assert sizes(by_number)["divide"] == (3, 3, 6)
    by_length = previewed(write(tmp_path / "q", before + step.replace("FITS", "{tokens: 90}")))
    assert sizes(by_length)["divide"] == (None, 0, 2000)


def test_a_divide_that_will_be_refused_says_so(tmp_path: Path) -> None:
    step = (
        "  - divide: {prompt: 'Sum {{ items }}', member: a, fits: {items: 1}, max_pieces: 5,"
        " combine: concat}"
    )
    made = previewed(write(tmp_path / "p", step))
    (note,) = [note for note in in_words(made.notes) if note.startswith("divide")]
    assert note.startswith("divide: it will be refused: more than 5 pieces")


def test_a_divide_by_a_function_is_bounded_by_its_pieces(tmp_path: Path) -> None:
    """Looking runs no code. Pieces share the input, so doubling their number adds only what stands
    around them."""
    steps = (
        "  - divide: {prompt: 'Sum {{ items }}', member: a, fits: {tokens: 30}, max_pieces: MOST,"
        " split: 'cuts:halves', combine: {prompt: 'Join', member: b}}"
    )
    for name in ("p", "q"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cuts.py").write_text("def halves(data): raise SystemExit\n")
    made = previewed(write(tmp_path / "p", steps.replace("MOST", "50")))
    divide, combine = made.steps
    assert (divide.tasks, divide.most, divide.watched) == (None, 50, True)
    assert (combine.name, combine.tasks, combine.most) == ("divide.combine", None, 49)
    assert (divide.forecast.most_calls, combine.forecast.most_calls) == (100, 98)
    assert divide.forecast.p50 == 0 and divide.forecast.worst is not None
    larger = previewed(write(tmp_path / "q", steps.replace("MOST", "100"))).steps[0].forecast.worst
    assert larger is not None
    assert divide.forecast.worst < larger < 2 * divide.forecast.worst


def test_lists_inside_replies_are_unknown(tmp_path: Path) -> None:
    steps = (
        "  - pipeline: {stages: [{map: {name: parts, prompt: 'Split {{ item.text }}', member: a}},"
        " {map_reduce: {name: inner, over: steps.parts, map: {prompt: '{{ item.text }}', member: b},"
        " reduce: {kind: concat}}}]}"
    )
    made = previewed(write(tmp_path / "p", steps))
    assert sizes(made) == {"parts": (12, 12, 24), "inner.map": (None, 0, 0)}
    assert step(made, "inner.map").watched


@pytest.mark.parametrize("given", ["command: [touch, touched]", "http: http://127.0.0.1:9/items"])
def test_programs_and_addresses_are_not_asked_for_their_items(tmp_path: Path, given: str) -> None:
    steps = "  - map: {prompt: 'Say {{ item.text }}', member: a}"
    made = previewed(write(tmp_path / "p", steps, more=f"input: {{{given}}}"))
    (only,) = made.steps
    assert (only.tasks, only.forecast.worst, only.watched) == (None, None, False)
    kind = given.partition(":")[0]
    does = {"command": "runs the program", "http": "fetches it"}[kind]
    assert in_words(made.notes) == [
        f"the input of kind {kind} is not read for a preview: its size is unknown;"
        f" --read-input {does} once to count it"
    ]
    assert not (tmp_path / "p" / "touched").exists()


def test_a_conduct_above_its_cap_is_said_to_be_refused(tmp_path: Path) -> None:
    steps = "  - conduct: {prompt: 'Q {{ item.text }}', member: a}"
    made = previewed(write(tmp_path / "p", steps, items=41))
    assert "conduct: 41 items are more than `most` (40): it will be refused" in in_words(made.notes)


# ── who ──────────────────────────────────────────────────────────────────────────────────────


def test_no_key_is_needed_and_no_function_imported(tmp_path: Path) -> None:
    steps = (
        "  - map: {name: paid, prompt: 'Say {{ item.text }}', member: keyed}\n"
        "  - map: {name: free, member: code}\n"
        "  - command: {name: wc, cmd: [no-such-program], price: {call: 0.5}, revise: 0}\n"
    )
    made = previewed(write(tmp_path / "p", steps))
    assert sizes(made) == {"paid": (12, 12, 24), "free": (12, 12, 24), "wc": (12, 12, 12)}
    free, wc = step(made, "free").forecast, step(made, "wc").forecast
    assert (free.p50, free.worst) == (0, 0)
    assert (wc.p50, wc.worst) == (nanos(6), nanos(6))


def test_a_price_that_nobody_knows_leaves_the_cost_open(tmp_path: Path) -> None:
    made = previewed(write(tmp_path / "p", "  - map: {prompt: 'Say {{ item.text }}', member: odd}"))
    assert (made.total.p50, made.total.p90, made.total.worst) == (None, None, None)
    assert "odd has no known price: its cost cannot be told" in in_words(made.notes)


def test_a_paid_member_is_refused_as_the_run_would_refuse_it(tmp_path: Path) -> None:
    plan = write(tmp_path / "p", "  - map: {prompt: 'Say {{ item.text }}', member: dear}")
    roster = plan.parent / "roster.yaml"
    roster.write_text("members:\n  - {id: dear, kind: openai, model: gpt-4o-mini}\n")
    with pytest.raises(BadInput, match="--allow-paid"):
        previewed(plan)
    assert previewed(plan, allow_paid=True).total.worst


# ── prompts that hold replies ────────────────────────────────────────────────────────────────


def grown(tmp_path: Path, second: str) -> tuple[int, int]:
    """Expected input tokens and worst cost of one item's second step."""
    steps = (
        "  - map: {name: first, prompt: 'Say {{ item.text }}', member: a}\n"
        f'  - map: {{name: second, prompt: "{second}", member: b, revise: 0}}\n'
    )
    made = step(previewed(write(tmp_path / "p", steps, items=1)), "second").forecast
    assert made.worst is not None
    return made.input, made.worst


def test_a_later_prompt_is_as_long_as_the_replies_it_will_hold(tmp_path: Path) -> None:
    """Of 100 tokens a quarter is expected, and at most 8 bytes for each of the 100."""
    none, at_none = grown(tmp_path, "Go")
    once, at_once = grown(tmp_path, "Go {{ steps.first }}")
    twice, at_twice = grown(tmp_path, "Go {{ steps.first.a }} {{ steps.first['b'] }}")
    assert 25 <= once - none <= 28 and 25 <= twice - once <= 28
    assert 800_000 <= at_once - at_none <= 810_000
    assert 800_000 <= at_twice - at_once <= 810_000


def test_a_prompt_that_computes_with_a_reply_is_its_own_text_and_the_reply(tmp_path: Path) -> None:
    plain, at_plain = grown(tmp_path, "Go {{ steps.first }}")
    computed, at_computed = grown(tmp_path, "Go {% if steps.first.n > 3 %}on{% endif %}")
    assert computed >= plain and at_computed >= at_plain


# ── a large input ────────────────────────────────────────────────────────────────────────────


def test_a_large_input_is_measured_on_a_sample_that_is_spread_over_it(tmp_path: Path) -> None:
    steps = (
        "  - map: {prompt: 'Say {{ item.text }}', member: a}\n"
        "  - reduce: {kind: ask, prompt: 'All', member: b, fan_in: 10}"
    )
    plan = write(tmp_path / "p", steps, items=1000)
    whole, part = previewed(plan), previewed(plan, measured=300)
    assert step(part, "map").tasks == 1000
    assert "measured on 250 of 1,000 items" in in_words(part.notes)[0]
    for name in ("map", "reduce"):
        one, other = step(whole, name).forecast, step(part, name).forecast
        assert other.worst == pytest.approx(one.worst, rel=0.1)
        assert other.p50 == pytest.approx(one.p50, rel=0.1)


def test_numbered_items_are_counted_by_arithmetic(tmp_path: Path) -> None:
    """Two thousand million of them are as quick as a few."""
    steps = "  - map: {prompt: 'Say {{ item.n }}', member: a}"
    plan = write(tmp_path / "p", steps, more="input: {count: 2147483648}")
    made = previewed(plan, measured=50)
    assert step(made, "map").tasks == 2147483648
    assert "measured on 50 of 2,147,483,648 items" in in_words(made.notes)[0]


# ── with a store ─────────────────────────────────────────────────────────────────────────────

WHOLE = (
    "  - map: {name: first, prompt: 'Say {{ item.text }}', member: a,"
    " gate: [{judge: {prompt: 'Good?', member: j}}]}\n"
    "  - map: {name: second, prompt: 'Again: {{ steps.first }}', member: b}\n"
    "  - reduce: {kind: ask, prompt: 'Sum up', member: a, fan_in: 5}\n"
)


def test_a_preview_writes_nothing_and_a_run_stays_below_its_worst_case(
    tmp_path: Path, served: str
) -> None:
    folder, store = tmp_path / "p", tmp_path / "store"
    plan = write(folder, WHOLE, url=served)
    before = {path.name for path in folder.iterdir()}
    made = previewed(plan)
    assert {path.name for path in folder.iterdir()} == before and not store.exists()
    receipt = carried_out(plan, store)
    assert receipt.status == "complete"
    archive = opening.look(store)
    run = archive.read.find("test")
    assert run is not None
    reserved = sum(attempt.reserved for attempt in archive.read.attempts(run.no))
    archive.close()
    assert made.total.calls == receipt.calls
    assert made.total.worst is not None
    assert nanos(receipt.cost_usd) < reserved <= made.total.worst


def test_what_is_on_record_is_reused_through_all_steps(tmp_path: Path, served: str) -> None:
    """Gates, judges, prompts that hold replies and the nodes of the tree: all keys are found."""
    folder, store = tmp_path / "p", tmp_path / "store"
    plan = write(folder, WHOLE, url=served)
    calls = carried_out(plan, store).calls
    again = previewed(plan, store)
    assert (again.total.calls, again.total.reused, again.total.p50) == (0, calls, 0)
    fresh = previewed(plan, store, fresh=True)
    assert (fresh.total.calls, fresh.total.reused) == (calls, 0)


def test_replies_of_those_who_fit_but_may_not_be_asked_now_are_reused(
    tmp_path: Path, served: str
) -> None:
    """As the run reuses them: what was paid for is not paid again."""
    folder, store = tmp_path / "p", tmp_path / "store"
    plan = write(folder, "- map: {prompt: 'Say {{ item.text }}', needs: [law]}", url=served)
    roster = folder / "roster.yaml"
    text = roster.read_text()
    roster.write_text(text.replace("{id: a,", "{id: a, good_at: [law],"))
    assert carried_out(plan, store).calls == 12
    roster.write_text(
        text.replace("{id: a,", "{id: a, good_at: [law], tier: paid,").replace(
            "{id: b,", "{id: b, good_at: [law],"
        )
    )
    made = previewed(plan, store)
    assert (made.total.calls, made.total.reused) == (0, 12)
    receipt = carried_out(plan, store)
    assert (receipt.calls, receipt.reused) == (0, 12)


def test_one_edited_item_is_its_own_calls_and_the_nodes_above_it(
    tmp_path: Path, served: str
) -> None:
    folder, store = tmp_path / "p", tmp_path / "store"
    plan = write(folder, WHOLE, url=served)
    carried_out(plan, store)
    items = folder / "items.jsonl"
    items.write_text(items.read_text().replace("word 7", "another word"))
    made = previewed(plan, store)
    told = {one.name: (one.tasks, one.forecast.calls, one.forecast.reused) for one in made.steps}
    assert told == {
        "first": (12, 1, 11), "first.judge": (12, 1, 11), "second": (12, 1, 11),
        "reduce": (4, 2, 2),
    }  # fmt: skip
    receipt = carried_out(plan, store)
    assert receipt.calls == made.total.calls == 5


def test_history_makes_the_forecast_that_of_the_calls_before(tmp_path: Path, served: str) -> None:
    """Other items of the same sort: the preview is close to what they then cost."""
    steps = "  - map: {prompt: 'Say {{ item.text }} again', member: a}"
    store = tmp_path / "store"
    carried_out(write(tmp_path / "p", steps, items=40, url=served), store)
    plan = write(tmp_path / "q", steps, items=40, url=served)
    items = plan.parent / "items.jsonl"
    items.write_text(items.read_text().replace("word", "name"))
    made = previewed(plan, store)
    assert made.total.measured and made.total.seconds is not None and not made.total.at_least
    receipt = carried_out(plan, store)
    assert receipt.calls == 40
    assert made.total.p50 == pytest.approx(nanos(receipt.cost_usd), rel=0.05)
    assert made.total.p50 is not None and made.total.p90 is not None
    assert made.total.p50 <= made.total.p90 <= (made.total.worst or 0)


def test_kick_backs_of_every_item_stay_below_the_worst_case(tmp_path: Path, served: str) -> None:
    """No reply has the field, so each is kicked back twice and escalated."""
    steps = (
        "  - map: {prompt: 'Say {{ item.text }}', member: a, revise: 2, escalate: [b, j],"
        " gate: [{require: [never]}]}"
    )
    plan, store = write(tmp_path / "p", steps, items=6, url=served), tmp_path / "store"
    made = previewed(plan)
    receipt = carried_out(plan, store)
    assert receipt.kicked == 6
    archive = opening.look(store)
    run = archive.read.find("test")
    assert run is not None
    attempts = archive.read.attempts(run.no)
    archive.close()
    assert len(attempts) == made.total.most_calls == 6 * 5
    assert sum(one.reserved for one in attempts) <= (made.total.worst or 0)


@pytest.mark.parametrize(
    ("asked", "alike"),
    [
        ("member: a, prompt: Say something", True),
        ("member: code, prompt: Say something", False),  # it gets the item itself
        ("member: a, prompt: 'Say {{ item.text }}'", False),
        ("member: a, prompt: 'Say {{ steps.first }}'", False),
    ],
)
def test_a_prompt_that_shows_nothing_of_its_item_is_named(
    tmp_path: Path, asked: str, alike: bool
) -> None:
    first = "  - map: {name: first, member: code, prompt: '{{ item.text }}'}\n"
    preview = previewed(write(tmp_path, f"{first}  - map: {{name: second, {asked}}}\n"))
    said = "second: its prompt shows nothing of an item, so one answer serves all 12"
    assert (said in in_words(preview.notes)) == alike
