"""What the shells ask when Tab is pressed: `fanfold __complete WORDS`, the last one as far as typed.

It answers with a word in each line, or `:files`. It must be quick, so it imports next to nothing: which
commands and options there are is kept in a file, made anew when ours have changed. It is silent about
errors, and changes nothing else.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import click

from fanfold.journal.names import run_names
from fanfold.members.roster_file import find_roster, member_names

FILES = ":files"
MOST = 500
_NAMES = {"run": "runs", "runs": "runs", "member": "members", "without": "members"}
_PATHS = {"FILE", "DIR", "PLAN", "FOLDER", "[FOLDER]", "ROOT|PLAN", "SOCKET"}
Node = dict[str, Any]
"""A command: its `options` by name (what their value is, null for a flag), `arguments` (what each is;
`many`: the last goes on) and `commands` below it."""


def answer(words: Sequence[str]) -> None:
    """To stdout. Whatever goes wrong, there is nothing to offer."""
    try:
        for word in list(candidates(words or [""]))[:MOST]:
            click.echo(word)
    except Exception:
        return


def candidates(words: Sequence[str]) -> Iterator[str]:
    *before, typed = words
    node, wanted = _walk(_table(), before)
    if wanted is None and typed.startswith("-"):
        found: Sequence[str] = [*node["options"], "--help"]
    elif wanted is None:
        below = [] if node["given"] else node["commands"]
        found = [*below, *_values(_argument(node), words)]
    else:
        found = _values(wanted, words)
    return (word for word in found if word.startswith(typed) or word == FILES)


def _walk(root: Node, words: Sequence[str]) -> tuple[Node, Any]:
    """The command that is meant, and what the value is that an option waits for; None: none does."""
    node, wanted, count = root, None, 0
    for word in words:
        if wanted is not None:
            wanted = None
        elif word.startswith("-"):
            wanted = node["options"].get(word)
        elif word in node["commands"]:
            node, count = node["commands"][word], 0
        else:
            count += 1
    node["given"] = count
    return node, wanted


def _argument(node: Node) -> Any:
    kinds = node["arguments"]
    if node["given"] < len(kinds):
        return kinds[node["given"]]
    return kinds[-1] if kinds and node["many"] else ""


def _values(kind: Any, words: Sequence[str]) -> Sequence[str]:
    match kind:
        case list():
            return kind
        case "files":
            return [FILES]
        case "runs":
            store = _said(words, "--store") or os.environ.get("FANFOLD_STORE") or ".fanfold"
            return [name for name in run_names(store, words[-1]) if name.isprintable()]
        case "members":
            file = find_roster(_said(words, "--roster"), None, Path.cwd())
            return [name for name in member_names(file) if name.isprintable()]
    return []


def _said(words: Sequence[str], option: str) -> str | None:
    """The value of an option on the line."""
    return next((value for word, value in pairwise(words) if word == option), None)


# ── which commands and options there are ─────────────────────────────────────────────────────


def _table() -> Node:
    """From the file, if it is of these very modules."""
    file, stamp = _file(), _stamp()
    try:
        kept: Node = json.loads(file.read_bytes())
        if kept["stamp"] == stamp:
            root: Node = kept["root"]
            return root
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return keep_table()


def keep_table() -> Node:
    """Look through all commands, which takes a moment, and keep what was found."""
    group: click.Group = importlib.import_module("fanfold.faces.cli.main").cli
    root = _described(group, click.Context(group))
    try:
        _file().parent.mkdir(parents=True, exist_ok=True)
        new = _file().with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps({"stamp": _stamp(), "root": root}), encoding="utf-8")
        new.replace(_file())
    except OSError:
        return root
    return root


def _described(command: click.Command, context: click.Context) -> Node:
    options: dict[str, Any] = {}
    arguments: list[Any] = []
    many = False
    for one in command.params:
        if isinstance(one, click.Argument):
            arguments.append(_kind(one, command))
            many = many or one.nargs == -1
        elif isinstance(one, click.Option) and not one.hidden:
            kind = None if one.is_flag or one.count else _kind(one, command)
            options |= dict.fromkeys((*one.opts, *one.secondary_opts), kind)
    below = command.list_commands(context) if isinstance(command, click.Group) else []
    found = ((name, command.get_command(context, name)) for name in below)  # type: ignore[attr-defined]
    commands = {name: _described(one, context) for name, one in found if one is not None}
    return {"options": options, "arguments": arguments, "many": many, "commands": commands}


def _kind(param: click.Parameter, command: click.Command) -> Any:
    if isinstance(param.type, click.Choice):
        return [str(choice) for choice in param.type.choices]
    if command.name == "set" and param.name == "id":
        return "members"
    if param.metavar in _PATHS or isinstance(param.type, click.Path | click.File):
        return "files"
    return _NAMES.get(param.name or "", "")


def _file() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "fanfold" / "completion.json"


def _stamp() -> str:
    """Of the modules that the commands are in: where, how many, and when they were changed last."""
    folder = Path(__file__).parent
    times = [file.stat().st_mtime_ns for file in folder.glob("*.py")]
    return f"{folder} {len(times)} {max(times)}"


# ── what the shells run ──────────────────────────────────────────────────────────────────────

BASH = r"""# fanfold: completion for bash
_fanfold() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        if [[ $line == :files ]]; then
            compopt -o default 2>/dev/null
        else
            COMPREPLY+=("$(printf %q "$line")")
        fi
    done < <("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _fanfold fanfold
"""
ZSH = r"""#compdef fanfold
# fanfold: completion for zsh
_fanfold() {
    local -a found
    found=("${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if (( ${found[(Ie):files]} )); then
        _files
    fi
    found=("${(@)found:#(:files|)}")
    compadd -a found
}
if [ "$funcstack[1]" = "_fanfold" ]; then _fanfold; else compdef _fanfold fanfold; fi
"""
FISH = r"""# fanfold: completion for fish
function __fanfold_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in (command $words[1] __complete $words[2..-1] 2>/dev/null)
        if test "$line" = ":files"
            __fish_complete_path (commandline -ct)
        else
            echo $line
        end
    end
end
complete -c fanfold -f -a '(__fanfold_complete)'
"""
SHELLS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


@click.command()
@click.argument("shell", type=click.Choice(list(SHELLS)))
def completion(shell: str) -> None:
    """Print what makes SHELL complete commands, options, runs and members on Tab. Put it, once, where your
    shell looks (make the folder if it is not there):

    \b
    fanfold completion bash > ~/.local/share/bash-completion/completions/fanfold
    fanfold completion zsh > ~/.zfunc/_fanfold
    fanfold completion fish > ~/.config/fish/completions/fanfold.fish

    For zsh, write `fpath+=~/.zfunc` before `compinit` in ~/.zshrc.
    """
    keep_table()
    click.echo(SHELLS[shell], nl=False)
