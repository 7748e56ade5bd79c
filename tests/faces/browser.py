"""A real browser without a window, driven through a pair of pipes."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SECONDS = 60


class Seen(NamedTuple):
    """What became of a page: its title, its visible text, all that it asked for, its complaints."""

    title: str
    text: str
    requests: list[str]
    complaints: list[str]
    width: int


class Browser:
    """One page after the other, each as a new one."""

    def __init__(self, say: int, hear: int) -> None:
        self._say, self._hear, self._number, self._rest = say, hear, 0, b""
        self._events: list[dict[str, Any]] = []

    def look(self, path: Path, *, width: int = 1200, scheme: str = "light") -> Seen:
        target = self._do("Target.createTarget", url="about:blank")["targetId"]
        session = self._do("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self._do(f"{domain}.enable", session)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._do("Emulation.setEmulatedMedia", session, features=features)
        self._do(
            "Emulation.setDeviceMetricsOverride", session, width=width, height=800,
            deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        self._events.clear()
        self._do("Page.navigate", session, url=path.absolute().as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._events.append(self._next())
        return Seen(
            self.value(session, "document.title"),
            self.value(session, "document.body.innerText"),
            [e["params"]["request"]["url"] for e in self._of("Network.requestWillBeSent")],
            [str(e["params"]) for name in COMPLAINTS for e in self._of(name)],
            self.value(session, "document.documentElement.scrollWidth"),
        )

    def sorted_by(self, path: Path, title: str) -> list[str]:
        """The first column of a page's first sortable table, when a title was clicked."""
        target = self._do("Target.createTarget", url=path.absolute().as_uri())["targetId"]
        session = self._do("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        click = (
            "new Promise(done => { const go = () => { const table = document.querySelector("
            "'table.sorts'); for (const b of table.querySelectorAll('th button')) if (b.textContent"
            f" === {title!r}) b.click(); done([...table.tBodies[0].rows].map(r =>"
            " r.cells[0].textContent)); }; document.readyState === 'complete' ? go() :"
            " addEventListener('load', go) })"
        )
        found: list[str] = self.value(session, click)
        return found

    def value(self, session: str, script: str) -> Any:
        done = self._do(
            "Runtime.evaluate", session, expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in done, done
        return done["result"]["value"]

    def _of(self, method: str) -> list[dict[str, Any]]:
        return [event for event in self._events if event["method"] == method]

    def _do(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._say, msgspec.json.encode(message) + b"\0")
        while True:
            heard = self._next()
            if heard.get("id") == self._number:
                assert "result" in heard, heard
                result: dict[str, Any] = heard["result"]
                return result
            self._events.append(heard)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._hear, 1 << 20)
            assert more, "the browser ended"
            self._rest += more
        first, self._rest = self._rest.split(b"\0", 1)
        found: dict[str, Any] = msgspec.json.decode(first)
        return found


COMPLAINTS = ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled")


@contextmanager
def opened(home: Path) -> Iterator[Browser]:
    """Skips where there is none. It is killed at the end, whatever happened."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip("no chromium here: apt-get install chromium")
    told, say = os.pipe()
    hear, tells = os.pipe()
    words = [
        program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        "--no-first-run", f"--user-data-dir={home / 'profile'}", "--remote-debugging-pipe",
    ]  # fmt: skip
    line = ["sh", "-c", f'exec "$@" 3<&{told} 4>&{tells}', "sh", *words]
    env = {"PATH": os.environ["PATH"], "HOME": str(home)}
    with (home / "browser.log").open("wb") as log:
        process = subprocess.Popen(
            line, pass_fds=(told, tells), env=env, stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
    os.close(told)
    os.close(tells)
    try:
        yield Browser(say, hear)
    finally:
        process.kill()
        process.wait(SECONDS)
        os.close(say)
        os.close(hear)
