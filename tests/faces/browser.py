"""A real browser without a window, driven through a pair of pipes."""

from __future__ import annotations

import base64
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from tests.waiting import LONG

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SECONDS = LONG
AS_3_AND_4 = """\
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
for number, end in zip((3, 4), ends):
    os.dup2(end, number)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""The browser hears on 3 and speaks on 4."""


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
        self._session: str | None = None

    def look(self, path: Path, *, width: int = 1200, scheme: str = "light") -> Seen:
        return self.visit(path.absolute().as_uri(), width=width, scheme=scheme)

    def visit(self, url: str, *, width: int = 1200, scheme: str = "light") -> Seen:
        """A new page at this address, as it is when it has loaded."""
        self.enter(url, width=width, scheme=scheme)
        return self.seen()

    def enter(self, url: str, *, width: int = 1200, scheme: str = "light") -> None:
        """The same for a page that leads on to another one at once."""
        target = self._do("Target.createTarget", url="about:blank")["targetId"]
        session = self._do("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._session = session
        for domain in ("Page", "Network", "Log", "Runtime"):
            self._do(f"{domain}.enable", session)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._do("Emulation.setEmulatedMedia", session, features=features)
        self._do(
            "Emulation.setDeviceMetricsOverride", session, width=width, height=800,
            deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        self.go(url)

    def seen(self) -> Seen:
        """The last page as it is now, with all that it asked for since it was visited."""
        return Seen(
            self.value("document.title"),
            self.value("document.body.innerText"),
            [e["params"]["request"]["url"] for e in self._of("Network.requestWillBeSent")],
            [str(e["params"]) for name in COMPLAINTS for e in self._of(name)],
            self.value("document.documentElement.scrollWidth"),
        )

    def until(self, condition: str) -> None:
        """Wait until a condition is true in the last page."""
        found = self.value(f"""
            new Promise(done => {{ const end = Date.now() + {SECONDS} * 1000, look = () => {{
                if ({condition}) done("yes");
                else if (Date.now() > end) done(document.body.innerText);
                else setTimeout(look, 20); }}; look(); }})""")
        assert found == "yes", (condition, found)

    def click(self, selector: str) -> None:
        """Once it is there; a button that is sent meanwhile is not."""
        self.until(f"document.querySelector({selector!r})?.disabled === false")
        self.value(f"document.querySelector({selector!r}).click()")

    def type(self, selector: str, text: str) -> None:
        self.value(f"""{{ const field = document.querySelector({selector!r});
            field.focus(); field.value = {text!r}; }}""")

    def without_scripts(self) -> None:
        """Of pages that are entered from now on in this tab."""
        self._do("Emulation.setScriptExecutionDisabled", self._session, value=True)

    def go(self, url: str) -> None:
        """Another address in the same tab."""
        self._events.clear()
        self._do("Page.navigate", self._session, url=url)
        self.loaded()

    def loaded(self) -> None:
        """The last page, not one that was entered before it."""
        while not any(
            event["method"] == "Page.loadEventFired" and event["sessionId"] == self._session
            for event in self._events
        ):
            self._events.append(self._next())

    def picture(self, file: Path, *, height: int = 0) -> None:
        """What is seen of the page, or so much of it from its top."""
        clip = {}
        if height:
            width = self.value("innerWidth")
            clip = {"clip": {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}}
        done = self._do("Page.captureScreenshot", self._session, captureBeyondViewport=True, **clip)
        file.write_bytes(base64.b64decode(done["data"]))

    def press(self, key: str) -> None:
        self._do("Input.dispatchKeyEvent", self._session, type="keyDown", key=key, text=key)
        self._do("Input.dispatchKeyEvent", self._session, type="keyUp", key=key)

    def sorted_by(self, title: str) -> list[str]:
        """The first column of the first sortable table of the last page, when a title was clicked."""
        script = f"""
            const table = document.querySelector("table.sorts");
            const buttons = [...table.querySelectorAll("th button")];
            buttons.find(button => button.textContent === "{title}").click();
            [...table.tBodies[0].rows].map(row => row.cells[0].textContent)"""
        found: list[str] = self.value(script)
        return found

    def turned(self, script: str) -> list[Any]:
        """What the first pager of the last page says after the script, and the first cells of its
        rows. It waits until the page has unpacked its rows."""
        self.value("""
            new Promise(done => { const look = () =>
                document.querySelector(".pager button") ? done(1) : setTimeout(look, 5); look(); })""")
        found: list[Any] = self.value(f"""{{
            const pager = document.querySelector(".pager"), table = document.querySelector("table.sorts");
            const press = word => [...document.querySelectorAll("button")].find(
                button => button.textContent === word).click();
            const find = text => {{ const field = pager.querySelector("input"); field.value = text;
                field.dispatchEvent(new Event("input")); }};
            {script};
            [pager.querySelector("span").textContent,
             [...table.tBodies[0].rows].map(row => row.cells[0].textContent)] }}""")
        return found

    def cut_off(self) -> list[str]:
        """The tables of the last page that do not fit into its width."""
        found: list[str] = self.value("""
            [...document.querySelectorAll("table")].filter(
                table => table.getBoundingClientRect().right > innerWidth).map(one => one.innerText)""")
        return found

    def value(self, script: str) -> Any:
        done = self._do(
            "Runtime.evaluate", self._session, expression=script, returnByValue=True,
            awaitPromise=True,
        )  # fmt: skip
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def _of(self, method: str) -> list[dict[str, Any]]:
        """Of the last page: earlier ones are still there, and their servers may be gone."""
        mine = (event for event in self._events if event.get("sessionId") == self._session)
        return [event for event in mine if event["method"] == method]

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
            assert select.select([self._hear], [], [], SECONDS)[0], "the browser is silent"
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
    line = [sys.executable, "-c", AS_3_AND_4, str(told), str(tells), *words]
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
