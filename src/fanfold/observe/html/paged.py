"""What is too long to stand on a page at once: its first rows do, the others are packed into the page
and turned over by its script. Nothing is fetched, so that it works wherever the file lies.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from zlib import compress

import msgspec

from fanfold.observe.html.page import clean, note

_encode = msgspec.json.Encoder().encode


class Room:
    """How many letters are left of a page that is to stay small."""

    def __init__(self, left: int) -> None:
        self.left = left

    def first(self, rows: Sequence[str], most_rows: int, letters: int) -> list[str]:
        """The first of these rows that fit, and one at least while there is any room."""
        taken: list[str] = []
        left = min(letters, self.left)
        for row in rows[:most_rows]:
            if left <= 0 or (taken and len(row) > left):
                break
            taken.append(row)
            left -= len(row)
            self.left -= len(row)
        return taken

    def pack(self, rows: Sequence[Sequence[str]]) -> tuple[str, int]:
        """As many of these rows as fit, as one text, and how many they are. By columns: what is alike
        stands together, and takes less."""
        columns = [[clean(cell) for cell in column] for column in zip(*rows, strict=True)]
        count = len(rows)
        while count > 0:
            data = b64encode(compress(_encode([one[:count] for one in columns]), 9)).decode()
            if len(data) <= self.left:
                self.left -= len(data)
                return data, count
            count = min(count - 1, int(count * self.left / len(data) * 0.98))
        return "", 0


def paged(
    box: str, rows: Sequence[Sequence[str]], shown: int, whole: int, size: int, room: Room
) -> str:
    """`box`, a table or a list that shows the first `shown` of `rows`, with what turns to the others,
    `size` at a time: the texts of their cells. There are `whole` of them; what does not fit is not on
    the page, and it says so."""
    if whole <= shown:
        return box
    data, there = room.pack(rows) if len(rows) > shown else ("", 0)
    if there <= shown:
        return box + note(f"… and {whole - shown:,} more")
    said = f"1–{shown:,} of {there:,}; the others are here too, for a browser that runs the script."
    left = f"The first {there:,} of {whole:,} are on this page." if whole > there else ""
    return (
        f'<p class="note pager">{said}</p>{box}'
        f'<template class="more" data-size="{size}">{data}</template>'
        + (note(left) if left else "")
    )
