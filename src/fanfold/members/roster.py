"""The roster: the file that lists the members and the ensembles (members that answer together under one
name), and the builder of each member when it is needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from fanfold.errors import BadInput, FanfoldError
from fanfold.members.entry import MemberEntry, read_entry
from fanfold.members.keys import refuse_pasted_keys, value_of
from fanfold.members.kinds import KINDS, BuildContext, MemberFields, Unready, record_of
from fanfold.members.roster_file import DEFAULT_ROSTER as DEFAULT_ROSTER
from fanfold.members.roster_file import find_roster as find_roster
from fanfold.members.tangle import read_tangle_entry
from fanfold.work.check import Check, elements, flag, number, text, whole
from fanfold.work.document import Node, read
from fanfold.work.files import expanded
from fanfold.work.member import Member
from fanfold.work.nearest import remedy
from fanfold.work.reader import Count, Misfit, NonNegative, Text, read_record, schema_of


class RosterSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`allow_paid`: members of tier paid may be used. `max_concurrency` is for the whole process.
    `max_wait`: seconds that a run waits at most for a member that says when to come back.
    `queue`: where asks of members `at: workers` are put; the store by default."""

    called: ClassVar[str] = "settings"
    allow_paid: bool = False
    max_concurrency: Count = 64
    max_wait: NonNegative = 600.0
    queue: Text | None = None

    def with_options(self, allow_paid: bool, at_once: int | None = None) -> RosterSettings:
        """With what the command line says: `--allow-paid`, `--concurrency`."""
        return msgspec.structs.replace(
            self, allow_paid=self.allow_paid or allow_paid,
            max_concurrency=at_once or self.max_concurrency,
        )  # fmt: skip


SETTINGS: dict[str, Check] = {
    "allow_paid": flag,
    "max_concurrency": whole(least=1),
    "max_wait": number(least=0),
    "queue": text,
}


class Roster(msgspec.Struct, frozen=True):
    """The members by id. `file` is None for one that was made by hand. `elsewhere`: variables that
    hold keys of members that are asked in the same run, but are not in here."""

    entries: dict[str, MemberEntry] = {}
    settings: RosterSettings = RosterSettings()
    file: str | None = None
    ensembles: dict[str, RosterEnsemble] = {}
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

    @property
    def folder(self) -> Path:
        """Files that it names are looked for here."""
        return Path(self.file or ".").parent

    def entry(self, id: str) -> MemberEntry:
        found = self.entries.get(id)
        if found is None:
            known = remedy(id, self.entries) if self.entries else "the roster has no members"
            raise BadInput(f"there is no member `{id}`: {known}", file=self.file)
        return found

    def bad(self, id: str, what: str, field: str = "id") -> BadInput:
        """What is wrong with a member, with the line of the field, or else of the member."""
        return BadInput(what, file=self.file, line=self.entry(id).line(field))

    @property
    def hidden(self) -> frozenset[str]:
        """The variables that hold keys; commands do not get to see them."""
        keys = (entry.fields.key_reference for entry in self.entries.values())
        own = (key.removeprefix("env:") for key in keys if key.startswith("env:"))
        return self.elsewhere.union(own)

    def build(self, entry_id: str, *, folder: str | Path) -> Member:
        """The member itself. Functions are imported from `folder`, commands run there: the plan's."""
        entry = self.entry(entry_id)
        return entry.fields.build(entry.traits, self._context(entry, folder))

    async def trouble_with(self, entry_id: str, *, folder: str | Path) -> str | None:
        """Can a member be used from here? Looks without asking anything that costs. None: it can;
        otherwise what is in the way, in a few words."""
        entry = self.entry(entry_id)
        try:
            self.check_ready(entry_id, folder=folder)
            return await entry.fields.trouble(entry.traits, self._context(entry, folder))
        except FanfoldError as error:
            return str(error)

    def _context(self, entry: MemberEntry, folder: str | Path) -> BuildContext:
        return BuildContext(Path(folder), self.folder, self.hidden, self.file, entry.lines)

    def check_ready(self, id: str, *, folder: str | Path | None) -> None:
        """The key and the program that it needs are there; of one that is asked elsewhere, they are
        there. `folder` None: what will be in it is not known yet. BadInput, with the line."""
        entry = self.entry(id)
        if entry.traits.at:
            return
        where = None if folder is None else Path(folder)
        missing = self._without_key(entry.fields) or entry.fields.without_program(where)
        if missing is not None:
            raise self.bad(id, f"member `{id}`: {missing.why}", missing.field)

    def missing(self, id: str, *, folder: str | Path | None) -> str:
        """The same as a text, without its place; "" when it is ready."""
        try:
            self.check_ready(id, folder=folder)
        except BadInput as error:
            return error.what
        return ""

    def _without_key(self, fields: MemberFields) -> Unready | None:
        reference = fields.key_reference
        if reference == "none" or value_of(reference, self.folder, os.environ):
            return None
        name = reference.removeprefix("env:")
        if name == reference:
            file = self.folder / expanded(name.removeprefix("file:"))
            what = "is missing, empty or not readable; write the key into it, or change `key`"
            if file.exists() and not file.is_file():
                what = "is no regular file; it is read for each request, so write the key into one"
            return Unready("key", f"its key file {file} {what}")
        return Unready("key", f"the variable {name} is not set; export it, or change `key`")


# ── reading ──────────────────────────────────────────────────────────────────────────────────


class RosterFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A roster file. Its members are read one by one: only the kinds that they name are imported."""

    called: ClassVar[str] = "a roster"
    members: tuple[Any, ...]
    settings: RosterSettings = RosterSettings()
    ensembles: dict[str, EnsembleFields] = {}


def load_roster(path: str | Path) -> Roster:
    """Read and check a roster file. Nothing is imported, started or asked."""
    return read_roster(read(path))


def read_roster(top: Node) -> Roster:
    """A roster that was parsed: ours, or TangleBrain's, which is a list."""
    refuse_pasted_keys(top)
    if isinstance(top.value, list):
        return Roster(_read_members(top, read_tangle_entry), file=top.file)
    found = read_record(top, RosterFile)
    members = _read_members(top.child("members"), read_entry)
    check_ensembles(top, found.ensembles, members)
    groups = {name: fields.ensemble for name, fields in found.ensembles.items()}
    return Roster(members, found.settings, top.file, groups)


def _read_members(node: Node, read_one: Callable[[Node], MemberEntry]) -> dict[str, MemberEntry]:
    found: dict[str, MemberEntry] = {}
    for child in elements(node):
        entry = read_one(child)
        id = entry.traits.id
        if id in found:
            first = found[id].line()
            raise child.child("id").bad(f"duplicate member `{id}`, first in line {first}")
        found[id] = entry
    return found


def roster_schema() -> dict[str, Any]:
    """The JSON Schema of a roster file: members of all kinds. A roster's members need an id; fields
    that a kind does not have are left out."""
    records = [record_of(kind) for kind in KINDS]
    members: Any = reduce(or_, records)
    whole = msgspec.defstruct(
        "Roster",
        [("members", list[members]), ("settings", RosterSettings, RosterSettings()),
         ("ensembles", dict[str, EnsembleFields], {})],
        forbid_unknown_fields=True,
    )  # fmt: skip
    schema = schema_of(whole)
    for record in records:
        kind = schema["$defs"][record.__name__]
        kind["required"] = ["kind", "id", *(one for one in kind["required"] if one != "kind")]
        if "provider" in kind["properties"]:  # who names one need not say the kind
            kind["required"].remove("kind")
            kind["anyOf"] = [{"required": ["kind"]}, {"required": ["provider"]}]
        for name in record.absent:
            del kind["properties"][name]
    return schema


# ── ensembles ────────────────────────────────────────────────────────────────────────────────

Rule = Literal["majority", "plurality", "weighted", "quorum", "judge"]
TAKEN = ("auto",)


class RosterEnsemble(msgspec.Struct, frozen=True, kw_only=True):
    """`judge` is a member that decides instead of a count, or where that gives no decision; `picks`:
    it names one of the answers."""

    members: tuple[str, ...]
    decide: Rule = "majority"
    weights: dict[str, float] = {}
    quorum: int | None = None
    samples: int | None = None
    stop_early: bool = False
    judge: str | None = None
    picks: bool = True


class JudgeFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    called: ClassVar[str] = "a judge"
    member: Text
    picks: bool = True


class EnsembleFields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """As a roster states it. As in a plan, `judge: {member: …}` goes with `decide: judge`, which may
    be left out, or with `majority` or `quorum`."""

    called: ClassVar[str] = "an ensemble"
    members: Annotated[tuple[Text, ...], Meta(min_length=1)]
    decide: Rule | None = None
    weights: dict[str, NonNegative] = {}
    quorum: Count | None = None
    samples: Count | None = None
    stop_early: bool = False
    judge: JudgeFields | None = None

    def __post_init__(self) -> None:
        if self.judge is None and self.decide == "judge":
            raise Misfit("`decide: judge` needs a `judge: {member: …}`", "decide")
        if self.judge is not None and self.decide in ("plurality", "weighted"):
            raise Misfit("`judge` goes with `decide: judge`, majority or quorum", "judge")

    @property
    def ensemble(self) -> RosterEnsemble:
        judge = self.judge
        return RosterEnsemble(
            members=self.members, decide=self.decide or ("majority" if judge is None else "judge"),
            weights=self.weights, quorum=self.quorum, samples=self.samples,
            stop_early=self.stop_early, judge=None if judge is None else judge.member,
            picks=judge is None or judge.picks,
        )  # fmt: skip


def check_ensembles(
    top: Node, ensembles: Mapping[str, EnsembleFields], members: Collection[str]
) -> None:
    """Of a roster with these members: whom they name is there, and their own names are free."""
    for name, stated in ensembles.items():
        node = top.child("ensembles").child(name)
        if name in members or name in TAKEN:
            raise node.bad(f"`{name}` is taken; give the ensemble a name of its own")
        for n, id in enumerate(stated.members):
            _check_member(node.child("members").child(n), id, members)
        if stated.judge is not None:
            _check_member(node.child("judge").child("member"), stated.judge.member, members)


def _check_member(node: Node, id: str, members: Collection[str]) -> None:
    if id not in members:
        raise node.bad(f"there is no member `{id}`: {remedy(id, members)}")
