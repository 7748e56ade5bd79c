"""Many asks that begin alike: one goes first and writes the cache of the service, the others read it."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import fanfold as ff
from fanfold.errors import Transient
from fanfold.members.endpoint import shared_part
from fanfold.members.roster import load_roster
from fanfold.observe.closing import closing
from fanfold.observe.preview import preview_text
from fanfold.patterns.fold import collect
from fanfold.plans.execute import Audience, execute
from fanfold.plans.inputs import open_input
from fanfold.plans.load import load_plan
from fanfold.plans.prepare import Options, prepare
from fanfold.plans.preview.asks import Premises
from fanfold.plans.preview.estimate import estimate
from fanfold.price import Price, cost
from fanfold.run.loop import run_sync
from fanfold.run.prompt_cache import FIRST_WAIT, LIFETIME, PromptCaches
from fanfold.run.run import Run
from fanfold.testing.caches import ServerCaches
from fanfold.testing.member import traits
from fanfold.testing.running import threaded_server
from fanfold.testing.script import Asked, Says
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.member import Event, Request, Tell, Traits
from fanfold.work.outcome import Receipt
from tests.flow.killed_plans import carried_through
from tests.flow.simulation import Scene, play
from tests.flow.small_plans import unwatched
from tests.flow.tool_models import calling

PRICE = Price(input=3.0, output=15.0, cache_read=0.3, cache_write=3.75)
SHARED = 20_000
CONTEXT = "word" * SHARED
FIRST, LATENCY = 0.5, 2.0  # seconds until a reply begins, and until it ends


class Keeping:
    """A member whose service keeps what prompts share: from when a reply begins, for `LIFETIME`."""

    def __init__(self, *, first: float = FIRST, fails: int = 0) -> None:
        self._first, self.fails = first, fails
        self._until: dict[str, float] = {}
        self.written = self.read = self.bill = self.plain = 0
        self.starts: list[float] = []

    @property
    def traits(self) -> Traits:
        return traits("keeping", price=PRICE, max_tokens=10)

    async def open(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to close."""

    def prepare(self, ask: Ask) -> Request:
        shared = shared_part(ask, PRICE, 1024)
        size = sum(len(one.content) for one in ask.messages) + 1024
        return Request(ask, b"", size, 10, prefix=shared.prefix, shared=shared.tokens)

    async def ask(self, request: Request, tell: Tell) -> Reply:
        loop, key = asyncio.get_running_loop(), request.prefix or str(request.ask.shared)
        self.starts.append(loop.time())
        kept = loop.time() < self._until.get(key, 0.0)
        await asyncio.sleep(self._first)
        if self.fails:
            self.fails -= 1
            raise Transient("no connection")
        self._until[key] = loop.time() + LIFETIME
        tell(Event("began"))
        await asyncio.sleep(LATENCY - FIRST)
        usage = Usage(12, 4, SHARED if kept else 0, 0 if kept else SHARED)
        self.read += kept
        self.written += not kept
        self.bill += cost(PRICE, 12, 0, usage.cache_read, usage.cache_write)
        self.plain += cost(PRICE, 12 + SHARED, 0)
        return Reply(text="fine", usage=usage)


def scene(folder: Path, member: Keeping, many: int = 300, **how: Any) -> Scene:
    items = [{"id": str(n), "text": f"number {n}"} for n in range(many)]
    stated = {"context": CONTEXT, "concurrency": 32, "member": "keeping", **how}
    return Scene(folder / "store", (member,), items, how=stated)


def test_one_writes_and_all_others_read(tmp_path: Path) -> None:
    """300 asks, 32 at once: a naive fan-out would write 32 times."""
    member, naive = Keeping(), Keeping()
    receipt = play(scene(tmp_path, member))
    assert (receipt.passed, member.written, member.read) == (300, 1, 299)
    assert member.bill <= 0.14 * member.plain
    off = play(scene(tmp_path / "off", naive, cache="off"))
    assert (off.passed, naive.written) == (300, 32)
    assert receipt.seconds <= 1.15 * off.seconds
    (step,) = receipt.steps
    assert (step.sharing, step.tokens.cache_write, step.tokens.cache_read) == (
        300,
        SHARED,
        299 * SHARED,
    )
    assert step.hit_rate == pytest.approx(299 / 300, abs=0.01)
    assert step.saved_usd == pytest.approx((member.plain - member.bill) / 1e9)
    assert "cache: map: 100% of" in closing(receipt, None)


def test_the_others_start_when_the_first_reply_begins(tmp_path: Path) -> None:
    member = Keeping()
    play(scene(tmp_path, member, many=5))
    assert member.starts == [0.0, *[FIRST] * 4]


def test_they_do_not_wait_for_ever(tmp_path: Path) -> None:
    member = Keeping(first=3 * FIRST_WAIT)
    play(scene(tmp_path, member, many=5))
    assert member.starts == [0.0, *[FIRST_WAIT] * 4]


def test_where_the_first_fails_the_next_writes(tmp_path: Path) -> None:
    member = Keeping(fails=2)
    receipt = play(scene(tmp_path, member, many=40))
    assert (receipt.passed, member.written, member.read) == (40, 1, 39)


def test_what_has_expired_is_written_again_by_one(tmp_path: Path) -> None:
    member = Keeping()

    async def twice(run: Run) -> None:
        for n, pause in enumerate((LIFETIME - 10, LIFETIME + 1, 0)):
            items = [{"id": f"{n}-{m}"} for m in range(40)]
            await ff.map_reduce(
                run, items, prompt=f"{{{{ item.id }}}} {n}", context=CONTEXT, step=f"s{n}",
                member="keeping", reduce=collect(), concurrency=16,
            )  # fmt: skip
            await run.clock.sleep(pause)

    play(Scene(tmp_path / "store", (member,), pattern=twice))
    assert (member.written, member.read) == (2, 118)


def test_steps_that_share_nothing_do_not_wait_for_one_another(tmp_path: Path) -> None:
    caches = PromptCaches()
    assert caches.sent("a", 0.0) and not caches.sent("a", 1.0)
    assert (caches.wait("a", 1.0), caches.wait("b", 1.0)) == (FIRST_WAIT, None)
    caches.gone("a")
    assert caches.wait("a", 1.0) is None and caches.sent("a", 2.0)


# ── over the wire ────────────────────────────────────────────────────────────────────────────


ROSTER = """\
members:
  - {{id: a, kind: anthropic, model: claude-sonnet-4-5, base_url: "{url}", max_tokens: 50, limits: {{concurrency: 32}}, price: {{input: 3, output: 15, cache_read: 0.3, cache_write: 3.75}}}}
  - {{id: o, kind: openai, model: gpt, base_url: "{url}/v1", max_tokens: 50, limits: {{concurrency: 32}}, price: {{input: 3, output: 15, cache_read: 0.3}}}}
"""  # noqa: E501


def fine(asked: Asked) -> Says:
    return Says(text="fine")


async def mapped(folder: Path, member: str, many: int, **how: Any) -> Receipt:
    async with ff.open_run(
        "cached", store=folder / "store", roster=folder / "roster.yaml", allow_paid=True
    ) as run:
        items = [{"id": f"{n:03}"} for n in range(many)]
        found = await ff.map_reduce(
            run, items, prompt="Say {{ item.id }}", member=member, concurrency=32, **how
        )
    return found.receipt


@pytest.mark.parametrize("member", ["a", "o"])
@pytest.mark.parametrize("part", ["context", "examples", "template", "system and template"])
def test_services_keep_what_all_asks_share(tmp_path: Path, member: str, part: str) -> None:
    """As text of the context, as examples, or as the beginning of the prompt itself, also behind a short
    system text."""
    caches = ServerCaches()
    given: dict[str, Any] = {
        "context": {"context": CONTEXT},
        "examples": {"examples": [(CONTEXT, "yes"), ("short", "no")]},
        "template": {},
        "system and template": {"system": "Be brief."},
    }[part]
    with threaded_server(
        tmp_path / "books", script=f"{__name__}:fine", price=PRICE, latency_ms=3, caches=caches
    ) as server:
        (tmp_path / "roster.yaml").write_text(ROSTER.format(url=server.url))
        if "template" in part:
            receipt = run_sync(headed(tmp_path, member, **given))
        else:
            receipt = run_sync(mapped(tmp_path, member, 40, **given))
        books = server.books()
    assert (receipt.passed, caches.writes + caches.hits) == (40, 40)
    if member == "a":
        assert (caches.writes, caches.hits) == (1, 39)
    else:
        assert caches.hits == 39
    assert receipt.cost_usd == pytest.approx(books.bill / 1e9)
    (step,) = receipt.steps
    assert step.hit_rate > 0.95
    plain = sum(cost(PRICE, one.usage.total - one.usage.output, 0) for one in books.paid)
    spent = sum(one.cost - cost(PRICE, 0, one.usage.output) for one in books.paid)
    assert spent < 0.14 * plain


async def headed(folder: Path, member: str, **how: Any) -> Receipt:
    async with ff.open_run(
        "cached", store=folder / "store", roster=folder / "roster.yaml", allow_paid=True
    ) as run:
        found = await ff.map_reduce(
            run, [{"id": f"{n:03}"} for n in range(40)], prompt=CONTEXT + " {{ item.id }}",
            member=member, concurrency=32, **how,
        )  # fmt: skip
    return found.receipt


def graded(asked: Asked) -> Says:
    """The first reply to each is kicked back; judges are content."""
    if "Is it fair?" in asked.prompt:
        return Says(data={"pass": True})
    return Says(text="good" if "not accepted" in str(asked.body) else "bad")


@pytest.mark.parametrize("cache", ["auto", "off"])
def test_kick_backs_judges_and_reduces_share_too(tmp_path: Path, cache: str) -> None:
    """24 maps, as many kick-backs, 24 judgements, a tree of reduces; the rules of the judge are the
    beginning of its prompt. What is written is written once."""
    caches = ServerCaches()
    gate = ff.all_of(
        ff.regex("good"), ff.judge(f"{CONTEXT} Is it fair? {{{{ reply }}}}", member="a")
    )
    how: dict[str, Any] = {"context": CONTEXT, "member": "a", "cache": cache}
    with threaded_server(
        tmp_path / "books", script=f"{__name__}:graded", price=PRICE, caches=caches
    ) as server:
        (tmp_path / "roster.yaml").write_text(ROSTER.format(url=server.url))

        async def carry() -> Receipt:
            roster = tmp_path / "roster.yaml"
            async with ff.open_run(
                "s", store=tmp_path / "s", roster=roster, allow_paid=True
            ) as run:
                found = await ff.map_reduce(
                    run, [{"id": str(n)} for n in range(24)], prompt="Say {{ item.id }}", gate=gate,
                    reduce=ff.asked(prompt="Together", fan_in=4, **how), **how,
                )  # fmt: skip
            return found.receipt

        receipt = run_sync(carry())
        paid = server.books().paid
    assert (receipt.passed, len(paid)) == (24, 81)
    written = [one for one in paid if one.usage.cache_write]
    read = [one for one in paid if one.usage.cache_read]
    assert (len(written), len(read)) == ((2, 79) if cache == "auto" else (0, 0))


STEPS_BEGIN_ALIKE = """\
name: alike
input: {count: 20}
vars: {law: %s}
steps:
  - map: {name: one, member: a, context_file: c.md, prompt: "{{ vars.law }} One: {{ item.n }}"}
  - map: {name: two, member: a, context_file: c.md, prompt: "Two: {{ item.n }}"}
"""


def test_what_two_steps_begin_with_is_written_once(tmp_path: Path) -> None:
    """The first shares more than that: its variables come before the item."""
    caches = ServerCaches()
    with threaded_server(
        tmp_path / "books", script=f"{__name__}:fine", price=PRICE, caches=caches
    ) as server:
        (tmp_path / "roster.yaml").write_text(ROSTER.format(url=server.url))
        (tmp_path / "c.md").write_text(CONTEXT)
        (tmp_path / "p.yaml").write_text(STEPS_BEGIN_ALIKE % json.dumps("law " * 5000))
        options = Options(store=str(tmp_path / "store"), allow_paid=True)
        receipt = run_sync(execute(prepare(str(tmp_path / "p.yaml"), options), Audience(unwatched)))
        paid = server.books().paid
    assert (receipt.passed, len(paid)) == (20, 40)
    written = [one.usage.cache_write for one in paid if one.usage.cache_write]
    assert len(written) == 1, "the second step reads what the first has written"
    first, second = receipt.steps
    assert first.tokens.cache_read > 19 * (SHARED + 4000)
    assert second.tokens.cache_read > 19 * SHARED


def test_off_is_off(tmp_path: Path) -> None:
    caches = ServerCaches()
    with threaded_server(tmp_path / "books", price=PRICE, caches=caches) as server:
        (tmp_path / "roster.yaml").write_text(ROSTER.format(url=server.url))
        receipt = run_sync(mapped(tmp_path, "a", 10, context=CONTEXT, cache="off"))
    assert (receipt.passed, caches.writes, receipt.steps[0].sharing) == (10, 0, 0)


ONCE = """\
name: once
roster: roster.yaml
steps:
  - ask: {member: a, prompt: What does it say?, context: [%s]%s}
"""


@pytest.mark.parametrize("stated", ["", ", cache: auto"])
def test_what_is_asked_once_is_not_written_unless_that_is_stated(
    tmp_path: Path, stated: str
) -> None:
    """It costs more to write, and nobody would read it."""
    caches = ServerCaches()
    with threaded_server(tmp_path / "books", price=PRICE, caches=caches) as server:
        (tmp_path / "roster.yaml").write_text(ROSTER.format(url=server.url))
        receipt = run_sync(mapped(tmp_path, "a", 1, context=CONTEXT))
        assert (receipt.passed, caches.writes) == (1, 0)
        (tmp_path / "once.yaml").write_text(ONCE % (json.dumps(CONTEXT), stated))
        options = Options(store=str(tmp_path / "store"), allow_paid=True)
        run_sync(execute(prepare(str(tmp_path / "once.yaml"), options), Audience(unwatched)))
    assert caches.writes == bool(stated)


def test_a_service_that_keeps_nothing_is_named(tmp_path: Path) -> None:
    with threaded_server(tmp_path / "books", price=PRICE) as server:
        (tmp_path / "roster.yaml").write_text(ROSTER.format(url=server.url))
        receipt = run_sync(mapped(tmp_path, "a", 10, context=CONTEXT))
    assert "0% of" in closing(receipt, None)
    assert "90% were expected: the service kept hardly any of it" in closing(receipt, None)


def test_a_preview_says_what_caches_will_save_and_what_that_takes(tmp_path: Path) -> None:
    (tmp_path / "roster.yaml").write_text(ROSTER.format(url="http://127.0.0.1:9"))
    (tmp_path / "c.md").write_text(CONTEXT)
    fields = "member: a, context_file: c.md, prompt: 'Say {{ item.n }}'"
    costs = []
    for more in ("", ", cache: off"):
        (tmp_path / "p.yaml").write_text(
            f"input: {{count: 300}}\nsteps:\n  - map: {{{fields}{more}}}\n"
        )
        plan, roster = load_plan(tmp_path / "p.yaml"), load_roster(tmp_path / "roster.yaml")
        assert plan.input is not None
        source = open_input(plan.input, plan.folder)
        made = estimate(plan, roster, source, None, Premises(allow_paid=True))
        costs.append(made.total.p50 or 0)
        said = preview_text(made)
        assert ("a keeps what is shared: 20,0" in said, "20 s at most" in said) == (not more,) * 2
        assert bool(made.total.saved) is not bool(more)
    assert costs[0] < 0.2 * costs[1]


def test_a_plan_that_is_killed_continues(tmp_path: Path) -> None:
    roster = ROSTER.replace("id: a,", "id: m,")
    plan = (
        "name: killed\ninput: {count: 12}\nsteps:\n  - map:\n      member: m\n      context_file: c.md\n"
        "      prompt: Say {{ item.n }}\n"
    )
    (tmp_path / "c.md").write_text(CONTEXT)
    killed = carried_through(
        tmp_path, plan, lambda asked: Says(), seed=3, roster=roster, requests=15
    )
    killed.check()
    assert killed.receipt.passed == 12


# ── tools ────────────────────────────────────────────────────────────────────────────────────


def look_up(number: int) -> str:
    """A long page."""
    return f"{number} " * 3000


ROUNDS = [[("look_up", {"number": n})] for n in range(5)]


def looking(asked: Asked) -> Says:
    return calling(*ROUNDS, then=lambda done: "fine")(asked)


def tool_loop(folder: Path, member: str, **how: Any) -> tuple[Receipt, list[Usage]]:
    """A conversation of six asks with five pages; its usage, ask by ask."""
    with threaded_server(
        folder / "books", script=f"{__name__}:looking", price=PRICE, caches=ServerCaches()
    ) as server:
        (folder / "roster.yaml").write_text(ROSTER.format(url=server.url))
        receipt = run_sync(mapped(folder, member, 1, tools=[look_up], **how))
        asked = server.books().asked
    assert [one.billed for one in asked] == [True] * 6
    assert receipt.cost_usd == sum(one.cost for one in asked) / 1e9
    return receipt, [one.usage for one in asked if one.usage is not None]


@pytest.mark.parametrize("context", ["", CONTEXT[:8000]])
def test_each_round_with_tools_reads_what_the_one_before_wrote(
    tmp_path: Path, context: str
) -> None:
    receipt, used = tool_loop(tmp_path, "a", **({"context": context} if context else {}))
    kept = [one.cache_read + one.cache_write for one in used]
    assert [one.cache_read for one in used[2:]] == kept[1:-1], "all that was written by then"
    assert used[-1].input < 100, "only what was never sent before is paid in full"
    whole = [one.input + one.cache_read + one.cache_write for one in used]
    paid = sum(cost(PRICE, one.input, 0, one.cache_read, one.cache_write) for one in used)
    assert paid < 0.5 * sum(cost(PRICE, tokens, 0) for tokens in whole)
    (step,) = [one for one in receipt.steps if one.shared]
    assert step.hit_rate > 0.9


def test_a_service_that_keeps_by_itself_reads_the_rounds_before(tmp_path: Path) -> None:
    _, used = tool_loop(tmp_path, "o")
    assert all(later.cache_read > one.cache_read for one, later in pairwise(used[1:]))


def test_where_caches_are_off_a_loop_with_tools_writes_none(tmp_path: Path) -> None:
    _, used = tool_loop(tmp_path, "a", cache="off")
    assert {one.cache_read + one.cache_write for one in used} == {0}
