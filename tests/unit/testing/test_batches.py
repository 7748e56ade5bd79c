"""The batch services of the model server, as the official clients see them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fanfold.price import Price
from fanfold.testing.batches import BatchTimes
from fanfold.testing.books import ServerBooks
from fanfold.testing.running import threaded_server
from fanfold.testing.script import Asked, Says
from fanfold.work.ask import Usage
from tests.waiting import LONG

pytestmark = pytest.mark.slow  # the clients take long to import

PRICE = Price(input=1.0, output=5.0)
FULL = 100 * 1_000 + 10 * 5_000
MODEL = "m"


def script(asked: Asked) -> Says:
    """By the words of a line: late, wrong, or answered."""
    if "late" in asked.prompt:
        return Says(hang=True)
    if "wrong" in asked.prompt:
        return Says(status=400, message="no such thing")
    return Says(usage=Usage(100, 10))


class Served(NamedTuple):
    """A server, and what closes the clients of it."""

    url: str
    clients: ExitStack


@contextmanager
def serving(tmp_path: Path, **service: Any) -> Iterator[Served]:
    with (
        ExitStack() as clients,
        threaded_server(
            tmp_path / "books",
            script="tests.unit.testing.test_batches:script",
            price=PRICE,
            batches=BatchTimes(**service),
        ) as server,
    ):
        yield Served(server.url, clients)


def wait(look: Any, done: Any) -> Any:
    deadline = time.monotonic() + LONG
    while not done(found := look()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def bill(tmp_path: Path) -> ServerBooks:
    return ServerBooks.read(tmp_path / "books")


# ── Anthropic ────────────────────────────────────────────────────────────────────────────────


def claude(server: Served) -> Any:
    import anthropic

    client = anthropic.Anthropic(api_key="k", base_url=server.url, max_retries=0)
    return server.clients.enter_context(client).messages.batches


def asks(*prompts: str) -> list[Any]:
    return [
        {
            "custom_id": f"ask-{n}",
            "params": {
                "model": MODEL,
                "max_tokens": 50,
                "messages": [{"role": "user", "content": prompt}],
            },
        }
        for n, prompt in enumerate(prompts)
    ]


def test_anthropic_results_come_in_any_order_at_half_the_price(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        batches = claude(server)
        made = batches.create(requests=asks(*(f"item {n}" for n in range(9)), "wrong"))
        ended = wait(
            lambda: batches.retrieve(made.id), lambda one: one.processing_status == "ended"
        )
        counts = ended.request_counts
        assert (counts.succeeded, counts.errored, counts.processing) == (9, 1, 0)
        results = list(batches.results(made.id))
        assert {one.custom_id for one in results} == {f"ask-{n}" for n in range(10)}
        assert [one.custom_id for one in results] != [f"ask-{n}" for n in range(10)]
        told = {one.custom_id: one.result for one in results}
        assert told["ask-3"].message.content[0].text == "item 3"
        assert told["ask-3"].message.usage.input_tokens == 100
        assert told["ask-9"].error.error.message == "no such thing"
        assert batches.delete(made.id).type == "message_batch_deleted"
    assert bill(tmp_path).bill == 9 * FULL // 2


def test_anthropic_cancelled_and_expired_lines_are_not_billed(tmp_path: Path) -> None:
    with serving(tmp_path, cancelling=0.1) as server:
        batches = claude(server)
        made = batches.create(requests=asks("a", "late"))
        wait(lambda: bill(tmp_path).paid_calls, lambda many: many == 1)
        assert batches.cancel(made.id).processing_status == "canceling"
        wait(lambda: batches.retrieve(made.id), lambda one: one.processing_status == "ended")
        ends = {one.custom_id: one.result.type for one in batches.results(made.id)}
        assert ends == {"ask-0": "succeeded", "ask-1": "canceled"}
    with serving(tmp_path, expires=0.2) as server:
        batches = claude(server)
        made = batches.create(requests=asks("late"))
        wait(lambda: batches.retrieve(made.id), lambda one: one.processing_status == "ended")
        assert [one.result.type for one in batches.results(made.id)] == ["expired"]
    assert bill(tmp_path).paid_calls == 1


def test_anthropic_lists_the_newest_first_in_pages_also_after_a_restart(tmp_path: Path) -> None:
    with serving(tmp_path, folder=tmp_path / "kept") as server:
        made = [claude(server).create(requests=asks("a")).id for _ in range(5)]
        late = claude(server).create(requests=asks("late", "b")).id
        wait(lambda: bill(tmp_path).paid_calls, lambda many: many == 6)
    with serving(tmp_path, folder=tmp_path / "kept") as server:
        batches = claude(server)
        first = batches.list(limit=2)
        assert [one.id for one in first.data] == [late, made[4]]
        assert first.has_more
        assert [one.id for one in batches.list(limit=2)] == [late, *reversed(made)]
        assert batches.retrieve(made[0]).processing_status == "ended"
        assert batches.retrieve(late).processing_status == "in_progress"
        batches.cancel(late)
        wait(lambda: batches.retrieve(late), lambda one: one.processing_status == "ended")
        ends = {one.custom_id: one.result.type for one in batches.results(late)}
        assert ends == {"ask-0": "canceled", "ask-1": "succeeded"}
    assert bill(tmp_path).paid_calls == 6


def test_anthropic_refuses_lines_that_cannot_be_told_apart(tmp_path: Path) -> None:
    import anthropic

    with serving(tmp_path) as server:
        twice = [asks("a")[0], asks("b")[0]]
        with pytest.raises(anthropic.BadRequestError, match="unique"):
            claude(server).create(requests=twice)
        wrong = [{**asks("a")[0], "custom_id": "a:b"}]
        with pytest.raises(anthropic.BadRequestError, match="pattern"):
            claude(server).create(requests=wrong)


# ── OpenAI ───────────────────────────────────────────────────────────────────────────────────


def gpt(server: Served) -> Any:
    import openai

    client = openai.OpenAI(api_key="k", base_url=f"{server.url}/v1", max_retries=0)
    return server.clients.enter_context(client)


def lines(*prompts: str, url: str = "/v1/chat/completions") -> bytes:
    return b"".join(
        json.dumps(
            {
                "custom_id": one["custom_id"],
                "method": "POST",
                "url": url,
                "body": one["params"],
            }
        ).encode()
        + b"\n"
        for one in asks(*prompts)
    )


def create(client: Any, data: bytes, **more: Any) -> Any:
    file = client.files.create(file=("in.jsonl", data), purpose="batch")
    return client.batches.create(
        input_file_id=file.id,
        endpoint="/v1/chat/completions",
        completion_window="24h",
        **more,
    )


def results(client: Any, file: str | None) -> dict[str, Any]:
    text = client.files.content(file).text if file else ""
    return {one["custom_id"]: one for one in map(json.loads, text.splitlines())}


DONE = ("completed", "failed", "expired", "cancelled")


def test_openai_has_results_and_errors_in_two_files_at_half_the_price(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        client = gpt(server)
        made = create(client, lines("item 0", "item 1", "wrong"), metadata={"fanfold": "s1"})
        ended = wait(lambda: client.batches.retrieve(made.id), lambda one: one.status in DONE)
        assert (ended.status, ended.metadata) == ("completed", {"fanfold": "s1"})
        assert ended.request_counts.model_dump() == {"completed": 2, "failed": 1, "total": 3}
        good = results(client, ended.output_file_id)
        assert set(good) == {"ask-0", "ask-1"}
        told = good["ask-1"]["response"]["body"]
        assert told["choices"][0]["message"]["content"] == "item 1"
        bad = results(client, ended.error_file_id)
        assert bad["ask-2"]["response"]["status_code"] == 400
        client.files.delete(ended.output_file_id)
    assert bill(tmp_path).bill == FULL


def test_openai_keeps_what_was_done_before_a_batch_was_cancelled_or_expired(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, cancelling=0.1) as server:
        client = gpt(server)
        made = create(client, lines("a", "late"))
        wait(lambda: bill(tmp_path).paid_calls, lambda many: many == 1)
        assert client.batches.cancel(made.id).status == "cancelling"
        ended = wait(lambda: client.batches.retrieve(made.id), lambda one: one.status in DONE)
        assert ended.status == "cancelled"
        assert set(results(client, ended.output_file_id)) == {"ask-0"}
        bad = results(client, ended.error_file_id)
        assert bad["ask-1"]["error"]["code"] == "batch_cancelled"
    with serving(tmp_path, expires=0.2) as server:
        client = gpt(server)
        made = create(client, lines("b", "late"))
        ended = wait(lambda: client.batches.retrieve(made.id), lambda one: one.status in DONE)
        assert ended.status == "expired"
        assert results(client, ended.error_file_id)["ask-1"]["error"]["code"] == "batch_expired"
    assert bill(tmp_path).paid_calls == 2


def test_openai_lists_in_pages_also_after_a_restart(tmp_path: Path) -> None:
    with serving(tmp_path, folder=tmp_path / "kept") as server:
        client = gpt(server)
        made = [create(client, lines("a"), metadata={"n": str(n)}).id for n in range(5)]
        wait(lambda: bill(tmp_path).paid_calls, lambda many: many == 5)
    with serving(tmp_path, folder=tmp_path / "kept") as server:
        client = gpt(server)
        assert [one.id for one in client.batches.list(limit=2)] == made[::-1]
        assert [one.metadata["n"] for one in client.batches.list(limit=2).data] == ["4", "3"]
        ended = client.batches.retrieve(made[0])
        assert set(results(client, ended.output_file_id)) == {"ask-0"}
    assert bill(tmp_path).paid_calls == 5


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (lines("a") + lines("b"), "duplicate_custom_id"),
        (b"{}\n", "invalid_json_line"),
        (lines("a", url="/v1/other"), "mismatched_endpoint"),
        (b"", "empty_file"),
    ],
)
def test_openai_fails_a_batch_whose_file_is_wrong(tmp_path: Path, data: bytes, code: str) -> None:
    with serving(tmp_path) as server:
        made = create(gpt(server), data)
        assert (made.status, made.errors.data[0].code) == ("failed", code)
