"""Scripts: members without a file, a roster's settings, and how a run that stops says what to do."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import fanfold as ff
from fanfold.errors import BadInput, RateLimited, RunStopped, TimedOut
from fanfold.patterns.ensemble import voters
from fanfold.patterns.vote_rules import judged
from fanfold.testing.running import RunningServer, threaded_server
from fanfold.work.ask import Reply
from tests.waiting import LONG

STAND_IN = Path(__file__).parents[1] / "faces" / "stand_in.py"
ITEMS = [{"id": str(n), "text": f"text {n}"} for n in range(3)]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with threaded_server(tmp_path / "books") as running:
        yield running


def mapped(store: Path, **options: Any) -> Any:
    async def main() -> Any:
        async with ff.open_run("r", store=store, **options) as run:
            return await ff.map_reduce(
                run, ITEMS, prompt="Say {{ item.text }}", reduce=ff.collect()
            )

    return asyncio.run(main())


def test_a_run_that_is_closed_takes_nothing_more(tmp_path: Path) -> None:
    """What is given to it behind its `async with` is refused in a line."""

    async def main() -> None:
        members = [ff.function(lambda item: "fine", id="f")]
        async with ff.open_run("done", store=tmp_path / "s", members=members) as run:
            await ff.map_reduce(run, ITEMS)
        with pytest.raises(BadInput, match=r"^done is closed; use a run within its `async with`$"):
            await ff.map_reduce(run, ITEMS)

    asyncio.run(main())


# ── members without a file ───────────────────────────────────────────────────────────────────


def roster_of(folder: Path, text: str) -> Path:
    (folder / "roster.yaml").write_text(text, encoding="utf-8")
    return folder / "roster.yaml"


def test_nothing_is_paid_twice_when_a_member_moves_between_script_and_roster(
    tmp_path: Path, server: RunningServer
) -> None:
    entry = f"{{id: old, kind: openai, model: m, base_url: '{server.url}/v1'}}"
    roster = roster_of(tmp_path, f"members: [{entry}]\n")
    made = ff.openai("m", base_url=f"{server.url}/v1")
    first = mapped(tmp_path / "a", roster=roster)
    assert mapped(tmp_path / "a", members=[made]).value == first.value
    assert server.totals().asked == 3
    mapped(tmp_path / "b", members=[made])
    assert mapped(tmp_path / "b", roster=roster).receipt.reused == 3
    assert server.totals().asked == 6


def test_a_command_of_a_script_shares_its_replies_with_that_of_a_roster(tmp_path: Path) -> None:
    words = [sys.executable, "-c", "print(open('n', 'a').write('x'))"]
    made = ff.command(words, version=1, price={"call": 0.0})
    roster = roster_of(
        tmp_path, f"members: [{{id: c, kind: command, cmd: {words}, version: 1, price: {{call: 0.0}}}}]"
    )  # fmt: skip
    first = mapped(tmp_path / "store", roster=roster)
    again = mapped(tmp_path / "store", members=[made])
    assert (first.receipt.calls, again.receipt.calls, again.receipt.reused) == (3, 0, 3)


def test_an_agent_of_a_script_works_here_and_shares_its_replies_with_that_of_a_roster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "claude"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {STAND_IN} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    fields: dict[str, Any] = {"program": str(program), "max_budget_usd": 2.0, "version": 1}
    made = ff.agent("claude", model="claude-haiku-4-5", **fields)
    stated = ", ".join(f"{name}: {value}" for name, value in fields.items())
    entry = f"{{id: c, kind: claude, model: claude-haiku-4-5, {stated}}}"
    first = mapped(tmp_path / "store", members=[made])
    again = mapped(tmp_path / "store", roster=roster_of(tmp_path, f"members: [{entry}]"))
    assert (first.receipt.calls, again.receipt.calls, again.receipt.reused) == (3, 0, 3)


@pytest.mark.parametrize("named", [True, False])
def test_a_paid_member_that_is_handed_over_may_be_used(tmp_path: Path, named: bool) -> None:
    """Whether a roster beside it allows paid ones or not, and whether it is named or found."""
    roster = roster_of(
        tmp_path, "members: [{id: other, kind: command, cmd: [cat], enabled: false}]"
    )
    made = ff.command(["cat"], id="paid", tier="paid", price={"call": 1.0})

    async def main() -> Any:
        members = {"members": [made]} if named else {}
        async with ff.open_run("r", roster=roster, members=[made], store=tmp_path / "s") as run:
            return await ff.map_reduce(run, ITEMS, prompt="x", **members)  # type: ignore[arg-type]

    assert asyncio.run(main()).receipt.passed == 3


def test_a_paid_member_of_the_roster_needs_a_word(tmp_path: Path) -> None:
    paid = "{id: m, kind: command, cmd: [cat], tier: paid, enabled: true, price: {call: 1.0}}"
    roster = roster_of(tmp_path, f"members: [{paid}]")
    with pytest.raises(BadInput, match="paid; allow it"):
        mapped(tmp_path / "s", roster=roster)
    assert mapped(tmp_path / "s", roster=roster, allow_paid=True).receipt.passed == 3


def test_a_member_stands_for_its_id_wherever_one_is_named(tmp_path: Path) -> None:
    cat = ff.command(["cat"], id="cat", price={"call": 0.0})
    judge = ff.function(lambda data, ask: {"pass": True, "reasons": []}, id="judge")
    picks = ff.function(lambda data: {"choice": "A"}, id="picks")
    words = ff.function(lambda data: "words", id="words")

    async def main() -> None:
        members = [cat, judge, picks, words]
        async with ff.open_run("r", members=members, store=tmp_path / "s") as run:
            gate = ff.judge("Good? {{ reply }}", member=judge)
            how: dict[str, Any] = {"gate": gate, "escalate": [words], "fallback": [words]}
            for passed, who in ((3, {"member": cat}), (6, {"members": [cat]})):
                done = await ff.map_reduce(run, ITEMS, prompt="x", **who, **how)  # type: ignore[arg-type]
                assert done.receipt.passed == passed
        async with ff.open_run("v", members=members, store=tmp_path / "s") as run:
            done = await ff.ensemble(
                run, ITEMS, prompt="x", members=[cat, words], decide=judged(member=picks)
            )
            assert done.receipt.passed == 3
        async with ff.open_run("b", members=members, store=tmp_path / "s") as run:
            stage = ff.stage("x", by=voters([cat, words], decide="plurality"))
            assert (await ff.pipeline(run, ITEMS, stage)).receipt.passed == 3

    asyncio.run(main())


def test_a_command_never_sees_the_keys_of_others_wherever_they_are_stated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("KEY_OF_ROSTER", "KEY_OF_SCRIPT", "NO_KEY"):
        monkeypatch.setenv(name, "seen")
    show = "import os; print([n for n in ('KEY_OF_ROSTER', 'KEY_OF_SCRIPT', 'NO_KEY') if n in os.environ])"
    listed = f'{{id: listed, kind: command, cmd: [{sys.executable}, -c, "{show}"]}}'
    api = "{id: api, kind: openai, model: m, key: env:KEY_OF_ROSTER}"
    roster = roster_of(tmp_path, f"members:\n  - {listed}\n  - {api}\n")
    made = ff.command([sys.executable, "-c", show], id="made")
    other = ff.openai("n", key="env:KEY_OF_SCRIPT")

    async def main() -> None:
        members = [made, other]
        async with ff.open_run("r", roster=roster, members=members, store=tmp_path / "s") as run:
            for id in ("listed", "made"):
                done = await ff.map_reduce(
                    run, ["x"], prompt="x", member=id, reduce=ff.collect(), step=id
                )
                assert [part["value"] for part in done.value] == [["NO_KEY"]] or [
                    part["value"].strip() for part in done.value
                ] == ["['NO_KEY']"]

    asyncio.run(main())


# ── the settings of a roster ─────────────────────────────────────────────────────────────────

BARRIER = """\
import asyncio

waiting, gate = 0, asyncio.Event()

async def answer(data):
    global waiting
    waiting += 1
    if waiting == 80:
        gate.set()
    await gate.wait()
    return "done"
"""


@pytest.mark.parametrize("stated", ["roster", "script"])
def test_as_many_calls_at_once_as_the_roster_says(tmp_path: Path, stated: str) -> None:
    """80 calls wait for one another: with fewer at once this would never end."""
    name = f"barrier_{stated}"
    (tmp_path / f"{name}.py").write_text(BARRIER, encoding="utf-8")
    settings = "settings: {max_concurrency: 80}" if stated == "roster" else ""
    member = f"{{id: f, kind: function, target: '{name}:answer', limits: {{concurrency: 200}}}}"
    roster = roster_of(tmp_path, f"members: [{member}]\n{settings}\n")
    options: dict[str, Any] = {} if stated == "roster" else {"max_concurrency": 80}

    async def main() -> Any:
        async with asyncio.timeout(LONG):
            async with ff.open_run("r", roster=roster, store=tmp_path / "s", **options) as run:
                return await ff.map_reduce(run, range(80), concurrency=200)

    assert asyncio.run(main()).receipt.passed == 80


@pytest.mark.parametrize("stated", ["roster", "script"])
def test_nobody_waits_longer_than_the_roster_says(tmp_path: Path, stated: str) -> None:
    settings = "settings: {max_wait: 5}" if stated == "roster" else ""
    roster = roster_of(tmp_path, f"members: [{{id: f, kind: command, cmd: [cat]}}]\n{settings}\n")
    options: dict[str, Any] = {} if stated == "roster" else {"max_wait": 5}

    def later(data: Any) -> Reply:
        raise RateLimited("rate limited", retry_after=100.0)

    async def main() -> None:
        member = ff.function(later, id="later")
        run_of = ff.open_run("r", roster=roster, members=[member], store=tmp_path / "s", **options)
        async with asyncio.timeout(LONG), run_of as run:
            await ff.map_reduce(run, ["x"], member=member)

    with pytest.raises(RunStopped, match="`max_wait` is 5 seconds"):
        asyncio.run(main())


# ── how it says what to do ───────────────────────────────────────────────────────────────────

OUT_OF_MONEY = """\
import fanfold as ff

async def main():
    member = ff.function(str, id="dear", price={"call": 1.0})
    async with ff.open_run("dear", members=[member], budget=ff.Budget(usd=1.5), progress=False) as run:
        await ff.map_reduce(run, range(5))

ff.run_sync(main())
"""


def test_a_script_out_of_budget_ends_with_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "dear.py").write_text(OUT_OF_MONEY, encoding="utf-8")
    command = [sys.executable, "dear.py"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    *before, last = ended.stderr.splitlines()
    assert ended.returncode == 1
    assert last.startswith("fanfold.errors.RunStopped: paused: out of budget: dollars of the run")
    assert last.endswith(
        "; raise `budget` and run the script again to continue; what is on record is not paid again"
    )
    assert ended.stderr.count("Traceback") == 1
    assert [line for line in before if "map_reduce" in line] == []


def test_another_stop_says_so_too_and_shows_no_inner_error(tmp_path: Path) -> None:
    @asynccontextmanager
    async def opened() -> Any:
        async with ff.open_run("r", members=[ff.function(str)], store=tmp_path) as run:
            yield run

    async def main() -> None:
        async with opened() as run:
            run.pause("enough for today")
            await ff.map_reduce(run, ["x"])

    with pytest.raises(RunStopped) as stopped:
        asyncio.run(main())
    assert str(stopped.value) == "paused: enough for today; run the script again to continue"
    assert stopped.value.__suppress_context__


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"on_failure": "hold"}, "3 failed items are held; run the script again to try them again"),
        ({"in_doubt": "hold"}, "items in doubt are held; run the script again with"
                               " `retry_in_doubt=None` to repeat them"),
    ],
)  # fmt: skip
def test_what_is_held_is_said_at_the_end_of_a_script(
    tmp_path: Path, how: dict[str, Any], said: str
) -> None:
    """Its run is paused, though nothing stopped it early."""

    def lost(item: object) -> str:
        raise TimedOut("no answer") if "in_doubt" in how else ValueError("not this one")

    async def main() -> None:
        members = [ff.function(lost, price={"call": 0.01})]
        async with ff.open_run("r", store=tmp_path / "s", members=members) as run:
            await ff.map_reduce(run, ITEMS, prompt="x", **how)

    with pytest.raises(RunStopped) as stopped:
        asyncio.run(main())
    assert str(stopped.value) == f"paused: {said}"


async def nothing() -> None:
    """Something to run."""


def test_run_sync_in_a_running_loop_says_what_to_write_instead() -> None:
    async def notebook() -> None:
        ff.run_sync(nothing())

    with pytest.raises(BadInput) as refused:
        asyncio.run(notebook())
    assert str(refused.value) == (
        "run_sync() cannot be used where an event loop runs already (a notebook, an async function);"
        " write `await nothing()` instead"
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (nothing, "not the function nothing; call it: run_sync(nothing())"),
        (None, "not empty; give it main()"),
        (5, "not the number 5; give it main()"),
    ],
)
def test_run_sync_takes_a_coroutine(given: Any, said: str) -> None:
    with pytest.raises(BadInput) as refused:
        ff.run_sync(given)
    assert str(refused.value) == f"run_sync() needs a coroutine, {said}"


MISTAKEN = """\
import fanfold as ff

async def main():
    async with ff.open_run("r", members=[ff.function(str)], store="memory:", progress=False) as run:
        await ff.map_reduce(run, range(5), promt="x")

ff.run_sync(main())
"""


def test_a_wrong_argument_shows_the_lines_of_the_script_and_one_of_ours(tmp_path: Path) -> None:
    (tmp_path / "mistaken.py").write_text(MISTAKEN, encoding="utf-8")
    command = [sys.executable, "mistaken.py"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    lines = ended.stderr.splitlines()
    where = [line.strip().split(", ")[0] for line in lines if line.startswith("  File ")]
    ours = [one for one in where if "mistaken.py" not in one]
    assert (len(where), len(ours)) == (3, 1)
    assert ours[0].endswith('arguments.py"')
    assert lines[-1].endswith("map_reduce() has no argument `promt`: did you mean `prompt`?")
