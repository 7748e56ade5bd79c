"""The kind `command`: a program that gets the prompt on stdin or as an argument, and answers on
stdout."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from fanfold.errors import InvalidReply, MemberError, Terminal, TimedOut, Transient
from fanfold.members.entry import constructor
from fanfold.members.interpreters import STDIN, run_as_code
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
from fanfold.members.output import Parse, read_output
from fanfold.members.printed import paid
from fanfold.members.process import ProgramEnd, run_program, why_not_startable
from fanfold.members.work_folder import with_outputs, without_outputs, working_folder
from fanfold.price import FREE, cost, worst
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.carried import FileTrouble
from fanfold.work.item import canonical, digest
from fanfold.work.member import Request, Tell, Traits
from fanfold.work.nesting import decode_json
from fanfold.work.reader import Count, Misfit, Text, listed
from fanfold.work.started import MAX_BYTES, PARENT, STORE
from fanfold.work.usage import with_plausible_usage

PROMPT = "{prompt}"
PromptBy = Literal["stdin", "argument"]
_CANNOT_START = frozenset({errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR, errno.EPERM})


class _CommandOptions(MemberFields, frozen=True, kw_only=True):
    """How a program is given the prompt, and how its output is read.

    As an argument the prompt takes the place of `{prompt}` in the command, or comes last; other
    users of the machine can see it there, and it must be shorter than on stdin.
    """

    unsent: ClassVar[tuple[str, ...]] = tuple(one for one in UNSENT if one != "max_tokens")

    version: Version | None = None
    effects: bool = False
    max_bytes: Count = MAX_BYTES
    prompt: PromptBy | None = None
    parse: Parse = "plain"
    scrub_env: Texts = ()
    delegate_args: Sequence[Text] = ()
    inputs: Texts = ()
    outputs: Texts = ()
    files: Carrying = "carried"


class CommandFields(_CommandOptions, frozen=True, tag="command"):
    """A program that gets the prompt on stdin, or in place of `{prompt}`, and prints the answer:
    `members=[ff.command(["llm", "-m", "qwen"])]`. It runs in the current folder."""

    cmd: Annotated[Sequence[Text], Meta(min_length=1)]

    def __post_init__(self) -> None:
        super().__post_init__()
        named = any(PROMPT in word for word in self.cmd)
        self.put(prompt=self.prompt or ("argument" if named else "stdin"))
        check_command(self.cmd, self.prompt)
        if self.delegate_args:
            check_command((*self.cmd, *self.delegate_args), self.prompt)
        self.put(cmd=tuple(self.cmd), delegate_args=tuple(self.delegate_args))
        self.put(scrub_env=listed(self.scrub_env))
        self.put(inputs=read_patterns(self.inputs, "inputs"))
        self.put(outputs=read_patterns(self.outputs, "outputs"))
        check_variables(self.scrub_env, "scrub_env")
        named = any(PROMPT in word for word in self.cmd)
        self.put(prompt=self.prompt or ("argument" if named else "stdin"))

    def traits(self, roster: Path) -> Traits:
        """What it is, as far as its replies go: its words, and how it is given and read. `@run`:
        without a version its replies serve no other run. A price that is not stated is unknown."""
        manner = [self.prompt, self.parse]
        words = self.cmd if manner == ["stdin", "plain"] else [self.cmd, *manner]
        version = "run" if self.version is None else str(self.version)
        return Traits(
            **self.common(), answerer=f"command:{digest(canonical(words)).hex()}@{version}",
            shared=self.version is not None, price=self.stated_price, max_bytes=self.max_bytes,
            metered=self.effects or self.stated_price != FREE,
            patterns=file_patterns(self.inputs, self.outputs, self.files),
        )  # fmt: skip

    def build(self, traits: Traits, context: BuildContext) -> CommandMember:
        hidden, prompt = context.hidden.union(self.scrub_env), self.prompt or "stdin"
        return CommandMember(
            traits, self.cmd, context.folder, hidden=hidden, prompt=prompt, parse=self.parse
        )

    @property
    def leads_by_mcp(self) -> bool:
        return bool(self.delegate_args)

    def delegating(self, mcp_json: str, mcp_command: str) -> CommandFields:
        """With its `delegate_args` filled in."""
        filled = (
            word.replace("{delegate_mcp_json}", mcp_json)
            .replace("{delegate_mcp_command}", mcp_command)
            for word in self.delegate_args
        )  # fmt: skip
        return msgspec.structs.replace(self, cmd=(*self.cmd, *filled))

    def without_program(self, folder: Path | None) -> Unready | None:
        why = why_not_startable(self.cmd[0], folder)
        return Unready("cmd", why) if why else None


def check_command(words: Sequence[str], prompt: PromptBy | None) -> None:
    """A text that is asked about must never become a program: neither where `{prompt}` is or will be
    among the words, nor on stdin. It may be a whole word or a part of one."""
    if PROMPT in words[0]:
        raise Misfit(f"`cmd` must begin with a program, not with {PROMPT}", "cmd")
    line = _with_prompt(words) if prompt == "argument" else words
    if (before := run_as_code(line, PROMPT)) is not None:
        what = f"{PROMPT} after `{before}` would be run as code, or choose what is run"
        remedy = f"leave {PROMPT} out and read it from stdin, or pass it as a later argument"
        raise Misfit(f"`cmd`: {what}; {remedy}", "cmd")
    if prompt == "stdin" and (reader := run_as_code(words, STDIN)) is not None:
        what = f"`{reader}` would run the prompt, which it gets on stdin"
        raise Misfit(f"`cmd`: {what}; name a script for it, or a program of your own", "cmd")


def _with_prompt(words: Sequence[str]) -> list[str]:
    """The words of a command that is given the prompt as an argument: last, where no word names it."""
    named = any(PROMPT in word for word in words)
    return [*words] if named else [*words, PROMPT]


def _file_name(given: dict[str, Any]) -> str:
    """The id of a command: its program's."""
    first = given["cmd"][0] if isinstance(given["cmd"], list | tuple) and given["cmd"] else ""
    return Path(first).name if isinstance(first, str) else ""


command = constructor(CommandFields, _file_name)


class _Report(msgspec.Struct, frozen=True):
    """What a command may say about itself in its last line: `{"fanfold": {"usd": 0.01}}`."""

    usd: Any = None
    input: Any = None
    output: Any = 0


class _LastLine(msgspec.Struct, frozen=True):
    fanfold: _Report


class CommandMember:
    """Runs `cmd` in `folder`, never through a shell, with the prompt on its stdin or in its words.

    The variables named in `hidden` (where the roster's keys are) are not passed on; the span of the
    attempt and its store are added. A failing command is worth another try; one that cannot be
    started is not. When the time is over the program is killed with all its children, and what it
    did until then stays done.
    """

    def __init__(
        self,
        traits: Traits,
        cmd: Sequence[str],
        folder: str | Path,
        *,
        hidden: frozenset[str] = frozenset(),
        prompt: PromptBy = "stdin",
        parse: Parse = "plain",
    ) -> None:
        self._traits, self._folder, self._hidden = traits, Path(folder), hidden
        self._cmd, self._prompt, self._parse = list(cmd), prompt, parse
        self._env: dict[str, str] | None = None

    @property
    def traits(self) -> Traits:
        return self._traits

    async def open(self) -> None:
        """Looks the program up once, not for every launch."""
        self._env = {k: v for k, v in os.environ.items() if k not in self._hidden}
        if os.sep not in self._cmd[0]:
            self._cmd[0] = shutil.which(self._cmd[0]) or self._cmd[0]

    async def close(self) -> None:
        """Nothing to close."""

    def prepare(self, ask: Ask) -> Request:
        """One with a price by the token is bounded like a model that gets this prompt."""
        body, price = ask.spoken().encode(), self._traits.price
        if price is None or not (price.input or price.output):
            return Request(ask, body)
        most = ask.params.max_tokens or self._traits.max_tokens
        return Request(ask, body, input_tokens=len(body) + 1024, output_tokens=most)

    async def ask(self, request: Request, tell: Tell) -> Reply:
        if self._env is None:
            await self.open()
        if request.ask.files is None:
            return await self._run(request, self._folder)
        stated, id = self._traits.patterns, self._traits.id
        shares = stated is not None and stated.shared
        async with working_folder(request, id, shares=shares) as (folder, outputs):
            reply = await self._run(request, folder)
            if outputs is None:
                return reply
            try:
                return await asyncio.to_thread(with_outputs, reply, outputs)
            except FileTrouble as trouble:
                raise without_outputs(id, reply, trouble) from None

    async def _run(self, request: Request, folder: Path) -> Reply:
        seconds = self._traits.timeout
        try:
            ended = await run_program(
                *self._given(self._body(request)), folder=folder, env=self._environment(request),
                seconds=seconds, most=self._traits.max_bytes,
            )  # fmt: skip
        except TimeoutError:
            raise TimedOut(f"{self._traits.id}: no reply in {seconds:g} s; killed") from None
        except OSError as error:
            raise self._not_started(error, folder) from None
        if ended.full:
            most = f"max_bytes ({self._traits.max_bytes:,})"
            raise InvalidReply(f"{self._traits.id}: its output is larger than {most}; killed")
        if self._parse != "plain":
            return self._parsed(ended, request)
        if ended.code:
            raise self._failed(ended, request)
        return self._reply(ended.out, request.ask)

    def _body(self, request: Request) -> bytes:
        """Files may be elsewhere where it is carried out than where it was prepared."""
        ask = request.ask
        return ask.spoken().encode() if ask.attachments() else request.body

    def _given(self, prompt: bytes) -> tuple[list[str], bytes]:
        """The words to start it with, and what goes to its stdin.

        A prompt that begins with a dash gets a space before it, so that no program takes what it
        is asked about for one of its options.
        """
        if self._prompt == "stdin":
            return self._cmd, prompt
        text = prompt.decode()
        if "\0" in text:
            raise Terminal(f"{self._traits.id}: an argument cannot hold a NUL byte", scope="ask")
        program, *words = _with_prompt(self._cmd)
        shy = f" {text}" if text.startswith("-") else text
        filled = (word.replace(PROMPT, shy if word.startswith(PROMPT) else text) for word in words)
        return [program, *filled], b""

    def _parsed(self, ended: ProgramEnd, request: Request) -> Reply:
        """The reply out of a program's JSON, which also tells of failures."""
        parse, ask = self._parse, request.ask
        said = read_output(parse, self._traits.id, ended.out, ended.code)
        if said is None:
            if ended.code:
                raise self._failed(ended, request)
            raise InvalidReply(f"{self._traits.id}: its output is not {parse}")
        data = None
        if ask.schema:
            data = _as_data(said.text) if said.data is None else said.data
        reply = Reply(
            text=said.text, data=data, usage=said.usage, finish=said.finish, model=said.model,
            cost_usd=said.cost_usd, reason=said.reason,
        )  # fmt: skip
        return with_plausible_usage(reply, [message.content for message in ask.conversation()])

    def _environment(self, request: Request) -> dict[str, str]:
        """A fanfold that the program starts finds its parent here, and the store to write into."""
        own = self._env or {}
        if not request.span:
            return own
        return {**own, PARENT: request.span, STORE: request.server or request.store}

    def _reply(self, out: bytes, ask: Ask) -> Reply:
        out, report = _without_report(out)
        usage = None if report.input is None else Usage(report.input, report.output)
        try:
            text = out.removesuffix(b"\n").removesuffix(b"\r").decode()
        except UnicodeDecodeError:
            error = InvalidReply(f"{self._traits.id}: its output is not UTF-8 text")
            raise paid(error, usage, report.usd) from None
        data = _as_data(text) if ask.schema else None
        return with_plausible_usage(Reply(text, data, usage, cost_usd=report.usd))

    def _not_started(self, error: OSError, folder: Path) -> MemberError:
        what = f"{self._traits.id}: cannot start `{self._cmd[0]}`"
        why = (error.strerror or str(error)).lower()
        if error.errno == errno.ENOENT and not folder.is_dir():
            what, why = f"{self._traits.id}: cannot run in {folder}", "no such folder"
        if error.errno == errno.E2BIG and self._prompt == "argument":
            text = f"{self._traits.id}: the prompt is too long for an argument; use `prompt: stdin`"
            return Terminal(text, scope="ask", too_long=True)
        if error.errno in _CANNOT_START:
            return Terminal(f"{what}: {why}", scope="member")
        return Transient(f"{what}: {why}")

    def _failed(self, ended: ProgramEnd, request: Request) -> MemberError:
        """It ran, so it counts with what it says that it took, by cost or by tokens. Where it says
        nothing, with the most that a call can take by the stated price."""
        report = _without_report(ended.out)[1]
        usage = None if report.input is None else Usage(report.input, report.output)
        error = paid(self._failure(ended), usage, report.usd)
        price = self._traits.price
        if error.cost is not None or price is None or price == FREE or isinstance(error, Terminal):
            return error
        if error.usage is None:
            error.cost = worst(price, request.input_tokens, request.output_tokens)
            error.bound = True
        else:
            error.cost = cost(price, error.usage.input, error.usage.output)
        return error

    def _failure(self, ended: ProgramEnd) -> MemberError:
        how = f"exit code {ended.code}" if ended.code > 0 else f"killed by signal {-ended.code}"
        text = f"{self._traits.id}: {how}{_shortened(ended.err)}"
        if ended.code in (126, 127):  # what a shell or env says of a program it cannot start
            return Terminal(text, scope="member")
        return Transient(text)


def _without_report(out: bytes) -> tuple[bytes, _Report]:
    body = out.rstrip()
    start = body.rfind(b"\n") + 1
    if not body.endswith(b"}") or not body[start:].lstrip().startswith(b'{"fanfold"'):
        return out, _Report()
    try:
        return body[:start], msgspec.json.decode(body[start:], type=_LastLine).fanfold
    except (ValueError, RecursionError):
        return out, _Report()


def _as_data(text: str) -> Any:
    """The reply as data when a schema was asked for. What is not JSON stays text, for the gate."""
    try:
        return decode_json(text)
    except ValueError:
        return None


def _shortened(err: bytes) -> str:
    """The end of what a program complained about, on one line."""
    words = " ".join(err[-2000:].decode(errors="replace").split())
    return f": {'…' + words[-200:] if len(words) > 200 else words}" if words else ""
