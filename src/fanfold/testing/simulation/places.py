"""Where a process is when it is killed: the lines of our code that its tasks wait in."""

from __future__ import annotations

import ast
import gc
import linecache
from functools import cache
from pathlib import Path
from types import CodeType, CoroutineType
from typing import Any

import fanfold.run
from fanfold.testing.simulation.machine import SimulatedProcess

ELSEWHERE = {
    "run/hosts.py": "hosts are reached by a real ssh: tests/flow/test_hosts.py",
    "run/ssh.py": "as hosts.py: tests/flow/test_ssh.py",
    "run/stdio.py": "the far end of an ssh connection, a real process: tests/flow/test_ssh.py",
    "run/ray.py": "needs a Ray cluster: tests/flow/test_ray.py",
    "run/ray_node.py": "runs in a process of a Ray cluster: tests/flow/test_ray.py",
}
"""Files of the run path that no simulation reaches, and why."""


def awaits_of(process: SimulatedProcess) -> set[str]:
    """Every await that its tasks are in, from the outermost to what they really wait for, each as
    `run/attempt.py:171`."""
    return {place for task in process.loop.tasks() for place in places_of(task)}


def places_of(task: Any, aim: str = "") -> list[str]:
    """The awaits that one task is in. `aim`: only this one, or those of this file."""
    found = []
    wanted, line = _aim(aim)
    coroutine = task.get_coro()
    while coroutine is not None:
        if type(coroutine) is CoroutineType:
            frame, awaited = coroutine.cr_frame, coroutine.cr_await
        else:
            frame, awaited = getattr(coroutine, "ag_frame", None), _awaited(coroutine)
        if (
            frame is not None
            and (file := _file_of(frame.f_code))
            and (not wanted or file == wanted)
            and (not line or frame.f_lineno == line)
        ):
            found.append(f"{file}:{frame.f_lineno}")
        coroutine = awaited
    return found


@cache
def _aim(aim: str) -> tuple[str, int]:
    file, _, line = aim.partition(":")
    return file, int(line or 0)


@cache
def _file_of(code: CodeType) -> str:
    """Within our package; nothing for what is not ours, or is part of the simulation."""
    _, ours, file = code.co_filename.rpartition("/fanfold/")
    return file if ours and not file.startswith("testing/") else ""


def _awaited(one: Any) -> Any:
    """What it waits for; the next step of a generator does not say of which, but refers to it."""
    if type(one).__name__ in ("async_generator_asend", "async_generator_athrow"):
        return next((o for o in gc.get_referents(one) if hasattr(o, "ag_frame")), None)
    return getattr(one, "cr_await", None) or getattr(one, "ag_await", None)


def await_sites() -> set[str]:
    """Every line of the run's own code that awaits something."""
    return set(_functions())


@cache
def _functions() -> dict[str, str]:
    """The innermost function of each."""
    folder = Path(fanfold.run.__file__ or "").parent
    waits = (ast.Await, ast.AsyncFor, ast.AsyncWith)
    return {
        f"run/{file.name}:{node.lineno}": function.name
        for file in folder.glob("*.py")
        if f"run/{file.name}" not in ELSEWHERE
        for function in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(function, ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, waits)
    }


FILES = "files that are sent with asks are real ones: tests/flow/test_media.py"
AGENTS = "agents on workers have real files: tests/flow/test_remote_agents.py"
BY_PLACE = "opens a store by its place, or takes the machine's clock: tests/flow/test_orders.py"
ITSELF = "a run that orders something of itself: tests/flow/test_notify.py"
SHARES = "one run in several processes is not simulated: tests/flow/test_shares.py"
LATE = "members are opened before they are asked; later only when a roster changes"
MANY = "needs more tasks than are kept at once: tests/flow/test_scale.py"
AT_ONCE = "a script does several patterns at once: tests/flow/test_patterns_at_once.py"
UNREACHED = {
    "await self._calls_end()": AT_ONCE,
    "ended.wait()": AT_ONCE,
    "end_patterns(": AT_ONCE,
    "run/shares.py": SHARES,
    "run/order_follower.py": SHARES,
    "self.share.": SHARES,
    "gather(watch, return_exceptions": SHARES,
    ".store_outputs(": FILES,
    ".take_in(": FILES,
    "queue.lacking(": FILES,
    "read_carried": FILES,
    "queue.bring(": FILES,
    "queue.content(": FILES,
    "unpack, folder": FILES,
    "self._fetch(request, answer": FILES,
    "self._bring(request": FILES,
    "self._arrived(": FILES,
    "self._send_back(": FILES,
    "self._agent(member).packed(": AGENTS,
    "self._agent(member).bring_back(": AGENTS,
    "reply = await remote.": AGENTS,
    "super().has_trace(": "a look at the files of an agent, at once",
    "await given": AGENTS,
    "cancel([span], message)": AGENTS,
    "self._cancelled(ask)": AGENTS,
    "self._showing": AGENTS,
    "await self._open()": LATE,
    "executor.open(self.grant": LATE,
    "choose.open(Who(members": LATE,
    "choose.open_tools(task": "the tools of a step are open before its first ask",
    "self._one_at_a_time": "only maps inside of a stage ask at once: tests/flow/test_streamed_parts.py",
    "self._breathe()": MANY,
    "self._let_go() in leave": SHARES,
    "_taken.wait()": MANY,
    "run/pool.py await close()": MANY,  # else its source is at an end, and closes at once
    "run/stream.py await asyncio.sleep(0)": MANY,
    "self.queue.dead(": "a queue in a folder says that at once: tests/contract/test_queue.py",
    "run/contents.py": FILES,
    ".contents.keep(": FILES,
    "record_of(opened": BY_PLACE,
    "carried_out(made)": BY_PLACE,
    "give_by(RealClock()": BY_PLACE,
    "await give(opened": BY_PLACE,
    "orders.give_here(": ITSELF,
    "GiveOrder(run, now, by, what": ITSELF,
    "said := await self.take(": ITSELF,
    "run/events.py": "somebody who listens to a run: tests/flow/test_events.py",
    "write(AddRun(record))": "a branch of a run, for delegation: tests/unit/patterns/test_orchestrate.py",
    "self._follow()": AGENTS,
    "queue.shown(": AGENTS,
    "to_thread(_put": AGENTS,
    "sizes = await": AGENTS,
    "queue.message": AGENTS,
    "asyncio.sleep(SOON)": AGENTS,
    "asyncio.sleep(SHOWN)": AGENTS,
    "self._show(list(": AGENTS,
    "found = await asyncio.to_thread(": AGENTS,
    "[1].deliver(": AGENTS,
    "left_behind(self._agents": AGENTS,
    "has_trace(ask.member": AGENTS,
    "take_over(ask.span": AGENTS,
    "_queue.given(": AGENTS,
    "_queue.show(": AGENTS,
    "self._show([followed": AGENTS,
    "await self._adopt()": AGENTS,
    "executor.adopt(ask.member": AGENTS,
    "asyncio.timeout(": "nothing is waited for there",
    "open_tools(stated)": "functions are opened at once; programs and servers are real processes",
    "_ctx.store.flush()": "needs 10,000 facts that wait: tests/flow/test_scale.py",
    "_entered.wait()": "who starts a worker waits there, in another process",
}


def reason_of(site: str) -> str:
    """Why no simulation comes there, where that is known."""
    said = source_of(site)
    return next((why for part, why in UNREACHED.items() if part in said), "")


@cache
def source_of(site: str) -> str:
    """Its file, the line, and the function: `run/attempt.py await self.fail(error) in carry_out_free`."""
    file, line = site.split(":")
    folder = Path(fanfold.run.__file__ or "").parent
    source = linecache.getline(str(folder / file[4:]), int(line)).strip()
    return f"{file} {source} in {_functions()[site]}"
