"""Orders by the forms of the page: only its own forms, and what came of each is said on it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from html import unescape
from pathlib import Path
from urllib.parse import urlencode

import pytest

from fanfold.testing.running import RunningServer
from tests.faces.cli import fanfold, runs, started
from tests.faces.fleet_root import Root
from tests.faces.project import SHOUT, write_function_project, write_project
from tests.faces.ui_server import ServedUi, UiAnswer, served
from tests.waiting import wait_until

pytestmark = pytest.mark.slow


def order(ui: ServedUi, path: str, **fields: str) -> UiAnswer:
    """Send a form of a page as a browser does. Underscores in names are hyphens."""
    token = re.findall(r'name="token" value="(\w+)"', ui.page(path))
    named = {name.replace("_", "-"): value for name, value in fields.items()}
    return send(ui, path, {"token": token[0] if token else "", **named})


def send(ui: ServedUi, path: str, form: dict[str, str], **headers: str) -> UiAnswer:
    given = {"Cookie": f"fanfold-{ui.port}={ui.token}", "Origin": ui.base, **headers}
    given["Content-Type"] = "application/x-www-form-urlencoded"
    return ui.ask(path, "POST", urlencode(form), **given)


def answered(ui: ServedUi, path: str) -> str:
    """What the page says of the last order."""
    found = re.findall(r'<p class="answer \w+">(.*?)<span', ui.page(path), re.DOTALL)
    return unescape(re.sub(r"<.*?>", "", found[0])).strip() if found else ""


def ordered(ui: ServedUi, path: str, **fields: str) -> str:
    """What the process of the run answers, which a page does not wait for long."""
    order(ui, path, **fields)
    run = "/".join(path.partition("?")[0].split("/")[:3])
    wait_until(lambda: "waits for the process" not in answered(ui, run))
    return answered(ui, run)


def path_of(folder: Path) -> str:
    return f"/run/{runs(folder)[-1]['run']}"


@pytest.fixture
def folder(tmp_path: Path, server: RunningServer) -> Path:
    """Six items, three at once, of which the server holds the first three."""
    write_project(tmp_path / "project", server.url)
    return tmp_path / "project"


def test_a_run_is_paused_changed_and_continued(folder: Path, server: RunningServer) -> None:
    with ExitStack() as stack:
        run = stack.enter_context(started(folder, "run", "plan.yaml"))
        run.until(lambda: server.totals().in_flight == 3)
        ui, path = stack.enter_context(served(folder)), path_of(folder)
        answer = order(ui, f"{path}?tab=items", pause="")
        assert (answer.status, answer.headers["location"]) == (303, f"{path}?tab=items")
        wait_until(lambda: answered(ui, path) == "pause carried out")
        assert ">Continue</button>" in ui.page(path) and ">Pause</button>" not in ui.page(path)
        assert ordered(ui, path, pause="") == "pause refused: it is paused already"
        assert ordered(ui, path, set="budget", value="50") == "set budget=50 carried out"
        assert ordered(ui, path, set="budget", value="lots").startswith("set budget=lots refused: ")
        ordered(ui, path, set="concurrency", value="1")
        ordered(ui, f"{path}?tab=members", set="m=off")
        assert ">Turn on</button>" in ui.page(f"{path}?tab=members")
        ordered(ui, f"{path}?tab=members", set="m=on")
        assert ordered(ui, f"{path}/item?id=i5", skip="i5") == "skip i5 carried out"
        server.release()
        order(ui, path, resume="")
        ended = run.end()
    assert "of $50.00" in ended.out and "1 skipped" in ended.out, ended
    assert (server.books().paid_calls, server.books().paid_twice()) == (5, {})


def test_a_run_that_nobody_runs_is_continued_with_a_budget_that_was_raised(
    tmp_path: Path, quick_server: RunningServer
) -> None:
    write_project(tmp_path, quick_server.url)
    words = ("--roster", "roster.yaml", "--budget", "0.0001", "--quiet")
    assert fanfold(tmp_path, "run", "plan.yaml", *words).code == 4
    with served(tmp_path) as ui:
        path = path_of(tmp_path)
        order(ui, path, set="budget", value="50")
        assert "holds when the run is continued" in answered(ui, path)
        order(ui, path, **{"continue": ""})
        wait_until(lambda: runs(tmp_path)[-1]["status"] == "complete")
        assert "continue carried out" in ui.page(path).replace("</b>", "")
    assert quick_server.books().paid_calls == 6


def test_an_item_that_failed_is_carried_out_again(tmp_path: Path) -> None:
    write_function_project(tmp_path)
    assert fanfold(tmp_path, "run", "plan.yaml", "--quiet").code == 1
    (tmp_path / "shouting.py").write_text(SHOUT.replace('== "boom"', '== "never"'))
    with served(tmp_path) as ui:
        path = path_of(tmp_path)
        assert 'name="retry" value="three"' in ui.page(f"{path}?tab=items")
        order(ui, f"{path}/item?id=three", retry="three")
        wait_until(lambda: runs(tmp_path)[-1]["passed"] == 3)


def test_a_worker_is_killed_and_relaunched(team: Root) -> None:
    team.write({"a": team.waits("a"), "b": "I am b"})
    team.launch()
    team.program("a")
    with served(team.root, **team.env) as ui:
        path = path_of(team.root)
        assert ordered(ui, f"{path}?tab=workers", kill="a") == "kill a carried out"
        wait_until(lambda: team.states() == {"a": "KILLED", "b": "DONE"})
        team.prompt("a", "I am a")
        assert ordered(ui, f"{path}/worker?id=a", relaunch="a") == "relaunch a carried out"
        wait_until(lambda: team.states() == {"a": "DONE", "b": "DONE"})
        assert "has no worker 'nobody'" in ordered(ui, f"{path}/worker?id=a", kill="nobody")


def test_a_worker_is_told_something(team: Root) -> None:
    heard = team.root / "heard.txt"
    team.write({"a": f"I am a\nHEAR {heard}"})
    team.launch()
    team.program("a")
    with served(team.root, **team.env) as ui:
        path = f"{path_of(team.root)}/worker?id=a"
        said = "tell a: Mind <b>the gap</b>. carried out: its program has the message and reads it"
        assert ordered(ui, path, tell="a", value="Mind <b>the gap</b>.").startswith(said)
    wait_until(lambda: team.states() == {"a": "DONE"})
    assert heard.read_text() == "Mind <b>the gap</b>."


# ── whose orders count ───────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ended")
    write_function_project(folder)
    assert fanfold(folder, "run", "plan.yaml", "--quiet").code == 1
    return folder


@pytest.fixture(scope="module")
def ui(ended: Path) -> Iterator[ServedUi]:
    with served(ended) as found:
        yield found


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403), ({"Origin": "http://evil.test"}, 403), ({"Origin": "null"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403), ({"Host": "evil.test"}, 421), ({"Cookie": "a=b"}, 401),
    ],
)  # fmt: skip
def test_a_form_without_its_token_or_from_elsewhere_orders_nothing(
    ui: ServedUi, ended: Path, headers: dict[str, str], status: int
) -> None:
    path = path_of(ended)
    if not headers:
        assert send(ui, path, {"token": "wrong", "retry": "three"}).status == status
        return
    token = re.findall(r'name="token" value="(\w+)"', ui.page(f"{path}?tab=items"))[0]
    assert send(ui, path, {"token": token, "retry": "three"}, **headers).status == status
    assert "Orders</h2>" not in ui.page(path)


def test_no_address_that_is_only_opened_orders_anything(ui: ServedUi, ended: Path) -> None:
    path = path_of(ended)
    token = re.findall(r'name="token" value="(\w+)"', ui.page(f"{path}?tab=items"))[0]
    ui.page(f"{path}?{urlencode({'tab': 'items', 'token': token, 'retry': 'three'})}")
    assert "Orders</h2>" not in ui.page(path)


def test_a_page_to_share_shows_no_form_and_takes_none(ended: Path) -> None:
    path = path_of(ended)
    with served(ended, "--read-only") as shared:
        for part in (path, f"{path}?tab=items", f"{path}?tab=members", f"{path}/item?id=three"):
            assert 'method="post"' not in shared.page(part)
        answer = send(shared, path, {"retry": "three"})
        assert answer.status == 403 and "read only" in answer.text
