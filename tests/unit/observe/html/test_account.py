"""The page of a run: every section, nothing of data as markup, small however large the run."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from fanfold.journal.answers import EndedItem
from fanfold.observe.amounts import duration, local_time
from fanfold.observe.html.account import account_page, result_page
from fanfold.patterns.fold import collect
from fanfold.testing.clock import EPOCH
from fanfold.testing.member import Scripted, traits
from fanfold.work.ask import Reply, Usage
from fanfold.work.outcome import PASS, Verdict, fail
from fanfold.work.task import Task
from tests.unit.observe.html.parsed import Parsed
from tests.unit.observe.runs import (
    STUMBLED,
    accounted,
    answering,
    contracts,
    crashed,
    ran,
    reviewed,
)

ATTACK = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'>`|**_"
ELEMENTS = {
    "html", "head", "meta", "title", "style", "body", "header", "h1", "p", "span", "code", "dl",
    "div", "dt", "dd", "nav", "a", "main", "section", "h2", "h3", "table", "caption", "thead",
    "tbody", "tr", "th", "td", "svg", "rect", "line", "text", "path", "ul", "li", "q", "br",
    "details", "summary", "pre", "footer", "script", "strong", "em", "template",
}  # fmt: skip


def sections(html: str) -> dict[str, Parsed]:
    """The parts of a page by their titles."""
    parts = html.split("<section ")[1:]
    read = [Parsed(f"<section {part.partition('</section>')[0]}</section>") for part in parts]
    return {one.texts[1]: one for one in read}


def test_all_sections_of_a_run_with_all_kinds_of_outcomes(tmp_path: Path) -> None:
    seconds = duration(reviewed(tmp_path / "s").seconds)
    html = account_page(accounted(tmp_path / "s", "contract-review"))
    page, parts = Parsed(html), sections(html)
    assert list(parts) == [
        "Receipt", "Result", "What the gate caught", "Items", "Cost and time", "Timeline", "Tree",
        "In doubt",
    ]  # fmt: skip
    assert page.text.startswith(
        "contract-review contract-review flagged 3 of 10 items did not pass"
        f" Started {local_time(EPOCH)}, run 01J items passed 7 of 10 cost ≤$0.0070 of $5.00"
        f" calls 16 active time {seconds} Receipt Result What the gate caught"
    )
    assert parts["Result"].text.startswith(
        "Result Based on 7 of 10 items. Number by severity high high: 3 3"
    )
    assert parts["What the gate caught"].text == (
        "What the gate caught 1 item passed after a kick-back: contract-001."
        " item outcome reasons how the reply begins member cost"
        " contract-002 kicked missing or empty: `evidence` severity: medium, clause: a | b haiku $0.0010"
        " contract-003 failed 503: overloaded | try again `later` (after 4 attempts) $0.00"
        f" contract-005 unjudged {STUMBLED}"
        " severity: medium, clause: a | b, evidence: sentence 5 haiku $0.0005"
    )
    assert parts["Items"].text.startswith(
        "Items contract-002 · kicked · haiku · $0.0010 missing or empty: `evidence`"
        ' { "severity": "medium", "clause": "a | b" }'
        " contract-003 · failed · $0.00 503: overloaded | try again `later` (after 4 attempts) No reply."
    )
    assert parts["Items"].text.count('"evidence": "sentence') == 8
    assert parts["Items"].text.endswith(
        "Those that did not pass come first. All of one item, with its input, prompts and attempts:"
        " fanfold show 01J ITEM"
    )
    assert "planned 10 passed 7 kicked 1 failed 1 skipped 0" in parts["Receipt"].text
    assert "haiku 16 9 0 4 3,740 16s ≤$0.0070" in parts["Cost and time"].text
    assert "map 16 0 3,300 440 4.5s ≤$0.0070" in parts["Cost and time"].text
    assert len(parts["Timeline"].all("rect")) == 1 + 16 + 2  # the lane, its calls, the legend
    assert "in doubt: haiku: no answer within 60 s" in parts["Tree"].text
    assert "1 attempt was lost under way" in parts["In doubt"].text


def test_a_fine_run_has_no_more_than_it_needs(tmp_path: Path) -> None:
    ran(tmp_path / "s", "fine", [answering()], contracts(2))
    parts = sections(account_page(accounted(tmp_path / "s", "fine")))
    assert list(parts) == [
        "Receipt", "Result", "What the gate caught", "Items", "Cost and time", "Timeline", "Tree",
    ]  # fmt: skip
    assert parts["Result"].text == "Result There is no result."
    assert parts["What the gate caught"].text.endswith("No item was kicked, unjudged or failed.")


def test_a_crashed_run_says_so(tmp_path: Path) -> None:
    crashed(tmp_path / "s")
    page = Parsed(account_page(accounted(tmp_path / "s", "nightly")))
    assert "crashed its process died; resume it to continue" in page.text
    assert "There is no result yet." in page.text
    assert "4 attempts were lost under way" in page.text


def test_nothing_of_data_is_markup(tmp_path: Path) -> None:
    """Names, ids, replies, reasons, results: wherever a stranger's text can come to stand."""

    def script(ask: Any, n: int) -> Reply:
        return Reply(data={ATTACK: ATTACK, "kind": ATTACK[:30]}, usage=Usage(1, 1))

    member = Scripted(script, traits(ATTACK), latency=1.0)
    items = [{"id": f"{n} {ATTACK}", "text": "x"} for n in range(12)]
    bad = [*items, {"id": "bad", "text": "x"}]
    ran(tmp_path / "s", "run", [member], bad, step=ATTACK, revise=0, reduce=collect(), gate=_fails)
    found = accounted(tmp_path / "s", "run")
    run = msgspec.structs.replace(found.summary.run, name=ATTACK, reason=ATTACK)
    receipt = msgspec.structs.replace(found.receipt, reason=ATTACK)
    found = msgspec.structs.replace(
        found, receipt=receipt, summary=msgspec.structs.replace(found.summary, run=run)
    )
    html = account_page(found)
    page = Parsed(html)
    assert page.tags <= ELEMENTS
    assert html.count("<script>") == 1
    assert page.text.count("<script>alert(1)</script>") > 10


def _fails(task: Task, reply: Reply, ask: Any) -> Verdict:
    return fail(ATTACK) if task.id == "bad" else PASS


def test_a_large_run_has_a_small_page(tmp_path: Path) -> None:
    """A thousand items, a third of them caught: what is listed is cut, and it says so."""

    def script(ask: Any, n: int) -> Reply:
        return Reply("" if n % 3 == 0 else "x" * 300, usage=Usage(1, 1))

    member = Scripted(script, traits("m"), latency=1.0)
    ran(tmp_path / "s", "large", [member], contracts(1000), revise=0, concurrency=100,
        reduce=lambda parts: [{"id": p.id, "text": p.value} for p in parts])  # fmt: skip
    html = account_page(accounted(tmp_path / "s", "large"))
    parts = sections(html)
    assert len(html) < 500_000
    assert len(parts["Result"].all("tr")) == 1 + 50
    assert len(parts["What the gate caught"].all("tr")) == 1 + 100
    assert "only the first 100 are shown" in parts["What the gate caught"].text
    assert len(parts["Timeline"].all("path")) == 1
    assert len(parts["Tree"].all("tr")) < 20


def enlarged(store: Path, replies: list[Any], result: Any) -> str:
    """The page of a run with so many items, each with its reply, and this result."""
    ran(store, "many", [answering()], contracts(2))
    found = accounted(store, "many")
    items = tuple(
        EndedItem(f"item-{n:05}", "passed", (), "m", 1000, one) for n, one in enumerate(replies)
    )
    many = len(replies)
    receipt = replace(found.receipt, planned=many, passed=many, result=result)
    return account_page(replace(found, receipt=receipt, items=items))


def test_ten_thousand_records_are_on_a_page_of_less_than_half_a_megabyte(tmp_path: Path) -> None:
    """All of them, and a reply for each item, though only some stand there at first."""
    kinds = ("payment", "notice", "term")
    replies = [
        {"kind": kinds[n % 3], "level": n % 5, "note": f"clause {n % 70} of {n % 11}"}
        for n in range(10_000)
    ]
    html = enlarged(tmp_path / "s", replies, [{"id": n, **one} for n, one in enumerate(replies)])
    assert len(html.encode()) < 500_000
    parts = sections(html)
    assert list(parts)[:2] == ["Receipt", "Result"]
    (records,), (texts,) = parts["Result"].packed, parts["Items"].packed
    assert {len(column) for column in (*records, *texts)} == {10_000}
    assert [column[-1] for column in records] == ["9999", "payment", "4", "clause 59 of 0"]
    assert len(parts["Items"].all("details")) == 20
    assert texts[0][-1] == "item-09999 · passed · m · $0.000001"
    assert msgspec.json.decode(texts[2][-1]) == replies[-1]


def test_whatever_results_and_replies_are_a_page_stays_small(tmp_path: Path) -> None:
    """Noise that cannot be packed, and long texts: as much as there is room for, and it says so."""
    noise = [
        "".join(sha256(f"{n} {k}".encode()).hexdigest() for k in range(20)) for n in range(1000)
    ]
    for n, result in enumerate(([{"text": one} for one in noise], "\n".join(noise))):
        html = enlarged(tmp_path / str(n), noise, result)
        assert 200_000 < len(html.encode()) < 500_000
        assert "of 1,000 are on this page." in sections(html)["Items"].text


def test_a_plan_s_own_page_has_the_result_alone() -> None:
    page = Parsed(result_page("my <plan>", [{"a": 1, "b": ATTACK}], 7))
    assert page.tags <= ELEMENTS
    assert page.text.startswith(f"my <plan> my <plan> Result a b 1 {ATTACK} The result as JSON")
    assert page.text.endswith("7 items more passed; only the first are on this page.")
    assert "The result is empty." in Parsed(result_page("p", [])).text
