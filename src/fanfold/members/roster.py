"""The roster: the file that lists the members, and the builder of each when it is needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from fanfold.errors import BadInput, Terminal
from fanfold.members.command import Command, Talk
from fanfold.members.ensembles import Ensemble, read_ensembles
from fanfold.members.entry import Entry, read_entry
from fanfold.members.found import DEFAULT_ROSTER as DEFAULT_ROSTER
from fanfold.members.found import find_roster as find_roster
from fanfold.members.function import Function
from fanfold.members.replay import Replay
from fanfold.members.stated import APIS, refuse_pasted_keys
from fanfold.members.tangle import read_tangle_entry
from fanfold.members.target import resolve_target
from fanfold.work.check import Check, anything, elements, fields, flag, number, whole
from fanfold.work.document import Node, read
from fanfold.work.member import Member
from fanfold.work.nearest import remedy

Key = Callable[[], str | None]
"""Fetches a key at the last moment; None when the member needs none."""


class RosterSettings(msgspec.Struct, frozen=True):
    """`allow_paid`: members of tier paid may be used. `max_concurrency` is for the whole process.
    `max_wait`: seconds that a run waits at most for a member that says when to come back."""

    allow_paid: bool = False
    max_concurrency: int = 64
    max_wait: float = 600.0

    def said(self, allow_paid: bool, at_once: int | None = None) -> RosterSettings:
        """With what the command line says: `--allow-paid`, `--concurrency`."""
        return msgspec.structs.replace(
            self, allow_paid=self.allow_paid or allow_paid,
            max_concurrency=at_once or self.max_concurrency,
        )  # fmt: skip


SETTINGS: dict[str, Check] = {
    "allow_paid": flag,
    "max_concurrency": whole(least=1),
    "max_wait": number(least=0),
}


class Roster(msgspec.Struct, frozen=True):
    """The members by id. `file` is None for one that was made by hand. `elsewhere`: variables that
    hold keys of members that are asked in the same run, but are not in here."""

    entries: dict[str, Entry] = {}
    settings: RosterSettings = RosterSettings()
    file: str | None = None
    ensembles: dict[str, Ensemble] = {}
    elsewhere: frozenset[str] = frozenset()

    @property
    def own(self) -> bool:
        """It is the one that fanfold brings along."""
        return self.file == str(DEFAULT_ROSTER)

    @property
    def called(self) -> str:
        """What to call it in an error."""
        if self.own:
            return "fanfold's own roster (no roster.yaml was found)"
        return f"the roster {self.file}" if self.file else "the roster"

    def entry(self, id: str) -> Entry:
        found = self.entries.get(id)
        if found is None:
            known = remedy(id, self.entries) if self.entries else "the roster has no members"
            raise BadInput(f"there is no member `{id}`: {known}", file=self.file)
        return found

    @property
    def hidden(self) -> frozenset[str]:
        """The variables that hold keys; commands do not get to see them."""
        keys = (entry.key for entry in self.entries.values())
        own = (key.removeprefix("env:") for key in keys if key.startswith("env:"))
        return self.elsewhere.union(own)

    def build(self, entry_id: str, *, folder: str | Path) -> Member:
        """The member itself. Functions are imported from `folder`, commands run there: the plan's.

        Recorded replies and key files are looked for beside the roster.
        """
        entry = self.entry(entry_id)
        traits = entry.traits
        match traits.kind:
            case "function":
                line = entry.line("target")
                target = resolve_target(entry.target, folder, file=self.file, line=line)
                return Function(traits, target, threads=entry.threads)
            case "command":
                hidden = self.hidden.union(entry.scrub_env)
                talk = Talk(entry.prompt, entry.parse)
                return Command(traits, entry.cmd, folder, hidden=hidden, talk=talk)
            case "replay":
                return Replay(traits, self._beside(entry.file))
            case "claude" | "codex" | "gemini" | "opencode":
                return self._agent(entry, Path(folder))
            case "local":
                return _local_member(entry, self._beside(""))
            case _:
                return _api_member(entry, self._key(entry))

    def _agent(self, entry: Entry, folder: Path) -> Member:
        """Imported only when one is used."""
        from fanfold.members.agents.agent import Agent, Site
        from fanfold.members.agents.dialects import DIALECTS

        where = folder / Path(entry.folder).expanduser()
        place = None if not entry.place else where / entry.place
        site = Site(where.absolute(), place and place.absolute(), entry.isolation, self.hidden)
        return Agent(entry.traits, entry.setup, DIALECTS[entry.traits.kind], site)

    def check_keys(self, ids: Iterable[str], environ: Mapping[str, str] = os.environ) -> None:
        """Before a run: every key that will be needed can be found. BadInput for the first not."""
        for id in ids:
            entry = self.entry(id)
            how, _, name = entry.key.partition(":")
            if how == "env" and not environ.get(name, "").strip():
                what = f"member `{id}`: the variable {name} is not set; export it, or change `key`"
                raise BadInput(what, file=self.file, line=entry.line("key"))
            if how == "file" and not _read_key(self._beside(name)):
                what = f"member `{id}`: its key file is missing, empty or not readable"
                raise BadInput(what, file=self.file, line=entry.line("key"))

    def _beside(self, name: str) -> Path:
        return Path(self.file or ".").parent / Path(name).expanduser()

    def _key(self, entry: Entry) -> Key:
        """Resolves the reference when it is called, so a key is never kept."""
        how, _, name = entry.key.partition(":")

        def fetch() -> str | None:
            if how == "none":
                return None
            key = os.environ.get(name, "") if how == "env" else _read_key(self._beside(name))
            if not key.strip():
                raise Terminal(f"{entry.traits.id}: its key is no longer set", scope="pool")
            return key.strip()

        return fetch


def _read_key(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _local_member(entry: Entry, beside: Path) -> Member:
    """Imported only when one is used: the HTTP client would slow every start down."""
    from fanfold.members.local import Local

    return Local(entry.traits, entry.tuning, beside=beside)


def _api_member(entry: Entry, key: Key) -> Member:
    """Imported only when one is used: the HTTP client would slow every start down."""
    assert entry.traits.kind in APIS
    if entry.traits.kind == "openai":
        from fanfold.members.openai import OpenAI

        return OpenAI(entry.traits, entry.base_url, key)
    from fanfold.members.anthropic import Anthropic

    return Anthropic(entry.traits, entry.base_url, key)


# ── reading ──────────────────────────────────────────────────────────────────────────────────


def load_roster(path: str | Path) -> Roster:
    """Read and check a roster file. Nothing is imported, started or asked."""
    return read_roster(read(path))


def read_roster(top: Node) -> Roster:
    """A roster that was parsed: ours, or TangleBrain's, which is a list."""
    refuse_pasted_keys(top)
    if isinstance(top.value, list):
        return Roster(_read_members(top, read_tangle_entry), file=top.file)
    known = {"members": _read_own, "settings": _read_settings, "ensembles": anything}
    found = fields(top, known, "a roster", required=("members",))
    members, settings = found["members"], found.get("settings", RosterSettings())
    groups = read_ensembles(top.child("ensembles"), members) if "ensembles" in found else {}
    return Roster(members, settings, top.file, groups)


def _read_own(node: Node) -> dict[str, Entry]:
    return _read_members(node, read_entry)


def _read_members(node: Node, read_one: Callable[[Node], Entry]) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for child in elements(node):
        entry = read_one(child)
        id = entry.traits.id
        if id in found:
            first = found[id].line()
            raise child.child("id").bad(f"duplicate member `{id}`, first in line {first}")
        found[id] = entry
    return found


def _read_settings(node: Node) -> RosterSettings:
    return RosterSettings(**fields(node, SETTINGS, "settings"))
