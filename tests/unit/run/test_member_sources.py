"""Where members come from, and what of them must be there before anything is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from fanfold.errors import BadInput
from fanfold.members.roster import load_roster
from fanfold.run.member_sources import ListedMembers

COMMANDS = """\
members:
  - {id: near, kind: command, cmd: [./tool]}
  - {id: away, kind: command, cmd: [/nowhere/tool]}
  - {id: named, kind: command, cmd: [no-such-program]}
  - {id: agent, kind: claude, program: ./agent}
"""


@pytest.mark.parametrize("why", ["works", "leaves_files"])
def test_a_program_below_the_folder_may_still_come(tmp_path: Path, why: str) -> None:
    """To a worker with the inputs of an ask, to a run from an earlier step. What is to be on this
    machine must be there now."""
    (tmp_path / "roster.yaml").write_text(COMMANDS)
    roster = load_roster(tmp_path / "roster.yaml")
    may = ListedMembers(roster, tmp_path, works=why == "works", leaves_files=why != "works")
    assert may.build("near").traits.id == "near"
    refused = [(may, "away"), (may, "named"), (ListedMembers(roster, tmp_path), "near")]
    if why == "leaves_files":
        refused.append((may, "agent"))  # no step makes an agent
    for source, id in refused:
        with pytest.raises(BadInput, match="there is no program"):
            source.build(id)
