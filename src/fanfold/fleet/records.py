"""A fleet.json as records: what it states, with the defaults of dag-fleet filled in."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

import msgspec

from fanfold.errors import BadInput
from fanfold.members.agents.worker import Effort, Overrun, WorkerType

FILE = "fleet.json"
Provider = Literal["claude", "codex"]
PROVIDERS: tuple[Provider, ...] = get_args(Provider)
TYPES: tuple[WorkerType, ...] = get_args(WorkerType)
Isolation = Literal["none", "worktree"]
Billing = Literal["subscription", "api"]


class FleetConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for all workers. 0 means no limit: in `max_budget_fleet` and in the seconds.
    `overrun`: money for the last call of a worker, which may pass its budget, is reserved, or that is
    allowed to happen. `billing` None: a key in the environment is used, as the programs would themselves."""

    max_concurrent: int = 5
    model: str = "sonnet"
    fallback_model: str = "haiku"
    provider: Provider = "claude"
    reasoning_effort: Effort | None = None
    launch_delay_seconds: float = 3.0
    max_budget_fleet: float = 0.0
    overrun: Overrun = "reserve"
    keep_panes_open: bool = False
    record: bool = False
    isolation: Isolation = "none"
    silence_seconds: float = 0.0
    timeout_seconds: float = 0.0
    billing: Billing | None = None


class WorkerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One worker. What it does not state itself is taken from the configuration.

    `model` is None where nobody states one and the usual one is of another provider. `prompt` is
    what it is sent; "" where only the shape of the fleet was read. `stated`: the fields that the
    file has for it, each with its line.
    """

    id: str
    type: WorkerType = "read-only"
    task: str = ""
    provider: Provider = "claude"
    model: str | None = None
    fallback_model: str | None = None
    reasoning_effort: Effort | None = None
    max_turns: int = 0
    max_budget_usd: float = 1.0
    depends_on: tuple[str, ...] = ()
    partial: bool | Literal["always"] = False
    isolation: Isolation = "none"
    target_files: tuple[str, ...] = ()
    silence_seconds: float = 0.0
    timeout_seconds: float = 0.0
    prompt: str = ""
    line: int = 1
    stated: dict[str, int] = {}

    @property
    def weight(self) -> float:
        """Nobody knows beforehand how long a worker takes: all count the same."""
        return 1.0


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """`file` as it was named, for error texts; `root` is the absolute folder that it lies in."""

    name: str
    id: str
    file: str
    root: str
    type: str = "dag"
    config: FleetConfig = FleetConfig()
    workers: tuple[WorkerSpec, ...]

    def home(self, worker: str) -> Path:
        """The folder of one worker: its prompt, its log, its output."""
        return Path(self.root, "workers", worker)

    def output(self, worker: str) -> Path:
        return self.home(worker) / "output"

    def bad(self, worker: WorkerSpec, field: str, what: str) -> BadInput:
        """An error at the line of a worker's field, or of the worker where it does not state it."""
        return BadInput(what, file=self.file, line=worker.stated.get(field, worker.line))
