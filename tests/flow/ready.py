"""A process that has everything imported already: those that tests kill by the dozen are forked from it.

One for all of them, and so one list of what it imports: also what a run imports when it first needs it.
"""

from __future__ import annotations

import gc
import multiprocessing
import os

READY = multiprocessing.get_context("forkserver")
READY.set_forkserver_preload([
    "tests.flow.children", "tests.flow.killed_plans", "tests.flow.share_processes",
    "fanfold.faces.cli.run", "fanfold.members.openai", "fanfold.members.http_aiohttp",
    "fanfold.patterns.group", "fanfold.patterns.pipeline", "fanfold.patterns.rank",
    "fanfold.patterns.resolve", "fanfold.journal.postgres.store", "fanfold.journal.postgres.queue",
    "platformdirs.unix", "encodings.ascii", "encodings.idna",
    "encodings.unicode_escape", "encodings.utf_8_sig", "tests.flow.empty_store",
])  # fmt: skip
os.register_at_fork(after_in_child=gc.freeze)  # what it imported is not gone through in every fork
