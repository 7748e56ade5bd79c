"""What `write` steps put into files when a run comes to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from fanfold.errors import FanfoldError, RunStopped, StoreError
from fanfold.patterns.tables import Record, Table, columns_of
from fanfold.plans.header import PlanHeader
from fanfold.plans.places import EachName, WriteStep, fixed_folder
from fanfold.plans.write import (
    Page,
    parsed,
    write_missing,
    write_parts,
    write_records,
    write_value,
)
from fanfold.run.planning import Batch
from fanfold.run.run import Run
from fanfold.work.files import is_inside
from fanfold.work.item import Item
from fanfold.work.outcome import FilesWritten, Missing, Part
from fanfold.work.task import Terms

_STATE = "state"


class Joined(NamedTuple):
    """An item, its reply if that passed, and how it ended."""

    item: Item
    part: Part | None
    state: str


class Output:
    """Writes the files of a run, and notes them in `files`. What cannot be written flags the run."""

    def __init__(self, run: Run, plan: PlanHeader, page: Page | None) -> None:
        self._run, self._plan, self._page = run, plan, page
        self.files: list[FilesWritten] = []

    def value(self, step: WriteStep, value: Any, of: tuple[Batch, Terms] | None = None) -> None:
        """`of`: the items behind it; which of them are not in it is said too."""
        self._one(step, lambda path: write_value(path, value, self._page), of)

    def parts(self, step: WriteStep, batch: Batch, terms: Terms) -> None:
        """Each passed item with its reply."""
        parts = partial(self._run.passed, batch, terms)
        self._one(step, lambda path: write_parts(path, parts, self._page), (batch, terms))

    def with_input(self, step: WriteStep, batch: Batch, terms: Terms) -> None:
        """All items with their own fields, the fields of their replies, and how they ended."""
        ending = Path(step.path).suffix.lower()
        given = columns_of(_fields(item) for _, item in batch.source.walk())
        taken = set(given)

        def results() -> Iterator[Record]:
            return (_result(one, taken, ending) for one in self._joined(batch, terms))

        def rows() -> Iterator[Record]:
            for one in self._joined(batch, terms):
                yield {**_fields(one.item), **_result(one, taken, ending)}

        state = _own_name(_STATE, taken)
        fields = [name for name in columns_of(results()) if name != state]
        table = Table([*given, *fields, state], rows)
        self._one(step, lambda path: write_records(path, table, self._page))

    def each(self, step: WriteStep, batch: Batch, terms: Terms) -> None:
        """A file for each item that passed."""
        names, seen, many = EachName(self._plan, step), dict[str, str](), 0
        for one in self._joined(batch, terms):
            if one.part is None:
                continue
            with self._flagging(step):
                path = names.of(one.item)
                first = seen.setdefault(str(path).casefold(), one.item.id)
                if first != one.item.id:
                    raise FanfoldError(f"item `{one.item.id}` has the same file as `{first}`")
                self._stay_inside(path)
                write_value(path, one.part.value, self._page)
                many += 1
        if many:
            folder = Path(self._plan.folder) / fixed_folder(step.path)
            self.files.append(FilesWritten(str(folder), many))

    def _one(
        self, step: WriteStep, write: Callable[[Path], None], of: tuple[Batch, Terms] | None = None
    ) -> None:
        with self._flagging(step):
            path = Path(self._plan.folder) / step.path
            self._stay_inside(path)
            write(path)
            beside = None if of is None else write_missing(path, self._missing(*of))
            self.files += [FilesWritten(str(one)) for one in (path, beside) if one is not None]

    def _missing(self, batch: Batch, terms: Terms) -> Iterator[Missing]:
        """What a filter left out is not missing; what is behind a reduce that failed is."""
        yield from (one for one in self._run.missing(batch, terms) if one.state != "skipped")
        yield from self._run.left_out

    def _stay_inside(self, path: Path) -> None:
        """Looked at again: links may have been made since the plan was read."""
        if not self._plan.allow_outside and not is_inside(Path(self._plan.folder), path):
            what = "leads out of the plan's folder by now; nothing was written"
            raise FanfoldError(f"{path}: {what}")

    @contextmanager
    def _flagging(self, step: WriteStep) -> Iterator[None]:
        try:
            yield
        except (RunStopped, StoreError):
            raise
        except OSError as error:
            name = error.filename2 or error.filename or step.path
            self._run.flawed(f"{name}: cannot be written: {error.strerror}")
        except FanfoldError as error:
            self._run.flawed(f"`write` {step.path}: {error}")

    def _joined(self, batch: Batch, terms: Terms) -> Iterator[Joined]:
        """All planned items in their order, with what came of each. Both lists are in that order."""
        parts, others = self._run.passed(batch, terms), self._run.missing(batch, terms)
        part, other = next(parts, None), next(others, None)
        for position, item in batch.source.walk():
            if part is not None and part.position == position:
                yield Joined(item, part, "passed")
                part = next(parts, None)
            else:
                state = None if other is None else other.state
                yield Joined(item, None, state or "")
                other = next(others, None)


def _fields(item: Item) -> Record:
    """What the input says of an item; one that is no object has a single field."""
    if isinstance(item.data, dict):
        return item.data
    return {"text" if isinstance(item.data, str) else "value": item.data}


def _result(one: Joined, taken: set[str], ending: str) -> Record:
    """The fields of a reply, and how the item ended."""
    value = None if one.part is None else parsed(one.part.value, ending)
    fields = value if isinstance(value, dict) else {} if one.part is None else {"result": value}
    return {_own_name(name, taken): x for name, x in {**fields, _STATE: one.state}.items()}


def _own_name(name: str, taken: set[str]) -> str:
    """A field that the input has too is called `result.NAME`."""
    return f"result.{name}" if name in taken else name
