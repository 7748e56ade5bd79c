"""Edits of a roster file: exactly that field changes, and every other line stays byte for byte."""

from __future__ import annotations

import os
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.errors import BadInput
from fanfold.members.edit import REMOVED, Changed, Edit, edit_roster, edited, parse_edit
from fanfold.members.roster import DEFAULT_ROSTER, load_roster
from fanfold.work.document import parse
from fanfold.work.rewrite import rendered
from tests.examples import examples

ROSTER = """\
# who is there
members:
  # the rules
  - id: rules            # a function
    kind: function
    target: contracts:flag_risks
    good_at: [legal]     # and nothing else

    # slow, but sure
    timeout: 60   # seconds
    limits:
      rpm: 5       # per minute
      concurrency: 2
  - {id: wc, kind: command, cmd: [wc, -w], price: {call: 0.0}}   # counts
  -
    enabled: false
    id: late
    kind: replay
    file: >-
      answers.jsonl
settings: {allow_paid: true}
"""


def changed(text: str, id: str, *words: str) -> list[tuple[str, str]]:
    """The lines that went and came, of the text with these edits."""
    after = edited(text, "r.yaml", id, [parse_edit(word) for word in words])
    old, new = text.splitlines(True), after.splitlines(True)
    found = []
    for tag, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            found += [("-", line) for line in old[a:b]] + [("+", line) for line in new[c:d]]
    return found


@pytest.mark.parametrize(
    ("id", "word", "lines"),
    [
        ("rules", "target=other:f",
         [("-", "    target: contracts:flag_risks\n"), ("+", "    target: other:f\n")]),
        ("rules", "timeout=2.5",
         [("-", "    timeout: 60   # seconds\n"), ("+", "    timeout: 2.5   # seconds\n")]),
        ("rules", "good_at=[legal, 'a, b']",
         [("-", "    good_at: [legal]     # and nothing else\n"),
          ("+", '    good_at: [legal, "a, b"]     # and nothing else\n')]),
        ("rules", "good_at=legal, law",
         [("-", "    good_at: [legal]     # and nothing else\n"),
          ("+", "    good_at: [legal, law]     # and nothing else\n")]),
        ("rules", "id=rules2",
         [("-", "  - id: rules            # a function\n"),
          ("+", "  - id: rules2            # a function\n")]),
        ("rules", "limits.rpm=60",
         [("-", "      rpm: 5       # per minute\n"), ("+", "      rpm: 60       # per minute\n")]),
        ("rules", "limits.tpm=900", [("+", "      tpm: 900\n")]),
        ("rules", "enabled=false", [("+", "    enabled: false\n")]),
        ("rules", "version='1'", [("+", '    version: "1"\n')]),
        ("rules", "price={input: 1, output: 2.5}", [("+", "    price: {input: 1, output: 2.5}\n")]),
        ("rules", "timeout=",
         [("-", "    timeout: 60   # seconds\n"), ("+", "    # seconds\n")]),
        ("rules", "limits.concurrency=", [("-", "      concurrency: 2\n")]),
        ("wc", "cmd=[wc, -l]",
         [("-", "  - {id: wc, kind: command, cmd: [wc, -w], price: {call: 0.0}}   # counts\n"),
          ("+", '  - {id: wc, kind: command, cmd: [wc, "-l"], price: {call: 0.0}}   # counts\n')]),
        ("wc", "effects=true",
         [("-", "  - {id: wc, kind: command, cmd: [wc, -w], price: {call: 0.0}}   # counts\n"),
          ("+", "  - {id: wc, kind: command, cmd: [wc, -w], price: {call: 0.0}, effects: true}"
                "   # counts\n")]),
        ("wc", "price.call=0.5",
         [("-", "  - {id: wc, kind: command, cmd: [wc, -w], price: {call: 0.0}}   # counts\n"),
          ("+", "  - {id: wc, kind: command, cmd: [wc, -w], price: {call: 0.5}}   # counts\n")]),
        ("wc", "price=",
         [("-", "  - {id: wc, kind: command, cmd: [wc, -w], price: {call: 0.0}}   # counts\n"),
          ("+", "  - {id: wc, kind: command, cmd: [wc, -w]}   # counts\n")]),
        ("late", "enabled=", [("-", "    enabled: false\n")]),
        ("late", "enabled=false", []),
        ("late", "pool=p", [("+", "    pool: p\n")]),
    ],
)  # fmt: skip
def test_a_change_is_a_change_of_its_line(id: str, word: str, lines: list[tuple[str, str]]) -> None:
    assert changed(ROSTER, id, word) == lines


def test_nothing_is_put_after_a_block_of_text() -> None:
    """Where it ends is not plain to see: a blank line at its end may belong to it."""
    text = "members:\n  - id: a\n    kind: replay\n    file: |+\n      a.jsonl\n\n"
    assert edited(text, "r.yaml", "a", [parse_edit("pool=p")]) == text.replace(
        "kind: replay\n", "kind: replay\n    pool: p\n"
    )


def test_several_edits_are_made_together_or_not_at_all() -> None:
    assert changed(ROSTER, "late", "pool=p", "enabled=", "timeout=5") == [
        ("-", "    enabled: false\n"), ("+", "    pool: p\n"), ("+", "    timeout: 5\n"),
    ]  # fmt: skip
    with pytest.raises(BadInput):
        changed(ROSTER, "late", "pool=p", "timeout=never")


TANGLE = """\
- id: claude     # the one
  tier: sub
  invoke:
    kind: cli
    cmd: [claude, -p]
  cost: flat
- {id: gem, tier: sub, invoke: {kind: cli, cmd: [gemini]}}
"""


@pytest.mark.parametrize(
    ("id", "word", "lines"),
    [
        ("claude", "can_orchestrate=true", [("+", "  can_orchestrate: true\n")]),
        ("claude", "invoke.parse=claude-json", [("+", "    parse: claude-json\n")]),
        ("claude", "invoke.cmd=[claude, --print]",
         [("-", "    cmd: [claude, -p]\n"), ("+", '    cmd: [claude, "--print"]\n')]),
        ("gem", "good_at=[long]",
         [("-", "- {id: gem, tier: sub, invoke: {kind: cli, cmd: [gemini]}}\n"),
          ("+", "- {id: gem, tier: sub, invoke: {kind: cli, cmd: [gemini]}, good_at: [long]}\n")]),
    ],
)  # fmt: skip
def test_tanglebrain_lists_are_changed_the_same_way(
    id: str, word: str, lines: list[tuple[str, str]]
) -> None:
    assert changed(TANGLE, id, word) == lines


SHARED = """\
members:
  - &one
    id: a
    kind: command
    cmd: &words [cat]
  - {<<: *one, id: b}
  - {id: c, kind: command, cmd: *words}
  - {id: d, kind: command,
     cmd: [cat], effects: true,
     timeout: 3}
  - kind: command
    id: e
    cmd:
      - cat
"""


@pytest.mark.parametrize(
    ("id", "word", "says"),
    [
        ("a", "timeout=3", "r.yaml:2: `timeout` cannot be changed here: more than that would "
                           "change; change it by hand"),
        ("a", "cmd=[ls]", "r.yaml:2: `cmd` cannot be changed here: its value has an anchor or a "
                          "tag; change it by hand"),
        ("b", "cmd=", "r.yaml:6: `cmd` cannot be changed here: it comes from another place by "
                      "`<<`; change it by hand"),
        ("d", "timeout=", "r.yaml:8: `timeout` cannot be changed here: its neighbours are on "
                          "other lines; change it by hand"),
        ("e", "cmd=[ls]", "r.yaml:11: `cmd` cannot be changed here: its value goes over several "
                          "lines; change it by hand"),
        ("e", "kind=", "r.yaml:11: `kind` cannot be changed here: it is in the first line of "
                       "the member; change it by hand"),
        ("c", "limits.rpm=3", "r.yaml:7: the member has no `limits` to hold `limits.rpm`; set "
                              "`limits` whole: 'limits={rpm: 3}'"),
        ("c", "limits.rpm=", "r.yaml:7: the member has no `limits` to hold `limits.rpm`; set "
                             "`limits` whole"),
        ("c", "limits.a.b=3", "r.yaml:7: the member has no `limits` to hold `limits.a.b`; set "
                              "`limits` whole"),
        ("c", "cmd.x=3", "r.yaml:7: `cmd` is a list; set it whole"),
        ("c", "timeot=", "r.yaml:7: the member has no `timeot`: known: cmd, id, kind"),
        ("c", "timeot=3", "r.yaml:7: unknown field `timeot` in a member of kind command: did you "
                          "mean `timeout`?"),
        ("c", "id=a", "r.yaml:7: duplicate member `a`, first in line 3"),
        ("z", "timeout=3", "r.yaml: there is no member `z`: known: a, b, c, d, e"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_cleanly_is_refused(id: str, word: str, says: str) -> None:
    with pytest.raises(BadInput) as error:
        changed(SHARED, id, word)
    assert str(error.value) == says


def test_shared_values_are_replaced_where_they_are_used() -> None:
    assert changed(SHARED, "c", "cmd=[ls]") == [
        ("-", "  - {id: c, kind: command, cmd: *words}\n"),
        ("+", "  - {id: c, kind: command, cmd: [ls]}\n"),
    ]
    assert changed(SHARED, "b", "cmd=[ls]") == [
        ("-", "  - {<<: *one, id: b}\n"),
        ("+", "  - {<<: *one, id: b, cmd: [ls]}\n"),
    ]


@pytest.mark.parametrize("word", ["model", "=3", "a b=3", "a..b=3"])
def test_words_that_are_no_field_and_value(word: str) -> None:
    with pytest.raises(BadInput) as error:
        parse_edit(word)
    assert str(error.value) == (f"`{word}` is not field=value; write, for example, enabled=false")


KEY = "-".join(("sk", "ant", "api03", "0aB" * 12))


@pytest.mark.parametrize(
    "word",
    ["key=hush", f"key={KEY}", f"invoke.key_ref={KEY}", f"model={KEY}", f"cmd=[a, {KEY}]", KEY,
     f"base_url=https://h/?k={KEY}"],
)  # fmt: skip
def test_a_key_in_clear_is_refused_and_not_repeated(word: str) -> None:
    with pytest.raises(BadInput) as error:
        parse_edit(word)
    assert KEY not in str(error.value) and "hush" not in str(error.value)


def test_a_reference_to_a_key_is_fine() -> None:
    assert parse_edit("key=env:A_KEY") == Edit(("key",), "env:A_KEY")
    assert parse_edit("model=sk-small") == Edit(("model",), "sk-small")


@pytest.mark.parametrize(
    ("said", "value"),
    [("true", True), ("3", 3), ("1e3", 1000.0), ("yes", "yes"), ("a #b", "a #b"), ("a: b", "a: b"),
     ("'3'", "3"), ("[a, 1]", ["a", 1]), ("{a: 1}", {"a": 1}), ("@cf/llama", "@cf/llama"),
     ("null", None), ("", REMOVED), (" x ", "x")],
)  # fmt: skip
def test_what_a_value_is(said: str, value: Any) -> None:
    assert parse_edit(f"f={said}") == Edit(("f",), value)


# ── the file ─────────────────────────────────────────────────────────────────────────────────


def test_the_file_keeps_its_mode_its_mark_its_line_breaks_and_its_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.yaml", tmp_path / "roster.yaml"
    text = ROSTER.replace("\n", "\r\n").encode()
    real.write_bytes(b"\xef\xbb\xbf" + text)
    real.chmod(0o640)
    link.symlink_to(real)
    said = edit_roster(link, "rules", [parse_edit("timeout=7"), parse_edit("pool=x")])
    assert said == [
        Changed(10, "-", "    timeout: 60   # seconds"),
        Changed(10, "+", "    timeout: 7   # seconds"),
        Changed(14, "+", "    pool: x"),
    ]
    new = text.replace(b"timeout: 60", b"timeout: 7")
    new = new.replace(b"concurrency: 2\r\n", b"concurrency: 2\r\n    pool: x\r\n")
    assert real.read_bytes() == b"\xef\xbb\xbf" + new
    assert (real.stat().st_mode & 0o777, link.is_symlink()) == (0o640, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["real.yaml", "roster.yaml"]
    assert load_roster(link).entries["rules"].traits.timeout == 7.0


def test_a_last_line_without_a_line_break(tmp_path: Path) -> None:
    path = tmp_path / "roster.yaml"
    path.write_text("members:\n  - id: a\n    kind: command\n    cmd: [cat]")
    edit_roster(path, "a", [parse_edit("timeout=7")])
    edit_roster(path, "a", [parse_edit("pool=p")])
    edit_roster(path, "a", [parse_edit("pool=")])
    assert path.read_text() == (
        "members:\n  - id: a\n    kind: command\n    cmd: [cat]\n    timeout: 7\n"
    )


def test_a_refused_edit_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "roster.yaml"
    path.write_text(ROSTER)
    before = path.stat()
    with pytest.raises(BadInput):
        edit_roster(path, "rules", [parse_edit("timeout=7"), parse_edit("tier=gold")])
    after = path.stat()
    assert path.read_text() == ROSTER
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert os.listdir(tmp_path) == ["roster.yaml"]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("roster.json", '{"members": []}', "only rosters in YAML can be changed here"),
        ("none.yaml", None, "no such file"),
        ("r.yaml", "members: {}\n", "this is not a roster: it needs a list `members`"),
        (
            "r.yaml",
            "members:\r  - {id: a}\r",
            "has line breaks of an unusual kind; change it by hand",
        ),
    ],
)
def test_files_that_are_not_changed(tmp_path: Path, name: str, text: str | None, says: str) -> None:
    path = tmp_path / name
    if text is not None:
        path.write_bytes(text.encode())
    with pytest.raises(BadInput) as error:
        edit_roster(path, "a", [parse_edit("timeout=7")])
    assert error.value.what == says


def test_the_packaged_roster_stays_as_it_is() -> None:
    before = DEFAULT_ROSTER.read_bytes()
    with pytest.raises(BadInput, match="fanfold's own roster stays as it is"):
        edit_roster(DEFAULT_ROSTER, "extractive", [parse_edit("timeout=7")])
    assert DEFAULT_ROSTER.read_bytes() == before


# ── any roster ───────────────────────────────────────────────────────────────────────────────

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Zl", "Zp"]),
                min_size=1, max_size=12).filter(str.strip)  # fmt: skip
VALUES = {
    "pool": TEXTS,
    "timeout": st.floats(0.1, 1e6) | st.integers(1, 10**6),
    "enabled": st.booleans(),
    "good_at": st.lists(TEXTS, max_size=3),
    "limits": st.fixed_dictionaries({"rpm": st.integers(1, 99)}),
}
COMMENTS = st.sampled_from(["", "", "  # why", "\t# tab", " #", "   "])


@st.composite
def members(draw: st.DrawFn, id: str) -> tuple[dict[str, Any], str]:
    """A member, and how it is written: in lines, or in brackets; with comments here and there."""
    chosen = draw(st.lists(st.sampled_from(sorted(VALUES)), unique=True))
    fields = {"id": id, "kind": "command", "cmd": ["cat"], **{f: draw(VALUES[f]) for f in chosen}}
    if draw(st.booleans()):
        inner = draw(st.sampled_from([", ", ",", " , "])).join(
            f"{name}: {rendered(value)}" for name, value in fields.items()
        )
        return fields, f"  - {{{inner}}}{draw(COMMENTS)}\n"
    lines = []
    for n, (name, value) in enumerate(fields.items()):
        between = (
            draw(st.sampled_from(["", "", "\n", "    # about it\n", "# far out\n"])) if n else ""
        )
        begin = "    " if n else "  - "
        lines.append(f"{between}{begin}{name}: {rendered(value)}{draw(COMMENTS)}\n")
    return fields, "".join(lines)


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, list[dict[str, Any]], Edit, int]:
    made = [draw(members(id)) for id in ("a", "b", "c")[: draw(st.integers(1, 3))]]
    text = "# top\nmembers:\n" + "".join(lines for _, lines in made) + "settings: {}\n# end"
    place = draw(st.integers(0, len(made) - 1))
    name = draw(st.sampled_from(sorted(VALUES)))
    value = draw(VALUES[name])
    if name in made[place][0] and draw(st.booleans()):
        value = REMOVED
    return text, [fields for fields, _ in made], Edit((name,), value), place


@examples(300)
@given(cases(), st.booleans())
def test_exactly_that_field_changes_and_all_other_lines_stay(
    case: tuple[str, list[dict[str, Any]], Edit, int], windows: bool
) -> None:
    text, fields, edit, place = case
    text = text.replace("\n", "\r\n") if windows else text
    after = edited(text, "r.yaml", str(fields[place]["id"]), [edit])
    wanted = [dict(one) for one in fields]
    if edit.value is REMOVED:
        del wanted[place][edit.name]
    else:
        wanted[place][edit.name] = edit.value
    assert parse(after, "r.yaml").value == {"members": wanted, "settings": {}}
    old, new = text.split("\n"), after.split("\n")
    kept = sum(
        block.size
        for block in SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    )
    assert (len(old) - kept, len(new) - kept) in {(0, 0), (1, 1), (0, 1), (1, 0)}
