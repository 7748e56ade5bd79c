"""Files users write: values with their lines, and one clear line for everything that is wrong."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.errors import BadInput
from fanfold.work.check import fields, flag, many, number, one_of, one_or_many, text, whole
from fanfold.work.document import Node, parse, read

ROSTER = """\
# two members
members:
  - id: a
    price: {input: 1,
            output: 2}
  - id: b
prompt: |
  first
  second
"""


def said(error: pytest.ExceptionInfo[BadInput]) -> str:
    return str(error.value)


def test_values_are_plain_and_every_key_and_element_has_its_line() -> None:
    node = parse(ROSTER, "r.yaml")
    assert node.value == {
        "members": [{"id": "a", "price": {"input": 1, "output": 2}}, {"id": "b"}],
        "prompt": "first\nsecond\n",
    }
    member = node.child("members").child(0)
    assert [node.child("members").line, member.line, member.child("price").line] == [2, 3, 4]
    assert member.child("price").child("output").line == 5
    assert node.child("members").child(1).child("id").line == 6


def test_json_has_the_same_lines_as_the_yaml_it_also_is() -> None:
    written = '{\n "a": [1,\n  {"b": "x\\ny: {", "c": []}],\n "d": {"e":\n null}\n}\n'
    as_json, as_yaml = parse(written, "f.json", as_json=True), parse(written, "f.yaml")
    assert as_json.value == as_yaml.value == json.loads(written)
    assert as_json.lines == as_yaml.lines


def test_a_line_inside_a_block_text_is_found() -> None:
    prompt = parse(ROSTER, "r.yaml").child("prompt")
    assert [prompt.line_in_text(1), prompt.line_in_text(2)] == [8, 9]
    assert parse("p: one", "r.yaml").child("p").line_in_text(1) == 1


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("12:30", "12:30"),
        ("2024-01-02", "2024-01-02"),
        ("010", 10),
        ("0x1F", 31),
        ("1e3", 1000.0),
        ("-.5", -0.5),
        ("~", None),
        ("True", True),
        ("'1'", "1"),
        (".inf", math.inf),
        ("1_000", "1_000"),
    ],
)
def test_scalars_follow_yaml_1_2(written: str, value: object) -> None:
    assert parse(f"x: {written}", "f").child("x").value == value


def test_merge_keys_give_way_to_what_is_written_out_and_keep_their_own_lines() -> None:
    node = parse("a: &a\n  x: 1\n  y: 2\nb:\n  <<: *a\n  y: 3\nc:\n  <<: [*a, {x: 9, z: 4}]\n", "f")
    assert node.value == {
        "a": {"x": 1, "y": 2},
        "b": {"x": 1, "y": 3},
        "c": {"x": 1, "y": 2, "z": 4},
    }
    assert [node.child("b").child("x").line, node.child("b").child("y").line] == [2, 6]


def bomb() -> str:
    levels = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 9)]
    return "\n".join(["l0: &l0 [a, a, a, a, a, a, a, a, a]", *levels])


def merges(count: int) -> str:
    """Each mapping takes its fields from the one before; the last one is used first."""
    first = "a0: &a0 {x: 1}\n"
    return first + "".join(f"a{n}: &a{n} {{<<: *a{n - 1}}}\n" for n in range(1, count))


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("", "f.yaml: is empty"),
        ("# only a comment\n", "f.yaml: is empty"),
        ("a: 1\nb: 2\na: 3\n", "f.yaml:3: duplicate key `a`"),
        (
            "a: 1\nb: c: d\n",
            "f.yaml:2: broken YAML: mapping values are not allowed in this context; quote a text that"
            " has `: ` in it, or correct the indentation",
        ),
        (
            "a: [1, 2\nb: 3\n",
            "f.yaml:2: broken YAML: did not find expected ',' or ']'",
        ),
        (
            "a: 'open\n\n",
            "f.yaml:3: broken YAML: found unexpected end of stream",
        ),
        (
            "a: *nobody\n",
            "f.yaml:1: broken YAML: found undefined alias; quote a text that begins with `*`",
        ),
        (
            'a: "\\ud83d\\ude00"\n',
            "f.yaml:1: broken YAML: found invalid Unicode character escape code; "
            "\\uD800 to \\uDFFF are halves of one: write the character itself",
        ),
        ("a: 1\n---\nb: 2\n", "f.yaml:2: broken YAML: but found another document"),
        (
            "a: 1\nb: !!python/object:os.system x\n",
            "f.yaml:2: the tag !!python/object:os.system is not allowed here",
        ),
        ("a: !mine x\n", "f.yaml:1: the tag !mine is not allowed here"),
        ("a:\n  ? [x]\n  : 1\n", "f.yaml:2: a key must be a text"),
        ("a: {<<: 5}\n", "f.yaml:1: `<<` takes a mapping or a list of mappings"),
        (f"a: {'9' * 5000}\n", "f.yaml:1: this number is too long"),
        (f"a: 0x{'f' * 5000}\n", "f.yaml:1: this number is too long"),
        (f"a: {10**400}\n", "f.yaml:1: this number is too long"),
        ("a: &a {<<: *a}\n", "f.yaml:1: `<<` leads to itself, or through 60 others"),
        (merges(2000), "f.yaml:1: `<<` leads to itself, or through 60 others"),
        ("a: &a [*a]\n", "f.yaml:1: nested deeper than 60 levels"),
        (bomb(), "f.yaml:1: holds more than 200,000 values (aliases count)"),
        ("a: \x01\n", "f.yaml:1: broken YAML: control characters are not allowed"),
    ],
)
def test_broken_yaml_is_one_line_with_its_place(written: str, message: str) -> None:
    with pytest.raises(BadInput) as error:
        parse(written, "f.yaml")
    assert said(error) == message


@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 5_000, "- " * 50_000])
def test_deep_nesting_is_refused_not_a_crash(text: str) -> None:
    with pytest.raises(BadInput):
        parse(text, "f.yaml")
    with pytest.raises(BadInput):
        parse(text, "f.json", as_json=True)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ('{"a": 1,\n "b": }', "f.json:2: broken JSON: expecting value"),
        ('{"a": 1,\n "a": 2}', "f.json:2: duplicate key `a`"),
        ("{'a': 1}", "f.json:1: broken JSON: expecting property name enclosed in double quotes"),
        ("[" * 70 + "]" * 70, "f.json:1: nested deeper than 60 levels"),
        (" \n", "f.json: is empty"),
        ('{"a": ' + "9" * 5000 + "}", "f.json: broken JSON: a number is too long"),
        ('{"a": ' + "9" * 400 + "}", "f.json: broken JSON: a number is too long"),
        (
            '{"b": "\\\\ud800 \\ud83d\\ude00",\n "a": "\\uD800"}',
            "f.json:2: broken JSON: \\uD800 is half of a surrogate pair, no character; "
            "write both halves, or leave it out",
        ),
    ],
)
def test_broken_json_is_one_line_with_its_place(written: str, message: str) -> None:
    with pytest.raises(BadInput) as error:
        parse(written, "f.json", as_json=True)
    assert said(error) == message


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    odd = tmp_path / "odd.yaml"
    odd.write_bytes(b"a: 1\nb: \xff\n")
    big = tmp_path / "big.yaml"
    big.write_bytes(b"#" * 8_000_001)
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    expected = {
        pipe: "is a pipe, not a file; save what it gives to a file",
        tmp_path / "none.yaml": "no such file",
        tmp_path: "is a directory, not a file",
        odd: "is not UTF-8 text; save it as UTF-8",
        big: "is larger than 8 MB",
        tmp_path / ("n" * 300): "cannot be read (file name too long)",
    }
    found = {}
    for path in expected:
        with pytest.raises(BadInput) as error:
            read(path)
        found[path] = error.value.what
        assert error.value.file == str(path)
        assert error.value.line == (2 if path == odd else None)
    assert found == expected


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(tmp_path: Path) -> None:
    path = tmp_path / "shut.yaml"
    path.write_text("a: 1")
    path.chmod(0)
    with pytest.raises(BadInput, match="may not be read"):
        read(path)


def test_the_ending_decides_how_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('\ufeff{"a": "\\ud83d\\ude00", "t":\t1}', encoding="utf-8")
    (tmp_path / "a.yml").write_text("a: 1\n")
    assert read(tmp_path / "a.json").value == {"a": "😀", "t": 1}
    assert read(tmp_path / "a.yml").value == {"a": 1}


KNOWN = {
    "id": text,
    "timeout": number(above=0),
    "rate": number(least=0),
    "size": whole(least=1),
    "on": flag,
    "tier": one_of("local", "paid"),
    "good_at": one_or_many(text),
    "list": many(text, least=1),
}


def checked(written: str) -> dict[str, object]:
    return fields(parse(written, "f.yaml"), KNOWN, "a thing", required=("id",))


def test_a_good_mapping_gives_its_checked_values() -> None:
    written = (
        "id: x\ntimeout: 2\nrate: 0\nsize: 2e6\non: false\ntier: paid\ngood_at: a\nlist: [b]\n"
    )
    assert checked(written) == {
        "id": "x", "timeout": 2.0, "rate": 0.0, "size": 2_000_000, "on": False, "tier": "paid",
        "good_at": ("a",), "list": ("b",),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("id: x\ntimeuot: 3", "2: unknown field `timeuot` in a thing: did you mean `timeout`?"),
        (
            "id: x\nzzz: 3",
            "2: unknown field `zzz` in a thing: "
            "known: good_at, id, list, on, rate, size, tier, timeout",
        ),
        ("size: 1", "1: a thing needs the field `id`"),
        ("- id", "1: a thing must be a mapping, not a list"),
        ("id: 7", "1: `id` must be a text, not the number 7"),
        ("id: ' '", "1: `id` is empty"),
        ("id:", "1: `id` must be a text, not empty"),
        ("id: x\ntimeout: soon", "2: `timeout` must be a number, not the text 'soon'"),
        ("id: x\ntimeout: true", "2: `timeout` must be a number, not true"),
        ("id: x\ntimeout: .nan", "2: `timeout` must be a finite number, not the number nan"),
        ("id: x\ntimeout: -.inf", "2: `timeout` must be a finite number, not the number -inf"),
        ("id: x\ntimeout: 0", "2: `timeout` must be more than 0, not 0"),
        ("id: x\nrate: -1", "2: `rate` must be 0 or more, not -1"),
        ("id: x\nsize: 1.5", "2: `size` must be a whole number, not the number 1.5"),
        ("id: x\nsize: false", "2: `size` must be a whole number, not false"),
        ("id: x\nsize: 0", "2: `size` must be 1 or more, not 0"),
        ("id: x\non: yes", "2: `on` must be true or false, not the text 'yes'"),
        ("id: x\ntier: piad", "2: unknown tier `piad`: did you mean `paid`?"),
        ("id: x\ntier: [a]", "2: `tier` must be one of local, paid, not a list"),
        ("id: x\ngood_at:\n  - a\n  - 2", "4: `good_at[1]` must be a text, not the number 2"),
        ("id: x\nlist: {a: b}", "2: `list` must be a list, not a mapping"),
        ("id: x\nlist: []", "2: `list` is empty"),
    ],
)
def test_a_bad_mapping_is_one_line_with_its_place(written: str, message: str) -> None:
    with pytest.raises(BadInput) as error:
        checked(written)
    assert said(error) == f"f.yaml:{message}"


characters = st.characters(codec="utf-8", exclude_characters="\0")
texts, keys = st.text(characters, max_size=12), st.text(characters, max_size=6)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner),
    max_leaves=12,
)


@given(st.dictionaries(keys, plain), st.sampled_from([None, 1, "\t"]))
def test_any_json_comes_back_as_it_was_with_a_line_for_every_place(
    value: dict[str, object], indent: int | str | None
) -> None:
    node = parse(json.dumps(value, indent=indent), "f.json", as_json=True)
    assert node.value == value
    assert set(node.lines) == set(places(node))


def places(node: Node) -> list[tuple[str | int, ...]]:
    inner: list[str | int] = []
    if isinstance(node.value, dict):
        inner = list(node.value)
    elif isinstance(node.value, list):
        inner = list(range(len(node.value)))
    return [node.place] + [place for key in inner for place in places(node.child(key))]


@given(st.text(max_size=60), st.booleans())
def test_any_text_is_read_or_refused_in_one_line(written: str, as_json: bool) -> None:
    said = ""
    try:
        parse(written, "f", as_json=as_json)
    except BadInput as error:
        said = str(error)
    assert len(said.splitlines()) <= 1
