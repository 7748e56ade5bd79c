"""`fanfold ui` in a process of its own, and requests to it as a client of ours would make them."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from tests.faces.cli import Program, started


class UiAnswer(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str


class ServedUi(NamedTuple):
    """`link` is what it printed, with the token."""

    program: Program
    link: str

    @property
    def token(self) -> str:
        return self.link.partition("token=")[2]

    @property
    def base(self) -> str:
        return self.link.partition("/?")[0]

    @property
    def port(self) -> int:
        port = urlsplit(self.link).port
        assert port is not None
        return port

    def ask(self, path: str, method: str = "GET", body: str = "", **headers: str) -> UiAnswer:
        """Underscores in the names of headers are hyphens."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            client.request(method, path, body or None, headers=named)
            answer = client.getresponse()
            text = answer.read().decode()
            return UiAnswer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, text)
        finally:
            client.close()

    def page(self, path: str) -> str:
        """With the cookie of one who opened the link; again until all of it is counted."""
        while True:
            answer = self.ask(path, Cookie=f"fanfold-{self.port}={self.token}")
            assert answer.status == 200, answer
            if " data-late>" not in answer.text:
                return answer.text


@contextmanager
def served(folder: Path, *words: str, **env: str) -> Iterator[ServedUi]:
    with started(folder, "ui", "--no-open", *words, **env) as program:
        program.until(lambda: program.shown.endswith("\n"))
        yield ServedUi(program, program.shown.strip())
