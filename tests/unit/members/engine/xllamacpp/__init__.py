"""Stands in for the engine of the embedded model: the same names, a server of a few lines.

It says what it was started with, and gives words the tokens and chances that stand below. Only the
process of `members/local_engine.py` imports it.
"""

from __future__ import annotations

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

TOKENS = {
    " bad": [10], " fine": [11], " good": [12], " good enough": [12, 13], "\n": [99],
    " 1": [1], " 2": [2], " negative": [20], " positive": [21], " not judged": [22], " no": [30],
    " yes": [31],
}  # fmt: skip
CHANCES = {10: 1.0, 11: 3.0, 12: 4.0, 13: 3.0, 99: 1.0, 1: 1.0, 2: 3.0} | {
    20: 1.0, 21: 3.0, 22: 0.1, 30: 1.0, 31: 3.0
}  # fmt: skip


class CommonParams(SimpleNamespace):
    def __init__(self) -> None:
        super().__init__(
            model=SimpleNamespace(), cpuparams=SimpleNamespace(), cpuparams_batch=SimpleNamespace()
        )


class Server:
    def __init__(self, params: CommonParams) -> None:
        with open(params.model.path, "rb") as stream:
            if stream.read(4) != b"GGUF":
                raise RuntimeError("this is no model")
        handler = type("Handler", (_Handler,), {"params": params})
        served = ThreadingHTTPServer(("127.0.0.1", params.port), handler)
        threading.Thread(target=served.serve_forever, daemon=True).start()
        self.listening_address = f"http://127.0.0.1:{served.server_port}"


class _Handler(BaseHTTPRequestHandler):
    params: CommonParams
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.headers["authorization"] != f"Bearer {self.params.api_keys[0]}":
            return self._answer({"error": {"message": "Invalid API Key"}}, 401)
        if "die" in json.dumps(asked):
            os._exit(9)
        match self.path:
            case "/tokenize":
                return self._answer({"tokens": TOKENS[asked["content"]]})
            case "/completion":
                return self._answer(_weighed(asked))
            case _:
                return self._answer(_said(asked, self.params))

    def _answer(self, answer: Any, status: int = 200) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


def _weighed(asked: dict[str, Any]) -> dict[str, Any]:
    tokens = [token for token, _ in asked["logit_bias"]]
    whole = sum(CHANCES[token] for token in tokens)
    chances = [{"id": token, "prob": CHANCES[token] / whole} for token in tokens]
    return {
        "completion_probabilities": [{"top_probs": chances}],
        "tokens_evaluated": 20,
        "timings/cache_n": 15,
    }


def _said(asked: dict[str, Any], params: CommonParams) -> dict[str, Any]:
    told = {
        "slots": params.n_parallel,
        "context": params.n_ctx,
        "threads": params.cpuparams.n_threads,
        "alias": sorted(params.model_alias),
        "environment": sorted(name for name in os.environ if name.startswith("ZZ_")),
        "waits": os.environ.get("OMP_WAIT_POLICY"),
        "format": asked.get("response_format"),
        "most": asked["max_tokens"],
    }
    said = {"message": {"content": json.dumps(told)}, "finish_reason": "stop"}
    return {"choices": [said], "usage": {"prompt_tokens": 7, "completion_tokens": 5}}
