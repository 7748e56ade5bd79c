"""What is checked before a fleet starts: its programs, who pays, whether the budget suffices, and what
is likely to go wrong although it is allowed."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping

import msgspec

from fanfold.errors import BadInput
from fanfold.fleet.records import Fleet, Provider, WorkerSpec
from fanfold.members.agents.agent import least_of
from fanfold.members.agents.dialects import DIALECTS
from fanfold.members.agents.fields import AgentFields
from fanfold.members.agents.program_settings import pricing_model
from fanfold.members.entry import MemberEntry
from fanfold.plans.prepare import Job
from fanfold.plans.steps.graph import Graph, GraphTask
from fanfold.price import dollars, lookup, nanos
from fanfold.work import dag

# ── programs and repositories ────────────────────────────────────────────────────────────────


VARIABLES: dict[Provider, str] = {"claude": "FANFOLD_CLAUDE", "codex": "FANFOLD_CODEX"}
"""Each names the program to use instead: for tests, and where it is not on PATH."""

_SOURCES: dict[Provider, str] = {
    "claude": "npm install -g @anthropic-ai/claude-code",
    "codex": "npm install -g @openai/codex",
}


def named_programs(environ: Mapping[str, str]) -> dict[Provider, str]:
    """Those that the environment names; the others are found on PATH, by their own name."""
    return {one: environ[name] for one, name in VARIABLES.items() if environ.get(name)}


def check_programs(fleet: Fleet, environ: Mapping[str, str]) -> None:
    """The program of every worker's provider is installed, wherever the provider is stated; but for those
    that run elsewhere."""
    named = named_programs(environ)
    for one in fleet.workers:
        if one.at is not None:
            continue
        program = named.get(one.provider, one.provider)
        if shutil.which(program, path=environ.get("PATH", "")) is None:
            variable, source = VARIABLES[one.provider], _SOURCES[one.provider]
            raise fleet.bad(
                one, "provider", f"worker `{one.id}` needs the program {program}, which is not on"
                f" PATH; install it ({source}) or name it in {variable}",
            )  # fmt: skip


def check_worktrees(fleet: Fleet) -> None:
    """Workers in worktrees need a commit to begin from."""
    first = next((one for one in fleet.workers if one.isolation == "worktree"), None)
    if first is not None and not _has_commit(fleet.root):
        raise fleet.bad(
            first, "isolation", f"`isolation: worktree` of worker `{first.id}` needs a git repository"
            f" with a commit in {fleet.root}; make one, or leave `isolation` out",
        )  # fmt: skip


def _has_commit(folder: str) -> bool:
    words = ["git", "rev-parse", "--verify", "--quiet", "HEAD^{commit}"]
    try:
        return subprocess.run(words, cwd=folder, capture_output=True).returncode == 0
    except OSError:
        return False


# ── who pays ─────────────────────────────────────────────────────────────────────────────────


KEYS: dict[Provider, tuple[str, ...]] = {
    "claude": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "codex": ("CODEX_API_KEY", "OPENAI_API_KEY"),
}
Accounts = Mapping[Provider, str]
"""By provider, the variable with the API key that is billed; a provider without one uses its login."""


def accounts(fleet: Fleet, environ: Mapping[str, str]) -> Accounts:
    """As the fleet states it; else a key that is set is used, as the programs do themselves."""
    if fleet.config.billing == "subscription":
        return {}
    found: dict[Provider, str] = {}
    for provider in dict.fromkeys(worker.provider for worker in fleet.workers):
        set_ones = [name for name in KEYS[provider] if environ.get(name)]
        if set_ones or fleet.config.billing == "api":
            found[provider] = (set_ones or KEYS[provider])[0]
    return found


def billing_notices(fleet: Fleet, billed: Accounts) -> list[str]:
    """Shown at launch, since it is easily overlooked; not where the fleet states `billing`."""
    if fleet.config.billing is not None:
        return []
    return [
        f"{name} is set, so {provider} workers are billed to that account; for the login write"
        ' "billing": "subscription" into `config`'
        for provider, name in billed.items()
    ]


# ── does the budget suffice ──────────────────────────────────────────────────────────────────


class WorkerBudget(msgspec.Struct, frozen=True):
    """What is reserved for a worker, in nano-dollars: `most` for its budget and a last call above it;
    with less than `least` it is not started. `last` is the share of that call."""

    task: GraphTask
    cap: float
    most: int
    least: int

    @property
    def last(self) -> int:
        return self.most - nanos(self.cap)


def budgets_of(job: Job) -> list[WorkerBudget]:
    """Of the tasks that have a single agent with a budget of its own."""
    found = []
    for task in _tasks(job):
        entry = job.roster.entries.get(task.who.members[0]) if len(task.who.members) == 1 else None
        if entry is not None and entry.traits.agent and not task.who.fallback:
            found += _budget(task, entry)
    return found


def _tasks(job: Job) -> Iterator[GraphTask]:
    for step in job.stored.plan.steps:
        if isinstance(step, Graph):
            yield from step.tasks


def _budget(task: GraphTask, entry: MemberEntry) -> list[WorkerBudget]:
    if not isinstance(entry.fields, AgentFields):
        return []
    cap = entry.fields.max_budget_usd
    most = DIALECTS[entry.traits.kind].most(entry.traits, entry.fields)
    if cap is None or most is None:
        return []
    return [WorkerBudget(task, cap, most, least_of(cap, most))]


def refuse_unaffordable(job: Job) -> None:
    """Refuse a worker that could never start within the budget of the run; the error names a total that
    suffices."""
    budget = job.budget.usd
    for one in budgets_of(job) if budget is not None else ():
        if one.least > nanos(budget or 0.0):
            what = _never_starts(job, one, budget or 0.0)
            raise BadInput(what, file=job.stored.plan.file or None, line=one.task.line)


def _never_starts(job: Job, one: WorkerBudget, budget: float) -> str:
    fleet = job.stored.kind == "fleet"
    last = f" and ${dollars(one.last):.2f} for its last call" if one.last else ""
    what = f"worker `{one.task.id}` needs ${one.cap:.2f}{last}, but the budget is ${budget:.2f}"
    total = max(need.most for need in budgets_of(job))
    where = "`max_budget_fleet`" if fleet else "the budget"
    ways = [f"raise {where} to ${_up(total):.2f}", "lower its `max_budget_usd`"]
    if one.last:
        allow = '"overrun": "allow" in `config`' if fleet else "`overrun: allow` in the roster"
        ways.append(f"write {allow}, to reserve no more than that")
    return f"{what}: it would never start; {', or '.join(ways)}"


def _up(amount: int) -> float:
    """To whole cents, never less."""
    return -(-amount // 10_000_000) / 100


def wait_warnings(job: Job) -> tuple[str, ...]:
    """Shown before the start: workers without dependencies that cannot all start at once."""
    budget, found = job.budget.usd, budgets_of(job)
    if budget is None or not found:
        return ()
    layer = dag.layers(list(_tasks(job)))
    first = sum(one.most for one in found if not layer[one.task.id])
    if first <= nanos(budget):
        return ()
    allow = any(one.last for one in found)
    hint = '; or allow an overrun: "overrun": "allow"' if allow else ""
    return (
        f"the workers that start first may cost ${_up(first):.2f} with their last calls, but the budget"
        f" is ${budget:.2f}: some will wait for budget, or start with less{hint}",
    )


# ── warnings ─────────────────────────────────────────────────────────────────────────────────


_WRITES = re.compile(
    r"\b(?:write|save|store|create|append|put|export|dump)\b[^.\n]{0,80}?"
    r"(?:\bfiles?\b|\boutput/|\bdisk\b|\w\.(?:md|json|txt|csv|html|ya?ml|py|ts|js)\b)",
    re.IGNORECASE,
)
_NOT = re.compile(r"\b(?:not|never|no|without|nor|neither)\b|n't\b", re.IGNORECASE)


def warnings_of(fleet: Fleet) -> list[str]:
    """One line each, with the worker's id and what to do about it."""
    return [
        *_unable_to_write(fleet), *_other_caps(fleet), *_without_price(fleet), *_not_done(fleet),
    ]  # fmt: skip


def _unable_to_write(fleet: Fleet) -> Iterator[str]:
    for one in fleet.workers:
        if one.type != "read-only":
            continue
        readers = [r.id for r in fleet.workers if one.id in r.depends_on and _reads(r, one)]
        if _asks_to_write(f"{one.task}\n{one.prompt}"):
            why = "is asked to write files"
        elif readers:
            why = f"cannot write the files that {', '.join(readers)} should read"
        else:
            continue
        yield (
            f"worker `{one.id}` is read-only and {why}: it may look for a tool that it does not"
            " have until its budget is used up; use the type write, research or code-run"
        )


def _asks_to_write(text: str) -> bool:
    """`do not write any files` does not."""
    return any(
        not _NOT.search(text, max(0, found.start() - 25), found.start())
        for found in _WRITES.finditer(text)
    )


def _reads(reader: WorkerSpec, one: WorkerSpec) -> bool:
    return re.search(rf"\bworkers/{re.escape(one.id)}/", reader.prompt) is not None


def _other_caps(fleet: Fleet) -> Iterator[str]:
    capped = [
        f"`{one.id}`"
        for one in fleet.workers
        if one.provider == "codex" and "max_budget_usd" in one.stated and _has_price(one)
    ]
    if capped:
        yield (
            f"codex has no budget option: `max_budget_usd` of {', '.join(capped)} is enforced by fanfold,"
            " which stops the worker once it has been exceeded"
        )


def _without_price(fleet: Fleet) -> Iterator[str]:
    """Without those that have another limit."""
    codex = [one for one in fleet.workers if one.provider == "codex" and not _has_price(one)]
    free = [f"`{one.id}`" for one in codex if not (one.max_turns or one.timeout_seconds)]
    if free:
        yield (
            f"no price is known for the model of {', '.join(free)}, so what codex spends there has no"
            " limit: name a model, or set `max_turns` or `timeout_seconds`"
        )


def _has_price(one: WorkerSpec) -> bool:
    return lookup(pricing_model(one.provider, one.model), "openai") is not None


def _not_done(fleet: Fleet) -> Iterator[str]:
    if fleet.config.record:
        yield "`record` is ignored: every worker's log is kept, see `fanfold view`"
