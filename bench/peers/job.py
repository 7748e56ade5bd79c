"""What every peer is given, and what it says: the only module that peers share, of the standard library.

A peer is a file of this folder, run by the Python of its own environment, in a folder that stays from one
start to the next: what it keeps there is how it resumes. It gets one argument, a job, asks the model about
each item, and prints a line with the answers that it holds. At its top stand three constants, which
`run.py` reads without importing it:

    NEEDS = ["package"]             # what is installed
    SETTINGS = "how it is used"     # for the page, in one sentence
    NOT_OFFERED = {"cap": "why"}    # tasks that it has nothing for
"""

from __future__ import annotations

import json
import os
import sys
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple


class Job(NamedTuple):
    """`url` ends in /v1. `budget` is in dollars, prices per million tokens. `local`: a function answers,
    not the model, to measure what an item takes without HTTP."""

    task: str
    url: str
    key: str
    model: str
    max_tokens: int
    concurrency: int
    budget: float | None
    price_in: float
    price_out: float
    local: bool

    @property
    def items(self) -> list[dict[str, str]]:
        """Each with an `id` and a `text`, which is the prompt."""
        return [json.loads(line) for line in Path("items.jsonl").read_text().splitlines()]

    @property
    def version(self) -> str:
        """Of the input: the same for the same items in the same order."""
        return digest(Path("items.jsonl").read_text())


_since: list[float] = []


def _cpu() -> float:
    """Seconds, of this process and of those that it has started and that have ended."""
    return sum(os.times()[:4])


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]


def bundled_tokens() -> str:
    """The tables of tiktoken that litellm brings along, for peers that would fetch them."""
    litellm = find_spec("litellm")
    assert litellm is not None and litellm.origin is not None
    return str(Path(litellm.origin).parent / "litellm_core_utils" / "tokenizers")


def given() -> Job:
    """To be called when all is imported: what is used from here on counts as the peer's CPU time."""
    _since.append(_cpu())
    return Job(**json.loads(sys.argv[1]))


def shout(text: str) -> str:
    """The function of a `local` job."""
    return text.upper()


def tell(answers: dict[str, Any]) -> None:
    """The answers that it has, by the ids of their items; None or absent: it has none."""
    print("\n" + json.dumps({"answers": answers, "cpu": _cpu() - _since[0]}), flush=True)
