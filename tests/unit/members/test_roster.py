"""The roster: what its fields become, which one counts, and what it refuses."""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path

import pytest

from fanfold.errors import BadInput, Terminal
from fanfold.members.endpoint import ApiFields
from fanfold.members.entry import MemberEntry
from fanfold.members.keys import fetcher, value_of
from fanfold.members.roster import DEFAULT_ROSTER, Roster, RosterSettings, find_roster, load_roster
from fanfold.price import FREE, Price, lookup
from fanfold.work.ask import Ask, Message, Reply
from fanfold.work.item import Item
from fanfold.work.member import MemberLimits, Traits, tell_nobody

WHOLE = """\
members:
  - id: rules
    kind: function
    target: contracts:flag_risks
    version: 1
    good_at: [legal, extraction]
    tier: local
  - id: haiku
    kind: anthropic
    model: claude-haiku-4-5
    base_url: https://example.test/
    key: env:ZZ_KEY
    price: {input: 1.00, output: 5.00, cache_read: 0.10, cache_write: 1.25}
    max_tokens: 1024
    context: 200000
    limits: {concurrency: 16, rpm: 1000, tpm: 400000}
    pool: work-account
    good_at: summaries
    tier: api
    timeout: 12.5
    enabled: true
    can_orchestrate: true
    can_delegate: false
    budget_usd_month: 20
  - {id: recorded, kind: replay, file: answers.jsonl}
settings:
  allow_paid: true
  max_concurrency: 9
"""


def roster(folder: Path, text: str) -> Roster:
    path = folder / "roster.yaml"
    path.write_text(text)
    return load_roster(path)


def one(folder: Path, fields: str) -> MemberEntry:
    return roster(folder, f"members:\n  - {{id: m, {fields}}}\n").entries["m"]


def test_every_field_of_a_roster_is_taken_up(tmp_path: Path) -> None:
    (tmp_path / "answers.jsonl").write_text("{}\n")
    found = roster(tmp_path, WHOLE)
    assert found.file == str(tmp_path / "roster.yaml")
    assert found.settings == RosterSettings(allow_paid=True, max_concurrency=9)
    assert found.hidden == frozenset({"ZZ_KEY"})
    assert [entry.traits for entry in found.entries.values()] == [
        Traits(
            id="rules", kind="function", answerer="function:contracts:flag_risks@1", takes="items",
            metered=False, price=FREE, pool="rules", good_at=("legal", "extraction"), timeout=0.0,
        ),
        Traits(
            id="haiku", kind="anthropic", answerer="anthropic:claude-haiku-4-5",
            price=Price(input=1.0, output=5.0, cache_read=0.1, cache_write=1.25),
            model="claude-haiku-4-5", max_tokens=1024, context=200_000, timeout=12.5,
            limits=MemberLimits(16, 1000, 400_000), pool="work-account", good_at=("summaries",),
            tier="paid", enabled_written=True, can_orchestrate=True, can_delegate=False,
            budget_usd_month=20.0, keeps_time=True, takes_tools=True, remote=True,
            media=("image", "document"),
            unsent=("seed", "reasoning: none", "service_tier: flex"),
        ),
        Traits(
            id="recorded", kind="replay", metered=False, price=FREE, pool="recorded", keeps_time=True,
            answerer="replay:" + hashlib.blake2b(b"{}\n", digest_size=16).hexdigest(),
        ),
    ]  # fmt: skip
    haiku = found.entries["haiku"]
    assert isinstance(haiku.fields, ApiFields)
    assert (haiku.fields.base_url, haiku.fields.key) == ("https://example.test", "env:ZZ_KEY")
    assert (haiku.line(), haiku.line("key"), haiku.line("none")) == (8, 12, 8)


def test_a_function_without_a_version_answers_for_its_own_run_only(tmp_path: Path) -> None:
    traits = one(tmp_path, "kind: function, target: a:b").traits
    assert (traits.answerer, traits.shared) == ("function:a:b@run", False)


@pytest.mark.parametrize(
    ("fields", "metered", "price"),
    [
        ("kind: command, cmd: [a]", True, None),
        ("kind: command, cmd: [a], price: {call: 0}", False, FREE),
        ("kind: command, cmd: [a], price: {call: 0}, effects: true", True, FREE),
        ("kind: command, cmd: [a], price: {call: 0.5}", True, Price(call=0.5)),
        ("kind: function, target: a:b", False, FREE),
        ("kind: function, target: a:b, effects: true", True, FREE),
        ("kind: function, target: a:b, price: {call: 0.5}", True, Price(call=0.5)),
        ("kind: openai, model: zz-unknown", True, None),
        ("kind: openai, model: x, price: {input: 0, output: 0}", True, FREE),
    ],
)
def test_a_call_that_costs_or_acts_is_metered_and_an_unknown_price_stays_unknown(
    tmp_path: Path, fields: str, metered: bool, price: Price | None
) -> None:
    traits = one(tmp_path, fields).traits
    assert (traits.metered, traits.price) == (metered, price)


def test_a_command_is_known_by_its_words_and_version(tmp_path: Path) -> None:
    plain = one(tmp_path, "kind: command, cmd: [a, b c]").traits
    other = one(tmp_path, "kind: command, cmd: [a b, c]").traits
    stated = one(tmp_path, "kind: command, cmd: [a, b c], version: '2'").traits
    assert plain.answerer != other.answerer
    assert stated.answerer == plain.answerer.replace("@run", "@2")
    assert (plain.shared, stated.shared) == (False, True)


def test_api_members_default_to_the_public_host_its_usual_key_and_the_price_table(
    tmp_path: Path,
) -> None:
    entry = one(tmp_path, "kind: anthropic, model: claude-haiku-4-5")
    listed = lookup("claude-haiku-4-5", "anthropic")
    assert listed is not None
    assert isinstance(entry.fields, ApiFields)
    assert (entry.fields.base_url, entry.fields.key, entry.traits.price, entry.traits.tier) == (
        "https://api.anthropic.com", "env:ANTHROPIC_API_KEY", listed, "paid",
    )  # fmt: skip
    assert entry.traits.pool == "anthropic:https://api.anthropic.com:env:ANTHROPIC_API_KEY"
    entry = one(tmp_path, "kind: openai, model: gpt-4o-mini")
    assert isinstance(entry.fields, ApiFields)
    assert (entry.fields.base_url, entry.fields.key) == (
        "https://api.openai.com/v1",
        "env:OPENAI_API_KEY",
    )


def test_a_key_is_never_sent_to_another_host_by_default(tmp_path: Path) -> None:
    entry = one(tmp_path, "kind: openai, model: m, base_url: 'http://127.0.0.1:8000/v1'")
    assert entry.fields.key_reference == "none"
    assert entry.traits.pool == "openai:http://127.0.0.1:8000/v1:none"


@pytest.mark.parametrize(
    ("written", "tier"),
    [("local", "local"), ("subscription", "subscription"), ("sub", "subscription"),
     ("paid", "paid"), ("api", "paid")],
)  # fmt: skip
def test_tiers_have_two_other_names(tmp_path: Path, written: str, tier: str) -> None:
    assert one(tmp_path, f"kind: function, target: a:b, tier: {written}").traits.tier == tier


@pytest.mark.parametrize(
    ("written", "price"),
    [
        ("kind: openai, model: m, base_url: 'http://10.0.0.2/v1', tier: local", FREE),
        ("kind: openai, model: gpt-4o, base_url: 'http://127.0.0.1:1/v1', tier: local", FREE),
        ("kind: command, cmd: [a], tier: local", FREE),
        ("kind: command, cmd: [a], tier: local, price: {call: 0.5}", Price(call=0.5)),
        # where nobody wrote it, it is not known: the server may hand on to a paid one
        ("kind: openai, model: m, base_url: 'http://127.0.0.1:1/v1'", None),
        ("kind: command, cmd: [a]", None),
        ("kind: command, cmd: [a], tier: subscription", None),
        # an agent's model may be anywhere
        ("kind: codex, model: unheard-of, tier: local", None),
    ],
)  # fmt: skip
def test_what_is_said_to_be_local_costs_nothing(
    tmp_path: Path, written: str, price: Price | None
) -> None:
    assert one(tmp_path, written).traits.price == price


# ── building ─────────────────────────────────────────────────────────────────────────────────


def test_members_are_built_by_their_kind(tmp_path: Path) -> None:
    (tmp_path / "zz_built.py").write_text("def double(d): return d['n'] * 2\n")
    (tmp_path / "answers.jsonl").write_text('{"id": "a", "reply": "recorded"}\n')
    found = roster(
        tmp_path,
        "members:\n"
        "  - {id: f, kind: function, target: 'zz_built:double'}\n"
        "  - {id: t, kind: function, target: 'zz_built:double', threads: true}\n"
        "  - {id: c, kind: command, cmd: [cat]}\n"
        "  - {id: r, kind: replay, file: answers.jsonl}\n"
        "  - {id: o, kind: openai, model: m}\n"
        "  - {id: a, kind: anthropic, model: m}\n",
    )
    ask = Ask(messages=(Message("user", "spoken"),), items=(Item("a", {"n": 4}),))

    async def answer(id: str) -> Reply:
        member = found.build(id, folder=tmp_path)
        await member.open()
        reply = await member.ask(member.prepare(ask), tell_nobody)
        await member.close()
        return reply

    assert [asyncio.run(answer(id)) for id in "ftcr"] == [
        Reply(data=8), Reply(data=8), Reply(text="spoken"), Reply(text="recorded"),
    ]  # fmt: skip
    assert [type(found.build(id, folder=tmp_path)).__name__ for id in "oa"] == [
        "OpenAI", "Anthropic",
    ]  # fmt: skip


def test_commands_do_not_see_the_keys_of_the_roster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZZ_KEY", "secret")
    found = roster(
        tmp_path,
        "members:\n  - {id: c, kind: command, cmd: [env]}\n"
        "  - {id: o, kind: openai, model: m, key: env:ZZ_KEY}\n",
    )
    member = found.build("c", folder=tmp_path)

    async def output() -> str:
        await member.open()
        return (await member.ask(member.prepare(Ask()), tell_nobody)).text

    assert "ZZ_KEY" not in asyncio.run(output())


def test_an_unknown_member_is_answered_with_the_nearest(tmp_path: Path) -> None:
    found = roster(tmp_path, "members: [{id: haiku, kind: command, cmd: [a]}]")
    with pytest.raises(BadInput) as error:
        found.build("haikou", folder=tmp_path)
    assert error.value.what == "there is no member `haikou`: did you mean `haiku`?"
    with pytest.raises(BadInput) as error:
        Roster().build("haiku", folder=tmp_path)
    assert str(error.value) == "there is no member `haiku`: the roster has no members"


# ── keys ─────────────────────────────────────────────────────────────────────────────────────

KEYS = """\
members:
  - {id: e, kind: openai, model: m, key: env:ZZ_KEY}
  - {id: f, kind: openai, model: m, key: file:key.txt}
  - {id: n, kind: openai, model: m, key: none}
  - id: d
    kind: anthropic
    model: m
"""


def test_a_key_that_will_be_missing_is_named_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = roster(tmp_path, KEYS)
    (tmp_path / "key.txt").write_text("secret\n")
    monkeypatch.setenv("ZZ_KEY", "secret")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    for id in ("e", "f", "n"):
        found.check_ready(id, folder=tmp_path)
    said = []
    (tmp_path / "key.txt").write_text(" \n")
    monkeypatch.setenv("ZZ_KEY", " ")
    found.check_ready("n", folder=tmp_path)
    for id in ("e", "f", "d"):
        with pytest.raises(BadInput) as error:
            found.check_ready(id, folder=tmp_path)
        said.append((error.value.line, error.value.what))
    unread = "is missing, empty or not readable; write the key into it, or change `key`"
    assert said == [
        (2, "member `e`: the variable ZZ_KEY is not set; export it, or change `key`"),
        (3, f"member `f`: its key file {tmp_path / 'key.txt'} {unread}"),
        (5, "member `d`: the variable ANTHROPIC_API_KEY is not set; export it, or change `key`"),
    ]


def test_only_a_regular_file_is_read_for_a_key(tmp_path: Path) -> None:
    """A pipe that nobody writes to would never answer."""
    found = roster(tmp_path, KEYS)
    os.mkfifo(tmp_path / "key.txt")
    with pytest.raises(BadInput) as error:
        found.check_ready("f", folder=tmp_path)
    assert error.value.what == (
        f"member `f`: its key file {tmp_path / 'key.txt'} is no regular file; it is read for each"
        " request, so write the key into one"
    )
    assert value_of("file:key.txt", tmp_path, {}) == ""


PROGRAMS = """\
members:
  - {id: here, kind: command, cmd: [./tool]}
  - {id: none, kind: command, cmd: [no-such-program]}
  - id: away
    kind: command
    cmd: [./none]
  - {id: plain, kind: command, cmd: [./text]}
  - {id: far, kind: command, cmd: [no-such-program], at: workers}
  - id: agent
    kind: claude
    program: no-such-agent
"""


def test_a_program_that_is_not_there_is_named_before_the_run(tmp_path: Path) -> None:
    """Paths start from the folder where it is started; who is asked elsewhere is not looked at."""
    found, folder = roster(tmp_path, PROGRAMS), tmp_path / "work"
    folder.mkdir()
    (folder / "tool").touch(0o755)
    (folder / "text").touch(0o644)
    said = []
    for id in ("here", "none", "away", "plain", "far", "agent"):
        try:
            found.check_ready(id, folder=folder)
        except BadInput as error:
            said.append((error.line, error.what))
    lacking = "there is no program"
    assert said == [
        (3, f"member `none`: {lacking} `no-such-program`; install it, or correct its name"),
        (6, f"member `away`: {lacking} `./none` in {folder}; correct its path"),
        (7, f"member `plain`: `./text` is not executable; run: chmod +x {folder}/text"),
        (11, f"member `agent`: {lacking} `no-such-agent`; install it, or correct its name"),
    ]


def test_a_program_is_looked_for_with_the_path_that_it_is_started_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Relative folders of PATH count from where it is started, and a reference stands for its value."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "my-agent").touch(0o755)
    monkeypatch.setenv("ZZ_PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("ZZ_NONE", raising=False)
    text = "kind: claude, program: my-agent, env: {{PATH: '{}'}}"
    for path in ("bin:/usr/bin", "env:ZZ_PATH"):
        one(tmp_path, text.format(path))
        load_roster(tmp_path / "roster.yaml").check_ready("m", folder=tmp_path)
    said = []
    for path in ("/usr/bin", "env:ZZ_NONE"):
        one(tmp_path, text.format(path))
        with pytest.raises(BadInput) as error:
            load_roster(tmp_path / "roster.yaml").check_ready("m", folder=tmp_path)
        said.append(error.value.what)
    assert said == [
        "member `m`: there is no program `my-agent`; install it, or correct its name",
        "member `m`: env.PATH: the variable ZZ_NONE is not set; export it, or change the roster",
    ]
    monkeypatch.setenv("PATH", "bin:/usr/bin")
    one(tmp_path, "kind: command, cmd: [my-agent]")
    load_roster(tmp_path / "roster.yaml").check_ready("m", folder=tmp_path)


def test_keys_are_fetched_at_the_last_moment_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = roster(tmp_path, KEYS)
    references = {id: found.entries[id].fields.key_reference for id in "efn"}
    by_env, by_file, none = (fetcher(id, key, tmp_path) for id, key in references.items())
    monkeypatch.setenv("ZZ_KEY", "secret")
    (tmp_path / "key.txt").write_text("filed\n")
    assert (by_env(), by_file(), none()) == ("secret", "filed", None)
    monkeypatch.setenv("ZZ_KEY", "turned")
    assert by_env() == "turned"
    monkeypatch.delenv("ZZ_KEY")
    with pytest.raises(Terminal, match="e: its key is no longer set"):
        by_env()


@pytest.mark.parametrize(
    "written",
    ["sk-proj-abc123", "env:sk-abc123", "'env:'", "'Bearer abc123'", "123456", "[abc123]"],
)
def test_a_pasted_key_is_refused_and_not_repeated(tmp_path: Path, written: str) -> None:
    with pytest.raises(BadInput) as error:
        roster(
            tmp_path, f"members:\n  - id: m\n    kind: openai\n    model: m\n    key: {written}\n"
        )
    assert str(error.value) == (
        f"{tmp_path / 'roster.yaml'}:5: `key` must be env:NAME, file:PATH or none, never the key "
        "itself; put the key into a variable and write env: and its name"
    )


PASTED = [
    "-".join(("sk", "ant", "api03", "0aB" * 12)), "-".join(("sk", "proj", "0aB" * 12)),
    "sk-" + "0aB" * 12, "gsk_" + "0aB" * 12, "AIza" + "0aB" * 12, "xai-" + "0aB" * 12,
]  # fmt: skip


@pytest.mark.parametrize("pasted", PASTED)
@pytest.mark.parametrize(
    ("field", "name"),
    [("key: {}", "key"), ("model: {}", "model"), ("kind: {}", "kind"), ("api_key: {}", "api_key"),
     ("timeout: {}", "timeout"), ("good_at: [a, {}]", "good_at[1]"),
     ("base_url: 'https://h/?key={}'", "base_url"), ("cmd: [a, '--key={}']", "cmd[1]")],
)  # fmt: skip
def test_a_key_anywhere_in_a_roster_is_refused_and_never_printed(
    tmp_path: Path, pasted: str, field: str, name: str
) -> None:
    """Whatever else is wrong there: nothing that is said about a roster repeats a key."""
    with pytest.raises(BadInput) as error:
        roster(tmp_path, f"members:\n  - id: m\n    {field.format(pasted)}\n")
    assert pasted not in str(error.value)
    assert error.value.line == 3
    assert error.value.what.startswith(f"`{name}` ")
    assert "env:NAME" in error.value.what and "file:PATH" in error.value.what


@pytest.mark.parametrize("model", ["sk-small", "task-specific-model-with-long-name", "hf_x"])
def test_a_name_that_begins_like_a_key_is_none(tmp_path: Path, model: str) -> None:
    assert one(tmp_path, f"kind: openai, model: {model}").traits.model == model


# ── which roster counts ──────────────────────────────────────────────────────────────────────


def test_the_order_in_which_rosters_are_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, config = tmp_path / "plan", tmp_path / "config"
    for path in (plan / "roster.yaml", config / "fanfold" / "roster.yaml",
                 tmp_path / ".config" / "fanfold" / "roster.yaml"):  # fmt: skip
        path.parent.mkdir(parents=True)
        path.write_text("members: []")

    def found(given: str | None, named: str | None, folder: Path, env: dict[str, str]) -> Path:
        for name in ("FANFOLD_ROSTER", "XDG_CONFIG_HOME", "HOME"):
            monkeypatch.delenv(name, raising=False)
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        return find_roster(given, named, folder)

    env = {"FANFOLD_ROSTER": "/by/env.yaml", "XDG_CONFIG_HOME": str(config)}
    home = {"HOME": str(tmp_path)}
    assert [
        found("given.yaml", "named.yaml", plan, env),
        found(None, "named.yaml", plan, env),
        found(None, None, plan, env),
        found(None, None, plan, home),
        found(None, None, tmp_path, {"XDG_CONFIG_HOME": str(config)}),
        found(None, None, tmp_path, home),
        found(None, None, tmp_path, {"HOME": str(plan)}),
    ] == [
        Path("given.yaml"),
        plan / "named.yaml",
        Path("/by/env.yaml"),
        plan / "roster.yaml",
        config / "fanfold" / "roster.yaml",
        tmp_path / ".config" / "fanfold" / "roster.yaml",
        DEFAULT_ROSTER,
    ]
