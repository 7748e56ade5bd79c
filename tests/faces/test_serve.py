"""`fanfold serve` with the official OpenAI client: answers, streams, refusals, and the account."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import msgspec
import openai
import pytest
from openai import OpenAI

from fanfold.errors import Terminal, Transient
from fanfold.faces.serve.service import ParentRuns
from fanfold.members.roster import RosterEnsemble
from fanfold.patterns.delegate import new_run
from fanfold.price import Price, dollars
from fanfold.run.member_sources import GivenMembers
from fanfold.run.settings import Settings
from fanfold.testing.member import Scripted, traits
from fanfold.testing.running import RunningServer, threaded_server
from fanfold.work.ask import Ask, Reply
from fanfold.work.task import Budget
from tests.faces.cli import fanfold, started
from tests.faces.project import write_project
from tests.faces.serving import (
    KEY,
    Endpoint,
    Speaker,
    endpoint,
    reply,
    serving,
    text_of,
    without,
)

Say = Callable[[str], None]
USAGE = {
    "completion_tokens": 5, "prompt_tokens": 10, "total_tokens": 15,
    "prompt_tokens_details": {"cached_tokens": 0},
}  # fmt: skip
SCHEMA = {
    "type": "json_schema",
    "json_schema": {
        "name": "answer",
        "schema": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}},
    },
}


def echo(id: str = "m", **changes: Any) -> Scripted:
    return Scripted(
        lambda ask, n: reply(f"{id}: {ask.messages[-1].content}"), traits(id, **changes)
    )


def fails(error: openai.APIStatusError) -> tuple[int, str | None, str]:
    return error.status_code, error.code, error.body["message"]  # type: ignore[index]


# ── as its users have it: a process, the client, a model server ──────────────────────────────


def test_the_official_client_works_against_it_streaming_and_not(
    tmp_path: Path, quick_server: RunningServer
) -> None:
    folder = tmp_path / "project"
    write_project(folder, quick_server.url)
    with serving(folder, "--budget", "100") as up:
        with OpenAI(base_url=up.url, api_key=KEY) as client:
            assert [model.id for model in client.models.list()] == ["auto", "m"]
            assert client.models.retrieve("m").id == "m"
            ask: dict[str, Any] = {"messages": [{"role": "user", "content": "Say it all"}]}
            whole = client.chat.completions.create(model="m", **ask)
            with client.chat.completions.create(
                model="auto", messages=[{"role": "user", "content": "And again"}], stream=True,
                stream_options={"include_usage": True},
            ) as stream:  # fmt: skip
                chunks = list(stream)
        up.program.send(SIGTERM)
        ended = up.program.end()
    assert whole.choices[0].message.content == "Say it all"
    assert (whole.object, whole.model, whole.choices[0].finish_reason) == (
        "chat.completion", "m", "stop",
    )  # fmt: skip
    assert text_of(chunks) == "And again"
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    assert whole.usage and chunks[-1].usage
    books = quick_server.books()
    assert whole.usage.total_tokens + chunks[-1].usage.total_tokens == sum(
        entry.usage.total for entry in books.paid
    )
    title, items, *_ = ended.err.splitlines()[-4:]
    assert (ended.code, title, items) == (0, "serve complete", "2 of 2 done: 2 passed")
    shown = fanfold(folder, "status", "serve", "--json").receipt
    assert shown["cost_usd"] == pytest.approx(dollars(books.bill))
    assert KEY not in ended.err + ended.out


@pytest.mark.parametrize("key", ["wrong", "", "ff-tes", "ff-testé"])
def test_a_wrong_key_is_401_and_nobody_is_asked(
    tmp_path: Path, server: RunningServer, key: str
) -> None:
    folder = tmp_path / "project"
    write_project(folder, server.url)
    with serving(folder) as up:
        status, body = raw_post(up.url, key, b"{}")
        up.program.send(SIGINT)
        up.program.end()
    assert (status, body) == (
        401,
        {
            "error": {
                "message": "the key is wrong or missing",
                "type": "invalid_request_error",
                "param": None,
                "code": "invalid_api_key",
            }
        },
    )
    assert server.totals().asked == 0


def raw_post(url: str, key: str, body: bytes) -> tuple[int, Any]:
    headers = {"authorization": f"Bearer {key}".encode().decode("latin-1")} if key else {}
    try:
        with urlopen(Request(f"{url}/chat/completions", data=body, headers=headers)) as response:
            return response.status, msgspec.json.decode(response.read())
    except HTTPError as error:
        with error:
            return error.code, msgspec.json.decode(error.read())


def test_a_signal_lets_what_is_under_way_end_and_a_second_one_cancels_it(
    tmp_path: Path, server: RunningServer
) -> None:
    """The server's first replies wait until they are released."""
    folder = tmp_path / "project"
    write_project(folder, server.url)
    with serving(folder) as up:
        answers, requests = ask_in_threads(up.url, ["one"])
        up.program.until(lambda: server.totals().in_flight == 1)
        up.program.send(SIGTERM)
        up.program.until_it_says("waiting for it")
        server.release()
        ended = up.program.end()
        requests()
    assert (answers, ended.code) == ({"one": "one"}, 0)
    with serving(folder) as up:
        answers, requests = ask_in_threads(up.url, ["two"])
        up.program.until(lambda: server.totals().in_flight == 1)
        up.program.send(SIGTERM)
        up.program.until_it_says("waiting for it")
        up.program.send(SIGTERM)
        ended = up.program.end()
        requests()
    shown = fanfold(folder, "status", "serve", "--json").receipt
    assert (answers, ended.code) == ({"two": "InternalServerError"}, 3)
    assert (shown["status"], shown["in_doubt"]) == ("killed", 1)


def ask_in_threads(url: str, texts: list[str]) -> tuple[dict[str, Any], Callable[[], None]]:
    answers: dict[str, Any] = {}

    def ask(text: str) -> None:
        with OpenAI(base_url=url, api_key=KEY, max_retries=0) as client:
            try:
                messages: Any = [{"role": "user", "content": text}]
                found = client.chat.completions.create(model="m", messages=messages)
                answers[text] = found.choices[0].message.content
            except openai.OpenAIError as error:
                answers[text] = type(error).__name__

    threads = [threading.Thread(target=ask, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    return answers, lambda: [thread.join() for thread in threads] and None


def test_what_is_wrong_shows_before_a_run_is_on_record(tmp_path: Path) -> None:
    write_project(tmp_path, "http://127.0.0.1:9")
    pasted = fanfold(tmp_path, "serve", "--key", "sk-very-secret")
    assert (pasted.code, pasted.err) == (
        2, "fanfold: --key is env:NAME or file:PATH, never the key itself\n",
    )  # fmt: skip
    unset = fanfold(tmp_path, "serve", "--key", "env:NO_SUCH")
    assert unset.err == "fanfold: --key env:NO_SUCH: there is no key; set it, or omit --key\n"
    with threaded_server(tmp_path / "books") as other:
        port = other.url.rpartition(":")[2]
        taken = fanfold(tmp_path, "serve", "--port", port)
    assert taken.code == 2
    assert f"port {port} cannot be used" in taken.err
    gone = fanfold(tmp_path, "serve", "--roster", "nowhere.yaml")
    assert (gone.code, "nowhere.yaml" in gone.err) == (2, True)
    assert not (tmp_path / ".fanfold").exists()


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    for package in ("starlette", "uvicorn"):
        done = without(package, tmp_path, "serve")
        assert (done.returncode, done.stderr) == (
            2, f"fanfold: serve needs {package}; install it: pip install 'fanfold[serve]'\n",
        )  # fmt: skip


def test_a_new_key_is_shown_once_and_works(tmp_path: Path, server: RunningServer) -> None:
    folder = tmp_path / "project"
    write_project(folder, server.url)
    with started(folder, "serve", "--port", "0") as program:
        program.until(lambda: program.shown.endswith("/v1\n"))
        (line,) = [line for line in program.said.splitlines() if line.startswith("key: ")]
        with OpenAI(base_url=program.shown.strip(), api_key=line.removeprefix("key: ")) as client:
            assert [model.id for model in client.models.list()] == ["auto", "m"]
        program.send(SIGINT)
        assert program.end().err.count(line) == 1


# ── money ────────────────────────────────────────────────────────────────────────────────────


def test_over_budget_is_a_402_that_the_client_sends_once(tmp_path: Path) -> None:
    """And it stops nobody else: a request that fits is answered."""
    member = echo()

    async def main() -> None:
        async with endpoint(tmp_path, member, budget=Budget(usd=0.002)) as here:
            with pytest.raises(openai.APIStatusError) as caught:
                await here.said("much", max_tokens=1_000_000)
            found = fails(caught.value)
            assert found[:2] == (402, "insufficient_quota")
            assert found[2].startswith("out of budget: dollars of the run: $0.002000 left")
            assert here.run.statistics().planned == 1, "one request, not tried again"
            answer = await here.said("little", max_tokens=1)
            assert answer.choices[0].message.content == "m: little"
        receipt = here.run.closing
        assert receipt is not None
        assert (receipt.planned, receipt.passed, receipt.unfunded, receipt.status) == (
            2, 1, 1, "flagged",
        )  # fmt: skip

    asyncio.run(main())
    assert member.asked == ["little"]


def test_many_requests_at_once_never_pass_the_budget(tmp_path: Path) -> None:
    member = echo()

    async def main() -> tuple[int, Any]:
        async with endpoint(tmp_path, member, budget=Budget(calls=7)) as here:
            asked = [here.said(f"request {n}") for n in range(25)]
            found = await asyncio.gather(*asked, return_exceptions=True)
        refused = [error for error in found if isinstance(error, openai.APIStatusError)]
        assert {error.status_code for error in refused} == {402}
        return len(refused), here.run.closing

    refused, receipt = asyncio.run(main())
    assert (refused, len(member.asked)) == (18, 7)
    assert (receipt.planned, receipt.passed, receipt.unfunded) == (25, 7, 18)


def test_an_ensemble_over_budget_is_a_402_too(tmp_path: Path) -> None:
    members = echo("m"), echo("k")
    both = {"both": RosterEnsemble(members=("m", "k"))}

    async def main() -> None:
        async with endpoint(tmp_path, *members, budget=Budget(usd=1e-6), ensembles=both) as here:
            with pytest.raises(openai.APIStatusError) as caught:
                await here.said("x", "both")
            assert fails(caught.value)[:2] == (402, "insufficient_quota")

    asyncio.run(main())
    assert [member.asked for member in members] == [[], []]


# ── never pay twice ──────────────────────────────────────────────────────────────────────────


def test_the_same_content_is_answered_from_the_journal_unless_it_is_to_be_new(
    tmp_path: Path,
) -> None:
    member = Scripted(lambda ask, n: reply(f"answer {n}"), traits("m"))

    async def main() -> list[tuple[str, bool, float]]:
        found = []
        async with endpoint(tmp_path, member) as here:
            new = {"X-Fanfold-Fresh": "1"}
            for more in ({}, {}, {"seed": 7}, {"seed": 7}, {"extra_headers": new}, {}):
                answer = await here.said("x", **more)
                about = answer.fanfold
                found.append(
                    (answer.choices[0].message.content, about["reused"], about["cost_usd"])
                )
            chunks = await here.streamed("x", stream_options={"include_usage": True})
            assert [c.choices[0].delta.content for c in chunks if c.choices] == [
                "", "answer 0", None,
            ]  # fmt: skip
            assert chunks[-1].usage.to_dict() == USAGE
        return found

    paid = 35e-6
    assert asyncio.run(main()) == [
        ("answer 0", False, paid), ("answer 0", True, 0.0), ("answer 1", False, paid),
        ("answer 1", True, 0.0), ("answer 2", False, paid), ("answer 0", True, 0.0),
    ]  # fmt: skip


def test_an_answer_nobody_waits_for_is_finished_and_serves_the_next(tmp_path: Path) -> None:
    """A client that gives up and asks again does not pay again."""

    async def main() -> None:
        began, go_on = asyncio.Event(), asyncio.Event()

        async def slow(ask: Ask, n: int) -> Reply:
            began.set()
            await go_on.wait()
            return reply("at last")

        member = Scripted(lambda ask, n: slow(ask, n), traits("m"))
        async with endpoint(tmp_path, member) as here:
            for stream in (False, True):
                began.clear()
                go_on.clear()
                first = asyncio.ensure_future(here.said(f"x {stream}", stream=stream))
                await began.wait()
                first.cancel()
                await asyncio.gather(first, return_exceptions=True)
                again = asyncio.ensure_future(here.said(f"x {stream}"))
                go_on.set()
                answer = await again
                assert answer.choices[0].message.content == "at last"
                assert answer.fanfold["reused"] is True
        assert member.asked == ["x False", "x True"]

    asyncio.run(main())


# ── streaming ────────────────────────────────────────────────────────────────────────────────


def test_what_a_member_says_is_handed_on_while_it_speaks(tmp_path: Path) -> None:
    async def main() -> None:
        heard = asyncio.Event()

        async def speech(ask: Ask, n: int, say: Say) -> Reply:
            say("one, ")
            await heard.wait()
            say("two")
            return reply("one, two")

        async with endpoint(tmp_path, Speaker(speech)) as here:
            found = []
            async for chunk in await here.said("count", stream=True):
                found.append((chunk.choices[0].delta.content, chunk.choices[0].finish_reason))
                if chunk.choices[0].delta.content == "one, ":
                    heard.set()
        assert found == [("", None), ("one, ", None), ("two", None), (None, "stop")]

    asyncio.run(main())


def test_an_error_in_mid_stream_is_an_event(tmp_path: Path) -> None:
    async def speech(ask: Ask, n: int, say: Say) -> Reply:
        say("one, ")
        raise Terminal("m: it will not do", scope="ask")

    async def main() -> None:
        async with endpoint(tmp_path, Speaker(speech)) as here:
            found, error = await heard(here, "count")
            assert (found, error and error.code) == ("one, ", "member_failed")
            assert str(error) == "no member gave an answer: m: it will not do"
        assert here.run.closing is not None
        assert (here.run.closing.planned, here.run.closing.failed) == (1, 1)

    asyncio.run(main())


@pytest.mark.parametrize("whole", ["one, two", "first, second"])
def test_a_second_try_goes_on_where_the_first_broke_off_or_says_that_it_cannot(
    tmp_path: Path, whole: str
) -> None:
    """What the client has cannot be taken back."""

    async def speech(ask: Ask, n: int, say: Say) -> Reply:
        if n == 0:
            say("one, ")
            raise Transient("m: cut")
        say(whole)
        return reply(whole)

    async def main() -> tuple[str, str | None]:
        async with endpoint(tmp_path, Speaker(speech)) as here:
            found, error = await heard(here, "count")
            again = await here.said("count")
            assert (again.choices[0].message.content, again.fanfold["reused"]) == (whole, True)
            return found, None if error is None else error.code

    ends = {"one, two": ("one, two", None), "first, second": ("one, ", "broke_off")}
    assert asyncio.run(main()) == ends[whole]


async def heard(here: Endpoint, content: str) -> tuple[str, openai.APIError | None]:
    """What came of a stream, and the error it ended with."""
    found = ""
    try:
        async for chunk in await here.said(content, stream=True):
            found += chunk.choices[0].delta.content or ""
    except openai.APIError as error:
        return found, error
    return found, None


def test_with_a_schema_nothing_is_handed_on_before_it_passed(tmp_path: Path) -> None:
    """The first reply is not valid, so it is kicked back; only the revised one is seen."""

    async def speech(ask: Ask, n: int, say: Say) -> Reply:
        text = '{"n": "one"}' if n == 0 else '{"n": 1}'
        say(text)
        return reply(text, data={"n": "one" if n == 0 else 1})

    async def main() -> None:
        member = Speaker(speech)
        async with endpoint(tmp_path, member) as here:
            chunks = await here.streamed("x", response_format=SCHEMA)
            assert [c.choices[0].delta.content for c in chunks] == ["", '{"n": 1}', None]
        assert len(member.asked) == 2

    asyncio.run(main())


# ── verdicts in OpenAI's words ───────────────────────────────────────────────────────────────


def test_a_cut_off_reply_ends_with_length_and_a_refusal_is_one(tmp_path: Path) -> None:
    replies = {"long": reply("half a", finish="length"), "bad": reply("No.", finish="refusal"),
               "words": reply("I cannot help with that.")}  # fmt: skip
    member = Scripted(lambda ask, n: replies[ask.messages[-1].content], traits("m"))

    async def main() -> None:
        async with endpoint(tmp_path, member) as here:
            found = {name: (await here.said(name)).choices[0] for name in replies}
            cut = found["long"]
            assert (cut.message.content, cut.finish_reason) == ("half a", "length")
            for name in ("bad", "words"):
                message = found[name].message
                assert (message.content, message.refusal) == (None, replies[name].text)
            (chunk,) = [c for c in await here.streamed("bad") if c.choices[0].delta.refusal]
            assert chunk.choices[0].delta.refusal == "No."
        assert here.run.closing is not None
        assert (here.run.closing.kicked, len(member.asked)) == (4, 3), "none is asked again"

    asyncio.run(main())


def test_a_reply_that_does_not_pass_is_no_answer(tmp_path: Path) -> None:
    member = Scripted(lambda ask, n: reply("  "), traits("m"))

    async def main() -> None:
        async with endpoint(tmp_path, member) as here:
            for stream in (False, True):
                with pytest.raises(openai.UnprocessableEntityError) as caught:
                    await here.said(f"x {stream}", stream=stream)
                assert fails(caught.value) == (
                    422, "kicked", "the reply did not pass: the reply is empty",
                )  # fmt: skip
            with pytest.raises(openai.UnprocessableEntityError) as caught:
                await here.said("y", response_format=SCHEMA)
        assert len(member.asked) == 4, "two, one with a revision; none by the client's own retry"

    asyncio.run(main())


def test_a_member_that_fails_is_a_502_that_the_client_does_not_repeat(tmp_path: Path) -> None:
    """It was tried again here already."""
    member = Scripted(lambda ask, n: Terminal("m: unknown", scope="ask"), traits("m"))
    long = Scripted(lambda ask, n: Terminal("k: too much", scope="ask", too_long=True), traits("k"))

    async def main() -> None:
        async with endpoint(tmp_path, member, long) as here:
            with pytest.raises(openai.InternalServerError) as caught:
                await here.said("x")
            assert fails(caught.value) == (
                502, "member_failed", "no member gave an answer: m: unknown",
            )  # fmt: skip
            with pytest.raises(openai.BadRequestError) as too_long:
                await here.said("x", "k")
            assert fails(too_long.value)[:2] == (400, "context_length_exceeded")

    asyncio.run(main())
    assert (len(member.asked), len(long.asked)) == (1, 1)


def test_a_bad_key_of_one_member_stops_no_other(tmp_path: Path) -> None:
    """Nothing else is sent to it, and the server goes on."""
    closed = Scripted(lambda ask, n: Terminal("m: bad key", scope="pool"), traits("m"))
    other = echo("k")

    async def main() -> None:
        async with endpoint(tmp_path, closed, other) as here:
            for n in range(3):
                with pytest.raises(openai.InternalServerError) as caught:
                    await here.said(f"x {n}")
                assert fails(caught.value)[:2] == (502, "member_failed")
                assert "m: bad key" in str(caught.value)
            assert (await here.said("x", "k")).choices[0].message.content == "k: x"

    asyncio.run(main())
    assert (closed.asked, other.asked) == (["x 0"], ["x"])


def test_too_many_at_once_are_told_to_come_back(tmp_path: Path) -> None:
    async def main() -> None:
        began, go_on = asyncio.Event(), asyncio.Event()

        async def slow() -> Reply:
            began.set()
            await go_on.wait()
            return reply("done")

        member = Scripted(lambda ask, n: slow(), traits("m"))
        async with endpoint(tmp_path, member, most=1) as here:
            first = asyncio.ensure_future(here.said("one"))
            await began.wait()
            with pytest.raises(openai.RateLimitError) as caught:
                await here.client.with_options(max_retries=0).chat.completions.create(
                    model="m", messages=[{"role": "user", "content": "two"}]
                )
            assert fails(caught.value)[:2] == (429, "rate_limit_exceeded")
            assert caught.value.response.headers["retry-after"] == "1"
            go_on.set()
            assert (await first).choices[0].message.content == "done"

    asyncio.run(main())


# ── who answers ──────────────────────────────────────────────────────────────────────────────


def test_auto_asks_somebody_who_is_good_at_what_the_request_needs(tmp_path: Path) -> None:
    members = echo("law", good_at=("legal", "french")), echo("sum", good_at=("maths",))

    async def main() -> list[str]:
        async with endpoint(tmp_path, *members) as here:
            found = [
                await here.said("a", "auto", metadata={"needs": "french, legal"}),
                await here.said("b", "auto", extra_headers={"X-Fanfold-Needs": "maths"}),
                await here.said("c", "auto", extra_body={"metadata": {"needs": ["legal"]}}),
            ]
            with pytest.raises(openai.BadRequestError) as caught:
                await here.said("d", "auto", metadata={"needs": "flying"})
            assert caught.value.code == "no_fit"
            assert "flying" in str(caught.value)
            assert {(await here.said("e", "auto")).fanfold["member"]} <= {"law", "sum"}
        return [answer.fanfold["member"] for answer in found]

    assert asyncio.run(main()) == ["law", "sum", "law"]


def test_an_ensemble_answers_as_one(tmp_path: Path) -> None:
    said = {"a": "red", "b": "blue", "c": "red"}
    members = [
        Scripted(lambda ask, n, id=id: reply(said[id]), traits(id))  # type: ignore[misc]
        for id in said
    ]
    judge = Scripted(lambda ask, n: reply("", data={"choice": _letter(ask, "blue")}), traits("j"))
    panels = {
        "three": RosterEnsemble(members=("a", "b", "c")),
        "court": RosterEnsemble(members=("a", "b", "c"), decide="judge", judge="j"),
    }

    async def main() -> list[tuple[str, int, int]]:
        async with endpoint(tmp_path, *members, judge, ensembles=panels) as here:
            models = [model.id async for model in here.client.models.list()]
            assert models == ["auto", "a", "b", "c", "j", "three", "court"]
            three, court = await here.said("colour?", "three"), await here.said("which?", "court")
            chunks = await here.streamed("colour?", "three", stream_options={"include_usage": True})
            assert text_of(chunks) == "red"
            assert chunks[-1].usage.total_tokens == 45  # on record, but told all the same
            return [
                (a.choices[0].message.content, a.fanfold["calls"], a.usage.total_tokens)
                for a in (three, court)
            ]

    assert asyncio.run(main()) == [("red", 3, 45), ("blue", 4, 60)]


def _letter(ask: Ask, wanted: str) -> str:
    """Under which letter the judge sees an answer."""
    (item,) = ask.items
    return next(one["label"] for one in item.data["answers"] if one["value"] == wanted)


def test_unknown_models_and_paths_are_told_in_openais_shape(tmp_path: Path) -> None:
    async def main() -> None:
        async with endpoint(tmp_path, echo("haiku")) as here:
            with pytest.raises(openai.NotFoundError) as caught:
                await here.said("x", "hiaku")
            assert fails(caught.value) == (
                404, "model_not_found", "there is no model `hiaku`: did you mean `haiku`?",
            )  # fmt: skip
            with pytest.raises(openai.NotFoundError):
                await here.client.models.retrieve("hiaku")
            with pytest.raises(openai.NotFoundError) as path:
                await here.client.embeddings.create(model="haiku", input="x")
            assert fails(path.value) == (404, None, "POST /v1/embeddings: Not Found")
        assert here.run.closing is not None
        assert here.run.closing.planned == 0

    asyncio.run(main())


# ── on behalf of others ──────────────────────────────────────────────────────────────────────


def below(folder: Path, run: str) -> dict[str, Any]:
    return dict(fanfold(folder, "tree", run, "--json", "--all").receipt)


def test_a_request_stands_in_the_tree_of_whoever_it_is_made_for(
    tmp_path: Path, quick_server: RunningServer
) -> None:
    """Across processes: a run's attempt, a server, two requests that name the attempt and one that
    names nobody. Each dollar is counted once, and one budget holds for the server."""
    folder = tmp_path / "project"
    write_project(folder, quick_server.url, items=1)
    assert fanfold(folder, "run", "plan.yaml").code == 0
    (attempt,) = below(folder, "talk")["steps"][0]["attempts"]
    named = {"X-Fanfold-Parent": attempt["span"]}
    with serving(folder, "--budget", "100") as up:
        with OpenAI(base_url=up.url, api_key=KEY) as client:
            answers = [
                client.chat.completions.create(
                    model="m", messages=[{"role": "user", "content": text}], extra_headers=more
                )
                for text, more in (("one", named), ("two", named), ("three", {}))
            ]
            assert below(folder, "talk")["steps"][0]["attempts"][0]["children"][0]["status"] == (
                "running"
            )
        up.program.send(SIGTERM)
        assert up.program.end().code == 0
    costs = [answer.fanfold["cost_usd"] for answer in answers]  # type: ignore[attr-defined]
    tree = below(folder, "talk")
    (mine,) = tree["steps"][0]["attempts"]
    (child,) = mine["children"]
    assert (child["name"], child["parent"], child["status"], child["outcomes"]) == (
        "serve requests", attempt["span"], "complete", {"passed": 2},
    )  # fmt: skip
    assert [one["cost_usd"] for one in child["steps"][0]["attempts"]] == costs[:2]
    assert {answer.fanfold["run"] for answer in answers[:2]} == {child["run"]}  # type: ignore[attr-defined]
    whole = attempt["cost_usd"] + costs[0] + costs[1]
    assert tree["total"]["cost_usd"] == pytest.approx(whole)
    assert below(folder, "serve")["total"]["cost_usd"] == pytest.approx(costs[2])
    everything = fanfold(folder, "status", "--json")
    spent = sum(run["cost_usd"] for run in msgspec.json.decode(everything.out))
    assert spent == pytest.approx(dollars(quick_server.books().bill))


def test_requests_for_others_are_paid_from_the_same_budget(tmp_path: Path) -> None:
    """At most two of these fit; it does not matter for whom."""
    priced = {"price": Price(call=1.0)}

    async def main() -> None:
        async with endpoint(tmp_path, echo(**priced), budget=Budget(usd=2)) as here:
            named = {"X-Fanfold-Parent": here.run.record.id}
            await here.said("one")
            await here.said("two", extra_headers=named)
            for more in ({}, {"extra_headers": named}):
                with pytest.raises(openai.APIStatusError) as caught:
                    await here.said("three", **more)
                assert fails(caught.value)[:2] == (402, "insufficient_quota")

    asyncio.run(main())


def test_a_parent_is_checked(tmp_path: Path) -> None:
    unknown = "01M7H1G6BDNPPTBHAG98KZ1CNH:12"

    async def main() -> None:
        async with endpoint(tmp_path, echo()) as here:
            for wrong in ("a b", "x" * 129, "../x", "-", "serve", f"{unknown}x", unknown):
                with pytest.raises(openai.BadRequestError) as caught:
                    await here.said("x", extra_headers={"X-Fanfold-Parent": wrong})
            assert fails(caught.value) == (
                400, "unknown_parent", "X-Fanfold-Parent: there is no run"
                " 01M7H1G6BDNPPTBHAG98KZ1CNH in this server's store",
            )  # fmt: skip
        assert here.run.closing is not None
        assert here.run.closing.planned == 0

    asyncio.run(main())


def test_with_many_parents_those_that_are_idle_are_closed(tmp_path: Path) -> None:
    """And opened anew when they come back: nothing is lost, nothing is asked twice."""

    async def main() -> list[tuple[str, str | None, str]]:
        company = GivenMembers(echo())
        async with new_run("serve", company, Settings(serving=True), tmp_path / "store") as run:
            parents, id = ParentRuns(run, most=1), run.record.id
            for span in (f"{id}:1", f"{id}:2", f"{id}:1"):
                async with parents.of(span) as one, parents.of(span) as same:
                    assert one is same
            await parents.close()
            return [(one.name, one.parent, one.status) for one in run.store.read.runs()[1:]]

    runs = asyncio.run(main())
    assert [(name, (parent or "")[-2:], status) for name, parent, status in runs] == [
        ("serve requests", ":1", "complete"), ("serve requests", ":2", "complete"),
        ("serve requests", ":1", "complete"),
    ]  # fmt: skip
