"""While a run of a plan goes on: what changes in its roster file counts from then on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from fanfold.errors import BadInput
from fanfold.run.member_sources import MemberSource
from fanfold.run.run import Run

EVERY = 1.0  # seconds between two looks at the file


@asynccontextmanager
async def follow_roster(
    run: Run, file: str | None, read: Callable[[], MemberSource], say: Callable[[str], None]
) -> AsyncIterator[None]:
    """Members that are added, switched on or off, or given other slots or prices are taken into account:
    when the file was changed, and at once when that is ordered. A file that cannot be read, or says
    something wrong, changes nothing; that is said once."""
    if file:
        run.follows_roster(read)

    async def follow(path: Path) -> None:
        seen = _stamp(path)
        while True:
            await run.clock.sleep(EVERY)
            if (stamp := _stamp(path)) in (seen, None):
                continue
            seen = stamp
            try:
                run.update_members(read())
            except BadInput as error:
                say(f"the roster was changed, but stays as it was for this run: {error}")
            else:
                say(f"{path.name} was changed; its members count as they are now")

    following = asyncio.ensure_future(follow(Path(file))) if file else None
    try:
        yield
    finally:
        if following is not None:
            following.cancel()


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
