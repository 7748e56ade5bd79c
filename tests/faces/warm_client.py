"""A program that is the `fanfold` which a warm Python forks for it: it hands over its folder, its
environment and its streams, passes signals on, and ends as that one ends.

It imports little and knows no packages, so that starting it costs next to nothing.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Any


def hand_over(
    address: str, folder: str, words: Sequence[str], env: Mapping[str, str],
    handles: Mapping[int, int], **more: Any,
) -> socket.socket:  # fmt: skip
    """What comes back are two numbers: that of the process, and its exit code. `handles`: which of ours
    it has under which number. `more` is of `warm_child.Wanted`."""
    link = socket.socket(socket.AF_UNIX)
    link.connect(address)
    wanted = {"folder": folder, "words": list(words), "env": dict(env), "handles": list(handles)}
    said = json.dumps(wanted | more).encode()
    socket.send_fds(link, [len(said).to_bytes(4, "big")], list(handles.values()))
    link.sendall(said)
    return link


def number(link: socket.socket) -> int:
    said = link.recv(8, socket.MSG_WAITALL)
    assert len(said) == 8, "the process that forks is gone"
    return int.from_bytes(said, "big", signed=True)


def is_open(handle: int) -> bool:
    """The one that lists them is closed by now."""
    try:
        os.fstat(handle)
    except OSError:
        return False
    return True


def main() -> None:
    """`warm_client.py ADDRESS WORDS`, or `-P -m MODULE WORDS` or `-c CODE WORDS` behind the address."""
    address, *words = sys.argv[1:]
    safe = words[:2] == ["-P", "-m"]
    module, words = (words[2], words[3:]) if safe else ("fanfold", words)
    code, words = (words[1], words[2:]) if words[:1] == ["-c"] else ("", words)
    handles = {
        number: number for number in map(int, os.listdir("/proc/self/fd")) if is_open(number)
    }
    leads = os.getsid(0) == os.getpid()
    with hand_over(
        address, os.getcwd(), words, os.environ, handles, module=module, code=code, safe=safe,
        leads=leads, tied=True,
    ) as link:  # fmt: skip
        for handle in handles:
            if handle > 2:
                os.close(handle)
        process = number(link)
        for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(one, lambda n, _: os.kill(process, n))
        ended = number(link)
    if ended < 0:
        signal.signal(-ended, signal.SIG_DFL)
        os.kill(os.getpid(), -ended)
    sys.exit(ended)


if __name__ == "__main__":
    main()
