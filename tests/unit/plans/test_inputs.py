"""Inputs: every kind gives items with ids, lazily, again and again."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fanfold.errors import BadInput
from fanfold.plans.from_outside import copy
from fanfold.plans.header import Input
from fanfold.plans.inputs import Records, open_input
from fanfold.plans.load import load_plan
from fanfold.work.item import Item


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def items(source: Records, skip: bytes = b"") -> list[tuple[int, str, Any]]:
    return [(position, item.id, item.data) for position, item in source.walk(skip)]


JSONL = '\ufeff{"id": "a", "t": 1}\n\n{"id": 7}\r\n{"t": 3}\n"text"\n{"id": null}'


def test_jsonl_names_items_by_their_id_or_their_position(tmp_path: Path) -> None:
    write(tmp_path, "i.jsonl", JSONL)
    source = open_input(Input("jsonl", "i.jsonl"), tmp_path)
    whole = [
        (0, "a", {"id": "a", "t": 1}),
        (1, "7", {"id": 7}),
        (2, "2", {"t": 3}),
        (3, "3", "text"),
        (4, "4", {"id": None}),
    ]
    assert items(source) == whole
    assert items(source) == whole, "it can be walked again"
    assert items(source, b"\1\0\1") == [whole[1], whole[3], whole[4]]
    assert [source.where(n) for n in (0, 1, 4)] == [f"{tmp_path}/i.jsonl:{n}" for n in (1, 3, 6)]


def test_items_are_items(tmp_path: Path) -> None:
    write(tmp_path, "i.jsonl", '{"id": "a"}')
    (found,) = open_input(Input("jsonl", "i.jsonl"), tmp_path).walk()
    assert found == (0, Item("a", {"id": "a"}))


def test_skipped_rows_are_not_decoded(tmp_path: Path) -> None:
    write(tmp_path, "i.jsonl", '{"id": "a"}\nbroken\n{"id": "c"}\n')
    source = open_input(Input("jsonl", "i.jsonl"), tmp_path)
    assert items(source, b"\0\1\0") == [(0, "a", {"id": "a"}), (2, "c", {"id": "c"})]


def test_walking_is_lazy_and_stops_at_the_limit(tmp_path: Path) -> None:
    write(tmp_path, "i.jsonl", '{"id": "a"}\n{"id": "b"}\nbroken\n')
    limited = open_input(Input("jsonl", "i.jsonl", limit=2), tmp_path)
    assert [id for _, id, _ in items(limited)] == ["a", "b"]
    assert next(iter(open_input(Input("jsonl", "i.jsonl"), tmp_path).walk()))[1].id == "a"


@pytest.mark.parametrize(
    "text", ['[[{"a": 1}], 2]', "[1, 2]", "[]", '[{"a": 1}]\n[{"a": 2}]', '["a"]\n']
)
def test_a_line_of_jsonl_may_be_an_array(tmp_path: Path, text: str) -> None:
    write(tmp_path, "i.jsonl", text)
    found = items(open_input(Input("jsonl", "i.jsonl"), tmp_path))
    assert [data for _, _, data in found] == [
        msgspec.json.decode(line) for line in text.splitlines()
    ]


def test_json_takes_an_array(tmp_path: Path) -> None:
    write(tmp_path, "i.json", '[\n {"k": "a"},\n {"k":\n "b"},\n [1, 2]\n]')
    source = open_input(Input("json", "i.json"), tmp_path)
    assert items(source) == [(0, "0", {"k": "a"}), (1, "1", {"k": "b"}), (2, "2", [1, 2])]
    assert [source.where(n) for n in range(3)] == [f"{tmp_path}/i.json:{n}" for n in (2, 3, 5)]
    named = open_input(Input("json", "i.json", id="k", limit=2), tmp_path)
    assert [id for _, id, _ in items(named)] == ["a", "b"]


def test_csv_has_a_header_and_may_have_long_fields_with_line_breaks(tmp_path: Path) -> None:
    long = "x" * 200_000
    write(tmp_path, "i.csv", f'\ufeffid,text\n1,"two\nlines"\n\n2,{long}\n')
    source = open_input(Input("csv", "i.csv"), tmp_path)
    assert items(source) == [
        (0, "1", {"id": "1", "text": "two\nlines"}),
        (1, "2", {"id": "2", "text": long}),
    ]
    assert [source.where(0), source.where(1)] == [f"{tmp_path}/i.csv:2", f"{tmp_path}/i.csv:5"]


def test_lines_are_texts_without_the_blank_ones(tmp_path: Path) -> None:
    write(tmp_path, "i.txt", "one \r\n\n two\nthree")
    source = open_input(Input("lines", "i.txt"), tmp_path)
    assert items(source) == [(0, "0", "one "), (1, "1", " two"), (2, "2", "three")]


def test_files_are_sorted_and_named_by_their_relative_path(tmp_path: Path) -> None:
    for name in ("src/b.ts", "src/a/z.ts", "src/.hidden.ts", "src/c.js"):
        write(tmp_path, name, f"in {name}")
    (tmp_path / "src" / "folder.ts").mkdir()
    source = open_input(Input("files", "./src/**/*.ts"), tmp_path)
    assert items(source) == [
        (0, "src/a/z.ts", {"path": "src/a/z.ts", "text": "in src/a/z.ts"}),
        (1, "src/b.ts", {"path": "src/b.ts", "text": "in src/b.ts"}),
    ]


def test_lists_and_counts_need_no_file(tmp_path: Path) -> None:
    listed = open_input(Input("list", [{"id": "x"}, "y"]), tmp_path)
    assert items(listed) == [(0, "x", {"id": "x"}), (1, "1", "y")]
    counted = open_input(Input("count", 3, limit=2), tmp_path)
    assert items(counted, b"\1") == [(1, "1", {"n": 1})]
    assert open_input(Input("count", 10**12), tmp_path).fingerprint()


def test_a_fingerprint_changes_with_the_content_and_only_with_it(tmp_path: Path) -> None:
    def prints() -> list[str]:
        specs = [Input("jsonl", "i.jsonl"), Input("csv", "i.jsonl"), Input("files", "*.ts"),
                 Input("list", [1, 2]), Input("count", 3)]  # fmt: skip
        return [open_input(spec, tmp_path).fingerprint() for spec in specs]

    write(tmp_path, "i.jsonl", "1\n")
    write(tmp_path, "a.ts", "1")
    first = prints()
    assert prints() == first
    assert first[0] == first[1]
    write(tmp_path, "i.jsonl", "2\n")
    write(tmp_path, "a.ts", "2")
    second = prints()
    assert [a == b for a, b in zip(first, second, strict=True)] == [False, False, False, True, True]


# ── programs and URLs ────────────────────────────────────────────────────────────────────────


def test_a_program_is_run_once_and_its_output_kept(tmp_path: Path) -> None:
    code = "import pathlib; print('{\"id\": \"a\"}'); pathlib.Path('ran').open('a').write('x')"
    spec = Input("command", [sys.executable, "-c", code])
    spool = tmp_path / "spool"
    source = open_input(spec, tmp_path, spool=spool)
    assert items(source) == items(source) == [(0, "a", {"id": "a"})]
    again = open_input(spec, tmp_path, spool=spool)
    assert (items(again), again.fingerprint()) == (items(source), source.fingerprint())
    assert (tmp_path / "ran").read_text() == "x"
    assert len(list(spool.iterdir())) == 1


def test_a_program_that_fails_leaves_nothing_in_the_spool(tmp_path: Path) -> None:
    spec = Input("command", ["sh", "-c", "echo '{}'; echo no luck >&2; exit 3"], file="p", line=2)
    with pytest.raises(BadInput) as error:
        open_input(spec, tmp_path, spool=tmp_path / "spool")
    assert str(error.value) == "p:2: input command `sh` ended with 3: no luck"
    assert list((tmp_path / "spool").iterdir()) == []


class _Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        pages = {"/lines": b'{"id": "a"}\n{"id": "b"}\n', "/array": b' [{"id": "a"}]',
                 "/broken": b'{"id": "a"}\n{"id"'}  # fmt: skip
        body = pages.get(self.path)
        self.send_response(404 if body is None else 200)
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@contextmanager
def served() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Pages) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_a_url_gives_json_lines_or_an_array_and_is_asked_once(tmp_path: Path) -> None:
    with served() as host:
        lines = open_input(Input("http", f"{host}/lines"), tmp_path, spool=tmp_path / "spool")
        array = open_input(Input("http", f"{host}/array"), tmp_path, spool=tmp_path / "spool")
    assert [id for _, id, _ in items(lines)] == ["a", "b"]
    assert [id for _, id, _ in items(array)] == ["a"]
    again = open_input(Input("http", f"{host}/lines"), tmp_path, spool=tmp_path / "spool")
    assert items(again) == items(lines)


def test_what_is_wrong_with_an_answer_is_told_where_the_plan_names_its_url(tmp_path: Path) -> None:
    with served() as host:
        spec = Input("http", f"{host}/broken", file="p.yaml", line=3)
        source = open_input(spec, tmp_path, spool=tmp_path / "spool")
    with pytest.raises(BadInput) as error:
        items(source)
    assert str(error.value) == (
        "p.yaml:3: what the input URL gave, line 2: broken JSON: input data was truncated;"
        " it must be JSON lines or one array"
    )


def test_a_plan_names_a_url_and_can_be_stored(tmp_path: Path) -> None:
    with served() as host:
        steps = "steps:\n  - map: {prompt: x}\n"
        file = write(tmp_path, "p.yaml", f"input: {{http: '{host}/lines', id: id}}\n{steps}")
        spec = load_plan(file).input
        assert spec == Input("http", f"{host}/lines", "id", None, str(file), 1)
        assert msgspec.json.decode(msgspec.json.encode(spec), type=Input) == spec
        read = open_input(spec, tmp_path, spool=tmp_path / "spool")
    assert [id for _, id, _ in items(read)] == ["a", "b"]


def test_a_url_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    with served() as host:
        with pytest.raises(BadInput) as error:
            open_input(Input("http", f"{host}/none", file="p", line=2), tmp_path, spool=tmp_path)
        assert str(error.value) == "p:2: input URL answered 404 Not Found"
    with pytest.raises(BadInput) as error:
        open_input(Input("http", f"{host}/lines", file="p", line=2), tmp_path, spool=tmp_path)
    assert str(error.value).startswith("p:2: input URL cannot be read: ")
    assert str(error.value).endswith("Connection refused")
    assert list(tmp_path.iterdir()) == []


def test_a_url_without_an_end_is_refused(tmp_path: Path) -> None:
    """A piece at a time, so only the disk would have to hold it; and that has an end too."""
    spec, to = Input("http", "http://127.0.0.1/x", file="p", line=2), io.BytesIO()
    copy(spec, io.BytesIO(b"x" * 100), to, most=100)
    assert len(to.getvalue()) == 100
    with pytest.raises(BadInput, match="p:2: input URL answers with more than 1 GB; download it"):
        copy(spec, io.BytesIO(b"x" * 101), io.BytesIO(), most=100)
