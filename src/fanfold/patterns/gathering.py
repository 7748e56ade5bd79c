"""The results that a desk folds by asking a member: a tree of asks, and what they took."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from typing import Any

import msgspec

from fanfold.errors import BadInput
from fanfold.patterns.asked import NAMES, Asked
from fanfold.patterns.errand import Errand, Result, errand_of, result_of
from fanfold.patterns.prompt import Prompt, prompt_of
from fanfold.patterns.reduce import Landing, Reducing, grow
from fanfold.price import dollars
from fanfold.run.run import Run
from fanfold.work.ask import Params, Usage
from fanfold.work.outcome import Outcome, Part
from fanfold.work.task import Task, Terms

FAN_IN = 10
OPTIONS = (*Errand.__struct_fields__, "fan_in")


def read_options(given: dict[str, Any]) -> tuple[Errand, int]:
    """What a caller says of an asked reduce: the errand, and how many parts go into one ask."""
    for name in given:
        if name not in OPTIONS:
            raise BadInput(f"reduce `ask` has no option `{name}`: known: {', '.join(OPTIONS)}")
    fan_in = given.get("fan_in", FAN_IN)
    if not isinstance(fan_in, int) or isinstance(fan_in, bool) or fan_in < 2:
        raise BadInput(f"reduce `ask`: `fan_in` is a whole number of at least 2, not {fan_in!r}")
    return errand_of({name: value for name, value in given.items() if name != "fan_in"}), fan_in


async def gather(run: Run, parts: list[Part], errand: Errand, terms: Terms, fan_in: int) -> Result:
    """One answer of these parts, by a member. A part that does not pass ends it."""
    asking = _Asking()
    way = Reducing(Asked(_instruction(errand), terms, fan_in, asking), fan_in)
    await grow(run, len(parts), _landings(parts), way)
    return asking.result()


class _Asking:
    """Carries the asks out; remembers what they took, and the first that did not pass or the last."""

    def __init__(self) -> None:
        self._cost, self._used = 0, Usage()
        self._telling: Outcome | None = None

    async def __call__(self, run: Run, task: Task) -> Outcome:
        outcome = await run.do(task)
        self._cost += outcome.cost
        self._used += result_of(0, outcome).tokens
        if self._telling is None or self._telling.state == "passed":
            self._telling = outcome
        return outcome

    def result(self) -> Result:
        if self._telling is None:
            return Result(status="ok", message="there was nothing to reduce")
        made = result_of(0, self._telling)
        changes = {"id": None, "cost_usd": dollars(self._cost), "tokens": self._used}
        whole: Result = msgspec.structs.replace(made, **changes)
        return whole


def _instruction(errand: Errand) -> Prompt:
    """The caller's text is a name in a fixed template, so it is not one itself."""
    made = prompt_of("{{ instruction }}", errand.schema, NAMES | {"instruction"})
    params = Params(max_tokens=errand.max_tokens)
    return msgspec.structs.replace(made, params=params, names={"instruction": errand.prompt})


async def _landings(parts: Iterable[Part]) -> AsyncGenerator[Landing, None]:
    for part in parts:
        yield part.position, part
