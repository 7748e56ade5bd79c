"""Delegation without a transport: who takes a task, what comes back, what the receipt says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from fanfold.errors import BadInput, Terminal
from fanfold.patterns.delegate import MOST_TASKS, REDUCES, Desk, new_run
from fanfold.patterns.delegate_tools import use_tool
from fanfold.patterns.delegated_task import (
    DelegatedResult,
    DelegatedTask,
    DelegationRules,
    delegated_task,
    eligible,
)
from fanfold.price import Price
from fanfold.run.member_sources import GivenMembers
from fanfold.run.settings import Settings
from fanfold.testing.member import Scripted, traits
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.member import MemberLimits
from fanfold.work.outcome import Receipt
from fanfold.work.task import Budget

USED = Usage(10, 5)
PER_CALL = (10 * 1 + 5 * 5) / 1e6  # dollars, at the price that scripted members have


def echo(ask: Ask, n: int) -> Reply:
    return Reply(f"<{ask.messages[-1].content}>", usage=USED)


def in_groups_of(size: int) -> Any:
    """Replies come when so many are asked for at once; with fewer at once there would be none."""
    together = asyncio.Barrier(size)

    async def answer() -> Reply:
        await together.wait()
        return Reply("x", usage=USED)

    return lambda ask, n: answer()


def member(id: str, script: Any = echo, **changes: Any) -> Scripted:
    return Scripted(script, traits(id, **changes))


def at_desk(
    folder: Path,
    members: list[Scripted],
    act: Callable[[Desk], Awaitable[Any]],
    budget: Budget = Budget(),
    **options: Any,
) -> tuple[Any, Receipt]:
    """What `act` returns, and the receipt of the run behind the desk."""

    async def main() -> tuple[Any, Receipt]:
        company = GivenMembers(*members)
        async with new_run("delegates", company, Settings(budget=budget), folder / "store") as run:
            found = await act(Desk(run, company, **options))
        assert run.closing is not None
        return found, run.closing

    return asyncio.run(main())


def states(receipt: Receipt) -> dict[str, int]:
    named = ("planned", "passed", "kicked", "failed", "unfunded", "cancelled", "calls")
    return {name: getattr(receipt, name) for name in named if getattr(receipt, name)}


# ── who takes it ─────────────────────────────────────────────────────────────────────────────

RULES = DelegationRules(allow_paid=False, priced=False)
LOCAL = traits("near", tier="local", good_at=("grunt",), context=100, max_tokens=10)
LAWYER = traits("lawyer", tier="subscription", good_at=("legal", "long"))


@pytest.mark.parametrize(
    ("errand", "expected"),
    [
        (DelegatedTask("x"), ("near", "lawyer")),
        (DelegatedTask("x", needs=("legal",)), ("lawyer",)),
        (DelegatedTask("x", needs="legal"), ("lawyer",)),
        (DelegatedTask("x", local=True), ("near",)),
        (DelegatedTask("x", needs=("legal",), local=True), ("lawyer",)),
        (DelegatedTask("x", member="near", needs=("legal",)), ("near",)),
        (DelegatedTask("x" * 400), ("lawyer",)),
        (DelegatedTask("x", max_tokens=100), ("lawyer",)),
    ],
)
def test_member_goes_before_needs_and_needs_before_local(
    errand: DelegatedTask, expected: tuple[str, ...]
) -> None:
    assert eligible([LOCAL, LAWYER], errand, RULES) == expected


@pytest.mark.parametrize(
    ("changes", "rules", "why"),
    [
        ({"can_delegate": False}, RULES, "m takes no delegated work"),
        ({"enabled": False}, RULES, "m is disabled"),
        ({"tier": "paid", "enabled_written": True}, RULES, "m is paid, which is not allowed here"),
        ({"tier": "paid"}, DelegationRules(True, False), "m is paid, which is not allowed here"),
        ({"price": None}, DelegationRules(False, True), "m has no known price"),
        ({}, DelegationRules(False, False, frozenset({"m"})), "m is the one who delegates"),
        ({}, DelegationRules(False, False, broken={"m": "no key"}), "m cannot be used: no key"),
        ({"enabled": False, "good_at": ()}, RULES, "m is disabled and is not good at law"),
    ],
)
def test_who_may_not_take_it_and_why(
    changes: dict[str, Any], rules: DelegationRules, why: str
) -> None:
    needs = ("law",) if "good_at" in changes else ()
    assert eligible([traits("m", **changes)], DelegatedTask("x", needs=needs), rules) == why


def test_a_paid_member_that_is_named_needs_only_the_one_switch() -> None:
    paid = traits("m", tier="paid")
    assert eligible([paid], DelegatedTask("x", member="m"), DelegationRules(True, False)) == ("m",)


def test_nobody_at_all_is_said_too() -> None:
    assert eligible([], DelegatedTask("x"), RULES) == "there is nobody to delegate to"


# ── what a task may be ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (7, "a task is an object with a `prompt`, not int"),
        ({}, "a task needs a `prompt`: everything its member has to know"),
        ({"prompt": " "}, "this task has an empty `prompt`"),
        ({"prompt": "\ud800"}, "this task's `prompt` is not valid Unicode text"),
        ({"prompt": "x", "promt": 1}, "a task has no field `promt`: did you mean `prompt`?"),
        (
            {"prompt": "x", "max_tokens": 0},
            "this task cannot be read: Expected `int` >= 1 - at `$.max_tokens`",
        ),
    ],
)
def test_a_task_that_cannot_be_read_says_why(given: Any, why: str) -> None:
    with pytest.raises(BadInput) as caught:
        delegated_task(given)
    assert str(caught.value) == why


# ── delegating ───────────────────────────────────────────────────────────────────────────────


def test_results_come_in_input_order_and_the_receipt_adds_up(tmp_path: Path) -> None:
    """What nobody is for, and what cannot be read, is told and not planned; the rest is."""

    def moody(ask: Ask, n: int) -> Reply | Exception:
        word = ask.messages[0].content
        if word == "fail":
            return Terminal("no such thing", scope="ask")
        return Reply("" if word == "blank" else f"<{word}>", usage=USED)

    tasks = [
        {"prompt": "one", "needs": ["talk"]},
        {"prompt": "two", "needs": ["physics"]},
        {"prompt": "fail"},
        "blank",
        {"prompt": "five", "member": "b"},
        {"prompt": "six", "member": "nobody"},
        7,
    ]
    members = [member("a", moody, good_at=("talk",)), member("b", moody)]
    results, receipt = at_desk(tmp_path, members, lambda desk: desk.delegate_many(tasks))
    assert [(r.index, r.status, r.text or r.message) for r in results] == [
        (0, "ok", "<one>"),
        (1, "no_fit", "No member fits: a is not good at physics; b is not good at physics."
            " Do this one yourself."),
        (2, "error", "no such thing"),
        (3, "kicked", "the reply is empty"),
        (4, "ok", "<five>"),
        (5, "error", "there is no member `nobody`; there are: a, b"),
        (6, "error", "a task is an object with a `prompt`, not int"),
    ]  # fmt: skip
    assert [results[0].member, results[4].member] == ["a", "b"]
    assert states(receipt) == {"planned": 4, "passed": 2, "kicked": 1, "failed": 1, "calls": 5}
    assert sum(r.cost_usd for r in results) == pytest.approx(receipt.cost_usd)
    assert receipt.cost_usd == pytest.approx(4 * PER_CALL)


def test_a_result_as_json_has_what_is_there(tmp_path: Path) -> None:
    result, _ = at_desk(tmp_path, [member("a")], lambda desk: desk.delegate("hello"))
    assert result.plain() == {
        "index": 0, "status": "ok", "id": "1.0", "text": "<hello>", "member": "a",
        "cost_usd": pytest.approx(PER_CALL), "tokens": {"input": 10, "output": 5},
    }  # fmt: skip


def test_a_prompt_is_data_and_no_template(tmp_path: Path) -> None:
    text = "{{ item.text }} {% for x in y %} {# no #}"
    asked = member("a")
    result, _ = at_desk(tmp_path, [asked], lambda desk: desk.delegate(text))
    assert (asked.asked, result.text) == ([text], f"<{text}>")


def test_a_schema_gives_data_and_is_checked(tmp_path: Path) -> None:
    schema = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}

    def answer(ask: Ask, n: int) -> Reply:
        return Reply("…", {"n": 3} if "good" in ask.messages[0].content else {"m": 1}, USED)

    async def act(desk: Desk) -> list[DelegatedResult]:
        return [
            await desk.delegate("good", schema=schema),
            await desk.delegate("bad", schema=schema),
            await desk.delegate("x", schema={"type": 7}),
        ]

    (good, bad, broken), _ = at_desk(tmp_path, [member("a", answer)], act)
    assert (good.status, good.data) == ("ok", {"n": 3})
    assert (bad.status, broken.status) == ("kicked", "error")


def test_nothing_is_asked_of_those_who_lead_or_may_not_be_delegated_to(tmp_path: Path) -> None:
    chief, closed, worker = member("chief"), member("closed", can_delegate=False), member("worker")

    async def act(desk: Desk) -> tuple[Any, list[DelegatedResult]]:
        return desk.menu(), await desk.delegate_many(
            ["a", "b", "c", {"prompt": "d", "member": "chief"}]
        )

    (menu, results), _ = at_desk(tmp_path, [chief, closed, worker], act, without=["chief"])
    assert [one["id"] for one in menu] == ["worker"]
    assert [r.member for r in results] == ["worker", "worker", "worker", None]
    assert results[3].message == (
        "No member fits: chief is the one who delegates. Do this one yourself."
    )
    assert (chief.asked, closed.asked) == ([], [])


def test_the_menu_tells_price_context_and_the_load_of_now(tmp_path: Path) -> None:
    asked, held = asyncio.Event(), asyncio.Event()

    async def slow(ask: Ask, n: int) -> Reply:
        asked.set()
        await held.wait()
        return Reply("x", usage=USED)

    busy = member("a", lambda ask, n: slow(ask, n), good_at=("talk",), context=1000, model="m-1")

    async def act(desk: Desk) -> Any:
        under_way = asyncio.create_task(desk.delegate("x"))
        await asked.wait()
        menu = desk.menu()
        held.set()
        await under_way
        return menu, desk.menu()[0]["busy"]

    (menu, after), _ = at_desk(tmp_path, [busy], act)
    price = {"input": 1.0, "output": 5.0, "call": 0.0}
    assert menu == [
        {"id": "a", "good_at": ["talk"], "tier": "local", "model": "m-1", "price": price,
         "context": 1000, "busy": 1, "at_once": 64}
    ]  # fmt: skip
    assert after == 0


@pytest.mark.parametrize(("wanted", "most"), [(None, 3), (2, 2), (50, 3), (1, 1)])
def test_a_call_can_only_lower_the_concurrency(
    tmp_path: Path, wanted: int | None, most: int
) -> None:
    one = member("a", in_groups_of(most))
    tasks = [f"task {n}" for n in range(12)]
    at_desk(tmp_path, [one], lambda desk: desk.delegate_many(tasks, wanted), concurrency=3)
    assert (len(one.asked), one.most_in_flight) == (12, most)


def test_without_a_number_as_many_go_at_once_as_the_limits_allow(tmp_path: Path) -> None:
    one = member("a", in_groups_of(20), limits=MemberLimits(concurrency=20))
    tasks = [f"task {n}" for n in range(40)]
    at_desk(tmp_path, [one], lambda desk: desk.delegate_many(tasks))
    assert (len(one.asked), one.most_in_flight) == (40, 20)


def test_the_tools_and_fields_of_tanglebrain_are_understood(tmp_path: Path) -> None:
    members = [
        member("far", tier="subscription", good_at=("legal",), cost_text="flat fee", price=None),
        member("near", tier="local", price=Price(input=9.0, output=9.0)),
    ]

    async def act(desk: Desk) -> Any:
        tasks = [{"prompt": "a", "target": "far"}, {"prompt": "b", "task": "legal"}, "c"]
        many = await use_tool(desk, "delegate_many", {"tasks": tasks, "max_concurrency": 1})
        one = await use_tool(desk, "delegate", {"prompt": "d", "target": None, "task": "legal"})
        local = await use_tool(desk, "delegate_local", {"prompt": "e", "max_tokens": 10})
        both = await use_tool(desk, "delegate", {"prompt": "x", "target": "far", "member": "near"})
        return await use_tool(desk, "delegate_targets", {}), both, [*many["results"], one, local]

    (menu, both, results), _ = at_desk(tmp_path, members, act)
    assert str(both["message"]).startswith("a task has no field `target`")
    assert [(one["id"], one["price"], one.get("cost")) for one in menu["members"]] == [
        ("far", None, "flat fee"), ("near", {"input": 9.0, "output": 9.0, "call": 0.0}, None),
    ]  # fmt: skip
    assert [one["member"] for one in results] == ["far", "far", "far", "far", "near"]


def test_calls_at_once_share_the_concurrency_of_the_desk(tmp_path: Path) -> None:
    one = member("a", in_groups_of(5))

    async def act(desk: Desk) -> Any:
        return await asyncio.gather(
            *(desk.delegate_many([f"{c} {n}" for n in range(5)]) for c in "abc")
        )

    results, receipt = at_desk(tmp_path, [one], act, concurrency=5)
    assert one.most_in_flight == 5
    assert [r.status for call in results for r in call] == ["ok"] * 15
    assert receipt.planned == receipt.passed == 15


@pytest.mark.parametrize(
    ("tasks", "concurrency", "why"),
    [
        ("one", None, "`tasks` is a list of tasks, not str"),
        ({"prompt": "x"}, None, "`tasks` is a list of tasks, not dict"),
        (None, None, "`tasks` is a list of tasks, not NoneType"),
        (
            ["x"] * 10_000, None,
            "10,000 tasks are too many for one call: at most 1,000;"
            " send them in parts, or write a plan for them",
        ),
        (["x"], 0, "`concurrency` is a whole number of at least 1, not 0"),
        (["x"], "2", "`concurrency` is a whole number of at least 1, not '2'"),
    ],
)  # fmt: skip
def test_a_call_that_makes_no_sense_is_refused_whole(
    tmp_path: Path, tasks: Any, concurrency: Any, why: str
) -> None:
    async def act(desk: Desk) -> str:
        with pytest.raises(BadInput) as caught:
            await desk.delegate_many(tasks, concurrency)
        return str(caught.value)

    one = member("a")
    said, receipt = at_desk(tmp_path, [one], act)
    assert (said, one.asked, receipt.planned) == (why, [], 0)


def test_no_tasks_no_results_and_the_most_tasks_are_taken(tmp_path: Path) -> None:
    async def act(desk: Desk) -> Any:
        return await desk.delegate_many([]), await desk.delegate_many(["x"] * MOST_TASKS)

    (none, many), receipt = at_desk(tmp_path, [member("a")], act)
    assert none == []
    assert {r.status for r in many} == {"ok"} and len(many) == MOST_TASKS
    assert receipt.passed == MOST_TASKS
    assert receipt.calls == 1  # the same content is asked once


def test_over_budget_the_rest_is_unfunded_and_accounted_for(tmp_path: Path) -> None:
    """A call takes $0.000035, and at worst $0.001525: after three, a fourth does not fit."""

    async def act(desk: Desk) -> Any:
        first = await desk.delegate_many(["a", "b", "c", "d"], concurrency=1)
        return first, await desk.delegate("e")

    (first, later), receipt = at_desk(tmp_path, [member("a")], act, Budget(usd=0.0016))
    assert [r.status for r in first] == ["ok", "ok", "ok", "unfunded"]
    assert later.status == "unfunded"
    assert str(later.message).startswith("Not done: out of budget: dollars of the run: $0.00")
    assert str(later.message).endswith("Do this one yourself, or leave it.")
    assert states(receipt) == {"planned": 5, "passed": 3, "unfunded": 2, "calls": 3}
    assert receipt.cost_usd <= 0.0016


def test_a_member_without_a_price_is_no_fit_under_a_dollar_budget(tmp_path: Path) -> None:
    members = [member("dear", price=None), member("cheap", price=Price(input=1.0, output=5.0))]
    results, _ = at_desk(
        tmp_path, members, lambda desk: desk.delegate_many(["x", {"prompt": "y", "member": "dear"}]),
        Budget(usd=1.0),
    )  # fmt: skip
    assert [(r.status, r.member) for r in results] == [("ok", "cheap"), ("no_fit", None)]


def test_a_member_that_cannot_be_opened_is_passed_over(tmp_path: Path) -> None:
    class Shut(Scripted):
        async def open(self) -> None:
            raise BadInput("its key is missing")

    shut = Shut(echo, traits("shut", good_at=("talk",)))
    members = [shut, member("open", good_at=("talk",))]

    async def act(desk: Desk) -> Any:
        return await desk.delegate("x", needs=["talk"]), await desk.delegate("y", member="shut")

    (one, other), _ = at_desk(tmp_path, members, act)
    assert (one.status, one.member) == ("ok", "open")
    assert other.message == (
        "No member fits: shut cannot be used: its key is missing. Do this one yourself."
    )


def test_a_member_whose_account_is_closed_does_not_stop_the_others(tmp_path: Path) -> None:
    """One bad key is that task's trouble; the run goes on."""
    bad = member("bad", lambda ask, n: Terminal("the key is wrong", scope="pool"))

    async def act(desk: Desk) -> Any:
        return [await desk.delegate("x", member=id) for id in ("bad", "bad", "good")]

    results, receipt = at_desk(tmp_path, [bad, member("good")], act)
    assert [r.status for r in results] == ["error", "error", "ok"]
    assert receipt.status == "flagged" and receipt.passed == 1


# ── folding ──────────────────────────────────────────────────────────────────────────────────


def test_pure_kinds_fold_values_and_results(tmp_path: Path) -> None:
    async def act(desk: Desk) -> Any:
        await desk.delegate_many(["a", "b"])
        await desk.delegate("c")
        return [
            await desk.reduce("concat", ["x", "y"], options={"sep": "+"}),
            await desk.reduce("concat", ids=["2.0", "1.0"], options={"sep": "+"}),
            await desk.reduce("sum", [1, 2, 3]),
            await desk.reduce("collect", []),
        ]

    results, _ = at_desk(tmp_path, [member("a")], act)
    assert [(r.status, r.text, r.data) for r in results] == [
        ("ok", "x+y", None), ("ok", "<c>+<a>", None), ("ok", None, 6), ("ok", None, []),
    ]  # fmt: skip


def test_a_member_folds_in_a_tree_and_the_instruction_is_data(tmp_path: Path) -> None:
    def join(ask: Ask, n: int) -> Reply:
        return Reply(f"whole {n}", usage=USED)

    one = member("a", join)
    options = {"prompt": "Join {{ these }}", "fan_in": 2}
    result, receipt = at_desk(
        tmp_path, [one], lambda desk: desk.reduce("ask", ["p", "q", "r", "s"], options=options)
    )
    assert (result.status, result.text, result.member) == ("ok", "whole 2", "a")
    assert result.cost_usd == pytest.approx(3 * PER_CALL)
    assert result.tokens == Usage(30, 15)
    assert one.asked[0] == "Join {{ these }}\n\n### 0\np\n\n### 1\nq"
    assert [step.name for step in receipt.steps] == ["reduce"]


def test_a_fold_that_does_not_pass_is_kicked(tmp_path: Path) -> None:
    blank = member("a", lambda ask, n: Reply("", usage=USED))
    result, receipt = at_desk(
        tmp_path, [blank], lambda desk: desk.reduce("ask", ["p"], options={"prompt": "Join"})
    )
    assert (result.status, result.message) == ("kicked", "the reply is empty")
    assert receipt.status == "flagged"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (("nonsense", []), "there is no reduce `nonsense`; there are: "
            + ", ".join(REDUCES)),
        (("python", [1], {"target": "os:remove"}), "there is no reduce `python`; there are: "
            + ", ".join(REDUCES)),
        (("sum", "123"), "`values` is a list, not str"),
        (("ask", ["x"], {"prompt": "y", "colour": 1}), "reduce `ask` has no option `colour`: known:"
            " prompt, member, needs, local, max_tokens, schema, fan_in"),
        (("ask", ["x"], {"prompt": "y", "fan_in": 1}),
            "reduce `ask`: `fan_in` is a whole number of at least 2, not 1"),
    ],
)  # fmt: skip
def test_a_fold_that_makes_no_sense_says_why(tmp_path: Path, given: Any, why: str) -> None:
    async def act(desk: Desk) -> str:
        with pytest.raises(BadInput) as caught:
            await desk.reduce(given[0], given[1], options=given[2] if len(given) > 2 else None)
        return str(caught.value)

    assert at_desk(tmp_path, [member("a")], act)[0] == why


def test_only_what_passed_goes_into_a_fold(tmp_path: Path) -> None:
    async def act(desk: Desk) -> str:
        await desk.delegate_many(["a", "b"])
        with pytest.raises(BadInput) as caught:
            await desk.reduce("concat", ids=["1.0", "1.1", "9.9"])
        return str(caught.value)

    only_a = member(
        "a", lambda ask, n: Reply("x" if ask.messages[0].content == "a" else "", usage=USED)
    )
    said, _ = at_desk(tmp_path, [only_a], act)
    assert said == "no result that passed has the id 1.1, 9.9"
