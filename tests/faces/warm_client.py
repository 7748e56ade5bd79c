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


def hand_over(
    address: str, folder: str, words: Sequence[str], env: Mapping[str, str], streams: Sequence[int]
) -> socket.socket:
    """What comes back are two numbers: that of the process, and its exit code."""
    link = socket.socket(socket.AF_UNIX)
    link.connect(address)
    said = json.dumps([folder, list(words), dict(env)]).encode()
    socket.send_fds(link, [len(said).to_bytes(4, "big")], streams)
    link.sendall(said)
    return link


def number(link: socket.socket) -> int:
    said = link.recv(8, socket.MSG_WAITALL)
    assert len(said) == 8, "the process that forks is gone"
    return int.from_bytes(said, "big", signed=True)


def main() -> None:
    with hand_over(sys.argv[1], os.getcwd(), sys.argv[2:], os.environ, (0, 1, 2)) as link:
        process = number(link)
        for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(one, lambda n, _: os.kill(process, n))
        code = number(link)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    main()
