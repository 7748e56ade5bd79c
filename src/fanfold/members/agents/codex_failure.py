"""Why a run of codex failed. It tells so in words only, so the words are what there is to go by."""

from __future__ import annotations

import re
from typing import Any

from fanfold.errors import MemberError, Terminal
from fanfold.members.printed import decoded, failure, said_by

_STATUS = re.compile(r"(?:unexpected|last) status:? (\d{3})")
_QUOTA = re.compile(r"quota exceeded|insufficient_quota|usage limit|out of credits|spend cap", re.I)
_KEY = re.compile(r"missing environment variable|not logged in|log ?in again|refresh token", re.I)
_MODEL = re.compile(r"\bmodel\b.*(does not exist|not found|not supported|no access)", re.I | re.S)
_LONG = re.compile(r"context_length_exceeded|context window|input is too long", re.I)
_CUT = re.compile(r"incomplete response returned, reason: (\w+)", re.I)
_BUSY = re.compile(r"high demand|overloaded|stream disconnected|error sending request", re.I)


def failed(member: str, words: str) -> MemberError:
    """From the text of `turn.failed`."""
    words, code = _opened(words)
    text = said_by(member, words)
    status = _STATUS.search(words)
    if _LONG.search(words) or code == "context_length_exceeded":
        return Terminal(text, scope="ask", too_long=True)
    if _QUOTA.search(words) or _KEY.search(words) or code == "insufficient_quota":
        return Terminal(text, scope="pool")
    if status is not None:
        return failure(member, int(status[1]), words)
    if _CUT.search(words):
        return Terminal(text, scope="ask")
    if not _BUSY.search(words) and (_MODEL.search(words) or code == "model_not_found"):
        return Terminal(text, scope="member")
    if code is not None:
        return Terminal(text, scope="ask")
    return failure(member, None, words)


def _opened(words: str) -> tuple[str, str | None]:
    """The message and the code of an error body that stands there as it came; the code is None for
    plain words, and empty when the body states none."""
    body: Any = decoded(words.encode()) if words.lstrip().startswith("{") else None
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return words, None
    return str(error.get("message") or words), str(error.get("code") or "")
