"""The tasks: what is done with a peer, what the server says meanwhile, and what is counted."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from scene import Ended, Peer, Scene, end, scene, wait_for

from fanfold.price import dollars
from fanfold.testing.script import Asked, Says, key_required, random_usage

CAP, KILLS = 0.05, 4
FEW, MANY = 100, 600  # items, whose difference is measured: what is taken once does not count

# What the server says; it imports these from here.


def _spoken(asked: Asked) -> Says:
    """The prompt comes back; as the field `answer` where a schema asks for it."""
    return Says(data={"answer": asked.prompt}) if asked.schema is not None else Says()


costly = random_usage(1, _spoken)
locked = key_required("the right one", _spoken)
plain = _spoken


class _Busy:
    """One call in ten is answered 429, by lot."""

    def __init__(self) -> None:
        self._chance = random.Random(1)

    def __call__(self, asked: Asked) -> Says:
        if self._chance.random() < 0.1:
            return Says(status=429, latency=0.0)
        return _spoken(asked)


busy = _Busy()


# ── what is counted ──────────────────────────────────────────────────────────────────────────


def items(count: int, about: str = "") -> list[dict[str, str]]:
    return [
        {"id": f"i{n}", "text": f"What is the {n}th thing to say?{about}"} for n in range(count)
    ]


def asked(scene: Scene) -> list[Any]:
    """Requests for answers; some clients also ask for the list of models, or send a test of their own."""
    return [entry for entry in scene.server.books().asked if "thing to say" in entry.prompt]


def kills(peer: Peer, seed: int) -> str:
    """120 items, 8 at once, killed with -9 four times, then run to the end."""
    chance = random.Random(seed)
    with scene(peer, 8) as here:
        here.write(items(120))
        for number in range(KILLS):
            process = here.start("kills")
            wait_for(process, lambda goal=24 * (number + 1): here.server.totals().asked >= goal)
            time.sleep(chance.random() * 0.1)
            end(process)
            here.server.wait_idle()
        ended = here.run("kills")
        again, answered = 0, set[str]()
        for entry in (found := asked(here)):
            again += entry.prompt in answered
            answered |= {entry.prompt} if entry.answered else set()
        repeats = len(found) - len({entry.prompt for entry in found})
        return f"{again} · {repeats}" + _gaps(ended, 120)


def _gaps(ended: Ended, wanted: int) -> str:
    if ended.answers is None:
        return f"; {ended.why}"
    return "" if len(ended.held) == wanted else f"; {len(ended.held)} of {wanted} answered"


def cap(peer: Peer, seed: int) -> str:
    """400 items, 64 at once, a budget of $0.05, usage drawn at random up to max_tokens."""
    with scene(peer, 64, "costly") as here:
        here.write(items(400, f" ({seed})"))
        ended = here.run("cap", budget=CAP)
        books = here.server.books()
        bill, paid = dollars(books.bill), len([e for e in asked(here) if e.cost])
        over = max(0.0, bill / CAP - 1)
        lost = f"{paid - len(ended.held)} of {paid}" if ended.answers is not None else ended.why
        return f"{over:.0%} · {lost}"


def edit(peer: Peer, seed: int) -> str:
    """120 items; then one is edited, and the lines are shuffled."""
    with scene(peer, 8) as here:
        given = items(120)
        here.write(given)
        first = here.run("edit")
        before = len(asked(here))
        given[seed]["text"] += " And now?"
        random.Random(seed).shuffle(given)
        here.write(given)
        ended = here.run("edit")
        stale = sum(ended.held.get(item["id"], item["text"]) != item["text"] for item in given)
        return f"{len(asked(here)) - before} · {stale}" + (_gaps(first, 120) or _gaps(ended, 120))


def refusals(peer: Peer, seed: int) -> str:
    """500 items, 64 at once; then the same with one call in ten refused (429)."""
    seconds = []
    for script in ("plain", "busy"):
        with scene(peer, 64, script) as here:
            here.write(items(500, f" ({seed})"))
            ended = here.run("refusals")
            seconds.append(ended.seconds)
            sent = len(asked(here))
    if ended.answers is None:
        return f"{ended.why}; {sent} requests"
    return f"{seconds[1] / seconds[0]:.1f} · {500 - len(ended.held)} · {sent}"


def bad_key(peer: Peer, seed: int) -> str:
    """640 items, 64 at once, a key that the server refuses."""
    with scene(peer, 64, "locked") as here:
        here.write(items(640))
        ended = here.run("bad_key", key="a wrong one")
        late = f"; {ended.why}" if ended.why.startswith("not ended") else ""
        return f"{len(here.server.books().asked)}{late}"


def overhead(peer: Peer, seed: int, *, local: bool = False) -> float | str:
    """CPU seconds of one item, of it and what it starts: the difference of two runs."""
    used = []
    for count in (FEW, MANY):
        with scene(peer, 16, latency=0.0) as here:
            here.write(items(count, f" ({seed})"))
            ended = here.run("overhead", local=local)
            if len(ended.held) != count:
                return ended.why or f"{len(ended.held)} of {count} answered"
            used.append(ended.cpu)
    return (used[1] - used[0]) / (MANY - FEW)


class Task(NamedTuple):
    title: str
    figures: str
    measure: Callable[[Peer, int], Any]


TASKS = {
    "kills": Task("four kills (-9)", "answered asked again · repeats in all", kills),
    "cap": Task("a $0.05 cap, 64 at once", "over the cap · paid replies not held", cap),
    "edit": Task("one item edited, shuffled", "calls · stale answers", edit),
    "refusals": Task("one in ten 429", "time × · items lost · requests", refusals),
    "bad_key": Task("a bad key", "requests of 640 items", bad_key),
    "http": Task("CPU per HTTP call", "× the bare client (of that: ms)", overhead),
    "local": Task(
        "CPU per item", "ms, without HTTP", lambda peer, seed: overhead(peer, seed, local=True)
    ),
}
