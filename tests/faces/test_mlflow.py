"""Traces in a real backend: MLflow's OTLP endpoint. `make mlflow` installs it; skipped without."""

from __future__ import annotations

import json
import socket
import subprocess
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from fanfold.testing.running import RunningServer
from tests.faces.cli import fanfold
from tests.faces.project import write_project
from tests.waiting import wait_until

HERE = Path(__file__).resolve().parents[2] / ".mlflow" / "bin"
READ = """
import json, sys, mlflow
mlflow.set_tracking_uri(sys.argv[1])
found = mlflow.search_traces(locations=["0"], return_type="list")
print(json.dumps([[(s.name, s.span_id, s.parent_id, s.attributes) for s in t.data.spans] for t in found]))
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (HERE / "mlflow").exists(), reason="needs: make mlflow"),
]


def test_one_trace_with_the_sums_of_the_receipt(
    tmp_path: Path, quick_server: RunningServer
) -> None:
    folder = tmp_path / "project"
    write_project(folder, quick_server.url)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url, db = f"http://127.0.0.1:{port}", tmp_path / "mlflow.db"
    words = ["server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    with subprocess.Popen(
        [str(HERE / "mlflow"), *words, "--backend-store-uri", f"sqlite:///{db}"],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as backend:  # fmt: skip
        try:
            wait_until(lambda: answers(f"{url}/health"))
            ended = fanfold(
                folder, "run", "plan.yaml", "--json", "--otel", OTEL_EXPORTER_OTLP_ENDPOINT=url,
                OTEL_EXPORTER_OTLP_HEADERS="x-mlflow-experiment-id=0",
                OTEL_METRICS_EXPORTER="none", OTEL_EXPORTER_OTLP_TIMEOUT="170",
            )  # fmt: skip
            assert (ended.code, ended.err) == (0, ""), ended
            told = subprocess.run(
                [str(HERE / "python"), "-c", READ, url], stdout=subprocess.PIPE, check=True
            )
        finally:
            backend.terminate()
    (spans,) = json.loads(told.stdout)
    by_name = {name: (id, parent) for name, id, parent, _ in spans}
    run, step = by_name["invoke_workflow talk"], by_name["step map"]
    assert (run[1], step[1]) == (None, run[0])
    calls = [attributes for name, _, parent, attributes in spans if parent == step[0]]
    assert len(calls) == 6
    assert sum(float(one["fanfold.cost.usd"]) for one in calls) == pytest.approx(
        ended.receipt["cost_usd"]
    )


def answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=5):
            return True
    except (URLError, OSError):
        return False
