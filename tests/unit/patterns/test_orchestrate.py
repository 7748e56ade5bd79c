"""A model that leads by tools: what it is told, what it may use, how often, and what is paid once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fanfold.errors import Terminal
from fanfold.journal import opening
from fanfold.observe.tree import tree, tree_json
from fanfold.patterns.delegate import new_run
from fanfold.patterns.delegate_tools import TOOLS
from fanfold.patterns.delegated_task import DelegatedTask, DelegationRules
from fanfold.patterns.orchestrate import MOST_CALLS, MOST_ROUNDS, answer, lead_order
from fanfold.run.member_sources import GivenMembers
from fanfold.run.settings import Settings
from fanfold.testing.member import Scripted, traits
from fanfold.work.ask import Ask, Call, Reply, Usage
from fanfold.work.member import Event
from fanfold.work.outcome import Outcome, Receipt
from fanfold.work.task import Budget

USED = Usage(100, 50)
PER_CALL = (100 * 1 + 50 * 5) / 1e6
Leads = Callable[[Ask], Reply]


def results(ask: Ask) -> list[dict[str, Any]]:
    """What the leader was told of its last calls; nothing before the first."""
    rounds = [] if ask.tools is None else list(ask.tools.rounds)
    return [msgspec.json.decode(one) for one in rounds[-1].results] if rounds else []


def calls(*uses: tuple[str, Any]) -> Reply:
    made = tuple(Call(f"c{n}", name, given) for n, (name, given) in enumerate(uses))
    return Reply(usage=USED, calls=made)


def said(text: str) -> Reply:
    return Reply(text, usage=USED)


class Team:
    """A leader that does as `leads` says, and two others who say back what they are asked."""

    def __init__(self, leads: Leads, **changes: Any) -> None:
        leader = traits("chief", can_orchestrate=True, takes_tools=True, **changes)
        self.seen: list[Ask] = []
        self.chief = Scripted(lambda ask, n: self._led(leads, ask), leader)
        self.others = [
            Scripted(lambda ask, n: said(f"<{ask.messages[-1].content}>"),
                     traits(id, good_at=(tag,)))
            for id, tag in (("alba", "law"), ("bruno", "art"))
        ]  # fmt: skip

    def _led(self, leads: Leads, ask: Ask) -> Reply:
        self.seen.append(ask)
        return leads(ask)

    def asked(
        self, folder: Path, budget: Budget = Budget(), **more: Any
    ) -> tuple[Outcome, Receipt]:
        async def main() -> tuple[Outcome, Receipt]:
            company = GivenMembers(self.chief, *self.others)
            who = lead_order(company.traits.values(), DelegatedTask("Do it"), RULES)
            settings = Settings(budget=budget)
            async with new_run("ask", company, settings, folder / "store") as run:
                outcome = await answer(run, who, DelegatedTask("Do it"), company, **more)
            assert run.closing is not None
            return outcome, run.closing

        return asyncio.run(main())

    @property
    def paid(self) -> tuple[int, ...]:
        return tuple(len(one.asked) for one in (self.chief, *self.others))


RULES = DelegationRules(allow_paid=True, priced=False, leading=True)
PARTS = [{"prompt": "a", "needs": ["law"]}, {"prompt": "b", "needs": ["art"]}]


def menu_then_many(ask: Ask) -> Reply:
    """Looks at the menu, delegates two parts, answers with both."""
    told = results(ask)
    if not told:
        return calls(("menu", {}))
    if "members" in told[0]:
        return calls(("delegate_many", {"tasks": PARTS}))
    return said(" and ".join(one["text"] for one in told[0]["results"]))


def shown(folder: Path) -> dict[str, Any]:
    archive = opening.look(folder / "store")
    try:
        record = archive.read.find("ask")
        assert record is not None
        return tree_json(tree(archive, record))
    finally:
        archive.close()


def test_it_looks_delegates_and_answers(tmp_path: Path) -> None:
    team = Team(menu_then_many)
    outcome, receipt = team.asked(tmp_path)
    assert (outcome.state, outcome.value, outcome.member) == ("passed", "<a> and <b>", "chief")
    assert (receipt.status, receipt.planned, receipt.passed, receipt.calls) == ("complete", 1, 1, 3)
    assert team.paid == (3, 1, 1)
    first = team.seen[0]
    assert first.tools is not None
    assert [tool.name for tool in first.tools.offered] == list(TOOLS)
    assert [message.role for message in first.messages] == ["system", "user"]


def test_the_tree_has_what_it_delegated_below_the_attempt_that_wanted_it(tmp_path: Path) -> None:
    """Each dollar once: the run's own are the leader's, the whole is all three."""
    Team(menu_then_many).asked(tmp_path)
    found = shown(tmp_path)
    attempts = found["steps"][0]["attempts"]
    assert [(one["member"], len(one["children"])) for one in attempts] == [
        ("chief", 0), ("chief", 1), ("chief", 0),
    ]  # fmt: skip
    (below,) = attempts[1]["children"]
    assert (below["name"], below["parent"], below["status"]) == (
        "delegates", attempts[1]["span"], "complete",
    )  # fmt: skip
    delegates = below["steps"][0]["attempts"]
    assert [(one["member"], one["why"], one["verdict"]) for one in delegates] == [
        ("alba", "best that is good at law", "passed"),
        ("bruno", "best that is good at art", "passed"),
    ]
    assert {one["why"] for one in attempts} == {"its turn to lead"}
    assert found["own"]["cost_usd"] == pytest.approx(3 * PER_CALL)
    assert found["total"]["cost_usd"] == pytest.approx(5 * PER_CALL)


def test_the_next_time_nothing_is_paid(tmp_path: Path) -> None:
    """Neither the leader's words nor what it delegated; also under another budget."""
    team = Team(menu_then_many)
    first, _ = team.asked(tmp_path)
    again, receipt = team.asked(tmp_path, Budget(usd=9))
    assert (again.value, again.reused) == (first.value, True)
    assert (receipt.calls, receipt.reused, receipt.cost_usd) == (0, 3, 0.0)
    assert team.paid == (3, 1, 1)


def test_after_a_crash_in_the_middle_only_the_rest_is_paid(tmp_path: Path) -> None:
    """It breaks off before the last word; what was said and delegated before is on record."""
    broken = Team(lambda ask: menu_then_many(ask) if len(broken.seen) < 3 else dies())
    with pytest.raises(KeyboardInterrupt):
        broken.asked(tmp_path)
    assert broken.paid == (3, 1, 1)
    team = Team(menu_then_many)
    assert team.asked(tmp_path)[0].value == "<a> and <b>"
    assert team.paid == (1, 0, 0)


def dies() -> Reply:
    raise KeyboardInterrupt


def test_it_is_told_nothing_that_changes_by_itself(tmp_path: Path) -> None:
    team = Team(menu_then_many)
    team.asked(tmp_path)
    (menu,), (many,) = results(team.seen[1]), results(team.seen[2])
    assert set(menu["members"][0]) == {
        "id", "good_at", "tier", "model", "price", "context", "at_once",
    }  # fmt: skip
    assert many["results"] == [
        {"index": 0, "status": "ok", "id": "1.0", "text": "<a>", "member": "alba"},
        {"index": 1, "status": "ok", "id": "1.1", "text": "<b>", "member": "bruno"},
    ]


# ── bounds ───────────────────────────────────────────────────────────────────────────────────


def test_it_cannot_go_on_for_ever(tmp_path: Path) -> None:
    """After so many rounds an answer is due, and tools are not offered for use any more."""

    def leads(ask: Ask) -> Reply:
        assert ask.tools is not None
        return said("enough") if ask.tools.closed else calls(("menu", {}))

    team = Team(leads)
    outcome, receipt = team.asked(tmp_path)
    assert (outcome.value, receipt.calls) == ("enough", MOST_ROUNDS + 1)


def test_one_that_never_answers_is_kicked(tmp_path: Path) -> None:
    team = Team(lambda ask: calls(("menu", {})))
    outcome, receipt = team.asked(tmp_path)
    assert (outcome.state, outcome.reasons) == ("kicked", ("the reply is empty",))
    assert receipt.calls == MOST_ROUNDS + 2  # the last one is kicked back once


def test_calls_beyond_the_bound_are_told_off(tmp_path: Path) -> None:
    def leads(ask: Ask) -> Reply:
        told = results(ask)
        return said(str(told[-1]["error"])) if told else calls(*[("menu", {})] * (MOST_CALLS + 2))

    assert Team(leads).asked(tmp_path)[0].value == "not done: at most 32 calls in one reply"


@pytest.mark.parametrize(
    ("use", "why"),
    [
        (("dance", {}), "there is no tool `dance`"),
        (("run_plan", {"plan": "x"}), "there is no tool `run_plan`"),
        (("delegate", "{bro"), "the arguments cannot be read: a JSON object is needed"),
        (("delegate_many", {"tasks": "x"}), "`tasks` is a list of tasks, not str"),
        (
            ("delegate_many", {"tasks": ["x"] * 10_000}),
            "10,000 tasks are too many for one call: at most 1,000; send them in parts, or write"
            " a plan for them",
        ),
        (("menu", {"a": 1}), "the arguments have no field `a`: it takes none"),
    ],
)
def test_what_it_does_wrong_is_told_to_it(tmp_path: Path, use: tuple[str, Any], why: str) -> None:
    def leads(ask: Ask) -> Reply:
        told = results(ask)
        return said(told[0]["error"]) if told else calls(use)

    outcome, receipt = Team(leads).asked(tmp_path)
    assert (outcome.value, receipt.status) == (why, "complete")


# ── who may what ─────────────────────────────────────────────────────────────────────────────


def test_delegates_are_leaves_and_the_leader_is_none(tmp_path: Path) -> None:
    def leads(ask: Ask) -> Reply:
        told = results(ask)
        if told:
            return said(told[0]["message"])
        return calls(
            ("delegate", {"prompt": "x", "member": "chief"}), ("delegate", {"prompt": "y"})
        )

    seen: list[Ask] = []
    team = Team(leads)
    team.others = [
        Scripted(lambda ask, n: (seen.append(ask), said("ok"))[1], traits("alba", takes_tools=True))
    ]
    outcome, _ = team.asked(tmp_path)
    assert outcome.value == "No member fits: chief is the one who delegates. Do this one yourself."
    assert [ask.tools for ask in seen] == [None]


def test_several_calls_at_once_get_their_ids_in_order_and_can_be_folded(tmp_path: Path) -> None:
    def leads(ask: Ask) -> Reply:
        told = results(ask)
        if not told:
            return calls(*[("delegate", one) for one in PARTS])
        if len(told) == 2:
            ids = [one["id"] for one in told]
            return calls(("reduce", {"kind": "concat", "ids": ids, "options": {"sep": "+"}}))
        return said(told[0]["text"])

    assert Team(leads).asked(tmp_path)[0].value == "<a>+<b>"


def test_with_nobody_to_delegate_to_it_answers_itself(tmp_path: Path) -> None:
    team = Team(lambda ask: said("alone"))
    team.others = []
    assert team.asked(tmp_path)[0].value == "alone"
    assert (team.seen[0].tools, len(team.seen[0].messages)) == (None, 1)


def test_what_is_too_dear_is_unfunded_and_the_rest_goes_on(tmp_path: Path) -> None:
    """One budget for leader and delegates, and it holds."""
    parts = [{"prompt": "x" * 3_000}, {"prompt": "a"}]

    def leads(ask: Ask) -> Reply:
        told = results(ask)
        if not told:
            return calls(("delegate_many", {"tasks": parts, "concurrency": 1}))
        return said(",".join(one["status"] for one in told[0]["results"]))

    team = Team(leads)
    outcome, receipt = team.asked(tmp_path, Budget(usd=0.004))
    assert (outcome.value, receipt.status) == ("unfunded,ok", "complete")
    assert shown(tmp_path)["total"]["cost_usd"] <= 0.004


def test_when_one_fails_midway_the_next_leads_and_what_was_delegated_serves_it(
    tmp_path: Path,
) -> None:
    def leads(ask: Ask) -> Reply:
        if results(ask) and "results" in results(ask)[0]:
            raise Terminal("chief: out of order", scope="member")
        return menu_then_many(ask)

    team = Team(leads, can_delegate=False)
    deputy = traits("deputy", can_orchestrate=True, takes_tools=True, can_delegate=False)
    other = Scripted(lambda ask, n: menu_then_many(ask), deputy)
    team.others.append(other)
    outcome, _ = team.asked(tmp_path)
    assert (outcome.value, outcome.member) == ("<a> and <b>", "deputy")
    assert team.paid == (3, 1, 1, 3)


def test_what_happens_is_told_while_it_happens(tmp_path: Path) -> None:
    events: list[Event] = []
    Team(menu_then_many).asked(tmp_path, tell=events.append)
    assert [event.text for event in events] == [
        "chief is asked", "chief uses menu", "chief is asked", "chief uses delegate_many",
        "chief is asked",
    ]  # fmt: skip
