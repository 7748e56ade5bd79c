"""Whatever a model wrote is text: nothing of it runs, loads, or changes the page, in a real browser."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from fanfold.journal import opening
from fanfold.journal.contract import Store
from fanfold.journal.facts import (
    AddRun,
    CloseRun,
    EndAttempt,
    EndItems,
    ItemEnding,
    NameStep,
    NewReply,
    PlanBatch,
    RunRecord,
    StartAttempt,
)
from fanfold.work.ask import Reply, Usage
from tests.faces.browser import opened
from tests.faces.hostile import ATTACKS
from tests.faces.ui_server import ServedUi, served

ID = "01JZZZZZZZZZZZZZZZZZZZZZZ"
OTHER = "01JZZZZZZZZZZZZZZZZZZZZZY"
TABS = ("overview", "items", "tree", "timeline", "members", "result", "receipt", "log")
FOLDER = "a<img src=x onerror=pwned=1>\u202eb"
INJECTED = """
    [...document.querySelectorAll("main *")].filter(one =>
        one.matches("script,img,iframe,object,embed,style,link,base,meta,video,audio,form[action],main,ff-chart")
            && !one.matches("ff-chart[role]")
        || [...one.attributes].some(mark => mark.name.startsWith("on") || mark.name === "style")
        || one.matches("a[href^='javascript:'],a[href^='data:']")).map(one => one.outerHTML.slice(0, 200))
"""


async def _write(place: Path) -> None:
    """Two runs in which every text is an attack: names, ids, members, reasons, errors, replies."""
    store = opening.open_store(place, thread=False)
    for id in (OTHER, ID):
        run = await store.write(AddRun(RunRecord(id=id, name=ATTACKS[5], created=1.0)))
        for no, name in enumerate(ATTACKS):
            await store.write(NameStep(run, no, name))
        await store.plan_items((run, 0, n, text, b"h") for n, text in enumerate(ATTACKS))
        await store.write(PlanBatch(run, 0, ATTACKS[6], "f", len(ATTACKS), 0))
        for n, text in enumerate(ATTACKS):
            await _call(store, run, n, text, bad=n % 3 == 0 and id == ID)
        await store.write(
            CloseRun(run=run, status="flagged", reason=ATTACKS[0], rest="cancelled", at=9.0, active=8.0,
                     result=b'{"said": ["<script>window.pwned=1</script>", "[x](javascript:pwned=1)"]}')
        )  # fmt: skip
    await store.flush()
    store.close()


async def _call(store: Store, run: int, n: int, text: str, *, bad: bool) -> None:
    key = f"{run}-{n}".encode().ljust(16)
    claim = await store.write(
        StartAttempt(
            run=run, step=n, session="s", member=text, answerer=f"openai:{text}", keys=(key,),
            ids=(text,), accept=(), reserved=10**9, reserved_tokens=1, at=2.0 + n, why=text,
        )
    )  # fmt: skip
    landed = () if bad else (NewReply(key, f"openai:{text}", text, Reply(text, model=text)),)
    ending = ItemEnding(0, n, n, "kicked", (text, text[:50]), text, 7, 1, landed=-1 if bad else 0)
    await store.write(
        EndAttempt(
            run=run, attempt=claim.attempt, state="error" if bad else "ok", usage=Usage(1, 1),
            cost=10**8, at=3.0 + n, error=text if bad else None, released=(key,),
            answerer=f"openai:{text}", landed=landed, endings=() if bad else (ending,),
        )
    )  # fmt: skip
    if bad:
        await store.write(EndItems(run, (ending,)))


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedUi]:
    folder = tmp_path_factory.mktemp("hostile")
    asyncio.run(_write(folder / FOLDER))
    with served(folder, "--store", FOLDER) as found:
        yield found


def pages() -> list[str]:
    items = [f"/run/{ID}/item?{urlencode({'id': text})}" for text in ATTACKS if len(text) < 5000]
    tabs = [f"/run/{ID}?tab={tab}" for tab in TABS]
    echoes = [f"/?{urlencode({'q': ATTACKS[0], 'state': ATTACKS[1]})}", "/run/%3Cscript%3E",
              f"/run/{ID}?{urlencode({'tab': 'items', 'q': ATTACKS[5], 'state': ATTACKS[6]})}"]  # fmt: skip
    compare = f"/compare?{urlencode({'a': OTHER, 'b': ID})}"
    return ["/", *tabs, "/money?days=365", compare, *echoes, *items]


def test_at_least_forty_ways_to_attack_are_tried() -> None:
    assert len(set(ATTACKS)) >= 40


@pytest.mark.slow
def test_nothing_that_a_model_wrote_runs_loads_or_becomes_markup(
    ui: ServedUi, tmp_path: Path
) -> None:
    with opened(tmp_path) as browser:
        browser.enter(ui.link)
        for path in pages():
            seen = browser.visit(ui.base + path, width=1000)
            refused = [one for one in seen.complaints if "404 (Not Found)" not in one]
            away = [one for one in seen.requests if not one.startswith(ui.base)]
            assert (refused, away) == ([], []), path
            assert browser.value("window.pwned ?? 0") == 0, path
            assert browser.value(INJECTED) == [], path
            assert browser.value("document.querySelectorAll('script').length") == 3, path
            assert browser.value("document.querySelectorAll('#main').length") == 1, path
            assert seen.width <= 1000, path
            assert not set(seen.text) & set("\u202e\u2066\u200f\x1b\x00"), path


def test_no_header_is_made_of_what_was_written(ui: ServedUi) -> None:
    cookie = f"fanfold-{ui.port}={ui.token}"
    for text in ATTACKS[:45]:
        answer = ui.ask(f"/run/{ID}/item?{urlencode({'id': text})}", Cookie=cookie)
        assert "set-cookie" not in answer.headers and answer.status == 200, text
