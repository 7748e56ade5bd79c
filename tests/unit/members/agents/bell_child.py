"""Run as a process of its own, since a bell takes signals over: what wakes it, and what does not.

`PLACE HOW`: rests (or waits) for a minute at most, says `ready` first and then what it was told.
"""

from __future__ import annotations

import sys
from pathlib import Path

from fanfold.members.agents.bell import Bell


def main() -> None:
    bell = Bell(Path(sys.argv[1]))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    {"rest": bell.rest, "wait": bell.wait}[sys.argv[2]](float(sys.argv[3]))
    sys.stdout.write(f"{bell.told}\n")


if __name__ == "__main__":
    main()
