"""The running sums of a store are what its attempts add up to, whatever became of these."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.journal.contract import Store
from fanfold.journal.facts import (
    AddRun,
    AdoptAttempts,
    LoseAttempts,
    RecordFailure,
    ReleaseClaims,
)
from fanfold.journal.sqlite.sums import COLUMNS, GROUPS, WHOLE
from fanfold.journal.sqlite.sums import SUMS as NAMES
from tests.contract.backends import BACKENDS, Backend
from tests.contract.test_store import end, record, start, within
from tests.examples import examples

KEYS = [bytes([n]) * 16 for n in range(4)]
HAPPENS = st.lists(
    st.tuples(
        st.sampled_from(["start", "ok", "error", "late", "lose", "unsent", "adopt", "release", "fail"]),
        st.integers(0, len(KEYS) - 1), st.sampled_from(["m", "n"]),
    ),
    max_size=25,
)  # fmt: skip


async def happen(store: Store, what: str, key: bytes, member: str) -> None:
    """To the last attempt at a key, which may be over."""
    mine = [one.no for one in store.read.attempts(1) if one.ids == (key.hex(),)]
    last = mine[-1] if mine else 0
    match what:
        case "start":
            await store.write(start(key, ids=(key.hex(),), member=member, step=len(mine) % 2))
        case "fail":
            await store.write(
                RecordFailure(run=1, step=0, session="s", member=member, answerer="m:1",
                              ids=(key.hex(),), error="503", at=1.0)
            )  # fmt: skip
        case "ok" | "error" | "late" if last:
            landed = {} if what == "ok" else {"landed": ()}
            await store.write(end(last, key, state=what, cost=last, bound=what == "late", **landed))
        case "lose" if last:
            await store.write(LoseAttempts((last,), 2.0))
        case "unsent" if last:
            await store.write(LoseAttempts((), 2.0, (last,)))
        case "adopt" if last:
            await store.write(AdoptAttempts(1, "t", (last,)))
        case "release":
            await store.write(ReleaseClaims("s", "m:1", (key,), 2.0))


def added_up(store: Store, question: str) -> list[Any]:
    rows = store.read._execute(question).fetchall()  # type: ignore[attr-defined]
    return sorted(tuple(row) for row in rows if any(row[3:]))


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@given(happens=HAPPENS)
@examples(25, deadline=None)
def test_sums_are_what_the_attempts_add_up_to(
    kind: str, tmp_path_factory: pytest.TempPathFactory, happens: list[tuple[str, int, str]]
) -> None:
    add_up(BACKENDS[kind](tmp_path_factory.mktemp("sums")), happens)


@given(happens=HAPPENS)
@examples(25, quick=8, deadline=None)
def test_also_on_a_server(
    tmp_path_factory: pytest.TempPathFactory, happens: list[tuple[str, int, str]]
) -> None:
    """By the same statements. Each example has a schema of its own, which takes longer than the rest."""
    add_up(BACKENDS["postgresql"](tmp_path_factory.mktemp("sums")), happens)


def add_up(backend: Backend, happens: list[tuple[str, int, str]]) -> None:

    async def act(store: Store) -> None:
        await store.write(AddRun(record()))
        for what, key, member in happens:
            await happen(store, what, KEYS[key], member)
        kept = added_up(store, f"select run, step, member, {COLUMNS} from sums")
        assert kept == added_up(store, f"{WHOLE} {GROUPS}"), dict(zip(NAMES, kept, strict=False))
        started = [one.no for one in store.read.attempts(1) if one.state == "started"]
        newest = store.read.newest(1, ("started",), 10)
        assert [one.no for one in newest] == started[::-1]

    within(backend, act)
