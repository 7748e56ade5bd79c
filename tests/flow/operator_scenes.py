"""The operators as patterns for scenes, and what a model answers to their prompts: right, and always
the same. What is asked twice shows in the books of the one who answers."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

import fanfold as ff
from fanfold.run.run import Run
from fanfold.testing.script import Asked, Says
from fanfold.work.blocking import Block

SIZE = 18
RECORDS = [
    {"id": f"r{n}", "name": f"{['Acme', 'Beta', 'Gamma', 'Delta', 'Omega', 'Sigma'][n % 6]} works no{n // 6}",
     "kind": f"k{n % 3}", "n": (n * 7) % SIZE}
    for n in range(SIZE)
]  # fmt: skip
_NUMBERS = re.compile(r"([A-Z])=(\d+)")
_NAMES = re.compile(r"<(\w+)")


def answered(asked: Asked) -> Says:
    """`SAME <acme …> <acme …>` is yes; `ORDER A=3 B=7` is the higher first; else what was asked."""
    kind, _, rest = asked.prompt.partition(" ")
    if kind == "SAME":
        first, second = _NAMES.findall(rest)
        return Says(text="yes" if first == second else "no")
    if kind == "ORDER":
        found = sorted(_NUMBERS.findall(rest), key=lambda one: -int(one[1]))
        return Says(text=" > ".join(label for label, _ in found))
    return Says(text=f"about {rest}")


_PAIR = "SAME <{{{{ item.{}.name }}}}> <{{{{ item.{}.name }}}}>"
_ORDER = "ORDER {% for one in item.choices %}{{ one.label }}={{ one.item.n }} {% endfor %}"
_GROUP = "SUM {% for one in parts %}{{ one.ids | join(' ') }} {% endfor %}"
_NEAR = Block(on=("name",), neighbours=2)

OPERATORS: dict[str, Callable[[Run, list[Any]], Awaitable[Any]]] = {
    "group": lambda run, rows: ff.group(
        run, rows, by="kind", reduce=ff.asked(_GROUP, fan_in=3, concurrency=2)
    ),
    "resolve": lambda run, rows: ff.resolve(
        run, rows, prompt=_PAIR.format("a", "b"), block=_NEAR, canonical="name", concurrency=2
    ),
    "join": lambda run, rows: ff.join(
        run, rows[:9], rows[9:], prompt=_PAIR.format("left", "right"), block=_NEAR, concurrency=2
    ),
    "rank": lambda run, rows: ff.rank(run, rows, prompt=_ORDER, rounds=3, concurrency=2),
    "windows": lambda run, rows: ff.rank(
        run, rows, prompt=_ORDER, window=5, rounds=3, concurrency=2
    ),
    "sample": lambda run, rows: sampled_map(run, rows),
}


async def sampled_map(run: Run, rows: list[Any]) -> Any:
    chosen = await ff.sample(run, rows, 9, by="kind", seed=3)
    return await ff.map_reduce(
        run, chosen.value, prompt="MAP {{ item.name }}", reduce=ff.collect(), concurrency=2
    )
