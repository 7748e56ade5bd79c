"""Who leads: orchestrators in turn, needs as a preference, and others when nobody can."""

from __future__ import annotations

import pytest

from fanfold.errors import BadInput
from fanfold.patterns.delegated_task import DelegatedTask, DelegationRules
from fanfold.patterns.orchestrate import LeadOrder, lead_order
from fanfold.testing.member import traits

RULES = DelegationRules(allow_paid=False, priced=False, leading=True)
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
    found = lead_order([A, PLAIN, B, C], DelegatedTask("x"), RULES, last)
    assert found == LeadOrder(tuple((id,) for id in turns))


def test_needs_are_a_preference_among_them() -> None:
    assert lead_order([A, B, C], DelegatedTask("x", needs=("law",)), RULES, "b") == LeadOrder(
        (("c",), ("b",))
    )
    assert lead_order([A, B], DelegatedTask("x", needs=("art",)), RULES) == LeadOrder(
        (("a",), ("b",)), misfit=True
    )


def test_when_nobody_can_orchestrate_the_router_chooses_among_all() -> None:
    assert lead_order([PLAIN, OTHER], DelegatedTask("x"), RULES) == LeadOrder(
        (("plain", "other"),), direct=True
    )
    law, art = DelegatedTask("x", needs=("law",)), DelegatedTask("x", needs=("art",))
    assert lead_order([PLAIN, OTHER], law, RULES) == LeadOrder((("plain",),), direct=True)
    assert lead_order([PLAIN, OTHER], art, RULES) == LeadOrder(
        (("plain", "other"),), direct=True, misfit=True
    )


def test_why_those_do_not_lead_who_would_is_told() -> None:
    dark = traits("dark", can_orchestrate=True, price=None)
    off = traits("off", can_orchestrate=True, enabled=False)
    found = lead_order(
        [dark, PLAIN, off], DelegatedTask("x"), DelegationRules(False, priced=True, leading=True)
    )
    assert found == LeadOrder(
        (("plain",),), direct=True, unable="dark has no known price; off is disabled"
    )


def test_a_named_one_and_nobody_else() -> None:
    assert lead_order([A, B, PLAIN], DelegatedTask("x", member="plain"), RULES) == LeadOrder(
        (("plain",),)
    )


def test_local_leaves_the_others_out() -> None:
    assert lead_order([A, B, C], DelegatedTask("x", local=True), RULES) == LeadOrder(
        (("a",), ("c",))
    )


@pytest.mark.parametrize(
    ("errand", "why"),
    [
        (DelegatedTask("x", member="z"), "there is no member `z`; there are: a"),
        (DelegatedTask("x" * 5000), "nobody can answer: a takes at most 1000 tokens"),
    ],
)
def test_nobody_at_all_is_refused(errand: DelegatedTask, why: str) -> None:
    with pytest.raises(BadInput) as caught:
        lead_order([traits("a", context=1000)], errand, RULES)
    assert str(caught.value) == why
