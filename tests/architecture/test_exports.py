"""What users import: few names, and all of them there."""

from __future__ import annotations

import fanfold

MOST = 42


def test_the_front_door_is_small() -> None:
    assert 0 < len(fanfold.__all__) <= MOST
    assert len(set(fanfold.__all__)) == len(fanfold.__all__)


def test_every_exported_name_exists() -> None:
    assert [name for name in fanfold.__all__ if getattr(fanfold, name, None) is None] == []


def test_every_exported_function_and_class_says_what_it_is_for() -> None:
    exported = {name: getattr(fanfold, name) for name in fanfold.__all__}
    mute = [name for name, thing in exported.items() if callable(thing) and not thing.__doc__]
    assert mute == []
