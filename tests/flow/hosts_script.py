"""What the model server says to agents on several hosts: each uses a tool, and then works until it is
released."""

from __future__ import annotations

from fanfold.testing.script import Asked, Says
from tests.faces.fleet_scripts import USAGE, _never_ends, _results


def held(asked: Asked) -> Says:
    if _results(asked):
        return Says(text="The work is done.", usage=USAGE, latency=3600.0)
    return _never_ends(asked, USAGE)
