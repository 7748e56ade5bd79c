"""How many examples Hypothesis tries: a few in `make test`, all of them in `make sweep`."""

from __future__ import annotations

from typing import Any

from hypothesis import settings


def examples(most: int, **more: Any) -> settings:
    """At most so many, and no more than the profile has; the sweep tries them all."""
    if settings.get_current_profile_name() != "sweep":
        most = min(most, settings().max_examples)
    return settings(max_examples=most, **more)
