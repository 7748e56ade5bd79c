"""Where the members of a run come from: a roster file, members that a script made, or both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from fanfold.errors import BadInput
from fanfold.journal.queue import Queue
from fanfold.members.entry import ScriptedEntry
from fanfold.members.roster import Roster, RosterSettings, load_roster
from fanfold.work.carried import FileTrouble
from fanfold.work.check import described
from fanfold.work.item import canonical, digest
from fanfold.work.member import FILES_MARK, Member, Traits

OpenQueue = Callable[[Callable[[str], None]], Queue]
"""Opens an end of a queue; it gets what is called when something may have changed."""


class MemberSource(Protocol):
    """The members at hand: their traits without building them, and one built when it is needed.
    `given`: those that a script made and handed over, which may be used though they are paid."""

    @property
    def traits(self) -> Mapping[str, Traits]: ...

    @property
    def settings(self) -> RosterSettings: ...

    @property
    def given(self) -> frozenset[str]: ...

    def build(self, id: str) -> Member: ...

    def missing(self, id: str) -> str:
        """What it needs to be asked and is not there: a key, a program, a file. Else ""."""
        ...

    def bad(self, id: str, what: str, field: str) -> BadInput:
        """Why it cannot be used, with the place where that field of it is written, if it is in a file."""
        ...


_ALLOWED = RosterSettings(allow_paid=True)


class GivenMembers:
    """Members made by hand, for scripts and tests. Those who are handed over may be used."""

    def __init__(self, *members: Member, settings: RosterSettings = _ALLOWED) -> None:
        self._members: dict[str, Member] = {}
        for member in members:
            if (id := member.traits.id) in self._members:
                raise _same_id(id)
            self._members[id] = member
        self.traits: Mapping[str, Traits] = {id: m.traits for id, m in self._members.items()}
        self.settings, self.given = settings, frozenset(self.traits)

    def build(self, id: str) -> Member:
        return self._members[id]

    def missing(self, id: str) -> str:
        return ""

    def bad(self, id: str, what: str, field: str) -> BadInput:
        return BadInput(what)


class QueuedMembers(GivenMembers):
    """The same, with the queue to those of them that workers ask, wherever it is."""

    def __init__(self, open_queue: OpenQueue, *members: Member) -> None:
        super().__init__(*members)
        self.open_queue = open_queue


class ListedMembers:
    """The members of a roster file, built when they are needed."""

    given: frozenset[str] = frozenset()

    def __init__(
        self, roster: Roster, folder: Path, *, allow_paid: bool = False, at_once: int | None = None,
        works: bool = False, leaves_files: bool = False,
    ) -> None:  # fmt: skip
        """`works`: of a worker, which is sent the files that its members need. `leaves_files`: the run
        itself puts files into the folder. Among either the program of a command may be."""
        self._trouble: dict[str, BadInput] = {}
        self._roster, self._folder = roster if works else self._with_files(roster, folder), folder
        self._works, self._leaves_files = works, leaves_files
        self.settings = roster.settings.with_options(allow_paid, at_once)
        self.traits: Mapping[str, Traits] = {id: e.traits for id, e in self._roster.entries.items()}

    def _with_files(self, roster: Roster, folder: Path) -> Roster:
        """Who needs other files is another answerer."""
        entries = dict(roster.entries)
        for id, entry in roster.entries.items():
            try:
                files = entry.fields.ask_files(entry.traits, folder)
            except FileTrouble as error:
                what = f"member `{id}`: {error}"
                self._trouble[id] = BadInput(what, file=roster.file, line=entry.line("inputs"))
                continue
            if files is None:
                continue
            mark = f"{FILES_MARK}{digest(canonical(files.identity)).hex()}" if files.inputs else ""
            answerer = entry.traits.answerer + mark
            traits = msgspec.structs.replace(entry.traits, files=files, answerer=answerer)
            entries[id] = msgspec.structs.replace(entry, traits=traits)
        return msgspec.structs.replace(roster, entries=entries)

    def build(self, id: str) -> Member:
        """BadInput: a key, a program or a file that it needs is missing."""
        if id in self._trouble:
            raise self._trouble[id]
        self._roster.check_ready(id, folder=self._known_folder(id))
        return self._roster.build(id, folder=self._folder)

    def missing(self, id: str) -> str:
        trouble = self._trouble.get(id)
        return trouble.what if trouble else self._roster.missing(id, folder=self._known_folder(id))

    def _known_folder(self, id: str) -> Path | None:
        """None: not all that will be in it is there yet."""
        arrives = self._works or (self._leaves_files and not self.traits[id].agent)
        return None if arrives else self._folder

    def bad(self, id: str, what: str, field: str) -> BadInput:
        return self._roster.bad(id, what, field)


class ScriptMembers:
    """The members of a script: those of its roster, and those that it made itself, beside them or in
    their place."""

    def __init__(self, listed: MemberSource, *made: MemberSource, settings: RosterSettings) -> None:
        self.settings = settings
        self._sources = {id: part for part in (listed, *made) for id in part.traits}
        self.traits: Mapping[str, Traits] = {
            id: one.traits[id] for id, one in self._sources.items()
        }
        self.given = listed.given.union(*(part.traits for part in made))

    def build(self, id: str) -> Member:
        return self._sources[id].build(id)

    def missing(self, id: str) -> str:
        return self._sources[id].missing(id)

    def bad(self, id: str, what: str, field: str) -> BadInput:
        return self._sources[id].bad(id, what, field)


def members_of_script(
    roster: str | Path | Roster | None, members: Any, settings: dict[str, Any]
) -> MemberSource:
    """`settings` go before the roster's. Keys of one member are hidden from the commands and agents
    of all others, wherever they are stated."""
    made = [_checked(one) for one in _listed(members)]
    if roster is None and not made:
        raise BadInput("a run needs members: give roster='roster.yaml' or members=[...]")
    found, folder = _roster(roster)
    _refuse_same_ids(found, made)
    own = Roster({one.traits.id: one.entry for one in made if isinstance(one, ScriptedEntry)})
    own, found = _hiding(own, found), _hiding(found, own)
    given = GivenMembers(*(one for one in made if not isinstance(one, ScriptedEntry)))
    return ScriptMembers(
        ListedMembers(found, folder), ListedMembers(own, Path.cwd()), given,
        settings=msgspec.structs.replace(found.settings, **settings),
    )  # fmt: skip


def with_members(source: MemberSource, members: Any) -> MemberSource:
    """The same, and these beside them; one whose id is there takes its place."""
    made = [_checked(one) for one in _listed(members)]
    _refuse_same_ids(Roster(), made)
    own = Roster({one.traits.id: one.entry for one in made if isinstance(one, ScriptedEntry)})
    given = GivenMembers(*(one for one in made if not isinstance(one, ScriptedEntry)))
    return ScriptMembers(
        source, ListedMembers(own, Path.cwd()), given, settings=source.settings
    )  # fmt: skip


def _listed(members: Any) -> tuple[Any, ...]:
    if isinstance(members, str | Mapping) or not isinstance(members, Iterable):
        raise BadInput(f"`members` must be a list, not {described(members)}: members=[…]")
    return tuple(members)


def _checked(one: Any) -> Member | ScriptedEntry:
    if isinstance(one, ScriptedEntry):
        return one
    if not callable(getattr(one, "ask", None)) or not hasattr(one, "traits"):
        how = "wrap a function: ff.function(…)" if callable(one) else "such as ff.openai(…)"
        raise BadInput(f"`members` must be members, not {described(one)}; {how}")
    member: Member = one
    return member


def _roster(roster: str | Path | Roster | None) -> tuple[Roster, Path]:
    """The roster, and the folder that its programs run in."""
    if isinstance(roster, Roster):
        return roster, Path.cwd()
    if roster is None:
        return Roster(), Path.cwd()
    if not isinstance(roster, str | Path):
        raise BadInput(f"`roster` must be a file or a Roster, not {described(roster)}")
    return load_roster(roster), Path(roster).parent


def _refuse_same_ids(roster: Roster, made: Sequence[Member | ScriptedEntry]) -> None:
    seen: set[str] = set()
    for id in (one.traits.id for one in made):
        if id in roster.entries:
            raise BadInput(f"`members`: the roster has a member `{id}` too; give another `id`")
        if id in seen:
            raise _same_id(id)
        seen.add(id)


def _same_id(id: str) -> BadInput:
    return BadInput(f"`members`: two are called `{id}`; give one another `id`")


def _hiding(roster: Roster, other: Roster) -> Roster:
    return msgspec.structs.replace(roster, elsewhere=other.hidden)
