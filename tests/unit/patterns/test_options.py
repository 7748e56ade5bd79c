"""What Python calls refuse: the values that plans refuse, in the same words, before anyone is asked."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

import fanfold as ff
from fanfold.errors import BadInput, FanfoldError, RunStopped
from fanfold.patterns.arguments import OF_ASKS
from fanfold.patterns.divide import divided
from fanfold.patterns.fold import total
from fanfold.patterns.graph import node
from fanfold.patterns.nested import inside
from fanfold.patterns.streamed import on_parts
from fanfold.patterns.vote_rules import judged
from fanfold.plans.load import read_plan
from fanfold.run.settings import Govern
from fanfold.testing.member import Scripted, traits
from fanfold.work.ask import Ask, Params, Reply
from fanfold.work.document import Node
from fanfold.work.outcome import Receipt
from fanfold.work.pieces import Fits
from fanfold.work.task import Budget, Hedge

ITEMS = [{"id": "a", "text": "one"}]
TWO = [*ITEMS, {"id": "b", "text": "one more"}]

Call = Callable[..., Any]

CALLS: dict[str, Call] = {
    "map_reduce": lambda run, **how: ff.map_reduce(run, ITEMS, prompt="Say.", **how),
    "pipeline": lambda run, **how: ff.pipeline(run, ITEMS, ff.stage("Say.", **how)),
    "asked": lambda run, **how: ff.map_reduce(
        run, ITEMS, prompt="Say.", reduce=ff.asked("Join.", **how)
    ),
    "scatter_gather": lambda run, **how: ff.scatter_gather(run, ITEMS, prompt="Say.", **how),
    "ensemble": lambda run, **how: ff.ensemble(run, ITEMS, prompt="Say.", samples=3, **how),
    "judged": lambda run, **how: ff.ensemble(
        run, ITEMS, prompt="Say.", samples=3, decide=judged(**how)
    ),
    "conduct": lambda run, **how: ff.conduct(run, ITEMS, prompt="Say.", say=lambda said: None, **how),
    "divide": lambda run, **how: ff.divide_and_conquer(
        run, ITEMS, prompt="Say.", combine=ff.concat(), fits=Fits(items=1), **how
    ),
    "graph": lambda run, **how: ff.graph(run, [{"id": "a", "prompt": "Say."}], **how),
    "node": lambda run, **how: ff.graph(run, [node("a", "Say.", **how)]),
    "inside": lambda run, **how: ff.pipeline(
        run, ITEMS, ff.stage(by=inside(lambda data: [1], "Say.", reduce=total(), **how))
    ),
    "divided": lambda run, **how: ff.pipeline(run, ITEMS, ff.stage(
        by=divided("Say.", combine=ff.concat(), fits=Fits(items=1), **how)
    )),
    "on_parts": lambda run, **how: ff.pipeline(
        run, ITEMS, ff.stage("Say."), ff.stage(by=on_parts("lines", "Then.", **how))
    ),
    "rank": lambda run, **how: ff.rank(run, TWO, prompt="Say.", rounds=1, **how),
    "resolve": lambda run, **how: ff.resolve(run, TWO, prompt="Say.", **how),
    "join": lambda run, **how: ff.join(run, TWO, TWO, prompt="Say.", **how),
}  # fmt: skip

WRONG: list[tuple[str, Any]] = [
    ("concurrency", 0), ("concurrency", "8"), ("revise", -1), ("revise", True),
    ("on_failure", "skp"), ("in_doubt", "retyr"), ("use", 0), ("member", 7), ("member", ""),
    ("members", [1]), ("needs", [""]), ("fallback", [3]), ("escalate", [None]),
    ("budget", "much"), ("budget", {"usd": -1}), ("budget", {"usdd": 1}),
    ("hedge", 0.05), ("hedge", {"extra": 2}), ("hedge", {"extr": 0.1}),
]  # fmt: skip
ONLY_PYTHON: list[tuple[str, Any]] = [
    ("gate", "require"), ("gate", ff.require), ("gate", [ff.require("a")]),
    ("gate", lambda value: True), ("keep", "reply.good"), ("attempts", 0), ("step", ""),
    ("spread", "wide"), ("batch", "soon"), ("params", 7), ("params", {"temprature": 1}),
    ("attach", 7), ("inputs", 7), ("outputs", 7), ("system", 7), ("context", 7), ("examples", 7),
    ("cache", "on"), ("tools", 7), ("tool_rounds", 3), ("tool_calls", 3),
]  # fmt: skip
NOT_OF_ALL = {  # these have words of their own for it
    ("conduct", "concurrency"), ("node", "concurrency"), ("node", "budget"), ("node", "step"),
    ("ensemble", "fallback"),
}  # fmt: skip


def named(one: Any) -> str | None:
    """For the name of a test: the same in every process."""
    return repr(one)[:40] if isinstance(one, str | int | float) else None


def refused(store: Path, call: Call, **how: Any) -> str:
    """The text of the refusal; nobody was asked."""
    (said,) = refusals(store, [call], **how)
    return said


def refusals(store: Path, calls: list[Call], **how: Any) -> set[str]:
    """The texts with which each of these calls is refused, all in one run."""
    member = Scripted(lambda ask, n: Reply(text="yes"), traits(id="m"))
    said: set[str] = set()

    async def script() -> None:
        async with ff.open_run("r", members=[member], store=store) as run:
            for call in calls:
                with pytest.raises(BadInput) as error:
                    await finished(call, run, **how)
                said.add(error.value.what)

    asyncio.run(script())
    assert member.asked == []
    assert not any("\n" in text for text in said)
    return said


async def finished(call: Call, run: Any, **how: Any) -> None:
    made = call(run, **how)
    if inspect.isawaitable(made):
        await made


@pytest.mark.parametrize(("option", "value"), [*WRONG, *ONLY_PYTHON], ids=named)
def test_a_wrong_value_is_refused_by_every_pattern(
    memory_path: Path, option: str, value: Any
) -> None:
    calls = [call for name, call in CALLS.items() if (name, option) not in NOT_OF_ALL]
    said = refusals(memory_path, calls, **{option: value})
    assert len(said) == 1, "one check for all of them"
    inner = value if isinstance(value, dict) else {}
    assert any(name in min(said) for name in (option, *inner))


def test_the_name_of_a_parameter_is_sought_in_the_argument_that_holds_it(memory_path: Path) -> None:
    said = refused(memory_path, CALLS["map_reduce"], params={"temprature": 1})
    assert said == "unknown field `temprature` in `params`: did you mean `temperature`?"


def look(word: str) -> str:
    """A tool."""
    return word


SAMPLED = Params(temperature=0.5, stop=("x",))
SHOWN: dict[str, tuple[Any, Callable[[Ask], Any]]] = {
    "params": ({"temperature": 0.5, "stop": ("x",)}, lambda ask: ask.params == SAMPLED),
    "system": ("Be brief.", lambda ask: "Be brief." in ask.messages[0].content),
    "context": ("A law.", lambda ask: "A law." in ask.messages[0].content),
    "examples": ([("Say?", "yes")], lambda ask: ask.messages[0].content == "Say?"),
    "cache": ("off", lambda ask: ask.shared == -1),
    "tools": ([look], lambda ask: ask.tools),
}


def asked_of(store: Path, call: Call, **how: Any) -> tuple[list[Ask], str]:
    """What is asked of a member that says something else each time; and why not more."""
    found: list[Ask] = []

    def answer(ask: Ask, n: int) -> Reply:
        found.append(ask)
        return Reply(text=f"yes {n}")

    async def script() -> str:
        member = Scripted(answer, traits(id="m", takes_tools=True))
        async with ff.open_run("r", members=[member], store=store, govern=Govern(yes=True)) as run:
            try:
                await finished(call, run, **how)
            except BadInput as error:
                return str(error)
        receipt = run.receipt()
        return " ".join([receipt.reason or "", *(one.reason for one in receipt.reasons)])

    try:
        return found, asyncio.run(script())
    except RunStopped as error:
        return found, str(error)


@pytest.mark.parametrize("option", SHOWN)
@pytest.mark.parametrize("name", CALLS)
def test_what_asks_are_to_have_is_in_those_of_every_pattern(
    memory_path: Path, name: str, option: str
) -> None:
    value, shows = SHOWN[option]
    found, why = asked_of(memory_path, CALLS[name], **{option: value})
    assert any(map(shows, found)), why


@pytest.mark.parametrize("name", CALLS)
def test_files_too_and_where_there_is_none_or_no_place_for_them_it_is_said(
    memory_path: Path, name: str
) -> None:
    _, why = asked_of(memory_path / "a", CALLS[name], attach="item.gone")
    assert "gone" in why
    for option in ("inputs", "outputs"):
        _, why = asked_of(memory_path / option, CALLS[name], **{option: "a.txt"})
        assert "`inputs` or `outputs`, which are for commands and agents" in why


@pytest.mark.parametrize("option", OF_ASKS)
def test_a_stage_whose_asks_are_made_within_has_no_say_in_them(
    memory_path: Path, option: str
) -> None:
    within = inside(lambda data: [1], "Say.", reduce=total())
    value = "x" if option == "prompt" else SHOWN[option][0] if option in SHOWN else "x"
    made = {"tools": [look], option: 3} if option.startswith("tool_") else {option: value}
    said = refused(memory_path, lambda run: ff.stage(by=within, **made))
    assert "has no use in this stage: give it to what is in its `by`" in said


@pytest.mark.parametrize("option", ["member", "revise", "keep", "system", "params", "tools"])
def test_a_group_refuses_what_only_its_reduce_has_a_use_for(memory_path: Path, option: str) -> None:
    call = lambda run, **how: ff.group(run, ITEMS, by="text", reduce=ff.collect(), **how)  # noqa: E731
    said = refused(memory_path, call, **{option: "m"})
    assert said == (
        f"`group` has no use for `{option}`: it asks nobody but by its `reduce`; give it to asked(…)"
    )


@pytest.mark.parametrize("name", ["rank", "resolve", "join"])
def test_comparisons_are_not_filtered(memory_path: Path, name: str) -> None:
    said = refused(memory_path, CALLS[name], keep=lambda value: True)
    assert said == "`keep` is for replies about items, not about comparisons of them"


@pytest.mark.parametrize(("option", "value"), WRONG, ids=named)
def test_plans_refuse_the_same_value_in_the_same_words(
    memory_path: Path, option: str, value: Any
) -> None:
    stated = {"steps": [{"map": {"prompt": "Say.", option: value}}]}
    with pytest.raises(BadInput) as error:
        read_plan(Node(stated, "plan.yaml", {}), memory_path)
    python = refused(memory_path, CALLS["map_reduce"], **{option: value})
    assert error.value.what == python


async def later(value: Any) -> bool:
    return False


class Later:
    async def __call__(self, value: Any) -> bool:
        return False


PLAIN: dict[str, Call] = {
    "`keep`": lambda fn, run: ff.map_reduce(run, ITEMS, prompt="x", keep=fn),
    "`reduce`": lambda fn, run: ff.map_reduce(run, ITEMS, prompt="x", reduce=fn),
    "the function of a `python` reduce": lambda fn, run: ff.fold.python(fn),
    "`decide`": lambda fn, run: ff.ensemble(run, ITEMS, prompt="x", samples=3, decide=fn),
    "`split`": lambda fn, run: ff.divide_and_conquer(
        run, ITEMS, prompt="x", combine=ff.concat(), split=fn
    ),
    "fits: `test`": lambda fn, run: Fits(test=fn),
    "`over`": lambda fn, run: inside(fn, "x", reduce=total()),
    "`say`": lambda fn, run: ff.conduct(run, ITEMS, prompt="x", say=fn),
}


@pytest.mark.parametrize("fn", [later, Later(), partial(later)], ids=["def", "object", "partial"])
@pytest.mark.parametrize("what", PLAIN)
def test_where_nothing_awaits_it_an_async_function_is_refused(
    memory_path: Path, what: str, fn: Any
) -> None:
    said = refused(memory_path, lambda run: PLAIN[what](fn, run))
    assert said == f"{what} is `async def`, but nothing awaits it there: give a plain function"


@pytest.mark.parametrize("what", ["`keep`", "`decide`"])
def test_a_plain_function_that_gives_an_awaitable_decides_nothing(
    memory_path: Path, what: str
) -> None:
    async def script() -> Receipt:
        member = Scripted(lambda ask, n: Reply(text="yes"), traits(id="m"))
        async with ff.open_run("r", members=[member], store=memory_path) as run:
            made = await PLAIN[what](lambda value: later(value), run)
            return cast(Receipt, made.receipt)

    receipt = asyncio.run(script())
    assert (receipt.passed, receipt.unjudged) == (0, 1)
    assert "it gave an awaitable" in receipt.reasons[0].reason


def test_nor_is_it_what_a_reduce_makes(memory_path: Path) -> None:
    said = "reduce: `<lambda>` raised TypeError: it gave an awaitable"
    for fan_in in (None, 2):
        member = Scripted(lambda ask, n: Reply(text="yes"), traits(id="m"))

        async def script(member: Any = member, fan_in: int | None = fan_in) -> None:
            async with ff.open_run("r", members=[member], store=memory_path) as run:
                reduce = {"reduce": lambda parts: later(parts), "fan_in": fan_in}
                await ff.map_reduce(run, ITEMS, prompt="x", **reduce)

        with pytest.raises(FanfoldError) as error:
            asyncio.run(script())
        assert said in str(error.value)


@pytest.mark.parametrize(
    ("said", "call"),
    {
        "`shard` must be 1 or more, not 0": lambda run: ff.map_reduce(run, ITEMS, prompt="x", shard=0),
        "`shard` must be a whole number, not the text '2'": lambda run: ff.stage("x", shard="2"),  # type: ignore[arg-type]
        "`prompt` is empty": lambda run: ff.map_reduce(run, ITEMS, prompt=" "),
        "`prompt` must be a text, not the number 7": lambda run: ff.stage(7),  # type: ignore[arg-type]
        "`schema` must be a JSON Schema (a dict) or a type (a pydantic model":
            lambda run: ff.map_reduce(run, ITEMS, prompt="x", schema="object"),  # type: ignore[arg-type]
        "not a valid JSON Schema": lambda run: ff.stage("x", schema={"type": "objekt"}),
        "unknown decide 'majorty': did you mean `majority`?":
            lambda run: ff.ensemble(run, ITEMS, prompt="x", samples=3, decide="majorty"),  # type: ignore[arg-type]
        "`mode` is streaming or batch, not 'stream'":
            lambda run: ff.pipeline(run, ITEMS, ff.stage("x"), mode="stream"),  # type: ignore[arg-type]
        "stage 1 must be made by stage(…), not the text 'x'": lambda run: ff.pipeline(run, ITEMS, "x"),  # type: ignore[arg-type]
        "`reduce` is the function collect itself; call it: collect(…)":
            lambda run: ff.map_reduce(run, ITEMS, prompt="x", reduce=ff.collect),  # type: ignore[arg-type]
        "`reduce` must be a function of the parts, such as concat(), or asked(…), not the text 'sum'":
            lambda run: ff.map_reduce(run, ITEMS, prompt="x", reduce="sum"),  # type: ignore[arg-type]
        "`synthesise` is the function concat itself; call it: concat(…)":
            lambda run: ff.scatter_gather(run, ITEMS, prompt="x", synthesise=ff.concat),  # type: ignore[arg-type]
        "state `member` or `members`, not both":
            lambda run: ff.map_reduce(run, ITEMS, prompt="x", member="m", members=["m"]),
        "`all_of` takes the gates one by one, not as a list: all_of(*gates)":
            lambda run: ff.all_of([ff.require("a"), ff.require("b")]),  # type: ignore[arg-type]
        "each part of `any_of` must be a gate such as require(\"field\"), not the text 'a'":
            lambda run: ff.any_of("a", ff.require("b")),  # type: ignore[arg-type]
        "`prompt` must be a text, not the number 1": lambda run: ff.judge(1),  # type: ignore[arg-type]
        "`revise` must be 0 or more, not -1": lambda run: ff.judge("Good?", revise=-1),
        "`sep` must be a text, not the number 1": lambda run: ff.concat(1),  # type: ignore[arg-type]
        "`usd` must be more than 0, not 0": lambda run: Budget(usd=0),
        "`calls` must be a whole number, not the number 1.5": lambda run: Budget(calls=1.5),  # type: ignore[arg-type]
        "`extra` is a share of the calls, such as 0.05, not 5": lambda run: Hedge(5),
        "`concurrency` must be 1 or more, not 0": lambda run: ff.function(len, concurrency=0),
        "function() needs a function to call, not the text 'len'": lambda run: ff.function("len"),  # type: ignore[arg-type]
        "unknown tier `payed`: did you mean `paid`?": lambda run: ff.function(len, tier="payed"),  # type: ignore[typeddict-item]
        "`map` has no `prompt`, but member `m` (kind scripted) needs one":
            lambda run: ff.map_reduce(run, ITEMS),
        "`reduce` has no `prompt`, but member `m` (kind scripted) needs one":
            lambda run: ff.map_reduce(run, ITEMS, prompt="x", reduce=ff.asked()),
        "`a` has no `prompt`, but member `m` (kind scripted) needs one":
            lambda run: ff.graph(run, [node("a")]),
    }.items(),
    ids=named,
)  # fmt: skip
def test_what_is_wrong_is_said_before_anyone_is_asked(
    memory_path: Path, said: str, call: Call
) -> None:
    assert refused(memory_path, call).startswith(said)


@pytest.mark.parametrize(
    ("said", "options"),
    {
        "`max_concurrency` must be 1 or more, not 0": {"max_concurrency": 0},
        "`fresh` must be true or false, not the text 'yes'": {"fresh": "yes"},
        "`budget` must be dollars or a mapping": {"budget": "5 dollars"},
        "`govern` must be Govern(…), not a mapping": {"govern": {}},
        "`roster` must be a file or a Roster, not the number 5": {"roster": 5},
        "`members` must be members, not the function len; wrap a function": {"members": [len]},
        "`members` must be members, not the text 'gpt-5-mini'; such as ff.openai(…)": {
            "members": ["gpt-5-mini"]
        },
        "`members` must be a list, not a ScriptedEntry: members=[…]": {"members": ff.openai("m")},
        "`members` must be a list, not the text 'gpt-5-mini'": {"members": "gpt-5-mini"},
        "`members`: two are called `len`": {"members": [ff.function(len), ff.function(len)]},
    }.items(),
    ids=named,
)
def test_a_run_is_not_opened_with_options_that_are_wrong(
    memory_path: Path, said: str, options: dict[str, Any]
) -> None:
    async def script() -> None:
        async with ff.open_run(
            "r", **{"members": [ff.function(len)], **options}, store=memory_path
        ):
            raise AssertionError("it was opened")

    with pytest.raises(BadInput) as error:
        asyncio.run(script())
    assert error.value.what.startswith(said)


def test_members_made_by_hand_are_used_beside_those_of_the_roster(memory_path: Path) -> None:
    roster = memory_path / "roster.yaml"
    roster.write_text("members: [{id: other, kind: function, target: 'json:dumps'}]\n")

    async def script() -> tuple[Any, Any]:
        hand = ff.function(lambda data: "by hand", id="hand")
        async with ff.open_run("r", roster=roster, members=[hand], store=memory_path) as run:
            first = await ff.map_reduce(run, ["x"], member="hand", reduce=ff.concat())
            second = await ff.map_reduce(
                run, ["x"], member="other", step="second", reduce=ff.concat()
            )
            return first.value, second.value

    assert asyncio.run(script()) == ("by hand", '"x"')


def test_a_function_takes_the_fields_of_a_roster() -> None:
    made = ff.function(len, version=2, concurrency=3, good_at=["size"], timeout=5, effects=True)
    said = made.traits
    assert (said.shared, said.metered, said.timeout, said.good_at) == (True, True, 5.0, ("size",))
    assert said.limits.concurrency == 3


def test_what_remains_of_a_budget_may_be_nothing() -> None:
    assert msgspec.to_builtins(Budget.of(usd=0.0, calls=3)) == {
        "usd": 0.0, "tokens": None, "calls": 3, "seconds": None,
    }  # fmt: skip


def test_one_name_may_stand_for_a_list_of_one(memory_path: Path) -> None:
    """`members="m"` was taken letter by letter."""

    async def script() -> str:
        member = Scripted(lambda ask, n: Reply(text="yes"), traits(id="me"))
        async with ff.open_run("r", members=[member], store=memory_path) as run:
            found = await ff.map_reduce(run, ITEMS, prompt="Say.", members="me", reduce=ff.concat())
            return str(found.value)

    assert asyncio.run(script()) == "yes"


class NoJson:
    """Of no library that makes JSON of it."""


class Lacking(msgspec.Struct):
    there: int
    lacking: NoJson


BARE: dict[str, Call] = {  # `CALLS` states more
    "conduct": lambda run, **how: ff.conduct(run, ITEMS, prompt="Say.", **how),
    "divide": lambda run, **how: ff.divide_and_conquer(
        run, ITEMS, prompt="Say.", combine=ff.concat(), **how
    ),
    "ensemble": lambda run, **how: ff.ensemble(run, ITEMS, prompt="Say.", **how),
    "resolve": lambda run, **how: ff.resolve(run, ITEMS, **how),
    "join": lambda run, **how: ff.join(run, ITEMS, **{"right": ITEMS, **how}),
    "rank": lambda run, **how: ff.rank(run, ITEMS, **how),
}
WRONG_TYPES: list[tuple[str, str, Any, str]] = [
    *((where, "by", value, "`by`")
      for where in ("asked", "pipeline", "node", "inside")
      for value in (7, "voters", len, ff.judge)),
    *((where, "params", value, "`params` must be a mapping")
      for where in ("map_reduce", "pipeline", "asked", "judged") for value in ("hot", 0.7, [0.7])),
    *((where, "budget", {1: 2}, "`budget[1]` must be a text") for where in ("map_reduce", "pipeline")),
    ("map_reduce", "batch", {1: 2}, "`batch[1]` must be a text"),
    ("conduct", "say", 7, "`say` must be a function"),
    ("divide", "fits", 30, "`fits` must be Fits(…)"),
    ("node", "depends_on", 7, "the `depends_on` of task `a` is an id or a list"),
    *((where, "prompt", value, "`prompt` must be a text")
      for where in ("resolve", "join", "rank") for value in (7, ["x"])),
    ("resolve", "block", {"on": "text"}, "`block` must be a Block(…)"),
    ("join", "right", [NoJson()], "item 0 of `right` ('0') is not plain JSON"),
    ("map_reduce", "schema", {1: 2}, "`schema` is not plain JSON"),
    ("map_reduce", "schema", Lacking, "`schema`: Lacking has no JSON Schema"),
    ("map_reduce", "examples", [("a", NoJson())], "an example is not plain JSON"),
    ("map_reduce", "system", "\ud800", "half a surrogate pair"),
    ("ensemble", "samples", 10**30, "more than 10,000 answers"),
]  # fmt: skip


@pytest.mark.parametrize(("where", "option", "value", "said"), WRONG_TYPES, ids=named)
def test_what_is_of_another_type_is_refused_before_anyone_is_asked(
    memory_path: Path, where: str, option: str, value: Any, said: str
) -> None:
    base = {**CALLS, **BARE}[where]
    assert said in refused(memory_path, base, **{option: value})


def test_a_result_that_is_no_json_is_for_the_script_alone(memory_path: Path) -> None:
    """The run was never closed: it counted as crashed."""

    async def script() -> tuple[Any, Any]:
        async with ff.open_run("r", members=[ff.function(len)], store=memory_path) as run:
            found = await ff.map_reduce(run, ["abc"], reduce=lambda parts: (NoJson(), [*parts])[0])
        return found.value, run.closing

    value, receipt = asyncio.run(script())
    assert isinstance(value, NoJson)
    assert (receipt.status, receipt.passed, receipt.result) == ("flagged", 1, None)
    assert "the result is not plain JSON" in receipt.reason


def test_a_decision_that_is_no_json_leaves_the_question_unjudged(memory_path: Path) -> None:
    async def script() -> Any:
        async with ff.open_run("r", members=[ff.function(len)], store=memory_path) as run:
            await ff.ensemble(run, ["abc"], samples=3, decide=lambda votes: NoJson())
        return run.closing

    receipt = asyncio.run(script())
    assert (receipt.unjudged, receipt.planned) == (1, 1)
    assert "the decision gave is not plain JSON" in receipt.reasons[0].reason


@pytest.mark.parametrize(
    "stated", [{"on": [None]}, {"key": ["text"]}, {"vector": ["text"]}], ids=str
)
def test_a_block_goes_by_fields_that_are_named(stated: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="must be a text"):
        ff.Block(**stated)


def test_a_ranking_ends_when_all_have_met(memory_path: Path) -> None:
    async def script() -> Any:
        async with ff.open_run(
            "r", members=[ff.function(lambda item: "A", id="m")], store=memory_path
        ) as run:
            return await ff.rank(run, ["a", "b", "c"], rounds=10**9)

    found = asyncio.run(script())
    assert (len(found.value), found.receipt.calls) == (3, 3)
