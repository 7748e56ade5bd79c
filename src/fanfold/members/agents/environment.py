"""The variables that a roster gives to an agent: values, and references to others."""

from __future__ import annotations

from collections.abc import Mapping

from fanfold.errors import Terminal

REFERENCE = "env:"


def resolved(env: Mapping[str, str], around: Mapping[str, str]) -> dict[str, str]:
    """`env` with each `env:NAME` replaced by the value of NAME in `around`.

    It is looked up at the last moment, so that no secret is ever written down. A variable that is
    not set (or empty) is a fault of the account: Terminal for the pool.
    """
    return {name: _value(name, stated, around) for name, stated in env.items()}


def references(env: Mapping[str, str]) -> frozenset[str]:
    """The names of the variables that `env` refers to: secrets, which nobody else is to see."""
    return frozenset(_name(stated) for stated in env.values() if stated.startswith(REFERENCE))


def _name(stated: str) -> str:
    return stated.removeprefix(REFERENCE)


def _value(name: str, stated: str, around: Mapping[str, str]) -> str:
    if not stated.startswith(REFERENCE):
        return stated
    value = around.get(_name(stated), "")
    if not value.strip():
        missing = _name(stated)
        text = f"env.{name}: the variable {missing} is not set; export it, or change the roster"
        raise Terminal(text, scope="pool")
    return value
