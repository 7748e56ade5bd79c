"""`provider` in a roster: the address, whose key, and what the service does otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import pytest

import fanfold as ff
from fanfold.errors import BadInput
from fanfold.members.openai import OpenAIFields
from fanfold.members.providers import PROVIDERS, ProviderName
from fanfold.members.roster import load_roster
from fanfold.run.loop import run_sync
from fanfold.testing.running import threaded_server
from fanfold.testing.script import Asked, Says

asked: list[Asked] = []


def note(one: Asked) -> Says:
    asked.append(one)
    return Says(data={"a": 1}) if "schema" in one.raw.decode() else Says(text="fine")


def roster(folder: Path, entry: str) -> Path:
    (folder / "roster.yaml").write_text(f"members:\n  - {{{entry}}}\n")
    return folder / "roster.yaml"


def fields(folder: Path, entry: str) -> OpenAIFields:
    found = load_roster(roster(folder, entry)).entry("m").fields
    assert isinstance(found, OpenAIFields)
    return found


def test_every_provider_is_in_the_table() -> None:
    assert set(get_args(ProviderName)) == set(PROVIDERS)


@pytest.mark.parametrize("name", sorted(set(PROVIDERS) - {"", "azure", "bedrock", "vertex"}))
def test_it_sets_address_and_key(tmp_path: Path, name: str) -> None:
    """Without a `kind`, it is openai's."""
    found = fields(tmp_path, f"id: m, provider: {name}, model: x")
    known = PROVIDERS[name]
    assert (found.base_url, found.key) == (known.base_url, known.key)
    local = load_roster(tmp_path / "roster.yaml").entry("m").traits.tier == "local"
    assert local == (known.key == "none")


def test_a_key_goes_to_the_hosts_of_its_provider_only(tmp_path: Path) -> None:
    entry = "id: m, provider: groq, model: x, base_url: "
    assert fields(tmp_path, entry + "'https://eu.api.groq.com/v1'").key == "env:GROQ_API_KEY"
    assert fields(tmp_path, entry + "'https://api.groq.com.evil.example/v1'").key == "none"
    assert fields(tmp_path, entry + "'http://127.0.0.1:1/v1'").key == "none"


@pytest.mark.parametrize(
    ("name", "url", "key"),
    [
        ("bedrock", "https://bedrock-mantle.us-east-2.api.aws/openai/v1", "AWS_BEARER_TOKEN_BEDROCK"),
        ("bedrock", "https://bedrock-runtime.us-west-2.amazonaws.com/openai/v1",
         "AWS_BEARER_TOKEN_BEDROCK"),
        ("bedrock", "https://bedrock-runtime.s3.eu.amazonaws.com/openai/v1", ""),
        ("bedrock", "https://bedrock-x.us-west-2.amazonaws.com/openai/v1", ""),
        ("vertex", "https://europe-west1-aiplatform.googleapis.com/v1/projects/p/locations/"
         "europe-west1/endpoints/openapi", "VERTEX_ACCESS_TOKEN"),
        ("vertex", "https://aiplatform.googleapis.com/v1/projects/p/locations/global/endpoints/openapi",
         "VERTEX_ACCESS_TOKEN"),
        ("vertex", "https://aiplatform.googleapis.com.evil.example/v1", ""),
    ],
)  # fmt: skip
def test_where_each_account_has_its_address_the_key_goes_to_hosts_of_that_form(
    tmp_path: Path, name: str, url: str, key: str
) -> None:
    found = fields(tmp_path, f"id: m, provider: {name}, model: x, base_url: '{url}'")
    assert (found.base_url, found.key) == (url, f"env:{key}" if key else "none")


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("id: m, provider: bedrock, model: x", "state `base_url`"),
        ("id: m, provider: vertex, model: x", "state `base_url`"),
        ("id: m, provider: grok, model: x", "unknown provider `grok`"),
        ("id: m, provider: azure, model: x", "state `base_url`"),
        ("id: m, provider: groq", "needs the field `model`"),
        (
            "id: m, kind: anthropic, provider: groq, model: x",
            "`provider` is a field of kind openai",
        ),
    ],
)
def test_mistakes_name_their_line(tmp_path: Path, entry: str, said: str) -> None:
    with pytest.raises(BadInput) as wrong:
        load_roster(roster(tmp_path, entry))
    assert said in str(wrong.value)
    assert wrong.value.line == 2


async def ask(folder: Path, texts: Sequence[str] = ("x",), **how: Any) -> None:
    where = folder / "roster.yaml"
    async with ff.open_run("p", store=folder / "store", roster=where, allow_paid=True) as run:
        await ff.map_reduce(run, texts, prompt="{{ item.text }}", member="m", **how)


def exchanged(folder: Path, provider: str, more: str = "", **how: Any) -> Asked:
    """The request that the service got."""
    asked.clear()
    with threaded_server(folder / "books", script=f"{__name__}:note") as server:
        entry = f"id: m, provider: {provider}, model: x, base_url: '{server.url}/v1'{more}"
        roster(folder, f"{entry}, price: {{input: 1, output: 1}}")
        run_sync(ask(folder, **how))
    return asked[0]


PARAMS = {"params": {"seed": 7, "max_tokens": 50}}


def test_mistral_has_another_name_for_the_seed(tmp_path: Path) -> None:
    body = exchanged(tmp_path, "mistral", **PARAMS).body
    assert (body["random_seed"], "seed" in body, body["max_tokens"]) == (7, False, 50)


@pytest.mark.parametrize("name", ["groq", "azure", "cerebras", "openai"])
def test_some_want_the_newer_name_of_max_tokens(tmp_path: Path, name: str) -> None:
    body = exchanged(tmp_path, name, **PARAMS).body
    assert (body["max_completion_tokens"], "max_tokens" in body, body["seed"]) == (50, False, 7)


def test_deepseek_takes_a_schema_in_the_prompt_only(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    one = exchanged(tmp_path, "deepseek", schema=schema)
    assert ("response_format" in one.body, '"a"' in one.system) == (False, True)


def test_azure_has_a_header_of_its_own_for_the_key(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("secret-of-azure")
    one = exchanged(tmp_path, "azure", ", key: 'file:key'")
    assert (one.headers["api-key"], "authorization" in one.headers) == ("secret-of-azure", False)


def test_python_has_it_too() -> None:
    entry = ff.openai("llama-4", provider="groq").entry
    assert (entry.traits.model, entry.fields.key_reference) == ("llama-4", "env:GROQ_API_KEY")
    with pytest.raises(BadInput, match="unknown provider `grok`"):
        ff.openai("x", provider="grok")  # type: ignore[arg-type]


token = Path()


def renewing(one: Asked) -> Says:
    """Each answer comes after the token was renewed."""
    asked.append(one)
    token.write_text(f"token-number-{len(asked) + 1}")
    return Says(text="fine")


def test_a_token_that_lasts_an_hour_may_be_renewed_in_its_file_while_a_run_works(
    tmp_path: Path,
) -> None:
    global token
    asked.clear()
    token = tmp_path / "token"
    token.write_text("token-number-1")
    with threaded_server(tmp_path / "books", script=f"{__name__}:renewing") as server:
        entry = f"id: m, provider: vertex, model: google/x, base_url: '{server.url}/v1'"
        roster(tmp_path, f"{entry}, key: 'file:token', price: {{input: 1, output: 1}}")
        run_sync(ask(tmp_path, texts=["a", "b", "c"], concurrency=1))
    sent = [one.headers["authorization"] for one in asked]
    assert sent == [f"Bearer token-number-{n}" for n in (1, 2, 3)]
