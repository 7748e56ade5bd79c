"""Where a command line takes a program from its words: a text that is asked about must not be there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath

import msgspec


class Interpreter(msgspec.Struct, frozen=True):
    """How a program takes code: after a flag (`letters` may be in a cluster, as in `-lc`), or as
    its first operand, a script, which must not be the text either.

    `valued`: options that have a value of their own. `after_options`: the code is the first operand
    after the flag, not the word after it. `ends`: after the code there are only its arguments.
    """

    letters: str = ""
    longs: tuple[str, ...] = ()
    valued: str = ""
    after_options: bool = False
    ends: bool = False


_SHELL = Interpreter("c", ("--command", "-Command", "-EncodedCommand"), "oO", after_options=True)
_OF_NODE = ("--eval", "--print", "--require", "--import", "eval")
_KINDS: dict[str, Interpreter] = {
    r"(ba|da|z|k|mk|a|fi|c|tc|r|y|o)?sh[0-9.]*|pwsh|powershell|cmd|nu|xonsh|elvish": _SHELL,
    r"(python|pypy)[0-9.]*": Interpreter("cm", (), "WX", ends=True),
    r"perl[0-9.]*": Interpreter("eEMm", (), "I"),
    r"ruby[0-9.]*": Interpreter("er", (), "IC"),
    r"(node|nodejs|bun|deno|tsx|ts-node)[0-9.]*": Interpreter("epr", _OF_NODE),
    r"(php|hhvm)[0-9.]*": Interpreter("rBRE", (), "dc"),
    r"(lua|luajit|R|Rscript|julia|osascript|groovy|scala|elixir|ghc|tclsh|erl|swift)[0-9.]*": (
        Interpreter("eEl", ("--eval", "-eval"))
    ),
    r"[gmn]?awk": Interpreter("e", ("--source",), "vFf"),
    r"g?sed": Interpreter("e", ("--expression",), ""),
    r"su|runuser|script|watch|eval|parallel": Interpreter("c", ("--command",), "us"),
}  # fmt: skip
_INTERPRETERS = [(re.compile(names), kind) for names, kind in _KINDS.items()]
_REMOTE = ("ssh", "mosh", "rsh")  # the other machine's shell reads all that follows
_STARTERS = (
    "env", "nice", "ionice", "nohup", "timeout", "gtimeout", "sudo", "doas", "setsid", "stdbuf",
    "time", "xargs", "exec", "command", "busybox", "toybox", "unshare", "chroot", "taskset", "chrt",
)  # fmt: skip
_NO_PROGRAM = re.compile(r"-.*|[A-Za-z_]\w*=.*|[0-9.]+[a-z]?")


def run_as_code(words: Sequence[str], text: str) -> int | None:
    """The position of the first word with `text` in it that would be run, or chooses what is.

    The first interpreter counts, wherever it is; what follows its code are arguments.
    """
    for place, word in enumerate(words):
        name = PurePath(word).name.removesuffix(".exe")
        if text in word:
            return None
        kind = next((kind for names, kind in _INTERPRETERS if names.fullmatch(name)), None)
        taken = list(_started(words, place) if name in _STARTERS else ())
        taken += [] if kind is None else list(_code(kind, words, place))
        taken += range(place + 1, len(words)) if name in _REMOTE else ()
        if found := [position for position in taken if text in words[position]]:
            return found[0]
        if kind is not None:
            return None
    return None


def _started(words: Sequence[str], place: int) -> Iterator[int]:
    """Up to the program that is started: `env NAME=x prog`, `timeout 5 prog`, `env -S "prog …"`."""
    for position in range(place + 1, len(words)):
        yield position
        if not _NO_PROGRAM.fullmatch(words[position]):
            return


def _code(kind: Interpreter, words: Sequence[str], place: int) -> Iterator[int]:
    """The options up to the script or the code, with their values, and that itself. What follows
    are its arguments."""
    flagged, last, position = False, len(words) - 1, place + 1
    while position <= last:
        word = words[position]
        is_code = _is_code_flag(kind, word)
        if not is_code and not _is_option(word):
            if kind.after_options or not flagged:
                yield position
            return
        yield position  # with the text in it, as in `-c{prompt}` or `--eval={prompt}`
        valued = (is_code and not kind.after_options and "=" not in word) or _has_value(kind, word)
        if position < last and (valued or word == "--"):
            position += 1
            yield position
        if word == "--" or (is_code and kind.ends):
            return
        flagged = flagged or is_code
        position += 1


def _is_option(word: str) -> bool:
    return word.startswith(("-", "+")) or re.fullmatch(r"/[A-Za-z]", word) is not None


def _is_code_flag(kind: Interpreter, word: str) -> bool:
    if word.partition("=")[0] in kind.longs:
        return True
    if re.fullmatch(r"/[ck]", word, re.IGNORECASE):  # cmd /c
        return True
    cluster = re.match(r"[-+]([A-Za-z0-9]+)", word)
    return cluster is not None and any(letter in kind.letters for letter in cluster[1])


def _has_value(kind: Interpreter, word: str) -> bool:
    """A cluster that ends with such a letter; a long option without `=` may have one, so it has."""
    if word.startswith("--"):
        return "=" not in word and word != "--" and word.partition("=")[0] not in kind.longs
    return word[-1] in kind.valued
