"""The figures of a store in the text format of Prometheus: what the metrics of OpenTelemetry tell call by
call, added up over all runs that are on record."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping

from fanfold.journal import opening
from fanfold.journal.contract import Store
from fanfold.journal.questions import ReportQuestions
from fanfold.price import dollars

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_Labels = tuple[tuple[str, str], ...]


def metrics_text(read: ReportQuestions) -> str:
    """One query over the attempts of all runs: for a scrape now and then, not for each second."""
    runs = read.runs()
    status: Counter[_Labels] = Counter((("status", str(run.status)),) for run in runs)
    return "".join([
        *_family("fanfold_runs", "gauge", "Runs on record, by status.", status),
        *_calls(read, [run.no for run in runs]),
    ])  # fmt: skip


async def metrics_of(store: Store) -> str:
    """Of the store of a run that is open, by a connection of its own, so that the run does not wait."""
    if not opening.outlives_process(store.place):
        return metrics_text(store.read)

    def read() -> str:
        view = opening.look(store.place)
        try:
            return metrics_text(view.read)
        finally:
            view.close()

    return await asyncio.to_thread(read)


def _calls(read: ReportQuestions, runs: list[int]) -> Iterator[str]:
    calls, errors, cost = Counter[_Labels](), Counter[_Labels](), Counter[_Labels]()
    tokens, seconds, doubt = Counter[_Labels](), dict[_Labels, float](), Counter[_Labels]()
    for one in read.member_totals(runs):
        member = (("member", one.member),)
        calls[member] += one.calls
        errors[member] += one.errors
        doubt[member] += one.in_doubt
        cost[member] += one.cost
        seconds[member] = seconds.get(member, 0.0) + one.seconds
        tokens[(*member, ("type", "input"))] += one.usage.total - one.usage.output
        tokens[(*member, ("type", "output"))] += one.usage.output
    usd = {labels: dollars(amount) for labels, amount in cost.items()}
    yield from _family("fanfold_calls_total", "counter", "Calls of members.", calls)
    yield from _family("fanfold_call_errors_total", "counter", "Calls that failed.", errors)
    yield from _family("fanfold_calls_in_doubt", "gauge", "Calls whose end is not known.", doubt)
    yield from _family("fanfold_tokens_total", "counter", "Tokens, those of caches too.", tokens)
    yield from _family("fanfold_cost_usd_total", "counter", "What they cost.", usd)
    yield from _family(
        "fanfold_call_duration_seconds_total", "counter", "Time of calls, added up.", seconds
    )


def _family(name: str, kind: str, about: str, values: Mapping[_Labels, float]) -> Iterator[str]:
    yield f"# HELP {name} {about}\n# TYPE {name} {kind}\n"
    for labels, value in sorted(values.items()):
        shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
        yield f"{name}{{{shown}}} {value:.15g}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
