"""The session of a worker that has ended, for one that continues in it instead of paying from zero."""

from __future__ import annotations

from pathlib import Path

import msgspec

from fanfold.errors import BadInput
from fanfold.members.agents.dialects import DIALECTS
from fanfold.members.agents.hosting import find
from fanfold.members.agents.logs import Tail
from fanfold.members.agents.worker import LOG, PROMPT

CONTINUE = "You were stopped before you had finished. Continue with your task where you left off."


class EarlierSession(msgspec.Struct, frozen=True):
    """`folder`: where it worked, since programs find their sessions by that. `sent`: what it was started
    with so far."""

    session: str
    folder: str
    sent: tuple[str, ...] = ()

    def prompt(self, task: str) -> str:
        """A task that it knows already is not sent again."""
        return CONTINUE if any(one.startswith(task) for one in self.sent) else task


def earlier_session(place: Path, span: str) -> EarlierSession:
    """Of the worker that an attempt started. BadInput: it cannot be continued, and why."""
    host = find(place, span)
    if host is None:
        raise BadInput("nothing is left of its last start")
    spec, dialect = host.spec, DIALECTS[host.spec.dialect]
    if not dialect.resume_command("", ""):
        raise BadInput(f"{spec.dialect} cannot continue a session")
    if host.alive():
        raise BadInput(f"{spec.id} is at work")
    reader = dialect.reader(spec.price, resumed=spec.resumed, call=spec.call)
    for line in Tail(place / LOG).lines():
        reader.feed(line)
    if not reader.reading.session:
        raise BadInput(f"{spec.id} ended before it had a session")
    if not Path(spec.folder).is_dir():
        raise BadInput(f"the folder of its session is gone: {spec.folder}")
    files = (*place.glob(f"{PROMPT}.*.bak"), place / PROMPT)
    sent = tuple(file.read_text("utf-8", "replace") for file in files if file.exists())
    return EarlierSession(reader.reading.session, spec.folder, sent)
