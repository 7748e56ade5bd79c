"""What every store keeps, whichever backend it is: one suite over all of them."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fanfold.errors import BadInput, InvalidReply, RunStopped, StoreBusy, StoreError
from fanfold.journal import opening
from fanfold.journal.answers import Claim, ClaimHolder, MonthUse, Unsettled
from fanfold.journal.contract import Patience, Store
from fanfold.journal.decide import month_of
from fanfold.journal.facts import (
    AddRun,
    AdoptAttempts,
    AnswerOrder,
    CloseRun,
    EndAttempt,
    EndItems,
    Fact,
    GiveOrder,
    ItemEnding,
    LoseAttempts,
    NameStep,
    NewReply,
    PlanBatch,
    PlanItems,
    ReleaseClaims,
    ReopenRun,
    RunRecord,
    StartAttempt,
    decode,
    encode,
)
from fanfold.journal.limits import MonthlyLimit
from fanfold.journal.sqlite.migrations import MIGRATIONS
from fanfold.journal.sqlite.schema import APPLICATION_ID
from fanfold.journal.sqlite.writer import Writer
from fanfold.journal.stream import Commit
from fanfold.work.ask import Reply, Usage
from tests.contract.backends import BACKENDS, Backend
from tests.unit.journal.disks import small_disk
from tests.unit.journal.test_store import fill

KEY, OTHER = b"k" * 16, b"o" * 16
MONTH = month_of(0.0)


@pytest.fixture(params=sorted(BACKENDS))
def backend(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Backend:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return BACKENDS[request.param](tmp_path)


def record(id: str = "r", **changes: Any) -> RunRecord:
    return RunRecord(**{"id": id, "name": "run", "created": 0.0, **changes})


def start(key: bytes = KEY, **changes: Any) -> StartAttempt:
    given: dict[str, Any] = {
        "run": 1, "step": 0, "session": "s", "member": "m", "answerer": "m:1", "keys": (key,),
        "ids": ("a",), "accept": ("m:1",), "reserved": 100, "reserved_tokens": 10, "at": 0.0,
    }  # fmt: skip
    return StartAttempt(**{**given, **changes})


def end(attempt: int, key: bytes = KEY, **changes: Any) -> EndAttempt:
    landed = NewReply(key, "m:1", "m", Reply("fine"), 7)
    given: dict[str, Any] = {
        "run": 1, "attempt": attempt, "usage": Usage(1, 1), "cost": 7, "at": 1.0,
        "released": (key,), "answerer": "m:1", "landed": (landed,),
    }  # fmt: skip
    return EndAttempt(**{**given, **changes})


def within(backend: Backend, act: Callable[[Store], Awaitable[Any]], place: str = "") -> Any:
    """Open it, act, close it."""

    async def main() -> Any:
        store = backend.open(place or None)
        try:
            return await act(store)
        finally:
            store.close()

    return asyncio.run(main())


async def write(store: Store, *facts: Fact) -> list[Any]:
    """One commit."""
    return list(await asyncio.gather(*map(store.write, facts)))


# ── orders ───────────────────────────────────────────────────────────────────────────────────


def test_an_order_is_answered_once_and_stays_on_record(backend: Backend) -> None:
    async def act(store: Store) -> list[Any]:
        await write(store, AddRun(record()), AddRun(record("other")))
        first = await store.write(GiveOrder(1, 1.0, "ann", "pause"))
        second = await store.write(GiveOrder(1, 2.0, "ann", "set", "budget=3"))
        new = b'{"usd": 3.0}'
        answers = [
            await store.write(AnswerOrder(first, 3.0, "refused", "it has ended")),
            await store.write(AnswerOrder(second, 4.0, "done", budget=new)),
            await store.write(AnswerOrder(second, 5.0, "refused", "too late", b"{}")),
        ]
        found = store.read.find("r")
        assert (found is not None and found.budget) == new
        third = await store.write(GiveOrder(1, 6.0, "bob", "resume"))
        open_orders = [one.no for one in store.read.orders(1, ("given",))]
        assert (open_orders, store.read.orders(2)) == ([third], [])
        shown = [(o.by, o.what, o.value, o.state, o.answered, o.said) for o in store.read.orders(1)]
        return [answers, shown]

    assert within(backend, act) == [
        [True, True, False],
        [
            ("ann", "pause", "", "refused", 3.0, "it has ended"),
            ("ann", "set", "budget=3", "done", 4.0, ""),
            ("bob", "resume", "", "given", None, ""),
        ],
    ]


# ── claims ───────────────────────────────────────────────────────────────────────────────────


def test_a_key_is_claimed_by_one_and_known_to_all_after_its_reply(backend: Backend) -> None:
    async def act(store: Store) -> list[Any]:
        await store.write(AddRun(record()))
        first, second = await write(store, start(), start(session="t"))
        await store.write(end(first.attempt))
        return [first, second, await store.write(start(session="t"))]

    holder = ClaimHolder(KEY, 1, "s", "started", 100)
    assert within(backend, act) == [Claim(attempt=1), Claim(held=(holder,)), Claim(known=(KEY,))]


def test_a_hedge_may_have_the_keys_of_the_attempt_beside_it(backend: Backend) -> None:
    async def act(store: Store) -> Any:
        await store.write(AddRun(record()))
        await store.write(NameStep(1, 0, "map"))
        await store.write(start())
        await store.write(start(beside=1, why="hedge: 9 s without an answer"))
        return [(one.no, one.hedge_of) for one in store.read.attempts(1)], store.read.spent(1)

    attempts, spent = within(backend, act)
    assert (attempts, spent[0].hedged) == ([(1, None), (2, 1)], 1)


def test_a_hedge_whose_process_dies_is_in_doubt_also_when_the_other_has_answered(
    backend: Backend,
) -> None:
    """It was found by its claim, which went with the reply to the same ask: it stayed in progress for ever,
    and the money that is reserved for it was not counted."""

    async def act(store: Store) -> list[Any]:
        await store.write(AddRun(record()))
        await store.write(start())
        await store.write(start(beside=1))
        await store.write(end(1))
        found = store.read.open_attempts()
        await store.write(LoseAttempts(tuple(no for no, _ in found), 5.0))
        known = (await store.write(start(session="t"))).known
        doubt = [(one.no, one.keys) for one in store.read.attempts_in_doubt(1)]
        return [found, known, [one.state for one in store.read.attempts(1)], doubt]

    assert within(backend, act) == [[(2, "s")], (KEY,), ["ok", "in_doubt"], [(2, (KEY,))]]


def test_an_error_frees_the_key_and_a_cancelled_start_too(backend: Backend) -> None:
    async def act(store: Store) -> list[Any]:
        await store.write(AddRun(record()))
        await store.write(start())
        await store.write(end(1, state="error", error="503", landed=(), cost=0))
        await store.write(start(session="t"))
        freed = await store.write(ReleaseClaims("t", "m:1", (KEY,), 2.0))
        again = await store.write(start())
        return [freed, again.attempt, [one.lost for one in store.read.attempts(1)]]

    assert within(backend, act) == [(2,), 3, ["", "cancelled", ""]]


def test_private_replies_serve_only_their_run(backend: Backend) -> None:
    async def act(store: Store) -> list[Any]:
        await write(store, AddRun(record("a")), AddRun(record("b")))
        await store.write(start())
        private = NewReply(KEY, "m:1", "m", Reply("fine"), 7, True)
        await store.write(end(1, landed=(private,)))
        accept = frozenset({"m:1"})
        served = [bool(store.read.known([KEY], accept, run)) for run in (1, 2)]
        return [served, (await store.write(start(run=2))).attempt]

    assert within(backend, act) == [[True, False], 2]


# ── doubt ────────────────────────────────────────────────────────────────────────────────────


def test_what_a_dead_session_had_started_is_in_doubt_and_repeated_on_record(
    backend: Backend,
) -> None:
    async def act(store: Store) -> list[Any]:
        living = store.sessions.enter()
        await store.write(AddRun(record()))
        await write(store, start(session="dead"), start(OTHER, session=living))
        store.sent.mark(1)
        lost = await store.recover(5.0)
        refused = await store.write(start(take_over=False))
        again = await store.write(start())
        known = store.read.attempts(1)
        return [
            lost, [holder.attempt for holder in refused.doubt], again.attempt,
            [(one.state, one.lost, one.again, one.repeats) for one in known],
            store.read.unsettled(1, "in_doubt"),
        ]  # fmt: skip

    assert within(backend, act) == [
        1, [1], 3,
        [("in_doubt", "died", True, 0), ("started", "", False, 0), ("started", "", False, 1)],
        Unsettled(1, 100),
    ]  # fmt: skip


def test_what_was_surely_never_sent_is_refunded(backend: Backend) -> None:
    async def act(store: Store) -> list[Any]:
        await store.write(AddRun(record()))
        await write(store, start(session="dead"), start(OTHER, session="dead"))
        await store.write(LoseAttempts((1, 2), 5.0, unsent=(2,)))
        claims = await write(store, start(take_over=False), start(OTHER, take_over=False))
        known = store.read.attempts(1)
        return [[claim.attempt for claim in claims], [(o.state, o.lost, o.cost) for o in known]]

    assert within(backend, act) == [
        [0, 3],
        [("in_doubt", "died", 100), ("error", "unsent", 0), ("started", "", 100)],
    ]


def test_a_repetition_that_was_never_sent_is_not_the_one_that_counts(backend: Backend) -> None:
    """Two deaths: the first call is in doubt, its repetition was claimed and not sent. The third is
    what may be paid twice, and is counted as that, once."""

    async def act(store: Store) -> list[Any]:
        await store.write(AddRun(record()))
        await store.write(start(session="dead"))
        await store.write(LoseAttempts((1,), 5.0))
        await store.write(start(session="dead too", take_over=True))
        await store.write(LoseAttempts((2,), 6.0, unsent=(2,)))
        await store.write(start(take_over=True))
        known = store.read.attempts(1)
        return [(one.lost, one.again, one.repeats) for one in known]

    assert within(backend, act) == [("died", True, 0), ("unsent", False, 0), ("", False, 1)]


def test_of_voters_with_the_same_question_each_repetition_counts_by_itself(
    backend: Backend,
) -> None:
    """The calls of both are in doubt, then the repetition of the second; that of the first was not sent.
    What repeats the first after that may be paid twice."""
    one, other = {"answerer": "m:1"}, {"member": "n", "answerer": "n:1", "accept": ("n:1",)}

    async def act(store: Store) -> list[Any]:
        await store.write(AddRun(record()))
        await write(store, start(session="dead", **one), start(session="dead", **other))
        await store.write(LoseAttempts((1, 2), 5.0))
        await store.write(start(session="dead too", take_over=True, **other))
        await store.write(start(session="dead too", take_over=True, **one))
        await store.write(LoseAttempts((3, 4), 6.0, unsent=(4,)))
        await store.write(start(take_over=True, **one))
        await store.write(start(take_over=True, **other))
        known = store.read.attempts(1)
        return [(one.lost, one.again, one.repeats) for one in known]

    assert within(backend, act) == [
        ("died", True, 0), ("died", True, 0), ("died", True, 1), ("unsent", False, 0),
        ("", False, 1), ("", False, 1),
    ]  # fmt: skip


def test_what_another_has_adopted_is_not_lost_with_the_session_it_was_of(backend: Backend) -> None:
    """Whoever waited for the dead session may learn of its end late."""

    async def act(store: Store) -> list[Any]:
        await write(store, AddRun(record()), start())
        states: list[Any] = []
        for fact in (
            LoseAttempts((1,), 5.0, (), ("s",)),
            AdoptAttempts(1, "t", (1,)),
            LoseAttempts((1,), 6.0, (1,), ("s",)),
            LoseAttempts((1,), 7.0, (), ("t",)),
        ):
            await store.write(fact)
            states.append((store.read.attempt_state(1), store.read.session_of(1)))
        return states

    in_doubt, adopted = ("in_doubt", ""), ("started", "t")
    assert within(backend, act) == [in_doubt, adopted, adopted, in_doubt]


def test_a_private_reply_settles_the_doubt_of_its_own_run_only(backend: Backend) -> None:
    async def act(store: Store) -> list[Any]:
        await write(
            store, AddRun(record()), AddRun(record("other")), start(), start(run=2, session="t")
        )
        await store.write(LoseAttempts((1,), 5.0))
        again = await store.write(start(run=2, session="t"))
        own = NewReply(KEY, "m:1", "m", Reply("fine"), 7, True)
        await store.write(end(again.attempt, run=2, landed=(own,)))
        held = await store.write(start(session="u", take_over=False))
        return [again.attempt > 0, held.attempt, len(held.doubt)]

    assert within(backend, act) == [True, 0, 1]


def test_an_attempt_in_doubt_can_be_adopted_once(backend: Backend) -> None:
    async def act(store: Store) -> list[Any]:
        await store.write(AddRun(record()))
        await store.write(start())
        await store.write(LoseAttempts((1,), 5.0))
        doubt = store.read.attempts_in_doubt(1)
        return [
            [(one.no, one.keys, one.cost) for one in doubt],
            await store.write(AdoptAttempts(1, "t", (1,))),
            await store.write(AdoptAttempts(1, "u", (1,))),
            [(one.state, one.lost) for one in store.read.attempts(1)],
        ]

    assert within(backend, act) == [[(1, (KEY,), 100)], (1,), (), [("started", "")]]


# ── budgets ──────────────────────────────────────────────────────────────────────────────────


def test_the_budget_of_a_month_counts_all_runs_and_what_is_in_doubt(backend: Backend) -> None:
    """`now` is refused until something in progress ends; `never` whatever it costs."""

    async def act(store: Store) -> list[Any]:
        await write(store, AddRun(record("a")), AddRun(record("b")))
        monthly = MonthlyLimit(MONTH, 250)
        keys = [bytes([n]) * 16 for n in range(6)]
        first = await write(store, *(start(key, monthly=monthly) for key in keys[:3]))
        used = store.read.month_uses(MONTH)
        await store.write(end(1, keys[0], monthly=True))
        fits = await store.write(start(keys[3], run=2, monthly=monthly))
        await store.write(LoseAttempts((2,), 5.0))
        never = await store.write(start(keys[4], run=2, monthly=monthly, reserved=200))
        adds_up = store.read.month_uses(MONTH)["m"] == store.read.month_use("m", MONTH)
        return [[claim.broke for claim in first], used, fits.attempt, never.broke, adds_up]

    assert within(backend, act) == [["", "", "now"], {"m": MonthUse(0, 200)}, 3, "never", True]


def test_a_run_within_another_spends_within_its_budget(backend: Backend) -> None:
    async def act(store: Store) -> list[Any]:
        budget = b'{"usd": 0.00000015}'  # 150 nano-dollars
        await store.write(AddRun(record("A" * 26, name="outer", session="s", budget=budget)))
        await store.write(start(reserved=0))
        below = record("B" * 26, name="inner", session="t", parent=f"{'A' * 26}:1")
        await store.write(AddRun(below))
        claims = await write(
            store, start(OTHER, run=2, session="t"), start(b"x" * 16, run=2, session="t")
        )
        return [(claim.attempt, claim.broke, claim.short and claim.short.scope) for claim in claims]

    assert within(backend, act) == [(2, "", None), (0, "never", "run outer")]


# ── runs ─────────────────────────────────────────────────────────────────────────────────────


async def planned(store: Store, items: int) -> None:
    await store.write(AddRun(record(session="s")))
    await store.write(NameStep(1, 0, "map"))
    await store.plan_items((1, 0, n, f"i{n}", b"hash") for n in range(items))
    await store.write(PlanBatch(1, 0, "input", "f", items, 0))


def test_every_planned_item_has_an_outcome_when_the_run_is_closed(backend: Backend) -> None:
    async def act(store: Store) -> list[Any]:
        await planned(store, 3)
        await store.write(EndItems(1, (ItemEnding(0, 1, 0, "failed", ("bad",), "m"),)))
        closing = CloseRun(run=1, status="paused", reason="budget", at=9.0, active=4.0,
                           result=None, rest="unfunded")  # fmt: skip
        await store.write(closing)
        return [
            {state: n for state, n in store.read.tally(1).items() if n},
            list(store.read.reasons(1, ("failed", "unfunded"))),
        ]

    assert within(backend, act) == [
        {"failed": 1, "unfunded": 2},
        [("i0", ("budget",)), ("i1", ("bad",)), ("i2", ("budget",))],
    ]


def test_a_closed_run_is_taken_over_by_one_and_goes_on_with_what_is_not_final(
    backend: Backend,
) -> None:
    """Also after the store was closed and opened again."""

    async def first(store: Store) -> None:
        await planned(store, 2)
        await store.write(start())
        done = ItemEnding(0, 0, 0, "passed", (), "m", 7, 1, 0)
        await store.write(end(1, endings=(done,)))
        closing = CloseRun(run=1, status="paused", reason="why", at=9.0, active=4.0, result=None,
                           rest="unfunded")  # fmt: skip
        await store.write(closing)

    async def again(store: Store) -> list[Any]:
        answers = await write(store, ReopenRun(1, "t", b"{}", "s"), ReopenRun(1, "u", b"{}", "s"))
        found = store.read.find("run")
        assert found is not None
        parts = [(part.id, part.value) for part in store.read.parts(1, 0, 0)]
        return [answers, found.session, found.status, parts, store.read.settled(1, 0, 0, 2)]

    within(backend, first)
    assert within(backend, again) == [
        [True, False], "t", "running", [("i0", "fine")], bytearray([1, 0]),
    ]  # fmt: skip


def test_after_a_crash_at_any_commit_it_is_paid_once_and_nothing_is_lost(backend: Backend) -> None:
    """The image is what the crash leaves: what it holds serves, what was started is in doubt."""
    keys = [bytes([n]) * 16 for n in range(3)]
    images: dict[int, str] = {}

    async def crashing(store: Store) -> None:
        await planned(store, 3)
        for n, key in enumerate(keys):
            claim = await store.write(start(key, ids=(f"i{n}",)))
            ending = ItemEnding(0, n, 0, "passed", (), "m", 7, 1, 0)
            await store.write(end(claim.attempt, key, endings=(ending,)))

    def crash(commit: int) -> None:
        images[commit] = backend.image()

    async def run() -> None:
        store = backend.open(after_commit=crash)
        await crashing(store)
        store.close()

    async def again(store: Store) -> list[Any]:
        in_doubt = await store.recover(5.0)
        known = store.read.known(keys, frozenset({"m:1"}), 1)
        claims = [await store.write(start(key)) for key in keys]
        served = [claim.known == (key,) for claim, key in zip(claims, keys, strict=True)]
        return [in_doubt, len(known), served.count(True), len(list(store.read.parts(1, 0, 0)))]

    asyncio.run(run())
    assert list(images) == list(range(1, 11))
    for commit, image in images.items():
        replies = max(
            0, (commit - 4) // 2
        )  # four commits plan, then each start and each end is one
        in_doubt = int(commit > 4 and commit % 2 == 1)
        found = within(backend, again, image)
        assert found == [in_doubt, replies, replies, replies], commit


# ── sessions ─────────────────────────────────────────────────────────────────────────────────


def test_a_session_is_alive_until_it_leaves(backend: Backend) -> None:
    async def act(store: Store) -> list[Any]:
        session = store.sessions.enter()
        entered = [store.sessions.life(session), opening.sessions(store.place).alive(session)]
        owner = store.sessions.owner(session)
        store.sessions.leave(session)
        gone = [store.sessions.life(session), store.sessions.alive(session)]
        return [entered, owner is not None, gone, store.sessions.owner(session)]

    assert within(backend, act) == [["alive", True], True, ["dead", False], None]


# ── the stream of commits ────────────────────────────────────────────────────────────────────


def test_a_subscriber_hears_every_commit_in_order_with_its_answers(backend: Backend) -> None:
    async def act(store: Store) -> list[Any]:
        heard: list[Commit] = []
        stop = store.subscribe(heard.append)
        await store.write(AddRun(record()))
        await write(store, start(), NameStep(1, 0, "map"))
        stop()
        await store.write(end(1))
        positions = [commit.position for commit in heard]
        return [
            [[type(fact) for fact in commit.facts] for commit in heard],
            [list(commit.answers) for commit in heard], positions == sorted(set(positions)),
        ]  # fmt: skip

    kinds, answers, ordered = within(backend, act)
    assert kinds == [[AddRun], [StartAttempt, NameStep]]
    assert (answers, ordered) == ([[1], [Claim(attempt=1), None]], True)


def test_a_subscriber_that_raises_does_not_disturb_the_run(backend: Backend) -> None:
    async def act(store: Store) -> list[Any]:
        reported: list[str] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, said: reported.append(str(said["exception"])))

        def fail(commit: Commit) -> None:
            raise ValueError("broken")

        store.subscribe(fail)
        return [await store.write(AddRun(record())), reported]

    assert within(backend, act) == [1, ["broken"]]


def test_a_follower_gets_all_that_was_committed_in_order_and_without_gaps(
    backend: Backend,
) -> None:
    async def act(store: Store) -> list[Any]:
        before = store.position
        await planned(store, 2)
        await store.write(start())
        seen = opening.look(store.place)
        first = seen.since(before)
        assert first is not None
        await write(store, end(1, endings=(ItemEnding(0, 0, 0, "passed", (), "m", 7, 1, 0),)))
        seen.close()
        later = opening.look(store.place).since(first[-1].position)
        assert later is not None
        return [
            [type(fact) for commit in first for fact in commit.facts],
            [answer for commit in first for answer in commit.answers],
            [fact for commit in later for fact in commit.facts],
            opening.look(store.place).since(later[-1].position),
        ]

    kinds, answers, later, rest = within(backend, act)
    assert kinds == [AddRun, NameStep, PlanBatch, StartAttempt]
    assert (answers, rest) == ([1, None, None, Claim(attempt=1)], [])
    (ended,) = later
    assert (ended.cost, ended.landed) == (7, ()), "the reply itself is not in it"
    assert ended.endings == (ItemEnding(0, 0, 0, "passed", (), "m", 7, 1, 0),)


def test_a_follower_whose_position_is_gone_is_told_so(backend: Backend) -> None:
    """What is an hour older than the newest fact is dropped when a store is opened and written."""

    async def old(store: Store) -> int:
        await write(store, AddRun(record()), start())
        await store.write(end(1, at=10.0))
        return store.position

    async def new(store: Store) -> list[Any]:
        await store.write(start(OTHER, at=10_000.0))
        return [store.since(0), len(store.since(store.position - 1) or ())]

    assert within(backend, old) == 2
    assert within(backend, new) == [None, 1]


def test_facts_have_a_wire_form() -> None:
    for fact in (start(), end(1), AddRun(record()), LoseAttempts((1, 2), 3.0)):
        assert decode(encode(fact)) == fact


# ── places ───────────────────────────────────────────────────────────────────────────────────


def test_only_a_store_that_is_there_can_be_looked_at(backend: Backend) -> None:
    assert not opening.exists(backend.place)
    with pytest.raises(StoreError, match="no such store"):
        opening.look(backend.place)
    backend.open().close()
    assert opening.exists(backend.place)
    seen = opening.look(backend.place)
    assert (seen.place, seen.read.runs(), seen.warnings) == (backend.place, [], ())
    seen.close()


def test_files_beside_it_are_there_until_it_is_closed(backend: Backend) -> None:
    store = backend.open()
    (store.spool() / "input").write_text("items")
    assert (store.files / "inputs" / "input").read_text() == "items"
    store.close()


def test_a_store_without_a_name_is_new_each_time_and_leaves_nothing() -> None:
    first, second = opening.open_store("memory:"), opening.open_store("memory:")
    asyncio.run(_add(first))
    assert (len(first.read.runs()), len(second.read.runs())) == (1, 0)
    folder = first.files
    first.close()
    second.close()
    assert not folder.exists() and not opening.exists("memory:")


async def _add(store: Store) -> None:
    await store.write(AddRun(record()))


def test_a_kind_of_store_that_is_not_there_is_refused_in_one_line() -> None:
    with pytest.raises(BadInput, match="mysql:` are not there"):
        opening.open_store("mysql://server/name")


# ── several processes ────────────────────────────────────────────────────────────────────────

_CHILD = """
import asyncio, sys
from fanfold.journal.opening import open_store
from tests.contract.test_store import KEY, start

async def main():
    store = open_store(sys.argv[1])
    claim = await store.write(start(session=store.sessions.enter()))
    print(claim.attempt, store.position, flush=True)
    sys.stdin.read()

asyncio.run(main())
"""


def _claiming(place: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", _CHILD, place]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_two_processes_share_a_store(backend: Backend) -> None:
    """What one claims the other sees as held, and in doubt when its process was killed."""
    if not backend.shared:
        assert not opening.outlives_process(backend.place)
        return

    async def act(store: Store) -> list[Any]:
        await store.write(AddRun(record()))
        position = store.position
        child = _claiming(store.place)
        assert child.stdout is not None
        claimed = int((await asyncio.to_thread(child.stdout.readline)).split()[0])
        followed = store.since(position)
        held = await store.write(start())
        living = await store.recover(2.0)
        child.kill()
        await asyncio.to_thread(child.communicate)
        assert followed is not None
        return [
            claimed, [type(fact) for commit in followed for fact in commit.facts],
            [holder.attempt for holder in held.held], living, await store.recover(3.0),
        ]  # fmt: skip

    assert within(backend, act) == [1, [StartAttempt], [1], 0, 1]


def test_what_is_planned_is_found_by_its_ids(backend: Backend) -> None:
    async def act(store: Store) -> list[Any]:
        await planned(store, 3)
        await store.write(PlanItems([]))
        read = store.read
        return [read.item_ids(1), read.has_item(1, "i1"), read.item_positions(1, "i2"),
                read.planned_items(1, 0, 1, 1), read.planned(1)]  # fmt: skip

    assert within(backend, act) == [
        ["i0", "i1", "i2"], True, [(0, 2)], [("i1", b"hash")], 3,
    ]  # fmt: skip


# ── what only a store on a disk knows ────────────────────────────────────────────────────────


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS)))
def test_a_store_of_every_earlier_version_is_brought_up_to_date(
    tmp_path: Path, version: int
) -> None:
    with closing(sqlite3.connect(tmp_path / "journal.db", isolation_level=None)) as db:
        for migration in MIGRATIONS[:version]:
            migration(db)
        db.execute(f"pragma application_id = {APPLICATION_ID}")
        db.execute(f"pragma user_version = {version}")

    async def act(store: Store) -> list[Any]:
        before = store.position
        await store.write(AddRun(record()))
        await store.write(start())
        await store.write(end(1))
        followed = store.since(before)
        return [store.read.attempts(1)[0].state, followed is not None and len(followed)]

    assert within(BACKENDS["sqlite"](tmp_path), act, str(tmp_path)) == ["ok", 3]


def test_on_a_full_disk_what_is_in_progress_is_recorded_and_nothing_starts(tmp_path: Path) -> None:
    async def act(folder: Path, filler: Path) -> list[Any]:
        store = opening.open_store(folder, thread=False)
        reasons: list[str] = []
        store.when_in_trouble(reasons.append)
        await store.write(AddRun(record()))
        await store.write(start())
        fill(filler)
        await store.write(end(1))
        with pytest.raises(RunStopped):
            await store.write(start(OTHER, reserved_tokens=1 << 20))
        store.close()
        return [bool(reasons), opening.look(folder).read.attempts(1)[0].state]

    with small_disk(tmp_path / "disk", "8m") as disk:
        assert asyncio.run(act(disk / "store", disk / "filler")) == [True, "ok"]


# ── a fact that cannot be stored ─────────────────────────────────────────────────────────────


class Busy:
    """A store that is locked by another at one of the commits."""

    def __init__(self, home: Any, at: int) -> None:
        self._home, self._at, self.commits = home, at, 0

    def commit(self, db: Any, facts: list[Any], **how: Any) -> Any:
        self.commits += 1
        if self.commits == self._at:
            raise StoreBusy("locked on purpose")
        return self._home.commit(db, facts, **how)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._home, name)


@pytest.mark.parametrize("at", range(6))
def test_the_others_of_its_group_are_applied_once_whenever_the_store_is_busy(
    backend: Backend, at: int
) -> None:
    """Half a surrogate pair is a text that no store can hold."""

    async def act(store: Any) -> tuple[list[Any], list[str], list[int]]:
        await write(store, AddRun(record()))
        writer = Writer(Busy(store.home, at), thread=False, patience=Patience(between=0.001))
        seen: list[int] = []
        writer.subscribe(lambda commit: seen.append(len(commit.facts)))
        facts = [GiveOrder(1, 1.0, "ann", what) for what in ("pause", "\ud800", "resume")]
        given = await asyncio.gather(*map(writer.write, facts), return_exceptions=True)
        writer.close()
        return given, [one.what for one in store.read.orders(1)], seen

    (first, refused, last), orders, seen = within(backend, act)
    assert (first, type(refused), last) == (1, InvalidReply, 2)
    assert (orders, seen) == (["pause", "resume"], [2])


@pytest.mark.parametrize("at", range(5))
def test_an_attempt_whose_reply_cannot_be_stored_ends_with_its_group_also_when_the_store_is_busy(
    backend: Backend, at: int
) -> None:
    """What it took is on record when another begins with the money that came back."""

    async def act(store: Any) -> tuple[list[Any], list[tuple[str, int]]]:
        await write(store, AddRun(record()), start())
        writer = Writer(Busy(store.home, at), thread=False, patience=Patience(between=0.001))
        reply = NewReply(KEY, "m:1", "m", Reply("\ud800"), 7)
        facts = [end(1, landed=(reply,)), start(OTHER)]
        given = await asyncio.gather(*map(writer.write, facts), return_exceptions=True)
        await writer.write(GiveOrder(1, 1.0, "ann", "pause"))
        writer.close()
        return given, [(one.state, one.cost) for one in store.read.attempts(1)]

    (refused, claim), attempts = within(backend, act)
    assert (type(refused), claim.attempt) == (InvalidReply, 2)
    assert sorted(attempts)[0] == ("error", 7)
