"""The server of the embedded model: a program of its own, started by `local_server`.

Reads one line of JSON on stdin (how to serve), writes one on stdout (where), and ends when stdin
does or when the process that started it is gone, however that ended. Imports nothing of ours, so
that it starts quickly; the engine comes from the folder it is told, which no other process sees.
"""

from __future__ import annotations

import json
import os
import select
import sys
from typing import Any

SECONDS = 1.0
_POOLING = {"mean": 1, "cls": 2, "last": 3}  # as the engine numbers them


def serve() -> None:
    """The engine writes where it likes: stdout is kept for the one line, the rest goes to stderr."""
    owner, answer = os.getppid(), os.dup(1)
    os.dup2(2, 1)
    how = json.loads(sys.stdin.buffer.readline())
    try:
        server = _start(how)
        said = {"address": server.listening_address}
    except Exception as error:  # whatever it is, the process that waits is told
        said = {"error": f"{type(error).__name__}: {error}"}
    os.write(answer, json.dumps(said).encode() + b"\n")
    if "address" in said:
        _wait_for_the_end(owner)
    os._exit(0)  # at once: requests under way have nobody left to answer to


def _start(how: dict[str, Any]) -> Any:
    if how["path"]:
        sys.path.insert(0, how["path"])
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = how["model"]
    params.model_alias = {how["name"]}
    params.port = 0
    params.n_parallel = how["slots"]
    params.n_ctx = how["slots"] * how["context"]
    params.n_gpu_layers = 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = how["threads"]
    params.api_keys = [how["key"]]
    params.cache_ram_mib = 256
    params.ui = False
    params.endpoint_slots = False
    params.offline = True
    params.verbosity = 1
    if how["embedding"]:
        params.embedding = True
        params.n_batch = params.n_ubatch = how["context"]
        if how["embedding"] in _POOLING:
            params.pooling_type = _POOLING[how["embedding"]]
    return xllamacpp.Server(params)


def _wait_for_the_end(owner: int) -> None:
    """A pipe ends when the last process that has it open does. Someone else may have inherited it,
    so the owner is looked at too."""
    while os.getppid() == owner:
        ready, _, _ = select.select([0], [], [], SECONDS)
        if ready and not os.read(0, 4096):
            return


if __name__ == "__main__":
    serve()
