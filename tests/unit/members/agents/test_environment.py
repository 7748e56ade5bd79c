"""Variables that a roster gives to an agent."""

from __future__ import annotations

import pytest

from fanfold.errors import Terminal
from fanfold.members.agents.program_settings import references, resolved

STATED = {"A": "plain", "B": "env:KEY", "C": "not env:KEY"}


def test_references_are_looked_up_and_values_stay() -> None:
    found = resolved(STATED, {"KEY": "secret", "A": "other"})
    assert found == {"A": "plain", "B": "secret", "C": "not env:KEY"}
    assert references(STATED) == {"KEY"}


@pytest.mark.parametrize("around", [{}, {"KEY": " "}])
def test_a_variable_that_is_not_set(around: dict[str, str]) -> None:
    with pytest.raises(Terminal) as caught:
        resolved(STATED, around)
    assert caught.value.scope == "pool"
    assert str(caught.value) == (
        "env.B: the variable KEY is not set; export it, or change the roster"
    )
