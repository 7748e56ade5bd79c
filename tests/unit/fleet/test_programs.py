"""The programs of all providers that workers name are looked for before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fanfold.errors import BadInput
from fanfold.fleet.load import load_fleet
from fanfold.fleet.preflight import check_programs, named_programs
from fanfold.fleet.records import Fleet
from tests.unit.fleet.fleets import worker, write_fleet


def program(folder: Path, name: str) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return file


def fleet(root: Path, *workers: dict[str, Any], **config: Any) -> Fleet:
    return load_fleet(write_fleet(root, list(workers), config=config))


def test_a_codex_worker_in_a_claude_fleet_is_looked_at_too(tmp_path: Path) -> None:
    """The original looked at the fleet's provider only."""
    path = {"PATH": str(program(tmp_path / "bin", "claude").parent)}
    mixed = fleet(tmp_path / "f", worker("a"), worker("b", provider="codex", model="gpt-5.4"))
    with pytest.raises(BadInput) as raised:
        check_programs(mixed, path)
    assert str(raised.value) == (
        f"{tmp_path}/f/fleet.json:5: worker `b` needs the program codex, which is not on PATH;"
        " install it (npm install -g @openai/codex) or name it in FANFOLD_CODEX"
    )
    program(tmp_path / "bin", "codex")
    check_programs(mixed, path)


def test_the_provider_of_the_fleet_is_not_needed_when_no_worker_has_it(tmp_path: Path) -> None:
    path = {"PATH": str(program(tmp_path / "bin", "codex").parent)}
    check_programs(fleet(tmp_path / "f", worker("a", provider="codex", model="m")), path)
    with pytest.raises(BadInput, match="worker `a` needs the program claude"):
        check_programs(fleet(tmp_path / "g", worker("a")), path)


def test_a_variable_names_another_program(tmp_path: Path) -> None:
    other = program(tmp_path / "odd", "my-claude")
    environ = {"PATH": "", "FANFOLD_CLAUDE": str(other), "FANFOLD_CODEX": ""}
    assert named_programs(environ) == {"claude": str(other)}
    check_programs(fleet(tmp_path / "f", worker("a")), environ)
    with pytest.raises(BadInput, match=f"needs the program {tmp_path}/none, which is not on PATH"):
        check_programs(
            fleet(tmp_path / "f", worker("a")), {**environ, "FANFOLD_CLAUDE": f"{tmp_path}/none"}
        )
