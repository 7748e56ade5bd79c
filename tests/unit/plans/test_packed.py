"""Input files that are packed with gzip are read like others."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Literal

import pytest

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
