"""A model server that holds its answers back, and lets them go."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from fanfold.testing.running import RunningServer


@contextmanager
def all_answered(model: RunningServer) -> Iterator[None]:
    """Meanwhile, at once."""
    over = threading.Event()

    def release() -> None:
        while not over.wait(0.01):
            model.release()

    thread = threading.Thread(target=release)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
