"""A world that fails, made as small as it can be while it still fails in the same way; and as a test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from fanfold.testing.simulation.simulate import simulate
from fanfold.testing.simulation.storage import WorldDatabase, new_database
from fanfold.testing.simulation.world import OPERATOR, World, WorldFault, WorldJob

_replace = msgspec.structs.replace
MOST_TRIES = 600


def failure_of(world: World, db: WorldDatabase) -> AssertionError | None:
    try:
        simulate(world, db)
    except AssertionError as error:
        return error
    return None


def shrink(world: World, most: int = MOST_TRIES) -> World:
    """Fewer jobs, faults, items and scripted calls, plain options, plain order; tried one by one, again and
    again until nothing can go. What still fails in any way counts: the first way may hide behind another."""
    db, tries, smaller = new_database(), 0, True
    while smaller and tries < most:
        smaller = False
        for candidate in _smaller(world):
            tries += 1
            if failure_of(candidate, db) is not None:
                world, smaller = candidate, True
                break
            if tries >= most:
                break
    return world


def _smaller(world: World) -> Iterator[World]:
    for n in range(len(world.jobs) - 1, 0, -1):
        faults = tuple(_renumbered(f, n) for f in world.faults if f.job != n)
        yield _replace(world, jobs=_without(world.jobs, n), faults=faults)
    for n in range(len(world.faults)):
        yield _replace(world, faults=_without(world.faults, n))
    for n in range(len(world.services) - 1, 0, -1):
        yield _replace(world, services=_without(world.services, n))
    for n, service in enumerate(world.services):
        for plain in _plainer(
            service, ("script", "monthly", "rpm", "seconds", "concurrency", "cost")
        ):
            yield _replace(world, services=_with(world.services, n, plain))
        for at in range(len(service.script) - 1, -1, -1):
            for script in (_without(service.script, at), _with(service.script, at, "ok")):
                if script != service.script:
                    fewer = _replace(service, script=script)
                    yield _replace(world, services=_with(world.services, n, fewer))
    for job in dict.fromkeys(world.jobs):  # the same run in two processes stays the same
        options = [name for name in WorldJob.__struct_fields__ if name not in ("name", "items")]
        fewer_items = [_replace(job, items=many) for many in range(job.items)]
        for plain in (*_plainer(job, options), *fewer_items):
            yield _replace(world, jobs=tuple(plain if one == job else one for one in world.jobs))
    for plain in _plainer(world, ("leases", "shuffle")):
        yield plain
    if world.shuffle:
        yield _replace(world, shuffle=False)
    for n, fault in enumerate(world.faults):
        if fault.at > 1:
            yield _replace(world, faults=_with(world.faults, n, _replace(fault, at=fault.at // 2)))


def _plainer(record: Any, names: Any) -> Iterator[Any]:
    """With one of these fields as it is by default."""
    plain = type(record)(**({"name": record.name} if hasattr(record, "name") else {}))
    for name in names:
        if getattr(record, name) != getattr(plain, name):
            yield _replace(record, **{name: getattr(plain, name)})


def _without(listed: tuple[Any, ...], n: int) -> tuple[Any, ...]:
    return listed[:n] + listed[n + 1 :]


def _with(listed: tuple[Any, ...], n: int, one: Any) -> tuple[Any, ...]:
    return (*listed[:n], one, *listed[n + 1 :])


def _renumbered(fault: WorldFault, gone: int) -> WorldFault:
    """Operators and workers keep their numbers."""
    return _replace(fault, job=fault.job - 1) if gone < fault.job < OPERATOR else fault


def written(value: Any) -> str:
    """As Python that makes it again, without what is so by default."""
    if isinstance(value, msgspec.Struct):
        kind, names = type(value), value.__struct_fields__
        plain = dict(
            zip(
                names[len(names) - len(value.__struct_defaults__) :],
                value.__struct_defaults__,
                strict=True,
            )
        )
        said = [
            f"{name}={written(given)}"
            for name in names
            if (given := getattr(value, name)) != plain.get(name, msgspec.UNSET)
        ]
        return f"{kind.__name__}({', '.join(said)})"
    if isinstance(value, tuple):
        inside = ", ".join(map(written, value))
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    return repr(value)


def as_test(world: World, error: AssertionError | None) -> str:
    """A test that can be pasted."""
    return (
        "from fanfold.testing.simulation.services import SimulatedService\n"
        "from fanfold.testing.simulation.simulate import simulate\n"
        "from fanfold.testing.simulation.world import World, WorldFault, WorldJob\n\n\n"
        f"def test_seed_{world.seed}() -> None:\n"
        f'    """{str(error)[:200]}"""\n'
        f"    simulate({written(world)})\n"
    )
