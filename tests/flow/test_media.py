"""Images, PDFs and audio through both APIs: in their places, paid once, in the store once."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import fanfold as ff
from fanfold.errors import BadInput
from fanfold.journal.facts import RemoveRuns
from fanfold.journal.opening import open_store
from fanfold.members.roster import load_roster
from fanfold.observe.preview import preview_text
from fanfold.plans.drawing.picture import picture
from fanfold.plans.execute import Audience, execute
from fanfold.plans.inputs import open_input
from fanfold.plans.load import load_plan
from fanfold.plans.prepare import Options, prepare, prepare_resume
from fanfold.plans.preview.asks import Premises
from fanfold.plans.preview.estimate import estimate
from fanfold.price import Price
from fanfold.run.loop import run_sync
from fanfold.testing.running import threaded_server
from fanfold.testing.script import Asked, Says
from fanfold.work.outcome import Receipt
from tests import media
from tests.flow.killed_plans import carried_through
from tests.flow.small_plans import unwatched

ROSTER = """\
members:
  - {{id: o, kind: openai, model: one, base_url: "{url}/v1", max_tokens: 300, price: {{input: 1, output: 1}}, media: [image, document, audio]}}
  - {{id: a, kind: anthropic, model: one, base_url: "{url}", max_tokens: 300, price: {{input: 1, output: 1}}}}
  - {{id: plain, kind: openai, model: two, base_url: "{url}/v1", max_tokens: 300, price: {{input: 1, output: 1}}, good_at: [reading]}}
  - {{id: seeing, kind: openai, model: three, base_url: "{url}/v1", max_tokens: 300, price: {{input: 1, output: 1}}, media: [image], good_at: [reading]}}
  - {{id: cat, kind: command, cmd: [cat], price: {{call: 0}}, version: 1, media: [image]}}
  - {{id: size, kind: function, target: "tests.flow.test_media:size", version: 1}}
"""  # noqa: E501
MAP = "  - map: {{member: {member}, prompt: {prompt}}}\n"
asked: list[Asked] = []


def note(one: Asked) -> Says:
    asked.append(one)
    return Says(text="seen")


def size(item: Any) -> int:
    return int(item["size"])


def scans(folder: Path, images: int = 4, pdfs: int = 0) -> Path:
    """Pages in both formats, each different, and PDFs of two pages."""
    (folder / "scans").mkdir(exist_ok=True)
    for n in range(images):
        make, end = (media.png, "png") if n % 2 else (media.jpeg, "jpg")
        (folder / "scans" / f"page-{n:03}.{end}").write_bytes(make(120, 160, seed=n))
    for n in range(pdfs):
        texts = [f"invoice {n}, first page", f"total of {n}"]
        (folder / "scans" / f"file-{n:03}.pdf").write_bytes(media.pdf(texts))
    return folder / "scans"


def written(folder: Path, steps: str, url: str = "http://127.0.0.1:9", files: str = "*") -> Path:
    source = files if files.startswith("{") else f'{{files: "scans/{files}"}}'
    (folder / "p.yaml").write_text(f"name: killed\ninput: {source}\nsteps:\n{steps}")
    (folder / "roster.yaml").write_text(ROSTER.format(url=url))
    return folder / "p.yaml"


def carry(folder: Path, *, resume: bool = False, calls: int | None = None) -> Receipt:
    options = Options(store=str(folder / "store"), budget=ff.Budget(calls=calls))
    job = prepare_resume("killed", options) if resume else prepare(str(folder / "p.yaml"), options)
    return run_sync(execute(job, Audience(unwatched)))


def served(folder: Path) -> Any:
    asked.clear()
    return threaded_server(
        folder / "books", script=f"{__name__}:note", price=Price(input=1, output=1)
    )


def kinds(one: Asked) -> list[str]:
    return [part["type"] for part in one.body["messages"][-1]["content"]]


# ── sent ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("member", "image", "document"),
    [("o", "image_url", "file"), ("a", "image", "document")],
)
def test_each_file_is_sent_natively_once(
    tmp_path: Path, member: str, image: str, document: str
) -> None:
    with served(tmp_path) as server:
        scans(tmp_path, 4, 2)
        prompt = (
            "'{% if item.pages is defined %}{{ item | document }}"
            "{% else %}{{ item | image }}{% endif %}Read it.'"
        )
        written(tmp_path, MAP.format(member=member, prompt=prompt), server.url)
        receipt = carry(tmp_path)
        books = server.books()
    assert (receipt.status, receipt.passed, receipt.cost_usd) == ("complete", 6, books.bill / 1e9)
    assert Counter(map(tuple, map(kinds, asked))) == {(image, "text"): 4, (document, "text"): 2}
    assert len({one for entry in books.paid for one in entry.files}) == 6
    assert contents(tmp_path) == 6
    assert carry(tmp_path).calls == 0


def test_what_no_other_run_sent_goes_with_its_run(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        scans(tmp_path, 3)
        step = MAP.format(member="o", prompt="'{{ item | image }}Read it.'")
        written(tmp_path, step, server.url)
        first = carry(tmp_path).run
        (tmp_path / "scans" / "page-002.jpg").unlink()
        written(tmp_path, step.replace("Read", "Sum"), server.url)
        second = carry(tmp_path).run
    counted = [contents(tmp_path)]
    for run in (first, second):
        store = open_store(str(tmp_path / "store"))
        try:
            runs = [one for one in store.read.runs() if one.id == run]
            fact = RemoveRuns(tuple((one.no, one.session) for one in runs), replies=True)
            assert asyncio.run(_written(store, fact)) is not None
        finally:
            store.close()
        counted.append(contents(tmp_path))
    assert counted == [3, 2, 0]


async def _written(store: Any, fact: Any) -> Any:
    return await store.write(fact)


def contents(folder: Path) -> int:
    """How many files the store has, each of them once, under the hash of what is in it."""
    db = sqlite3.connect(folder / "store" / "journal.db")
    try:
        rows = db.execute(
            "select count(*), count(distinct a.hash), count(b.hash) from attached a"
            " left join blobs b on b.hash = a.hash"
        ).fetchone()
        whole = db.execute("select count(*) from blobs").fetchone()[0]
    finally:
        db.close()
    assert whole == rows[1]
    assert rows[0] == rows[2]
    return int(whole)


def test_attached_files_come_first_and_a_list_of_them_in_its_order(tmp_path: Path) -> None:
    scans(tmp_path, 3, 1)
    rows = [
        {
            "id": "r",
            "pages": ["scans/page-001.png", "scans/page-000.jpg"],
            "letter": "scans/file-000.pdf",
        }
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    step = "  - map: {member: o, prompt: Compare them., attach: [item.pages, letter]}\n"
    with served(tmp_path) as server:
        written(tmp_path, step, server.url, "{jsonl: rows.jsonl}")
        assert carry(tmp_path).passed == 1
    assert kinds(asked[0]) == ["image_url", "image_url", "file", "text"]
    assert [one.type for one in asked[0].files] == ["image/png", "image/jpeg", "application/pdf"]


def test_the_same_content_under_another_name_is_not_paid_again(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        scans(tmp_path, 2)
        step = MAP.format(member="o", prompt="'{{ item | image }}Read it.'")
        written(tmp_path, step, server.url)
        assert carry(tmp_path).calls == 2
        (tmp_path / "scans" / "page-000.jpg").rename(tmp_path / "scans" / "renamed.jpg")
        assert carry(tmp_path).calls == 0
        (tmp_path / "scans" / "renamed.jpg").write_bytes(media.jpeg(seed=77))
        assert carry(tmp_path).calls == 1


def test_a_pdf_goes_as_text_to_whom_does_not_take_it(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        scans(tmp_path, 0, 2)
        step = MAP.format(member="plain", prompt="'Sum up:\\n{{ item | document }}Briefly.'")
        written(tmp_path, step.replace("'", '"'), server.url)
        assert carry(tmp_path).passed == 2
    text = "Sum up:\n<document>\ninvoice 0, first page\n\ntotal of 0\n</document>\nBriefly."
    assert sorted(one.prompt for one in asked)[0] == text


def test_the_router_asks_only_those_who_take_the_files(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        scans(tmp_path, 4)
        step = "  - map: {needs: [reading], prompt: '{{ item | image }}Read it.'}\n"
        written(tmp_path, step, server.url)
        assert carry(tmp_path).passed == 4
    assert {one.model for one in asked} == {"three"}


def test_a_command_gets_the_path_and_a_function_the_item(tmp_path: Path) -> None:
    scans(tmp_path, 1)
    written(
        tmp_path,
        MAP.format(member="cat", prompt="'{{ item | image }}Read it.'") + "  - reduce: collect\n",
    )
    path = tmp_path / "scans" / "page-000.jpg"
    assert carry(tmp_path).result[0]["value"] == f"[image: {path}]\nRead it."
    written(tmp_path, "  - map: {member: size}\n  - reduce: collect\n")
    assert carry(tmp_path).result[0]["value"] == path.stat().st_size


def test_the_files_of_a_shard_are_under_the_ids_of_their_items(tmp_path: Path) -> None:
    def says(one: Asked) -> Says:
        asked.append(one)
        ids = json.loads("[" + one.prompt.split("same order: ")[1].split("\n")[0] + "]")
        return Says(data={"answers": [{"id": id, "answer": "ok"} for id in ids]})

    asked.clear()
    scans(tmp_path, 4)
    step = "  - map: {member: o, prompt: Read it., attach: item, shard: {items: 2}}\n"
    plan = f"name: killed\ninput: {{files: 'scans/*'}}\nsteps:\n{step}"
    done = carried_through(tmp_path, plan, says, seed=1, kills=0, roster=ROSTER)
    assert (done.receipt.passed, len(asked)) == (4, 2)
    content = asked[0].body["messages"][-1]["content"]
    assert [part["type"] for part in content] == ["text", "image_url", "text", "image_url", "text"]
    assert content[0]["text"] == '### "scans/page-000.jpg"\n'
    assert content[2]["text"] == 'Read it.\n\n### "scans/page-001.png"\n'


def test_a_reply_that_is_kicked_back_is_asked_for_with_the_file_again(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        scans(tmp_path, 1)
        gate = "gate: {regex: nowhere}"
        written(
            tmp_path,
            f"  - map: {{member: o, prompt: '{{{{ item | image }}}}Read it.', {gate}}}\n",
            server.url,
        )
        assert carry(tmp_path).kicked == 1
    assert [len(one.files) for one in asked] == [1, 1]
    assert [len(one.messages) for one in asked] == [1, 3]


def test_a_judge_sees_the_file_where_its_prompt_shows_it(tmp_path: Path) -> None:
    def says(one: Asked) -> Says:
        asked.append(one)
        return Says(data={"pass": True}) if one.schema else Says(text="a page")

    asked.clear()
    scans(tmp_path, 1)
    judge = "{judge: {member: a, prompt: '{{ item | image }}Is this right? {{ reply }}'}}"
    step = f"  - map: {{member: o, prompt: '{{{{ item | image }}}}Read it.', gate: {judge}}}\n"
    plan = f"name: killed\ninput: {{files: 'scans/*'}}\nsteps:\n{step}"
    done = carried_through(tmp_path, plan, says, seed=1, kills=0, roster=ROSTER)
    assert (done.receipt.passed, [len(one.files) for one in asked]) == (1, [1, 1])
    assert asked[0].files[0].hash == asked[1].files[0].hash


def test_examples_can_have_files(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        scans(tmp_path, 2)
        step = """\
  - map:
      member: a
      prompt: '{{ item | image }}Which page?'
      examples: [{item: {path: scans/page-000.jpg}, reply: the first}]
"""
        written(tmp_path, step, server.url, "page-001.png")
        assert carry(tmp_path).passed == 1
    assert [len(one["content"]) for one in asked[0].body["messages"]] == [2, 9, 2]


# ── killed ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("many", [40, pytest.param(120, marks=pytest.mark.sweep)])
@pytest.mark.parametrize("member", ["o", "a"])
def test_pages_and_pdfs_that_are_killed_are_paid_once(
    tmp_path: Path, member: str, many: int
) -> None:
    """A sixth of them are PDFs."""
    scans(tmp_path, many - many // 6, many // 6)
    step = f"  - map: {{member: {member}, prompt: Read it., attach: item, concurrency: 6}}\n"
    plan = f"name: killed\ninput: {{files: 'scans/*'}}\nsteps:\n{step}"
    hashes: Counter[str] = Counter()

    def says(one: Asked) -> Says:
        hashes.update(file.hash for file in one.files)
        return Says(text="seen")

    killed = carried_through(tmp_path, plan, says, seed=len(member), kills=4, roster=ROSTER)
    killed.check()
    assert (killed.receipt.passed, len(hashes), killed.kills) == (many, many, 4)
    assert contents(tmp_path) == many


# ── refused ──────────────────────────────────────────────────────────────────────────────────


def refused(folder: Path, steps: str, files: str = "*") -> str:
    written(folder, steps, files=files)
    with pytest.raises(BadInput) as caught:
        carry(folder)
    assert not (folder / "store" / "journal.db").exists() or contents(folder) == 0
    return str(caught.value).replace(str(folder), "")


def test_a_member_that_takes_no_images_is_refused_before_the_run(tmp_path: Path) -> None:
    scans(tmp_path, 1)
    why = (
        "`map`: {}member `plain` (kind openai) takes no images: name one that does, or state"
        " `media: [image]` for it in the roster if it does"
    )
    shown = refused(tmp_path, MAP.format(member="plain", prompt="'{{ item | image }}'"))
    assert shown == f"/p.yaml:4: {why.format('')}"
    step = "  - map: {member: plain, prompt: Read it., attach: item}\n"
    assert (
        refused(tmp_path, step)
        == f"/p.yaml:4: {why.format(chr(39).join(['item ', 'scans/page-000.jpg', ': ']))}"
    )


def test_a_broken_file_of_an_input_is_named(tmp_path: Path) -> None:
    (scans(tmp_path, 1) / "torn.png").write_bytes(media.png()[:-30])
    said = refused(tmp_path, MAP.format(member="o", prompt="'{{ item | image }}'"))
    assert said == "/scans/torn.png: is not a whole PNG image: it ends too early"


def test_a_pdf_of_30_mb_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (scans(tmp_path, 0) / "big.pdf").write_bytes(media.pdf(["one"], padding=30_000_000))
    said = refused(tmp_path, MAP.format(member="o", prompt="'{{ item | document }}'"))
    what = "is larger than 24.0 MB (30.0 MB), which no service takes; split it by its pages"
    assert said == f"/scans/big.pdf: {what} (docs/media.md has a program)"


def test_an_image_that_the_api_would_refuse_is_not_sent(tmp_path: Path) -> None:
    large = media.jpeg(seed=1)[:-2] + b"\0" * 4_500_000 + b"\xff\xd9"
    (scans(tmp_path, 1) / "large.jpg").write_bytes(large)
    with served(tmp_path) as server:
        written(tmp_path, MAP.format(member="a", prompt="'{{ item | image }}'"), server.url)
        receipt = carry(tmp_path)
    assert (receipt.passed, receipt.failed, len(asked)) == (1, 1, 1)
    why = "a: scans/large.jpg has 4.5 MB, and this API takes images up to 3.9 MB"
    assert [one.reason for one in receipt.reasons] == [why]


def test_a_file_that_a_row_names_is_its_items_flaw(tmp_path: Path) -> None:
    scans(tmp_path, 1)
    rows = [{"id": "good", "scan": "scans/page-000.jpg"}, {"id": "gone", "scan": "scans/none.png"},
            {"id": "text", "scan": "rows.jsonl"}, {"id": "outside", "scan": "/etc/passwd"}]  # fmt: skip
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with served(tmp_path) as server:
        step = MAP.format(member="o", prompt="'{{ item.scan | image }}Read it.'")
        written(
            tmp_path,
            step,
            server.url,
            "{jsonl: rows.jsonl}",
        )
        receipt = carry(tmp_path)
    assert (receipt.passed, receipt.failed, len(asked)) == (1, 3, 1)


def test_a_file_that_changes_while_the_run_is_paused_is_refused_by_name(tmp_path: Path) -> None:
    scans(tmp_path, 3)
    names = sorted(one.name for one in (tmp_path / "scans").iterdir())
    rows = [{"id": name, "scan": f"scans/{name}"} for name in names]
    (tmp_path / "rows.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in [*rows, {**rows[0], "id": "again", "more": 1}])
    )
    with served(tmp_path) as server:
        step = "  - map: {member: o, prompt: 'Read {{ item.id }}.', attach: scan, concurrency: 1}\n"
        written(tmp_path, step, server.url, "{jsonl: rows.jsonl}")
        assert carry(tmp_path, calls=2).status == "paused"
        (tmp_path / "scans" / names[0]).write_bytes(media.png(seed=99))
        receipt = carry(tmp_path, resume=True, calls=9)
        assert (receipt.status, receipt.passed >= 2, receipt.failed) == ("paused", True, 0)
        why = f"scans/{names[0]}: was changed after it was read in this run; restore it and resume"
        assert receipt.reason is not None and receipt.reason.startswith(why)
        (tmp_path / "scans" / names[0]).write_bytes(media.jpeg(120, 160, seed=0))
        assert carry(tmp_path, resume=True, calls=9).passed == 4
    assert len(asked) == 4


def test_a_file_of_the_input_that_changes_stops_the_run(tmp_path: Path) -> None:
    scans(tmp_path, 3)
    with served(tmp_path) as server:
        written(tmp_path, MAP.format(member="o", prompt="'{{ item | image }}'"), server.url)
        assert carry(tmp_path, calls=1).status == "paused"
        (tmp_path / "scans" / "page-002.jpg").write_bytes(media.jpeg(seed=99))
        with pytest.raises(BadInput, match=r"the input has changed since"):
            carry(tmp_path, resume=True, calls=9)
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ("attach: 7", "`attach`"),
        ("attach: [item..x]", "is not a field"),
        ("attach: steps.none.path", "no earlier step of that name"),
        ("attach: item.nothing", "reads item.nothing, but items have: path, type"),
        ("system: '{{ task | image }}'", "`image` has no use in the system: files go with an item"),
    ],
)
def test_bad_fields_are_refused_with_their_line(tmp_path: Path, fields: str, said: str) -> None:
    scans(tmp_path, 1)
    found = refused(tmp_path, f"  - map: {{member: o, prompt: x, {fields}}}\n")
    assert said in found


# ── previewed and drawn ──────────────────────────────────────────────────────────────────────


def test_a_preview_counts_files_at_their_most_and_the_picture_shows_them(tmp_path: Path) -> None:
    scans(tmp_path, 4, 2)
    step = "  - map: {member: a, prompt: Read it., attach: item}\n"
    path = written(tmp_path, step)
    plan, roster = load_plan(path), load_roster(tmp_path / "roster.yaml")
    assert plan.input is not None
    source = open_input(plan.input, plan.folder)
    found = estimate(plan, roster, source, None, Premises())
    shown = preview_text(found, 100)
    bound = 2 * 2 * 4784
    assert found.total.worst is not None and found.total.worst > 2 * bound * 1000
    assert "6 files: 4 images, 2 PDFs (4 pages)" in shown
    drawn = str(picture(plan, items=6, roster=roster))
    assert "with files: item" in drawn


# ── in Python ────────────────────────────────────────────────────────────────────────────────


def test_python_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scans(tmp_path, 2)
    monkeypatch.chdir(tmp_path)
    rows = [
        {"id": str(n), "scan": str(path)}
        for n, path in enumerate(sorted((tmp_path / "scans").iterdir()))
    ]
    with served(tmp_path) as server:
        url = f"{server.url}/v1"
        member = ff.openai("one", base_url=url, price={"input": 1, "output": 1}, media=["image"])

        async def main(**how: Any) -> Any:
            async with ff.open_run("s", members=[member], store=str(tmp_path / "store")) as run:
                return await ff.map_reduce(run, rows, **how)

        assert run_sync(main(prompt="Read it.", attach="item.scan")).receipt.passed == 2
        assert run_sync(main(prompt="{{ item.scan | image }}Read it.")).receipt.calls == 0
        with pytest.raises(BadInput, match=r"member `one` \(kind openai\) takes no audio"):
            run_sync(main(prompt="{{ item.scan | audio }}"))
        with pytest.raises(BadInput, match="`attach"):
            run_sync(main(prompt="x", attach=[7]))
    assert [kinds(one) for one in asked] == [["image_url", "text"]] * 2
