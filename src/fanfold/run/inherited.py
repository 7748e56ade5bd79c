"""What a run inherits from the process it is opened in: the attempt that started that process, and
the store which that attempt is recorded in. The environment is read here and nowhere else."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from fanfold.work.member import PARENT, STORE

SPAN = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}(:[0-9]{1,18})?", re.ASCII)
_USUAL = ".fanfold"


class Inherited(msgspec.Struct, frozen=True):
    """`parent` is a span, or None where nobody started this process; `store` is the default one."""

    parent: str | None = None
    store: str = _USUAL


def inherited(environ: Mapping[str, str] = os.environ) -> Inherited:
    """Anyone can write into an environment: what does not look like a span is not one, and a store
    that is not a full path is not taken."""
    span, store = environ.get(PARENT, ""), environ.get(STORE, "")
    return Inherited(
        span if SPAN.fullmatch(span) else None, store if Path(store).is_absolute() else _USUAL
    )
