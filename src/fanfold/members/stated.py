"""What may be written about a member: the checks of single fields, and which kind has which."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypedDict, get_args, get_type_hints
from urllib.parse import urlsplit

from fanfold.errors import BadInput
from fanfold.members.agents.dialect import Effort, Sandbox, WorkerType
from fanfold.members.command import PROMPT, Giving
from fanfold.members.interpreters import run_as_code
from fanfold.members.local_store import Answers
from fanfold.members.output import PARSES, Parse
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
    if isinstance(node.value, Price):
        return node.value
    money = number(least=0)
    known = dict.fromkeys(("input", "output", "cache_read", "cache_write", "call"), money)
    stated = fields(node, known, "a price")
    by_tokens = [name for name in stated if name != "call"]
    if not stated or (by_tokens and not {"input", "output"} <= stated.keys()):
        raise node.bad("a price needs `input` and `output`, or `call`; else calls would look free")
    return Price(**stated)


def read_limits(node: Node) -> MemberLimits:
    if isinstance(node.value, MemberLimits):
        return node.value
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


# ── the fields: each once, with its type for scripts and its check ───────────────────────────


def checks_of(fields: type) -> dict[str, Check]:
    """The checks of a record of fields below."""
    hints = get_type_hints(fields, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items()}


class CommonFields(TypedDict, total=False):
    """What can be said of any member."""

    id: Annotated[str, text]
    good_at: Annotated[str | Sequence[str], check.one_or_many(text)]
    tier: Annotated[Literal["local", "subscription", "paid", "sub", "api"], read_tier]
    price: Annotated[Price | Mapping[str, float], read_price]
    max_tokens: Annotated[int, whole(least=1)]
    context: Annotated[int, whole(least=1)]
    limits: Annotated[MemberLimits | Mapping[str, int], read_limits]
    pool: Annotated[str, text]
    timeout: Annotated[float, number(above=0)]
    enabled: Annotated[bool, flag]
    can_orchestrate: Annotated[bool, flag]
    can_delegate: Annotated[bool, flag]
    budget_usd_month: Annotated[float, number(above=0)]


class Short(TypedDict, total=False):
    """In scripts only: short for `limits={"concurrency": N}`."""

    concurrency: int


class ProgramFields(TypedDict, total=False):
    """Of code that runs here: a function, a command."""

    version: Annotated[str | float, read_version]
    effects: Annotated[bool, flag]


class FunctionFields(ProgramFields, total=False):
    threads: Annotated[bool, flag]


class SizeFields(TypedDict, total=False):
    max_bytes: Annotated[int, whole(least=1)]


class TalkFields(TypedDict, total=False):
    """How a command is spoken to, but for the command itself."""

    parse: Annotated[Parse, one_of(*PARSES)]
    scrub_env: Annotated[str | Sequence[str], check.one_or_many(read_variable)]
    delegate_args: Annotated[Sequence[str], check.many(text)]


class CommandFields(TalkFields, ProgramFields, SizeFields, total=False):
    prompt: Annotated[Giving, one_of("stdin", "argument")]


class ApiFields(SizeFields, total=False):
    base_url: Annotated[str, read_url]
    key: Annotated[str, read_key]


def read_env(node: Node) -> dict[str, str]:
    """Variables for a program: plain texts, or `env:NAME` for one of ours. Never a secret itself."""
    found = {}
    for name, child in check.entries(node, "env"):
        if not _VARIABLE.fullmatch(name):
            raise child.bad(f"`{name}` is not the name of an environment variable")
        found[name] = text(child)
    return found


class AgentFields(TypedDict, total=False):
    model: Annotated[str, text]
    program: Annotated[str, text]
    type: Annotated[WorkerType, one_of(*get_args(WorkerType))]
    effort: Annotated[Effort, one_of(*get_args(Effort))]
    max_turns: Annotated[int, whole(least=1)]
    max_budget_usd: Annotated[float, number(above=0)]
    overrun: Annotated[Literal["reserve", "allow"], one_of("reserve", "allow")]
    silence: Annotated[float, number(above=0)]
    session: Annotated[str, text]
    mcp: Annotated[str, text]
    env: Annotated[Mapping[str, str], read_env]
    folder: Annotated[str, text]
    place: Annotated[str, text]
    isolation: Annotated[Literal["none", "worktree"], one_of("none", "worktree")]
    version: Annotated[str | float, read_version]


class ClaudeFields(TypedDict, total=False):
    """What only claude has."""

    fallback_model: Annotated[str, text]
    tools: Annotated[str | Sequence[str], check.one_or_many(text)]
    system: Annotated[str, text]


class CodexFields(TypedDict, total=False):
    """What only codex has."""

    sandbox: Annotated[Sandbox, one_of(*get_args(Sandbox))]
    network: Annotated[bool, flag]


def read_weights(node: Node) -> dict[str, float]:
    """Labels may be numbers in YAML; they are known by how they are written."""
    found = {str(name): number(above=0)(child) for name, child in check.entries(node, "weights")}
    return {name: float(weight) for name, weight in found.items()}


class LocalFields(SizeFields, total=False):
    model: Annotated[str, text]
    slots: Annotated[int, whole(least=1)]
    threads: Annotated[int, whole(least=1)]
    answers: Annotated[Answers, one_of(*get_args(Answers))]
    weights: Annotated[Mapping[str, float], read_weights]


def with_limits(given: Mapping[str, Any]) -> dict[str, Any]:
    """What a script states, in the fields of a roster; not checked yet."""
    said = {name: value for name, value in given.items() if value is not None}
    if "concurrency" in said:
        if "limits" in said:
            raise BadInput("state `limits` or `concurrency`, not both")
        said["limits"] = {"concurrency": said.pop("concurrency")}
    return said


COMMON: dict[str, Check] = {"kind": text, **checks_of(CommonFields)}
TALK: dict[str, Check] = {"cmd": read_cmd, **checks_of(TalkFields)}
_API: dict[str, Check] = {"model": text, **checks_of(ApiFields)}
_AGENT = checks_of(AgentFields)
BY_KIND: dict[str, dict[str, Check]] = {
    "function": {"target": text, **checks_of(FunctionFields)},
    "command": {"cmd": read_cmd, **checks_of(CommandFields)},
    "openai": _API,
    "anthropic": _API,
    "replay": {"file": text},
    "claude": {**_AGENT, **checks_of(ClaudeFields)},
    "codex": {**_AGENT, **checks_of(CodexFields)},
    "gemini": _AGENT,
    "opencode": _AGENT,
    "local": checks_of(LocalFields),
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
