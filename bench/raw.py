"""The baselines: what a careful person would write for this one job, and nothing else."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections import deque
from pathlib import Path

import aiohttp
from data import MAX_TOKENS, MODEL, SCHEMA, prompt, row

Row = tuple[str, str]


class Writer:
    """A thread that commits what has gathered as soon as its last commit has ended."""

    def __init__(self, file: Path) -> None:
        self._loop = asyncio.get_running_loop()
        self._db = sqlite3.connect(file, check_same_thread=False, isolation_level=None)
        self._db.execute("pragma journal_mode = wal")
        self._db.execute("pragma synchronous = full")
        self._db.execute("create table replies (no integer primary key, id text, reply text)")
        self._gathered: deque[tuple[Row, asyncio.Future[None]]] = deque()
        self._wake = threading.Event()
        self._closing = False
        self.commits = 0
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def put(self, row: Row) -> asyncio.Future[None]:
        durable = self._loop.create_future()
        self._gathered.append((row, durable))
        if not self._wake.is_set():
            self._wake.set()
        return durable

    def close(self) -> None:
        self._closing = True
        self._wake.set()
        self._thread.join()
        self._db.close()

    def _work(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            if self._gathered:
                self._commit()
            elif self._closing:
                return

    def _commit(self) -> None:
        group = [self._gathered.popleft() for _ in range(len(self._gathered))]
        self._db.execute("begin")
        self._db.executemany("insert into replies (id, reply) values (?, ?)", [r for r, _ in group])
        self._db.execute("commit")
        self.commits += 1
        self._loop.call_soon_threadsafe(_tell, [durable for _, durable in group])


def _tell(waiting: list[asyncio.Future[None]]) -> None:
    for durable in waiting:
        durable.set_result(None)


async def pool(folder: str, items: int, concurrency: int) -> dict[str, float]:
    """Workers that call a no-op and await that its reply is durable."""
    writer = Writer(Path(folder) / "raw.db")
    numbers = iter(range(items))

    async def work() -> None:
        for number in numbers:
            item = row(number)
            await writer.put((item["id"], json.dumps({"rating": item["rating"]})))

    await asyncio.gather(*[work() for _ in range(concurrency)])
    writer.close()
    return {"commits": writer.commits}


async def tasks(folder: str, items: int, concurrency: int) -> None:
    """The same as most people write it: a task per item, all made at once, behind a semaphore."""
    writer = Writer(Path(folder) / "raw.db")
    permits = asyncio.Semaphore(concurrency)

    async def one(number: int) -> None:
        async with permits:
            item = row(number)
            await writer.put((item["id"], json.dumps({"rating": item["rating"]})))

    await asyncio.gather(*[one(number) for number in range(items)])
    writer.close()


async def http(folder: str, items: int, concurrency: int, url: str) -> None:
    """Workers that post a prompt and parse the reply. Nothing is kept."""
    numbers = iter(range(items))
    connector = aiohttp.TCPConnector(limit=concurrency)
    headers = {"authorization": "Bearer none-at-all"}
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:

        async def work() -> None:
            for number in numbers:
                async with session.post(url, json=body(number)) as response:
                    answer = await response.json()
                    json.loads(answer["choices"][0]["message"]["content"])

        await asyncio.gather(*[work() for _ in range(concurrency)])


def body(number: int) -> dict[str, object]:
    described = {"name": "reply", "schema": SCHEMA}
    return {
        "model": MODEL,
        "messages": [{"role": "user", "content": prompt(number)}],
        "max_tokens": MAX_TOKENS,
        "response_format": {"type": "json_schema", "json_schema": described},
    }
