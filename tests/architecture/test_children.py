"""What fanfold starts imports nothing from the folder it happens to be in."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from tests.architecture.sources import modules, nodes

SAFE = ("-P", "-I")


def started() -> Iterator[tuple[str, ast.expr]]:
    """Each place where Python is started, with the word behind the interpreter."""
    for module in modules():
        places = [(node, node.elts) for node in nodes(module, ast.List, ast.Tuple)]
        calls = [(node, node.args) for node in nodes(module, ast.Call)]
        for node, words in [*places, *calls]:
            for word, following in itertools.pairwise(words):
                if isinstance(word, ast.Attribute) and word.attr == "executable":
                    yield f"{module}:{node.lineno}", following


def test_no_python_that_is_started_imports_from_the_current_folder() -> None:
    found = list(started())
    assert len(found) >= 12, "so that this cannot pass by finding nothing"
    unsafe = [
        at for at, word in found if not (isinstance(word, ast.Constant) and word.value in SAFE)
    ]
    assert unsafe == []
