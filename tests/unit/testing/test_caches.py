"""Prompt caches of the model server, as the official clients see them: from when the first reply began, for
their lifetime, from their shortest length on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fanfold.price import Price
from fanfold.testing.caches import ServerCaches
from fanfold.testing.clock import VirtualClock
from fanfold.testing.running import RunningServer, threaded_server

pytestmark = pytest.mark.slow  # the clients take long to import
MARK = {"type": "ephemeral"}
LONG = "A rule of the house. " * 400
PRICE = Price(input=3.0, output=15.0, cache_read=0.3, cache_write=3.75)


class HeldClock(VirtualClock):
    """It moves when a test says so."""

    at = 0.0

    def monotonic(self) -> float:
        return self.at


@pytest.fixture
def clock() -> HeldClock:
    return HeldClock()


@pytest.fixture
def server(tmp_path: Path, clock: HeldClock) -> Iterator[RunningServer]:
    caches = ServerCaches(clock=clock)
    with threaded_server(tmp_path / "books", price=PRICE, caches=caches) as running:
        yield running


def message(server: RunningServer, text: str, context: str = LONG, **more: Any) -> tuple[int, ...]:
    """Tokens that were read, written, and neither, by Anthropic's own client."""
    import anthropic

    with anthropic.Anthropic(base_url=server.url, api_key="k", max_retries=0) as client:
        given: Any = {
            "system": [{"type": "text", "text": context, "cache_control": MARK}],
            "messages": [{"role": "user", "content": text}],
            **more,
        }
        used = client.messages.create(model="m", max_tokens=50, **given).usage
    return (
        used.cache_read_input_tokens or 0,
        used.cache_creation_input_tokens or 0,
        used.input_tokens,
    )


def test_anthropic_reads_what_was_marked_once_it_was_written(
    server: RunningServer, clock: HeldClock
) -> None:
    read, written, rest = message(server, "first")
    assert (read, written > 2000, 0 < rest < 100) == (0, True, True)
    assert message(server, "second")[:2] == (written, 0)
    clock.at = 299.0
    assert message(server, "a hit renews it")[:2] == (written, 0)
    clock.at = 598.0
    assert message(server, "so it is there")[:2] == (written, 0)
    clock.at = 1000.0
    assert message(server, "it has expired")[:2] == (0, written)


def test_anthropic_keeps_nothing_that_is_short_or_different(server: RunningServer) -> None:
    assert message(server, "short", context="A rule.")[:2] == (0, 0)
    written = message(server, "first")[1]
    assert message(server, "second", context="x" + LONG)[:2] == (0, written)


def test_anthropic_reads_the_longest_of_up_to_four_marks(server: RunningServer) -> None:
    """A text is short for one block; where calls are forbidden, turns are others than before."""
    tools: Any = [{"name": "t", "description": "d", "input_schema": {"type": "object"}}]
    said: Any = {"type": "text", "text": LONG, "cache_control": MARK}
    system = message(server, "alone", tools=tools)[1]
    turn = [{"role": "user", "content": [said]}]
    assert message(server, "", tools=tools, messages=turn)[0] == system
    longer = [{"role": "user", "content": LONG}, {"role": "assistant", "content": "yes"},
              {"role": "user", "content": [said]}]  # fmt: skip
    read, written, _ = message(server, "", tools=tools, messages=longer)
    assert (read, written > system) == (system, True), "the first turn has no mark here"
    forbidden = {"tools": tools, "tool_choice": {"type": "none"}}
    assert message(server, "", messages=turn, **forbidden)[0] == system
    import anthropic

    with pytest.raises(anthropic.BadRequestError, match="maximum of 4"):
        message(server, "", messages=[{"role": "user", "content": [said] * 4}])


def test_openai_keeps_a_prefix_by_itself_in_steps_of_128(server: RunningServer) -> None:
    import openai

    def cached(text: str, key: str = "one") -> int:
        said: Any = [{"role": "system", "content": LONG}, {"role": "user", "content": text}]
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0) as client:
            made = client.chat.completions.create(model="m", messages=said, prompt_cache_key=key)
        assert made.usage is not None and made.usage.prompt_tokens_details is not None
        return made.usage.prompt_tokens_details.cached_tokens or 0

    assert cached("first") == 0
    again = cached("second")
    assert (again >= 1024, again % 128) == (True, 0)
    assert cached("third", key="another machine") == 0
