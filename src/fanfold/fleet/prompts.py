"""What a worker is sent: its prompt.md as it stands, with what its parents answered where it says so,
and where its files have to go."""

from __future__ import annotations

import os
import re

from fanfold.errors import BadInput
from fanfold.fleet.records import Fleet, WorkerSpec
from fanfold.patterns.prompt import parent_places
from fanfold.work.document import read_text
from fanfold.work.nearest import remedy

PROMPT = "prompt.md"
_SAVE = re.compile(r"Save ALL output files to[ \t]+(.+)")


def read_prompt(fleet: Fleet, worker: WorkerSpec) -> str:
    """The text of workers/ID/prompt.md; where it does not say in which folder to save, that line is
    appended. Not for a read-only worker: it cannot write."""
    shown = f"workers/{worker.id}/{PROMPT}"
    try:
        text = read_text(fleet.home(worker.id) / PROMPT)
    except BadInput as error:
        raise _bad(fleet, worker, f"{shown}: {error.what}; write its task there") from None
    if not text.strip():
        raise _bad(fleet, worker, f"{shown}: is empty; write its task there")
    _check_places(fleet, worker, text)
    if worker.type == "read-only" or _says_where(text, str(fleet.output(worker.id))):
        return text
    return f"{text}{'' if text.endswith(chr(10)) else chr(10)}{save_line(fleet, worker.id)}\n"


def _check_places(fleet: Fleet, worker: WorkerSpec, text: str) -> None:
    """`{{ parents.ID }}` is for those that it depends on."""
    file, known = str(fleet.home(worker.id) / PROMPT), worker.depends_on
    for line, id in parent_places(text):
        if not id:
            what = "the result of a parent is written {{ parents.ID }}, with nothing else in it"
            raise BadInput(what, file=file, line=line)
        if id not in known:
            what = f"`parents.{id}` is read, but worker `{worker.id}` does not depend on `{id}`"
            hint = remedy(id, known) if known else "it has no `depends_on`"
            raise BadInput(f"{what}: {hint}", file=file, line=line)


def save_line(fleet: Fleet, worker: str) -> str:
    return f"Save ALL output files to {fleet.output(worker)}/ — use absolute paths."


def _says_where(text: str, folder: str) -> bool:
    """Any absolute spelling of that folder counts: by a link, with or without a slash at the end."""
    wanted = os.path.realpath(folder)
    for match in _SAVE.finditer(text):
        named = match[1].partition(" — ")[0].strip().strip("`'\"")
        if os.path.isabs(named) and os.path.realpath(named) == wanted:
            return True
    return False


def _bad(fleet: Fleet, worker: WorkerSpec, what: str) -> BadInput:
    return BadInput(f"worker `{worker.id}`: {what}", file=fleet.file, line=worker.line)
