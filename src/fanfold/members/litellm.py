"""The kind `litellm`: services that speak neither of our wires, by LiteLLM's SDK, an extra.

An ask goes to it in OpenAI's form, and its answer is read in that form; it retries nothing, and its own
prices and its counting of tokens are not used.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import msgspec

from fanfold import price
from fanfold.errors import BadInput, InvalidReply, MemberError, Terminal, TimedOut, Transient
from fanfold.members.endpoint import ApiFields
from fanfold.members.entry import constructor
from fanfold.members.http import Answer
from fanfold.members.keys import SHORTEST, Key, fetcher, scrubbed
from fanfold.members.kinds import BuildContext
from fanfold.members.openai import ROWS, OpenAI
from fanfold.members.providers import PROVIDERS
from fanfold.members.status import refused, shortened
from fanfold.price import Price
from fanfold.work.ask import Ask, Reply
from fanfold.work.member import Request, Tell, Traits, filled

_MISSING = "kind litellm needs the extra `litellm`: pip install 'fanfold[litellm]'"
_QUIET = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it fetches a price list when it is imported
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",  # and a list of headers
    "LITELLM_MODE": "PRODUCTION",  # else it reads a file .env
}
_NOWHERE = "http://127.0.0.1"
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_LISTED = {
    "bedrock": "https://bedrock-runtime.us-east-1.amazonaws.com",
    "vertex_ai": "https://aiplatform.googleapis.com",
    "fireworks_ai": PROVIDERS["fireworks"].base_url,
    "together_ai": PROVIDERS["together"].listed_at,
} | {name: one.base_url for name, one in PROVIDERS.items() if one.key != "none" and one.base_url}
"""Where price lists know those whose names LiteLLM's models begin with."""


class LitellmFields(ApiFields, frozen=True, kw_only=True, tag="litellm"):
    """A model that LiteLLM reaches: `members=[litellm("bedrock/anthropic.claude-sonnet-4-5")]`.

    `model` as LiteLLM has it, with the provider before the slash. Without a `key` LiteLLM finds the
    provider's credentials in the environment by itself, unless there is a `base_url`.
    """

    absent: ClassVar[tuple[str, ...]] = ("batch_price", "max_bytes")
    usual_host: ClassVar[str] = ""
    usual_key: ClassVar[str] = "none"

    def listed_price(self) -> Price | None:
        """By the provider in the model's name; at an address of one's own nobody knows it."""
        provider, _, model = self.model.partition("/")
        if self.base_url or not model:
            return None
        if provider == "anthropic":
            return price.lookup(model, "anthropic")
        listed = _LISTED.get(provider)
        return price.lookup(model, "openai", listed) if listed else None

    def usual_batch_price(self) -> float | None:
        return None

    def build(self, traits: Traits, context: BuildContext) -> Litellm:
        key = fetcher(self.id, self.key, context.roster)
        missing = BadInput(_MISSING, file=context.file, line=context.line("kind"))
        return Litellm(traits, self.base_url, key, missing)

    async def trouble(self, traits: Traits, context: BuildContext) -> str | None:
        if self.base_url:
            return await super().trouble(traits, context)
        return await super(ApiFields, self).trouble(traits, context)


litellm = constructor(LitellmFields, lambda given: given["model"])


class Litellm(OpenAI):
    """Replies come whole: what LiteLLM reports of a stream may be its own count of tokens, and no bill
    is settled by that. Prompts are not marked for caches, so nobody waits for one that goes first."""

    def __init__(
        self, traits: Traits, base_url: str, key: Key, missing: BadInput = BadInput(_MISSING)
    ) -> None:
        """`missing`: what is said where LiteLLM is not installed."""
        super().__init__(traits, _NOWHERE, key)
        self._base_url, self._key, self._missing = base_url, key, missing
        self._sdk: Any = None

    async def open(self) -> None:
        try:
            self._sdk = await asyncio.to_thread(_imported)
        except ModuleNotFoundError:
            raise self._missing from None

    async def close(self) -> None:
        """LiteLLM keeps its connections by itself, one for each event loop."""

    def prepare(self, ask: Ask) -> Request:
        return msgspec.structs.replace(super().prepare(ask), prefix="", shared=0)

    async def ask(self, request: Request, tell: Tell) -> Reply:
        body = request.body
        if request.has_files:
            body = await asyncio.to_thread(filled, request)
        key = (self._key() or "").strip()
        try:
            async with asyncio.timeout(self._traits.timeout):
                answer = await self._sdk.acompletion(
                    **msgspec.json.decode(body), **self._where(key), num_retries=0, max_retries=0,
                    timeout=self._traits.timeout,
                )  # fmt: skip
        except TimeoutError:
            raise TimedOut(f"{self._traits.id}: no answer in {self._traits.timeout:g} s") from None
        except tuple(self._sdk.exceptions.LITELLM_EXCEPTION_TYPES) as error:
            raise member_error(self._traits.id, error, key) from None
        return self.whole(request, answer.model_dump_json().encode())

    def _where(self, key: str) -> dict[str, str]:
        """A key that LiteLLM finds by itself goes to the provider, never to an address of one's own."""
        if self._base_url:
            return {"api_base": self._base_url, "api_key": key or "none"}
        return {"api_key": key} if key else {}


def _imported() -> Any:
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    import litellm as sdk

    sdk.suppress_debug_info, sdk.telemetry = True, False
    sdk.disable_aiohttp_transport = True  # its sessions would not be closed
    return sdk


def member_error(member: str, error: Exception, key: str) -> MemberError:
    """LiteLLM's exceptions by their names and statuses, as answers are read; who failed in a 5xx is not
    told, so it may have been billed."""
    names = {kind.__name__ for kind in type(error).__mro__}
    said = shortened(_without_secrets(str(getattr(error, "message", error)), key, os.environ))
    if "Timeout" in names:
        return TimedOut(f"{member}: no answer in time: {said}")
    if names & {"APIResponseValidationError", "JSONSchemaValidationError"}:
        return InvalidReply(f"{member}: the answer cannot be read: {said}")
    if any(type(one).__name__ in ("ConnectError", "ConnectTimeout") for one in _chain(error)):
        return Transient(f"{member}: no connection: {said}")
    if "ContextWindowExceededError" in names:
        return Terminal(f"{member}: the request is too long: {said}", scope="ask", too_long=True)
    if "ContentPolicyViolationError" in names:
        return Terminal(f"{member}: the request was refused: {said}", scope="ask")
    if "UnsupportedParamsError" in names:
        what = said.partition(": ")[2].partition(" To drop these")[0] or said
        return Terminal(f"{member}: {what} Leave them out of the step.", scope="ask")
    if "LLM Provider NOT provided" in said:
        what = "LiteLLM does not know this model: write it as PROVIDER/MODEL"
        return Terminal(f"{member}: {what}", scope="member")
    response = getattr(error, "response", None)
    headers = getattr(error, "litellm_response_headers", None) or getattr(response, "headers", {})
    status = getattr(error, "status_code", None)
    answer = Answer(status if isinstance(status, int) else 500, said.encode(), headers.get)
    return refused(member, answer, ROWS, key)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(16):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


def _without_secrets(text: str, key: str, environ: Mapping[str, str]) -> str:
    """Also without those that LiteLLM found by itself."""
    found = [value for name, value in environ.items() if _SECRET.search(name)]
    for secret in (key, *(value for value in found if len(value) >= SHORTEST)):
        text = scrubbed(text, secret) if secret else text
    return text
