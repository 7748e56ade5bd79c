"""`fanfold members set`, the roster that counts when there is none, and who may be paid."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fanfold.testing.running import RunningServer, threaded_server
from tests.faces.cli import fanfold, runs
from tests.faces.project import PRICE, write_project

ROSTER = """\
# my members
members:
  - id: m            # the usual one
    kind: command
    cmd: [cat]
    good_at: [echo]  # no more than that
  - {id: n, kind: command, cmd: [cat]}   # the other
"""
KEY = "-".join(("sk", "ant", "api03", "0aB" * 12))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "roster.yaml").write_text(ROSTER)
    return tmp_path


def test_a_member_is_changed_in_its_file_and_the_changed_lines_are_shown(folder: Path) -> None:
    words = ("members", "set", "m", "good_at=[echo, tests]", "price={call: 0}", "timeout=7")
    ended = fanfold(folder, *words)
    file = folder / "roster.yaml"
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == (
        f"{file}:6: -     good_at: [echo]  # no more than that\n"
        f"{file}:6: +     good_at: [echo, tests]  # no more than that\n"
        f"{file}:7: +     price: {{call: 0}}\n"
        f"{file}:8: +     timeout: 7\n"
    )
    assert file.read_text() == ROSTER.replace("[echo]", "[echo, tests]").replace(
        "no more than that\n", "no more than that\n    price: {call: 0}\n    timeout: 7\n"
    )
    assert fanfold(folder, *words).out == f"{file}: nothing to change\n"
    assert fanfold(folder, "members", "set", "m", "timeout=", "price=").code == 0
    assert file.read_text() == ROSTER.replace("[echo]", "[echo, tests]")


def test_the_menu_shows_what_was_set(folder: Path) -> None:
    before = fanfold(folder, "members").out
    assert fanfold(folder, "members", "set", "n", "good_at=law").code == 0
    after = fanfold(folder, "members").out
    assert ("law" in before, "law" in after) == (False, True)


@pytest.mark.parametrize(
    "words", [("--roster", "other.yaml", "set"), ("set", "--roster", "other.yaml")]
)
def test_the_roster_may_be_named_before_or_after(folder: Path, words: tuple[str, ...]) -> None:
    (folder / "other.yaml").write_text("- {id: x, tier: sub, invoke: {kind: cli, cmd: [cat]}}\n")
    assert fanfold(folder, "members", *words, "x", "can_delegate=true").out == (
        "other.yaml:1: - - {id: x, tier: sub, invoke: {kind: cli, cmd: [cat]}}\n"
        "other.yaml:1: + - {id: x, tier: sub, invoke: {kind: cli, cmd: [cat]}, can_delegate: true}\n"
    )
    assert (folder / "roster.yaml").read_text() == ROSTER


REFUSED = [
    (("m", "timeout=0"), "FILE:7: `timeout` must be more than 0, not 0"),
    (("m", "kind=opnai"), "FILE:4: unknown kind `opnai`: did you mean `openai`?"),
    (("m", "price={input: -1, output: 1}"), "FILE:7: `input` must be 0 or more, not -1"),
    (("m", "price={inptu: 1}"), "FILE:7: unknown field `inptu` in a price: did you mean `input`?"),
    (("n", "id=m"), "FILE:7: duplicate member `m`, first in line 3"),
    (("m", "can_delegate=1"), "FILE:7: `can_delegate` must be true or false, not the number 1"),
    (("q", "timeout=1"), "FILE: there is no member `q`: known: m, n"),
    (("m", "timeout"), "`timeout` is not field=value; write, for example, enabled=false"),
    (("m", f"key={KEY}"), "`key` must be env:NAME, file:PATH or none, never the key itself; "
                          "put the key into a variable and write env: and its name"),
    (("m", f"pool={KEY}"), "`pool`: that looks like a key; write key=env:NAME or key=file:PATH"),
    (("m",), "missing argument 'FIELD=VALUE...'; see: fanfold members set --help"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "says"), REFUSED, ids=[says for _, says in REFUSED])
def test_what_is_wrong_is_refused_and_the_file_stays(
    folder: Path, words: tuple[str, ...], says: str
) -> None:
    ended = fanfold(folder, "members", "set", *words)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == f"fanfold: {says.replace('FILE', str(folder / 'roster.yaml'))}\n"
    assert (folder / "roster.yaml").read_text() == ROSTER


# ── no roster at all ─────────────────────────────────────────────────────────────────────────

PLAN = """\
name: sums
input: {list: [{id: a, text: "Rent is due. Rent is due on Monday. Dogs bark."}, {id: b, text: One.}]}
steps:
  - map:
      prompt: "Sum up: {{ item.text }}"
      needs: [summaries]
  - reduce: collect
"""


def test_without_a_roster_the_packaged_one_counts(tmp_path: Path) -> None:
    shown = fanfold(tmp_path, "members", "--check")
    assert shown.code == 0
    assert shown.out.splitlines()[1].split() == [
        "extractive", "function", "local", "free", "16", "summaries,", "extraction", "ready",
    ]  # fmt: skip
    assert shown.err == "there is no roster.yaml here: these members come with fanfold\n"
    (tmp_path / "plan.yaml").write_text(PLAN)
    receipt = fanfold(tmp_path, "run", "plan.yaml", "--json", "--quiet").receipt
    assert (receipt["status"], receipt["cost_usd"]) == ("complete", 0.0)
    assert receipt["result"] == [{"id": "a", "value": "Rent is due."}, {"id": "b", "value": "One."}]
    refused = fanfold(tmp_path, "members", "set", "extractive", "timeout=3")
    assert (refused.code, refused.err) == (
        2, "fanfold: there is no roster.yaml here, and fanfold's own roster stays as it is\n",
    )  # fmt: skip


# ── TangleBrain's roster ─────────────────────────────────────────────────────────────────────

CLAUDE = """\
import json, os, sys
assert sys.argv[1:3] == ["-p", "--json"] and "ZZ_SECRET" not in os.environ
told = {"type": "result", "is_error": False, "result": sys.argv[3].upper(), "total_cost_usd": 0.25,
        "usage": {"input_tokens": 10, "output_tokens": 5}}
print(json.dumps(told))
"""
TANGLE = """\
- id: claude
  tier: sub
  invoke:
    kind: cli
    cmd: [{python}, claude.py, -p, --json]
    parse: claude-json
    scrub_env: [ZZ_SECRET]
  good_at: [reasoning]
"""


def test_a_plan_runs_on_a_roster_of_tanglebrain(tmp_path: Path) -> None:
    (tmp_path / "claude.py").write_text(CLAUDE)
    (tmp_path / "roster.yaml").write_text(TANGLE.format(python=sys.executable))
    (tmp_path / "plan.yaml").write_text(
        "input: {list: [{id: a, text: --version}, {id: b, text: $(id)}]}\nsteps:\n"
        "  - map: {prompt: '{{ item.text }}', needs: [reasoning]}\n  - reduce: collect\n"
    )
    receipt = fanfold(tmp_path, "run", "plan.yaml", "--json", "--quiet", ZZ_SECRET="s").receipt
    assert (receipt["status"], receipt["cost_usd"]) == ("complete", 0.5)
    assert receipt["tokens"] == {"input": 20, "output": 10, "cache_read": 0, "cache_write": 0}
    assert receipt["result"] == [{"id": "a", "value": " --VERSION"}, {"id": "b", "value": "$(ID)"}]
    budgeted = fanfold(tmp_path, "run", "plan.yaml", "--budget", "5", "--quiet")
    assert (budgeted.code, "price" in budgeted.err) == (2, True), budgeted
    assert fanfold(tmp_path, "members", "set", "claude", "price={call: 1}").code == 0
    assert (
        fanfold(tmp_path, "run", "plan.yaml", "--budget", "5", "--quiet", ZZ_SECRET="s").code == 0
    )


# ── two switches for what is paid ────────────────────────────────────────────────────────────


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with threaded_server(tmp_path / "books", price=PRICE) as running:
        yield running


ALLOW = "settings: {allow_paid: true}\n"
NOT_ALLOWED = "member m is paid; allow it with --allow-paid or settings.allow_paid"
SWITCHES = [
    # named by the plan: that is one switch, allowing is the other
    ("member: m", "", "", (), 2),
    ("member: m", "", "", ("--allow-paid",), 0),
    ("member: m", "", ALLOW, (), 0),
    ("member: m", "    enabled: true\n", "", (), 2),
    ("member: m", "    enabled: false\n", ALLOW, ("--allow-paid",), 2),
    # found by what it is good at: enabled must be written out, and allowing is the other
    ("needs: [talking]", "", "", (), 2),
    ("needs: [talking]", "    enabled: true\n", "", (), 2),
    ("needs: [talking]", "", "", ("--allow-paid",), 2),
    ("needs: [talking]", "", ALLOW, (), 2),
    ("needs: [talking]", "    enabled: true\n", "", ("--allow-paid",), 0),
    ("needs: [talking]", "    enabled: true\n", ALLOW, (), 0),
    ("needs: [talking]", "    enabled: false\n", ALLOW, ("--allow-paid",), 2),
]


@pytest.mark.parametrize(("who", "enabled", "setting", "words", "code"), SWITCHES)
def test_a_paid_member_needs_both_switches(
    tmp_path: Path, server: RunningServer, who: str, enabled: str, setting: str,
    words: tuple[str, ...], code: int,
) -> None:  # fmt: skip
    folder = tmp_path / "project"
    write_project(folder, server.url, items=1)
    roster = folder / "roster.yaml"
    roster.write_text(f"{roster.read_text()}    tier: paid\n{enabled}{setting}")
    plan = folder / "plan.yaml"
    plan.write_text(plan.read_text().replace("member: m", who))
    asked = server.totals().asked
    ended = fanfold(folder, "run", "plan.yaml", "--quiet", *words)
    assert (ended.code, server.totals().asked - asked) == (code, 1 if code == 0 else 0), ended
    if code:
        assert runs(folder) == []
    if who == "member: m" and code and "false" not in enabled:
        line = 1 + roster.read_text().splitlines().index("    tier: paid")
        assert ended.err == f"fanfold: {roster}:{line}: {NOT_ALLOWED}\n"


# ── members add ──────────────────────────────────────────────────────────────────────────────


def test_a_member_is_added_at_the_end_of_the_list_and_nothing_else_changes(folder: Path) -> None:
    words = ("members", "add", "fast", "--provider", "groq", "--model", "llama-3.3")
    ended = fanfold(folder, *words)
    line = "  - {id: fast, provider: groq, model: llama-3.3}\n"
    assert (ended.code, ended.err, ended.out) == (0, "", f"roster.yaml:8: + {line}")
    assert (folder / "roster.yaml").read_text() == ROSTER + line
    again = fanfold(folder, *words)
    assert (again.code, (folder / "roster.yaml").read_text()) == (2, ROSTER + line)
    assert "fast" in fanfold(folder, "members").out


def test_a_roster_that_is_not_there_is_made(tmp_path: Path) -> None:
    words = (
        "members",
        "add",
        "c",
        "--provider",
        "anthropic",
        "--model",
        "claude-x",
        "--roster",
        "new.yaml",
    )
    assert fanfold(tmp_path, *words).code == 0
    expected = "members:\n  - {id: c, kind: anthropic, model: claude-x}\n"
    assert (tmp_path / "new.yaml").read_text() == expected


@pytest.mark.parametrize(
    ("roster", "words", "said"),
    [
        (ROSTER, ("x", "--provider", "grok", "--model", "y"), "unknown provider `grok`"),
        (ROSTER, ("x", "--provider", "azure", "--model", "y"), "state `base_url`"),
        (ROSTER, ("x",), "they can be typed only in a terminal"),
        ("members: []\n", ("x", "--provider", "groq", "--model", "y"), "add it by hand"),
        ("members: [{id: a, kind: command, cmd: [cat]}]\n",
         ("x", "--provider", "groq", "--model", "y"), "add it by hand"),
    ],
)  # fmt: skip
def test_what_cannot_be_added_changes_nothing(
    tmp_path: Path, roster: str, words: tuple[str, ...], said: str
) -> None:
    (tmp_path / "roster.yaml").write_text(roster)
    ended = fanfold(tmp_path, "members", "add", *words)
    assert (ended.code, said in ended.err) == (2, True), ended.err
    assert (tmp_path / "roster.yaml").read_text() == roster
