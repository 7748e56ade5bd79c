"""What the agents' programs have in common, and where each has its own way: its words, its events.

A dialect only translates. It starts nothing, and keeps nothing but what it has read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from fanfold.errors import MemberError, Terminal
from fanfold.members.agents.worker import CallSize, Exit, WorkerLimits
from fanfold.members.printed import amount
from fanfold.price import Price, dollars
from fanfold.work.ask import Ask, Finish, Reply, Usage
from fanfold.work.member import Traits

if TYPE_CHECKING:
    from fanfold.members.agents.fields import AgentFields


class Start(msgspec.Struct, frozen=True):
    """One start of the program. `session`: a new id for it, where the program takes one; `home`:
    the worker's own folder, for files that the words name (a schema, a last message). `output`: the folder
    that a fleet's worker writes to."""

    ask: Ask
    folder: str
    home: str
    session: str
    label: str
    output: str = ""


class CommandLine(msgspec.Struct, frozen=True):
    """What to start: program and arguments, what goes to its stdin, files to put into its home
    first (name to content), where else it tells what it spends (a glob; see Spec.meter), and whether
    it takes messages while it works (see Spec.listens)."""

    words: tuple[str, ...]
    stdin: bytes
    files: dict[str, bytes] = {}
    meter: str = ""
    listens: bool = False


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
    comes back. `missing`: MCP servers that it was given, and that did not start. `untold`: it was
    answered, and nothing says what that took.
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
        self.reason = ""
        self.ended = False
        self.error = ""
        self.status: int | None = None
        self.subtype = ""
        self.denied: tuple[str, ...] = ()
        self.missing: tuple[str, ...] = ()
        self.last: EventLine | None = None
        self.said = ""
        self.reset_at: float | None = None
        self.untold = False

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

    def words(self, traits: Traits, fields: AgentFields, start: Start) -> CommandLine: ...

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

    def outcome(
        self, member: str, reading: WorkerReading, exit: Exit, ask: Ask
    ) -> Reply | MemberError:
        """How it ended: a reply, or what went wrong."""
        ...

    def unknown(self, reading: WorkerReading, exit: Exit) -> int:
        """The most that a call under way at its end can have cost, in nano-dollars."""
        return reading.unknown(exit.at)

    def conclude(
        self, member: str, reading: WorkerReading, exit: Exit, ask: Ask
    ) -> Reply | MemberError:
        """How it ended; what went wrong has what it took all the same: as far as it reported, and what
        a call under way may have taken."""
        made = self.outcome(member, reading, exit, ask)
        if isinstance(made, MemberError):
            made.usage, made.cost = reading.usage, reading.cost
            made.bound = reading.untold or (made.cost is None and reading.usage.total > 0)
            if (more := self.unknown(reading, exit)) and not made.bound:
                made.cost, made.bound = (reading.cost or 0) + more, True
        return made

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


# ── how a worker ended; events as lines for people ───────────────────────────────────────────

_ENDED = {
    "killed": "killed by the operator",
    "cancelled": "cancelled",
    "time": "ended at its time limit",
    "silence": "ended after its limit of silence",
    "budget": "ended at its budget",
    "turns": "ended at its limit of turns",
    "servers": "ended because an MCP server did not start",
}
_REQUIRED = re.compile(r"required MCP servers failed to initialize: ([\w-]+): (.*)")


def from_outside(member: str, reading: WorkerReading, exit: Exit) -> MemberError | None:
    """None: it ended by itself."""
    if exit.why == "":
        return None
    text = f"{member}: {exit.said or _ENDED[exit.why]}{_session(reading)}"
    if exit.why == "cancelled":
        return MemberError(text, lost=True)
    return Terminal(text, scope="member" if exit.why == "servers" else "ask")


def without_servers(member: str, reading: WorkerReading) -> Terminal | None:
    """What it answered without the tools that it was to have is not what was asked for."""
    if not reading.missing:
        return None
    return Terminal(f"{member}: {not_started(reading.missing)}", scope="member")


def not_started(servers: Sequence[str], why: str = "") -> str:
    names = ", ".join(f"`{name}`" for name in servers)
    which = f"its MCP server {names}" if len(servers) == 1 else f"its MCP servers {names}"
    told = f": {why}" if why else ", so it lacks the tools it needs; start it by hand to see why"
    return f"{which} did not start{told}"


def required_servers(member: str, complaint: str) -> Terminal | None:
    """As codex says it on stderr, before its first event."""
    found = _REQUIRED.search(complaint)
    if found is None:
        return None
    why = one_line(found[2].partition(" Error: ")[0].removesuffix(" (code -32603)"))
    return Terminal(f"{member}: {not_started((found[1],), why)}", scope="member")


def _session(reading: WorkerReading) -> str:
    return f"; its session is {reading.session}" if reading.session else ""


def without_result(member: str, reading: WorkerReading, exit: Exit) -> MemberError:
    """It gave no result. Without a single event it never began (wrong words, a session in use): then
    only its errors say why. After that, what it did and took is in doubt."""
    if reading.lines == 0 and exit.code > 0:
        text = f"{member}: exit code {exit.code} without output"
        return Terminal(text, scope="ask")
    how = f"signal {-exit.code}" if exit.code < 0 else f"exit code {exit.code}"
    return MemberError(f"{member}: ended by {how} without a result{_session(reading)}", lost=True)


def reply_of(reading: WorkerReading) -> Reply:
    return Reply(
        reading.text, reading.data, reading.usage, reading.finish, reading.model,
        None if reading.cost is None else dollars(reading.cost), reason=reading.reason,
    )  # fmt: skip


LONGEST = 200
_TELLING = (
    "file_path", "path", "filePath", "notebook_path", "command", "pattern", "url", "query",
    "description", "prompt",
)  # fmt: skip


def one_line(text: Any) -> str:
    """The first line that says something, without what would move a cursor."""
    lines = str(text).splitlines() if text is not None else []
    line = next((line for line in lines if line.strip()), "")
    line = "".join(sign for sign in " ".join(line.split()) if sign.isprintable())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


def tool_line(name: Any, given: Any, folder: str = "") -> str:
    """`Write output/finding.md`: the tool, and what of its input tells most."""
    given = given if isinstance(given, dict) else {}
    said = next((given[key] for key in _TELLING if isinstance(given.get(key), str)), "")
    inside = folder.rstrip("/") + "/"
    if folder and said.startswith(inside):
        said = said[len(inside) :]
    return one_line(f"{name} {one_line(said)}")


def moment(value: Any) -> float | None:
    """Seconds since 1970, from an ISO time or a number of milliseconds."""
    if isinstance(value, str):
        try:
            when = datetime.fromisoformat(value)
        except ValueError:
            return None
        return when.timestamp() if when.tzinfo else None
    millis = amount(value)
    return None if millis is None else millis / 1000


def blocks(message: Any) -> Iterator[dict[str, Any]]:
    """The parts of a message's content; a plain text is one of them."""
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        yield {"type": "text", "text": content}
    elif isinstance(content, list):
        yield from (part for part in content if isinstance(part, dict))
