"""Who leads: orchestrators in turn, needs as a preference, and others when nobody can."""

from __future__ import annotations

import pytest

from fanfold.errors import BadInput
from fanfold.patterns.errand import Errand, Rules
from fanfold.patterns.lead import Lead, lead
from fanfold.testing.member import traits

RULES = Rules(allow_paid=False, priced=False, leading=True)
A = traits("a", can_orchestrate=True, can_delegate=False, good_at=("code",))
B = traits("b", can_orchestrate=True, good_at=("law",), tier="subscription")
C = traits("c", can_orchestrate=True, good_at=("code", "law"))
PLAIN = traits("plain", good_at=("law",))
OTHER = traits("other")


@pytest.mark.parametrize(
    ("last", "turns"),
    [
        (None, ("a", "b", "c")),
        ("a", ("b", "c", "a")),
        ("c", ("a", "b", "c")),
        ("gone", ("a", "b", "c")),
    ],
)
def test_orchestrators_take_turns_after_the_last(last: str | None, turns: tuple[str, ...]) -> None:
    found = lead([A, PLAIN, B, C], Errand("x"), RULES, last)
    assert found == Lead(tuple((id,) for id in turns))


def test_needs_are_a_preference_among_them() -> None:
    assert lead([A, B, C], Errand("x", needs=("law",)), RULES, "b") == Lead((("c",), ("b",)))
    assert lead([A, B], Errand("x", needs=("art",)), RULES) == Lead((("a",), ("b",)), misfit=True)


def test_when_nobody_can_orchestrate_the_router_chooses_among_all() -> None:
    assert lead([PLAIN, OTHER], Errand("x"), RULES) == Lead((("plain", "other"),), direct=True)
    law, art = Errand("x", needs=("law",)), Errand("x", needs=("art",))
    assert lead([PLAIN, OTHER], law, RULES) == Lead((("plain",),), direct=True)
    assert lead([PLAIN, OTHER], art, RULES) == Lead((("plain", "other"),), direct=True, misfit=True)


def test_why_those_do_not_lead_who_would_is_told() -> None:
    dark = traits("dark", can_orchestrate=True, price=None)
    off = traits("off", can_orchestrate=True, enabled=False)
    found = lead([dark, PLAIN, off], Errand("x"), Rules(False, priced=True, leading=True))
    assert found == Lead(
        (("plain",),), direct=True, unable="dark has no known price; off is disabled"
    )


def test_a_named_one_and_nobody_else() -> None:
    assert lead([A, B, PLAIN], Errand("x", member="plain"), RULES) == Lead((("plain",),))


def test_local_leaves_the_others_out() -> None:
    assert lead([A, B, C], Errand("x", local=True), RULES) == Lead((("a",), ("c",)))


@pytest.mark.parametrize(
    ("errand", "why"),
    [
        (Errand("x", member="z"), "there is no member `z`; there are: a"),
        (Errand("x" * 5000), "nobody can answer: a takes at most 1000 tokens"),
    ],
)
def test_nobody_at_all_is_refused(errand: Errand, why: str) -> None:
    with pytest.raises(BadInput) as caught:
        lead([traits("a", context=1000)], errand, RULES)
    assert str(caught.value) == why
