"""Run as a process of its own, since a wakeups takes signals over: what wakes it, and what does not.

`PLACE HOW SECONDS`: rests (or waits) for so long at most; says `ready`, then whether it was told to
end and for how long it rested.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from fanfold.members.agents.host import Wakeups


def main() -> None:
    wakeups = Wakeups(Path(sys.argv[1]))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    begun = time.monotonic()
    {"events": wakeups.wait_for_events, "sleep": wakeups.sleep}[sys.argv[2]](float(sys.argv[3]))
    sys.stdout.write(f"{wakeups.stop_requested} {time.monotonic() - begun}\n")


if __name__ == "__main__":
    main()
