"""Whether a plain function of the user's runs in the thread of the loop, which can do nothing else then:
neither its timers nor its signals reach anybody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


class Held:
    """`held`: one runs right now."""

    held = False

    def call(self, function: Callable[..., Any], *given: Any) -> Any:
        """A KeyboardInterrupt in it is that of an operator who does not want to wait for it."""
        try:
            try:
                self.held = True
                return function(*given)
            finally:
                self.held = False
        except KeyboardInterrupt:
            raise asyncio.CancelledError("interrupted") from None


loop = Held()
