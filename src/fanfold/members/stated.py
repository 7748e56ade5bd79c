"""What may be written about a member: the checks of single fields, and which kind has which."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, get_args
from urllib.parse import urlsplit

from fanfold.members.agents.dialect import Effort, Sandbox, WorkerType
from fanfold.members.command import PROMPT
from fanfold.members.interpreters import run_as_code
from fanfold.members.local_store import Answers
from fanfold.members.output import PARSES
from fanfold.price import Price
from fanfold.work import check
from fanfold.work.check import Check, fields, flag, number, one_of, text, whole
from fanfold.work.document import Node
from fanfold.work.member import MemberLimits, Tier

Kind = Literal[
    "function", "command", "openai", "anthropic", "replay", "claude", "codex", "gemini", "opencode",
    "local",
]  # fmt: skip
KINDS: tuple[Kind, ...] = get_args(Kind)
APIS = ("openai", "anthropic")
AGENTS = ("claude", "codex", "gemini", "opencode")

_TIERS: dict[str, Tier] = {
    "local": "local", "subscription": "subscription", "paid": "paid",
    "sub": "subscription", "api": "paid",
}  # fmt: skip
_KEY = re.compile(r"none|env:[A-Za-z_][A-Za-z0-9_]*|file:.+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PASTED = re.compile(
    r"(?<![A-Za-z0-9_-])(sk-[A-Za-z]{0,8}-?|gsk_|xai-|hf_|ghp_|github_pat_|AIza)[A-Za-z0-9_-]{16,}"
)


def read_price(node: Node) -> Price:
    money = number(least=0)
    known = dict.fromkeys(("input", "output", "cache_read", "cache_write", "call"), money)
    stated = fields(node, known, "a price")
    by_tokens = [name for name in stated if name != "call"]
    if not stated or (by_tokens and not {"input", "output"} <= stated.keys()):
        raise node.bad("a price needs `input` and `output`, or `call`; else calls would look free")
    return Price(**stated)


def read_limits(node: Node) -> MemberLimits:
    known = dict.fromkeys(("concurrency", "rpm", "tpm"), whole(least=1))
    return MemberLimits(**fields(node, known, "limits"))


def read_tier(node: Node) -> Tier:
    return _TIERS[one_of(*_TIERS)(node)]


def read_version(node: Node) -> str:
    if isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return str(node.value)
    return text(node)


def read_key(node: Node) -> str:
    """A reference to a key. What stands here instead may be the key itself: it is not repeated."""
    if isinstance(node.value, str) and _KEY.fullmatch(node.value):
        return node.value
    raise node.bad(
        f"`{node.name}` must be env:NAME, file:PATH or none, never the key itself; "
        "put the key into a variable and write env: and its name"
    )


def read_url(node: Node) -> str:
    url = text(node).rstrip("/")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        secret = parts.username is not None or parts.password is not None
    except ValueError:
        usable, secret = False, False
    if secret:
        raise node.bad("`base_url` must not hold a name or password; use `key`")
    if not usable:
        raise node.bad(f"`base_url` must begin with http:// or https://, not `{url}`")
    return url


def read_variable(node: Node) -> str:
    name = text(node)
    if not _VARIABLE.fullmatch(name):
        raise node.bad(f"`{name}` is not the name of an environment variable")
    return name


def read_cmd(node: Node) -> tuple[str, ...]:
    """A program and its words. `{prompt}` may stand for a whole word or a part of one, but not
    where it would be run: a text that is asked about must never become a program."""
    words: tuple[str, ...] = check.many(text, least=1)(node)
    if PROMPT in words[0]:
        raise node.bad(f"`{node.name}` must begin with a program, not with {PROMPT}")
    position = run_as_code(words, PROMPT)
    if position is not None:
        what = f"{PROMPT} after `{words[position - 1]}` would be run as code, or choose what is run"
        remedy = f"leave {PROMPT} out and read it from stdin, or pass it as a later argument"
        raise node.bad(f"`{node.name}`: {what}; {remedy}")
    return words


def refuse_pasted_keys(top: Node) -> None:
    """Before anything else is said about a roster: nothing in it looks like a key in clear.

    So no later error can repeat one. It is refused, since there is nothing that it could be for.
    """
    for node in _texts(top):
        if _PASTED.search(node.value):
            if node.name in ("key", "key_ref"):
                read_key(node)
            raise node.bad(
                f"`{node.name}` holds what looks like a key in clear; take it out (and replace the"
                " key, it may be known), and write `key: env:NAME` or `key: file:PATH`"
            )


def looks_like_key(text: str) -> bool:
    return _PASTED.search(text) is not None


def _texts(node: Node) -> Iterator[Node]:
    match node.value:
        case str():
            yield node
        case dict():
            for key in node.value:
                yield from _texts(node.child(key))
        case list():
            for position in range(len(node.value)):
                yield from _texts(node.child(position))


COMMON: dict[str, Check] = {
    "id": text,
    "kind": text,
    "good_at": check.one_or_many(text),
    "tier": read_tier,
    "price": read_price,
    "max_tokens": whole(least=1),
    "context": whole(least=1),
    "limits": read_limits,
    "pool": text,
    "timeout": number(above=0),
    "enabled": flag,
    "can_orchestrate": flag,
    "can_delegate": flag,
    "budget_usd_month": number(above=0),
}
_PROGRAM: dict[str, Check] = {"version": read_version, "effects": flag}
_SIZE: dict[str, Check] = {"max_bytes": whole(least=1)}
TALK: dict[str, Check] = {
    "cmd": read_cmd,
    "parse": one_of(*PARSES),
    "scrub_env": check.one_or_many(read_variable),
    "delegate_args": check.many(text),
}
_API: dict[str, Check] = {"model": text, "base_url": read_url, "key": read_key, **_SIZE}


def read_env(node: Node) -> dict[str, str]:
    """Variables for a program: plain texts, or `env:NAME` for one of ours. Never a secret itself."""
    found = {}
    for name, child in check.entries(node, "env"):
        if not _VARIABLE.fullmatch(name):
            raise child.bad(f"`{name}` is not the name of an environment variable")
        found[name] = text(child)
    return found


_AGENT: dict[str, Check] = {
    "model": text,
    "program": text,
    "type": one_of(*get_args(WorkerType)),
    "effort": one_of(*get_args(Effort)),
    "max_turns": whole(least=1),
    "max_budget_usd": number(above=0),
    "overrun": one_of("reserve", "allow"),
    "silence": number(above=0),
    "session": text,
    "mcp": text,
    "env": read_env,
    "folder": text,
    "place": text,
    "isolation": one_of("none", "worktree"),
    "version": read_version,
}
_OF_CLAUDE: dict[str, Check] = {
    "fallback_model": text,
    "tools": check.one_or_many(text),
    "system": text,
}
_OF_CODEX: dict[str, Check] = {"sandbox": one_of(*get_args(Sandbox)), "network": flag}


def read_weights(node: Node) -> dict[str, float]:
    """Labels may be numbers in YAML; they are known by how they are written."""
    found = {str(name): number(above=0)(child) for name, child in check.entries(node, "weights")}
    return {name: float(weight) for name, weight in found.items()}


_LOCAL: dict[str, Check] = {
    **_SIZE,
    "model": text,
    "slots": whole(least=1),
    "threads": whole(least=1),
    "answers": one_of(*get_args(Answers)),
    "weights": read_weights,
}
BY_KIND: dict[str, dict[str, Check]] = {
    "function": {"target": text, "threads": flag, **_PROGRAM},
    "command": {"prompt": one_of("stdin", "argument"), **TALK, **_PROGRAM, **_SIZE},
    "openai": _API,
    "anthropic": _API,
    "replay": {"file": text},
    "claude": {**_AGENT, **_OF_CLAUDE},
    "codex": {**_AGENT, **_OF_CODEX},
    "gemini": _AGENT,
    "opencode": _AGENT,
    "local": _LOCAL,
}
NEEDS = {
    "function": ("target",),
    "command": ("cmd",),
    "openai": ("model",),
    "anthropic": ("model",),
    "replay": ("file",),
    **dict.fromkeys(AGENTS, ()),
    "local": (),
}
