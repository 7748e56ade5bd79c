"""The team's store: PostgreSQL, by the extra `postgres`."""

from __future__ import annotations

from fanfold.errors import BadInput

try:
    import psycopg  # noqa: F401
except ImportError as missing:
    said = "a store on PostgreSQL needs psycopg: pip install 'fanfold[postgres]'"
    raise BadInput(said) from missing
