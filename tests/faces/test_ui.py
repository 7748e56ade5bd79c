"""`fanfold ui`: who may see the page, what it shows, and that it follows a run by itself."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from fanfold.observe.amounts import usd
from fanfold.testing.running import threaded_server
from tests.faces.browser import Browser, opened
from tests.faces.cli import fanfold, runs, started
from tests.faces.project import PRICE, write_function_project, write_project
from tests.faces.ui_server import ServedUi, served
from tests.unit.fleet.fleets import worker
from tests.unit.fleet.staged import Stage
from tests.unit.fleet.talk import said
from tests.waiting import LONG


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three items: one passed, one was kicked, one failed."""
    folder = tmp_path_factory.mktemp("ended")
    write_function_project(folder, gate="regex: {pattern: '^[A-Z]+$'}")
    assert fanfold(folder, "run", "plan.yaml", "--quiet").code == 1
    return folder


@pytest.fixture(scope="module")
def ui(ended: Path) -> Iterator[ServedUi]:
    with served(ended) as found:
        yield found


def run_of(folder: Path) -> str:
    return str(runs(folder)[-1]["run"])


# ── who may see it ───────────────────────────────────────────────────────────────────────────


def test_the_token_of_the_link_becomes_a_strict_cookie_and_leaves_the_address(ui: ServedUi) -> None:
    answer = ui.ask(f"/?token={ui.token}&q=x")
    assert answer.status == 200 and 'content="0;url=/?q=x"' in answer.text
    assert ui.token not in answer.text
    cookie = answer.headers["set-cookie"].lower()
    assert (
        "httponly" in cookie
        and "samesite=strict" in cookie
        and "no-store" in answer.headers["cache-control"]
    )


@pytest.mark.parametrize("path", ["/", "/events", "/static/ui.js", "/run/x", "/?token=wrong"])
def test_without_the_token_nothing_is_shown(ui: ServedUi, path: str) -> None:
    answer = ui.ask(path)
    assert answer.status == 401 and ui.token not in answer.text and "shout" not in answer.text


@pytest.mark.parametrize("host", ["evil.test", "evil.test:80", "127.0.0.1", "127.0.0.1:1"])
def test_a_name_of_another_site_that_leads_here_is_refused(ui: ServedUi, host: str) -> None:
    cookie = f"fanfold-{ui.port}={ui.token}"
    assert ui.ask("/", Host=host, Cookie=cookie).status == 421


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("GET", {"Origin": "http://evil.test"}),
        ("POST", {}),
        ("POST", {"Origin": "null"}),
        ("POST", {"Origin": "http://127.0.0.1"}),
    ],
)
def test_a_page_of_another_site_may_neither_read_nor_order(
    ui: ServedUi, method: str, headers: dict[str, str]
) -> None:
    cookie = f"fanfold-{ui.port}={ui.token}"
    assert ui.ask("/", method, Cookie=cookie, **headers).status == 403


def test_every_answer_has_the_strict_policy(ui: ServedUi) -> None:
    cookie = f"fanfold-{ui.port}={ui.token}"
    for path in ("/", "/static/ui.js", "/run/none", "/none", "/?token=wrong"):
        policy = ui.ask(path, Cookie=cookie).headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy


def test_another_host_needs_a_token_of_the_operators_own(tmp_path: Path, ended: Path) -> None:
    refused = fanfold(ended, "ui", "--host", "0.0.0.0", "--no-open")
    assert refused.code == 2 and "--token-file" in refused.err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--store", "none-here"), "no such store"),
        (("--store", "memory:x"), "only by its own process"),
    ],
)
def test_a_store_that_cannot_be_shown_is_refused(
    tmp_path: Path, words: tuple[str, str], why: str
) -> None:
    refused = fanfold(tmp_path, "ui", "--no-open", *words)
    assert refused.code == 2 and why in refused.err and refused.err.count("\n") <= 2


def test_a_signal_ends_it(ended: Path) -> None:
    with served(ended) as found:
        found.program.send(signal.SIGINT)
        assert found.program.end().code == 0


def test_a_run_may_bring_its_page_along_which_outlives_it(tmp_path: Path) -> None:
    write_function_project(tmp_path)
    ended = fanfold(tmp_path, "run", "plan.yaml", "--ui", "--json", "--quiet")
    (page,) = [one for one in psutil.process_iter() if is_page(one, tmp_path)]
    try:
        assert ended.receipt["passed"] == 2, "stdout is the receipt alone"
        link = re.findall(r"page: +(\S+)", ended.err)[0]
        with started(tmp_path, "status") as any_program:
            assert "shout" in ServedUi(any_program, link).page("/")
    finally:
        page.terminate()
        page.wait(LONG)


def is_page(process: psutil.Process, folder: Path) -> bool:
    try:
        return "ui" in process.cmdline() and process.cwd() == str(folder)
    except psutil.Error:
        return False


def test_a_page_is_refused_before_the_run_starts(tmp_path: Path) -> None:
    write_function_project(tmp_path)
    refused = fanfold(tmp_path, "run", "plan.yaml", "--ui", "--store", "memory:")
    assert refused.code == 2 and "only by its own process" in refused.err


# ── what it shows ────────────────────────────────────────────────────────────────────────────


def test_the_runs_are_listed_and_filtered(ui: ServedUi) -> None:
    assert "shout" in ui.page("/") and "flagged" in ui.page("/")
    assert "No run is like that" in ui.page("/?q=nobody")
    assert "No run is like that" in ui.page("/?state=paused")


@pytest.mark.parametrize(
    ("tab", "words"),
    [
        ("overview", "Why items did not pass"), ("items", "one"), ("tree", "run, step, member"),
        ("timeline", "No call has left its time"), ("members", "items answered"),
        ("result", "GOOD"), ("receipt", "items from replies of earlier runs"), ("log", "cannot"),
    ],
)  # fmt: skip
def test_every_tab_of_a_run_is_there(ui: ServedUi, ended: Path, tab: str, words: str) -> None:
    assert words in ui.page(f"/run/{run_of(ended)}?tab={tab}")


def test_items_are_found_by_outcome_and_by_id(ui: ServedUi, ended: Path) -> None:
    path = f"/run/{run_of(ended)}?tab=items"
    kicked = ui.page(f"{path}&state=kicked").partition("<tbody>")[2]
    assert ">two<" in kicked and ">one<" not in kicked
    found = ui.page(f"{path}&q=THR").partition("<tbody>")[2]
    assert ">three<" in found and ">one<" not in found


def test_one_item_is_shown_with_its_input_reply_and_verdict(ui: ServedUi, ended: Path) -> None:
    page = ui.page(f"/run/{run_of(ended)}/item?id=two")
    for words in ("items.jsonl:2", "bad 2", "BAD 2", "kicked", "Copy as JSON"):
        assert words in page


def test_an_item_that_is_not_there_names_those_that_are_like_it(ui: ServedUi, ended: Path) -> None:
    cookie = f"fanfold-{ui.port}={ui.token}"
    answer = ui.ask(f"/run/{run_of(ended)}/item?id=twoo", Cookie=cookie)
    assert answer.status == 404 and "did you mean" in answer.text


def test_two_runs_of_a_plan_are_compared_item_by_item(tmp_path: Path) -> None:
    write_function_project(tmp_path, gate="regex: {pattern: '^[A-Z ]+$'}")
    assert fanfold(tmp_path, "run", "plan.yaml", "--quiet").code == 1
    write_function_project(tmp_path, gate="regex: {pattern: '^[A-Z0-9 ]+$'}")
    assert fanfold(tmp_path, "run", "plan.yaml", "--quiet").code == 1
    with served(tmp_path) as found:
        page = found.page("/compare")
        link = page.partition("better <b>1</b>")[0].rpartition('href="')[2].partition('"')[0]
        better = found.page(link.replace("&amp;", "&"))
    assert "worse <b>0</b>" in page and "Of 3 items that ended in both runs" in page
    plan = page.partition("What differs in the plan")[2].partition("</section>")[0]
    assert "map.gate[0].regex.pattern" in plan and plan.count("<tr>") == 2, "nothing else"
    assert "<ins>Z0-9</ins>" in plan
    for shown in (page, better):
        assert ">two<" in shown.partition("Items that differ")[2]


def test_the_workers_of_a_fleet_are_shown_with_what_they_wait_for(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "fleet", [worker("scout"), worker("build", "scout")])
    stage.works("scout", stage.starts("scout", 0), said("hello there"))
    stage.hosted("scout", alive=True)
    run = run_of(stage.root)
    with served(stage.root) as found:
        cards = found.page(f"/run/{run}?tab=workers")
        one = found.page(f"/run/{run}/worker?id=scout")
    stage.close()
    assert "waits for scout" in cards and 'class="dag"' in cards
    assert "hello there" in one and f"fanfold view {run} scout -f" in one


def test_money_is_added_up_by_day_member_model_and_run(tmp_path: Path) -> None:
    with threaded_server(tmp_path / "books", price=PRICE) as server:
        write_project(tmp_path, server.url, items=3)
        assert fanfold(tmp_path, "run", "plan.yaml", "--roster", "roster.yaml", "--quiet").code == 0
        cost = usd(runs(tmp_path)[-1]["cost_usd"])
    with served(tmp_path) as found:
        page = found.page("/money")
    for title in ("By day", "By member", "By model", "By step", "By run"):
        assert cost in page.partition(title)[2].partition("</section>")[0], title
    assert "test-model" in page.partition("By model")[2].partition("</section>")[0]


def test_what_is_not_there_is_said_with_a_status(ui: ServedUi) -> None:
    answer = ui.ask("/run/nobody", Cookie=f"fanfold-{ui.port}={ui.token}")
    assert answer.status == 404 and "there is no run" in answer.text


# ── in a browser ─────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with opened(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.mark.slow
def test_the_page_follows_a_run_without_reload_and_closing_it_changes_nothing(
    tmp_path: Path, browser: Browser
) -> None:
    with threaded_server(tmp_path / "books", price=PRICE, latency_ms=3_600_000) as server:
        write_project(tmp_path, server.url, items=4, concurrency=2)
        with started(tmp_path, "run", "plan.yaml", "--roster", "roster.yaml") as run:
            run.until(lambda: server.totals().in_flight == 2)
            with served(tmp_path) as ui:
                browser.enter(ui.link)
                browser.visit(f"{ui.base}/run/{run_of(tmp_path)}")
                browser.until("document.body.innerText.includes('0 of 4')")
                browser.value("window.kept = 1")
                server.release()
                browser.until("/[1-4] of 4/.test(document.querySelector('.figures').innerText)")
                run.until(lambda: server.totals().asked == 4)
                server.release()
                browser.until("document.body.innerText.includes('4 of 4')")
                browser.until("document.body.innerText.includes('complete')")
                assert browser.value("window.kept") == 1, "it was not loaded again"
                assert browser.seen().complaints == []
            assert run.end().code == 0


@pytest.mark.slow
def test_the_keyboard_searches_moves_and_helps(ui: ServedUi, browser: Browser) -> None:
    browser.enter(ui.link)
    browser.visit(f"{ui.base}/")
    browser.press("/")
    assert browser.value("document.activeElement.type") == "search"
    browser.value("document.activeElement.blur()")
    browser.press("j")
    assert "shout" in browser.value("document.activeElement.textContent")
    browser.press("?")
    assert browser.value("document.getElementById('help').open") is True


@pytest.mark.slow
@pytest.mark.parametrize("width", [500, 1400])
def test_no_page_is_wider_than_the_screen(
    ui: ServedUi, ended: Path, browser: Browser, width: int
) -> None:
    browser.enter(ui.link)
    run = run_of(ended)
    tabs = ("overview", "items", "tree", "members", "result", "receipt", "log")
    others = ("/", "/money", "/compare", f"/run/{run}/item?id=two")
    for path in (*others, *(f"/run/{run}?tab={tab}" for tab in tabs)):
        seen = browser.visit(ui.base + path, width=width)
        assert seen.width <= width and seen.complaints == [], path
