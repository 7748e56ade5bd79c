"""`make fuzz`: all parts, or one, for so many minutes of CPU time, or one case again."""

from __future__ import annotations

import argparse
import sys

from tests.fuzz.engine import Failure, Tally, fuzz, one
from tests.fuzz.parts import PARTS


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument(
        "part", nargs="?", help=f"one of {', '.join(PARTS)}; or a case, part:seed:N"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=3.0, help="of CPU time, over all parts")
    parser.add_argument("--cases", type=int)
    given = parser.parse_args()
    name, _, case = (given.part or "").partition(":")
    if case:
        seed, number = map(int, case.split(":"))
        part = PARTS[name]()
        failure = one(part, seed, number)
        part.close()
        sys.stdout.write(f"{failure or f'{given.part}: nothing is wrong'}\n")
        return failure is not None
    chosen = [name] if name else list(PARTS)
    tallies = [_fuzzed(name, given, 60 * given.minutes / len(chosen)) for name in chosen]
    sys.stdout.write("".join(f"{tally}\n" for tally in tallies))
    return any(tally.found for tally in tallies)


def _fuzzed(name: str, given: argparse.Namespace, cpu: float) -> Tally:
    part = PARTS[name]()
    try:
        how = {"cases": given.cases} if given.cases else {"cpu": cpu}
        return fuzz(part, given.seed, tell=_tell, **how)
    finally:
        part.close()


def _tell(failure: Failure) -> None:
    sys.stdout.write(f"{failure}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
