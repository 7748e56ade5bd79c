"""Where a function raises, as messages name it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any


def place(fn: Callable[..., Any], below: int = 1) -> str:
    """So many lines below its first one: ` (tests/…/test_x.py:12)`."""
    code = fn.__code__
    return f" ({os.path.relpath(code.co_filename)}:{code.co_firstlineno + below})"
