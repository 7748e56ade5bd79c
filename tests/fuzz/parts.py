"""All parts, by name."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.engine import FuzzPart
from tests.fuzz.files import FleetFiles, PlanFiles, RosterFiles
from tests.fuzz.journals import Journals
from tests.fuzz.replies import Agents, Replies
from tests.fuzz.requests import Requests

PARTS: dict[str, Callable[[], FuzzPart]] = {
    "plan": PlanFiles, "roster": RosterFiles, "fleet": FleetFiles,
    "replies": Replies, "agents": Agents, "journal": Journals, "requests": Requests,
}  # fmt: skip
