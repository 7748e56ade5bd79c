"""What a run inherits from the process it is opened in: the attempt that started that process, and the
store which that attempt is recorded in, both by environment variables."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import msgspec

from fanfold.journal.places import absolute, scheme_of
from fanfold.work.started import PARENT, STORE

SPAN = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}(:[0-9]{1,18})?", re.ASCII)
USUAL = ".fanfold"


class Inherited(msgspec.Struct, frozen=True):
    """`parent` is a span, or None where nobody started this process; `store` is the default one."""

    parent: str | None = None
    store: str = USUAL


def inherited(environ: Mapping[str, str] = os.environ) -> Inherited:
    """Anyone can write into an environment: what does not look like a span is not one, and a store
    that is neither a full path nor a URL is not taken."""
    span, store = environ.get(PARENT, ""), environ.get(STORE, "")
    named = scheme_of(store) or Path(store).is_absolute()
    return Inherited(span if SPAN.fullmatch(span) else None, store if named else USUAL)


def named_store(store: str | Path) -> str:
    """How a store is named in a command that is printed: "" where it is the default one."""
    return "" if absolute(store) == absolute(inherited().store) else str(store)


def store_words(store: str | Path) -> str:
    """The same as words at the end of a command: ` --store DIR`, or nothing."""
    named = named_store(store)
    return f" --store {shlex.quote(named)}" if named else ""
