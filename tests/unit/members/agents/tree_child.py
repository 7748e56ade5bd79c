"""Run as a process of its own: a parent of everything below it, as a host is, but without a control group.

Starts the program in its arguments, waits until the file `go` is there, ends the whole tree and
prints what could not be ended.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from fanfold.members.agents.process_tree import ProcessTree, adopt_orphans
from fanfold.members.agents.processes import identify


def main() -> None:
    firm = sys.argv[1] == "firm"
    assert not firm or adopt_orphans()
    program = subprocess.Popen(sys.argv[3:], start_new_session=True)
    known = identify(program.pid)
    assert known is not None
    tree = ProcessTree(known, None, firm=firm)
    go, over = Path(sys.argv[2]), time.monotonic() + 180
    while not go.exists() and time.monotonic() < over:
        tree.reap()
        time.sleep(0.005)
    sys.stdout.write(f"{[row.name for row in tree.clear()]} {tree.code} {tree.gone()}")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
