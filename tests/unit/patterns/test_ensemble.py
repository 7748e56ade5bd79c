"""Ensembles decide as they say, ask no more than they must, and tell who disagreed."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fanfold.errors import BadInput, Terminal, TimedOut, Transient
from fanfold.gates.checks import regex, require
from fanfold.journal import opening
from fanfold.journal.facts import EndItems
from fanfold.patterns.asked_reduce import SourcedPart, asked, compose
from fanfold.patterns.ensemble import ensemble, judged, voters
from fanfold.patterns.fold import collect, concat
from fanfold.run.run import Run
from fanfold.testing.member import Scripted, traits
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.outcome import Outcome, Receipt
from fanfold.work.vote import Vote
from tests.flow.simulation import Scene, outcomes, pause_at, play

PROMPT = "What is {{ item.text }}?"
SECOND = 1.0


def member(name: str, says: Any, **like: Any) -> Scripted:
    """Says that to everything; or by item; an exception is raised. One second each."""

    def script(ask: Ask, n: int) -> Reply | Exception:
        said = says(ask) if callable(says) else says
        if isinstance(said, Mapping) and ask.items and str(ask.items[0].data) in said:
            said = said[str(ask.items[0].data)]
        if isinstance(said, Exception):
            return said
        text, data = (said, None) if isinstance(said, str) else ("", said)
        return Reply(text, data, usage=Usage(10, 1))

    return Scripted(script, traits(name, **like), latency=SECOND)


@dataclass
class Held:
    """A vote of some members, played on the virtual clock."""

    store: Path
    members: tuple[Scripted, ...]
    knobs: dict[str, Any] = field(default_factory=dict)
    items: Any = ("six",)
    value: Any = None
    parts: Any = None
    seconds: float = 0.0

    async def pattern(self, run: Run) -> None:
        names = [one.traits.id for one in self.members if one.traits.id != "judge"]
        began = run.clock.monotonic()
        folded = await ensemble(
            run, list(self.items), **{"prompt": PROMPT, "members": names, **self.knobs}
        )
        self.value, self.seconds = folded.value, run.clock.monotonic() - began
        assert folded.batch is not None and folded.terms is not None
        self.parts = [(part.id, part.value) for part in run.passed(folded.batch, folded.terms)]

    def play(self, **how: Any) -> Receipt:
        return play(Scene(self.store, self.members, pattern=self.pattern), **how)

    def endings(self, state: Any = "passed") -> list[EndItems]:
        with closing(opening.look(self.store)) as archive:
            (run,) = archive.read.runs()
            return archive.read.endings(run.no, [state])

    @property
    def asked(self) -> list[int]:
        return [len(one.asked) for one in self.members]


def vote(path: Path, *said: Any, items: Any = ("six",), **knobs: Any) -> Held:
    members = tuple(
        one if isinstance(one, Scripted) else member(name, one)
        for name, one in zip("abcdefg", said, strict=False)
    )
    return Held(path, members, knobs, items)


# ── deciding ─────────────────────────────────────────────────────────────────────────────────


def test_most_votes_win_and_dissent_is_told(memory_path: Path) -> None:
    held = vote(memory_path, "$6", "six", "6.0")
    receipt = held.play()
    assert (receipt.status, outcomes(receipt), receipt.planned) == ("complete", {"passed": 1}, 1)
    assert held.value == [
        {
            "id": "0", "state": "passed", "answer": "$6", "votes": {"$6": 2, "six": 1}, "of": 3,
            "asked": 3, "dissent": [{"member": "b", "answer": "six"}], "absent": [], "reasons": [],
        }
    ]  # fmt: skip
    assert receipt.result == held.value
    assert held.parts == [("0", "$6")]
    assert [(one.value, one.reasons) for one in held.endings()] == [("$6", ("b said: six",))]
    assert {step.name: step.calls for step in receipt.steps} == {"ensemble": 0, "ensemble.vote": 3}


def test_the_voters_of_a_question_are_asked_at_once_and_so_are_questions(memory_path: Path) -> None:
    held = vote(memory_path, "6", "6", "7", items=range(8), concurrency=4)
    held.play()
    assert (held.seconds, held.asked) == (2 * SECOND, [8, 8, 8])
    assert [one.most_in_flight for one in held.members] == [4, 4, 4]


def test_level_votes_of_a_plurality_go_to_the_one_who_stands_first(memory_path: Path) -> None:
    held = vote(memory_path, "7", "6", "6", "7", decide="plurality")
    held.play()
    assert held.parts == [("0", "7")]


@pytest.mark.parametrize(
    ("said", "knobs", "why"),
    [
        (("x", "y", "z"), {}, "no majority: 1 x, 1 y, 1 z"),
        (("7", "6", "6", "7"), {}, "no majority: 2 7, 2 6"),
        (("6", "7"), {"weights": {"a": 1, "b": 1}}, "no majority: 1 6, 1 7"),
        (("x", "y", "z"), {"weights": {"a": 2}}, "no majority: 2 x, 1 y, 1 z"),
        (("a", "b", "c", "d", "a"), {"stop_early": True}, "no majority: 1 a, 1 b, 1 c, 1 d"),
    ],
)
def test_without_a_majority_the_question_is_kicked_and_the_count_is_why(
    memory_path: Path, said: tuple[str, ...], knobs: dict[str, Any], why: str
) -> None:
    held = vote(memory_path, *said, **knobs)
    receipt = held.play()
    assert (receipt.status, outcomes(receipt), held.parts) == ("flagged", {"kicked": 1}, [])
    assert held.endings("kicked")[0].reasons == (why,)
    assert (held.value[0]["answer"], held.value[0]["reasons"]) == (None, [why])


def test_a_majority_is_of_those_who_answered_and_by_weight(memory_path: Path) -> None:
    held = vote(memory_path, "6", Transient("503"), "6", "7", attempts=1)
    held.play()
    assert held.parts == [("0", "6")]
    held = vote(memory_path / "w", "6", "7", "8", weights={"a": 2.5})
    held.play()
    assert held.parts == [("0", "6")]


def test_a_judge_beside_a_majority_is_asked_only_where_there_is_none(memory_path: Path) -> None:
    for n, (said, times) in enumerate(((("6", "7", "6"), 0), (("6", "7", "8"), 1))):
        judge = member("judge", lambda ask: {**letter(ask, "7"), "reasons": "It is prime."})
        held = vote(memory_path / str(n), *said, judge=judged(member="judge"))
        held.members += (judge,)
        assert outcomes(held.play()) == {"passed": 1}
        assert (held.parts, len(judge.asked)) == ([("0", "7" if times else "6")], times)
        assert held.value[0].get("judge") == ("It is prime." if times else None)


def test_a_voter_that_fails_is_absent(memory_path: Path) -> None:
    held = vote(memory_path, "6", Transient("503"), "6", attempts=1)
    receipt = held.play()
    assert (receipt.status, held.parts) == ("complete", [("0", "6")])
    assert held.value[0]["absent"] == [{"member": "b", "reason": "503 (after 1 attempt)"}]
    assert held.endings()[0].reasons == ("b gave no answer: 503 (after 1 attempt)",)


@pytest.mark.parametrize(
    ("said", "knobs", "state", "why"),
    [
        (("6", Transient("503"), Transient("503")), {"attempts": 1}, "failed", "b: 503"),
        (("6", "x", "y"), {"gate": regex(r"\d"), "revise": 0}, "kicked", "b: "),
        (("6", TimedOut("late"), "x"), {"gate": regex(r"\d"), "in_doubt": "hold"}, "in_doubt", "b: late"),
    ],
)  # fmt: skip
def test_with_too_few_answers_it_ends_as_the_absent_did(
    memory_path: Path, said: Any, knobs: Any, state: Any, why: str
) -> None:
    held = vote(memory_path, *said, **knobs)
    receipt = held.play()
    assert outcomes(receipt) == {state: 1}
    (ended,) = held.endings(state)
    assert ended.reasons[0] == "1 of 3 voters answered, 2 are needed"
    assert ended.reasons[1].startswith(why) and len(ended.reasons) == 3


def test_a_quorum_that_does_not_agree_is_no_decision(memory_path: Path) -> None:
    held = vote(memory_path, "6", "7", "8", decide="quorum")
    assert outcomes(held.play()) == {"kicked": 1}
    assert held.value == [
        {
            "id": "0", "state": "kicked", "answer": None, "votes": {"6": 1, "7": 1, "8": 1},
            "of": 3, "asked": 3, "absent": [],
            "dissent": [{"member": name, "answer": said} for name, said in zip("abc", "678", strict=True)],
            "reasons": ["no quorum: at most 1 of 3 agree, 2 are needed"],
        }
    ]  # fmt: skip


def test_weights_decide(memory_path: Path) -> None:
    held = vote(memory_path, "6", "7", "7", decide="weighted", weights={"a": 2.5, "c": 1.2})
    held.play()
    assert (held.parts, held.value[0]["votes"]) == ([("0", "6")], {"6": 2.5, "7": 2.2})


def test_one_voter_gives_its_answer(memory_path: Path) -> None:
    held = vote(memory_path, "6")
    held.play()
    assert held.parts == [("0", "6")]


def test_of_no_items_there_is_nothing(memory_path: Path) -> None:
    held = vote(memory_path, "6", "7", items=())
    receipt = held.play()
    assert (held.value, receipt.status, receipt.calls) == ([], "complete", 0)


def test_a_reduce_takes_the_bare_answers(memory_path: Path) -> None:
    held = vote(memory_path, "6", "6", "7", items=("x", "y"), reduce=concat(" "))
    assert held.play().result == "6 6"


def test_a_field_is_compared_and_the_whole_reply_is_the_answer(memory_path: Path) -> None:
    told = [{"n": 6, "why": "first"}, {"n": "6.0", "why": "second"}, {"why": "none"}]
    held = vote(memory_path, *told, field="n", gate=require("why"))
    held.play()
    assert held.parts == [("0", {"n": 6, "why": "first"})]
    assert held.value[0]["answer"] == 6
    assert held.value[0]["absent"] == [{"member": "c", "reason": "the reply has no single `n`"}]


def test_a_filter_sees_the_decided_answer(memory_path: Path) -> None:
    held = vote(memory_path, "6", "6", items=("x",), keep=lambda value: value != "6")
    assert outcomes(held.play()) == {"skipped": 1}


def test_an_item_the_prompt_cannot_show_fails_alone(memory_path: Path) -> None:
    items = [{"id": "good", "text": "x"}, {"id": "bad"}]
    held = vote(memory_path, "6", "6", items=items, prompt="{{ item.text }}")
    assert outcomes(held.play()) == {"passed": 1, "failed": 1}
    assert held.value[1]["id"] == "bad"
    assert "no field `text`" in held.value[1]["reasons"][0]
    assert held.asked == [1, 1]


def test_an_undecided_question_may_abort_the_run(memory_path: Path) -> None:
    held = vote(
        memory_path, Transient("503"), Transient("503"), attempts=1, on_failure="abort",
        items=range(20), concurrency=1,
    )  # fmt: skip
    receipt = held.play()
    assert (receipt.status, receipt.failed) == ("aborted", 1)
    assert held.asked == [1, 1]


# ── samples ──────────────────────────────────────────────────────────────────────────────────


def test_samples_of_one_member_are_asks_of_their_own(memory_path: Path) -> None:
    held = vote(memory_path, lambda ask: "67677"[ask.sample], samples=5)
    held.play()
    assert (held.asked, held.seconds) == ([5], SECOND)
    assert held.parts == [("0", "7")]
    assert [one["member"] for one in held.value[0]["dissent"]] == ["a#1", "a#3"]


def test_samples_of_several_members_are_votes_of_all(memory_path: Path) -> None:
    held = vote(memory_path, lambda ask: "67"[ask.sample], "7", samples=2)
    held.play()
    assert (held.asked, held.parts, held.value[0]["of"]) == ([2, 2], [("0", "7")], 4)


# ── early stop ───────────────────────────────────────────────────────────────────────────────


def test_calls_that_cannot_change_it_are_not_made(memory_path: Path) -> None:
    held = vote(memory_path, "6", "6", "6", "7", "7", stop_early=True)
    receipt = held.play()
    assert (held.asked, receipt.calls, held.seconds) == ([1, 1, 1, 0, 0], 3, SECOND)
    assert (held.parts, held.value[0]["asked"]) == ([("0", "6")], 3)


def test_the_next_wave_is_no_larger_than_it_need_be(memory_path: Path) -> None:
    held = vote(memory_path, "6", "6", "7", "6", "7", stop_early=True)
    held.play()
    assert (held.asked, held.seconds) == ([1, 1, 1, 1, 0], 2 * SECOND)


def test_an_absent_voter_is_made_up_for(memory_path: Path) -> None:
    held = vote(memory_path, "6", Transient("503"), "6", "6", "7", stop_early=True, attempts=1)
    held.play()
    assert (held.asked, held.parts) == ([1, 1, 1, 1, 0], [("0", "6")])


def test_the_heaviest_are_asked_first(memory_path: Path) -> None:
    weights = {"a": 1, "b": 1, "c": 5}
    held = vote(memory_path, "6", "6", "7", decide="weighted", weights=weights, stop_early=True)
    held.play()
    assert (held.asked, held.parts) == ([1, 0, 1], [("0", "7")])


def test_listed_ones_are_asked_as_listed_and_the_heavy_one_decides(memory_path: Path) -> None:
    """Two cheap ones that agree are enough; where they differ, the last one's answer weighs more."""
    how: dict[str, Any] = {
        "weights": {"a": 1, "b": 1, "c": 5},
        "order": "listed",
        "confidence": 0.6,
    }
    agreed = vote(memory_path / "same", "6", "6", "7", decide="weighted", **how)
    agreed.play()
    assert (agreed.asked, agreed.parts) == ([1, 1, 0], [("0", "6")])
    differed = vote(memory_path / "not", "6", "8", "7", decide="weighted", **how)
    differed.play()
    assert (differed.asked, differed.parts) == ([1, 1, 1], [("0", "7")])


def test_a_confidence_stops_sooner(memory_path: Path) -> None:
    held = vote(memory_path, "6", "6", "7", "7", "7", confidence=1.0)
    held.play()
    assert (held.asked, held.parts) == ([1, 1, 0, 0, 0], [("0", "6")])


# ── a function decides ───────────────────────────────────────────────────────────────────────


def median(votes: list[Vote]) -> Any:
    return sorted(int(vote.value) for vote in votes)[len(votes) // 2]


def test_a_function_gives_a_value_or_a_vote(memory_path: Path) -> None:
    held = vote(memory_path / "value", "6", "9", "7", decide=median)
    held.play()
    assert held.parts == [("0", 7)]
    assert [one["member"] for one in held.value[0]["dissent"]] == ["a", "b"]
    held = vote(memory_path / "vote", "6", "9", "7", decide=lambda votes: votes[1])
    held.play()
    assert held.parts == [("0", "9")]


@pytest.mark.parametrize(
    ("decide", "state", "reason"),
    [
        (lambda votes: None, "kicked", "the function decided for no answer"),
        (lambda votes: 1 / 0, "unjudged", "the decision raised ZeroDivisionError: division by zero"),
        (lambda votes: "nothing", "kicked", "the reply does not match"),
    ],
)  # fmt: skip
def test_a_function_is_not_above_the_gate(
    memory_path: Path, decide: Any, state: Any, reason: str
) -> None:
    held = vote(memory_path, "6", "7", decide=decide, gate=regex(r"\d"))
    assert outcomes(held.play()) == {state: 1}
    assert held.endings(state)[0].reasons[0].startswith(reason)


# ── a judge decides ──────────────────────────────────────────────────────────────────────────


def seen(ask: Ask) -> list[dict[str, Any]]:
    return list(ask.items[0].data["answers"])


def letter(ask: Ask, wanted: str) -> dict[str, str]:
    return {"choice": next(one["label"] for one in seen(ask) if one["value"] == wanted)}


def test_a_judge_picks_among_answers_without_names(memory_path: Path) -> None:
    judge = member("judge", lambda ask: letter(ask, "seven"))
    held = vote(memory_path, "six", "seven", "eight", decide=judged(member="judge"))
    held.members += (judge,)
    receipt = held.play()
    assert (held.parts, held.value[0]["votes"]) == (
        [("0", "seven")], {"six": 1, "seven": 1, "eight": 1},
    )  # fmt: skip
    (shown,) = judge.asked
    assert shown.startswith("Which of these answers") and "### Question\nWhat is six?" in shown
    assert {f"### Answer {one}\n" in shown for one in "ABC"} == {True}
    assert [step.name for step in receipt.steps if step.calls] == [
        "ensemble.judge",
        "ensemble.vote",
    ]


def orders(path: Path, items: range) -> list[list[str]]:
    """In which order the judge saw the voters a, b, c, question by question."""
    said: dict[str, list[str]] = {}

    def pick(ask: Ask) -> dict[str, str]:
        said[ask.items[0].id] = [one["value"] for one in seen(ask)]
        return {"choice": "A"}

    held = vote(path, "a", "b", "c", items=items, decide=judged(member="judge"))
    held.members += (member("judge", pick),)
    held.play()
    return [said[str(n)] for n in items]


def test_the_order_of_the_answers_differs_by_question_and_is_always_the_same(
    memory_path: Path,
) -> None:
    first, again = (orders(memory_path / name, range(60)) for name in ("first", "again"))
    assert first == again
    assert len({tuple(order) for order in first}) == 6
    assert {min(sum(o[at] == name for o in first) for at in range(3)) > 8 for name in "abc"} == {
        True
    }


def test_the_judges_prompt_is_a_fork_point(memory_path: Path) -> None:
    prompt = "{{ item.text }}: {% for one in answers %}{{ one.label }}={{ one.value }} {% endfor %}"
    judge = member("judge", "B")
    held = vote(memory_path, "six", "seven", decide=judged(prompt, member="judge", step="court"))
    held.members += (judge,)
    receipt = held.play()
    assert judge.asked[0].startswith("six: A=") and "###" not in judge.asked[0]
    assert [step.name for step in receipt.steps if step.calls] == ["court", "ensemble.vote"]
    assert held.value[0]["answer"] == judge.asked[0].split("B=")[1].strip()


def test_a_judge_is_asked_for_its_reasons_and_they_are_kept(memory_path: Path) -> None:
    judge = member("judge", lambda ask: {**letter(ask, "7"), "reasons": "Seven is prime."})
    held = vote(memory_path, "6", "7", decide=judged(member="judge"))
    held.members += (judge,)
    held.play()
    assert "your reasons" in judge.asked[0]
    assert held.endings()[0].reasons == ("the judge: Seven is prime.", "a said: 6")
    assert (held.value[0]["judge"], held.value[0]["answer"]) == ("Seven is prime.", "7")


def test_voters_who_agree_do_not_dissent_from_what_a_judge_writes(memory_path: Path) -> None:
    held = vote(memory_path, "6", "6.0", decide=judged(member="judge", picks=False))
    held.members += (member("judge", "six"),)
    held.play()
    assert (held.parts, held.value[0]["dissent"]) == ([("0", "six")], [])
    assert held.endings()[0].reasons == ("all voters said: 6",)
    held = vote(memory_path / "b", "6", "7", decide=judged(member="judge", picks=False))
    held.members += (member("judge", "six or seven"),)
    held.play()
    assert [one["member"] for one in held.value[0]["dissent"]] == ["a", "b"]


def test_a_judge_may_write_the_answer_which_the_questions_gate_checks(memory_path: Path) -> None:
    judge = member("judge", lambda ask: "6 or 7" if ask.turns else "either")
    held = vote(
        memory_path, "6", "7", decide=judged(member="judge", picks=False), gate=regex(r"\d")
    )
    held.members += (judge,)
    held.play()
    assert (held.parts, len(judge.asked)) == ([("0", "6 or 7")], 2)
    assert [one["member"] for one in held.value[0]["dissent"]] == ["a", "b"]


@pytest.mark.parametrize(
    ("says", "why"),
    [
        (Transient("503"), "the judge: failed: 503 (after 4 attempts)"),
        ("neither", "the judge: kicked: name one of the answers as `choice`: A, B"),
        ({"choice": "C"}, "the judge: kicked: name one of the answers as `choice`: A, B"),
    ],
)
def test_a_judge_that_fails_leaves_the_question_unjudged(
    memory_path: Path, says: Any, why: str
) -> None:
    held = vote(memory_path, "6", "7", decide=judged(member="judge"))
    held.members += (member("judge", says),)
    assert outcomes(held.play()) == {"unjudged": 1}
    assert held.endings("unjudged")[0].reasons == (why,)


def test_where_all_agree_there_is_nothing_to_pick(memory_path: Path) -> None:
    judge = member("judge", "A")
    held = vote(memory_path, "6", "6.0", decide=judged(member="judge"))
    held.members += (judge,)
    held.play()
    assert (held.parts, judge.asked) == ([("0", "6")], [])


# ── going on, and stopping ───────────────────────────────────────────────────────────────────


def test_run_again_nothing_is_asked_again(memory_path: Path) -> None:
    judge = member("judge", lambda ask: letter(ask, "7"))
    held = vote(memory_path, "6", "7", items=range(5), decide=judged(member="judge"))
    held.members += (judge,)
    held.play()
    before, said = held.asked, held.value
    receipt = play(Scene(memory_path, held.members, name="later", pattern=held.pattern))
    assert (held.asked, held.value, receipt.calls, receipt.reused) == (before, said, 0, 15)


def test_calls_under_way_when_the_run_pauses_are_not_lost(memory_path: Path) -> None:
    held = vote(memory_path, "6", "6", "7", items=range(6), concurrency=2)
    receipt = held.play(meanwhile=pause_at(SECOND * 1.5))
    assert (receipt.status, outcomes(receipt)) == ("paused", {"passed": 4, "cancelled": 2})
    assert held.asked == [4, 4, 4]
    assert outcomes(held.play(resume=True)) == {"passed": 6}
    assert held.asked == [6, 6, 6]


def test_a_voter_with_a_dead_account_is_absent_and_the_run_goes_on(memory_path: Path) -> None:
    dead = member("c", lambda ask: Terminal("bad key", scope="pool"))
    held = vote(memory_path, "6", "6", dead, items=range(10), concurrency=1)
    receipt = held.play()
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": 10})
    assert (held.asked, held.value[9]["absent"]) == (
        [10, 10, 1], [{"member": "c", "reason": "c: bad key"}],
    )  # fmt: skip


def test_when_too_few_accounts_are_left_the_run_pauses(memory_path: Path) -> None:
    says = {"c": Terminal("no credit", scope="pool"), "b": Terminal("wrong key", scope="pool")}
    members = [member(name, says[name]) for name in "bc"]
    held = vote(memory_path, "6", *members, items=range(10), concurrency=1)
    receipt = held.play()
    assert (receipt.status, receipt.reason) == ("paused", "b: wrong key")
    assert (outcomes(receipt), held.asked) == ({"cancelled": 10}, [1, 1, 1])
    held.members = (held.members[0], member("b", "6"), member("c", "7"))
    assert outcomes(held.play(resume=True)) == {"passed": 10}
    assert held.asked == [10, 10, 10]


# ── in other patterns ────────────────────────────────────────────────────────────────────────


def test_a_vote_can_make_one_answer_of_many(memory_path: Path) -> None:
    found: list[Outcome] = []

    async def pattern(run: Run) -> None:
        way = asked("Sum up.", by=voters(["a", "b", "c"], stop_early=True), step="sum")
        found.append(
            await compose(
                run, way, "all", [SourcedPart("x", ("x",), "1"), SourcedPart("y", ("y",), 2)]
            )
        )

    members = (member("a", "Two"), member("b", "three"), member("c", "three."))
    receipt = play(Scene(memory_path, members, pattern=pattern))
    assert [(one.state, one.value, one.reasons, one.calls) for one in found] == [
        ("passed", "three", ("a said: Two",), 3)
    ]
    assert {step.name: step.calls for step in receipt.steps} == {"sum.vote": 3}
    assert "### x\n1" in members[0].asked[0]


def test_samples_of_whoever_a_task_is_for(memory_path: Path) -> None:
    found: list[Outcome] = []

    async def pattern(run: Run) -> None:
        way = asked("Sum up.", by=voters(samples=3), member="a")
        found.append(await compose(run, way, "all", []))

    a = member("a", lambda ask: "677"[ask.sample])
    play(Scene(memory_path, (a, member("b", "9")), pattern=pattern))
    assert [(one.value, len(a.asked)) for one in found] == [("7", 3)]


# ── bad input ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("knobs", "says"),
    [
        ({"quorum": 3}, "a quorum of 3 cannot be reached: there are 2 voters"),
        ({"quorum": 0}, "`quorum` must be 1 or more, not 0"),
        ({"members": []}, "nobody votes: give members=[...], or samples=n of one member"),
        (
            {"members": ["a", "a"]},
            "a is a duplicate voter; for several answers of one member use samples",
        ),
        ({"members": "ab"}, "there is no member `ab`"),
        ({"members": ["a", "z"]}, "there is no member `z`"),
        ({"samples": 0}, "`samples` must be 1 or more, not 0"),
        ({"samples": True}, "`samples` must be a whole number, not true"),
        ({"confidence": 0}, "`confidence` must be more than 0, not 0"),
        ({"confidence": 1.1}, "`confidence` is a share of the votes, at most 1, not 1.1"),
        ({"decide": "majorty"}, "unknown decide 'majorty': did you mean `majority`?; or give"),
        ({"decide": 3}, "decide is one of majority, plurality, weighted, quorum, a judge or"),
        (
            {"decide": "quorum", "weights": {"a": 2}},
            "weights go with decide='majority', 'plurality' or 'weighted'",
        ),
        ({"judge": "opus"}, "`judge` must be judged(…), not the text 'opus'"),
        ({"judge": judged(), "decide": "plurality"}, "decide='plurality' always decides; a judge"),
        ({"judge": judged(), "decide": judged()}, "`judge` is for a count of votes"),
        ({"decide": "weighted", "weights": {"z": 2}}, "weights: 'z' is no voter"),
        ({"order": "listed"}, "`order` goes with `weights`"),
        ({"weights": {"a": 2}, "order": "cost"}, "unknown order `cost`"),
        ({"decide": "weighted", "weights": {"a": -1}}, "`a` must be 0 or more, not -1"),
        ({"decide": "weighted", "weights": {"a": 0, "b": 0}}, "weights: all are 0"),
        ({"decide": median, "stop_early": True}, "stop_early and confidence go with a count"),
        ({"decide": judged(), "confidence": 0.5}, "stop_early and confidence go with a count"),
        ({"decide": judged(member="z")}, "there is no member `z`"),
        ({"escalate": ["z"]}, "there is no member `z`"),
        ({"fallback": ["b"]}, "a voter has no fallback"),
        ({"field": "a..b"}, "`a..b` is not a field"),
    ],
)
def test_what_cannot_be_is_said_before_anybody_is_asked(
    memory_path: Path, knobs: Any, says: str
) -> None:
    held = vote(memory_path, "6", "7", **knobs)
    with pytest.raises(BadInput) as raised:
        held.play()
    assert str(raised.value).startswith(says)
    assert held.asked == [0, 0]


def test_an_id_that_stands_twice_is_refused(memory_path: Path) -> None:
    held = vote(memory_path, "6", "7", items=[{"id": "x"}, {"id": "x"}], prompt="{{ item.id }}")
    with pytest.raises(BadInput, match="duplicate id"):
        held.play()
    assert held.asked == [0, 0]


def test_answers_can_be_collected_like_those_of_a_map(memory_path: Path) -> None:
    held = vote(memory_path, "6", "6", items=("x",), reduce=collect())
    held.play()
    assert held.value == [{"id": "0", "value": "6"}]
