"""The tree of runs, steps, attempts and the runs they started; each dollar once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fanfold.errors import Transient
from fanfold.gates.checks import require
from fanfold.journal import opening
from fanfold.journal.facts import AddRun, EndAttempt, NameStep, RunRecord, StartAttempt
from fanfold.journal.opening import open_store
from fanfold.observe.tree import ALL, SHOWN, RunNode, draw_tree, tree, tree_json
from fanfold.testing.clock import VirtualClock, run_virtual
from fanfold.testing.member import Scripted, traits
from fanfold.work.ask import Ask, Reply, Usage
from tests.unit.observe.runs import answering, contracts, number, ran, reviewed

CENT = 10_000_000
ROOT, CHILD, SIDE, DEEP, FREE = (letter * 26 for letter in "ABCDE")


class Books:
    """Writes runs with attempts into a store, by hand: who started whom is what is looked at."""

    def __init__(self, store: Path) -> None:
        self.journal = open_store(store, thread=False)

    async def run(self, id: str, parent: str | None = None) -> int:
        record = RunRecord(id=id, name=f"run-{id[0].lower()}", created=0.0, status="complete",
                           parent=parent)  # fmt: skip
        no: int = await self.journal.write(AddRun(record))
        await self.journal.write(NameStep(no, 0, "map"))
        return no

    async def attempt(self, run: int, cents: int, **more: Any) -> int:
        member, seconds = more.pop("member", "haiku"), more.pop("seconds", 1.0)
        key = f"{run}/{cents}/{member}/{more.pop('n', 0)}".encode()
        start = StartAttempt(
            run=run, step=0, session="s", member=member, answerer=member, keys=(key,),
            ids=(key.decode(),), accept=(member,), reserved=cents * CENT, reserved_tokens=0, at=10.0,
        )  # fmt: skip
        claim = await self.journal.write(start)
        fact = EndAttempt(
            run=run, attempt=claim.attempt, cost=cents * CENT, at=10.0 + seconds, answerer=member,
            released=(key,), usage=Usage(cents, cents), **more,
        )  # fmt: skip
        await self.journal.write(fact)
        number: int = claim.attempt
        return number


def family(store: Path) -> None:
    """A root with two attempts; the first started CHILD, which started DEEP; SIDE was started by an
    attempt that is not on record, FREE by an unmetered call of the root."""

    async def main(clock: VirtualClock) -> None:
        books = Books(store)
        root = await books.run(ROOT)
        boss = await books.attempt(root, 5, member="boss", seconds=9.0)
        await books.attempt(root, 2)
        child = await books.run(CHILD, f"{ROOT}:{boss}")
        inner = await books.attempt(child, 10)
        deep = await books.run(DEEP, f"{CHILD}:{inner}")
        await books.attempt(deep, 20, state="error", error="503: try\nlater")
        side = await books.run(SIDE, f"{ROOT}:999")
        await books.attempt(side, 40)
        free = await books.run(FREE, ROOT)
        await books.attempt(free, 80)
        stranger = await books.run("F" * 26, "G" * 26)
        await books.attempt(stranger, 1000)
        books.journal.close()

    run_virtual(main)


def grown(store: Path, name: str, most: int = SHOWN) -> RunNode:
    archive = opening.look(store)
    try:
        record = archive.read.find(name)
        assert record is not None
        return tree(archive, record, most=most)
    finally:
        archive.close()


def test_children_hang_below_the_attempt_that_started_them(tmp_path: Path) -> None:
    family(tmp_path)
    root = grown(tmp_path, ROOT)
    limbs = {limb.account.member: limb for limb in root.steps[0].members}
    (boss,) = limbs["boss"].attempts
    assert [child.run.id for child in boss.children] == [CHILD]
    assert [
        child.run.id for child in boss.children[0].steps[0].members[0].attempts[0].children
    ] == [DEEP]
    assert [child.run.id for child in root.children] == [SIDE, FREE]
    assert limbs["haiku"].attempts[0].children == ()


def test_the_total_has_each_dollar_once_and_no_strangers(tmp_path: Path) -> None:
    family(tmp_path)
    root = grown(tmp_path, ROOT)
    assert (root.own.cost, root.own.calls, root.own.runs) == (7 * CENT, 2, 1)
    assert (root.whole.cost, root.whole.calls, root.whole.runs) == (157 * CENT, 6, 5)
    assert root.whole.usage == Usage(157, 157)
    assert (root.whole.errors, root.own.errors) == (1, 0)
    child = grown(tmp_path, CHILD)
    assert (child.own.cost, child.whole.cost, child.whole.runs) == (10 * CENT, 30 * CENT, 2)


def test_it_is_drawn_with_the_total_first(tmp_path: Path) -> None:
    family(tmp_path)
    assert draw_tree(grown(tmp_path, ROOT), 120).splitlines() == [
        f"run-a {ROOT} complete: 5 runs, 6 calls, 314 tokens, $1.57 ($0.07 its own), 1 error, 0.0s",
        "├─ map",
        "│  ├─ boss: 1 call, 10 tokens, $0.05, 9.0s",
        "│  │  └─ #1 1/5/boss/0: replied, 10 tokens, $0.05, 9.0s",
        f"│  │     └─ run-b {CHILD} complete: 2 runs, 2 calls, 60 tokens,"
        " $0.30 ($0.10 its own), 1 error, 0.0s",
        "│  │        └─ map",
        "│  │           └─ haiku: 1 call, 20 tokens, $0.10, 1.0s",
        "│  │              └─ #3 2/10/haiku/0: replied, 20 tokens, $0.10, 1.0s",
        f"│  │                 └─ run-d {DEEP} complete: 1 call, 40 tokens, $0.20, 1 error, 0.0s",
        "│  │                    └─ map",
        "│  │                       └─ haiku: 1 call, 40 tokens, $0.20, 1 error, 1.0s",
        "│  │                          └─ #4 3/20/haiku/0: error, 40 tokens, $0.20, 1.0s: 503: try later",
        "│  └─ haiku: 1 call, 4 tokens, $0.02, 1.0s",
        "│     └─ #2 1/2/haiku/0: replied, 4 tokens, $0.02, 1.0s",
        f"├─ run-c {SIDE} complete: 1 call, 80 tokens, $0.40, 0.0s",
        "│  └─ map",
        "│     └─ haiku: 1 call, 80 tokens, $0.40, 1.0s",
        "│        └─ #5 4/40/haiku/0: replied, 80 tokens, $0.40, 1.0s",
        f"└─ run-e {FREE} complete: 1 call, 160 tokens, $0.80, 0.0s",
        "   └─ map",
        "      └─ haiku: 1 call, 160 tokens, $0.80, 1.0s",
        "         └─ #6 5/80/haiku/0: replied, 160 tokens, $0.80, 1.0s",
    ]


def verdicts(branch: RunNode) -> dict[str, list[str]]:
    """By item, what became of its attempts, in their order."""
    found: dict[str, list[str]] = {}
    for step in branch.steps:
        for twig in [twig for limb in step.members for twig in limb.attempts]:
            for id in twig.attempt.ids:
                found.setdefault(id.removeprefix("contract-"), []).append(twig.verdict)
    return found


def test_an_attempt_tells_what_became_of_its_reply(tmp_path: Path) -> None:
    """1 lacks its evidence at first, 2 always, 3 is refused, 4 is lost once, the gate stumbles at 5."""
    reviewed(tmp_path)
    assert verdicts(grown(tmp_path, "contract-review", ALL)) == {
        "000": ["passed"], "001": ["kicked back", "passed"], "002": ["kicked back", "kicked"],
        "003": ["error"] * 4, "004": ["in doubt", "passed"], "005": ["unjudged"],
        "006": ["passed"], "007": ["passed"], "008": ["passed"], "009": ["passed"],
    }  # fmt: skip


def test_repeats_of_what_was_in_doubt_are_told(tmp_path: Path) -> None:
    reviewed(tmp_path)
    branch = grown(tmp_path, "contract-review", ALL)
    assert (branch.own.errors, branch.own.in_doubt, branch.own.repeats) == (4, 1, 1)
    text = draw_tree(branch, 200)
    assert "4 errors, 1 in doubt, 1 repeat" in text.splitlines()[0]
    (line,) = [line for line in text.splitlines() if "repeats 1 attempt in doubt" in line]
    assert "contract-004: passed" in line


def test_of_a_big_run_the_notable_attempts_are_shown_and_all_are_counted(tmp_path: Path) -> None:
    def script(ask: Ask, n: int) -> Reply | Exception:
        contract = number(ask)
        if contract in (50, 60):
            return Transient("503")
        return Reply("fine", usage=Usage(100, contract + 1))

    member = Scripted(script, traits("haiku", max_tokens=400))
    ran(tmp_path, "big", [member], contracts(200), attempts=1)
    branch = grown(tmp_path, "big")
    (limb,) = branch.steps[0].members
    assert [twig.attempt.ids[0] for twig in limb.attempts] == [
        "contract-050", "contract-060", "contract-197", "contract-198", "contract-199",
    ]  # fmt: skip
    assert (limb.more, limb.account.calls, branch.own.calls) == (195, 200, 200)
    answered = [n for n in range(200) if n not in (50, 60)]
    assert branch.own.cost == sum(100_000 + 5000 * (n + 1) for n in answered)
    assert draw_tree(branch).splitlines()[-1] == "      └─ … and 195 attempts more"
    whole = grown(tmp_path, "big", ALL)
    assert (len(whole.steps[0].members[0].attempts), whole.own) == (200, branch.own)


def test_of_many_child_runs_the_dearest_are_drawn_and_the_rest_added_up(tmp_path: Path) -> None:
    async def main(clock: VirtualClock) -> None:
        books = Books(tmp_path)
        root = await books.run(ROOT)
        boss = await books.attempt(root, 1)
        for n in range(25):
            child = await books.run(f"{n:026}", f"{ROOT}:{boss}")
            await books.attempt(child, n + 1)
        books.journal.close()

    run_virtual(main)
    branch = grown(tmp_path, ROOT)
    assert (branch.whole.runs, branch.whole.cost) == (26, (1 + 25 * 26 // 2) * CENT)
    lines = draw_tree(branch, 200).splitlines()
    assert lines[-1].endswith("└─ … and 5 runs more, $0.15")
    assert sum(" complete: " in line for line in lines) == 21
    assert (
        sum(" complete: " in line for line in draw_tree(branch, everything=True).splitlines()) == 26
    )


def test_calls_that_cost_nothing_are_counted_without_attempts(tmp_path: Path) -> None:
    free = answering(metered=False, price=None)
    ran(tmp_path, "free", [free], contracts(3))
    branch = grown(tmp_path, "free")
    (limb,) = branch.steps[0].members
    assert (limb.account.calls, limb.attempts, limb.more) == (3, (), 0)
    assert (branch.own.calls, branch.own.cost) == (3, 0)
    assert draw_tree(branch).splitlines()[1:] == ["└─ map", "   └─ haiku: 3 calls, $0.00"]


def test_replies_of_earlier_runs_are_told_as_reused(tmp_path: Path) -> None:
    ran(tmp_path, "first", [answering()], contracts(3))
    ran(tmp_path, "second", [answering()], contracts(3))
    branch = grown(tmp_path, "second")
    assert (branch.own.calls, branch.own.cost) == (0, 0)
    assert (
        draw_tree(branch).splitlines()[-1]
        == "   └─ haiku: 0 calls, $0.00, 3 items from replies of earlier runs"
    )


def test_a_shard_tells_how_many_of_its_items_ended_how(tmp_path: Path) -> None:
    def script(ask: Ask, n: int) -> Reply:
        answers = [{"id": f"contract-{i:03}", "answer": {"ok": 1} if i else {}} for i in range(3)]
        return Reply(data={"answers": answers}, usage=Usage(10, 10))

    ran(tmp_path, "shards", [Scripted(script, traits("haiku"))], contracts(3), shard=3, revise=0,
        schema={"type": "object"}, gate=require("ok"))  # fmt: skip
    (limb,) = grown(tmp_path, "shards").steps[0].members
    assert [twig.verdict for twig in limb.attempts] == ["1 kicked, 2 passed"]


def test_a_run_that_names_itself_as_its_parent_is_drawn_once(tmp_path: Path) -> None:
    """Anyone can write into an environment."""

    async def main(clock: VirtualClock) -> None:
        books = Books(tmp_path)
        root = await books.run(ROOT, f"{CHILD}:2")
        first = await books.attempt(root, 1)
        child = await books.run(CHILD, f"{ROOT}:{first}")
        await books.attempt(child, 2)
        books.journal.close()

    run_virtual(main)
    for name in (ROOT, CHILD):
        branch = grown(tmp_path, name)
        assert (branch.whole.runs, branch.whole.cost) == (2, 3 * CENT)


def test_as_json_it_is_nested(tmp_path: Path) -> None:
    family(tmp_path)
    found = tree_json(grown(tmp_path, CHILD))
    deep = found["steps"][0]["attempts"][0].pop("children")
    assert [(run["run"], run["parent"]) for run in deep] == [(DEEP, f"{CHILD}:3")]
    tokens = {"input": 10, "output": 10, "cache_read": 0, "cache_write": 0}
    none = {"errors": 0, "in_doubt": 0, "repeats": 0, "at_most": False}
    assert found == {
        "run": CHILD, "name": "run-b", "parent": f"{ROOT}:1", "status": "complete", "reason": None,
        "seconds": 0.0, "outcomes": {}, "children": [],
        "own": {"runs": 1, "calls": 1, "tokens": tokens, "cost_usd": 0.1, **none},
        "total": {"runs": 2, "calls": 2, "cost_usd": 0.3, **none, "errors": 1,
                  "tokens": {"input": 30, "output": 30, "cache_read": 0, "cache_write": 0}},
        "steps": [{
            "name": "map",
            "members": [{"member": "haiku", "calls": 1, "reused": 0, "tokens": tokens,
                         "cost_usd": 0.1, "seconds": 1.0, "not_shown": 0, **none}],
            "attempts": [{"attempt": 3, "span": f"{CHILD}:3", "member": "haiku",
                          "items": ("2/10/haiku/0",), "state": "ok", "verdict": "replied",
                          "tokens": tokens, "cost_usd": 0.1, "at_most": False, "seconds": 1.0, "error": None,
                          "why": "", "repeats": 0}],
        }],
    }  # fmt: skip
