"""A judge from a recording: it picks the answer that the fourth model gave by itself.

No model was recorded as a judge. What this can show is a judge that trusts its own working: of the
answers before it, it takes the one that it would have given; else the one that most gave.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

from recordings import HERE

from fanfold import read_items

MODEL = "gemini-1.5-flash-002"  # as judge the best of the four on the fitting half


def pick(given: dict[str, Any]) -> dict[str, str]:
    """The member's function: `{"choice": label}`."""
    said = {one["label"]: one["value"]["answer"] for one in given["answers"]}
    own = _recorded().get(str(given["item"]["qid"]))
    counts = Counter(said.values())
    wanted = own if own in counts else max(sorted(counts), key=counts.__getitem__)
    return {"choice": next(label for label, answer in said.items() if answer == wanted)}


@cache
def _recorded() -> dict[str, str]:
    file = HERE / "data" / "replies" / f"{MODEL}.jsonl"
    return {str(one["id"]): one["reply"]["answer"] for one in read_items(file, "id", "reply")}
