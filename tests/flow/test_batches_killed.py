"""Whole plans by both batch services over HTTP: killed again and again, left with Ctrl-C, late."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from signal import SIGINT

import msgspec
import pytest

from fanfold.price import Price
from fanfold.testing.batches import BatchTimes
from fanfold.testing.caches import ServerCaches
from fanfold.testing.running import threaded_server
from tests.faces.cli import fanfold, started
from tests.flow.batch_kills import (
    HALF,
    PRICE,
    ROSTER,
    carried_through,
    check,
    in_batches,
    serving,
    write_plan,
)
from tests.waiting import however_slow

pytestmark = pytest.mark.slow

KINDS = ("anthropic", "openai")


@pytest.mark.sweep
@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_sixty_moments_nothing_is_paid_twice_or_lost(tmp_path: Path, kind: str) -> None:
    """Before, during and after submissions, and between the lines of results; the answers to some
    requests are lost. A run that is done before it was killed so often is followed by another one."""
    kills = 0
    for turn in range(60):
        folder = tmp_path / str(turn)
        folder.mkdir()
        with serving(folder) as server:
            write_plan(folder, server.url, kind, items=2000, lines=160)
            ended, more = carried_through(folder, seed=turn, kills=60 - kills)
            assert (ended.code, ended.receipt["passed"], ended.receipt["in_doubt"]) == (0, 2000, 0)
            assert ended.receipt["maybe_paid_twice"] == 0
            check(server.books().asked, 2000)
        kills += more
        if kills == 60:
            return
    raise AssertionError(f"only {kills} kills")


@pytest.mark.parametrize("kind", [KINDS[0], pytest.param(KINDS[1], marks=pytest.mark.sweep)])
def test_what_is_late_is_asked_online_before_the_deadline(tmp_path: Path, kind: str) -> None:
    """Three of ten lines hang; the others are collected and not asked again."""

    def check(scale: float) -> None:
        folder, seconds = tmp_path / f"{scale:g}", 12 * scale
        folder.mkdir()
        with serving(folder) as server:
            write_plan(folder, server.url, kind, 100, 1000, within=f"{seconds:g}s", late=0.3)
            ended = fanfold(folder, "run", "plan.yaml", "--json", "--quiet")
            books = server.books()
        assert (ended.code, ended.receipt["passed"]) == (0, 100)
        entries = books.asked
        assert Counter(bool(one.batch) for one in entries if one.billed) == {True: 70, False: 30}
        assert books.paid_twice() == {}
        assert sum(one.cost for one in entries) == 70 * HALF + 30 * 2 * HALF
        assert ended.receipt["cost_usd"] == books.bill / 1e9

    however_slow(check)


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_waits_can_be_left_and_another_process_collects(
    tmp_path: Path, kind: str
) -> None:
    times = BatchTimes(latency=3600.0)
    with threaded_server(tmp_path / "books", price=PRICE, batches=times) as server:
        write_plan(tmp_path, server.url, kind, 40, 1000)
        with started(tmp_path, "run", "plan.yaml", "--name", "r") as run:
            run.until(lambda: in_batches(tmp_path / ".fanfold") == 40)
            run.send(SIGINT)
            left = run.end()
        assert left.code == 4
        assert "40 in batches, and a resume collects what comes" in left.out
        assert "40 asks in batches: `resume` collects them" in left.err
        assert "in batches  40 in batches, oldest submitted" in fanfold(tmp_path, "status", "r").out
        server.release()
        ended = fanfold(tmp_path, "resume", "r", "--json", "--quiet")
        assert (ended.code, ended.receipt["passed"], ended.receipt["in_doubt"]) == (0, 40, 0)
        assert ended.receipt["cost_usd"] == server.books().bill / 1e9
        assert [bool(one.batch) for one in server.books().asked] == [True] * 40


def test_a_plan_that_cannot_be_meant_names_its_line(tmp_path: Path) -> None:
    write_plan(tmp_path, "http://127.0.0.1:1", "openai", 3, 1000, within="soon")
    ended = fanfold(tmp_path, "run", "plan.yaml")
    assert (ended.code, ended.err) == (
        2, "fanfold: plan.yaml:5: a time is such as 90s, 30m or 6h, not 'soon'\n"
    )  # fmt: skip
    write_plan(tmp_path, "http://127.0.0.1:1", "openai", 3, 1000)
    ended = fanfold(tmp_path, "run", "plan.yaml", "--batch", "soon")
    assert (ended.code, "--batch: a time is such as" in ended.err) == (2, True)
    roster = tmp_path / "roster.yaml"
    roster.write_text(roster.read_text().replace(" batch_price: 0.5,", ""))
    for words in ((), ("--dry-run",)):
        ended = fanfold(tmp_path, "run", "plan.yaml", *words)
        assert (ended.code, ended.err) == (
            2, "fanfold: plan.yaml:5: `say`: `batch` needs a member with a batch service, and m has none that"
            " is known; if it has one, state `batch_price` in the roster (0.5 is half the price). Only"
            " members of kind openai or anthropic that are not asked elsewhere (`at`) can have one\n"
        )  # fmt: skip
    ended = fanfold(tmp_path, "graph", "plan.yaml")
    assert (ended.code, "in batches within 6h" in ended.out) == (0, True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_preview_expects_half_the_price_and_at_worst_the_whole(tmp_path: Path, kind: str) -> None:
    def previewed() -> tuple[float, float, list[str]]:
        found = msgspec.json.decode(
            fanfold(tmp_path, "run", "plan.yaml", "--dry-run", "--json").out
        )
        return found["total"]["p50_usd"], found["total"]["worst_usd"], found["notes"]

    write_plan(tmp_path, "http://127.0.0.1:1", kind, 40, 1000)
    half, worst, notes = previewed()
    assert "say: in batches at 0.5 of the price, within 6h; what is late is asked online" in notes
    plan = tmp_path / "plan.yaml"
    plan.write_text(plan.read_text().replace(", batch: {within: 6h, most: 1000}", ""))
    assert (2 * half, worst) == (pytest.approx(previewed()[0]), previewed()[1])


def test_a_preview_counts_no_caches_in_batches_and_says_where_online_is_cheaper(
    tmp_path: Path,
) -> None:
    """Nobody can say what a batch reads from a cache; online one writes what is shared, 39 read it. And so
    it is: in a batch half the price, nothing about caches; online a tenth."""
    price = Price(input=1, output=5, cache_read=0.1, cache_write=1.25)
    with threaded_server(
        tmp_path / "books", price=price, caches=ServerCaches(least=1024)
    ) as server:
        write_plan(tmp_path, server.url, "anthropic", 40, 1000)
        roster, plan = tmp_path / "roster.yaml", tmp_path / "plan.yaml"
        whole = "price: {input: 1, output: 5, cache_read: 0.1, cache_write: 1.25}"
        roster.write_text(
            roster.read_text().replace("price: {input: 1, output: 5}", whole)
            .replace("model: one", "model: claude-sonnet-4-5").replace("max_tokens: 100", "max_tokens: 8")
        )  # fmt: skip
        shared = "say, context: " + msgspec.json.encode("rule " * 20_000).decode()
        plan.write_text(plan.read_text().replace("name: say", f"name: {shared}"))
        batched, notes = _previewed(tmp_path)
        (said,) = [one for one in notes if "Without `batch`" in one]
        assert not [one for one in notes if "one ask goes first, the others wait" in one]
        ended = fanfold(tmp_path, "run", "plan.yaml", "--quiet")
        assert (ended.code, "cache:" in ended.out) == (0, False)
        assert server.books().bill / 1e9 == pytest.approx(batched, rel=0.05)
        plan.write_text(plan.read_text().replace(", batch: {within: 6h, most: 1000}", ""))
        plan.write_text(plan.read_text().replace("Say {{ item.id }}.", "Say {{ item.id }}!"))
        online, _ = _previewed(tmp_path)
        assert (online < batched / 3, f"all would take about ${online:,.2f}" in said) == (
            True,
            True,
        )


def _previewed(folder: Path) -> tuple[float, list[str]]:
    ended = fanfold(folder, "run", "plan.yaml", "--dry-run", "--json")
    found = msgspec.json.decode(ended.out)
    return found["total"]["p50_usd"], found["notes"]


def test_what_cannot_go_into_a_batch_is_not_counted_as_if_it_did(tmp_path: Path) -> None:
    """`--batch` is for the steps that can; whose member has tools of its own cannot either."""
    write_plan(tmp_path, "http://127.0.0.1:1", "openai", 4, 1000)
    plan, roster = tmp_path / "plan.yaml", tmp_path / "roster.yaml"
    stated = plan.read_text()
    for of_step, of_member, note in (
        ("", "", True),
        (", shard: {items: 2}", "", False),
        (", tools: ['os:getcwd']", "", False),
        (", hedge: {extra: 0.1}", "", False),
        ("", ", tools: ['os:getcwd']", False),
    ):
        plan.write_text(stated.replace(", batch: {within: 6h, most: 1000}", of_step))
        members = ROSTER.format(kind="openai", url="http://127.0.0.1:1")
        roster.write_text(members.replace(", batch_price", f"{of_member}, batch_price"))
        shown = {}
        for words in ((), ("--batch", "6h")):
            ended = fanfold(tmp_path, "run", "plan.yaml", "--dry-run", "--json", *words)
            shown[words] = msgspec.json.decode(ended.out)
        notes = "\n".join(shown["--batch", "6h"]["notes"])
        assert ("say: in batches at 0.5" in notes) == note
        assert ("asks with tools go online, not into batches" in notes) == bool(of_member)
        costs = [one["total"]["p50_usd"] for one in shown.values()]
        assert costs[1] == pytest.approx(costs[0] * (0.5 if note else 1))
    plan.write_text(stated.replace("batch:", "tools: ['os:getcwd'], batch:"))
    ended = fanfold(tmp_path, "run", "plan.yaml")
    assert (ended.code, ended.err) == (
        2,
        "fanfold: plan.yaml:5: state `batch` or `tools`, not both: each result of a tool would wait for a"
        " batch\n",
    )
