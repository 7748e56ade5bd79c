"""A class is found by its name."""

from __future__ import annotations

import ast
from collections import Counter

from tests.architecture.sources import modules, tree


def test_no_two_classes_have_one_name() -> None:
    """Private ones (`_Name`) may: they are seen in their own module only. Applications are read one
    at a time."""
    names = Counter(
        node.name
        for module in modules()
        if not module.startswith("fanfold.apps.")
        for node in tree(module).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, many in names.items() if many > 1] == []
