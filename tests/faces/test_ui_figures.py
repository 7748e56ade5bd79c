"""What pages add up: money that was wasted and saved, the way of an item into the result."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fanfold.observe.amounts import usd
from fanfold.testing.running import RunningServer, threaded_server
from fanfold.testing.script import Asked, Says
from tests.faces.cli import fanfold, runs
from tests.faces.project import MEMBER, PRICE, write_project
from tests.faces.ui_server import served

KICKING = """\
name: {name}
input: {{jsonl: items.jsonl, id: id}}
steps:
  - map: {{prompt: "Say {{{{ item.text }}}}", member: m, gate: [{{regex: "^good"}}], revise: 1}}
  - reduce: {{kind: ask, prompt: Sum up, member: m, fan_in: 2}}
"""
VOTES = """\
name: votes
input: {jsonl: items.jsonl, id: id}
steps:
  - ensemble: {prompt: "Vote on {{ item.text }}", members: [a, b, c], decide: majority, stop_early: true}
"""


def answers(asked: Asked) -> Says:
    """`word 1` is answered badly at first, `word 2` always."""
    said = asked.raw.decode()
    again = "That reply was not accepted" in said
    bad = "word 2" in said or ("word 1" in said and not again)
    return Says(text="bad" if bad else "good")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    script = "tests.faces.test_ui_figures:answers"
    with threaded_server(tmp_path / "books", price=PRICE, script=script) as found:
        yield found


def figure(page: str, title: str, row: str) -> str:
    """The last cell of a row of a panel."""
    panel = page.partition(f"<h2>{title}</h2>")[2].partition("</section>")[0]
    return re.findall(r">([^<>]*)</t[dh]></tr>", panel.partition(row)[2])[0]


def attempts(folder: Path, run: str, item: str) -> list[dict[str, Any]]:
    shown = fanfold(folder, "show", run, item, "--json").receipt
    found: list[dict[str, Any]] = shown["steps"][0]["attempts"]
    return found


def test_money_says_what_kick_backs_took_and_what_replies_on_record_saved(
    tmp_path: Path, server: RunningServer
) -> None:
    write_project(tmp_path, server.url, items=4)
    calls = []
    for name in ("first", "second"):
        (tmp_path / "plan.yaml").write_text(KICKING.format(name=name))
        assert fanfold(tmp_path, "run", "plan.yaml", "--quiet").code == 1
        calls.append(server.books().paid_calls)
    revised, kicked = (attempts(tmp_path, "first", item) for item in ("i1", "i2"))
    wasted = sum(one["cost_usd"] for one in (revised[0], *kicked))
    saved = sum(
        attempts(tmp_path, "first", item)[-1]["cost_usd"] for item in ("i0", "i1", "i2", "i3")
    )
    assert (len(revised), len(kicked), calls[1] - calls[0]) == (2, 2, 0)
    with served(tmp_path) as ui:
        page = ui.page("/money")
    assert figure(page, "Paid for nothing", "kicked back") == usd(wasted)
    assert figure(page, "Saved", "replies on record") == usd(saved)
    assert "4 items" in page


def test_an_item_says_which_nodes_of_the_reduce_its_reply_is_in(
    tmp_path: Path, server: RunningServer
) -> None:
    write_project(tmp_path, server.url, items=6)
    (tmp_path / "plan.yaml").write_text(KICKING.format(name="talk"))
    assert fanfold(tmp_path, "run", "plan.yaml", "--quiet").code == 1
    run = runs(tmp_path)[-1]["run"]
    with served(tmp_path) as ui:
        passed, kicked = (ui.page(f"/run/{run}/item?id={id}") for id in ("i5", "i2"))
    panel = passed.partition("<h2>In the result</h2>")[2].partition("</section>")[0]
    assert re.findall(r'<th scope="row"[^>]*>([\d.]+)</th><td[^>]*>([^<]+)', panel) == [
        ("1.2", "5 to 6"), ("2.1", "5 to 6"), ("3.0", "1 to 6"),
    ]  # fmt: skip
    assert "In the result" not in kicked
    assert kicked.count("Kicked back: it did not count.") == 1
    assert kicked.count("the reply does not match ^good") >= 3, (
        "in the verdicts, and as it was sent"
    )


def test_votes_that_could_change_nothing_are_counted_as_saved(
    tmp_path: Path, server: RunningServer
) -> None:
    """Two of three agree, so the third is not asked: of each of the items."""
    write_project(tmp_path, server.url, items=2)
    (tmp_path / "plan.yaml").write_text(VOTES)
    member = MEMBER.format(url=server.url)
    each = [member.replace("id: m", f"id: {id}").replace("test-model", f"{id}-1") for id in "abc"]
    (tmp_path / "roster.yaml").write_text("members:\n" + "".join(each))
    assert fanfold(tmp_path, "run", "plan.yaml", "--quiet").code == 0
    cost = runs(tmp_path)[-1]["cost_usd"]
    assert server.books().paid_calls == 4
    with served(tmp_path) as ui:
        page = ui.page("/money")
    assert figure(page, "Saved", "votes that could change nothing") == usd(cost / 2)
