"""What code of the user's raised: the place that is named is theirs."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from fanfold.work.raised import error_text
from fanfold.work.template import Template
from tests.places import place


def caught(fn: Any) -> Exception:
    try:
        fn()
    except Exception as error:
        return error
    raise AssertionError("it raised nothing")


def raises() -> None:
    raise ValueError("no idea")


def calls_a_library() -> None:
    json.loads("{")


def calls_fanfold() -> None:
    Template("{{ item", name="p", known=frozenset())


def says_nothing() -> None:
    raise KeyError


def test_the_line_of_the_function_is_named() -> None:
    assert error_text(caught(raises)) == f"ValueError: no idea{place(raises)}"


def test_of_what_it_calls_only_its_own_line_matters() -> None:
    """Neither a library's file nor one of ours helps a user to find the mistake."""
    assert error_text(caught(calls_a_library)).endswith(place(calls_a_library))
    assert error_text(caught(calls_fanfold)).endswith(place(calls_fanfold))


def test_an_error_without_a_text_is_its_name() -> None:
    assert error_text(caught(says_nothing)) == f"KeyError{place(says_nothing)}"


def test_an_error_from_nowhere_has_no_place() -> None:
    assert error_text(ValueError("as it is")) == "ValueError: as it is"


def test_a_long_text_does_not_hide_the_place() -> None:
    def long() -> None:
        raise ValueError("x" * 5000)

    text = error_text(caught(long))
    assert len(text) < 500
    assert text.endswith(f"…{place(long)}")


def test_an_error_that_cannot_be_shown_is_still_told() -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert error_text(Odd()) == "Odd: (without a message)"


def test_what_was_cancelled_is_said_in_a_word() -> None:
    assert error_text(asyncio.CancelledError()) == "cancelled"


def test_the_traceback_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "fanfold.raised"):
        error_text(caught(raises))
    assert "in raises" in caplog.text
