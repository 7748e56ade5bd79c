"""Input files that are packed with gzip are read like others."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Literal

import pytest

import fanfold as ff
from fanfold.errors import BadInput
from fanfold.plans.header import Input
from fanfold.plans.inputs import open_input

Kind = Literal["jsonl", "json", "csv", "lines"]
ROWS = [("1", "one"), ("2", "two")]
FILES: dict[Kind, str] = {
    "jsonl": '{"id": "1", "text": "one"}\n\n{"id": "2", "text": "two"}\n',
    "json": '[{"id": "1", "text": "one"}, {"id": "2", "text": "two"}]',
    "csv": "id,text\n1,one\n2,two\n",
    "lines": "one\ntwo\n",
}


def packed(folder: Path, kind: Kind, content: bytes) -> Input:
    (folder / "items.gz").write_bytes(content)
    return Input(kind, "items.gz")


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_packed_file_gives_the_items_of_the_plain_one(
    tmp_path: Path, kind: Kind, mark: str
) -> None:
    source = open_input(
        packed(tmp_path, kind, gzip.compress((mark + FILES[kind]).encode())), tmp_path
    )
    found = [item for _, item in source.walk()]
    if kind == "lines":
        assert [item.data for item in found] == ["one", "two"]
    else:
        assert [(item.id, item.data["text"]) for item in found] == ROWS


def test_a_line_is_counted_in_the_unpacked_text(tmp_path: Path) -> None:
    content = gzip.compress(b'{"id": "1"}\n{"id": \n')
    with pytest.raises(BadInput, match=r"items\.gz:2: broken JSON"):
        list(open_input(packed(tmp_path, "jsonl", content), tmp_path).walk())


@pytest.mark.parametrize(
    "content", [b'{"id": "1"}\n', gzip.compress(b'{"id": 1}\n' * 9, mtime=0)[:-9]]
)
def test_what_is_not_packed_or_cut_off_is_one_line(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(BadInput, match=r"items\.gz: cannot be unpacked"):
        list(open_input(packed(tmp_path, "jsonl", content), tmp_path).walk())


def test_a_script_reads_a_file_as_a_plan_does(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfid,text\r\n1,x\r\n\r\n2,y\r\n")
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(b'\n{"id": 1}\n{"id": 2, "more": []}\n'))
    assert list(ff.read_items(tmp_path / "a.csv", "id", "text")) == [
        {"id": "1", "text": "x"}, {"id": "2", "text": "y"},
    ]  # fmt: skip
    packed = [{"id": 1}, {"id": 2, "more": []}]
    assert list(ff.read_items(str(tmp_path / "b.jsonl"))) == packed
    assert list(ff.read_items(tmp_path / "b.jsonl.gz", "id")) == packed


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "id\n1\n", ":2: there is no field text"),
        ("a.csv", "id,text\n1,x,y\n", ":2: 3 values for 2 columns"),
        ("a.jsonl", '{"id": 1, "text": 2}\n[]\n', ":2: must be an object"),
        ("a.jsonl", '\n[{"id": 1, "text": 2}]\n',
         ":2: is one JSON array; read it as `json`, or name it .json"),
        ("a.jsonl", "\n{\n", ":2: broken JSON: input data was truncated"),
        ("a.txt", "x\n", ": its ending does not say what it is; known: .jsonl, .ndjson, .json, .csv, .tsv"),
        ("b.csv", "", ": no such file"),
    ],
)  # fmt: skip
def test_what_a_script_cannot_read_is_named_with_its_line(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    (tmp_path / name.replace("b.", "a.")).write_text(text)
    with pytest.raises(ff.FanfoldError) as raised:
        list(ff.read_items(tmp_path / name, "id", "text"))
    assert str(raised.value).startswith(f"{tmp_path / name}{said}")
