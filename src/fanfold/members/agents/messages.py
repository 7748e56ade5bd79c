"""Messages to a program while it works: files in its worker's folder, which its host hands over.

Each is handed over once. The host renames the file before it writes the message; whoever gave it takes
it back by removing the file: one of the two succeeds.
"""

from __future__ import annotations

import os
import queue
import re
import threading
from contextlib import suppress
from pathlib import Path

import msgspec

from fanfold.members.agents.logs import Tail
from fanfold.members.agents.worker import LOG, put_file

_GIVEN, _HANDED = "message-{}.txt", "message-{}.handed.txt"
_RESULT = re.compile(rb'"type"\s*:\s*"result"')


def is_handed(place: Path, number: int) -> bool:
    """Whether the program has got this message."""
    return (place / _HANDED.format(number)).exists()


def give(place: Path, number: int, text: str) -> None:
    put_file(place / _GIVEN.format(number), text.encode("utf-8", "replace"))


def take_back(place: Path, number: int) -> bool:
    """False: it was handed over meanwhile."""
    try:
        (place / _GIVEN.format(number)).unlink()
    except FileNotFoundError:
        return not is_handed(place, number)
    return True


def clear(place: Path) -> None:
    """What an earlier worker in this folder was given is of no concern to the next one."""
    for file in place.glob("message-*.txt"):
        file.unlink(missing_ok=True)


class _Event(msgspec.Struct, frozen=True):
    type: str = ""


def spoken(text: str) -> bytes:
    """A message as claude's `--input-format stream-json` takes it."""
    said = {"type": "user", "message": {"role": "user", "content": text}}
    return msgspec.json.encode(said) + b"\n"


class ProgramInput:
    """The host's end of a program's stdin: its task, then messages. It ends with the program's answer,
    after which the program exits; what is given later stays where it is.

    Writes from a thread of its own, since a pipe may be full. So `begin` comes after the last fork.
    """

    def __init__(self, place: Path, task: bytes) -> None:
        self._place, self._log = place, Tail(place / LOG)
        self.reads, self._writes = os.pipe()
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._lines.put(spoken(task.decode("utf-8", "replace")))
        self._open = True

    def begin(self) -> None:
        threading.Thread(target=self._write, daemon=True).start()

    def look(self, grown: bool) -> bool:
        """Hand over what was given; whether there was something."""
        if grown and self._open and self._has_answered():
            self._open = False
            self._lines.put(None)
        return self._open and self._hand_over()

    def _has_answered(self) -> bool:
        lines = [line for line in self._log.lines() if _RESULT.search(line)]
        return any(_type(line) == "result" for line in lines)

    def _hand_over(self) -> bool:
        found = [name for name in os.listdir(self._place) if _number(name) is not None]
        handed = False
        for name in sorted(found, key=lambda name: _number(name) or 0):
            file = self._place / _HANDED.format(_number(name))
            with suppress(OSError):  # it was taken back
                os.rename(self._place / name, file)
                self._lines.put(spoken(file.read_text("utf-8", "replace")))
                handed = True
        return handed

    def _write(self) -> None:
        with suppress(OSError):  # the program does not read any more
            while (line := self._lines.get()) is not None:
                while line:
                    line = line[os.write(self._writes, line) :]
        os.close(self._writes)


def _type(line: bytes) -> str:
    try:
        return msgspec.json.decode(line, type=_Event).type
    except msgspec.DecodeError:
        return ""


def _number(name: str) -> int | None:
    """Of a message that is given and not handed over."""
    number = name.removeprefix("message-").removesuffix(".txt")
    return int(number) if name == _GIVEN.format(number) and number.isdecimal() else None
