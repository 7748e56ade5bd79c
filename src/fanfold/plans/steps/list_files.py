"""`list_files`: the files of a folder as items; an input written as the first step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from fanfold.plans.header import Input
from fanfold.plans.reading import StepContext
from fanfold.plans.variables import filled
from fanfold.work.document import Node
from fanfold.work.reader import Text


class ListFiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """It becomes the input of the plan, not one of its steps."""

    called = "list_files"
    path: Text
    pattern: Text = "**/*"

    @staticmethod
    def starts_anew(given: Any) -> bool:
        return True

    @staticmethod
    def read(node: Node, given: ListFiles, reading: StepContext) -> Input:
        pattern = (Path(given.path) / given.pattern).as_posix()
        return Input("files", filled(node, pattern, reading.vars), file=node.file, line=node.line)


ListFiles.written = ListFiles  # type: ignore[attr-defined]
