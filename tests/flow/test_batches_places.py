"""Batches whose submitter is killed, and which another process collects: with files in their lines, and with
a store on PostgreSQL. What was paid is read in the books of the model server."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest

from fanfold.testing.batches import BatchTimes
from fanfold.testing.running import RunningServer, threaded_server
from fanfold.work.media import content_hash
from tests import media, postgres
from tests.faces.cli import fanfold, started
from tests.flow.batch_kills import PRICE, in_batches, write_plan

KINDS = ("anthropic", "openai")
HOURS = BatchTimes(latency=3600.0)
FILES_PLAN = """\
name: batched
input: {files: "scans/*"}
steps:
  - map: {name: read, attach: item, prompt: "Read it.", batch: {within: 6h}}
"""
FILES_ROSTER = """\
members:
  - {{id: m, kind: {kind}, model: one, base_url: "{url}", key: none, max_tokens: 100, batch_price: 0.5,
     media: [image, document], price: {{input: 1, output: 5}}}}
"""


def killed_when_submitted(folder: Path, lines: int, *store: str) -> None:
    """After all lines are in a batch of the service."""
    place = store[-1] if store else folder / ".fanfold"
    with started(folder, "run", "plan.yaml", "--name", "r", *store) as run:
        run.until(lambda: in_batches(place) == lines)
        run.send(SIGKILL)
        run.process.wait()


def collected(server: RunningServer, folder: Path, lines: int, *store: str) -> dict[str, Any]:
    """By another process. Each line was paid once, in a batch, at half the price."""
    server.release()
    ended = fanfold(folder, "resume", "r", "--json", "--quiet", *store)
    assert (ended.code, ended.receipt["passed"], ended.receipt["in_doubt"]) == (0, lines, 0)
    books = server.books()
    assert [bool(one.batch) for one in books.asked] == [True] * lines
    assert (books.paid_twice(), ended.receipt["cost_usd"]) == ({}, books.bill / 1e9)
    return dict(ended.receipt)


def scans(folder: Path) -> list[str]:
    """The hashes of eight images and four PDFs."""
    (folder / "scans").mkdir()
    found = [(f"{n}.png", media.png(120, 160, seed=n)) for n in range(8)]
    found += [(f"{n}.pdf", media.pdf([f"invoice {n}", "total"])) for n in range(4)]
    for name, content in found:
        (folder / "scans" / name).write_bytes(content)
    return [content_hash(content) for _, content in found]


@pytest.mark.parametrize("kind", KINDS)
def test_lines_may_have_files_which_are_sent_and_paid_once(tmp_path: Path, kind: str) -> None:
    with threaded_server(tmp_path / "books", price=PRICE, batches=HOURS) as server:
        hashes = scans(tmp_path)
        base = f"{server.url}/v1" if kind == "openai" else server.url
        (tmp_path / "plan.yaml").write_text(FILES_PLAN)
        (tmp_path / "roster.yaml").write_text(FILES_ROSTER.format(kind=kind, url=base))
        killed_when_submitted(tmp_path, 12)
        receipt = collected(server, tmp_path, 12)
        asked = server.books().asked
    assert Counter(one for entry in asked for one in entry.files) == Counter(hashes)
    assert receipt["tokens"]["input"] == sum(one.usage.input for one in asked if one.usage)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_with_a_store_on_postgresql_another_machine_collects(tmp_path: Path, kind: str) -> None:
    """From another folder, which has nothing but the address of the store."""
    store = ("--store", postgres.server().place())
    with threaded_server(tmp_path / "books", price=PRICE, batches=HOURS) as server:
        here, there = tmp_path / "here", tmp_path / "there"
        here.mkdir()
        there.mkdir()
        write_plan(here, server.url, kind, 40, 1000)
        killed_when_submitted(here, 40, *store)
        assert "40 in batches, oldest submitted" in fanfold(there, "status", "r", *store).out
        collected(server, there, 40, *store)
