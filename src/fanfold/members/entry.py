"""One member as the roster states it: its fields checked, its traits worked out."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from fanfold import price
from fanfold.members.agents.dialect import Setup
from fanfold.members.agents.models import pricing_model
from fanfold.members.command import PROMPT, Giving
from fanfold.members.local_store import CONTEXT, Tuning
from fanfold.members.output import Parse
from fanfold.members.stated import AGENTS, APIS, BY_KIND, COMMON, KINDS, NEEDS, Kind
from fanfold.price import FREE, Price
from fanfold.work import check
from fanfold.work.check import fields, one_of
from fanfold.work.document import Node
from fanfold.work.item import canonical, digest
from fanfold.work.member import MemberLimits, Tier, Traits

_KEPT = (
    "target", "threads", "cmd", "prompt", "parse", "scrub_env", "delegate_args", "file",
    "base_url", "key", "folder", "place", "isolation",
)  # fmt: skip
_OWN_RUN = ("function", "command", *AGENTS)  # their replies serve no other run without a version
_CAPS = ("max_budget_usd", "max_turns")
_SETUP = Setup.__struct_fields__
_TUNING = Tuning.__struct_fields__
_AGENTS_TOKENS = 16_000  # of one reply: an agent writes whole files
_AGENTS_AT_ONCE = 4
_LOCAL_TOKENS = 512
_HOSTS = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com"}
_USUAL_KEYS = {"openai": "env:OPENAI_API_KEY", "anthropic": "env:ANTHROPIC_API_KEY"}
_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A member of the roster, not yet built. `lines` says where each of its fields stands.

    An agent works in `folder`, and leaves its log in `place` (else in a folder of the store).
    """

    traits: Traits
    lines: dict[str, int]
    target: str = ""
    threads: bool = False
    cmd: tuple[str, ...] = ()
    prompt: Giving = "stdin"
    parse: Parse = "plain"
    scrub_env: tuple[str, ...] = ()
    delegate_args: tuple[str, ...] = ()
    file: str = ""
    base_url: str = ""
    key: str = "none"
    setup: Setup = Setup()
    tuning: Tuning = Tuning()
    folder: str = ""
    place: str = ""
    isolation: Literal["none", "worktree"] = "none"

    def line(self, field: str = "id") -> int:
        return self.lines.get(field, self.lines["id"])

    def delegating(self, mcp_json: str, mcp_command: str) -> Entry:
        """The same member with its `delegate_args` filled in: an orchestrator with our MCP tools.

        `mcp_json` is a server's configuration as JSON, `mcp_command` the program that starts it.
        """
        if self.traits.agent:
            setup = msgspec.structs.replace(self.setup, mcp=mcp_json)
            return msgspec.structs.replace(self, setup=setup)
        filled = (
            word.replace("{delegate_mcp_json}", mcp_json)
            .replace("{delegate_mcp_command}", mcp_command)
            for word in self.delegate_args
        )  # fmt: skip
        return msgspec.structs.replace(self, cmd=(*self.cmd, *filled))


def read_entry(node: Node) -> Entry:
    """Check one element of `members:`. Fields that belong to another kind are refused as such."""
    lines = {name: child.line for name, child in check.entries(node, "a member")}
    kind = _kind(node)
    _refuse_others(node, kind)
    known = COMMON | BY_KIND[kind]
    stated = fields(node, known, f"a member of kind {kind}", required=("id", *NEEDS[kind]))
    return make_entry(kind, stated, lines, Path(node.file))


def make_entry(kind: Kind, stated: dict[str, Any], lines: dict[str, int], roster: Path) -> Entry:
    """From fields that were checked, whichever form they were written in."""
    stated = {**_usual_fields(kind, stated), **stated}
    own = {name: stated[name] for name in _KEPT if name in stated and kind != "local"}
    if kind == "local":
        own["tuning"] = _tuning(stated)
    if kind in AGENTS:
        own["setup"] = Setup(**{name: stated[name] for name in _SETUP if name in stated})
    return Entry(traits=_traits(kind, stated, roster), lines=lines, **own)


def _usual_fields(kind: Kind, stated: dict[str, Any]) -> dict[str, Any]:
    """An API's usual key goes to its usual host only."""
    if kind in APIS:
        usual_key = "none" if "base_url" in stated else _USUAL_KEYS[kind]
        return {"base_url": _HOSTS[kind], "key": usual_key}
    if kind == "command" and any(PROMPT in word for word in stated["cmd"]):
        return {"prompt": "argument"}
    if kind == "local":
        return {"context": CONTEXT, "max_tokens": _LOCAL_TOKENS}
    return {}


def _kind(node: Node) -> Kind:
    if "kind" not in node.value:
        raise node.bad(f"a member needs the field `kind`: one of {', '.join(KINDS)}")
    child = node.child("kind")
    found: Kind = one_of(*KINDS)(child)
    return found


def _refuse_others(node: Node, kind: Kind) -> None:
    known = COMMON | BY_KIND[kind]
    for name in node.value:
        if name not in known and any(name in others for others in BY_KIND.values()):
            homes = [other for other in KINDS if name in BY_KIND[other]]
            raise node.child(name).bad(
                f"`{name}` is a field of kind {', '.join(homes)}, not of kind {kind}"
            )


# ── traits ───────────────────────────────────────────────────────────────────────────────────


def _traits(kind: Kind, stated: dict[str, Any], roster: Path) -> Traits:
    cost = _price(kind, stated)
    same = ("max_tokens", "max_bytes", "context", "timeout", "limits", "good_at", "enabled",
            "can_orchestrate", "can_delegate", "budget_usd_month", "cost_text")  # fmt: skip
    if kind == "local":
        stated = {**stated, "limits": _slots(stated)}
    return Traits(
        id=stated["id"],
        kind=kind,
        answerer=_answerer(kind, stated, roster),
        takes="items" if kind == "function" else "messages",
        shared=kind not in _OWN_RUN or "version" in stated,
        metered=_metered(kind, stated, cost),
        price=cost,
        model=_tuning(stated).name if kind == "local" else stated.get("model"),
        pool=stated.get("pool") or _pool(kind, stated),
        tier=stated.get("tier") or _usual_tier(kind, stated),
        enabled_written="enabled" in stated,
        keeps_time=kind != "function",
        agent=kind in AGENTS,
        bounded=kind not in AGENTS or not stated.keys().isdisjoint(_CAPS),
        remote=kind in APIS,
        takes_tools=kind in APIS,
        **{**_usual(kind), **{name: stated[name] for name in same if name in stated}},
    )


def _usual(kind: Kind) -> dict[str, Any]:
    """A function keeps its own time unless a timeout is stated: most cannot be interrupted. Agents
    may work for hours."""
    if kind in AGENTS:
        limits = MemberLimits(concurrency=_AGENTS_AT_ONCE)
        return {"timeout": 0.0, "max_tokens": _AGENTS_TOKENS, "limits": limits}
    return {"timeout": 0.0} if kind == "function" else {}


def _tuning(stated: dict[str, Any]) -> Tuning:
    return Tuning(**{name: stated[name] for name in _TUNING if name in stated})


def _slots(stated: dict[str, Any]) -> MemberLimits:
    """More than its slots would only wait in line, and their time runs."""
    limits: MemberLimits = stated.get("limits", MemberLimits())
    most = min(limits.concurrency, _tuning(stated).slots)
    return msgspec.structs.replace(limits, concurrency=most)


def _usual_tier(kind: Kind, stated: dict[str, Any]) -> Tier:
    """An API is paid, unless it is served by this very machine. Agents have a login of their own."""
    if kind in AGENTS:
        return "subscription"
    if kind not in APIS or urlsplit(stated["base_url"]).hostname in _THIS_MACHINE:
        return "local"
    return "paid"


def _answerer(kind: Kind, stated: dict[str, Any], roster: Path) -> str:
    """Who gave a reply, as far as it matters for using it again. `@run`: only within one run."""
    version = stated.get("version", "run")
    match kind:
        case "function":
            return f"function:{stated['target']}@{version}"
        case "command":
            return f"command:{digest(canonical(_talk(stated))).hex()}@{version}"
        case "replay":
            return f"replay:{_file_digest(roster.parent / stated['file'])}"
        case "openai" | "anthropic":
            return f"{kind}:{stated['model']}"
        case "local":
            tuning = _tuning(stated)
            size = _file_size(roster.parent, tuning.model)
            weights = digest(canonical(tuning.weights)).hex()[:16] if tuning.weights else ""
            return f"local:{tuning.name}:{size}:{tuning.answers}{weights}"
        case "claude" | "codex" | "gemini" | "opencode":
            may = stated.get("type") or ",".join(stated.get("tools", ())) or "-"
            return f"{kind}:{stated.get('model', '-')}:{may}@{version}"


def _talk(stated: dict[str, Any]) -> Any:
    """What a command is, as far as its replies go: its words, and how it is given and read."""
    manner = [stated.get("prompt", "stdin"), stated.get("parse", "plain")]
    usual = manner == ["stdin", "plain"]
    return stated["cmd"] if usual else [stated["cmd"], *manner]


def _file_digest(path: Path) -> str:
    """Of the recorded replies. A missing file shows when the member is opened, not before."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except OSError:
        return "unreadable"


def _file_size(folder: Path, model: str) -> str:
    """Of the model that is stated; nobody waits for a hash of many gigabytes."""
    try:
        return str((folder / Path(model).expanduser()).stat().st_size) if model else "usual"
    except OSError:
        return "unreadable"


def _price(kind: Kind, stated: dict[str, Any]) -> Price | None:
    """As stated; nothing, where somebody wrote that it is on this machine; else the price table's;
    None when nobody knows, never a guess. An agent's model is paid for wherever the agent runs."""
    if "price" in stated:
        found: Price = stated["price"]
        return found
    if stated.get("tier") == "local" and kind not in AGENTS:
        return FREE
    if kind in APIS:
        return price.lookup(stated["model"], kind, stated["base_url"])
    if kind in AGENTS:
        maker = "anthropic" if kind == "claude" else "openai"
        return price.lookup(pricing_model(kind, stated.get("model")), maker)
    return None if kind == "command" else FREE


def _metered(kind: Kind, stated: dict[str, Any], cost: Price | None) -> bool:
    return kind in (*APIS, *AGENTS) or bool(stated.get("effects")) or cost != FREE


def _pool(kind: Kind, stated: dict[str, Any]) -> str:
    """Who shares a quota: an account is a server and a key (the reference, never its value)."""
    if kind in APIS:
        return f"{kind}:{stated['base_url']}:{stated['key']}"
    if kind in AGENTS:
        return kind
    id: str = stated["id"]
    return id
