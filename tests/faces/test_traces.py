"""Traces and metrics, as a collector receives them: one trace for a run, nested as the tree is, with the
sums of the receipt."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest

from fanfold.testing.running import RunningServer
from tests.faces.cli import fanfold, started
from tests.faces.project import write_project

pytest.importorskip("opentelemetry.sdk")
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """What came in. Spans by name, with their attributes as a dict."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.bodies: list[tuple[str, bytes]] = []

    @property
    def spans(self) -> list[Any]:
        found = []
        for path, body in self.bodies:
            if path == "/v1/traces":
                request = ExportTraceServiceRequest.FromString(body)
                for resource in request.resource_spans:
                    for scope in resource.scope_spans:
                        found += scope.spans
        return found

    def named(self, start: str) -> list[Any]:
        return [span for span in self.spans if span.name.startswith(start)]

    @property
    def metrics(self) -> set[str]:
        return {
            metric.name
            for path, body in self.bodies
            if path == "/v1/metrics"
            for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


def attributes(span: Any) -> dict[str, Any]:
    found = {}
    for one in span.attributes:
        kind = one.value.WhichOneof("value")
        found[one.key] = getattr(one.value, kind) if kind else None
    return found


@contextmanager
def collecting() -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            collector.bodies.append((self.path, body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Nothing on stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector = Collector(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def folder(tmp_path: Path, server: RunningServer) -> Path:
    """Six items, three at once."""
    write_project(tmp_path / "project", server.url)
    return tmp_path / "project"


def test_one_trace_nested_as_the_tree_with_the_sums_of_the_receipt(
    tmp_path: Path, quick_server: RunningServer
) -> None:
    folder = tmp_path / "project"
    write_project(folder, quick_server.url)
    with collecting() as collector:
        ended = fanfold(
            folder, "run", "plan.yaml", "--json", "--otel",
            OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
        )  # fmt: skip
        assert ended.code == 0, ended
        receipt = ended.receipt
        (run,), (step,), calls = (
            collector.named("invoke_workflow talk"),
            collector.named("step map"),
            collector.named("chat test-model"),
        )
        assert len(collector.spans) == 8
        assert len({span.trace_id for span in collector.spans}) == 1
        assert (run.parent_span_id, step.parent_span_id) == (b"", run.span_id)
        assert {span.parent_span_id for span in calls} == {step.span_id}
        found = [attributes(span) for span in calls]
        cost = sum(one["fanfold.cost.usd"] for one in found)
        assert cost == pytest.approx(receipt["cost_usd"])
        tokens = [
            sum(one[f"gen_ai.usage.{kind}_tokens"] for one in found) for kind in ("input", "output")
        ]
        assert tokens == [receipt["tokens"]["input"], receipt["tokens"]["output"]]
        assert attributes(run)["fanfold.run.cost.usd"] == pytest.approx(cost)
        first = found[0]
        assert first["gen_ai.operation.name"] == "chat"
        assert (first["gen_ai.provider.name"], first["gen_ai.request.model"]) == (
            "openai",
            "test-model",
        )
        assert "gen_ai.output.messages" not in first, "content only by opt-in"
        assert {
            "gen_ai.client.token.usage",
            "gen_ai.client.operation.duration",
        } <= collector.metrics


def test_after_a_crash_the_trace_goes_on_and_what_was_lost_is_in_it(
    folder: Path, server: RunningServer
) -> None:
    with collecting() as collector:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "FANFOLD_OTEL": "1"}
        with started(folder, "run", "plan.yaml", **env) as run:
            run.until(lambda: server.totals().in_flight == 3)
            run.send(SIGKILL)
            run.end()
        server.release()
        ended = fanfold(folder, "resume", "talk", "--json", **env)
        assert ended.code == 0, ended
        calls = collector.named("chat")
        assert len({span.trace_id for span in collector.spans}) == 1
        states = [attributes(span)["fanfold.state"] for span in calls]
        assert sorted(states) == ["in_doubt"] * 3 + ["ok"] * 6
        cost = sum(attributes(span)["fanfold.cost.usd"] for span in calls)
        assert cost == pytest.approx(ended.receipt["cost_usd"])


def test_a_collector_that_is_not_there_costs_nothing_but_its_spans(
    tmp_path: Path, quick_server: RunningServer
) -> None:
    folder = tmp_path / "project"
    write_project(folder, quick_server.url)
    ended = fanfold(
        folder, "run", "plan.yaml", "--otel", OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9",
        OTEL_EXPORTER_OTLP_TIMEOUT="1",
    )  # fmt: skip
    assert (ended.code, ended.out.splitlines()[0]) == (0, "talk complete")
    assert [line for line in ended.err.splitlines() if "warning" in line] == ended.err.splitlines()
    assert ended.err.count("telemetry was not exported") == 1
