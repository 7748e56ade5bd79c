"""LangGraph: a map of `Send`s with a checkpointer, and a cache of nodes."""

from __future__ import annotations

import asyncio
import operator
from typing import Annotated, Any, TypedDict

from job import given, shout, tell
from langchain_openai import ChatOpenAI
from langgraph.cache.sqlite import SqliteCache
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import CachePolicy, Send

NEEDS = ["langgraph", "langgraph-checkpoint-sqlite", "langchain-openai", "aiosqlite"]
SETTINGS = (
    "a node for each item by `Send`, `AsyncSqliteSaver` with `durability='sync'`, resumed by `ainvoke(None)`;"
    " a semaphore in the node (with `max_concurrency`, writes wait behind all tasks: 98 of 120 asked again);"
    " `CachePolicy` with `SqliteCache`; `ChatOpenAI`, its 2 retries"
)
NOT_OFFERED = {"cap": "no budget"}


class State(TypedDict):
    items: list[dict[str, str]]
    answers: Annotated[dict[str, str], operator.or_]


async def main() -> None:
    job = given()
    model = ChatOpenAI(
        model=job.model, base_url=job.url, api_key=job.key, max_tokens=job.max_tokens
    )

    at_once = asyncio.Semaphore(job.concurrency)

    async def ask(item: dict[str, str]) -> dict[str, Any]:
        if job.local:
            return {"answers": {item["id"]: shout(item["text"])}}
        async with at_once:
            reply = await model.ainvoke(item["text"])
        return {"answers": {item["id"]: str(reply.content)}}

    graph = StateGraph(State)
    keeps = job.task == "edit"
    graph.add_node("ask", ask, cache_policy=CachePolicy() if keeps else None)
    graph.add_conditional_edges(
        START, lambda state: [Send("ask", item) for item in state["items"]], ["ask"]
    )
    graph.add_edge("ask", END)
    async with AsyncSqliteSaver.from_conn_string("checkpoints.sqlite") as saver:
        cache = SqliteCache(path="cache.sqlite") if keeps else None
        app = graph.compile(checkpointer=saver, cache=cache)
        # an edited input is another thread; a killed one is resumed
        thread = job.version if keeps else "run"
        config: Any = {"configurable": {"thread_id": thread}}
        begun = (await app.aget_state(config)).next
        state = None if begun else {"items": job.items, "answers": {}}
        try:
            found = await app.ainvoke(state, config, durability="sync")
        except Exception as error:
            found = {"answers": {}, "error": str(error)}
        tell(found["answers"])


asyncio.run(main())
