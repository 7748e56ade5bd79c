"""The key of an ask: the same content, the same key."""

from __future__ import annotations

from fanfold.work.ask import Ask, Message
from fanfold.work.item import Item


def test_who_looks_at_both_is_keyed_by_both() -> None:
    """A function that takes the ask beside the item: another prompt is another ask."""
    item = Item("a", {"text": "same"})
    one, other = (Ask((Message("user", words),), (item,)) for words in ("one", "other"))
    changed = Ask((Message("user", "one"),), (Item("a", {"text": "new"}),))
    assert one.key("items") == other.key("items")
    assert len({one.key("both"), other.key("both"), changed.key("both")}) == 3
