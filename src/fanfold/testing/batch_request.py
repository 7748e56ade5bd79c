"""A request about batches or files, and what is common to both services."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qs

from fanfold.testing.batches import ServerBatch, ServerBatches
from fanfold.testing.http import HttpRequest

MESSAGES = "/v1/messages"
COMPLETIONS = "/v1/chat/completions"


class Refused(Exception):
    """What was wanted is not done."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


class BatchRequest(NamedTuple):
    """A request about batches or files."""

    http: HttpRequest
    key: str
    base: str

    @property
    def words(self) -> list[str]:
        return self.http.path.strip("/").split("/")

    def given(self, name: str, usual: str = "") -> str:
        return parse_qs(self.http.query).get(name, [usual])[0]

    @property
    def limit(self) -> int:
        return int(self.given("limit", "20"))


def found_batch(batches: ServerBatches, id: str) -> ServerBatch:
    if id not in batches.batches:
        raise Refused(404, f"no batch {id}")
    return batches.batches[id]
