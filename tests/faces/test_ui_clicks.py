"""A live run of 200 items in a real browser: every page, and every order by a click."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fanfold.testing.running import RunningServer, threaded_server
from tests.faces.browser import Browser, opened
from tests.faces.cli import fanfold, runs, started
from tests.faces.fleet_root import Root
from tests.faces.project import PRICE, write_items, write_project
from tests.faces.ui_server import ServedUi, served
from tests.waiting import wait_until

pytestmark = pytest.mark.slow
ITEMS = 200
TABS = ("overview", "items", "tree", "timeline", "members", "result", "receipt", "log")
NARROW, WIDE = 500, 1400


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with opened(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture
def held(tmp_path: Path) -> Iterator[RunningServer]:
    """Its replies come when the test releases them."""
    with threaded_server(tmp_path / "books", price=PRICE, latency_ms=3_600_000) as server:
        yield server


def says(browser: Browser, text: str, of: str = "main") -> None:
    browser.until(f"document.querySelector({of!r})?.innerText.includes({text!r})")


def run_path(folder: Path) -> str:
    return f"/run/{runs(folder)[-1]['run']}"


def look_at_every_page(browser: Browser, ui: ServedUi, path: str) -> None:
    """Nothing is cut off, and nothing is wrong by the console."""
    others = ("/", "/money", "/compare", f"{path}/item?id=i3")
    for address in (*others, *(f"{path}?tab={tab}" for tab in TABS)):
        for width, scheme in ((NARROW, "light"), (WIDE, "dark")):
            seen = browser.visit(ui.base + address, width=width, scheme=scheme)
            assert (seen.complaints, seen.width <= width) == ([], True), (address, width)


def test_a_live_run_is_paused_changed_and_continued_by_clicking(
    tmp_path: Path, browser: Browser, held: RunningServer
) -> None:
    write_project(tmp_path, held.url, items=ITEMS, concurrency=8)
    with started(tmp_path, "run", "plan.yaml", "--roster", "roster.yaml", "--quiet") as run:
        run.until(lambda: held.totals().in_flight == 8)
        with served(tmp_path) as ui:
            path = run_path(tmp_path)
            browser.enter(ui.link)
            look_at_every_page(browser, ui, path)
            browser.visit(ui.base + path)
            browser.value("window.kept = 1")
            browser.click("button[name=pause]")
            says(browser, "pause carried out", ".answer")
            held.release()
            says(browser, "8 of 200", ".figures")
            browser.type("input[name=value]", "150")
            browser.click("button[name=set][value=budget]")
            says(browser, "set budget=150 carried out", ".answer")
            says(browser, "of $150.00")
            browser.type("input[name=value]", "a lot")
            browser.click("button[name=set][value=budget]")
            says(browser, "refused", ".answer.refused")
            assert held.totals().asked == 8
            browser.click("button[name=resume]")
            says(browser, "resume carried out", ".answer")
            assert browser.value("window.kept") == 1, "it was not loaded again"
            assert browser.seen().complaints == []
        while run.process.poll() is None:
            held.release()
        assert run.end().code == 0
    assert (held.books().paid_calls, held.books().paid_twice()) == (ITEMS, {})


def test_without_scripts_the_same_buttons_do_the_same(
    tmp_path: Path, browser: Browser, held: RunningServer
) -> None:
    write_project(tmp_path, held.url, items=4)
    with started(tmp_path, "run", "plan.yaml", "--roster", "roster.yaml", "--quiet") as run:
        run.until(lambda: held.totals().in_flight == 3)
        with served(tmp_path) as ui:
            browser.enter(ui.link)
            browser.without_scripts()
            browser.go(ui.base + run_path(tmp_path))
            found = "document.querySelector('button[name=pause]')"
            wait_until(lambda: browser.value(f"document.readyState === 'complete' && !!{found}"))
            browser.value(f"{found}.click()")
            wait_until(lambda: runs(tmp_path)[-1]["status"] == "paused")
        held.release()
        assert fanfold(tmp_path, "resume", "talk").code == 0
        while run.process.poll() is None:
            held.release()


PARTS = """\
name: parts
budget: {usd: 100}
govern: {max_tasks: 2}
input: {jsonl: items.jsonl, id: id}
steps:
  - map: {name: split, member: split}
  - map: {name: say, over: steps.split, prompt: "Say {{ item }}", member: m}
"""


def test_a_stage_that_is_larger_than_foreseen_is_approved_by_clicking(
    tmp_path: Path, browser: Browser, quick_server: RunningServer
) -> None:
    write_project(tmp_path, quick_server.url)
    write_items(tmp_path, ["one two three four"])
    (tmp_path / "plan.yaml").write_text(PARTS)
    (tmp_path / "splitting.py").write_text("def split(item):\n    return item['text'].split()\n")
    roster = tmp_path / "roster.yaml"
    member = "  - {id: split, kind: function, target: 'splitting:split'}\n"
    roster.write_text(roster.read_text() + member)
    assert fanfold(tmp_path, "run", "plan.yaml", "--quiet").code == 4
    with served(tmp_path) as ui:
        browser.enter(ui.link)
        browser.visit(ui.base + run_path(tmp_path))
        browser.click("button[name=approve].main")
        says(browser, "complete", ".lead")
        assert browser.seen().complaints == []
    assert quick_server.books().paid_calls == 4


def test_a_worker_is_killed_and_relaunched_by_clicking(team: Root, browser: Browser) -> None:
    team.write({"a": team.waits("a"), "b": "I am b"})
    team.launch()
    team.program("a")
    with served(team.root, **team.env) as ui:
        browser.enter(ui.link)
        browser.visit(f"{ui.base}{run_path(team.root)}?tab=workers")
        browser.click("button[name=kill][value=a]")
        says(browser, "kill a carried out", ".answer")
        says(browser, "killed", ".card.KILLED")
        team.prompt("a", "I am a")
        browser.click("button[name=relaunch][value=a]")
        browser.until("document.querySelectorAll('.card.DONE').length === 2")
        assert browser.seen().complaints == []
    assert team.states() == {"a": "DONE", "b": "DONE"}
