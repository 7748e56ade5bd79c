"""`fanfold`: the commands. Each is loaded when it is called, so that help is quick."""

from __future__ import annotations

import atexit
import errno
import gc
import importlib
import io
import os
import signal
import sys
import traceback
from typing import Any

import click

from fanfold.errors import AlreadyRunning, BadInput, FanfoldError, StoreError, StoreUnavailable
from fanfold.faces.cli.terminal import HELP, Debug, debuggable, guard, put_in_place
from fanfold.work.nearest import remedy

SECTIONS = {
    "First steps": {
        "demo": (
            "fanfold.faces.cli.examples:demo",
            "Run an example application; needs no account.",
        ),
        "init": ("fanfold.faces.cli.examples:init", "Write a small plan that runs without a key."),
        "new": ("fanfold.faces.cli.examples:new", "Copy an example application to change it."),
        "local": (
            "fanfold.faces.cli.local:local",
            "Set up the embedded model, which needs no account.",
        ),
        "skill": ("fanfold.faces.cli.skill:skill", "Teach Claude Code and Codex to use fanfold."),
        "completion": (
            "fanfold.faces.cli.complete:completion",
            "Completion for bash, zsh and fish.",
        ),
    },
    "Run a plan": {
        "run": ("fanfold.faces.cli.run:run", "Run a plan."),
        "launch": ("fanfold.faces.cli.launch:launch", "Start a run in the background."),
        "resume": (
            "fanfold.faces.cli.run:resume",
            "Continue a run after a crash, a pause or a kill.",
        ),
        "simulate": (
            "fanfold.faces.cli.simulate:simulate",
            "Simulate a plan: cost, time and outcomes.",
        ),
        "graph": ("fanfold.faces.cli.preview:graph", "Draw a plan."),
        "schema": (
            "fanfold.faces.cli.preview:schema",
            "Print the JSON Schema of a file, for editors.",
        ),
        "tune": ("fanfold.faces.cli.tune:tune", "Find the cheapest members that are good enough."),
    },
    "See what happens": {
        "status": ("fanfold.faces.cli.status:status", "List all runs, or show one."),
        "ui": ("fanfold.faces.cli.ui:ui", "Show the runs in the browser, live."),
        "show": (
            "fanfold.faces.cli.report:show",
            "Show one item: input, prompt, reply, verdict, cost.",
        ),
        "report": ("fanfold.faces.cli.report:report", "Print a run's report, as Markdown or HTML."),
        "tree": ("fanfold.faces.cli.report:tree", "Show which run, step and attempt started what."),
        "view": ("fanfold.faces.cli.workers:view", "Show what one worker says and does."),
        "feed": (
            "fanfold.faces.cli.workers:feed",
            "Show the events of all workers as they happen.",
        ),
    },
    "Steer a run": {
        "pause": ("fanfold.faces.cli.orders:pause", "Send nothing new until the run is resumed."),
        "set": ("fanfold.faces.cli.orders:set_", "Change budget, concurrency or limits of a run."),
        "approve": ("fanfold.faces.cli.orders:approve", "Approve a stage larger than foreseen."),
        "retry": ("fanfold.faces.cli.run:retry", "Ask again for some items of a run."),
        "skip": ("fanfold.faces.cli.orders:skip", "Exclude items of a run."),
        "tell": ("fanfold.faces.cli.orders:tell", "Send a message to a worker."),
        "kill": ("fanfold.faces.cli.workers:kill", "End a worker, or a whole run."),
        "relaunch": ("fanfold.faces.cli.workers:relaunch", "Start one worker again."),
    },
    "Who answers": {
        "members": ("fanfold.faces.cli.members:members", "List the members: skills and prices."),
        "ask": ("fanfold.faces.cli.ask:ask", "Send one request to the best orchestrator."),
        "serve": (
            "fanfold.faces.cli.servers:serve",
            "Serve the members as an OpenAI-compatible endpoint.",
        ),
        "mcp": ("fanfold.faces.cli.servers:mcp", "Serve the members to an agent, over MCP."),
    },
    "Stores and other machines": {
        "runs": ("fanfold.faces.cli.runs:runs", "List all runs, or remove some."),
        "store": ("fanfold.faces.cli.stores:store", "Copy a store, or check one."),
        "worker": ("fanfold.faces.cli.worker:worker", "Run the asks of runs on other machines."),
        "workers": ("fanfold.faces.cli.worker:workers", "List the workers of a queue."),
    },
}
"""The commands as help lists them."""

COMMANDS = {name: one for section in SECTIONS.values() for name, one in section.items()}
COMPLETE = "__complete"  # what shells ask on Tab; see complete.py
REFUSED, STOPPED, PAUSED = 2, 3, 4
MOST_LETTERS = 1600  # of a complaint


def _loaded(target: str) -> Any:
    """What is imported stays: looking for garbage in it takes a quarter of the start."""
    module, attribute = target.split(":")
    gc.disable()
    try:
        return getattr(importlib.import_module(module), attribute)
    finally:
        gc.freeze()
        gc.enable()


class _NobodyReads(Exception):
    """Whoever read the output has left."""


class Lazy(click.Group):
    """Knows its commands by name and line; imports one when it is wanted."""

    def make_context(self, *given: Any, **named: Any) -> click.Context:
        """Click itself would end with 1 here and below, which is an outcome of a run."""
        try:
            return super().make_context(*given, **named)
        except BrokenPipeError:
            raise _NobodyReads from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise _NobodyReads from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        return debuggable(_loaded(COMMANDS[name][0]))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"no command {args[0]!r}: {remedy(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(name.ljust(width), line) for name, (_, line) in commands.items()]
                )


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        metadata = importlib.import_module("importlib.metadata")
        click.echo(f"fanfold {metadata.version('fanfold')}")
        ctx.exit()


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, help=HELP)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version,
    help="Show the version.",
)  # fmt: skip
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """Fan the work out, fold the answers in: many model and agent calls in parallel, one result
    that can be defended. Never overspend, never pay twice, nothing ships ungated, nothing is lost."""
    if debug:
        ctx.obj.begin()


def main(argv: list[str] | None = None) -> None:
    """The program. Exit codes: 0 all passed, 1 some did not, 2 refused, 3 stopped, 4 paused."""
    given = sys.argv[1:] if argv is None else argv
    if given[:1] == [COMPLETE]:
        _loaded("fanfold.faces.cli.complete:answer")(given[1:])
        return
    debug = Debug()
    _open_streams()
    _write_whole()
    guard()
    try:
        _refuse_other_encodings(given)
        code: Any = cli.main(given, prog_name="fanfold", standalone_mode=False, obj=debug)
    except click.exceptions.Abort:
        code = STOPPED
    except click.ClickException as error:
        code = _misused(error)
    except _NobodyReads:
        code = 0
    except Exception as error:
        if debug.on:
            traceback.print_exception(error)
        code = _say(error)
    code = _flushed(code if isinstance(code, int) else 0)
    if argv is None:  # all that a Ctrl-C can still cut short is the interpreter's own end
        signal.signal(signal.SIGINT, lambda number, frame: os._exit(code))
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # when no thread is left
    sys.exit(code)


def _refuse_other_encodings(words: list[str]) -> None:
    """Nothing that is not text can be put on record, or shown."""
    for word in words:
        if not word.isascii() and word.encode(errors="replace").decode() != word:
            what = "is not UTF-8 text; type it in UTF-8, or rename the file"
            raise BadInput(f"a word of the command line, {word!r}, {what}")


def _flushed(code: int) -> int:
    """What is still to be written is written, or given up: not by the interpreter's end, which has
    an exit code of its own for that."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError) and code != STOPPED:
            return _say(error)
    return code


def _open_streams() -> None:
    """Stdin, stdout and stderr exist, whoever closed them before: the next file that is opened would
    take their place otherwise, and be written to."""
    for handle, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(handle)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number is this one
            setattr(sys, name, open(handle, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def _write_whole() -> None:
    """Under PYTHONUNBUFFERED a long line would end where a pipe takes no more in one go. What the
    terminal's encoding does not have (or a name that is not UTF-8) is written as an escape."""
    out = sys.stdout
    if isinstance(out, io.TextIOWrapper):
        out.reconfigure(errors="backslashreplace")
    if isinstance(out, io.TextIOWrapper) and isinstance(out.buffer, io.FileIO):
        encoding, errors = out.encoding, out.errors
        buffered = io.BufferedWriter(out.detach())
        put_in_place("stdout", io.TextIOWrapper(buffered, encoding, errors, line_buffering=True))


def _misused(error: click.ClickException) -> int:
    """What is wrong with the words that were typed, and where to look them up."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return REFUSED
    context = getattr(error, "ctx", None)
    command = "fanfold" if context is None else context.command_path
    text = error.format_message().rstrip(".").replace("\n\t", " ")  # a choice has a line for each
    _complain(f"fanfold: {text[0].lower()}{text[1:]}; see: {command} --help")
    return REFUSED


def _complain(text: str) -> None:
    """On stderr. What quotes a very long word is cut in its middle, so the remedy can be seen."""
    half = MOST_LETTERS // 2
    click.echo(text if len(text) <= MOST_LETTERS else f"{text[:half]} … {text[-half:]}", err=True)


def _with_program_name(text: str) -> str:
    """With the name of the program. But a line for programs, `CYCLE:a,b`, comes first, on its own."""
    first, _, rest = text.partition("\n")
    return (
        f"{first}\nfanfold: {rest}" if rest and first.startswith("CYCLE:") else f"fanfold: {text}"
    )


def _has_folder() -> bool:
    try:
        os.getcwd()
    except OSError:
        return False
    return True


def _say(error: Exception) -> int:
    """One or two lines for people, and the code for programs."""
    match error:
        case StoreUnavailable():
            _complain(f"fanfold: {error}")
            return PAUSED
        case BadInput() | AlreadyRunning() | StoreError():
            _complain(_with_program_name(str(error)))
            return REFUSED
        case FanfoldError():
            _complain(f"fanfold: {error}")
            return STOPPED
        case OSError(errno=errno.ENAMETOOLONG):
            _complain(f"fanfold: {error.filename}: is too long for the name of a file")
            return REFUSED
        case FileNotFoundError() if not _has_folder():
            _complain("fanfold: the current folder was removed; change to another one")
            return REFUSED
        case OSError(errno=errno.ENOSPC, filename=None):
            _complain("fanfold: the output cannot be written: no space left on device; make room")
            return STOPPED
        case _:
            text = " ".join(f"{type(error).__name__}: {error}".split())
            _complain(f"fanfold: unexpected {text}; add --debug for the traceback")
            return STOPPED
