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

from checks import LETTERS
from recordings import HERE, Question, dollars, items, load, panel

VOTES = HERE / "votes.json"
QUESTIONS = HERE / "data" / "questions.jsonl"
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
    """One record for each question, in the order of the input; also for those without a decision."""
    recorded = any(part.value.get("recorded") for part in parts)
    costs = _costs(QUESTIONS.parent) if recorded else {}
    asked = {str(item["qid"]): item for item in items(QUESTIONS)}
    return [_record(vote, asked[vote["id"]], costs) for vote in json.loads(_text(VOTES))]


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
    split = sorted((one for one in made if one["decision"]), key=_sureness)
    lines = [*_head(made), "", *_agreement(made), "", *_undecided(made)]
    lines += ["## Look at these first: the panel is split", ""]
    lines += [line for one in split[:FIRST] for line in _at_length(one)]
    lines += [MORE, "", "## All decisions", "", *_all(made), ""]
    return "\n".join(lines)


def _sureness(one: Record) -> tuple[float, int]:
    """Low is unsure: the share that agreed, then how many answered."""
    return one["agreed"] / one["answered"], -one["answered"]


def _head(made: list[Record]) -> Iterator[str]:
    subjects = Counter(one["subject"] for one in made)
    named = ", ".join(f"{name} {many}" for name, many in subjects.most_common())
    asked = sum(one["asked"] for one in made)
    yield f"# {len(made):,} decisions by vote"
    yield ""
    yield from wrap(f"Questions: {named}. {asked:,} answers were asked for"
                    f" ({asked / max(1, len(made)):.2f} for a question).", WIDE)  # fmt: skip
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
    yield "| agreed      | decisions | share | asked for each |" + (
        " usd for each |" if usd else ""
    )
    yield "|-------------|----------:|------:|---------------:|" + (
        "-------------:|" if usd else ""
    )
    for agreed, answered in sorted(counts, key=lambda pair: (-pair[0] / pair[1], -pair[1])):
        own = [one for one in decided if (one["agreed"], one["answered"]) == (agreed, answered)]
        asked = sum(one["asked"] for one in own) / len(own)
        line = f"| {f'{agreed} of {answered}':11} | {len(own):9,} | {len(own) / len(made):5.0%} |"
        line += f" {asked:14.1f} |"
        yield line + (f" {sum(one['usd'] for one in own) / len(own):12.5f} |" if usd else "")


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
    yield from wrap(f"- **{one['decision']}** {_short(one['means'])}: {one['agreed']} of"
                    f" {one['answered']}", WIDE, subsequent_indent="  ")  # fmt: skip
    for other in one["dissent"]:
        said = f"- {other['member']} said {other['answer']}: {_short(other['means'])}"
        yield from wrap(said, WIDE, subsequent_indent="  ")
    yield ""


def _short(text: str, most: int = 80) -> str:
    return shorten(text, most, placeholder=" […]")


def _all(made: list[Record]) -> Iterator[str]:
    usd = bool(made) and "usd" in made[0]
    yield "| question | subject | decision | agreed | dissent |" + (" usd |" if usd else "")
    yield "|---|---|---|--:|---|" + ("--:|" if usd else "")
    for one in made:
        cells = [
            f"{one['id']}: {_short(one['question'])}",
            one["subject"],
            f"{one['decision']}: {_short(one['means'])}" if one["decision"] else "none",
            f"{one['agreed']} of {one['answered']}",
            "; ".join(f"{other['member']}: {other['answer']}" for other in one["dissent"]),
        ]
        cells += [f"{one['usd']:.5f}"] if usd else []
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
