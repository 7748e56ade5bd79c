"""The reduces: every decision as a record, and the report that a person reads.

A reduce gets the bare answers. Who said what stands in votes.json, which the plan writes before, and
the questions are those of the plan's input.
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
from recordings import HERE, Question, dollars, items, load, panel

VOTES = HERE / "votes.json"
QUESTIONS = HERE / "data" / "questions.jsonl"
HALF = 100  # questions; smaller halves are not told apart on the first page
FIRST = 5  # split decisions that the report begins with
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


def decisions(parts: Iterable[Any]) -> list[Record]:
    """One record for each question, in the order of the input; also for those without a decision.
    `chance`: how often such a decision was right, among questions of the other half; known for the
    recorded panel only."""
    parts = list(parts)
    recorded = any(part.value.get("recorded") for part in parts)
    costs = _costs(QUESTIONS.parent) if recorded else {}
    counts = chances.known() if recorded else None
    asked = {str(item["qid"]): item for item in items(QUESTIONS)}
    made = [_record(vote, asked[vote["id"]], costs) for vote in json.loads(_text(VOTES))]
    if counts is None:
        return made
    return [
        {**one, "chance": chances.chance(one, counts) if one["decision"] else None} for one in made
    ]


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
    lines = [*_head(shown, len(made)), "", *_agreement(shown), "", *_undecided(made)]
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
    """How many decisions rest on how much agreement."""
    decided = [one for one in made if one["decision"]]
    counts = Counter((one["agreed"], one["answered"]) for one in decided)
    usd = bool(made) and "usd" in made[0]
    yield "| agreed | decisions | share | asked for each |" + (
        " usd for each | right on the calibration half |" if usd else ""
    )
    yield "|--------|----------:|------:|---------------:|" + (
        "-------------:|------------------------------|" if usd else ""
    )
    known = chances.known().get("fitting", {})
    for agreed, answered in sorted(counts, key=lambda pair: (-pair[0] / pair[1], -pair[1])):
        own = [one for one in decided if (one["agreed"], one["answered"]) == (agreed, answered)]
        asked = sum(one["asked"] for one in own) / len(own)
        line = f"| {f'{agreed} of {answered}':6} | {len(own):9,} | {len(own) / len(made):5.0%} |"
        line += f" {asked:14.1f} |"
        if usd:
            line += f" {sum(one['usd'] for one in own) / len(own):12.5f} |"
            line += f" {_measured(known.get(f'{agreed} of {answered}')):28} |"
        yield line


def _measured(counts: list[int] | None) -> str:
    """In words, with the interval: a share of few cases says little."""
    if not counts or counts[1] < chances.FEW:
        return "too few cases to say"
    right, of = counts
    low, high = chances.interval(right, of)
    return f"{right} of {of}: {right / of:.0%} ({low:.0%} to {high:.0%})"


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
    said = f"- **{one['decision']}** {_short(one['means'])}: {one['agreed']} of {one['answered']}"
    if chance := one.get("chance"):
        said += (
            f"; such decisions were right in {chance['right']} of {chance['of']} other cases "
            f"({chance['from']:.0%} to {chance['to']:.0%})"
        )
    yield from wrap(said, WIDE, subsequent_indent="  ")
    for other in one["dissent"]:
        said = f"- {other['member']} said {other['answer']}: {_short(other['means'])}"
        yield from wrap(said, WIDE, subsequent_indent="  ")
    yield ""


def _short(text: str, most: int = 80) -> str:
    return shorten(text, most, placeholder=" […]")


def _all(made: list[Record]) -> Iterator[str]:
    usd = bool(made) and "usd" in made[0]
    yield "| question | subject | decision | agreed | dissent |" + (
        " usd | chance |" if usd else ""
    )
    yield "|---|---|---|--:|---|" + ("--:|--:|" if usd else "")
    for one in made:
        cells = [
            f"{one['id']}: {_short(one['question'])}",
            one["subject"],
            f"{one['decision']}: {_short(one['means'])}" if one["decision"] else "none",
            f"{one['agreed']} of {one['answered']}",
            "; ".join(f"{other['member']}: {other['answer']}" for other in one["dissent"]),
        ]
        if usd:
            known = one.get("chance")
            cells += [f"{one['usd']:.5f}", f"{known['share']:.0%}" if known else "not known"]
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
