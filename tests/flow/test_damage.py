"""Bits that flip on the disk: what is damaged is refused and named, never told as right."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fanfold.errors import FanfoldError, StoreError
from fanfold.journal import copying, opening
from fanfold.journal.damage import damage_is_named
from fanfold.journal.facts import NameStep
from fanfold.journal.sqlite import checksum
from fanfold.journal.sqlite.folder import StoreFolder
from fanfold.journal.sqlite.migrations import MIGRATIONS
from fanfold.observe.status import listed, overview, overview_json
from fanfold.run.open import open_quietly
from fanfold.run.receipt import receipt
from fanfold.run.run import Run
from fanfold.testing.member import Scripted, traits
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.task import Budget
from tests.flow.simulation import Provider, Said, Scene, outcomes, play, words

LONG = "long " * 2000  # a reply that is kept by its hash


def says(ask: Ask, n: int) -> Said:
    text = ask.messages[0].content
    return Said(
        Reply(f"{text}, said {LONG if '3' in text else ''}", usage=Usage(9, 9)), Usage(9, 9)
    )


def paid(store: Path, provider: Provider, **more: Any) -> Scene:
    return Scene(store, (provider,), words(5), **more)


def change(store: Path, statement: str) -> int:
    """As a flipped bit would: in the file, and nowhere else."""
    with closing(sqlite3.connect(store / "journal.db", isolation_level=None)) as db:
        db.create_function("flip", 1, flip)
        return db.execute(statement).rowcount


def pause(store: Path) -> None:
    """As if the run had not ended yet."""
    change(store, "update runs set status = 'paused'")
    with closing(sqlite3.connect(store / "journal.db", isolation_level=None)) as db:
        checksum.sum_up_run(db, 1)


def flip(value: Any) -> Any:
    if isinstance(value, int):
        return value ^ 1
    raw = bytearray(value if isinstance(value, bytes) else value.encode())
    raw[len(raw) // 2] ^= 1
    return bytes(raw) if isinstance(value, bytes) else raw.decode()


DAMAGE = {
    "a reply": "update replies set reply = flip(reply) where no = 1",
    "its answerer's member": "update replies set member = flip(member) where no = 1",
    "its key": "update replies set key = flip(key) where no = 1",
    "its answerer": "update replies set answerer = flip(answerer) where no = 1",
    "whom it serves": "update replies set private = flip(private) where no = 1",
    "a large reply": "update blobs set data = flip(data)",
    "a large reply is missing": "delete from blobs",
    "a reply that is no JSON": "update replies set reply = x'7b' where no = 1",
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_reply_is_refused_and_asked_again_only_on_the_operators_word(
    memory_path: Path, case: str
) -> None:
    provider = Provider(says)
    scene = paid(memory_path, provider)
    assert play(scene).status == "complete"
    assert change(memory_path, DAMAGE[case]) == 1
    later = replace(scene, name="later")
    second = play(later)
    assert (second.status, outcomes(second)) == ("paused", {"passed": 4, "in_doubt": 1})
    assert len(provider.sent) == 5, "nothing was asked again"
    archive = opening.look(memory_path)
    run = archive.read.find("later")
    assert run is not None
    (doubt,) = archive.read.endings(run.no, ("in_doubt",))
    archive.close()
    assert (
        "key " in doubt.reasons[0]
        and "is damaged; resume with --retry-in-doubt" in doubt.reasons[0]
    )
    assert outcomes(play(later, resume=True)) == {"passed": 4, "in_doubt": 1}
    word = replace(later, settings={"retry_in_doubt": frozenset({doubt.id})})
    third = play(word, resume=True)
    assert (third.status, outcomes(third), len(provider.sent)) == ("complete", {"passed": 5}, 6)
    assert (third.maybe_paid_twice, third.maybe_paid_twice_usd > 0) == (1, True)
    fourth = play(replace(scene, name="fourth"))
    assert (fourth.status, len(provider.sent)) == ("complete", 6), "and it is sound again"
    assert fourth.result == third.result


def test_a_damaged_reply_of_a_function_is_refused_too(memory_path: Path) -> None:
    """It stands with its outcome."""
    calls: list[str] = []

    def script(ask: Ask, n: int) -> Reply | Exception:
        calls.append(ask.messages[0].content)
        return Reply(f"{ask.messages[0].content} is fine")

    member = Scripted(script, traits("f", metered=False, shared=False, price=None))
    scene = Scene(memory_path, (member,), words(3))
    assert play(scene).status == "complete"
    pause(memory_path)
    assert change(memory_path, "update outcomes set body = flip(body) where position = 1") == 1
    receipt = play(scene, resume=True)
    assert (outcomes(receipt), len(calls)) == ({"passed": 2, "in_doubt": 1}, 3)
    again = replace(scene, settings={"retry_in_doubt": None})
    assert (outcomes(play(again, resume=True)), len(calls)) == ({"passed": 3}, 4)


def test_a_sound_reply_to_the_same_ask_serves_instead(memory_path: Path) -> None:
    provider = Provider(says)
    scene = paid(memory_path, provider)
    play(scene)
    play(replace(scene, name="fresh", settings={"fresh": True}))
    assert len(provider.sent) == 10
    assert change(
        memory_path, "update replies set reply = flip(reply) where no > 5 and reply is not null"
    )
    receipt = play(replace(scene, name="later"))
    assert (receipt.status, len(provider.sent)) == ("complete", 10)


@pytest.mark.parametrize(
    ("statement", "said"),
    [("update items set id = flip(id) where position = 2", "is damaged"),
     ("update outcomes set reply = 2 where position = 0", "an outcome is damaged"),
     ("update runs set plan = x'00'", "the record of run scene"),
     ("update runs set budget = flip(budget)", "the record of run scene"),
     ("update runs set status = 'ronning'", "damaged"),
     ("update attempts set ids = x'00'", "damaged"),
     ("update attempts set state = flip(state) where no = 1", "damaged"),
     ("update outcomes set state = 'unvunded' where position = 0", "damaged")],
)  # fmt: skip
def test_what_results_are_made_of_is_refused_in_one_line_when_damaged(
    memory_path: Path, statement: str, said: str
) -> None:
    play(paid(memory_path, Provider(says)))
    change(memory_path, statement)
    with pytest.raises(StoreError, match=said) as caught:
        read_all(memory_path)
    assert "\n" not in str(caught.value)


def test_a_store_without_its_own_name_is_damaged(memory_path: Path) -> None:
    play(paid(memory_path, Provider(says)))
    change(memory_path, "delete from store")
    with pytest.raises(StoreError, match="torn or damaged"):
        read_all(memory_path)
    with pytest.raises(StoreError, match="torn or damaged"):
        play(paid(memory_path, Provider(says), name="later"))


def test_a_run_whose_record_is_gone_says_so(memory_path: Path) -> None:
    async def pattern(run: Run) -> None:
        change(memory_path, "delete from runs")
        with pytest.raises(StoreError, match="the record of run scene is damaged"):
            run.receipt()
        run.kill("nothing more to see")

    with pytest.raises(FanfoldError):
        play(paid(memory_path, Provider(says), pattern=pattern))


@pytest.mark.parametrize("where", ["index", "row"])
def test_no_reply_is_paid_again_because_its_index_is_damaged(memory_path: Path, where: str) -> None:
    """The index is made anew, unless what it would be made from is not right either."""
    provider = Provider(says)
    scene = paid(memory_path, provider)
    whole = play(scene)
    file = memory_path / "journal.db"
    if where == "row":
        change(memory_path, "update replies set key8 = flip(key8) where no = 3")
    with closing(sqlite3.connect(file)) as db:
        db.execute("pragma wal_checkpoint(truncate)")
        find = "select rootpage from sqlite_master where name = 'replies_by_key'"
        (page,) = db.execute(find).fetchone()
        (key,) = db.execute("select key from replies where no = 2").fetchone()
    content = bytearray(file.read_bytes())
    content[content.index(key[:8], (page - 1) * 4096) + 7] ^= 1
    file.write_bytes(content)
    later = replace(scene, name="later")
    if where == "row":
        with pytest.raises(StoreError, match="the key of a reply is damaged; restore a copy"):
            play(later)
    else:
        assert play(later).result == whole.result
        assert play(replace(scene, name="third")).result == whole.result
    assert len(provider.sent) == 5, "nothing was asked again"


def test_a_check_finds_pages_that_are_anothers(memory_path: Path) -> None:
    """An index whose page is that of another finds nothing, and says nothing of it."""
    play(paid(memory_path, Provider(says)))
    with closing(sqlite3.connect(memory_path / "journal.db")) as db:
        db.execute("pragma wal_checkpoint(truncate)")
        pages = dict(db.execute("select name, rootpage from sqlite_master where type = 'index'"))
    whole = bytearray((memory_path / "journal.db").read_bytes())
    first, second = ((page - 1) * 4096 for page in sorted(pages.values())[:2])
    whole[first : first + 4096] = whole[second : second + 4096]
    (memory_path / "journal.db").write_bytes(whole)
    archive = opening.look(memory_path)
    problems = copying.check(archive).problems
    archive.close()
    assert problems and problems[0].startswith("the database: ")


def test_a_failure_over_a_damaged_store_names_the_damage_and_another_one_stays_what_it_is(
    memory_path: Path,
) -> None:
    """A row of a page that is another's has what no row can have; who reckons with it fails."""
    play(paid(memory_path, Provider(says)))

    def reckoned() -> None:
        archive = opening.look(memory_path)
        try:
            with damage_is_named(archive):
                run = archive.read.find("scene")
                assert run is not None and receipt(archive.read, run).calls == 5
                raise TypeError("a defect")
        finally:
            archive.close()

    with pytest.raises(TypeError, match="a defect"):
        reckoned()
    overwrite(memory_path, "sums", "batches")
    with pytest.raises(StoreError, match=r": damaged \(.* sums\.") as caught:
        reckoned()
    assert "\n" not in str(caught.value)


def test_a_script_that_goes_on_over_a_damaged_store_is_told_so(memory_path: Path) -> None:
    provider = Provider(says)
    assert play(paid(memory_path, provider, budget=Budget(calls=3))).status == "paused"
    overwrite(memory_path, "sums", "batches")

    async def script() -> None:
        async with open_quietly("scene", members=[provider], store=memory_path):
            raise AssertionError("nothing is opened")

    with pytest.raises(StoreError, match=r": damaged \(.* sums\."):
        asyncio.run(script())


def overwrite(store: Path, table: str, other: str) -> None:
    """The first page of a table is that of another."""
    with closing(sqlite3.connect(store / "journal.db")) as db:
        db.execute("pragma wal_checkpoint(truncate)")
        pages = dict(db.execute("select name, rootpage from sqlite_master where type = 'table'"))
    whole = bytearray((store / "journal.db").read_bytes())
    to, at = ((pages[name] - 1) * 4096 for name in (table, other))
    whole[to : to + 4096] = whole[at : at + 4096]
    (store / "journal.db").write_bytes(whole)


@pytest.mark.parametrize("changed", [
    "update replies set no = 99 where no = 2",
    "update replies set member = flip(member) where no = 2",
    "update outcomes set member = flip(member) where position = 1",
])  # fmt: skip
def test_who_counts_the_answers_of_a_member_finds_a_damaged_one(
    memory_path: Path, changed: str
) -> None:
    """Else the member would have answered one item less, and somebody who is not there one more."""
    play(paid(memory_path, Provider(says)))
    assert change(memory_path, changed) == 1
    archive = opening.look(memory_path)
    with pytest.raises(StoreError, match=r"(a reply|an outcome) is damaged"):
        archive.read.answered_items(1)
    archive.close()


@pytest.mark.parametrize("changed", [
    "update attempts set cost = flip(cost) where no = 2",
    "update attempts set no = 99 where no = 2",
    "update attempts set run = 3 where no = 2",
    "update sums set input = flip(input) where run = 1",
    "update sums set member = flip(member) where run = 1",
    "update steps set name = flip(name) where run = 1",
    "update steps set run = 3 where run = 1",
    "update batches set size = flip(size) where run = 1",
    "update runs set active = 77.5 where no = 1",
    "update runs set no = 3 where no = 1",
])  # fmt: skip
def test_nothing_is_told_of_a_run_one_of_whose_rows_is_damaged(
    memory_path: Path, changed: str
) -> None:
    """Nor is it resumed. Others are as they were, and a check finds it."""
    provider = Provider(says)
    play(paid(memory_path, provider, name="other"))
    play(paid(memory_path, provider, budget=Budget(calls=3), settings={"fresh": True}))
    assert change(memory_path, changed) == 1
    archive = opening.look(memory_path)
    for question in ("spent", "tally", "step_names", "planned", "attempts"):
        with pytest.raises(StoreError, match="damaged") as caught:
            getattr(archive.read, question)(1)
        assert "\n" not in str(caught.value)
    assert receipt(archive.read, archive.read.records([2])[0]).calls == 3
    assert copying.check(archive).problems
    archive.close()
    with pytest.raises(StoreError, match="damaged"):
        play(paid(memory_path, provider, name="other"), resume=True)


@pytest.mark.parametrize("changed", [
    "update steps set name = flip(name) where run = 1",
    "update runs set status = 'paused' where no = 1",
])  # fmt: skip
def test_a_damaged_run_is_in_the_list_among_the_others(memory_path: Path, changed: str) -> None:
    """No figure of it is shown: it could be wrong."""
    for name in ("one", "other"):
        play(paid(memory_path, Provider(says), name=name, settings={"fresh": True}))
    assert change(memory_path, changed) == 1
    with closing(opening.look(memory_path)) as archive:
        runs = archive.read.runs()
        alive = archive.sessions.alive
        summaries = [listed(archive.read, one, alive, 0.0, archive.sent) for one in runs]
    lines = overview(summaries, now=0.0).splitlines()
    assert [line.split()[0:4:2] for line in lines[1:3]] == [
        ["one", "damaged"],
        ["other", "complete"],
    ]
    assert lines[1].split()[3:6] == ["?", "?", "?"]
    assert lines[4].startswith("one: ") and "damaged" in lines[4]
    rows = msgspec.json.decode(overview_json(summaries))
    assert (rows[0]["cost_usd"], rows[0]["planned"], rows[0]["resumable"]) == (None, None, False)
    assert rows[1]["cost_usd"] > 0


def test_a_row_that_is_damaged_is_not_made_right_by_changing_it(memory_path: Path) -> None:
    """Its checksum would be that of the damage."""
    play(paid(memory_path, Provider(says)))
    change(memory_path, "update steps set name = flip(name)")
    folder = StoreFolder(memory_path)
    with closing(folder.connect()) as db, pytest.raises(StoreError, match="a row of steps is dam"):
        folder.commit(db, [NameStep(1, 0, "map", "a note")])


def test_the_name_of_a_store_has_a_checksum(memory_path: Path) -> None:
    """By it the replies are found that could not be saved."""
    play(paid(memory_path, Provider(says)))
    change(memory_path, "update store set id = flip(id)")
    with pytest.raises(StoreError, match="torn or damaged"):
        opening.look(memory_path)


def test_who_follows_a_store_is_not_told_of_a_commit_that_is_damaged(memory_path: Path) -> None:
    play(paid(memory_path, Provider(says)))
    change(memory_path, "update log set facts = flip(facts) where position = 3")
    archive = opening.look(memory_path)
    with pytest.raises(StoreError, match="a record is damaged"):
        archive.since(0)
    archive.close()


def test_a_check_finds_sums_that_are_not_those_of_the_attempts(memory_path: Path) -> None:
    """Also where both are sound, each by itself."""
    play(paid(memory_path, Provider(says)))
    change(memory_path, "update sums set cost = cost + 1, checked = checked + 5")
    archive = opening.look(memory_path)
    (problem,) = copying.check(archive).problems
    archive.close()
    assert problem.startswith("sums: of run 1, step 0, member ")


def test_one_damaged_record_does_not_hide_the_other_runs(memory_path: Path) -> None:
    provider = Provider(says)
    play(paid(memory_path, provider))
    play(paid(memory_path, provider, name="other"))
    change(memory_path, "update runs set plan = x'00' where name = 'scene'")
    archive = opening.look(memory_path)
    told = {run.name: run.reason for run in archive.read.runs()}
    assert archive.read.find("other") is not None
    archive.close()
    assert told == {"scene": "its record is damaged; restore a copy of the store", "other": None}


def read_all(store: Path) -> list[Any]:
    """What a run and its report read."""
    archive = opening.look(store)
    try:
        run = archive.read.find("scene")
        assert run is not None
        read = archive.read
        return [
            read.tally(run.no), list(read.parts(run.no, 0, 0)), list(read.items_behind(run.no, 0, 0)),
            list(read.attempts_by_number([1, 2])), read.attempts(run.no), read.call_times(run.no, 10),
            read.spent(run.no),
            [one.id for one in read.endings(run.no, ("passed",))],
        ]  # fmt: skip
    finally:
        archive.close()


# ── stores without checksums ─────────────────────────────────────────────────────────────────


def test_a_store_without_checksums_opens_and_its_replies_are_reused(memory_path: Path) -> None:
    provider = Provider(says)
    scene = paid(memory_path, provider)
    truth = play(scene).result
    for table in ("runs", "items", "replies", "outcomes"):
        change(memory_path, f"alter table {table} drop column crc")
    change(memory_path, "alter table outcomes drop column body_crc")
    change(memory_path, "alter table attempts drop column took")
    change(memory_path, "drop table beats")
    change(memory_path, "drop table prompts")
    change(memory_path, "drop index attempts_submitted")
    for column in (
        "hedge_of",
        "lost",
        "queue",
        "shared",
        "saved",
        "shard",
        "submission",
        "unplaced",
    ):
        change(memory_path, f"alter table attempts drop column {column}")
    change(memory_path, "drop table log")
    change(memory_path, "drop index outcomes_notable")
    change(memory_path, "drop table orders")
    change(memory_path, "alter table runs drop column cause")
    change(memory_path, "alter table steps drop column note")
    change(memory_path, "alter table outcomes drop column by_parent")
    change(memory_path, "drop table sums")
    change(memory_path, "drop table waits")
    change(memory_path, "alter table runs drop column tags")
    change(memory_path, "drop table attached")
    for table in ("submissions", "sharers", "divisions", "ranges"):
        change(memory_path, f"drop table {table}")
    for table in ("attempts", "claims", "judging", "steps", "batches", "cascades", "store"):
        change(memory_path, f"alter table {table} drop column crc")
    change(memory_path, "alter table attempts drop column end_crc")
    for table in ("spending", "unplaced"):
        change(memory_path, f"alter table {table} drop column checked")
    change(memory_path, f"pragma user_version = {names().index('checksums')}")
    receipt = play(replace(scene, name="later"))
    assert (receipt.status, receipt.result, len(provider.sent)) == ("complete", truth, 5)


def names() -> list[str]:
    return [step.__name__ for step in MIGRATIONS]


# ── any bit ──────────────────────────────────────────────────────────────────────────────────


def flips(tmp: Path, every: int, first: int = 0) -> list[str]:
    """Flip one bit after the other in a finished store, and carry the plan out again on it. What
    went wrong: a result that is not the truth told as complete, or an error that is not ours."""
    original, store = tmp / "original", tmp / "store"
    scene = paid(original, Provider(says))
    truth = play(scene).result
    with closing(sqlite3.connect(original / "journal.db")) as db:
        db.execute("pragma wal_checkpoint(truncate)")
    whole = (original / "journal.db").read_bytes()
    wrong = []
    for at in range(first, len(whole) * 8, every):
        shutil.rmtree(store, ignore_errors=True)
        shutil.copytree(original, store)
        spoiled = bytearray(whole)
        spoiled[at // 8] ^= 1 << at % 8
        (store / "journal.db").write_bytes(spoiled)
        try:
            receipt = play(paid(store, Provider(says), name="later"))
            read_all(store)
            if receipt.status == "complete" and receipt.result != truth:
                wrong.append(f"bit {at}: told as complete: {receipt.result!r:.200}")
        except FanfoldError:
            continue
        except Exception as error:
            wrong.append(f"bit {at}: {type(error).__name__}: {error}")
    return wrong


def test_no_flipped_bit_is_told_as_right_nor_ends_in_a_traceback(memory_path: Path) -> None:
    assert flips(memory_path, 100_003) == []


@pytest.mark.sweep
def test_many_flipped_bits(memory_path: Path) -> None:
    assert flips(memory_path, 997, 11) == []
