"""The stage `fetch`: pages of a table from the API. Run as a program, it lists the tables.

The API is at ETL_API; without that variable one is started here, over the folder `data`, and ends
with this process.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from functools import cache
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import quote, urlsplit

from api import Api

PAGE = 100
MOST_PAGES = 100
PATIENCE = 1.0


def page(item: dict[str, Any]) -> Any:
    """The member's function: one page. What may pass is a ConnectionError or a TimeoutError, so the
    run asks for this page again, and for no other."""
    return _get(f"/tables/{quote(item['table'])}?page={item['page']}&size={item['size']}")


def whole(parts: Iterable[Any]) -> dict[str, Any]:
    """The reduce: one table of its pages. It is whole or it is not there."""
    pages = sorted((part.value for part in parts), key=lambda page: int(page["page"]))
    there = [page["page"] for page in pages]
    wanted = range(1, pages[0]["pages"] + 1) if pages else range(1, 2)
    if lacking := [n for n in wanted if n not in there]:
        raise ValueError(f"page {lacking[0]} of {len(wanted)} is missing; resume to fetch it")
    return {
        "columns": pages[0]["columns"],
        "rows": [row for page in pages for row in page["rows"]],
        "pages": len(pages),
        "ragged": [row for page in pages for row in page.get("ragged", [])],
        "requests": sum(page["request"] for page in pages),
    }


def tables() -> list[dict[str, Any]]:
    """The tables that the API has, each with the pages that make it up."""
    return [{"id": one["id"], "pages": _pages(one["id"], one["rows"])} for one in _get("/tables")]


def _pages(table: str, rows: int) -> list[dict[str, Any]]:
    size = max(PAGE, -(-rows // MOST_PAGES))
    many = max(1, -(-rows // size))
    return [{"id": str(n), "table": table, "page": n, "size": size} for n in range(1, many + 1)]


@cache
def _own() -> Api:
    return Api().__enter__()


def _get(path: str) -> Any:
    address = urlsplit(os.environ.get("ETL_API") or _own().url)
    line = HTTPConnection(address.hostname or "127.0.0.1", address.port, timeout=PATIENCE)
    try:
        line.request("GET", path)
        answer = line.getresponse()
        status, body = answer.status, answer.read()
    except (HTTPException, OSError) as error:
        if isinstance(error, TimeoutError):
            raise TimeoutError(f"{path}: no answer within {PATIENCE:g} s") from None
        raise ConnectionError(f"{path}: {error or type(error).__name__}") from None
    finally:
        line.close()
    if status >= 500:
        raise ConnectionError(f"{path}: the API answered {status}")
    if status != 200:
        raise ValueError(f"{path}: the API answered {status}")
    try:
        return json.loads(body)
    except ValueError:
        raise ConnectionError(f"{path}: the answer is torn, {len(body)} bytes of it came") from None


def main() -> None:
    try:
        for table in tables():
            sys.stdout.write(json.dumps(table) + "\n")
    except (ConnectionError, TimeoutError) as error:
        sys.exit(f"the API cannot be reached: {error}")


if __name__ == "__main__":
    main()
