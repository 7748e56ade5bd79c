"""Traces for OpenTelemetry: are they wanted, and is the extra there? `otel` has what they are."""

from __future__ import annotations

import os
from importlib.util import find_spec

from fanfold.errors import BadInput
from fanfold.run.run import Run

SWITCH = "FANFOLD_OTEL"
_PLACES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_MISSING = "traces need the OpenTelemetry SDK; install it with: pip install 'fanfold[otel]'"


def switch_on() -> None:
    """For this process and those that it starts. Raises BadInput without the extra `otel`."""
    if not _installed():
        raise BadInput(_MISSING)
    os.environ[SWITCH] = "1"


def _installed() -> bool:
    try:
        found = [find_spec(f"opentelemetry.{name}") for name in ("sdk", "exporter.otlp.proto.http")]
    except ModuleNotFoundError:
        return False
    return all(found)


def _wanted() -> bool:
    """Asked for by `--otel`, or by the standard variables where the extra is installed."""
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    asked = os.environ.get(SWITCH) or any(os.environ.get(name) for name in _PLACES)
    return bool(asked) and _installed()


def trace(run: Run) -> None:
    """Export what happens in a run from now on until it is closed, if that is wanted."""
    if _wanted():
        from fanfold.observe import otel

        otel.export(run)
