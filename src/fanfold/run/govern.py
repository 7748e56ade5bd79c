"""The fan-out governor: before a stage whose size nobody knew at the start."""

from __future__ import annotations

import msgspec


class Govern(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """When a stage whose size was not known at the start needs a yes; `cap` holds always."""

    max_tasks: int = 100
    approve_over: float = 1.0
    cap: int = 1000
