"""What is right: a table of labels, a field of the items, the step's own gate, or what a member says."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path
from typing import Literal

import msgspec

from fanfold.errors import BadInput
from fanfold.work.document import read_text
from fanfold.work.fields import MISSING, leaves, path_of
from fanfold.work.files import resolved
from fanfold.work.item import Item
from fanfold.work.vote import ballot

GATE, FIELD, MEMBER = "gate", "item.", "member:"
TRUTH = "truth"
IDS = ("item", "id")


class Truth(msgspec.Struct, frozen=True):
    """`name`: the file, the field or the member. `labels`: of a table, by the id of an item, as votes
    compare."""

    kind: Literal["labels", "field", "gate", "member"]
    name: str = ""
    labels: dict[str, str] = {}

    def known_for(self, item: Item) -> bool:
        return self.kind in ("gate", "member") or self.of(item) is not None

    def of(self, item: Item) -> str | None:
        """The right answer, where that is known before anybody is asked."""
        if self.kind == "labels":
            return self.labels.get(item.id)
        if self.kind != "field":
            return None
        value = next((leaf for _, leaf in leaves(item.view(), path_of(self.name))), MISSING)
        return None if value is MISSING or value in (None, "") else ballot(value)

    def written(self, folder: Path) -> str:
        """As it is typed, with the path of a table from this folder."""
        if self.kind == "labels":
            return os.path.relpath(resolved(self.name), folder)
        return {"gate": GATE, "member": MEMBER, "field": FIELD}[self.kind] + self.name

    def describe(self) -> str:
        match self.kind:
            case "gate":
                return "it passes the gate"
            case "member":
                return f"it says what {self.name} says, who is taken as right"
            case "field":
                return f"it says what item.{self.name} says"
        return f"it says what {self.name} says"

    def check(self, items: tuple[Item, ...]) -> None:
        """Whether members can be told apart by it on these items."""
        if self.kind in ("gate", "member"):
            return
        answers = [self.of(item) for item in items]
        if not items:
            what = "no label fits an item" if self.labels else f"no item has the field {self.name}"
            first = f": the first label is for {next(iter(self.labels))!r}" if self.labels else ""
            raise BadInput(f"--truth: {what}{first}")
        if len(set(answers)) < 2:
            raise BadInput(
                f"--truth: all {len(items)} answers are {answers[0]}: members cannot be told apart"
            )


def read_truth(said: str, where: str = "--truth", folder: str = "") -> Truth:
    """As it is typed: `labels.csv` (in this folder), `item.FIELD`, `gate` or `member:ID`."""
    if said == GATE:
        return Truth("gate")
    for start, kind in ((MEMBER, "member"), (FIELD, "field")):
        if said.startswith(start) and len(said) > len(start):
            return Truth("member" if kind == "member" else "field", said.removeprefix(start))
    if not said.endswith(".csv"):
        what = f"{where} {said}: give a table (labels.csv), item.FIELD, gate, or member:ID"
        raise BadInput(what)
    return Truth("labels", said, _labels(Path(folder) / said))


def _labels(file: Path) -> dict[str, str]:
    table = csv.DictReader(io.StringIO(read_text(file)))
    columns = list(table.fieldnames or ())
    key = next((name for name in IDS if name in columns), None)
    if key is None or TRUTH not in columns:
        what = f"a table of labels has the columns {IDS[0]} (or {IDS[1]}) and {TRUTH}"
        raise BadInput(f"{what}, not {', '.join(columns) or 'none'}", file=str(file), line=1)
    labels: dict[str, str] = {}
    for row in table:
        if None in row:
            what = "more cells than columns; a text with a comma in it needs quotes"
            raise BadInput(what, file=str(file), line=table.line_num)
        if not row[TRUTH]:
            continue
        if row[key] in labels:
            raise BadInput(f"item {row[key]} has two labels", file=str(file), line=table.line_num)
        labels[row[key]] = ballot(row[TRUTH])
    if not labels:
        raise BadInput("no labels", file=str(file))
    return labels
