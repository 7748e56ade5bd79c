"""The programs that workers are, and what they need: is it there?"""

from __future__ import annotations

import shutil
import subprocess
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


def check_worktrees(fleet: Fleet) -> None:
    """Workers in worktrees need a commit to begin from."""
    first = next((one for one in fleet.workers if one.isolation == "worktree"), None)
    if first is not None and not _has_commit(fleet.root):
        raise BadInput(
            f"`isolation: worktree` of worker `{first.id}` needs a git repository with a commit in"
            f" {fleet.root}; make one, or leave `isolation` out",
            file=fleet.file, line=first.stated.get("isolation", first.line),
        )  # fmt: skip


def _has_commit(folder: str) -> bool:
    words = ["git", "rev-parse", "--verify", "--quiet", "HEAD^{commit}"]
    try:
        return subprocess.run(words, cwd=folder, capture_output=True).returncode == 0
    except OSError:
        return False
