"""Routing scored on recorded answers of real models, through the engine and `replay` members.

    python -m bench.routing [--data DIR] [--held DIR] [--svg FILE]

Prints a Markdown table and draws the picture. Everything is chosen on one half of the questions
(by a hash of their ids) and reported on the other; with `--held`, chosen on all of DATA and reported
on that collection. DIR holds recorded_zeroeval_gsm, recorded_routellm and recorded_prices; by default
the copies in tests/data. Costs are list prices times a quarter of the recorded characters.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from bench.chart import Mark, Plot, Point, drawn
from bench.contests import (
    A_POINT,
    HALF_THE_COST,
    Cascade,
    Choice,
    Contest,
    Ended,
    Route,
    Scored,
    always,
    best,
    by_cascade,
    by_oracle,
    cascaded,
    choose,
    contests,
    mixing,
    route_of,
    routed,
    routers,
    scored,
)
from bench.recorded import DATA, Question
from fanfold.observe.script import open_run
from fanfold.patterns.ensemble import ensemble
from fanfold.patterns.map_reduce import map_reduce
from fanfold.run.run import Run
from fanfold.work.outcome import Part

SVG = Path(__file__).parent.parent / "docs" / "images" / "routing.svg"
SPLITS = 200
TITLE = "Accuracy against cost, recorded answers of real models"
PLAIN: dict[str, Any] = {"prompt": "{{ item.id }}", "concurrency": 64, "attempts": 1, "revise": 0}
LEGEND = (
    ("mixing", "one of the two by chance"), ("router", "router, for each threshold"),
    ("routed", "router chosen"), ("tried", "cascades tried"), ("chosen", "cascade chosen"),
    ("oracle", "oracle"), ("aim", "the aim"),
)  # fmt: skip


# ── through the engine ───────────────────────────────────────────────────────────────────────


Way = Callable[[Run, Sequence[Question]], Awaitable[dict[str, str]]]
"""Puts the questions to the members of a run; gives the answers by id."""


def one_of(route: Route) -> Way:
    """Each question to the member that the route names."""

    async def way(run: Run, questions: Sequence[Question]) -> dict[str, str]:
        sent: dict[str, list[Question]] = {}
        for question in questions:
            sent.setdefault(route(question), []).append(question)
        answers: dict[str, str] = {}
        for member, listed in sent.items():
            step = await map_reduce(
                run, _items(listed), step=member, member=member, reduce=_by_id, **PLAIN
            )
            answers |= step.value
        return answers

    return way


def cheap_first(contest: Contest, cascade: Cascade) -> Way:
    """A vote of the cheap members; the strong one is asked what they cannot decide."""

    async def way(run: Run, questions: Sequence[Question]) -> dict[str, str]:
        voted = await ensemble(
            run, _items(questions), step="cheap", members=cascade.members, decide="quorum",
            quorum=cascade.quorum, stop_early=True, escalate=[contest.strong], reduce=_by_id, **PLAIN,
        )  # fmt: skip
        answers: dict[str, str] = voted.value
        return answers

    return way


def _items(questions: Iterable[Question]) -> list[dict[str, str]]:
    return [{"id": one.id} for one in questions]


def _by_id(parts: Iterable[Part]) -> dict[str, str]:
    return {part.id: part.value for part in parts}


async def play(folder: Path, contest: Contest, way: Way) -> Scored:
    """On the other half, in a store of its own. Cost and calls are what the receipt says."""
    _, questions = contest.halves
    roster = _roster(folder, contest)
    with tempfile.TemporaryDirectory(dir=folder) as store:
        async with open_run("routing", roster=roster, store=store, max_concurrency=512) as run:
            answers = await way(run, questions)
    receipt, many = run.closing, len(questions)
    assert receipt is not None
    right = sum(_right(question, answers.get(question.id)) for question in questions)
    strong = [s.calls for s in receipt.steps if s.name in (contest.strong, "cheap.escalate")]
    return Scored(right / many, 1000 * receipt.cost_usd / many, sum(strong) / many)


def _right(question: Question, answer: str | None) -> bool:
    """As it was scored for whoever gave this answer."""
    return any(one.right for one in question.answers.values() if one.text == answer)


def _roster(folder: Path, contest: Contest) -> Path:
    """A file of recorded replies for each member, with what they took, and its price."""
    listed = []
    for name in contest.members:
        file = folder / f"{re.sub(r'[^A-Za-z0-9.-]', '_', name)}.jsonl"
        lines = [json.dumps(_line(question, name)) for question in contest.halves[1]]
        file.write_text("\n".join(lines), encoding="utf-8")
        price = contest.recorded.prices[name]
        listed.append({
            "id": name, "kind": "replay", "file": file.name, "limits": {"concurrency": 512},
            "price": {"input": price.input, "output": price.output},
        })  # fmt: skip
    roster = folder / "roster.yaml"
    roster.write_text(json.dumps({"members": listed}), encoding="utf-8")  # JSON is YAML
    return roster


def _line(question: Question, name: str) -> dict[str, object]:
    answer = question.answers[name]
    usage = {"input": answer.input, "output": answer.output}
    return {"id": question.id, "reply": answer.text, "usage": usage}


def ways(contest: Contest, choice: Choice) -> dict[str, Way]:
    """What the table has, by its name there."""
    single = contest.single
    return {
        "always weak": one_of(lambda _: contest.weak),
        "always strong": one_of(lambda _: contest.strong),
        **({"best cheap one alone": one_of(lambda _: single)} if single else {}),
        "router": one_of(route_of(contest, choice.router)),
        **{f"cascade, {name}: {one}": cheap_first(contest, one)
           for name, one in choice.cascades.items()},
    }  # fmt: skip


# ── other splits ─────────────────────────────────────────────────────────────────────────────


class Repeated(NamedTuple):
    """Over many splits: the cost as a share of the strong one's, and by how much more is right."""

    cost: float
    gain: float
    worst: float
    met: float


def repeated(contest: Contest, cascades: Sequence[Cascade], splits: int = SPLITS) -> Repeated:
    """The same choice made again on random halves. Costs and gains are medians."""
    questions = [one for half in contest.halves for one in half]
    ended = {one: [by_cascade(contest, q, one) for q in questions] for one in cascades}
    alone = [Ended(q.answers[contest.strong].right, contest.recorded.cost(q, contest.strong), "")
             for q in questions]  # fmt: skip
    costs, gains = [], []
    for seed in range(splits):
        order = random.Random(seed).sample(range(len(questions)), len(questions))
        first, other = order[: len(order) // 2], order[len(order) // 2 :]
        found = {one: scored(contest, (of[n] for n in first)) for one, of in ended.items()}
        most = HALF_THE_COST * scored(contest, (alone[n] for n in first)).usd
        score = scored(contest, (ended[best(found, most)][n] for n in other))
        strong = scored(contest, (alone[n] for n in other))
        costs.append(score.usd / strong.usd)
        gains.append(score.accuracy - strong.accuracy)
    met = [c <= HALF_THE_COST and g >= -A_POINT - 1e-9 for c, g in zip(costs, gains, strict=True)]
    return Repeated(median(costs), median(gains), min(gains), sum(met) / splits)


# ── the table and the picture ────────────────────────────────────────────────────────────────


def line(contest: Contest, name: str, score: Scored) -> str:
    _, other = contest.halves
    strong = always(contest, other, contest.strong)
    between = name not in ("always weak", "always strong", "oracle")
    mixed = f"{mixing(contest, other, score.usd):.1%}" if between else ""
    return (
        f"| {contest.name} | {name} | {score.accuracy:.1%} | {score.usd:.3f}"
        f" | {score.usd / strong.usd:.0%} | {score.strong:.0%} | {mixed} |"
    )


def plot(contest: Contest, choice: Choice) -> Plot:
    _, other = contest.halves
    strong = always(contest, other, contest.strong)

    def at(score: Scored) -> Point:
        return Point(score.usd / strong.usd, score.accuracy)

    weak = at(always(contest, other, contest.weak))
    tried = dict.fromkeys(one for found in contest.cascades.values() for one in found)
    taken = [Mark("chosen", at(cascaded(contest, other, one)))
             for one in choice.cascades.values()]  # fmt: skip
    return Plot(
        contest.name,
        f"{contest.weak} and {contest.strong}",
        Point(HALF_THE_COST, strong.accuracy - A_POINT),
        (
            ("mixing", (weak, at(strong))),
            ("router", [at(routed(contest, other, router)) for router in routers(contest)]),
        ),
        [at(cascaded(contest, other, one)) for one in tried],
        [
            Mark("one", weak, "always weak"),
            Mark("one", at(strong), "always strong", left=True),
            Mark("oracle", at(scored(contest, (by_oracle(contest, one) for one in other)))),
            Mark("routed", at(routed(contest, other, choice.router))),
            *(
                [Mark("one", at(always(contest, other, contest.single)), "best cheap one alone")]
                if contest.single
                else []
            ),
            *taken,
        ],
    )


def notes(contest: Contest, choice: Choice) -> list[str]:
    """Who was asked, and how the choice of cascades fares on other splits."""
    first, other = contest.halves
    told = [
        f"{contest.name}: chosen on {len(first)} questions, reported on {len(other)};"
        f" weak {contest.weak}, strong {contest.strong}"
        + (f", best cheap one {contest.single}" if contest.single else "")
    ]
    for name, cascade in choice.cascades.items():
        again = repeated(contest, contest.cascades[name])
        told.append(
            f"{contest.name}, {name}: {', '.join(cascade.members)}. Over {SPLITS} random splits:"
            f" {again.cost:.0%} of the cost, {100 * again.gain:+.1f} points (medians; at worst"
            f" {100 * again.worst:+.1f}), within the aim in {again.met:.0%}"
        )
    return told


def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


async def table(found: Iterable[tuple[Contest, Choice]]) -> None:
    print("| questions | way | accuracy | $ per 1,000 | of strong | to strong | mixing |")
    print("|---|---|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory(prefix="fanfold-routing-", dir=_memory()) as folder:
        for contest, choice in found:
            for name, way in ways(contest, choice).items():
                print(line(contest, name, await play(Path(folder), contest, way)), flush=True)
            _, other = contest.halves
            oracle = scored(contest, (by_oracle(contest, one) for one in other))
            print(line(contest, "oracle", oracle))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.routing")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--held", type=Path, help="report on this collection, choose on DATA")
    parser.add_argument("--svg", type=Path, default=SVG, help="where the picture goes")
    given = parser.parse_args()
    found = [(contest, choose(contest)) for contest in contests(given.data, given.held)]
    asyncio.run(table(found))
    print("\n" + "\n".join(f"- {note}" for one in found for note in notes(*one)))
    picture = drawn(TITLE, [plot(*one) for one in found], LEGEND)
    given.svg.write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
