"""The reduces: every decision as a record, and the report that a person reads.

A reduce gets the bare answers. Who said what stands in votes.json and judged.json, which the plan writes
before, and the questions are those of the plan's input.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from textwrap import shorten, wrap
from typing import Any

import chances
from checks import LETTERS
from judge import MODEL
from recordings import HERE, Question, dollars, items, load, panel

from fanfold import FanfoldError

VOTES = HERE / "votes.json"
JUDGED = HERE / "judged.json"
QUESTIONS = HERE / "data" / "questions.jsonl"
HALF = 100  # questions; smaller halves are not told apart on the first page
FIRST = 3  # split decisions that the report begins with
WIDE = 98  # columns of a terminal
MORE = "<!-- more -->"  # `fanfold demo` prints what stands before this line
RECORDED = (
    "The answers are recordings of real models from 2024, not asked for anew. Dollars are an estimate"
    " from their lengths at list prices; nothing was paid."
)
ASKED_NOW = (
    "The answers were given by the members of the roster; the account of the run has the cost."
)

Record = dict[str, Any]


def split(parts: Iterable[Any]) -> list[Record]:
    """The questions on which the vote was not of one mind: those that are judged too."""
    votes = json.loads(_text(VOTES))
    asked = _asked(votes)
    return [
        {"id": vote["id"], **asked[vote["id"]]}
        for vote in votes
        if vote["answer"] and vote["dissent"]
    ]


def _asked(votes: list[Record]) -> dict[str, Record]:
    """The plan's input again: a reduce gets the answers only."""
    asked = {str(item["qid"]): item for item in items(QUESTIONS)}
    for vote in votes:
        if vote["id"] not in asked:
            what = f"{QUESTIONS.name} has no question {vote['id']}"
            raise FanfoldError(f"{what}: QUESTIONS in report.py must name the plan's input")
    return asked


def decisions(parts: Iterable[Any]) -> list[Record]:
    """One record for each question, in the order of the input; also for those without a decision.
    `judged`: what the judge picked, or where all agreed what they said. `chance` and, where the judge picked
    another one, `judge_chance`: how often such a decision was right, among questions of the other half;
    known for the recorded panel only."""
    parts = list(parts)
    recorded = any(part.value.get("recorded") for part in parts)
    costs = _costs(QUESTIONS.parent) if recorded else {}
    counts = chances.known() if recorded else None
    votes = json.loads(_text(VOTES))
    asked = _asked(votes)
    judged = {one["id"]: one["answer"] for one in json.loads(_text(JUDGED))}
    made = [_record(vote, asked[vote["id"]], costs) for vote in votes]
    for one in made:
        one["judged"] = judged.get(one["id"], None if one["dissent"] else one["decision"])
        one["judge_means"] = _meant(asked[one["id"]], one["judged"])
    return made if counts is None else [one | _chances(one, counts) for one in made]


def _chances(one: Record, counts: chances.Counts) -> Record:
    if not one["decision"]:
        return {"chance": None, "judge_chance": None}
    return {
        "chance": chances.chance(one, counts), "judge_chance": chances.judge_chance(one, counts)
    }  # fmt: skip


def _record(vote: Record, item: Record, costs: dict[str, list[float]]) -> Record:
    """`agreed` of those who `answered` gave the answer; `usd` only where it can be estimated."""
    answered = vote["asked"] - len(vote["absent"])
    made = {
        "id": vote["id"],
        "subject": item["category"],
        "question": item["question"],
        "decision": vote["answer"],
        "means": _meant(item, vote["answer"]),
        "agreed": answered - len(vote["dissent"]),
        "answered": answered,
        "asked": vote["asked"],
        "dissent": [
            {**one, "means": _meant(item, one["answer"])} for one in vote["dissent"]
        ],
        "absent": [one["member"] for one in vote["absent"]],
        "why_not": "; ".join(vote["reasons"]),
    }  # fmt: skip
    if costs:
        made["usd"] = round(sum(costs[vote["id"]][: vote["asked"]]), 7)
    return made


def _meant(item: Record, letter: str | None) -> str:
    if not letter or LETTERS.find(letter) not in range(len(item["options"])):
        return ""
    return str(item["options"][LETTERS.index(letter)]).strip()


def _costs(folder: Path) -> dict[str, list[float]]:
    """What the answer of each of the panel would have cost, by question, in the order of asking."""
    return {one.id: _cost_of(one) for one in load(folder)}


def _cost_of(question: Question) -> list[float]:
    return [dollars(question, voter) for voter in panel()]


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


# ── in words ─────────────────────────────────────────────────────────────────────────────────


def told(parts: Iterable[Any]) -> str:
    """The report, as Markdown."""
    made = decisions(list(parts))
    split = sorted((one for one in _shown(made) if one["decision"]), key=_sureness)
    shown = _shown(made)
    lines = [*_head(shown, len(made)), "", *_agreement(shown), "", *_beside(shown), ""]
    lines += _undecided(made)
    lines += ["## Look at these first: the panel is split", ""]
    lines += [line for one in split[:FIRST] for line in _at_length(one)]
    lines += [MORE, "", "## All decisions", "", *_all(made), ""]
    return "\n".join(lines)


def _shown(made: list[Record]) -> list[Record]:
    """On the first page: of a recording with two halves only the one that nothing was chosen by."""
    held = [one for one in made if chances.half(one["id"]) == "reporting"]
    recorded = bool(made) and "usd" in made[0]
    return held if recorded and min(len(held), len(made) - len(held)) >= HALF else made


def _sureness(one: Record) -> tuple[float, int]:
    """Low is unsure: the share that agreed, then how many answered."""
    return one["agreed"] / one["answered"], -one["answered"]


def _head(made: list[Record], of: int) -> Iterator[str]:
    subjects = Counter(one["subject"] for one in made)
    named = ", ".join(f"{name} {many}" for name, many in subjects.most_common())
    asked = sum(one["asked"] for one in made)
    yield f"# {len(made):,} decisions by vote"
    yield ""
    yield from wrap(f"Questions: {named}. {asked:,} answers were asked for"
                    f" ({asked / max(1, len(made)):.2f} for a question).", WIDE)  # fmt: skip
    if len(made) < of:
        yield from wrap(f"The other {of - len(made):,} questions are not shown on this page: on them it "
                        "was measured how often a decision is right, by how many agreed.", WIDE)  # fmt: skip
    if made and "usd" in made[0]:
        yield from wrap(RECORDED, WIDE)
        total = sum(one["usd"] for one in made)
        yield f"About ${total:.2f} in all, ${1000 * total / len(made):.2f} for 1,000 decisions."
    else:
        yield from wrap(ASKED_NOW, WIDE)


def _agreement(made: list[Record]) -> Iterator[str]:
    """How many decisions rest on how much agreement; and how often the vote was right then on the other
    half, and how often the judge."""
    decided = [one for one in made if one["decision"]]
    counts = Counter((one["agreed"], one["answered"]) for one in decided)
    usd = bool(made) and "usd" in made[0]
    yield "| agreed | cases | share |" + (
        "     usd | vote right, calibration half | judge right, the same ones   |" if usd else ""
    )
    yield "|--------|------:|------:|" + (
        "--------:|------------------------------|------------------------------|" if usd else ""
    )
    known = chances.known().get("fitting", {})
    for agreed, answered in sorted(counts, key=lambda pair: (-pair[0] / pair[1], -pair[1])):
        own = [one for one in decided if (one["agreed"], one["answered"]) == (agreed, answered)]
        line = f"| {f'{agreed} of {answered}':6} | {len(own):5,} | {len(own) / len(made):5.0%} |"
        if usd:
            line += f" {sum(one['usd'] for one in own) / len(own):.5f} |"
            found = known.get(f"{agreed} of {answered}")
            line += f" {_measured(found, 'vote'):28} |"
            line += f" {_measured(found, 'judge') if agreed < answered else 'not asked: all agree':28} |"
        yield line


def _measured(counts: dict[str, int] | None, by: str) -> str:
    """In words, with the interval: a share of few cases says little."""
    if not counts or counts["of"] < chances.FEW:
        return "too few cases to say"
    right, of = counts[by], counts["of"]
    low, high = chances.interval(right, of)
    return f"{right} of {of}: {right / of:.0%} ({low:.0%} to {high:.0%})"


def _beside(made: list[Record]) -> Iterator[str]:
    """The judge, side by side with the vote, where the panel is split."""
    split = [one for one in made if one["decision"] and one["dissent"]]
    other = [one for one in split if one["judged"] and one["judged"] != one["decision"]]
    said = f"Where they differ, in {len(split):,} questions, one more model judges: it sees the answers"
    said += f" without names and picks one, in {len(other):,} another one than the vote."
    counts = chances.known()["fitting"].get(chances.OTHERWISE)
    if made and "usd" in made[0]:
        said += f" None was recorded as a judge: {MODEL} stands for one, and picks what it said by itself,"
        said += " or what most others say where none of them says that."
    if made and "usd" in made[0] and counts:
        said += (
            f" On the calibration half it picked another one in {counts['of']}, and was right in"
        )
        said += f" {counts['judge']} of them, the vote in {counts['vote']}."
    yield from wrap(said, WIDE)


def _undecided(made: list[Record]) -> Iterator[str]:
    """Named, so that nobody takes them for decided."""
    for one in made:
        if not one["decision"]:
            yield f"- **no decision** on {one['id']}: {one['why_not']}"
            yield ""


def _at_length(one: Record) -> Iterator[str]:
    """A decision with the question and every other answer, in lines that fit a terminal."""
    question = shorten(one["question"], 320, placeholder=" […]")
    yield from wrap(f"**{one['id']}**, {one['subject']}: {question}", WIDE)
    yield ""
    vote = f"- vote: **{one['decision']}** {_short(one['means'])}, {one['agreed']} of {one['answered']}"
    yield from wrap(vote + _right_in(one.get("chance")), WIDE, subsequent_indent="  ")
    judge = f"- judge: **{one['judged'] or 'no answer'}** {_short(one['judge_means'])}"
    if one["judged"] == one["decision"]:
        judge = "- judge: the same"
    yield from wrap(judge + _right_in(one.get("judge_chance")), WIDE, subsequent_indent="  ")
    for other in one["dissent"]:
        said = f"- {other['member']} said {other['answer']}: {_short(other['means'])}"
        yield from wrap(said, WIDE, subsequent_indent="  ")
    yield ""


def _right_in(chance: Record | None) -> str:
    if chance is None:
        return ""
    return (
        f"; right in {chance['right']} of {chance['of']} such cases of the other half "
        f"({chance['from']:.0%} to {chance['to']:.0%})"
    )


def _short(text: str, most: int = 80) -> str:
    return shorten(text, most, placeholder=" […]")


def _all(made: list[Record]) -> Iterator[str]:
    usd = bool(made) and "usd" in made[0]
    yield "| question | subject | decision | agreed | dissent | judge |" + (
        " usd | chance |" if usd else ""
    )
    yield "|---|---|---|--:|---|---|" + ("--:|--:|" if usd else "")
    for one in made:
        cells = [
            f"{one['id']}: {_short(one['question'])}",
            one["subject"],
            f"{one['decision']}: {_short(one['means'])}" if one["decision"] else "none",
            f"{one['agreed']} of {one['answered']}",
            "; ".join(f"{other['member']}: {other['answer']}" for other in one["dissent"]),
            (one["judged"] or "none") if one["dissent"] else "",
        ]
        if usd:
            known = (one.get("chance"), one.get("judge_chance"))
            cells += [
                f"{one['usd']:.5f}",
                *(f"{c['share']:.0%}" if c else "not known" for c in known),
            ]
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
