"""The key of an ask: the same content, the same key."""

from __future__ import annotations

import msgspec

from fanfold.work.ask import Ask, Call, Message, Params, Reply, Schema, Takes, Tool, Tools
from fanfold.work.item import Item


def test_who_looks_at_both_is_keyed_by_both() -> None:
    """A function that takes the ask beside the item: another prompt is another ask."""
    item = Item("a", {"text": "same"})
    one, other = (Ask((Message("user", words),), (item,)) for words in ("one", "other"))
    changed = Ask((Message("user", "one"),), (Item("a", {"text": "new"}),))
    assert one.key("items") == other.key("items")
    assert len({one.key("both"), other.key("both"), changed.key("both")}) == 3


def test_keys_stay_what_they_were() -> None:
    """Stores hold them: a reply that was paid for is found under the key of then."""
    item = Item("a", {"text": "same", "n": 1})
    plain = Ask((Message("user", "hi"),), (item,))
    turns = (Message("assistant", "x"), Message("user", "y"))
    whole = Ask(
        (Message("system", "s"), Message("user", "hi")), (item,), turns,
        Schema.of({"type": "object"}), Params(temperature=0.5, stop=("a",)), 3,
    )  # fmt: skip
    ways: tuple[Takes, ...] = ("messages", "items", "both")
    assert [plain.key(takes).hex() for takes in ways] == [
        "a5b86fc4e9e916dd071f9bbdad2b7cdf", "783605c397e9b94f5736fe12ae170e0e",
        "4857cc4bd4e4d3029bba7d15c222997b",
    ]  # fmt: skip
    assert [whole.key(takes).hex() for takes in ways] == [
        "8f1f43e82b00acf035ad552d66530cc8", "639f8c2f66ec17dfb03118e9379b9d86",
        "38e336dea351eb8b76d12f290d610dd3",
    ]  # fmt: skip


def test_tools_and_what_came_of_them_are_part_of_the_key() -> None:
    """What is offered, what was said, wanted and given back, and whether an answer is due."""
    plain = Ask((Message("user", "hi"),))
    tool = Tool("menu", "who is there", {"type": "object"})
    offered = msgspec.structs.replace(plain, tools=Tools.of((tool,)))
    other = msgspec.structs.replace(
        plain, tools=Tools.of((msgspec.structs.replace(tool, description="x"),))
    )
    wants = Reply("I look", calls=(Call("c1", "menu", {"a": 1}),))
    asks = [
        plain, offered, other,
        offered.after(wants, ("nobody",)), offered.after(wants, ("alba",)),
        offered.after(wants, ("alba",), last=True),
        offered.after(msgspec.structs.replace(wants, text=""), ("alba",)),
        offered.after(Reply("I look", calls=(Call("c1", "menu", {"a": 2}),)), ("alba",)),
    ]  # fmt: skip
    assert len({ask.key("messages") for ask in asks}) == len(asks)
    again = msgspec.structs.replace(plain, tools=Tools.of((tool,))).after(wants, ("alba",))
    assert again.key("messages") == asks[4].key("messages")
