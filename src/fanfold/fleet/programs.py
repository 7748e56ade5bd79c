"""The programs that workers are: are they installed?"""

from __future__ import annotations

import shutil
from collections.abc import Mapping

from fanfold.errors import BadInput
from fanfold.fleet.records import Fleet, Provider

VARIABLES: dict[Provider, str] = {"claude": "FANFOLD_CLAUDE", "codex": "FANFOLD_CODEX"}
"""Each names a program to use instead: for tests, and where it is not on PATH."""

_SOURCES: dict[Provider, str] = {
    "claude": "npm install -g @anthropic-ai/claude-code",
    "codex": "npm install -g @openai/codex",
}


def named_programs(environ: Mapping[str, str]) -> dict[Provider, str]:
    """Those that the environment names; the others are found on PATH, by their own name."""
    return {who: environ[name] for who, name in VARIABLES.items() if environ.get(name)}


def check_programs(fleet: Fleet, environ: Mapping[str, str]) -> None:
    """The program of every worker's provider is there, whoever states the provider."""
    named = named_programs(environ)
    for one in fleet.workers:
        program = named.get(one.provider, one.provider)
        if shutil.which(program, path=environ.get("PATH", "")) is None:
            variable, source = VARIABLES[one.provider], _SOURCES[one.provider]
            raise BadInput(
                f"worker `{one.id}` needs the program {program}, which is not on PATH; install it"
                f" ({source}) or name it in {variable}",
                file=fleet.file, line=one.stated.get("provider", one.line),
            )  # fmt: skip
