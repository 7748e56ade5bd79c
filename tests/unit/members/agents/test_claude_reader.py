"""What the log of claude tells: its cost while it runs and in the end, and lines for people."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fanfold.members.agents.claude import Claude
from fanfold.members.agents.claude_events import ClaudeReading
from fanfold.members.agents.dialect import EventLine
from fanfold.members.agents.worker import Exit
from fanfold.price import Price, nanos
from fanfold.run.cost import charge, cost_of_error, error_is_upper_bound
from fanfold.testing.member import traits
from fanfold.work.ask import Reply, Usage
from fanfold.work.budget import Amount
from tests.unit.members.agents.logs import ended, failed, fed, lines, without_results

LIST = Price(input=3.0, output=15.0, cache_read=0.3, cache_write=3.75)


def read(
    log: list[bytes], price: Price | None = None, *, resumed: bool = False
) -> ClaudeReading:  # fmt: skip
    reader = Claude().reader(price, resumed=resumed)
    fed(reader, log)
    return reader.reading


def line(type: str, **fields: Any) -> bytes:
    return msgspec.json.encode({"type": type, **fields})


def stream(inner: dict[str, Any]) -> bytes:
    return line("stream_event", event=inner, parent_tool_use_id=None)


def begins(id: str, model: str = "claude-sonnet-4-5", **usage: Any) -> bytes:
    message = {"id": id, "model": model, "usage": {"output_tokens": 1, **usage}}
    return stream({"type": "message_start", "message": message})


def ends(reason: str | None = "end_turn", **usage: Any) -> bytes:
    return stream({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage})


def bit(**delta: str) -> bytes:
    return stream({"type": "content_block_delta", "index": 0, "delta": delta})


STOPS = stream({"type": "message_stop"})
INIT = line("system", subtype="init", model="m", claude_code_version="2.1.325")


# ── money ──


def test_the_live_figure_comes_close_to_the_bill_of_the_real_service() -> None:
    """Within one percent, from events that tell one output token each; the original of this log's
    author was 350 times too low."""
    log = lines("claude_real_service")
    live, bill = read(without_results(log)), read(log)
    assert (bill.cost, bill.exact) == (nanos(0.0180461), True)
    assert live.cost == pytest.approx(nanos(0.0180461), rel=0.01)
    assert not live.exact
    assert (
        msgspec.structs.replace(live.usage, output=500) == bill.usage == Usage(16, 500, 47401, 8632)
    )


def test_with_partial_messages_the_live_figure_is_exact() -> None:
    log = lines("c33_partial")
    live, whole = read(without_results(log)), read(log)
    assert (live.cost, live.exact, live.usage) == (whole.cost, True, whole.usage)
    assert live.cost == nanos(21_355 * 3e-6 + 20 * 15e-6)


def test_a_message_of_several_events_is_counted_once() -> None:
    twice = [one for one in lines("claude_real_service") for _ in range(2)]
    once = read(without_results(lines("claude_real_service")))
    again = read(without_results(twice))
    assert (again.turns, again.usage.input, again.usage.cache_write) == (2, 16, 8632)
    assert again.usage.cache_read == once.usage.cache_read


def test_of_several_results_the_last_counts() -> None:
    """A background agent's end brings another one; what it cost is in there only once."""
    found = read(lines("c51_subagent"))
    assert (found.text, found.cost, found.usage) == (
        "main done", nanos(0.043515), Usage(14_255, 50),
    )  # fmt: skip


@pytest.mark.parametrize("price", [None, LIST])
def test_earlier_runs_of_a_session_are_not_counted_again(price: Price | None) -> None:
    found = read(lines("c22_resume"), price, resumed=True)
    assert (found.cost, found.usage, found.exact) == (nanos(0.064548), Usage(21_416, 20), True)


def test_an_older_claude_that_tells_only_the_whole_session_is_counted_by_its_tokens() -> None:
    """2.1.197: the figure of the session holds what came before."""
    *before, last = lines("c80_old_trivial")
    result = msgspec.json.decode(last)
    result["total_cost_usd"] = 9.0
    result["modelUsage"]["claude-sonnet-4-5"]["inputTokens"] = 3_000_000
    found = read([*before, msgspec.json.encode(result)], resumed=True)
    assert (found.cost, found.exact, found.usage) == (
        nanos(0.174933), False, Usage(58_111, 40),
    )  # fmt: skip
    assert read([*before, msgspec.json.encode(result)]).cost == nanos(9.0)


WORK = {"input_tokens": 60_000, "output_tokens": 12_000}


def with_result(model: str, **result: Any) -> list[bytes]:
    """A log of which the result tells nothing but this."""
    began = line("system", subtype="init", model=model, claude_code_version="2.1.325")
    return [began, line("result", is_error=False, subtype="success", result="done", **result)]


@pytest.mark.parametrize("told", [-5, "0.36", None, 0])
def test_a_cost_that_cannot_be_is_estimated_by_the_list_price(told: Any) -> None:
    found = read(with_result("claude-sonnet-4-5", usage=WORK, total_cost_usd=told))
    assert (found.cost, found.exact, found.usage) == (nanos(0.36), False, Usage(60_000, 12_000))


def test_a_cost_of_nothing_is_one_where_nothing_was_asked() -> None:
    found = read(with_result("claude-sonnet-4-5", usage={"input_tokens": 0}, total_cost_usd=0))
    assert (found.cost, found.exact) == (0, True)


def test_the_cost_of_each_model_counts_where_their_sum_cannot_be() -> None:
    models = {"claude-sonnet-4-5": {"inputTokens": 100, "outputTokens": 9, "costUSD": 0.25}}
    found = read(with_result("x", usage=WORK, modelUsage=models, total_cost_usd=-1))
    assert (found.cost, found.exact) == (nanos(0.25), True)


def test_without_a_list_price_a_cost_that_cannot_be_is_unknown() -> None:
    """The reservation counts, then: for a reply as for a failure."""
    log = with_result("nobodys-model", usage=WORK, total_cost_usd=-5)
    assert (read(log).cost, read(log).exact) == (None, False)
    reply = ended(Claude(), log, Exit(code=0, at=0.0))
    assert isinstance(reply, Reply) and (reply.cost_usd, reply.usage) == (
        None,
        Usage(60_000, 12_000),
    )
    like = traits("w", kind="claude", price=None)
    assert charge(like, Amount(7, 8, 1), reply, 400)[:2] == (Amount(7, 72_000, 1), True)
    error = failed(Claude(), log, Exit(code=3, at=0.0))
    assert (error.cost, error.bound) == (None, True)
    assert (cost_of_error(error, Amount(7, 8, 1)), error_is_upper_bound(error)) == (
        Amount(7, 8, 1),
        True,
    )


@pytest.mark.parametrize("stop_reason", ["error", "abort", "length", "pause_turn", "tool_use", 3])
def test_an_end_that_is_not_known_to_be_good_is_none(stop_reason: Any) -> None:
    log = with_result("claude-sonnet-4-5", usage=WORK, total_cost_usd=0.36, stop_reason=stop_reason)
    assert read(log).finish != "stop"


def test_a_stated_price_goes_before_claudes_own_figure() -> None:
    dear = Price(input=30.0, output=150.0, cache_read=3.0, cache_write=37.5, call=0.5)
    found = read(lines("c01_trivial"), dear)
    assert (found.cost, found.exact) == (nanos(0.5 + 10 * 0.006975), True)


def test_each_call_has_the_price_of_its_own_length() -> None:
    """Two calls of 60 tokens each are not one of 120, for which each token costs more."""
    price = msgspec.convert(
        {"input": 1.0, "output": 0.0, "tiers": [{"start": 100, "input": 9.0, "output": 0.0}]}, Price
    )
    log = [
        INIT, begins("a", input_tokens=60), ends(input_tokens=60, output_tokens=1),
        begins("b", input_tokens=60), ends(input_tokens=60, output_tokens=1),
        line("result", is_error=False, subtype="success", modelUsage={"m": {"inputTokens": 120}}),
    ]  # fmt: skip
    assert (read(log[:-1], price).cost, read(log, price).cost) == (120_000, 120_000)


def test_a_reply_that_was_cut_off_is_paid_though_no_result_tells_it() -> None:
    log = [
        INIT, begins("a", input_tokens=1000),
        begins("b", input_tokens=1000), ends(input_tokens=1000, output_tokens=10), STOPS,
        line("result", is_error=False, subtype="success", total_cost_usd=0.00315,
             modelUsage={"claude-sonnet-4-5": {"inputTokens": 1000, "outputTokens": 10}}),
    ]  # fmt: skip
    twice = nanos(2 * 0.003 + 11 * 15e-6)
    assert (read(log, LIST).cost, read(log).cost) == (twice, twice)
    assert read(log).usage == Usage(2000, 11)


def test_a_reply_that_was_given_up_but_is_in_the_result_is_not_paid_twice() -> None:
    """At a budget's end the program closes the message itself, without its count."""
    log = [
        INIT, begins("a", input_tokens=1000), ends(None, input_tokens=1000, output_tokens=1), STOPS,
        line("result", is_error=True, subtype="error_max_budget_usd", total_cost_usd=0.018,
             modelUsage={"claude-sonnet-4-5": {"inputTokens": 1000, "outputTokens": 1000}}),
    ]  # fmt: skip
    assert (read(log, LIST).cost, read(log).cost) == (nanos(0.018), nanos(0.018))
    assert not read(log[:-1]).exact


def test_writes_to_the_cache_for_an_hour_cost_twice_the_input() -> None:
    """As 2.1.325 bills them; an older one billed them like the others."""
    usage = {
        "input_tokens": 1, "cache_creation_input_tokens": 1000,
        "cache_creation": {"ephemeral_1h_input_tokens": 600, "ephemeral_5m_input_tokens": 400},
    }  # fmt: skip
    log = [begins("a", **usage), ends(output_tokens=2)]
    old = line("system", subtype="init", claude_code_version="2.1.197")
    hourly, plain = 600 * 6e-6 + 400 * 3.75e-6, 1000 * 3.75e-6
    rest = 3e-6 + 2 * 15e-6
    assert read([INIT, *log], LIST).cost == nanos(hourly + rest)
    assert read([old, *log], LIST).cost == nanos(plain + rest)


TOOL_USED = ends("tool_use", input_tokens=10_000, output_tokens=500)
RESULT = {"content": [{"type": "tool_result", "content": "x" * 1000}]}
BACK = line("user", message=RESULT, timestamp="2026-11-16T10:00:00.000Z")
AT = 1794823200.0  # the same time


def test_what_a_call_under_way_may_take_follows_from_the_context_as_it_stands() -> None:
    """Nothing while a tool works. Once the model is asked: the context after the last reply, and a
    token for each byte that was added; no more output than the time allows."""
    whole = [INIT, begins("a", input_tokens=10_000), TOOL_USED, STOPS]
    assert read(whole, LIST).unknown(AT) == 0
    found = read([*whole, BACK], LIST)
    added = len(msgspec.json.encode(RESULT["content"][0]))
    input = nanos((10_500 + added) * 3.75e-6)
    assert found.unknown(None) == input + nanos(32_000 * 15e-6)
    assert found.unknown(AT + 2) == input + nanos((1_024 + 2_000) * 15e-6)
    assert found.unknown(AT + 600) == input + nanos(32_000 * 15e-6)
    assert found.unknown(AT - 600) == found.unknown(None), "a clock that was set back tells nothing"


def test_of_a_reply_that_was_cut_off_only_what_was_not_seen_yet_is_unknown() -> None:
    """What it writes is in the log as it comes; but it may think more than it shows."""
    log = [INIT, begins("a", input_tokens=10_000), bit(text="y" * 260)]
    found = read(log, LIST)
    assert found.cost == nanos(10_000 * 3e-6 + 100 * 15e-6), "estimated from its length"
    assert found.unknown(AT) == nanos((260 + 1_024 - 100) * 15e-6)
    thinks = read([*log, bit(thinking="hm")], LIST)
    assert thinks.unknown(AT) > nanos(31_000 * 15e-6)


def test_the_next_call_is_foreseen_only_where_one_is_due() -> None:
    begun = [INIT, begins("a", input_tokens=10_000)]
    call = nanos(10_500 * 3.75e-6 + 32_000 * 15e-6)
    assert read([*begun, TOOL_USED], LIST).next_call() == call
    assert read(begun, LIST).next_call() == 0
    last = ends("end_turn", input_tokens=10_000, output_tokens=500)
    assert read([*begun, last], LIST).next_call() == 0


def test_a_fallback_that_was_seen_counts_for_the_next_call() -> None:
    log = [INIT, begins("a", model="claude-opus-4-1", input_tokens=10_000), TOOL_USED, STOPS, BACK]
    assert read(log).unknown(None) > nanos(32_000 * 75e-6)


# ── lines for people ──


def told(log: list[bytes]) -> list[tuple[str, str, str]]:
    return [(one.kind, one.text, one.name) for one in fed(Claude().reader(None), log)]


def test_what_people_are_told_of_a_denied_tool() -> None:
    assert told(lines("c04_default_perm"))[:4] == [
        ("system", "session 71321460-a747-40e7-97b5-ed2d77ef445c of claude-sonnet-4-5",
         "system/init"),
        ("tool", "Bash touch /data/user/lab", "assistant"),
        ("system", "denied: Bash", "system/permission_denied"),
        ("result", "error: touch in '/data/user/lab' needs approval. The path is outside the working"
         " directories for this session ('/data/user/lab'). Allowing runs the command as written.",
         "user"),
    ]  # fmt: skip
    assert read(lines("c04_default_perm")).denied == ("Bash", "Write")


def test_what_people_are_told_of_retries() -> None:
    found = told(lines("c18_500_retry2"))
    assert found[1:3] == [
        ("retry", "retry 1 of 2 in 0.5 s: server_error (500)", "system/api_retry"),
        ("retry", "retry 2 of 2 in 1.1 s: server_error (500)", "system/api_retry"),
    ]
    assert found[-1][0::2] == ("failed", "result/success")
    assert read(lines("c18_500_retry2")).retries == 2


def test_a_path_inside_its_folder_is_told_from_there() -> None:
    use = {"type": "tool_use", "name": "Write", "input": {"file_path": "/w/output/finding.md"}}
    log = [
        line("system", subtype="init", cwd="/w", model="m"),
        line(
            "assistant", message={"id": "a", "content": [use]}, timestamp="2026-11-15T19:40:57.5Z"
        ),
    ]
    assert fed(Claude().reader(None), log)[-1] == EventLine(
        "tool", "Write output/finding.md", 1794771657.5, "assistant"
    )


def test_a_line_for_people_is_short_and_harmless() -> None:
    said = {"type": "text", "text": "\n\x1b[2J\x07 first " + "x" * 500 + "\nsecond"}
    (one,) = fed(Claude().reader(None), [line("assistant", message={"id": "a", "content": [said]})])
    assert one.text == "[2J first " + "x" * 189 + "…"


def test_a_used_up_quota_is_told_with_its_end() -> None:
    info = {"status": "rejected", "resetsAt": 1776348000, "rateLimitType": "five_hour"}
    log = [line("rate_limit_event", rate_limit_info=info)]
    assert told(log) == [
        ("system", "rate limit five_hour: rejected until 2026-04-16 14:00 UTC", "rate_limit_event")
    ]
    assert read(log).reset_at == 1776348000
    allowed = line("rate_limit_event", rate_limit_info={**info, "status": "allowed"})
    assert (read([*log, allowed]).reset_at, told([allowed])) == (None, [])


def test_what_is_no_event_is_passed_over() -> None:
    log = [b"Warning: no JSON", b"", b"[1]", b'"x"', b'{"type": "news"}', b'{"type": 5}', b"\xff{"]
    odd = [
        line("assistant"), line("assistant", message=[]), line("user", message={"content": [1]}),
        line("stream_event"), line("stream_event", event={"type": "message_start"}),
        line("rate_limit_event"), line("result"), line("system"),
        line("assistant", message={"id": "a", "usage": 5, "content": [{"type": "text"}]}),
        stream({"type": "message_delta", "usage": {}}), STOPS,
    ]  # fmt: skip
    found = read([*log, *odd])
    assert (found.lines, found.ended, found.usage) == (18, False, Usage())
