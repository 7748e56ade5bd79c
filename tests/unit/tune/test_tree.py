"""Routes that are learned: a small tree over what is known beforehand, as rules that say themselves."""

from __future__ import annotations

from pathlib import Path
from random import Random

import msgspec
import pytest

from fanfold.errors import BadInput
from fanfold.tune.choose import Goal, tune
from fanfold.tune.policy import Labelled, LabelledReply, RoutedByRules
from fanfold.tune.search import search
from fanfold.tune.tree import learned_tree, tree_sample
from fanfold.work.document import Node
from fanfold.work.features import language, length
from fanfold.work.item import Item
from fanfold.work.routed import Between, Route, RouteRule, read_route

PRICES = {"cheap": 0.001, "dear": 0.01}


def labelled(many: int, seed: int = 1) -> list[Labelled]:
    """`cheap` is right but for long items, and for law; `dear` nearly always."""
    chance, items = Random(seed), []
    for n in range(many):
        subject, long = chance.choice(["law", "art", "math"]), chance.randrange(100, 3000)
        easy = subject != "law" and long < 1500
        skills = {"cheap": 0.95 if easy else 0.3, "dear": 0.97}
        replies = {}
        for name, skill in skills.items():
            right = chance.random() < skill
            answer = "right" if right else f"wrong {chance.randrange(3)}"
            replies[name] = LabelledReply(answer, right, PRICES[name])
        features = {"subject": subject, "length": str(long), "noise": str(chance.randrange(4))}
        items.append(Labelled(f"i{n}", replies, features))
    return items


def test_the_tree_asks_the_cheap_one_where_that_is_good_enough() -> None:
    items = labelled(400)
    way = learned_tree(tree_sample(("cheap", "dear"), items, 100.0), range(400))
    asked = {
        (subject, long): way.chosen(Labelled("x", {}, {"subject": subject, "length": long, "noise": "1"}))
        for subject in ("law", "art", "math") for long in ("300", "2900")
    }  # fmt: skip
    assert {place for place, who in asked.items() if who == "cheap"} == {
        ("art", "300"),
        ("math", "300"),
    }
    assert all(rule.items and rule.right is not None for rule in way.rules)


def test_without_a_difference_nothing_is_split() -> None:
    chance = Random(2)
    items = [
        Labelled(f"i{n}", {name: LabelledReply("a", chance.random() < 0.8, 0.001) for name in "ab"},
                 {"subject": chance.choice("xyz"), "length": str(n % 97)})
        for n in range(400)
    ]  # fmt: skip
    found = [one for one in search(items) if isinstance(one.way, RoutedByRules)]
    best = max(one.expected for one in search(items) if not isinstance(one.way, RoutedByRules))
    assert all(one.expected <= best + 0.02 for one in found)


def test_it_is_recommended_where_it_is_better_and_stated_as_a_step() -> None:
    found = tune(labelled(800), Goal(target=0.93))
    best = found.ways[found.recommended]
    assert isinstance(best.way, RoutedByRules)
    assert best.usd_1000 < 8.0
    kind, fields = found.step()
    route = msgspec.convert(fields["route"], Route)
    for item in labelled(50, seed=9):
        seen = Item(item.id, dict(item.features))
        assert (kind, route.member(seen)) == ("map", best.way.chosen(item))


# ── as it is written ─────────────────────────────────────────────────────────────────────────


ROUTE = Route(
    "small",
    rules=(
        RouteRule({"lang": ("de", "fr"), "length": Between(above=10)}, "ada", 57, 52),
        RouteRule({"n": Between(0.5, 2)}, "bob"),
    ),
)


@pytest.mark.parametrize(
    ("data", "member"),
    [
        ({"lang": "de", "text": "zwölf Zeichen"}, "ada"),
        ({"lang": "de", "text": "kurz"}, "small"),
        (
            {"lang": "de", "length": 99},
            "ada",
        ),  # a field of the item goes before what follows from it
        ({"n": 2}, "bob"),
        ({"n": "1.5"}, "bob"),
        ({"n": 0.5}, "small"),
        ({"n": "many"}, "small"),
        ({}, "small"),
    ],
)
def test_the_first_rule_that_holds_says_who(data: dict[str, object], member: str) -> None:
    assert ROUTE.member(Item("i", data)) == member


def test_a_route_explains_itself() -> None:
    assert ROUTE.explain() == [
        "lang is de or fr and length above 10: ada (52 of 57 right when tuned)",
        "n above 0.5 and up to 2: bob",
        "else small",
    ]
    assert ROUTE.explain(Item("i", {"n": 1})) == ["n above 0.5 and up to 2: bob"]
    assert ROUTE.explain(Item("i", {})) == ["else small"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"else": "a"}, "a route states `by` and `to`, or `rules`"),
        ({"else": "a", "by": "x", "rules": []}, "a route states `by` and `to`, or `rules`"),
        ({"else": "a", "rules": [], "to": {"x": "b"}}, "`to` goes with `by`"),
        ({"else": "a", "rules": [{"when": {"x": {}}, "member": "b"}]}, "a range states"),
        ({"else": "a", "rules": [{"when": {"x": {"over": 3}}, "member": "b"}]}, "over"),
        ({"else": "a", "rules": [{"when": {"x": ["1"]}}]}, "member"),
        ("none.yaml", "there is no none.yaml; `fanfold tune PLAN --learned none.yaml` writes it"),
    ],
)
def test_what_is_no_route_is_refused(tmp_path: Path, given: object, said: str) -> None:
    with pytest.raises(BadInput) as refused:
        read_route(Node({"route": given}, "", {}).child("route"), tmp_path)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What is the name of the largest city in the world?", "en"),
        ("Wie heißt die größte Stadt der Welt und wo ist sie?", "de"),
        ("Quelle est la plus grande ville du monde et où est-elle ?", "fr"),
        ("x = 3; y = f(x)", "other"),
        ("", "other"),
    ],
)
def test_the_language_of_an_item_is_that_of_its_usual_words(text: str, expected: str) -> None:
    assert language({"id": "the of and", "text": text}) == expected


def test_the_length_of_an_item_is_that_of_all_its_texts() -> None:
    assert length({"id": "12345", "a": "xy", "b": ["z", {"c": "uv"}], "n": 3}) == 5
