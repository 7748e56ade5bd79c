"""A function that calls something else: what it cannot reach is tried again, what it breaks is not."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

import fanfold as ff
from fanfold.errors import Transient
from fanfold.members.function import function
from fanfold.work.ask import Ask
from fanfold.work.item import Item
from fanfold.work.member import Request, tell_nobody
from tests.places import place


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (ConnectionRefusedError("refused"), "calls: ConnectionRefusedError: refused"),
        (TimeoutError(), "calls: TimeoutError"),
    ],
)
def test_what_may_be_there_again_soon_is_transient(raised: OSError, told: str) -> None:
    def calls(item: object) -> str:
        raise raised

    with pytest.raises(Transient, match=f"^{re.escape(told + place(calls))}$") as caught:
        asyncio.run(function(calls).ask(Request(Ask(items=(Item("a", 1),))), tell_nobody))
    assert (caught.value.lost, caught.value.__cause__) == (False, raised)


@pytest.mark.parametrize(
    ("error", "times", "state"), [(ConnectionError, 3, "passed"), (OSError, 1, "failed")]
)
def test_a_run_tries_again_only_then(
    tmp_path: Path, error: type[OSError], times: int, state: str
) -> None:
    calls: list[int] = []

    def flaky(n: int) -> int:
        calls.append(n)
        if len(calls) < 3:
            raise error("gone")
        return n

    async def main() -> str:
        async with ff.open_run("calls", members=[ff.function(flaky)], store=tmp_path) as run:
            await ff.map_reduce(run, [7], reduce=ff.collect())
        closing = run.closing
        assert closing is not None
        return "passed" if closing.passed else "failed"

    assert (ff.run_sync(main()), calls) == (state, [7] * times)
