"""One member as the roster states it: its fields checked, its traits worked out."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

import msgspec

from fanfold import price
from fanfold.price import FREE, Price
from fanfold.work import check
from fanfold.work.check import Check, fields, flag, number, one_of, text, whole
from fanfold.work.document import Node
from fanfold.work.item import canonical, digest
from fanfold.work.member import MemberLimits, Tier, Traits

Kind = Literal["function", "command", "openai", "anthropic", "replay"]
KINDS: tuple[Kind, ...] = get_args(Kind)
APIS = ("openai", "anthropic")

_KEPT = ("target", "threads", "cmd", "file", "base_url", "key")
_LATER = ("claude", "codex", "local")
_HOSTS = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com"}
_USUAL_KEYS = {"openai": "env:OPENAI_API_KEY", "anthropic": "env:ANTHROPIC_API_KEY"}
_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")
_KEY = re.compile(r"none|env:[A-Za-z_][A-Za-z0-9_]*|file:.+")
_TIERS: dict[str, Tier] = {
    "local": "local", "subscription": "subscription", "paid": "paid",
    "sub": "subscription", "api": "paid",
}  # fmt: skip


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A member of the roster, not yet built. `lines` says where each of its fields stands."""

    traits: Traits
    lines: dict[str, int]
    target: str = ""
    threads: bool = False
    cmd: tuple[str, ...] = ()
    file: str = ""
    base_url: str = ""
    key: str = "none"

    def line(self, field: str = "id") -> int:
        return self.lines.get(field, self.lines["id"])


def read_entry(node: Node) -> Entry:
    """Check one element of `members:`. Fields that belong to another kind are refused as such."""
    lines = {name: child.line for name, child in check.entries(node, "a member")}
    kind = _kind(node)
    _refuse_others(node, kind)
    known = _COMMON | _BY_KIND[kind]
    stated = fields(node, known, f"a member of kind {kind}", required=("id", *_NEEDS[kind]))
    if kind in APIS:
        usual_host = "base_url" not in stated
        stated.setdefault("base_url", _HOSTS[kind])
        stated.setdefault("key", _USUAL_KEYS[kind] if usual_host else "none")
    own = {name: stated[name] for name in _KEPT if name in stated}
    return Entry(traits=_traits(kind, stated, Path(node.file)), lines=lines, **own)


def _kind(node: Node) -> Kind:
    if "kind" not in node.value:
        raise node.bad(f"a member needs the field `kind`: one of {', '.join(KINDS)}")
    child = node.child("kind")
    if child.value in _LATER:
        raise child.bad(f"kind `{child.value}` is not supported yet; there are {', '.join(KINDS)}")
    found: Kind = one_of(*KINDS)(child)
    return found


def _refuse_others(node: Node, kind: Kind) -> None:
    known = _COMMON | _BY_KIND[kind]
    for name in node.value:
        if name not in known and any(name in others for others in _BY_KIND.values()):
            homes = [other for other in KINDS if name in _BY_KIND[other]]
            raise node.child(name).bad(
                f"`{name}` is a field of kind {' and '.join(homes)}, not of kind {kind}"
            )


# ── traits ───────────────────────────────────────────────────────────────────────────────────


def _traits(kind: Kind, stated: dict[str, Any], roster: Path) -> Traits:
    cost = _price(kind, stated)
    same = ("max_tokens", "context", "timeout", "limits", "good_at", "enabled", "can_orchestrate",
            "can_delegate", "budget_usd_month")  # fmt: skip
    return Traits(
        id=stated["id"],
        kind=kind,
        answerer=_answerer(kind, stated, roster),
        takes="items" if kind == "function" else "messages",
        shared=kind not in ("function", "command") or "version" in stated,
        metered=_metered(kind, stated, cost),
        price=cost,
        model=stated.get("model"),
        pool=stated.get("pool") or _pool(kind, stated),
        tier=stated.get("tier") or _usual_tier(kind, stated),
        enabled_written="enabled" in stated,
        keeps_time=kind != "function",
        **{**_usual(kind), **{name: stated[name] for name in same if name in stated}},
    )


def _usual(kind: Kind) -> dict[str, Any]:
    """A function keeps its own time unless a timeout is stated: most cannot be interrupted."""
    return {"timeout": 0.0} if kind == "function" else {}


def _usual_tier(kind: Kind, stated: dict[str, Any]) -> Tier:
    """An API is paid, unless it is served by this very machine."""
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
            return f"command:{digest(canonical(stated['cmd'])).hex()}@{version}"
        case "replay":
            return f"replay:{_file_digest(roster.parent / stated['file'])}"
        case "openai" | "anthropic":
            return f"{kind}:{stated['model']}"


def _file_digest(path: Path) -> str:
    """Of the recorded replies. A missing file shows when the member is opened, not before."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except OSError:
        return "unreadable"


def _price(kind: Kind, stated: dict[str, Any]) -> Price | None:
    """As stated; else the price table's; None when nobody knows, never a guess."""
    if "price" in stated:
        found: Price = stated["price"]
        return found
    if kind in APIS:
        return price.lookup(stated["model"], kind, stated["base_url"])
    return None if kind == "command" else FREE


def _metered(kind: Kind, stated: dict[str, Any], cost: Price | None) -> bool:
    return kind in APIS or bool(stated.get("effects")) or cost != FREE


def _pool(kind: Kind, stated: dict[str, Any]) -> str:
    """Who shares a quota: an account is a server and a key (the reference, never its value)."""
    if kind in APIS:
        return f"{kind}:{stated['base_url']}:{stated['key']}"
    id: str = stated["id"]
    return id


# ── checks of single fields ──────────────────────────────────────────────────────────────────


def _read_price(node: Node) -> Price:
    money = number(least=0)
    known = dict.fromkeys(("input", "output", "cache_read", "cache_write", "call"), money)
    stated = fields(node, known, "a price")
    by_tokens = [name for name in stated if name != "call"]
    if not stated or (by_tokens and not {"input", "output"} <= stated.keys()):
        raise node.bad("a price needs `input` and `output`, or `call`; else calls would look free")
    return Price(**stated)


def _read_limits(node: Node) -> MemberLimits:
    known = dict.fromkeys(("concurrency", "rpm", "tpm"), whole(least=1))
    return MemberLimits(**fields(node, known, "limits"))


def _read_tier(node: Node) -> Tier:
    return _TIERS[one_of(*_TIERS)(node)]


def _read_version(node: Node) -> str:
    if isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return str(node.value)
    return text(node)


def _read_key(node: Node) -> str:
    """A reference to a key. What stands here instead may be the key itself: it is not repeated."""
    if isinstance(node.value, str) and _KEY.fullmatch(node.value):
        return node.value
    raise node.bad(
        "`key` must be env:NAME, file:PATH or none, never the key itself; "
        "put the key into a variable and write env: and its name"
    )


def _read_url(node: Node) -> str:
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


_COMMON: dict[str, Check] = {
    "id": text,
    "kind": text,
    "good_at": check.one_or_many(text),
    "tier": _read_tier,
    "price": _read_price,
    "max_tokens": whole(least=1),
    "context": whole(least=1),
    "limits": _read_limits,
    "pool": text,
    "timeout": number(above=0),
    "enabled": flag,
    "can_orchestrate": flag,
    "can_delegate": flag,
    "budget_usd_month": number(above=0),
}
_PROGRAM: dict[str, Check] = {"version": _read_version, "effects": flag}
_API: dict[str, Check] = {"model": text, "base_url": _read_url, "key": _read_key}
_BY_KIND: dict[str, dict[str, Check]] = {
    "function": {"target": text, "threads": flag, **_PROGRAM},
    "command": {"cmd": check.many(text, least=1), **_PROGRAM},
    "openai": _API,
    "anthropic": _API,
    "replay": {"file": text},
}
_NEEDS = {
    "function": ("target",),
    "command": ("cmd",),
    "openai": ("model",),
    "anthropic": ("model",),
    "replay": ("file",),
}
