"""Where `write` steps put their files: a name for each item, and whether a file can be there at all."""

from __future__ import annotations

import os
import re
import tempfile
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from fanfold.errors import BadInput, FanfoldError
from fanfold.patterns.tables import missing_extra
from fanfold.plans.header import PlanHeader
from fanfold.plans.inputs import is_stream
from fanfold.plans.rows import READERS, matching
from fanfold.plans.variables import NAME as VARS
from fanfold.work.files import expanded, is_inside, resolved
from fanfold.work.item import Item, Source, digest
from fanfold.work.nearest import remedy
from fanfold.work.template import Template

PATH_NAMES = ("item", VARS)
_SCRATCH = ".fanfold-"
_NOT_IN_NAMES = frozenset('/\\:*?"<>|')
_LONGEST = 150  # bytes of a name that a value gives
_TEMPLATE = re.compile(r"\{[{%#]")


class WriteStep(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What is written where. `each`: a file for each item that passed, and `path` is a template.
    `with_input`: all items, with their own fields and those of their replies."""

    name: str = "write"
    path: str
    each: bool = False
    with_input: bool = False
    line: int | None = None


# ── where files go ───────────────────────────────────────────────────────────────────────────


def fixed_folder(path: str) -> str:
    """The folder of a path up to its first place to fill in: below this all its files are."""
    return _TEMPLATE.split(path, maxsplit=1)[0].rpartition("/")[0]


def safe_name(said: str) -> str:
    """A text as a part of a file's name. What cannot be in one is replaced, and then a digest
    keeps it apart from all others."""
    plain = unicodedata.normalize("NFC", said)
    kept = "".join(c if c.isprintable() and c not in _NOT_IN_NAMES else "_" for c in plain)
    kept = kept.encode()[:_LONGEST].decode(errors="ignore").strip(" ")
    kept = "_" + kept[1:] if kept.startswith(".") else kept
    if kept == said and kept:
        return said
    return f"{kept or '_'}-{digest(said.encode(errors='replace')).hex()[:8]}"


class EachName:
    """The file of each item. No field of an item leads out of the step's folder."""

    def __init__(self, plan: PlanHeader, step: WriteStep) -> None:
        self._template = Template(step.path, name=plan.file, known=PATH_NAMES)
        self._reads = self._template.fields("item")
        self._folder, self._vars = Path(plan.folder), plan.vars
        self._base = self._folder / fixed_folder(step.path)

    def of(self, item: Item) -> Path:
        """FanfoldError where an item lacks the field, or its name leads elsewhere."""
        view = {name: _safe(value) for name, value in item.view().items()}
        for field in sorted(self._reads - view.keys()):
            what = f"the path reads item.{field}, which item `{item.id}` does not have"
            raise FanfoldError(f"{what}: {remedy(field, view)}")
        said = self._template.render(item={**view, "id": safe_name(item.id)}, vars=self._vars)
        path = Path(os.path.normpath(self._folder / said))
        if not is_inside(self._base, path) or path == self._base:
            raise FanfoldError(f"item `{item.id}`: {said} leads out of {self._base}")
        return path


def _safe(value: Any) -> Any:
    if isinstance(value, str):
        return safe_name(value[:1000])
    return {k: _safe(v) for k, v in value.items()} if isinstance(value, dict) else value


# ── before anything is asked ─────────────────────────────────────────────────────────────────


def check_extras(plan: PlanHeader) -> None:
    """The packages that write its files are installed."""
    for step in _writes(plan):
        if extra := missing_extra(Path(step.path).suffix.lower()):
            what = f"`write` {step.path} needs an extra: pip install 'fanfold[{extra}]'"
            raise _bad(plan, step, what)


def check_writable(plan: PlanHeader) -> None:
    """Its files can be written where they are to go, and not over what it reads. What is tried out
    leaves nothing behind."""
    read = _files_read(plan)
    for step in _writes(plan):
        name = f"{fixed_folder(step.path)}/x".lstrip("/") if step.each else step.path
        try:
            replaced = resolved(Path(plan.folder) / name)
        except BadInput as error:
            raise _bad(plan, step, f"`write` {step.path} cannot be written: {error.what}") from None
        if replaced in read:
            raise _bad(plan, step, f"`write` {step.path} would replace a file that the run reads")
        if why := _why_not(Path(plan.folder) / name):
            raise _bad(plan, step, f"`write` {step.path} cannot be written: {why}")


def check_names(plan: PlanHeader, source: Source) -> None:
    """No two items of the input have the same file."""
    for step in _writes(plan, of_input=True):
        if not step.each:
            continue
        names, seen, read = EachName(plan, step), dict[str, str](), _files_read(plan)
        for _, item in source.walk():
            try:
                path = names.of(item)
                replaced = resolved(path)
            except FanfoldError as error:
                raise _bad(plan, step, f"`write`: {error}") from None
            if replaced in read:
                raise _bad(plan, step, f"`write`: {path} would replace a file that the run reads")
            first = seen.setdefault(str(path).casefold(), item.id)
            if first != item.id:
                what = f"items `{first}` and `{item.id}` have the same file, {path.name}"
                raise _bad(
                    plan, step, f"`write`: {what}; use a field that differs, as item.id does"
                )


def _files_read(plan: PlanHeader) -> set[Path]:
    """The plan itself, and the files of its input."""
    folder, spec = Path(plan.folder), plan.input
    found = {resolved(folder / Path(plan.file).name)}
    if spec is not None and spec.kind == "files":
        found |= {resolved(folder / name) for name in matching(folder, spec.value)}
    elif spec is not None and spec.kind in READERS and not is_stream(spec):
        try:
            found.add(resolved(folder / expanded(spec.value)))
        except BadInput as error:
            what = f"input `{spec.value}`: cannot be read ({error.what})"
            raise BadInput(what, file=spec.file, line=spec.line) from None
    return found


def _writes(plan: PlanHeader, *, of_input: bool = False) -> Iterator[WriteStep]:
    for step in plan.steps:
        if of_input and step.produced_by is not None:
            return
        if isinstance(step, WriteStep):
            yield step


def _bad(plan: PlanHeader, step: WriteStep, what: str) -> BadInput:
    return BadInput(what, file=plan.file, line=step.line)


def _why_not(path: Path) -> str | None:
    """Why a file cannot be put there; None when it can."""
    try:
        if path.is_dir():
            return "it is a directory"
        folder = next(parent for parent in path.parents if os.path.lexists(parent))
        if not folder.is_dir():
            return f"{folder} is a file, not a folder"
        handle, scratch = tempfile.mkstemp(prefix=_SCRATCH, dir=folder)
        os.close(handle)
        os.unlink(scratch)
    except OSError as error:
        at = Path(error.filename or path)
        at = at.parent if at.name.startswith(_SCRATCH) else at
        return f"{at}: {(error.strerror or str(error)).lower()}"
    return None
