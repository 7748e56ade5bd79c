"""A plan of all patterns over the model server: stopped after any number of calls, it goes on and
pays for nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from fanfold.journal import opening
from fanfold.observe.status import accounts
from fanfold.plans.prepare import Options, prepare, prepare_resume
from fanfold.testing.running import threaded_server
from fanfold.work.outcome import Receipt
from fanfold.work.task import Budget
from tests.examples import seeds
from tests.flow.small_plans import executed

PLAN = """\
name: all
input: {count: 6}
steps:
  - map: {prompt: "say {{ item.n }}", member: m}
  - reduce: {kind: ask, prompt: "join {{ parts }}", member: m, fan_in: 3}
  - ask: {prompt: "sum up {{ steps.reduce }}", member: m}
  - scatter: {prompt: "on {{ item.topic }}", member: m, over: [{id: x, topic: auth}, {id: y, topic: rate, member: n}], synthesise: {prompt: both, member: m}}
  - graph: {member: m, tasks: [{id: p, prompt: p}, {id: q, prompt: "after {{ parents.p }}", depends_on: [p]}]}
  - pipeline: {stages: [{map: {prompt: "first {{ item.n }}", member: m}}, {map: {prompt: "then {{ steps.stage1 }}", member: n}}]}
  - ensemble: {prompt: "vote {{ item.n }}", members: [m, n, o], stop_early: true}
  - map: {name: each, over: steps.scatter_list, prompt: "each {{ item.value }}", member: m}
  - divide: {prompt: "piece {{ items }}", member: m, fits: {items: 2}, combine: {prompt: whole, member: n}}
"""  # noqa: E501
LIST = "  - ask: {name: scatter_list, prompt: list, member: l}\n"
ROSTER = """\
members:
  - {{id: m, kind: openai, model: one, base_url: "{url}/v1", price: {{input: 1, output: 1}}}}
  - {{id: n, kind: openai, model: two, base_url: "{url}/v1", price: {{input: 1, output: 1}}}}
  - {{id: o, kind: openai, model: three, base_url: "{url}/v1", price: {{input: 1, output: 1}}}}
  - {{id: l, kind: function, target: "lists:some"}}
"""


def carry(folder: Path, *, calls: int | None, resume: bool = False) -> Receipt:
    options = Options(store=str(folder / "store"), budget=Budget(calls=calls))
    job = prepare_resume("all", options) if resume else prepare(str(folder / "p.yaml"), options)
    return executed(job)


def write(folder: Path, url: str) -> None:
    at = PLAN.index("  - map: {name: each")
    (folder / "p.yaml").write_text(PLAN[:at] + LIST + PLAN[at:])
    (folder / "roster.yaml").write_text(ROSTER.format(url=url))
    (folder / "lists.py").write_text("def some(data):\n    return [1, 2, 3, 4, 5]\n")


def test_a_plan_of_all_patterns_runs_to_its_end(tmp_path: Path) -> None:
    with threaded_server(tmp_path / "books") as server:
        write(tmp_path, server.url)
        receipt = carry(tmp_path, calls=None)
        assert (receipt.status, receipt.reason) == ("complete", None)
        assert (receipt.planned, receipt.passed) == (15, 15)
        again = carry(tmp_path, calls=None)
        assert (again.status, again.calls, again.result) == ("complete", 1, receipt.result)
        books = server.books()
        assert books.paid_twice() == {}
        assert receipt.calls == books.paid_calls + 1  # the function's


@pytest.mark.parametrize(
    "steps", seeds([(1, 9, 20), (7, 8, 31), (13, 27, 40), (18, 24, 44)], quick=2)
)
def test_stopped_after_any_number_of_calls_it_pays_nothing_twice(
    tmp_path: Path, steps: tuple[int, ...]
) -> None:
    with threaded_server(tmp_path / "books") as server:
        write(tmp_path, server.url)
        first, *others = steps
        assert carry(tmp_path, calls=first).status == "paused"
        for calls in others:
            assert carry(tmp_path, calls=calls, resume=True).status == "paused"
        last = carry(tmp_path, calls=1000, resume=True)
        assert (last.status, last.planned, last.passed) == ("complete", 15, 15)
        assert server.books().paid_twice() == {}


def test_status_counts_the_calls_that_the_receipt_counts(tmp_path: Path) -> None:
    """Also those of functions that belong to no item: reduces and votes."""
    (tmp_path / "roster.yaml").write_text(
        "members:\n"
        '  - {id: a, kind: function, target: "lists:some"}\n'
        '  - {id: b, kind: function, target: "lists:some"}\n'
    )
    (tmp_path / "lists.py").write_text("def some(data):\n    return 'same'\n")
    (tmp_path / "p.yaml").write_text(
        "name: all\ninput: {count: 4}\nsteps:\n  - map: {member: a}\n"
        "  - reduce: {kind: ask, member: a, fan_in: 2}\n  - ensemble: {members: [a, b]}\n"
    )
    receipt = carry(tmp_path, calls=None)
    archive = opening.look(tmp_path / "store")
    try:
        record = archive.read.find("all")
        assert record is not None
        names = archive.read.step_names(record.no)
        counted = {
            (names[one.step], one.member): one.calls for one in accounts(archive.read, record)
        }
    finally:
        archive.close()
    assert receipt.calls == 4 + 3 + 8 == sum(counted.values())
    assert counted == {
        ("map", "a"): 4, ("reduce", "a"): 3, ("ensemble.vote", "a"): 4, ("ensemble.vote", "b"): 4,
    }  # fmt: skip
