"""`make bench`: fanfold's numbers, each against a raw baseline measured in turn with it.

    python bench/run.py [--quick] [--only map,http] [--runs N] [--asyncio] [--docs]

Prints the table line by line and writes bench/results.json. Nothing here fails when a target is
missed: the last column says so. Close what else uses the machine before you believe a figure.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import show
from rows import FULL, QUICK, ROWS, Line, Way

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "benchmarks.md"


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/run.py")
    parser.add_argument("--quick", action="store_true", help="smaller and fewer; only a look")
    parser.add_argument("--only", help=f"some of: {','.join(ROWS)}")
    parser.add_argument("--runs", type=int, help="how often each side is measured")
    parser.add_argument("--asyncio", action="store_true", help="its own loop on both sides")
    parser.add_argument("--docs", action="store_true", help="put the table into docs/benchmarks.md")
    given = parser.parse_args()
    unknown = set(given.only.split(",")) - set(ROWS) if given.only else set()
    if unknown:
        parser.error(f"no such row: {', '.join(unknown)}; there are {', '.join(ROWS)}")
    if given.docs and (given.quick or given.only):
        parser.error("--docs wants all rows at full size")
    return given


def main() -> None:
    given = options()
    size = QUICK if given.quick else FULL
    way = Way(size._replace(runs=given.runs or size.runs), not given.asyncio)
    loop = "uvloop" if way.uvloop else "asyncio"
    about = {"runs": way.size.runs, "loop": loop, "quick": given.quick}
    print(show.heading(), flush=True)
    lines: list[Line] = []
    for name in given.only.split(",") if given.only else ROWS:
        for line in ROWS[name](way):
            lines.append(line)
            print(show.plain(line), flush=True)
            (HERE / "results.json").write_text(show.as_json(lines, about) + "\n")
    if given.docs:
        show.into_page(PAGE, show.markdown(lines, about))


if __name__ == "__main__":
    main()
