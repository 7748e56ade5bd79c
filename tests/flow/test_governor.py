"""The governor in a run: a stage that nobody could foresee is held, approved, capped, and resumed
with nothing paid twice."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fanfold as ff
from fanfold.errors import RunStopped
from fanfold.gates.default import default
from fanfold.members.function import function
from fanfold.run.forecast import Forecast
from fanfold.run.run import Run
from fanfold.run.settings import Govern
from fanfold.testing.member import traits
from fanfold.work.ask import Ask, Message, Reply, Usage
from fanfold.work.item import Item
from fanfold.work.outcome import Receipt
from fanfold.work.task import Task, Terms, Who
from tests.flow.simulation import Provider, Said, Scene, play

WORST = (
    1024 + len("Say word 000")
) * 1000 + 400 * 5000  # nano-dollars of one ask, without kick-back


def paid(latency: float = 1.0) -> Provider:
    return Provider(lambda ask, n: Said(Reply("fine", usage=Usage(20, 10)), Usage(20, 10), latency))


def asks(n: int, word: str = "word") -> list[Ask]:
    return [Ask((Message("user", f"Say {word} {i:03}"),)) for i in range(n)]


def terms(step: str = "map", member: str = "provider", **more: Any) -> Terms:
    more = {"revise": 0, **more}
    return Terms(step=step, gate=default(), who=Who(members=(member,)), **more)


def fan_out(*stages: list[Ask], **more: Any) -> Callable[[Run], Awaitable[None]]:
    """Governed stages one after the other, each asked in full when it may."""

    async def pattern(run: Run) -> None:
        for n, stage in enumerate(stages):
            own = terms(f"stage{n}", **more)
            await run.begin(own)
            await run.govern(own, iter(stage))
            tasks = [Task(str(at), ask, own) for at, ask in enumerate(stage)]
            async for _ in run.stream(tasks):
                pass

    return pattern


def scene(
    store: Path, member: Any, pattern: Callable[[Run], Awaitable[None]], **settings: Any
) -> Scene:
    return Scene(store, (member,), pattern=pattern, settings=settings)


def test_a_small_stage_goes_on_and_a_large_one_pauses_the_run(tmp_path: Path) -> None:
    member = paid()
    small = play(scene(tmp_path / "a", member, fan_out(asks(100)), govern=Govern(approve_over=9)))
    assert (small.status, small.calls) == ("complete", 100)
    member = paid()
    large = play(scene(tmp_path / "b", member, fan_out(asks(101)), govern=Govern(approve_over=9)))
    assert (large.status, large.calls, member.sent) == ("paused", 0, [])
    assert large.reason == (
        "stage0 would ask 101 tasks that were not in the preview, at most"
        f" ${101 * WORST / 1e9:.2f}; approve it with --yes or --max-tasks 101"
    )


def test_a_dear_stage_pauses_the_run(tmp_path: Path) -> None:
    member = paid()
    receipt = play(scene(tmp_path, member, fan_out(asks(10)), govern=Govern(approve_over=0.03)))
    assert (receipt.status, member.sent) == ("paused", [])
    assert receipt.reason == (
        "stage0 would ask 10 tasks that were not in the preview, at most $0.03;"
        " approve it with --yes or --approve-over 0.04"
    )


def resumed(
    store: Path, member: Any, pattern: Callable[[Run], Awaitable[None]], **settings: Any
) -> Receipt:
    return play(scene(store, member, pattern, **settings), resume=True)


def test_resumed_with_yes_it_goes_on_and_pays_nothing_twice(tmp_path: Path) -> None:
    """The first stage is done when the second is held; the yes of the resume is for that one."""
    member, pattern = paid(), fan_out(asks(50), asks(150, "other"))
    receipt = play(scene(tmp_path, member, pattern))
    assert (receipt.status, receipt.calls) == ("paused", 50)
    again = resumed(tmp_path, member, pattern, govern=Govern(yes=True))
    assert (again.status, again.calls, again.reused) == ("complete", 150, 50)
    assert (len(member.sent), member.sent_again) == (200, {})
    assert again.cost_usd == member.bill / 1e9


def test_on_resume_only_what_is_left_counts(tmp_path: Path) -> None:
    """An approved stage was cut off half-way; the rest is below the threshold, so nobody asks."""
    member, pattern = paid(), fan_out(asks(150), concurrency=10)

    async def interrupt(run: Run, work: asyncio.Future[Any]) -> None:
        await run.clock.sleep(8.5)
        run.pause("interrupted")

    first = play(
        scene(tmp_path, member, pattern, govern=Govern(yes=True)), meanwhile=interrupt
    )  # fmt: skip
    assert first.status == "paused" and 80 <= first.calls <= 100
    again = resumed(tmp_path, member, pattern)
    assert (again.status, again.reused) == ("complete", first.calls)
    assert (len(member.sent), member.sent_again) == (150, {})


def test_the_cap_holds_with_yes_and_over_resumes(tmp_path: Path) -> None:
    """60 and 60 are more than 100: stopping in between, or asking again, is no way around it."""
    member, pattern = paid(), fan_out(asks(60), asks(60, "other"))
    yes = Govern(yes=True, cap=100)
    receipt = play(scene(tmp_path, member, pattern, govern=yes))
    reason = (
        "stage1 would ask 60 tasks that were not in the preview after 60 before,"
        " which is above the cap of 100; allow it with --cap 120"
    )
    assert (receipt.status, receipt.reason, receipt.calls) == ("paused", reason, 60)
    again = resumed(tmp_path, member, pattern, govern=yes)
    assert (again.status, again.reason, again.calls) == ("paused", reason, 0)
    more = resumed(tmp_path, member, pattern, govern=Govern(yes=True, cap=120))
    assert (more.status, more.calls) == ("complete", 60)
    assert (len(member.sent), member.sent_again) == (120, {})


def test_somebody_is_asked_with_the_forecast_and_a_yes_holds_for_that_stage(tmp_path: Path) -> None:
    member, questions = paid(), list[Forecast]()

    async def approve(stage: Forecast) -> bool:
        questions.append(stage)
        return stage.step == "stage0"

    pattern = fan_out(asks(150), asks(120, "other"))
    receipt = play(scene(tmp_path, member, pattern, approve=approve))
    assert (receipt.status, receipt.calls) == ("paused", 150)
    assert [(one.step, one.tasks, one.calls) for one in questions] == [
        ("stage0", 150, 150),
        ("stage1", 120, 120),
    ]
    assert questions[0].worst == 150 * WORST
    assert [one.measured for one in questions] == [False, True]  # by then calls are on record
    assert questions[1].p50 == 120 * (4 * 1000 + 10 * 5000)


@pytest.mark.parametrize(("says", "status"), [(True, "complete"), (False, "paused")])
def test_a_plain_function_may_say_so_too(tmp_path: Path, says: bool, status: str) -> None:
    pattern = fan_out(asks(150))
    receipt = play(scene(tmp_path, paid(), pattern, approve=lambda stage: says))
    assert receipt.status == status


def test_with_history_a_long_worst_case_does_not_hold(tmp_path: Path) -> None:
    """At worst 60 asks cost $0.18; those on record cost 4 thousandths of a dollar."""
    member, govern = paid(), Govern(approve_over=0.1)
    first = play(scene(tmp_path, member, fan_out(asks(30)), govern=govern))
    assert first.status == "complete"
    second = play(scene(tmp_path, member, fan_out(asks(60, "other")), govern=govern))
    assert (second.status, second.calls) == ("complete", 60)


def test_several_stages_at_once_put_one_question_at_a_time(tmp_path: Path) -> None:
    member, open_questions, most = paid(), 0, 0

    async def approve(stage: Forecast) -> bool:
        nonlocal open_questions, most
        open_questions += 1
        most = max(most, open_questions)
        await asyncio.sleep(5.0)
        open_questions -= 1
        return True

    async def pattern(run: Run) -> None:
        await asyncio.gather(
            *(run.govern(terms(f"stage{n}"), asks(200, f"w{n}")) for n in range(3))
        )

    receipt = play(scene(tmp_path, member, pattern, approve=approve))
    assert (receipt.status, most) == ("complete", 1)


def test_what_free_members_answer_never_holds(tmp_path: Path) -> None:
    def count(data: Any) -> str:
        return "fine"

    member = function(count, id="provider")
    receipt = play(scene(tmp_path, member, fan_out(asks(5000)), govern=Govern(cap=10)))
    assert (receipt.status, receipt.calls) == ("complete", 5000)


def test_replies_of_earlier_runs_and_twins_do_not_count(tmp_path: Path) -> None:
    member = paid()
    assert play(scene(tmp_path, member, fan_out(asks(90)))).status == "complete"
    twice = asks(150) + asks(150)
    receipt = play(scene(tmp_path, member, fan_out(twice)))
    assert (receipt.status, receipt.calls) == ("complete", 60)


def test_a_paid_member_without_a_price_needs_a_yes(tmp_path: Path) -> None:
    like = traits("provider", price=None, tier="paid")
    member = Provider(lambda ask, n: Said(Reply("fine", usage=Usage(1, 1))), like)
    receipt = play(scene(tmp_path, member, fan_out(asks(1))))
    assert receipt.reason is not None and "at a price that is not known" in receipt.reason
    own = traits("provider", price=None, tier="local")
    member = Provider(lambda ask, n: Said(Reply("fine", usage=Usage(1, 1))), own)
    assert play(scene(tmp_path / "own", member, fan_out(asks(1)))).status == "complete"


def test_of_very_many_asks_the_number_is_exact_and_none_is_kept(tmp_path: Path) -> None:
    """Only some are measured, and they are made one by one: no more than a chunk is there."""
    made: list[weakref.ref[Said]] = []
    alive = 0

    def many() -> Iterator[Ask]:
        nonlocal alive
        for n in range(10_000):
            held = Said(Reply())  # dies with the frame that holds the ask's item
            made.append(weakref.ref(held))
            if n % 1000 == 0:
                alive = max(alive, sum(ref() is not None for ref in made))
            yield Ask((Message("user", f"w{n}"),), (Item(str(n), held),))

    async def pattern(run: Run) -> None:
        await run.govern(terms(), many())

    receipt = play(scene(tmp_path, paid(), pattern, govern=Govern(cap=10**6)))
    assert receipt.reason is not None
    assert receipt.reason.startswith("map would ask 10,000 tasks")
    assert alive < 200


def test_a_script_states_it_when_it_opens_a_run(tmp_path: Path) -> None:
    def work(govern: Govern, approve: Any = None) -> list[str]:
        member = paid(0.0)

        async def main() -> list[str]:
            async with ff.open_run(
                "script", members=[member], store=tmp_path / "s", govern=govern, approve=approve
            ) as run:
                await fan_out(asks(3))(run)
            return member.sent

        return asyncio.run(main())

    with pytest.raises(RunStopped, match="approve it with --yes or --max-tasks 3"):
        work(Govern(max_tasks=2))

    async def approve(stage: Forecast) -> bool:
        return stage.tasks == 3

    assert len(work(Govern(max_tasks=2), approve)) == 3
