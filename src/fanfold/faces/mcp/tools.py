"""The tools of the MCP server: those of a desk, and those for plans and runs. One run, one desk,
one budget; no protocol in here."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from fanfold.errors import BadInput
from fanfold.journal.facts import RunRecord
from fanfold.journal.places import absolute
from fanfold.observe.account import account
from fanfold.observe.detail import detail_json
from fanfold.observe.report import report
from fanfold.observe.status import RunSummary, listed, overview_json, summarize
from fanfold.patterns.delegate import (
    Desk,
    Progress,
    RosterMembers,
    budget_words,
    find_members,
    new_run,
)
from fanfold.patterns.delegate_tools import (
    TOOLS,
    ToolArguments,
    arguments,
    delegation_tools,
    our_name,
    use_tool,
)
from fanfold.plans.load import load_plan
from fanfold.price import dollars, nanos
from fanfold.run.orders import Verb, WorkerMessage, give
from fanfold.run.run import Run
from fanfold.run.settings import Settings
from fanfold.work.ask import Tool
from fanfold.work.budget import Amount
from fanfold.work.files import resolved
from fanfold.work.started import PARENT, STORE
from fanfold.work.task import Budget

_decode = msgspec.json.Decoder().decode
_RUNS = 20
ORDERS: tuple[Verb, ...] = ("pause", "resume", "set", "approve", "skip", "tell")
BY, PATIENCE = "an MCP client", 10.0  # seconds to wait for the answer of the run's process
_LONGEST = 100_000  # characters of a plan's result that the caller gets


class McpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `fanfold mcp`. The budget is for all calls of its tools, plans too.
    `concurrency` replaces the roster's `max_concurrency`. `orders`: its clients may give orders to runs of
    the store."""

    store: str
    name: str = "delegates"
    roster: str | None = None
    budget: Budget = Budget()
    allow_paid: bool = False
    without: tuple[str, ...] = ()
    fresh: bool = False
    concurrency: int | None = None
    parent: str | None = None
    orders: bool = False


class Toolset:
    """The tools of one server. Each returns plain data, or raises a FanfoldError for the caller."""

    def __init__(self, run: Run, staff: RosterMembers, options: McpOptions) -> None:
        self.run, self._options, self._folder = run, options, staff.folder
        self.desk = Desk(run, staff, without=options.without)
        self._one_plan = asyncio.Lock()
        self._store = absolute(options.store)
        self._roster = options.roster and str(Path(options.roster).absolute())

    @property
    def takes_orders(self) -> bool:
        return self._options.orders

    async def call(self, tool: str, given: dict[str, Any], progress: Progress | None = None) -> Any:
        if (ours := our_name(tool)) in TOOLS:
            found = await use_tool(self.desk, tool, given, progress)
            return {**found, **self._money()} if ours in ("menu", "delegate_many") else found
        match tool:
            case "run_plan":
                return await self._run_plan(_Plan.read(given).plan)
            case "status":
                name = _OneRun.read(given).run
                read = self.run.store.read
                if name is not None:
                    return _decode(detail_json(read, self._stand(self._find(name))))
                newest = sorted(read.runs(), key=lambda run: run.no, reverse=True)[:_RUNS]
                shown = _decode(overview_json([self._listed(one) for one in newest]))
                return {"run": self.run.record.id, **self._money(), "runs": shown}
            case "report":
                return self._report(_OneRun.read(given).run)
            case "order" if self._options.orders:
                return await self._order(_Order.read(given))
            case _:
                raise BadInput(f"there is no tool `{tool}`")

    def _money(self) -> dict[str, float | None]:
        stats = self.run.statistics()
        remaining = None
        if stats.budget is not None:
            remaining = dollars(max(0, stats.budget - stats.cost - stats.reserved))
        return {"spent_usd": dollars(stats.cost), "left_usd": remaining}

    async def _order(self, order: _Order) -> dict[str, Any]:
        """As the command line gives them; what became of it."""
        if order.what not in ORDERS:
            raise BadInput(f"{order.what!r} is not an order; there are {', '.join(ORDERS)}")
        value = order.value
        if order.what == "tell":
            value = msgspec.json.encode(WorkerMessage(order.worker, value)).decode()
        run = self._find(order.run)
        given = await give(self.run.store, run, BY, order.what, value, within=PATIENCE)
        if given.state == "refused":
            raise BadInput(f"{run.name}: {given.said}")
        waits = "it waits until the run is resumed" if given.state == "given" else ""
        return {"run": run.id, "order": given.no, "state": given.state, "said": given.said or waits}

    # ── plans ──

    async def _run_plan(self, plan: str) -> Any:
        """As a run of its own, below ours, on the remaining budget; other calls wait meanwhile."""
        # Only plans in this server's folder; the caller is a model
        folder = resolved(self._folder)
        try:
            path = resolved(folder / plan)
        except BadInput as error:  # a zero byte, a link cycle
            raise BadInput(f"{plan!r}: {error.what}") from None
        if not path.is_relative_to(folder):
            raise BadInput(f"{plan} is not in this server's folder")
        stated = load_plan(path).budget
        async with self._one_plan:
            budget, lent = self.run.lend()
            spent = lent  # until its receipt is known
            try:
                found = await self._in_process(path, _smaller(stated, budget))
                tokens = sum(found["tokens"].values())
                spent = Amount(nanos(found["cost_usd"]), tokens, found["calls"])
            except BadInput:
                spent = Amount()
                raise
            finally:
                self.run.repay(lent, spent)
        if len(msgspec.json.encode(found["result"])) > _LONGEST:
            found["result"] = f"too long to return here: see `fanfold report {found['run']}`"
        return found

    async def _in_process(self, path: Path, budget: Budget) -> dict[str, Any]:
        """In a separate process: a store must not be opened twice by one process, and a plan's
        functions must not disturb this server."""
        words = ["run", str(path), "--store", self._store, "--json", "--quiet"]
        words += budget_words(budget)
        words += ["--roster", self._roster] if self._roster else []
        words += ["--allow-paid"] if self._options.allow_paid else []
        words += ["--fresh"] if self._options.fresh else []
        env = {**os.environ, PARENT: self.run.record.id, STORE: self._store}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "fanfold", *words, cwd=self._folder, env=env,
            stdin=DEVNULL, stdout=PIPE, stderr=PIPE,
        )  # fmt: skip
        try:
            out, err = await process.communicate()
        except asyncio.CancelledError:
            process.terminate()
            await process.wait()
            raise
        if not out:
            why = err.decode(errors="replace").strip().removeprefix("fanfold: ")
            raise BadInput(why or f"the plan ended with exit code {process.returncode}")
        found: dict[str, Any] = _decode(out)
        return found

    # ── status and report ──

    def _report(self, name: str | None) -> str:
        record = self._find(name or self.run.record.id)
        return report(account(self.run.store, self._stand(record)))

    def _find(self, name: str) -> RunRecord:
        record = self.run.store.read.find(name)
        if record is None:
            raise BadInput(f"there is no run {name!r}; call status without a run to see them")
        return record

    def _listed(self, record: RunRecord) -> RunSummary:
        journal = self.run.store
        return listed(
            journal.read, record, journal.sessions.alive, self.run.clock.now(), journal.sent
        )

    def _stand(self, record: RunRecord) -> RunSummary:
        journal = self.run.store
        return summarize(
            journal.read, record, journal.sessions.alive, self.run.clock.now(), journal.sent
        )


ORDER = Tool(
    "order",
    "Give an order to a run of this store, also while it runs: `pause`, `resume`, `approve`; `set` with"
    " a value such as budget=5, concurrency=8, map.concurrency=4, fast.limits.rpm=60, fast=off, roster;"
    " `skip` with an item's id; `tell` with a worker and a message for it. On record as yours.",
    arguments({
        "run": {"type": "string", "description": "A run's name or id."},
        "what": {"type": "string", "enum": list(ORDERS)},
        "value": {"type": "string"}, "worker": {"type": "string", "description": "Of `tell`."},
    }, "run", "what"),
)  # fmt: skip


def tool_list(menu: list[dict[str, Any]], *, orders: bool = False) -> list[Tool]:
    """The tools as a model reads of them, with the present members in their descriptions."""
    return [
        *([ORDER] if orders else []),
        *delegation_tools(menu),
        Tool(
            "run_plan",
            "Run a fanfold plan file (YAML) in this server's folder, for work with many items: it is "
            "durable and checked. Returns its receipt; waits until it has ended.",
            arguments({"plan": {"type": "string", "description": "Path of the file."}}, "plan"),
        ),
        Tool(
            "status",
            "What was spent here and what remains, and the newest runs; or one run in detail.",
            arguments({"run": {"type": "string", "description": "A run's name or id."}}),
        ),
        Tool(
            "report",
            "The account of a run as Markdown: result, receipt, cost by member. Without `run`: of "
            "what was delegated here so far.",
            arguments({"run": {"type": "string", "description": "A run's name or id."}}),
        ),
    ]  # fmt: skip


@asynccontextmanager
async def open_toolset(options: McpOptions, folder: Path) -> AsyncIterator[Toolset]:
    """A run for the lifetime of one server, closed with its receipt at the end. Its tasks are
    independent: one that exceeds the budget stops no other."""
    staff = find_members(
        options.roster, folder, allow_paid=options.allow_paid, at_once=options.concurrency
    )
    settings = Settings(budget=options.budget, fresh=options.fresh, serving=True)
    async with new_run(options.name, staff, settings, options.store, options.parent) as run:
        yield Toolset(run, staff, options)


def _smaller(stated: Budget, remaining: Budget) -> Budget:
    """Amount by amount the plan's limit or the remaining one, whichever is less."""
    pairs = {
        name: (getattr(stated, name), getattr(remaining, name))
        for name in remaining.__struct_fields__
    }
    known = {name: [one for one in pair if one is not None] for name, pair in pairs.items()}
    return Budget.of(**{name: min(found) for name, found in known.items() if found})


# ── arguments ────────────────────────────────────────────────────────────────────────────


class _Plan(ToolArguments):
    plan: str


class _Order(ToolArguments):
    run: str
    what: str
    value: str = ""
    worker: str = ""


class _OneRun(ToolArguments):
    run: str | None = None
