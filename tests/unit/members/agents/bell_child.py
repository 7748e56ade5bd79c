"""Run as a process of its own, since a bell takes signals over: what wakes it, and what does not.

`PLACE HOW SECONDS`: rests (or waits) for so long at most; says `ready`, then whether it was told to
end and for how long it rested.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from fanfold.members.agents.bell import Wakeups


def main() -> None:
    bell = Wakeups(Path(sys.argv[1]))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    begun = time.monotonic()
    {"rest": bell.rest, "wait": bell.wait}[sys.argv[2]](float(sys.argv[3]))
    sys.stdout.write(f"{bell.told} {time.monotonic() - begun}\n")


if __name__ == "__main__":
    main()
