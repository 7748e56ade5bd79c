"""The folder in which an ask with files is carried out: its inputs are there before, its outputs after.

Who works in the plan's own folder finds them there. On another machine each ask has a folder of its own,
with nothing in it but its inputs.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from fanfold.errors import InvalidReply, MemberError, Terminal
from fanfold.members.printed import paid
from fanfold.work.ask import Reply
from fanfold.work.carried import (
    AskFiles,
    FileTrouble,
    Outputs,
    check_left,
    collect,
    is_there,
    now_ns,
    put_below,
    read_input,
)
from fanfold.work.member import Request
from fanfold.work.wire import contents_folder

SHARED = "is asked with `files: shared`; state that in the roster here too, if the folder is shared"


def with_outputs(reply: Reply, outputs: Outputs) -> Reply:
    """It reads files: not for the event loop's thread. FileTrouble: one of them is missing."""
    folder = Path(outputs.folder)
    if not outputs.into:
        check_left(folder, outputs.patterns)
        return reply
    found = collect(folder, outputs.patterns, Path(outputs.into), outputs.since)
    return msgspec.structs.replace(reply, files=found)


def folder_of(request: Request, id: str, *, shares: bool) -> Path:
    """Where its files are to be. `shares`: the member says that its folder is that of other machines."""
    files = request.ask.files
    assert files is not None
    if not files.contents:
        return Path(files.folder)
    if not files.shared:
        return Path(request.store, "work", *request.span.split(":"))
    if not shares:
        raise Terminal(f"{id} {SHARED}", scope="member")
    if not Path(files.folder).is_dir():
        what = f"{id}: there is no {files.folder} here, which `files: shared` says"
        raise Terminal(what, scope="member")
    return Path(files.folder)


def put_inputs(files: AskFiles, folder: Path) -> None:
    """Those that are not there yet. FileTrouble: one of them was changed, or cannot be put there."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if files.shared or (files.folder and folder == Path(files.folder)):
        return
    for one in files.inputs:
        if files.contents:
            content = (Path(files.contents) / one.hash).read_bytes()
        else:
            content = read_input(Path(files.folder), one)
        if not is_there(folder, one):
            put_below(folder, one, content)


def outputs_of(request: Request, folder: Path) -> Outputs | None:
    """`folder`: where the work is done. What is in the folder of a plan may be older than the work."""
    files = request.ask.files
    if files is None or not files.outputs:
        return None
    if files.shared:
        return Outputs(files.outputs, str(folder), "")
    since = 0 if files.contents or folder != Path(files.folder) else now_ns()
    return Outputs(files.outputs, str(folder), str(contents_folder(request.store)), since)


@asynccontextmanager
async def working_folder(
    request: Request, id: str, *, shares: bool
) -> AsyncIterator[tuple[Path, Outputs | None]]:
    """For a program that ends with its ask: a folder of its own is gone afterwards."""
    folder, files = folder_of(request, id, shares=shares), request.ask.files
    assert files is not None
    try:
        try:
            await asyncio.to_thread(put_inputs, files, folder)
        except FileTrouble as error:
            raise Terminal(f"{id}: {error}", scope="ask") from None
        yield folder, outputs_of(request, folder)
    finally:
        if files.contents and not files.shared:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def without_outputs(id: str, reply: Reply, trouble: FileTrouble) -> MemberError:
    """It was carried out and paid for, but does not count."""
    return paid(InvalidReply(f"{id}: {trouble}"), reply.usage, reply.cost_usd)
