"""Kind litellm: what LiteLLM is asked, and what its answers and exceptions become. A stand-in takes its
place here; `tests/flow/test_litellm.py` has the real one."""

from __future__ import annotations

import asyncio
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fanfold.errors import BadInput, MemberError
from fanfold.members.litellm import Litellm, LitellmFields, litellm, member_error
from fanfold.members.roster import load_roster
from fanfold.price import Price
from fanfold.work.ask import Ask, Message, Params, Usage
from fanfold.work.member import tell_nobody
from tests.faces.cli import fanfold

STAND_IN = """
import json, os
from types import SimpleNamespace
ENVIRONMENT = {name: os.environ.get(name) for name in
               ("LITELLM_LOCAL_MODEL_COST_MAP", "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS", "LITELLM_MODE")}
asked = []
class RateLimitError(Exception):
    status_code, message = 429, "litellm.RateLimitError: slow down"
exceptions = SimpleNamespace(LITELLM_EXCEPTION_TYPES=[RateLimitError])
USAGE = {"prompt_tokens": 20, "completion_tokens": 3, "total_tokens": 23,
         "prompt_tokens_details": {"cached_tokens": 5}}
async def acompletion(**given):
    asked.append(given)
    if "again" in given["messages"][-1]["content"]:
        raise RateLimitError("no")
    if "hang" in given["messages"][-1]["content"]:
        import asyncio
        await asyncio.Event().wait()
    choice = {"finish_reason": "stop", "index": 0, "message": {"content": "Blue", "role": "assistant",
              "tool_calls": None, "provider_specific_fields": {}}}
    said = {"id": "1", "model": "x", "choices": [choice], "usage": USAGE}
    return SimpleNamespace(model_dump_json=lambda: json.dumps(said))
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package as it would be installed."""
    (tmp_path / "litellm.py").write_text(STAND_IN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "litellm", raising=False)
    for name in ("LITELLM_LOCAL_MODEL_COST_MAP", "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS"):
        monkeypatch.setenv(name, "True")
    monkeypatch.setenv("LITELLM_MODE", "PRODUCTION")
    yield
    sys.modules.pop("litellm", None)


def member(**fields: Any) -> Litellm:
    stated = LitellmFields(**{"id": "m", "model": "nova/small", "max_tokens": 50, **fields})
    return Litellm(stated.traits(Path()), stated.base_url, lambda: "secret-of-nova")


async def asked(one: Litellm, text: str = "hi", **params: Any) -> Any:
    await one.open()
    ask = Ask((Message("user", text),), params=Params(**params))
    return await one.ask(one.prepare(ask), tell_nobody)


@pytest.mark.usefixtures("stand_in")
def test_an_ask_goes_out_once_in_openais_form_and_its_answer_is_read_so() -> None:
    reply = asyncio.run(asked(member(), temperature=0.5, reasoning="low"))
    assert (reply.text, reply.finish) == ("Blue", "stop")
    assert reply.usage == Usage(15, 3, cache_read=5)
    (given,) = sys.modules["litellm"].asked
    assert given == {
        "model": "nova/small", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 50,
        "temperature": 0.5, "reasoning_effort": "low", "api_key": "secret-of-nova",
        "num_retries": 0, "max_retries": 0, "timeout": 120.0,
    }  # fmt: skip
    assert set(sys.modules["litellm"].ENVIRONMENT.values()) == {"True", "PRODUCTION"}
    assert sys.modules["litellm"].telemetry is False


@pytest.mark.usefixtures("stand_in")
def test_credentials_that_litellm_finds_never_go_to_an_address_of_ones_own() -> None:
    one = Litellm(member(base_url="http://127.0.0.1:1").traits, "http://127.0.0.1:1", lambda: None)
    asyncio.run(asked(one))
    (given,) = sys.modules["litellm"].asked
    assert (given["api_base"], given["api_key"]) == ("http://127.0.0.1:1", "none")


@pytest.mark.usefixtures("stand_in")
def test_what_it_raises_and_what_hangs_are_errors_of_members() -> None:
    assert said(asyncio.run, asked(member(), "again"))["kind"] == "RateLimited"
    found = said(asyncio.run, asked(member(timeout=0.01), "hang"))
    assert (found["kind"], found["lost"]) == ("TimedOut", True)


def said(of: Any, *args: Any) -> dict[str, Any]:
    with pytest.raises(MemberError) as caught:
        of(*args)
    return {"kind": type(caught.value).__name__, "text": str(caught.value), **vars(caught.value)}


def exception(name: str, status: int | None, message: str = "no", **more: Any) -> Exception:
    """As LiteLLM raises it: a class of that name, with a status and a message."""
    made = type(name, (Exception,), {})(message)
    vars(made).update(message=f"litellm.{name}: {message}", status_code=status, **more)
    return made


@pytest.mark.parametrize(
    ("error", "becomes"),
    [
        (exception("AuthenticationError", 401), {"kind": "Terminal", "scope": "pool"}),
        (exception("PermissionDeniedError", 403), {"kind": "Terminal", "scope": "pool"}),
        (exception("PaymentRequiredError", 402), {"kind": "Terminal", "scope": "pool"}),
        (exception("NotFoundError", 404), {"kind": "Terminal", "scope": "member"}),
        (exception("BadRequestError", 400), {"kind": "Terminal", "scope": "ask", "too_long": False}),
        (exception("UnsupportedParamsError", 400), {"kind": "Terminal", "scope": "ask"}),
        (exception("BadRequestError", 400, "LLM Provider NOT provided."),
         {"kind": "Terminal", "scope": "member"}),
        (exception("ContextWindowExceededError", 400),
         {"kind": "Terminal", "scope": "ask", "too_long": True}),
        (exception("ContentPolicyViolationError", 400), {"kind": "Terminal", "scope": "ask"}),
        (exception("RateLimitError", 429, litellm_response_headers={"retry-after": "7"}),
         {"kind": "RateLimited", "retry_after": 7.0}),
        (exception("RateLimitError", 429, "You exceeded your current quota"),
         {"kind": "Terminal", "scope": "pool"}),
        (exception("Timeout", 408), {"kind": "TimedOut", "lost": True}),
        (exception("InternalServerError", 500), {"kind": "Transient", "lost": True}),
        (exception("ServiceUnavailableError", 503), {"kind": "Transient", "lost": True}),
        (exception("APIConnectionError", 500), {"kind": "Transient", "lost": True}),
        (exception("APIError", None), {"kind": "Transient", "lost": True}),
        (exception("APIResponseValidationError", 422), {"kind": "InvalidReply"}),
    ],
)  # fmt: skip
def test_exceptions_become_errors_of_members(error: Exception, becomes: dict[str, Any]) -> None:
    found = member_error("m", error, "secret-of-nova")
    shown = {"kind": type(found).__name__, **vars(found)}
    assert {name: shown[name] for name in becomes} == becomes
    assert str(found).startswith("m: ")


def test_a_parameter_that_the_provider_does_not_have_is_named() -> None:
    said = (
        "nova does not support parameters: ['seed'], for model=small. To drop these, set"
        " `litellm.drop_params=True` or for proxy: `litellm_settings: drop_params: true`"
    )
    found = member_error("m", exception("UnsupportedParamsError", 400, said), "")
    assert str(found) == (
        "m: nova does not support parameters: ['seed'], for model=small. Leave them out of the step."
    )


def test_a_connection_that_was_refused_took_nothing() -> None:
    error = exception("InternalServerError", 500, "Connection error.")
    error.__cause__ = exception("ConnectError", None)
    found = member_error("m", error, "")
    assert (type(found).__name__, found.lost) == ("Transient", False)


def test_secrets_are_taken_out_of_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that it found by itself."""
    monkeypatch.setenv("NOVA_ACCESS_TOKEN", "found-by-itself-12345")
    error = exception("BadRequestError", 400, "key-0123456789 and found-by-itself-12345 are wrong")
    text = str(member_error("m", error, "key-0123456789"))
    assert "[key] and [key] are wrong" in text


@pytest.mark.parametrize(
    ("model", "base_url", "price"),
    [
        ("openai/gpt-5-mini", "", Price(input=0.25, output=2.0, cache_read=0.025)),
        ("anthropic/claude-haiku-4-5", "",
         Price(input=1.0, output=5.0, cache_read=0.1, cache_write=1.25)),
        ("vertex_ai/gemini-2.5-flash", "", Price(input=0.3, output=2.5, cache_read=0.03)),
        ("together_ai/meta-llama/Llama-3.3-70B-Instruct-Turbo", "", Price(input=0.88, output=0.88)),
        ("openai/gpt-5-mini", "http://127.0.0.1:1/v1", None),
        ("nova/small", "", None),
        ("gpt-5-mini", "", None),
    ],
)  # fmt: skip
def test_a_price_is_in_our_table_or_unknown(model: str, base_url: str, price: Price | None) -> None:
    assert LitellmFields(id="m", model=model, base_url=base_url).traits(Path()).price == price


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("id: m, kind: litellm", "needs the field `model`"),
        ("id: m, kind: litellm, model: a/b, batch_price: 0.5",
         "`batch_price` is a field of kind openai, anthropic, not of kind litellm"),
        ("id: m, kind: litellm, model: a/b, base_url: nowhere", "must begin with http://"),
        ("id: m, kind: litellm, model: a/b, provider: groq", "`provider` is a field of kind openai"),
    ],
)  # fmt: skip
def test_mistakes_name_their_line(tmp_path: Path, entry: str, why: str) -> None:
    (tmp_path / "roster.yaml").write_text(f"members:\n  - {{{entry}}}\n")
    with pytest.raises(BadInput) as wrong:
        load_roster(tmp_path / "roster.yaml")
    assert (why in str(wrong.value), wrong.value.line) == (True, 2), str(wrong.value)


def test_in_scripts_it_takes_the_same_fields() -> None:
    made = litellm("nova/small", key="env:NOVA_KEY", tools=[os.getcwd])
    assert (made.traits.id, made.traits.answerer) == ("nova/small", "litellm:nova/small")
    assert (made.traits.tier, made.traits.takes_tools, made.traits.batch) == ("paid", True, None)
    with pytest.raises(BadInput, match="`max_bytes` is a field of kind"):
        litellm("nova/small", max_bytes=1)


@pytest.mark.skipif(find_spec("litellm") is not None, reason="LiteLLM is installed")
def test_without_the_extra_one_line_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "roster.yaml").write_text("members:\n  - {id: m, kind: litellm, model: a/b}\n")
    ended = fanfold(tmp_path, "members", "--check", "--json")
    (row,) = msgspec.json.decode(ended.out)
    assert "pip install 'fanfold[litellm]'" in msgspec.json.encode(row).decode()
    (tmp_path / "p.yaml").write_text(
        "input: {list: [x]}\nsteps:\n  - map: {prompt: x, member: m}\n"
    )
    ended = fanfold(tmp_path, "run", "p.yaml", "--allow-paid")
    assert (ended.code, ended.err) == (
        2, f"fanfold: {tmp_path}/roster.yaml:2: kind litellm needs the extra `litellm`:"
        " pip install 'fanfold[litellm]'\n",
    )  # fmt: skip
