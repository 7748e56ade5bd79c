"""A run as OpenTelemetry traces and metrics, by the conventions for generative AI (v1.41).

It subscribes to the facts of the run's own process. One trace for each run and all that is started on
its behalf: ids are made from the ids of runs and attempts, so a run that an agent started hangs below
that agent's span, whichever process exports it. Loaded only when it is wanted: it needs the extra `otel`.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from hashlib import blake2b
from typing import Any, cast

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from fanfold.journal.answers import Claim
from fanfold.journal.facts import EndAttempt, RunRecord, StartAttempt
from fanfold.journal.questions import ReportQuestions
from fanfold.journal.stream import Commit
from fanfold.observe.table import one_line
from fanfold.price import dollars
from fanfold.run.run import Run
from fanfold.work.ask import Reply, Usage
from fanfold.work.member import Traits
from fanfold.work.outcome import Receipt

CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_DEEPEST = 100  # runs within runs


def export(run: Run) -> None:
    """What happens in a run from now on until it is closed."""
    spans = _Export(run)
    unsubscribe = run.store.subscribe(spans.hear)

    def end(receipt: Receipt) -> None:
        unsubscribe()
        spans.end(receipt)

    run.at_close.append(end)


# ── ids ──────────────────────────────────────────────────────────────────────────────────────


def trace_id(run: str) -> int:
    """Of the topmost run."""
    return int.from_bytes(blake2b(run.encode(), digest_size=16).digest()) or 1


def span_id(of: str) -> int:
    """Of a run (its id), a step (`RUN/NAME`) or an attempt (`RUN:NUMBER`)."""
    return int.from_bytes(blake2b(of.encode(), digest_size=8).digest()) or 1


def topmost(read: ReportQuestions, record: RunRecord) -> str:
    """The run that started the run that started it, and so on."""
    for _ in range(_DEEPEST):
        above = record.parent and read.find(record.parent.partition(":")[0])
        if not above:
            break
        record = above
    return record.id


# ── spans ────────────────────────────────────────────────────────────────────────────────────


class _Export:
    """The spans of one invocation of a run: one for itself, one for each of its steps that asked
    somebody, one for each attempt that has ended."""

    def __init__(self, run: Run) -> None:

        self._run, self._began, self._failures = run, run.clock.now(), _Failures()
        self._trace = trace_id(topmost(run.store.read, run.record))
        self._ids = _Ids(self._trace)
        service = os.environ.get("OTEL_SERVICE_NAME", "fanfold")
        resource = Resource.create({"service.name": service})
        self._provider: TracerProvider = TracerProvider(
            resource=resource, id_generator=cast(Any, self._ids), shutdown_on_exit=False
        )
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("fanfold")
        self._metrics = _Metrics(resource)
        self._content = os.environ.get(CONTENT, "").lower() in ("true", "1", "span_only")
        self._open: dict[int, StartAttempt] = {}
        self._steps: dict[int, list[float]] = {}  # from when to when
        if run.record.resumed:
            self._tell_lost()

    def hear(self, commit: Commit) -> None:
        run = self._run.record.no
        for fact, answer in zip(commit.facts, commit.answers, strict=True):
            if isinstance(fact, StartAttempt) and fact.run == run:
                if isinstance(answer, Claim) and answer.attempt:
                    self._open[answer.attempt] = fact
            elif isinstance(fact, EndAttempt) and fact.run == run and fact.attempt:
                self._attempt(fact)

    def _tell_lost(self) -> None:
        """Attempts of a process that died: nobody else tells of them."""
        record = self._run.record
        for one in self._run.store.read.newest(record.no, ("in_doubt",), limit=10_000):
            if one.lost == "died":
                self._attempt(
                    EndAttempt(
                        run=record.no, attempt=one.no, state="in_doubt", usage=one.usage,
                        cost=one.cost, at=one.ended or self._began, error=one.error, bound=one.bound,
                    )
                )  # fmt: skip

    def _attempt(self, end: EndAttempt) -> None:
        start, attempt = self._open.pop(end.attempt, None), end.attempt
        if end.lost == "unsent":
            return
        if start is None:  # one of an earlier process
            found = [one for _, one in self._run.store.read.attempts_by_number((attempt,))]
            if not found:
                return
            step, member, began = found[0].step, found[0].member, found[0].started
            why, ids = found[0].why, found[0].ids
        else:
            step, member, began = start.step, start.member, start.at
            why, ids = start.why, start.ids
        traits = self._run.member_traits(member)
        span = self._steps.setdefault(step, [began, end.at])
        span[0], span[1] = min(span[0], began), max(span[1], end.at)
        reply = end.landed[0].reply if end.landed else None
        operation = _operation(traits)
        attributes = {
            **_of_member(traits, member), **_of_usage(end.usage), **_of_reply(reply),
            "gen_ai.operation.name": operation,
            "fanfold.run.id": self._run.record.id, "fanfold.attempt": attempt,
            "fanfold.items": list(ids), "fanfold.member.why": why, "fanfold.state": end.state,
            "fanfold.cost.usd": dollars(end.cost), "fanfold.cost.at_most": end.bound,
            "fanfold.outcomes": [one.state for one in end.endings],
            "fanfold.reasons": [text for one in end.endings for text in one.reasons],
        }  # fmt: skip
        if end.landed:
            attributes["fanfold.key"] = end.landed[0].key.hex()
            if self._content and reply is not None:
                attributes["gen_ai.output.messages"] = _message(reply)
        name = f"{operation} {attributes.get('gen_ai.request.model') or member}"
        own = f"{self._run.record.id}:{attempt}"
        self._emit(name, own, self._step_key(step), (began, end.at), attributes, end.error)
        seconds = end.took if end.took is not None else max(0.0, end.at - began)
        self._metrics.call(attributes, end.usage, seconds)

    def end(self, receipt: Receipt) -> None:
        """The spans above, once it is known how long they took."""
        run = self._run
        names = run.store.read.step_names(run.record.no)
        for no, (began, ended) in self._steps.items():
            attributes: dict[str, Any] = {
                "fanfold.run.id": run.record.id, "fanfold.step": names[no],
            }  # fmt: skip
            key = self._step_key(no)
            self._emit(f"step {names[no]}", key, run.record.id, (began, ended), attributes, None)
        attributes = {
            "gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": run.record.name,
            "fanfold.run.id": run.record.id, "fanfold.status": receipt.status,
            "fanfold.planned": receipt.planned, "fanfold.passed": receipt.passed,
            "fanfold.calls": receipt.calls, "fanfold.reused": receipt.reused,
            "fanfold.run.cost.usd": receipt.cost_usd,
            "fanfold.run.tokens.input": receipt.tokens.input,
            "fanfold.run.tokens.output": receipt.tokens.output,
        }  # fmt: skip
        times = self._began, run.clock.now()
        name = f"invoke_workflow {run.record.name}"
        self._emit(name, run.record.id, run.record.parent, times, attributes, None)
        self._provider.shutdown()
        self._metrics.shutdown()
        self._failures.tell()

    def _step_key(self, step: int) -> str:
        return f"{self._run.record.id}/{step}"

    def _emit(
        self, name: str, own: str, parent: str | None, times: tuple[float, float],
        attributes: dict[str, Any], error: str | None,
    ) -> None:  # fmt: skip

        self._ids.span = span_id(own)
        began, ended = (int(at * 1e9) for at in times)
        outside = "fanfold.attempt" in attributes
        span = self._tracer.start_span(
            name, context=self._below(parent), kind=SpanKind.CLIENT if outside else SpanKind.INTERNAL,
            start_time=began, attributes={k: v for k, v in attributes.items() if v not in (None, "")},
        )  # fmt: skip
        if error is not None:
            span.set_attribute("error.type", attributes.get("fanfold.state", "error"))
            span.set_status(Status(StatusCode.ERROR, error))
        span.end(end_time=max(began, ended))

    def _below(self, parent: str | None) -> Context:

        if parent is None:
            return Context()
        flags = TraceFlags(TraceFlags.SAMPLED)
        above = SpanContext(self._trace, span_id(parent), is_remote=True, trace_flags=flags)
        return set_span_in_context(NonRecordingSpan(above), Context())


class _Failures(logging.Handler):
    """What the SDK complains about, for one line at the end instead of many."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last = ""
        log = logging.getLogger("opentelemetry")
        log.handlers, log.propagate = [self], False

    def emit(self, record: logging.LogRecord) -> None:
        self.last = self.last or one_line(record.getMessage(), 200)

    def tell(self) -> None:
        if self.last and sys.stderr is not None:
            sys.stderr.write(f"fanfold: warning: telemetry was not exported: {self.last}\n")


class _Ids:
    """Gives the ids that were made from those of runs and attempts, instead of random ones."""

    def __init__(self, trace: int) -> None:
        self._trace, self.span = trace, 1

    def generate_trace_id(self) -> int:
        return self._trace

    def generate_span_id(self) -> int:
        return self.span

    def is_trace_id_random(self) -> bool:
        return False


# ── attributes ───────────────────────────────────────────────────────────────────────────────


def _operation(traits: Traits | None) -> str:
    """A program is a tool; what is not known any more was most likely a model."""
    if traits is None or traits.model:
        return "invoke_agent" if traits is not None and traits.agent else "chat"
    return "invoke_agent" if traits.agent else "execute_tool"


def _of_member(traits: Traits | None, member: str) -> dict[str, Any]:
    if traits is None:
        return {"fanfold.member": member}
    return {
        "fanfold.member": member,
        "gen_ai.provider.name": traits.kind,
        "gen_ai.request.model": traits.model,
        "gen_ai.agent.name": member if traits.agent else None,
    }


def _of_usage(usage: Usage | None) -> dict[str, Any]:
    """Here `input_tokens` are all of them, those from a cache too."""
    if usage is None:
        return {}
    return {
        "gen_ai.usage.input_tokens": usage.input + usage.cache_read + usage.cache_write,
        "gen_ai.usage.output_tokens": usage.output,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write,
    }


def _of_reply(reply: Reply | None) -> dict[str, Any]:
    if reply is None:
        return {}
    return {
        "gen_ai.response.model": reply.model,
        "gen_ai.response.finish_reasons": [reply.reason or reply.finish],
    }


def _message(reply: Reply) -> str:
    part = {"type": "text", "content": reply.text}
    return json.dumps([{"role": "assistant", "parts": [part], "finish_reason": reply.finish}])


class _Metrics:
    """Tokens and durations of calls, as histograms."""

    def __init__(self, resource: Any) -> None:

        wanted = os.environ.get("OTEL_METRICS_EXPORTER", "otlp") != "none"
        readers = [PeriodicExportingMetricReader(OTLPMetricExporter())] if wanted else []
        self._provider = MeterProvider(readers, resource, shutdown_on_exit=False)
        meter = self._provider.get_meter("fanfold")
        self._tokens = meter.create_histogram("gen_ai.client.token.usage", "{token}")
        self._seconds = meter.create_histogram("gen_ai.client.operation.duration", "s")

    def call(self, attributes: dict[str, Any], usage: Usage | None, seconds: float) -> None:
        names = ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model")
        known = {name: attributes[name] for name in names if attributes.get(name)}
        self._seconds.record(seconds, known)
        if usage is not None:
            for kind, many in (("input", usage.total - usage.output), ("output", usage.output)):
                self._tokens.record(many, {**known, "gen_ai.token.type": kind})

    def shutdown(self) -> None:
        self._provider.shutdown()
