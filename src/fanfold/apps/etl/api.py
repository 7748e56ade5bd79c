"""A table API that sometimes fails: pages of the dirty tables, over HTTP on this machine only.

`python3 api.py` serves it by hand. Whether an answer fails is drawn from a seed, the page and how
often that page was asked for, so a run meets the same failures every time.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from zlib import crc32

DATA = Path(__file__).resolve().parent / "data"
KINDS = ("error", "slow", "torn")


class Faults(NamedTuple):
    """Of the answers, `rate` fail: a 500, one that takes `slow` seconds, JSON that ends in the
    middle. A page fails at most `most` times, then it is given."""

    rate: float = 0.2
    seed: int = 6
    slow: float = 2.0
    most: int = 2

    def draw(self, page: str, request: int) -> str | None:
        drawn = crc32(f"{self.seed}/{page}/{request}".encode())
        fails = request <= self.most and drawn % 1000 < self.rate * 1000
        return KINDS[drawn // 1000 % len(KINDS)] if fails else None


class Api:
    """The server, for as long as the `with` lasts. `requests` are its own books, by page."""

    def __init__(self, data: Path = DATA, faults: Faults = Faults(), port: int = 0) -> None:
        self.faults, self.requests = faults, Counter[str]()
        self.ending = threading.Event()
        self._tables = {path.parent.name: path for path in sorted(data.glob("*/dirty.csv"))}
        self._read: dict[str, list[list[str]]] = {}
        self._ragged: dict[str, list[dict[str, Any]]] = {}
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Api:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.ending.set()
        self._server.shutdown()
        self._server.server_close()

    def count(self, page: str) -> int:
        with self._lock:
            self.requests[page] += 1
            return self.requests[page]

    def tables(self) -> list[dict[str, Any]]:
        return [{"id": name, "rows": len(self._rows(name)) - 1} for name in self._tables]

    def page(self, name: str, number: int, size: int) -> dict[str, Any] | None:
        if name not in self._tables or number < 1 or size < 1:
            return None
        columns, *rows = self._rows(name)
        first = (number - 1) * size
        return {
            "table": name, "page": number, "pages": max(1, -(-len(rows) // size)), "columns": columns,
            "rows": rows[first : first + size],
            "ragged": [one for one in self._ragged[name] if first <= one["row"] < first + size],
        }  # fmt: skip

    def _rows(self, name: str) -> list[list[str]]:
        with self._lock:
            if name not in self._read:
                self._read[name], self._ragged[name] = read_table(self._tables[name])
            return self._read[name]


def read_table(file: Path) -> tuple[list[list[str]], list[dict[str, Any]]]:
    """The columns and all rows, each as wide as the columns; and those that were not, with their line.

    Nothing of a ragged row is lost: what is too much goes into its last cell.
    """
    rows: list[list[str]] = []
    ragged: list[dict[str, Any]] = []
    with file.open(newline="", encoding="utf-8-sig") as stream:
        table = csv.reader(stream)
        for row in table:
            wide = len(rows[0]) if rows else len(row)
            if row and len(row) != wide:
                place = f"{file.parent.name}/{file.name}:{table.line_num}"
                ragged.append({"row": len(rows) - 1, "place": place, "cells": len(row)})
                row = [*row[: wide - 1], ",".join(row[wide - 1 :]), *[""] * (wide - len(row))][
                    :wide
                ]
            if row:
                rows.append(row)
    return rows or [[]], ragged


def _handler(api: Api) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            words = [unquote(word) for word in asked.path.strip("/").split("/")]
            if words == ["tables"]:
                return self._answer(200, api.tables())
            query = {name: values[0] for name, values in parse_qs(asked.query).items()}
            numbers = [query.get("page", "1"), query.get("size", "100")]
            found = None
            if len(words) == 2 and words[0] == "tables" and all(n.isdigit() for n in numbers):
                found = api.page(words[1], int(numbers[0]), int(numbers[1]))
            if found is None:
                return self._answer(404, {"error": "no such page"})
            page = f"{words[1]}/{numbers[0]}"
            request = api.count(page)
            return self._give({**found, "request": request}, api.faults.draw(page, request))

        def _give(self, found: dict[str, Any], fault: str | None) -> None:
            if fault == "error":
                return self._answer(500, {"error": "try again"})
            if fault == "slow":
                api.ending.wait(api.faults.slow)
            return self._answer(200, found, torn=fault == "torn")

        def _answer(self, status: int, value: Any, *, torn: bool = False) -> None:
            body = json.dumps(value).encode()
            body = body[: len(body) // 2] if torn else body
            try:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except OSError:  # who asked has not waited
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            """Its books are `requests`."""

    return Handler


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve the dirty tables, and fail now and then.")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--port", type=int, default=8700)
    parser.add_argument("--rate", type=float, default=Faults().rate, help="of failing answers")
    given = parser.parse_args()
    with Api(given.data, Faults(rate=given.rate), given.port) as api:
        sys.stdout.write(f"{api.url}/tables  (ETL_API={api.url}; end it with Ctrl-C)\n")
        sys.stdout.flush()
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
