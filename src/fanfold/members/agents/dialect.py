"""What the agents' programs have in common, and where each has its own way: its words, its events.

A dialect only translates. It starts nothing, and keeps nothing but what it has read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from fanfold.errors import MemberError
from fanfold.members.agents.worker import CallSize, Exit, WorkerLimits
from fanfold.price import Price
from fanfold.work.ask import Ask, Finish, Reply, Usage
from fanfold.work.member import Traits

if TYPE_CHECKING:  # a host that meters loads the dialects, and no more
    from fanfold.members.agents.fields import AgentFields


class Start(msgspec.Struct, frozen=True):
    """One start of the program. `session`: a new id for it, where the program takes one; `home`:
    the worker's own folder, for files that the words name (a schema, a last message)."""

    ask: Ask
    folder: str
    home: str
    session: str
    label: str


class Words(msgspec.Struct, frozen=True):
    """What to start: program and arguments, what goes to its stdin, files to put into its home
    first (name to content), and where else it tells what it spends (a glob; see Spec.meter)."""

    words: tuple[str, ...]
    stdin: bytes
    files: dict[str, bytes] = {}
    meter: str = ""


class EventLine(msgspec.Struct, frozen=True):
    """One event in a line for people. `at` is the event's own time when it says so;
    `name` is what the program calls it: `assistant`, `result/success`, `item.completed`.
    """

    kind: Literal["text", "thought", "tool", "result", "system", "retry", "done", "failed"]
    text: str
    at: float | None = None
    name: str = ""


class WorkerReading:
    """What a worker's events have told so far. `cost` is in nano-dollars; `exact`: the program's own
    closing figure, or all of it by tokens that are final; else an estimate that comes close.

    `text` and `data` are the answer, as of the last result; `last` is its last event, and `said` the
    last text of the agent itself, for a line of status. `reset_at`: when a quota that is used up
    comes back. `missing`: MCP servers that it was given, and that did not start.
    """

    def __init__(self) -> None:
        self.session = ""
        self.model: str | None = None
        self.usage = Usage()
        self.cost: int | None = None
        self.exact = False
        self.turns = 0
        self.retries = 0
        self.lines = 0
        self.text = ""
        self.data: Any = None
        self.finish: Finish = "stop"
        self.ended = False
        self.error = ""
        self.status: int | None = None
        self.subtype = ""
        self.denied: tuple[str, ...] = ()
        self.missing: tuple[str, ...] = ()
        self.last: EventLine | None = None
        self.said = ""
        self.reset_at: float | None = None

    def note_event(self, told: EventLine, said: str = "") -> None:
        """An event; `said`: the words so far, where it brings only a piece of them."""
        self.last = told
        if told.kind == "text" or (told.kind == "done" and told.text != "done"):
            self.said = said or told.text or self.said

    def unknown(self, until: float | None) -> int:
        """The most that a call under way can have taken beyond `cost`, when it was ended at this
        time (None: unknown when). In nano-dollars."""
        return 0

    def next_call(self) -> int:
        """The most that the next call of the context, as it is now, can take; 0 when none is due."""
        return 0


class LogReader(Protocol):
    """Reads a worker's log, line by line, as it grows. What is no JSON is passed over."""

    @property
    def reading(self) -> WorkerReading: ...

    def feed(self, line: bytes) -> tuple[EventLine, ...]:
        """What the line says, in lines for people; none for what is of no interest."""
        ...

    def meter(self, line: bytes) -> None:
        """A line of the files that `Spec.meter` names; does nothing where there are none."""
        ...


class Dialect(Protocol):
    """One program's way: `claude`, `codex`, ... What has a body is so for a program of which nothing
    else is known."""

    @property
    def name(self) -> str: ...

    def words(self, traits: Traits, fields: AgentFields, start: Start) -> Words: ...

    def environment(
        self, around: Mapping[str, str], traits: Traits, fields: AgentFields
    ) -> dict[str, str]:
        """The variables for the program, from those around: what would make it misbehave or be
        billed to another account is taken out, bounds that only the environment takes are put in."""
        ...

    def resume_command(self, program: str, session: str) -> tuple[str, ...]:
        """The command by which a person continues a session, in its folder; none: unknown."""
        return ()

    def bounds(self, traits: Traits, fields: AgentFields) -> WorkerLimits:
        """What the worker's host must enforce, since the program does not by itself."""
        ...

    def rates(self, traits: Traits) -> Price | None:
        """The price that every token is counted by; None: by the program's own figures, and by the
        models that its events name."""
        return traits.price

    def call(self, traits: Traits, fields: AgentFields) -> CallSize:
        """The most that one call can take in and give out."""
        return CallSize()

    def reader(
        self, price: Price | None, *, resumed: bool = False, call: CallSize | None = None
    ) -> LogReader: ...

    def conclude(
        self, member: str, reading: WorkerReading, exit: Exit, ask: Ask
    ) -> Reply | MemberError:
        """How it ended: a reply, or what went wrong, with what it took all the same."""
        ...

    def most(self, traits: Traits, fields: AgentFields) -> int | None:
        """The most that one ask can cost, in nano-dollars: its own cap and one worst call above it.
        None: nothing bounds it."""
        return None


SPEED = 1_000  # tokens a second: several times what services write with the agents' models
SLACK = 1_024  # tokens that a service may have written and that were not read yet


class ConversationSize:
    """The context as it is now: exact after each reply, then with every byte that was added counted
    as a token, since a token is never less. Never more than the window.

    `first`: tokens of the program's own instructions and tools, which the first call takes. A session
    that is resumed has a past of unknown size: then it is the whole window.
    """

    def __init__(self, call: CallSize, first: int, *, resumed: bool) -> None:
        self._call = call
        self._tokens = call.context if resumed else first + call.prompt
        self._asked: float | None = None

    @property
    def tokens(self) -> int:
        return min(self._call.context, self._tokens)

    @property
    def output(self) -> int:
        """The most that one reply can be."""
        return self._call.output

    def replied(self, tokens: int) -> None:
        """A reply has come: so many tokens went in and came out."""
        self._tokens, self._asked = tokens, None

    def grew(self, size: int) -> None:
        """So many bytes will be sent with the next call."""
        self._tokens += size

    def asked(self, at: float | None) -> None:
        """From this time on the model may be writing."""
        self._asked = at

    def written(self, until: float | None) -> int:
        """The most tokens that a call under way can have written by then."""
        if until is None or self._asked is None or until < self._asked:  # a clock was set back
            return self.output
        return min(self.output, SLACK + round(SPEED * (until - self._asked)))
