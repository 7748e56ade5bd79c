"""The kinds of members: the fields that all have, and the table of the kinds.

A kind is one module with a record derived from `MemberFields`: its fields as a roster or a script
states them, what a run knows of such a member (`traits`), and how it is made (`build`). Its record is
named in `KINDS`; that is all it takes to add one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self, TypeAlias
from urllib.parse import urlsplit

import msgspec

from fanfold.price import FREE, Price
from fanfold.work.ask import Params
from fanfold.work.carried import AskFiles, FilePatterns, FileTrouble, check_pattern, files_of
from fanfold.work.files import expanded
from fanfold.work.media import MediaKind
from fanfold.work.member import Member, MemberLimits, SshHosts, Tier, Traits
from fanfold.work.reader import Count, Misfit, NonNegative, Positive, Text, Word, listed

KINDS: dict[str, str] = {
    "function": "fanfold.members.function:FunctionFields",
    "command": "fanfold.members.command:CommandFields",
    "openai": "fanfold.members.openai:OpenAIFields",
    "anthropic": "fanfold.members.anthropic:AnthropicFields",
    "replay": "fanfold.members.replay:ReplayFields",
    "claude": "fanfold.members.agents.agent:ClaudeFields",
    "codex": "fanfold.members.agents.agent:CodexFields",
    "gemini": "fanfold.members.agents.agent:GeminiFields",
    "opencode": "fanfold.members.agents.agent:OpencodeFields",
    "local": "fanfold.members.local:LocalFields",
    "embedding": "fanfold.members.embedding:EmbeddingFields",
    "litellm": "fanfold.members.litellm:LitellmFields",
}
"""Where the record of each kind is. Its module is imported when a roster first names it."""

_TIERS: dict[str, Tier] = {"sub": "subscription", "api": "paid"}
_TAG = re.compile(r"[A-Za-z0-9._-]+")
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class PriceFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A price as it is written: a part that is missing must not make calls look free."""

    called: ClassVar[str] = "a price"
    input: NonNegative | None = None
    output: NonNegative | None = None
    cache_read: NonNegative | None = None
    cache_write: NonNegative | None = None
    call: NonNegative | None = None

    def __post_init__(self) -> None:
        by_tokens = {self.input, self.output, self.cache_read, self.cache_write} != {None}
        if None in (self.input, self.output) if by_tokens else self.call is None:
            raise Misfit(
                "a price needs `input` and `output`, or `call`; else calls would look free"
            )

    @property
    def price(self) -> Price:
        stated = msgspec.structs.asdict(self).items()
        return Price(**{name: amount for name, amount in stated if amount is not None})


class LimitFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`limits` as they are written."""

    called: ClassVar[str] = "limits"
    concurrency: Count = MemberLimits().concurrency
    rpm: Count | None = None
    tpm: Count | None = None

    @property
    def limits(self) -> MemberLimits:
        return MemberLimits(self.concurrency, self.rpm, self.tpm)


WORKERS = "workers"


SSH = "ssh"


class PlaceFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`at: {tags: [gpu]}`: a worker that was started with all of these tags. `at: {ssh: [mill, gpu-1]}`:
    one that ssh starts on any of these hosts, with the program, the roster and the slots that are named.
    `config`: a file for ssh, in place of the user's own."""

    called: ClassVar[str] = "a place"
    tags: Word | tuple[Text, ...] = ()
    ssh: Word | tuple[Text, ...] = ()
    program: Text | None = None
    roster: Text | None = None
    slots: Count | None = None
    config: Text | None = None

    def __post_init__(self) -> None:
        tags, hosts = listed(self.tags), listed(self.ssh)
        if bool(tags) == bool(hosts):
            raise Misfit("`at` needs `tags` or `ssh`, and not both", "at")
        check_tags(tags)
        others = {"program", "roster", "slots", "config"}
        if stated := [name for name in sorted(others) if getattr(self, name) is not None and tags]:
            raise Misfit(f"`{stated[0]}` of a place is for `ssh`", "at")
        if self.config is not None and not expanded(self.config).is_absolute():
            raise Misfit(f"`config` is a path from / or ~, not `{self.config}`", "at")
        for one in hosts:
            ssh_url(one)

    @property
    def hosts(self) -> SshHosts | None:
        if not self.ssh:
            return None
        usual = SshHosts(())
        return SshHosts(
            tuple(ssh_url(one) for one in listed(self.ssh)), self.program or usual.program,
            self.roster or "", self.slots or usual.slots,
            str(expanded(self.config)) if self.config else "",
        )  # fmt: skip


def ssh_url(host: str) -> str:
    """`ssh://USER@HOST:PORT/FOLDER`, from that or from HOST alone."""
    parts = urlsplit(host if "://" in host else f"{SSH}://{host}")
    name, user = parts.hostname or "", parts.username
    try:
        port = parts.port
    except ValueError:
        port = -1
    wrong = parts.scheme != SSH or parts.query or parts.fragment or parts.password or port == -1
    if wrong or not _HOST.fullmatch(name) or (user is not None and not _HOST.fullmatch(user)):
        raise Misfit(f"`{host}` is no host: write ssh://USER@HOST:PORT/FOLDER, or less of it", "at")
    near = (f"{user}@" if user else "") + name + (f":{port}" if port else "")
    return f"{SSH}://{near}{parts.path.rstrip('/')}"


if TYPE_CHECKING:  # what scripts may give, and what it becomes
    Texts: TypeAlias = str | Sequence[str]
    StatedPrice: TypeAlias = PriceFields | Price | Mapping[str, float]
    StatedLimits: TypeAlias = LimitFields | MemberLimits | Mapping[str, int]
    StatedPlace: TypeAlias = str | PlaceFields | Sequence[str] | Mapping[str, Any]
else:
    Texts = Word | tuple[Text, ...]
    StatedPrice, StatedLimits = PriceFields, LimitFields
    StatedPlace = Word | tuple[Text, ...] | PlaceFields
Version: TypeAlias = Text | int | float
Carrying: TypeAlias = Literal["carried", "shared"]


UNSENT = Params.__struct_fields__
"""All parameters of asks: of kinds that are given a text alone."""


class BuildContext(NamedTuple):
    """What a member is built with: `folder` is the plan's, where functions are imported and commands
    run; `roster` the folder of the roster, where files that it names are. `hidden`: variables that
    hold keys, which programs must not see. `file` and `lines`: where its fields are written."""

    folder: Path
    roster: Path
    hidden: frozenset[str] = frozenset()
    file: str | None = None
    lines: Mapping[str, int] = {}

    def line(self, field: str) -> int | None:
        return self.lines.get(field, self.lines.get("id"))


class Unready(NamedTuple):
    """What keeps a member from being used, and which of its fields says otherwise."""

    field: str
    why: str


class MemberFields(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"
):
    """What can be said of any member. A kind derives from it, with its own fields and defaults.

    `concurrency: 4` is short for `limits: {concurrency: 4}`. An `id` is required in a roster; a
    script has a default.
    """

    called: ClassVar[str] = "a member"
    absent: ClassVar[tuple[str, ...]] = ()
    """Fields of a record that is shared by several kinds which this kind does not have."""

    unsent: ClassVar[tuple[str, ...]] = ()
    """Parameters of asks that this kind is asked without, as `Traits.unsent` has them."""

    id: Text = ""
    good_at: Texts = ()
    tier: Literal["local", "subscription", "paid", "sub", "api"] | None = None
    price: StatedPrice | None = None
    max_tokens: Count = 4096
    context: Count | None = None
    limits: StatedLimits | None = None
    concurrency: Count | None = None
    pool: Text | None = None
    timeout: Positive = 120.0
    enabled: bool | None = None
    can_orchestrate: bool = False
    can_delegate: bool = True
    budget_usd_month: Positive | None = None
    at: StatedPlace | None = None
    media: tuple[MediaKind, ...] | None = None

    usual_limits: ClassVar[MemberLimits] = MemberLimits()

    def __post_init__(self) -> None:
        """Brings what can be written in several ways into one form."""
        self.put(good_at=listed(self.good_at), tier=_TIERS.get(self.tier or "", self.tier))
        if isinstance(self.price, PriceFields):
            self.put(price=self.price.price)
        if isinstance(self.limits, LimitFields):
            self.put(limits=self.limits.limits)
        if self.concurrency is not None:
            if self.limits is not None:
                raise Misfit("state `limits` or `concurrency`, not both", "concurrency")
            self.put(limits=MemberLimits(self.concurrency), concurrency=None)
        self.put(at=read_place(self.at))

    def put(self, **fields: Any) -> None:
        """Sets fields while the record is made; never later."""
        for name, value in fields.items():
            msgspec.structs.force_setattr(self, name, value)

    @property
    def kind(self) -> str:
        return str(type(self).__struct_config__.tag)

    @property
    def stated_price(self) -> Price | None:
        """As written; nothing, where somebody wrote that the member is on this machine."""
        if isinstance(self.price, Price):
            return self.price
        return FREE if self.tier == "local" else None

    @property
    def usual_media(self) -> tuple[MediaKind, ...]:
        """The files that it takes, where nobody says."""
        return ()

    def common(self) -> dict[str, Any]:
        """The traits that follow from the fields of all kinds."""
        return {
            "id": self.id, "kind": self.kind, "pool": self.pool or self.id,
            "tier": self.tier or "local", "good_at": self.good_at, "limits": self.limits or self.usual_limits,
            "max_tokens": self.max_tokens, "context": self.context, "timeout": self.timeout,
            "enabled": self.enabled is not False, "enabled_written": self.enabled is not None,
            "can_orchestrate": self.can_orchestrate, "can_delegate": self.can_delegate,
            "budget_usd_month": self.budget_usd_month, "keeps_time": True,
            "media": self.usual_media if self.media is None else self.media, "unsent": self.unsent,
            **self._place(),
        }  # fmt: skip

    def _place(self) -> dict[str, Any]:
        if not isinstance(self.at, PlaceFields):
            return {"at": "" if self.at is None else WORKERS}
        hosts = self.at.hosts
        return {"at": SSH if hosts else WORKERS, "tags": listed(self.at.tags), "hosts": hosts}

    # ── what a kind supplies ──

    def traits(self, roster: Path) -> Traits:
        """What a run knows of it. `roster`: the folder of its roster."""
        raise NotImplementedError

    def build(self, traits: Traits, context: BuildContext) -> Member:
        """The member itself; nothing is started or asked."""
        raise NotImplementedError

    # ── what some kinds have ──

    def ask_files(self, traits: Traits, folder: Path) -> AskFiles | None:
        """What it needs and leaves, for each ask. `folder`: the plan's. FileTrouble: a file is missing."""
        return None if traits.patterns is None else files_of(traits.patterns, self.works_in(folder))

    def works_in(self, folder: Path) -> Path:
        """The folder that its `inputs` and `outputs` are below."""
        return folder

    @property
    def key_reference(self) -> str:
        """`env:NAME` or `file:PATH` where it needs a key."""
        return "none"

    @property
    def leads_by_mcp(self) -> bool:
        """Whether it can be given our MCP tools, to delegate with."""
        return False

    def delegating(self, mcp_json: str, mcp_command: str) -> Self:
        """The same with our MCP tools. `mcp_json` is a server's configuration as JSON,
        `mcp_command` the program that starts it."""
        return self

    def without_program(self, folder: Path | None) -> Unready | None:
        """The program that it is, or starts, is not there. `folder`: the plan's; None where what will be
        in it is not known yet. Nothing is run."""
        return None

    async def trouble(self, traits: Traits, context: BuildContext) -> str | None:
        """What keeps it from being used, found without asking anything that costs. FanfoldError
        says the same."""
        member = self.build(traits, context)
        await member.open()
        await member.close()
        return None


def read_place(stated: Any) -> Any:
    """`at` as it is written: "workers" or None as they are, anything else as a place."""
    if stated in (None, WORKERS) or not isinstance(stated, (str, tuple, list)):
        return stated
    hosts = listed(stated) if isinstance(stated, str) else tuple(stated)
    if not hosts or not all(one.startswith(f"{SSH}://") for one in hosts):
        shown = stated if isinstance(stated, str) else ", ".join(hosts)
        raise Misfit(f"`at` is `{WORKERS}`, {{tags: […]}} or ssh://HOST, not `{shown}`", "at")
    return PlaceFields(ssh=hosts)


def record_of(kind: str) -> type[MemberFields]:
    """The record of a kind; its module is imported now."""
    module, _, name = KINDS[kind].partition(":")
    record: type[MemberFields] = getattr(import_module(module), name)
    return record


def field_names(record: type[MemberFields]) -> list[str]:
    return ["kind", *(name for name in record.__struct_fields__ if name not in record.absent)]


def check_tags(tags: Sequence[str]) -> None:
    for tag in tags:
        if not _TAG.fullmatch(tag):
            raise Misfit(f"`{tag}` is not a tag: letters, digits and . _ - only", "tags")


def read_patterns(stated: Texts, field: str) -> tuple[str, ...]:
    try:
        return tuple(check_pattern(one, field) for one in listed(stated))
    except FileTrouble as error:
        raise Misfit(str(error), field) from None


def file_patterns(inputs: Texts, outputs: Texts, carrying: Carrying) -> FilePatterns | None:
    if not (inputs or outputs or carrying == "shared"):
        return None
    return FilePatterns(tuple(inputs), tuple(outputs), carrying == "shared")


def check_variables(names: Sequence[str] | Mapping[str, str], field: str) -> None:
    for name in names:
        if not _VARIABLE.fullmatch(name):
            raise Misfit(f"`{name}` is not the name of an environment variable", field)
