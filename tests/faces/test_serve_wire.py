"""OpenAI's requests as the endpoint reads them: what it takes, and what it refuses in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from fanfold.errors import BadInput
from fanfold.faces.serve.wire import Chat, read_chat
from fanfold.faces.web import RequestRefused, is_authorized, new_secret, read_secret
from fanfold.work.ask import Message, Params, Schema

SAID = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


def chat(**fields: Any) -> Chat:
    return read_chat(msgspec.json.encode({**SAID, **fields}))


def test_all_that_is_supported_is_read() -> None:
    schema = {"type": "object", "required": ["n"]}
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": "c", "refusal": None, "tool_calls": None},
        {"role": "user", "content": "d", "name": "Ann"},
    ]
    assert chat(
        messages=messages, temperature=0.5, top_p=1, max_tokens=5, max_completion_tokens=9, seed=7,
        stop="END", stream=True, stream_options={"include_usage": True},
        response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
        metadata={"needs": "legal,,french, legal"},
    ) == Chat(
        "m",
        (Message("system", "Be brief."), Message("user", "ab"), Message("assistant", "c"),
         Message("user", "d")),
        Params(0.5, 1.0, 9, 7, ("END",)), Schema.of(schema), ("french", "legal"), True, True,
    )  # fmt: skip


def test_what_changes_nothing_is_passed_over() -> None:
    harmless: dict[str, Any] = {
        "n": 1, "user": "ann", "store": True, "tools": [], "logprobs": False, "tool_choice": "none",
        "frequency_penalty": 0, "logit_bias": {}, "modalities": ["text"], "service_tier": "auto",
        "response_format": {"type": "text"}, "stop": None, "metadata": {"a": "b"},
    }  # fmt: skip
    assert chat(**harmless) == chat()


def test_any_object_is_a_schema_too() -> None:
    found = chat(response_format={"type": "json_object"}).schema
    assert found is not None
    assert found.definition == {"type": "object"}


IMAGE = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]
CALLS = [{"role": "assistant", "content": None, "tool_calls": [{"id": "a"}]}]
WRONG = [
    ({"tools": [{"type": "function"}]}, "tools", "`tools` is not supported here; leave it out"),
    ({"n": 2}, "n", "`n` is not supported here; leave it out"),
    ({"logit_bias": {"5": 1}}, "logit_bias", "`logit_bias` is not supported here; leave it out"),
    ({"frobnicate": "yes"}, "frobnicate", "`frobnicate` is not supported here; leave it out"),
    ({"messages": IMAGE}, "messages[0]",
     "`messages[0]`: content of type `image_url` is not supported here, only text"),
    ({"messages": CALLS}, "messages[0]",
     "`messages[0]`: tools are not supported here; roles are system, user and assistant"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0]",
     "`messages[0]`: tools are not supported here; roles are system, user and assistant"),
    ({"messages": []}, None,
     "the request is not valid: Expected `array` of length >= 1 - at `$.messages`"),
    ({"temperature": "hot"}, None,
     "the request is not valid: Expected `float | null`, got `str` - at `$.temperature`"),
    ({"max_tokens": 0}, None, "the request is not valid: Expected `int` >= 1 - at `$.max_tokens`"),
    ({"model": None}, None, "the request is not valid: Expected `str`, got `null` - at `$.model`"),
    ({"response_format": {"type": "json_schema"}}, "response_format",
     "`response_format` needs a `json_schema`"),
    ({"metadata": {"needs": 5}}, "metadata",
     "`needs` is a text such as `legal, french`, or a list"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "param", "text"), WRONG, ids=[text for _, _, text in WRONG])
def test_what_is_not_supported_is_refused_in_words(
    fields: dict[str, Any], param: str | None, text: str
) -> None:
    with pytest.raises(RequestRefused) as caught:
        chat(**fields)
    assert (caught.value.status, caught.value.param, str(caught.value)) == (400, param, text)


@pytest.mark.parametrize("raw", [b"", b"[]", b"nonsense", b"\xff", b'{"model": "m"', b"{}"])
def test_what_is_no_request_is_refused(raw: bytes) -> None:
    with pytest.raises(RequestRefused) as caught:
        read_chat(raw)
    assert caught.value.status == 400


def test_a_key_is_a_reference(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from a file\n")
    assert read_secret("key", "env:A", {"A": " from a variable "}) == "from a variable"
    assert read_secret("key", f"file:{tmp_path / 'key'}") == "from a file"
    for wrong in ("env:B", f"file:{tmp_path / 'none'}", f"file:{tmp_path}"):
        with pytest.raises(BadInput, match="there is no key"):
            read_secret("key", wrong, {"A": "x"})
    for pasted in ("sk-secret", "env:", "none", ""):
        with pytest.raises(BadInput) as caught:
            read_secret("key", pasted)
        assert str(caught.value) == "--key is env:NAME or file:PATH, never the key itself"


def test_only_the_whole_key_opens() -> None:
    key = new_secret()
    assert key != new_secret()
    assert is_authorized(f"Bearer {key}", key)
    assert is_authorized(f"bearer  {key}", key)
    for wrong in (
        "",
        "Bearer",
        "Bearer ",
        f"Basic {key}",
        key,
        f"Bearer {key[:-1]}",
        f"Bearer {key}x",
    ):
        assert not is_authorized(wrong, key)
