"""Make the demo's contracts from CUAD: each text cut to its first sentences.

    python tools/make_demo_data.py contracts.jsonl

The argument is a JSON Lines file of {"id", "file", "text"}, one contract in each line.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

LONGEST = 12_000
DATA = Path(__file__).parents[1] / "src" / "fanfold" / "demo" / "contracts" / "data"


def main(source: str) -> None:
    rows = [json.loads(line) for line in Path(source).read_text(encoding="utf-8").splitlines()]
    for row in rows:
        row["text"] = cut(row["text"])
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    (DATA / "contracts.jsonl").write_text("".join(lines), encoding="utf-8")
    print(f"{len(rows)} contracts, {sum(map(len, lines))} characters")


def cut(text: str) -> str:
    """The text up to the last end of a sentence before the limit."""
    if len(text) <= LONGEST:
        return text
    head = text[:LONGEST]
    ends = [found.end() for found in re.finditer(r"[.;:][ \n]", head)]
    return head[: ends[-1]].rstrip() if ends and ends[-1] > 0.8 * LONGEST else head


if __name__ == "__main__":
    main(sys.argv[1])
