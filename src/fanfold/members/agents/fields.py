"""What a roster or a script states of an agent."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal

import msgspec

from fanfold import price
from fanfold.errors import Terminal
from fanfold.members.agents.program_settings import pricing_model, resolved
from fanfold.members.agents.worker import OUTPUT, Effort, Overrun, Sandbox, WorkerType
from fanfold.members.kinds import (
    UNSENT,
    BuildContext,
    Carrying,
    MemberFields,
    Texts,
    Unready,
    Version,
    check_variables,
    file_patterns,
    read_patterns,
)
from fanfold.members.process import why_not_startable
from fanfold.price import Price
from fanfold.work.carried import AskFiles
from fanfold.work.files import expanded
from fanfold.work.media import MediaKind
from fanfold.work.member import MemberLimits, Traits
from fanfold.work.reader import Count, Misfit, Positive, Text, listed


class AgentFields(MemberFields, frozen=True, kw_only=True):
    """An agent that works in the current folder: `members=[ff.agent("claude", type="read-only")]`.
    The login is the program's own.

    `type` is what it may do (tools or sandbox follow from it); `tools` states them one by one
    instead. `max_budget_usd`: as it is given to the program. `overrun`: what its last call may take
    above that is reserved too, or allowed without. `silence`: seconds without output, then it is
    ended. `session`: the program's own session to continue. `mcp`: a file, or JSON. `folder`: where
    it works; `place`: where it leaves its log, else in a folder of the store. `remote`: the git remote from
    which another machine takes the repository of a worktree, else it is sent a bundle. It may work for
    hours, and writes whole files.
    """

    timeout: Positive = 0.0
    max_tokens: Count = 16_000
    model: Text | None = None
    program: Text = ""
    type: WorkerType | None = None
    effort: Effort | None = None
    max_turns: Count | None = None
    max_budget_usd: Positive | None = None
    overrun: Overrun = "reserve"
    silence: Positive | None = None
    session: Text | None = None
    mcp: Text | None = None
    env: Mapping[str, Text] = msgspec.field(default_factory=dict)
    folder: Text = ""
    place: Text = ""
    isolation: Literal["none", "worktree"] = "none"
    remote: Text | None = None
    inputs: Texts = ()
    outputs: Texts = ()
    files: Carrying = "carried"
    version: Version | None = None
    fallback_model: Text | None = None
    tools: Texts | None = None
    system: Text | None = None
    sandbox: Sandbox | None = None
    network: bool | None = None

    usual_limits: ClassVar[MemberLimits] = MemberLimits(concurrency=4)
    unsent: ClassVar[tuple[str, ...]] = UNSENT
    priced_as: ClassVar[str] = "openai"
    """Whose price list has its models."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_variables(self.env, "env")
        if self.tools is not None:
            self.put(tools=listed(self.tools))
        self.put(inputs=read_patterns(self.inputs, "inputs"))
        self.put(outputs=read_patterns(self.outputs, "outputs"))
        if self.remote is not None and (self.remote.startswith("-") or self.isolation == "none"):
            raise Misfit("`remote` is a git URL, and goes with `isolation: worktree`", "remote")

    def traits(self, roster: Path) -> Traits:
        """Its model is paid for wherever the agent runs. `@run`: without a version its replies serve
        no other run."""
        may = self.type or ",".join(self.tools or ()) or "-"
        version = "run" if self.version is None else str(self.version)
        model = pricing_model(self.kind, self.model)
        known = self.price if isinstance(self.price, Price) else None
        return Traits(
            **self.common() | {
                "tier": self.tier or "subscription", "pool": self.pool or self.kind,
            },
            answerer=f"{self.kind}:{self.model or '-'}:{may}@{version}", agent=True,
            model=self.model, shared=self.version is not None,
            price=price.lookup(model, self.priced_as) if known is None else known,
            bounded=self.max_budget_usd is not None or self.max_turns is not None,
            patterns=file_patterns(self.inputs, self.outputs, self.files),
        )  # fmt: skip

    def works_in(self, folder: Path) -> Path:
        return folder / expanded(self.folder)

    def ask_files(self, traits: Traits, folder: Path) -> AskFiles | None:
        """Of a fleet's worker elsewhere its own folder comes back. What it needs is found when it starts."""
        if not self.place:
            return super().ask_files(traits, folder)
        root = str(self.works_in(folder).absolute())
        left = (f"{self.place}/{OUTPUT}/**",)
        return (
            AskFiles(outputs=left, folder=root, home=self.place, root=root) if traits.at else None
        )

    @property
    def usual_media(self) -> tuple[MediaKind, ...]:
        """They open files themselves, and are given the paths."""
        return ("image", "document")

    @property
    def leads_by_mcp(self) -> bool:
        return self.can_orchestrate

    def delegating(self, mcp_json: str, mcp_command: str) -> AgentFields:
        return msgspec.structs.replace(self, mcp=mcp_json)

    def without_program(self, folder: Path | None) -> Unready | None:
        stated = {"PATH": self.env["PATH"]} if "PATH" in self.env else {}
        try:
            path = resolved(stated, os.environ).get("PATH")
        except Terminal as error:
            return Unready("env", str(error))
        where = None if folder is None else self.works_in(folder)
        why = why_not_startable(self.program or self.kind, where, path)
        return Unready("program", why) if why else None

    async def trouble(self, traits: Traits, context: BuildContext) -> str | None:
        """Whether it is logged in shows when it is asked."""
        return None
