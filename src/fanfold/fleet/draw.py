"""A fleet drawn layer by layer, for the terminal and for Mermaid, as dag-fleet draws it.

Model and budget are shown where a worker states its own.
"""

from __future__ import annotations

import re

from fanfold.fleet.records import Fleet, WorkerSpec
from fanfold.work import dag

WIDTH = 100
_MARGIN, _GAP = "  ", "    "
_PLAIN = re.compile(r"[A-Za-z0-9]+(?:[_-][A-Za-z0-9]+)*")
_RESERVED = {
    "end", "graph", "flowchart", "subgraph", "style", "class", "classdef", "click", "linkstyle",
    "default", "direction", "call", "href",
}  # fmt: skip


def layered(fleet: Fleet, width: int = WIDTH) -> str:
    """Boxes in layers: those of the first start at once, those of the others after their parents."""
    rows = _layers(fleet)
    texts = {one.id: _lines(one) for one in fleet.workers}
    inner = max(len(line) for lines in texts.values() for line in lines)
    many = max(1, (width - len(_MARGIN) + len(_GAP)) // (inner + 4 + len(_GAP)))
    arrow = " " * (len(_MARGIN) + (inner + 4) // 2)
    drawn = ["", f"{_MARGIN}Fleet: {fleet.name}  ({fleet.type})", ""]
    for n, row in enumerate(rows):
        if n:
            drawn += [f"{arrow}|", f"{arrow}v"]
        drawn.append(f"{_MARGIN}Layer {n} ({'DEFERRED' if n else 'LAUNCH'})")
        for start in range(0, len(row), many):
            drawn += _boxes([texts[one.id] for one in row[start : start + many]], inner)
    return "\n".join([*drawn, "", *_closing(len(fleet.workers), len(rows))])


def _layers(fleet: Fleet) -> list[list[WorkerSpec]]:
    level = dag.layers(fleet.workers)
    rows: list[list[WorkerSpec]] = [[] for _ in range(max(level.values()) + 1)]
    for one in fleet.workers:
        rows[level[one.id]].append(one)
    return rows


def _lines(one: WorkerSpec) -> tuple[str, str]:
    head = f"{one.id} ({one.type})"
    head += f" [{one.model}]" if "model" in one.stated else ""
    head += " via codex" if one.provider == "codex" else ""
    deps = f"deps: {', '.join(one.depends_on) or 'none'}" + (" (partial)" if one.partial else "")
    return head, deps + (f" ${one.max_budget_usd:g}" if "max_budget_usd" in one.stated else "")


def _boxes(texts: list[tuple[str, str]], inner: int) -> list[str]:
    edge = _MARGIN + _GAP.join(["+" + "-" * (inner + 2) + "+"] * len(texts))
    heads, deps = (_MARGIN + _GAP.join(f"| {text[n]:<{inner}} |" for text in texts) for n in (0, 1))
    return [edge, heads, deps, edge]


def _closing(workers: int, layers: int) -> list[str]:
    many = f"{workers} worker{'' if workers == 1 else 's'}"
    lines = [f"{_MARGIN}{many} across {layers} layer{'' if layers == 1 else 's'}"]
    if layers > 1:
        later = "layer 1 starts" if layers == 2 else f"layers 1-{layers - 1} start"
        lines.append(f"{_MARGIN}Layer 0 starts first; {later} after dependencies complete")
    return lines


# ── Mermaid ──────────────────────────────────────────────────────────────────────────────────


def mermaid_of(fleet: Fleet) -> str:
    """A fenced Mermaid flowchart: reviewers orange, the first layer green, the others blue."""
    names = {one.id: _named(one.id, n) for n, one in enumerate(fleet.workers)}
    lines = ["```mermaid", "graph TD", f'    subgraph dag ["{fleet.name} — per-iteration DAG"]']
    for one in fleet.workers:
        model = f" · {one.model}" if "model" in one.stated else ""
        lines.append(f'    {names[one.id]}["{one.id}<br/>{one.type}{_escaped(model)}"]')
    for one in fleet.workers:
        lines += [f"    {names[parent]} --> {names[one.id]}" for parent in one.depends_on]
    lines.append("    end")
    level = dag.layers(fleet.workers)
    for one in fleet.workers:
        colour = "#f96" if one.type == "reviewer" else "#69f" if level[one.id] else "#6f9"
        lines.append(f"    style {names[one.id]} fill:{colour},stroke:#333")
    return "\n".join([*lines, "```"])


def _named(id: str, n: int) -> str:
    """The id itself, unless a part of it is a keyword of Mermaid."""
    words = {word.casefold() for word in re.split(r"[_-]", id)}
    return id if _PLAIN.fullmatch(id) and not words & _RESERVED else f"worker{n}"


def _escaped(text: str) -> str:
    return re.sub(r"[^\w .·:/@+-]", lambda found: f"#{ord(found[0])};", text)
