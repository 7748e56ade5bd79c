"""Real logs of agents, read by their dialects."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fanfold.errors import MemberError
from fanfold.members.agents.dialect import Dialect, EventLine, LogReader
from fanfold.members.agents.worker import Exit
from fanfold.price import Price
from fanfold.work.ask import Ask, Message, Reply, Schema

LOGS = Path(__file__).parents[3] / "data" / "agent_clis"
ASK = Ask((Message("user", "do it"),))
NUMBER = Schema.of({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
WANTED = Ask((Message("user", "do it"),), schema=NUMBER)


def lines(name: str) -> list[bytes]:
    return (LOGS / f"{name}.jsonl").read_bytes().splitlines()


def without_results(log: Iterable[bytes]) -> list[bytes]:
    return [line for line in log if b'"total_cost_usd"' not in line]


def fed(reader: LogReader, log: Iterable[bytes]) -> list[EventLine]:
    return [told for line in log for told in reader.feed(line)]


def ended(
    dialect: Dialect, log: Iterable[bytes], exit: Exit, ask: Ask = ASK, price: Price | None = None
) -> Reply | MemberError:
    reader = dialect.reader(price)
    fed(reader, log)
    return dialect.conclude("w", reader.reading, exit, ask)


def failed(
    dialect: Dialect, log: Iterable[bytes], exit: Exit, ask: Ask = ASK, price: Price | None = None
) -> MemberError:
    made = ended(dialect, log, exit, ask, price)
    assert isinstance(made, MemberError), made
    return made
