"""Where an agent works and which files are there, on the machine that asks it or on another one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import msgspec

from fanfold.errors import Terminal
from fanfold.members.agents.parents import Parents
from fanfold.members.agents.remote_worktree import branch_back, make_remote_worktree, repository_for
from fanfold.members.agents.worker import OUTPUT, Spec
from fanfold.members.agents.worktree import make_worktree
from fanfold.members.work_folder import folder_of, put_inputs, with_outputs
from fanfold.work.ask import Reply
from fanfold.work.carried import AskFiles, FileTrouble, check_sizes, describe_inputs
from fanfold.work.member import Request
from fanfold.work.wire import contents_folder


class AgentFolders(msgspec.Struct, frozen=True):
    """Where an agent works. `place`: its own folder, for all its workers one after the other, as in
    a fleet; None: each has one in the store. `hidden`: variables that it must not see. `shares`: other
    machines have the folder too. `remote`: the git remote of its repository. `inputs`: what a fleet's worker
    needs, as it is when it starts."""

    folder: Path
    place: Path | None = None
    isolation: Literal["none", "worktree"] = "none"
    hidden: frozenset[str] = frozenset()
    shares: bool = False
    remote: str = ""
    inputs: tuple[str, ...] = ()


class WorkSite(msgspec.Struct, frozen=True):
    """One start: `folder` to work in, and `base`, which its inputs and outputs are below: another one for a
    fleet's worker with a worktree. `home` of a fleet's worker: for its output and what its parents left."""

    folder: Path
    base: Path
    home: Path | None = None
    parents: Parents | None = None

    def make_home(self) -> None:
        if self.home is not None:
            (self.home / OUTPUT).mkdir(parents=True, exist_ok=True)
        if self.parents is not None:
            self.parents.write()


def made_site(site: AgentFolders, request: Request, id: str, earlier: str) -> WorkSite:
    """The folder is made, and its inputs are there. It takes a while: not for the event loop's thread.
    `earlier`: the folder of a session that is continued."""
    files, store = request.ask.files, Path(request.store)
    if earlier:
        folder = Path(earlier)
    elif files is not None and files.repository is not None:
        contents = Path(files.contents)
        folder = make_remote_worktree(files.repository, contents, store, request.span, id)
    elif site.isolation == "worktree":
        parents = _parents(request, site.place)
        begin = () if parents is None else tuple(parents.branches())
        folder = make_worktree(site.folder, store, request.span, id, begin)
    elif files is not None:
        folder = folder_of(request, id, shares=site.shares)
        _check_folder(files, site.folder, id)
    else:
        folder = site.folder
    return _with_inputs(folder, site, request, id)


def _with_inputs(folder: Path, site: AgentFolders, request: Request, id: str) -> WorkSite:
    files = request.ask.files
    if files is None:
        return WorkSite(folder, folder, site.place, _parents(request, site.place))
    elsewhere = bool(files.home and files.contents)
    base = folder_of(request, id, shares=site.shares) if elsewhere else folder
    home = base / files.home if elsewhere else site.place
    try:
        put_inputs(files, base)
    except FileTrouble as error:
        raise Terminal(f"{id}: {error}", scope="ask") from None
    made = WorkSite(folder, base, home, _parents(request, home))
    if elsewhere:
        made.make_home()
    return made


def _parents(request: Request, home: Path | None) -> Parents | None:
    """Only a fleet's worker is given what its parents left."""
    return None if home is None else Parents(request.ask, home, Path(request.store)) or None


def _check_folder(files: AskFiles, folder: Path, id: str) -> None:
    if not files.contents and folder.resolve() != Path(files.folder).resolve():
        what = (
            f"{id}: its `folder` is {folder}, and `inputs` and `outputs` are below {files.folder}"
        )
        raise Terminal(f"{what}; leave `folder` out", scope="ask")


def packed_request(site: AgentFolders, request: Request, id: str) -> Request:
    """For another machine: with what its worktree begins with, and with the files of a fleet's worker."""
    files, store = request.ask.files, Path(request.store)
    given = _parents(request, site.place)
    if files is not None and files.home:
        files = _with_needed(files, site, given)
    if site.isolation == "worktree":
        begin = () if given is None else tuple(given.branches())
        repository = repository_for(site.folder, store, request.span, id, begin, site.remote)
        files = files or AskFiles(folder=str(site.folder))
        files = msgspec.structs.replace(files, repository=repository, shared=False)
    if files is request.ask.files:
        return request
    return msgspec.structs.replace(request, ask=msgspec.structs.replace(request.ask, files=files))


def _with_needed(files: AskFiles, site: AgentFolders, given: Parents | None) -> AskFiles:
    """What a fleet's worker needs, and what its parents left."""
    near, ids = Path(files.home).parent, () if given is None else given.ids
    left = [f"{(near / id / OUTPUT).as_posix()}/**" for id in ids]
    try:
        found = describe_inputs(site.folder, (*site.inputs, *left))
        check_sizes(found, "inputs")
    except FileTrouble as error:
        raise Terminal(str(error), scope="ask") from None
    return msgspec.structs.replace(files, inputs=(*files.inputs, *found))


def at_home(text: bytes, files: AskFiles | None, folder: Path) -> bytes:
    """The prompt of a fleet's worker names files by their paths on the machine of the fleet."""
    if files is None or not files.root or not files.contents or files.shared:
        return text
    whole = re.compile(re.escape(files.root.encode()) + rb"(?![\w.-])")
    return whole.sub(lambda found: str(folder).encode(), text)


def with_files(id: str, reply: Reply, spec: Spec, store: Path) -> Reply:
    """What it left. FileTrouble: something is missing."""
    if spec.outputs is not None:
        reply = with_outputs(reply, spec.outputs)
    if spec.repository is not None and not spec.where:
        into = contents_folder(str(store))
        back = branch_back(Path(spec.folder), spec.repository, id, into)
        reply = msgspec.structs.replace(reply, branch=back)
    return reply
