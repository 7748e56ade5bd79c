"""Does a command line run the text that it is given? A text that is asked about must never be a program.

Behind a program that is known to run code, an argument is safe only after what it runs: a script of its
own, or a program text that stands in the command line. On stdin a text is safe only where there is one.
Two things cannot be told: what such a script does with its arguments, and which programs there are
beside those below that run theirs.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import PurePath
from typing import NamedTuple

import msgspec

STDIN = "\0"
"""The text goes to stdin: no word can hold a NUL."""


class Interpreter(msgspec.Struct, frozen=True):
    """How a program takes code: after a flag (`code` are letters, which may be in a cluster), or as its
    first operand: a script, or for awk and sed the code itself.

    `longs`: long options with code. `valued`, `values`: options with another value. `flags`: long
    options without one; of any other it is not known, so it has one. `sticky`: letters with a value in
    the same word only. `shell`: the code is the first operand after the flag. `ends`: after the code
    there are only its arguments. `script_too`: a script may follow the code. `subcommands`: words before
    the script. `permutes`: its flags may stand behind its operands. `reads`: without a script it runs its
    stdin, and with one of the letters `also` even so.
    """

    code: str = ""
    longs: tuple[str, ...] = ()
    valued: str = ""
    values: tuple[str, ...] = ()
    flags: str = ""
    sticky: str = ""
    shell: bool = False
    ends: bool = False
    script_too: bool = False
    subcommands: tuple[str, ...] = ()
    permutes: bool = False
    reads: bool = True
    also: str = ""


_LISP = ("--eval", "-eval", "--load", "--expr", "--command")
_NODE = Interpreter(
    "ep", ("--eval", "--print"), "rC", subcommands=("run", "eval", "x", "exec", "repl"), also="i",
    flags="--(no|allow|enable|trace|preserve|watch|inspect|test)-?.*|--experimental-(?!loader).*|--unstable.*",
)  # fmt: skip
_KINDS: dict[str, Interpreter] = {
    r"(ba|rba|da|z|k|mk|lk|pdk|a|c|tc|r|y|o|po|hu)?sh[0-9.]*|elvish|nu": Interpreter(
        "c", ("--command",), "oO", ("--rcfile", "--init-file"), "--.*", shell=True, also="s"
    ),
    r"fish": Interpreter("cC", ("--command", "--init-command"), "dDo", flags="--.*"),
    r"(i|b|pt|micro)?python[w0-9.]*|pypy[0-9.]*|jython|graalpy|xonsh|py": Interpreter(
        "cm", (), "WX", ("--check-hash-based-pycs",), "--.*", ends=True, also="i"
    ),
    r"perl[0-9.]*|raku": Interpreter("eE", (), "I", flags="--.*", sticky="MmiFxCDdV"),
    r"[jm]?ruby[0-9.]*": Interpreter("e", (), "IrCE", flags="--.*", sticky="iFxKTW"),
    r"node|nodejs|bun|deno|tsx|ts-node": _NODE,
    r"(php|hhvm)[0-9.]*": Interpreter("rBREfF", ("--run", "--file"), "dcztS", also="a"),
    r"lua[0-9.]*|luajit": Interpreter("e", (), "lj", script_too=True, also="i"),
    r"R|Rscript": Interpreter("ef", ("--file",), "g", flags="--.*"),
    r"julia": Interpreter(
        "eE", ("--eval", "--print"), "pJtCHL", flags="--(project|quiet|threads)", also="i"
    ),
    r"[gmn]?awk": Interpreter("efE", ("--source", "--file", "--exec"), "vFilW", reads=False),
    r"g?sed": Interpreter(
        "ef", ("--expression", "--file"), "l", (), "--.*", "i", permutes=True, reads=False
    ),
    r"osascript|groovy|kotlin|scala|elixir|iex|erl|ghci?|runghc|runhaskell|tclsh|wish|expect|swift|"
    r"guile|racket|sbcl|clisp|ecl|clojure|clj|bb|janet|octave|ocaml|irb|pry|jshell": (
        Interpreter("ecEm", _LISP, "lsrf", script_too=True, also="i")
    ),
}  # fmt: skip
_INTERPRETERS = [(re.compile(names), kind) for names, kind in _KINDS.items()]
_RUNNERS = (
    "ssh", "mosh", "rsh", "cmd", "su", "runuser", "script", "watch", "eval", "parallel", "tmux",
    "screen", "socat", "vim", "nvim", "gvim", "vi", "view", "ex", "ed", "emacs", "emacsclient",
    "gdb", "lldb", "at", "batch", "sg", "newgrp",
)  # fmt: skip
"""They run whatever follows, or may: the other machine's shell, their own, an editor's commands."""
_READERS = (
    "su", "runuser", "script", "eval", "parallel", "ex", "ed", "gdb", "lldb", "at", "batch", "sg",
    "newgrp", "cmd",
)  # fmt: skip
"""Those that run their stdin, unless a flag has what they are to run."""
_STARTERS = (
    "env", "nice", "ionice", "nohup", "sudo", "doas", "setsid", "stdbuf", "time", "xargs", "exec",
    "command", "busybox", "toybox", "unshare", "prlimit", "setpriv", "numactl", "unbuffer",
    "rlwrap", "xvfb-run", "dbus-run-session", "tini", "dumb-init", "fakeroot", "setarch",
    "caffeinate", "systemd-run", "timeout", "gtimeout", "taskset", "chrt", "nsenter",
)  # fmt: skip
"""They start the program that follows."""
_STARTERS_ON = ("flock", "chroot", "gosu", "su-exec")
"""These start the one behind a first word of their own."""
_OPTIONS_OF = {
    "env": "uC", "nice": "n", "ionice": "cnpPu", "sudo": "ughpCTrtUDR", "doas": "uC", "stdbuf": "ioe",
    "time": "fo", "xargs": "adEILnPs", "exec": "a", "timeout": "ks", "gtimeout": "ks", "unshare": "SGRw",
    "chrt": "TPD", "flock": "wE", "nsenter": "tSG", "systemd-run": "puHMdE", "numactl": "mNCip",
}  # fmt: skip
"""Letters of their options that have a value in the next word."""
_OPTIONS = (
    "user", "group", "chdir", "host", "prompt", "role", "type", "adjustment", "class", "classdata", "pid",
    "signal", "kill-after", "max-args", "max-lines", "max-procs", "max-chars", "arg-file", "delimiter",
    "unset", "input", "output", "error", "timeout", "wait", "conflict-exit-code", "target", "unit",
    "property", "setenv", "format",
)  # fmt: skip
"""Long ones."""
_SHELL_IF_NONE = ("sudo", "doas", "chroot", "unshare", "nsenter")
_WRAPPERS = (
    "docker", "podman", "nerdctl", "kubectl", "oc", "lxc", "incus", "machinectl", "systemd-nspawn",
    "singularity", "apptainer", "distrobox", "toolbox", "uv", "poetry", "pipenv", "pdm", "hatch",
    "conda", "mamba", "micromamba", "npx", "npm", "yarn", "pnpm", "bundle", "nix", "nix-shell",
    "strace", "ltrace", "valgrind",
)  # fmt: skip
"""They start a program somewhere in their words."""
_FINDERS = {
    "find": ("-exec", "-execdir", "-ok", "-okdir"),
    **dict.fromkeys(("fd", "fdfind"), ("-x", "-X", "--exec", "--exec-batch")),
}
_NO_PROGRAM = re.compile(r"[A-Za-z_]\w*=.*|[0-9.]+[a-z]?", re.DOTALL)
_IS_STDIN = ("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")
_WITH_VALUE = {"ssh": "BbcDEeFIiJLlmOopQRSWw"}


def run_as_code(words: Sequence[str], text: str) -> str | None:
    """The word behind which `text` would be run, or choose what is run; with STDIN as `text`, the
    program that would run it. None where it is not known to be run."""
    if not words or text in words[0]:
        return words[0] if words else None
    name, rest = _name(words[0]), words[1:]
    if name == "env":
        rest = _split(rest)
    if name == "xargs" and text == STDIN:
        prints = _started(name, rest) is None
        return None if prints else run_as_code([words[0], *_filled(rest)], STDIN * 2)
    if (kind := _kind(name)) is not None:
        return _by_interpreter(kind, words[0], rest, text)
    if name in (*_STARTERS, *_STARTERS_ON):
        return _by_starter(name, words[0], rest, text)
    if _is_system(words[0]) and name in _RUNNERS:
        return _by_runner(name, words[0], rest, text)
    if name in ("pwsh", "powershell"):
        return _by_powershell(words[0], rest, text)
    if name in _FINDERS:
        flags = _FINDERS[name]
        lines = (rest[at + 1 :] for at, word in enumerate(rest) if word in flags)
        return next(filter(None, (run_as_code(line, text) for line in lines)), None)
    return _by_another(rest, text, whole=name in _WRAPPERS)


def _by_interpreter(kind: Interpreter, word: str, rest: Sequence[str], text: str) -> str | None:
    taken = _taken(kind, rest)
    if text == STDIN:
        return word if taken.reads else None
    until = taken.until
    if kind.permutes:
        codes = [n for n, one in enumerate(rest) if one[:1] == "-" and _option(kind, one)[0]]
        until = max(until, *(n + 2 for n in codes), 0)
    return _before(word, rest[:until], text)


def _by_starter(name: str, word: str, rest: Sequence[str], text: str) -> str | None:
    place = _started(name, rest)
    if name == "flock" and "-c" in rest:
        place = None
    if found := _before(word, rest if place is None else rest[: place + 1], text):
        return found
    if place is None:
        return word if text == STDIN and name in _SHELL_IF_NONE else None
    return run_as_code(rest[place:], text)


def _started(name: str, rest: Sequence[str]) -> int | None:
    """Where the program is: `env NAME=x prog`, `timeout 5 prog`, `sudo -u me prog`."""
    own, letters, position = int(name in _STARTERS_ON), _OPTIONS_OF.get(name, ""), 0
    while position < len(rest):
        word = rest[position]
        if word.startswith("--") and word != "--":
            position += word.removeprefix("--") in _OPTIONS
        elif word.startswith("-"):
            position += word[-1] in letters and not any(one in letters for one in word[1:-1])
        elif own and not _NO_PROGRAM.fullmatch(word):
            own -= 1
        elif not _NO_PROGRAM.fullmatch(word):
            return position
        position += 1
    return None


def _by_runner(name: str, word: str, rest: Sequence[str], text: str) -> str | None:
    if text != STDIN:
        return _before(word, rest, text)
    if name in _WITH_VALUE:
        line = _remote(rest, _WITH_VALUE[name])
        return run_as_code(line, text) if line else word
    stated = any(re.match(r"--command|-[a-z]*c", one) for one in rest)
    return word if name in _READERS and not stated else None


def _remote(rest: Sequence[str], valued: str) -> list[str]:
    """What the other machine's shell is to run: all behind its name."""
    position = 0
    while position < len(rest) and rest[position].startswith("-"):
        position += 2 if rest[position][-1] in valued and len(rest[position]) == 2 else 1
    return _words(" ".join(rest[position + 1 :]))


def _by_powershell(word: str, rest: Sequence[str], text: str) -> str | None:
    """All that follows `-Command` is code; a script has arguments."""
    at = next((n for n, one in enumerate(rest) if one.lower() in ("-file", "-f")), None)
    upto = len(rest) if at is None else at + 2
    if rest and rest[0].lower().endswith(".ps1"):
        upto = 1
    if text == STDIN:
        return word if not rest or rest[-1] == "-" else None
    return _before(word, rest[:upto], text)


def _by_another(rest: Sequence[str], text: str, *, whole: bool) -> str | None:
    """Of a program that is not known: an interpreter among its words, where the text is its code. The
    name alone may be anything (`--language python`), unless it is known to start programs (`whole`)."""
    for place, word in enumerate(rest):
        kind, then = _kind(_name(word)), rest[place + 1 : place + 2]
        if (
            kind is None or text in word or (then and _kind(_name(then[0])))
        ):  # `docker run python sh`
            continue
        if whole or (text != STDIN and _taken(kind, rest[place + 1 :]).flagged):
            return _by_interpreter(kind, word, rest[place + 1 :], text)
    return None


# ── the words of an interpreter ──────────────────────────────────────────────────────────────


class _Taken(NamedTuple):
    """Of the words behind an interpreter, those before `until` choose what it runs. `flagged`: it was
    given code by a flag. `reads`: it runs its stdin."""

    until: int
    flagged: bool
    reads: bool


def _taken(kind: Interpreter, rest: Sequence[str]) -> _Taken:
    flagged, reads, position = False, False, 0
    while position < len(rest) and _is_option(kind, rest[position]):
        word = rest[position]
        position += 1
        if word == "--" or (word == "-" and kind.shell):
            break
        reads = reads or (_is_cluster(word) and any(one in kind.also for one in word[1:]))
        codes, more = _option(kind, word)
        position += more
        flagged = flagged or codes
        given = rest[position - 1 : position]
        reads = reads or (codes and any(one in _IS_STDIN for one in given))
        if codes and kind.ends:
            return _Taken(position, True, reads)
    operand = rest[position] if position < len(rest) else None
    if flagged and not kind.shell:
        return _Taken(position + kind.script_too, True, reads)
    none = kind.reads and (operand is None or operand in _IS_STDIN)
    return _Taken(position + 1, flagged, reads or (none and not flagged))


def _is_option(kind: Interpreter, word: str) -> bool:
    if word == "-":
        return kind.shell
    return word.startswith("-") or word in kind.subcommands or (kind.shell and word[:1] == "+")


def _is_cluster(word: str) -> bool:
    return word[:1] in "-+" and not word.startswith("--")


def _option(kind: Interpreter, word: str) -> tuple[bool, int]:
    """Whether it brings code, and how many of the words behind it are its values."""
    name, equals, _ = word.partition("=")
    if name in kind.longs:
        return True, 0 if equals else 1
    if word in kind.subcommands:
        return False, 0
    if not _is_cluster(word):
        valued = name in kind.values or not re.fullmatch(kind.flags, name)
        return False, 1 if valued and not equals else 0
    if kind.shell:
        return "c" in word[1:], sum(word.count(letter) for letter in kind.valued)
    for place, letter in enumerate(word[1:], 2):
        inside = word[place:]
        if letter in kind.code:  # `node -pe CODE`
            return True, 0 if inside.strip(kind.code) else 1
        if letter in kind.valued:
            return False, 0 if inside else 1
        if letter in kind.sticky:
            break
    return False, 0


# ── single words ─────────────────────────────────────────────────────────────────────────────


def _before(word: str, rest: Sequence[str], text: str) -> str | None:
    """The word before the first one with the text in it."""
    at = next((n for n, one in enumerate(rest) if text in one), None)
    return None if at is None else (word, *rest)[at]


def _name(word: str) -> str:
    return PurePath(word).name.removesuffix(".exe")


def _kind(name: str) -> Interpreter | None:
    return next((kind for names, kind in _INTERPRETERS if names.fullmatch(name)), None)


def _is_system(word: str) -> bool:
    """`./script` is a program of one's own; `script` and `/usr/bin/script` are the system's."""
    return "/" not in word or PurePath(word).parent.name in ("bin", "sbin")


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()


def _split(rest: Sequence[str]) -> list[str]:
    """The words of `env`, with those in the value of `-S` one by one."""
    found: list[str] = []
    words = iter(rest)
    for word in words:
        told = re.match(r"(?:-[iv0]*S|--split-string=?)(.*)", word, re.DOTALL)
        if told is None:
            found.append(word)
            continue
        found += _words(told[1] or next(words, ""))
        return [*found, *words]
    return found


def _filled(rest: Sequence[str]) -> list[str]:
    """The words of `xargs`, with what it reads where it puts it: last, or in place of a mark (`-I {}`)."""
    for place, word in enumerate(rest):
        if told := re.fullmatch(r"-I(.*)|--replace=(.+)", word, re.DOTALL):
            apart = place + 1 if word == "-I" else place
            mark = told[1] or told[2] or "".join(rest[apart : apart + 1])
            line = [*rest[:place], *rest[apart + 1 :]]
            return [one.replace(mark, STDIN * 2) for one in line] if mark else line
    return [*rest, STDIN * 2]
