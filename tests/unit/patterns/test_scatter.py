"""What an entry states of its own, and how far a gathering may reach."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.errors import BadInput
from fanfold.gates.default import default
from fanfold.patterns.prompt import prompt_of
from fanfold.patterns.scatter import OF_ENTRY, Question, Reach, questions_of
from fanfold.run.sources import Rows
from fanfold.work.item import Item
from fanfold.work.task import Terms, Who

GATE = default()
TERMS = Terms("scatter", GATE, who=Who(("common",)))
PROMPT = prompt_of("What of {{ item.topic }}?", None)


def questions(over: Any) -> list[Question]:
    return questions_of(over, PROMPT, TERMS)


def rendered(question: Question) -> str:
    return question.prompt.ask((question.item,)).messages[0].content


def test_what_is_for_asking_is_not_part_of_the_item() -> None:
    (made,) = questions([{"id": 1, "topic": "auth", "member": "m", "prompt": "Why {{ item.id }}?"}])
    assert (made.position, made.item) == (0, Item("1", {"id": 1, "topic": "auth"}))
    assert made.terms == Terms("scatter", GATE, who=Who(("m",)))
    assert rendered(made) == "Why 1?"


def test_an_entry_without_its_own_is_asked_as_all_are() -> None:
    (made,) = questions([{"id": "a", "topic": "auth"}])
    assert (rendered(made), made.terms) == ("What of auth?", TERMS)


@pytest.mark.parametrize(
    ("own", "who"),
    [
        ({"member": "m"}, Who(("m",))),
        ({"members": ["m", "n"]}, Who(("m", "n"))),
        ({"members": "m"}, Who(("m",))),
        ({"needs": ["legal"]}, Who(needs=("legal",))),
        ({"needs": "legal"}, Who(needs=("legal",))),
    ],
)
def test_an_entry_says_who_answers_it(own: dict[str, Any], who: Who) -> None:
    (made,) = questions([{"id": "a", "topic": "auth", **own}])
    assert made.terms.who == who


def test_an_item_is_taken_as_it_is() -> None:
    """The way out for data that has a field called `member`."""
    item = Item("a", {"topic": "auth", "member": "of parliament"})
    (made,) = questions([item])
    assert (made.item, made.terms) == (item, TERMS)
    (walked,) = questions(Rows([item]))
    assert walked == made


def test_what_has_no_id_is_known_by_its_position() -> None:
    assert [made.item.id for made in questions(["x", {"topic": "auth"}, {"id": 7}])] == [
        "0",
        "1",
        "7",
    ]


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["topic", "text", "member", "prompt"]), st.just("x"), max_size=4
        )
    )
)
def test_fields_for_asking_never_reach_the_item_and_all_others_do(
    entries: list[dict[str, Any]],
) -> None:
    made = questions(entries)
    assert [one.item.data for one in made] == [
        {field: value for field, value in entry.items() if field not in OF_ENTRY}
        for entry in entries
    ]
    assert [one.position for one in made] == list(range(len(entries)))


@pytest.mark.parametrize(
    ("entry", "wrong"),
    [
        ({"id": "a", "member": "m", "needs": ["x"]}, "entry `a` has member and needs"),
        ({"id": "a", "member": ["m"]}, "entry `a`: `member` must name who answers, not ['m']"),
        ({"id": "a", "member": None}, "entry `a`: `member` must name who answers, not None"),
        ({"id": "a", "members": []}, "entry `a`: `members` must name who answers, not []"),
        ({"id": "a", "members": [1]}, "entry `a`: `members` must name who answers, not [1]"),
        ({"id": "a", "prompt": " "}, "entry `a`: its `prompt` must be a non-empty text"),
        ({"id": "a", "prompt": 3}, "entry `a`: its `prompt` must be a non-empty text"),
        ({"id": "a", "prompt": "{{ itm.topic }}"}, "the prompt of entry `a`"),
    ],
)
def test_an_entry_that_cannot_be_asked_is_refused(entry: dict[str, Any], wrong: str) -> None:
    with pytest.raises(BadInput) as refused:
        questions([entry])
    assert wrong in str(refused.value)


@pytest.mark.parametrize("over", ["auth", {"id": "a"}, 3, None])
def test_over_must_be_a_list(over: Any) -> None:
    with pytest.raises(BadInput, match="`over` must be a list of entries"):
        questions(over)


@pytest.mark.parametrize("first", [0, -1, True, 1.5, "2"])
def test_first_is_a_whole_number_from_one_on(first: Any) -> None:
    with pytest.raises(BadInput, match="`first` must be"):
        Reach(first=first).check(5)


def test_first_is_at_most_the_number_of_entries() -> None:
    Reach(first=5).check(5)
    with pytest.raises(BadInput, match="`first` is 6, but there are only 5 entries"):
        Reach(first=6).check(5)


@pytest.mark.parametrize("within", [0, -3.0, True, float("nan"), float("inf"), "30"])
def test_a_deadline_lies_ahead(within: Any) -> None:
    with pytest.raises(BadInput, match="`within` must be"):
        Reach(within=within).check(5)
