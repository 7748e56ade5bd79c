"""Which answers leave doubt whether the call was billed."""

from __future__ import annotations

import pytest

from fanfold.members.anthropic import Anthropic
from fanfold.members.openai import OpenAI
from fanfold.members.printed import failure
from tests.examples import crossed
from tests.unit.members.asking import Kind, refused, told, trouble
from tests.unit.members.raw import once, response

OWN = b'{"error":{"type":"server_error","message":"oops"}}'
PAGE = b"<html><h1>502 Bad Gateway</h1></html>"
GATEWAY = b'{"message":"Endpoint request timed out"}'
FRAMEWORKS = (
    b'{"timestamp":"2026-01-01T00:00:00","status":500,"error":"Internal Server Error","path":"/v1"}',
    b'{"statusCode":503,"error":"Service Unavailable","message":"upstream connect error"}',
)
kinds = pytest.mark.parametrize("kind", [OpenAI, Anthropic])
both = pytest.mark.parametrize("stream", [False, True])
SSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"


@kinds
@pytest.mark.parametrize(
    ("status", "body"),
    crossed([408, 499, 502, 504, 520, 521, 522, 523, 524], [OWN, PAGE, b""]),
)
def test_after_a_gateways_status_a_reply_may_have_been_produced(
    kind: Kind, status: int, body: bytes
) -> None:
    found = refused(kind, body, status, stream=False)
    assert (found["kind"], found["lost"]) == ("Transient", True)
    assert found["text"].endswith("; it may have been billed")


@kinds
@both
@pytest.mark.parametrize(
    ("status", "body"),
    crossed(
        [500, 501, 503, 505, 525, 529, 530],
        [PAGE, b"", b"Internal Server Error", GATEWAY, *FRAMEWORKS, OWN[:-1], b"[1]"],
    ),
)
def test_a_server_error_that_the_provider_did_not_write_leaves_doubt(
    kind: Kind, stream: bool, status: int, body: bytes
) -> None:
    found = refused(kind, body, status, stream)
    assert (found["kind"], found["lost"]) == ("Transient", True)


@kinds
@both
@pytest.mark.parametrize(
    ("status", "body"), crossed([500, 501, 503, 529], [OWN, b'{"error":"model runner has died"}'])
)
def test_the_providers_own_error_says_that_nothing_was_produced(
    kind: Kind, stream: bool, status: int, body: bytes
) -> None:
    found = refused(kind, body, status, stream)
    assert (found["kind"], found["lost"]) == (
        "RateLimited" if status == 529 else "Transient",
        False,
    )


@kinds
@both
@pytest.mark.parametrize(
    ("status", "body"),
    crossed([301, 307, 400, 401, 402, 403, 404, 413, 418, 422, 429], [PAGE, b"", OWN]),
)
def test_what_was_refused_before_any_work_is_never_in_doubt(
    kind: Kind, stream: bool, status: int, body: bytes
) -> None:
    assert not refused(kind, body, status, stream)["lost"]


@kinds
@both
@pytest.mark.parametrize("status", [500, 503, 429, 200])
def test_an_answer_that_was_cut_off_leaves_doubt(kind: Kind, stream: bool, status: int) -> None:
    cut = response(OWN + b" " * 100, status)[:-50]
    found = trouble(lambda: told(kind, once(cut), stream=stream))
    assert (found["kind"], found["lost"]) == ("Transient", True)


@kinds
@both
@pytest.mark.parametrize(("status", "lost"), [(500, True), (401, False), (429, False)])
def test_of_an_error_that_is_too_long_the_status_counts(
    kind: Kind, stream: bool, status: int, lost: bool
) -> None:
    """A 500 that goes on and on is not the provider's word."""
    long = b'{"error":{"message":"' + b"x" * 1_000_000 + b'"}}'
    assert refused(kind, long, status, stream)["lost"] is lost


@kinds
@both
@pytest.mark.parametrize("body", [b"", PAGE, b"{", b'{"error":{"message":"no"}}', b"null", b"[]"])
def test_a_200_without_a_readable_answer_was_paid_for(
    kind: Kind, stream: bool, body: bytes
) -> None:
    """An InvalidReply counts with its worst case."""
    found = trouble(lambda: told(kind, once(response(body)), stream=stream))
    assert found["kind"] == "InvalidReply"


@kinds
@pytest.mark.parametrize(
    "events", [b'data: {"type":"error","error":{"message":"overloaded"}}\n\n', b""]
)
def test_a_stream_that_fails_or_ends_early_leaves_doubt(kind: Kind, events: bytes) -> None:
    found = trouble(lambda: told(kind, once(SSE + events), stream=True))
    assert (found["kind"], found["lost"]) == ("Transient", True)


def test_a_status_that_a_program_hands_on_means_the_same() -> None:
    lost = {status for status in range(400, 600) if failure("m", status, "why").lost}
    assert lost == {408, 499, 502, 504, 520, 521, 522, 523, 524}
