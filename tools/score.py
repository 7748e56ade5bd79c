"""Score the applications and rewrite the tables that hold their figures; no figure is written by hand.

    python tools/score.py [NAME...]      # all of them by default

Each `src/fanfold/apps/NAME/score.py` prints one JSON object. They are kept in `scores.json` beside
them, and the tables in `README.md` there and in each application's are made from that file.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
APPS = ROOT / "src" / "fanfold" / "apps"
KEPT = APPS / "scores.json"
ALL, DETAIL = "all", "detail"
REPORTING = "reporting"
NOT_SHOWN = (ALL, "fitting")  # what rules and weights were made with is no evidence for them
LOCAL = "embedded model"
MORE = {"reviews": ("--local", "80")}  # where the embedded model serves, if it is set up


def main(names: list[str]) -> None:
    there = sorted(script.parent.name for script in APPS.glob("*/score.py"))
    if unknown := [name for name in names if name not in there]:
        sys.exit(f"score: no application {', '.join(unknown)}; there are: {', '.join(there)}")
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    for name in names or there:
        kept[name] = scored(name, kept.get(name, {}))
        print(f"{name}: {line(kept[name]['scores'])}", flush=True)
    kept = {name: kept[name] for name in there if name in kept}
    KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    between(APPS / "README.md", "scores", overview(kept))
    for name, told in kept.items():
        between(APPS / name / "README.md", "score", own_table(told))


def scored(name: str, before: dict[str, Any]) -> dict[str, Any]:
    """What the embedded model reached stays as it was where it is not set up."""
    more = MORE.get(name, ()) if has_local() else ()
    told = run(name, more)
    if name in MORE and not more and LOCAL in before.get("scores", {}):
        told["scores"][LOCAL] = before["scores"][LOCAL]
    return told


def has_local() -> bool:
    words = [sys.executable, "-m", "fanfold", "local", "status"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def run(name: str, more: tuple[str, ...]) -> dict[str, Any]:
    command = [sys.executable, str(APPS / name / "score.py"), *more]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    try:
        told: dict[str, Any] = json.loads(ended.stdout)
    except ValueError:
        sys.exit(f"score: {name}/score.py ended with {ended.returncode} and printed no JSON object")
    if ended.returncode:
        sys.exit(f"score: {name}/score.py ended with {ended.returncode}")
    return told


def grouped(scores: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Groups of numbers by name; numbers that stand alone are the group `all`."""
    alone = {name: one for name, one in scores.items() if not isinstance(one, dict)}
    groups = {name: one for name, one in scores.items() if isinstance(one, dict)}
    return {ALL: {**alone, **groups.pop(ALL, {})}, **groups} if alone or ALL in groups else groups


def claimed(scores: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The groups that a page may quote: where there is a reporting half, no other."""
    groups = grouped(scores)
    return {
        name: one
        for name, one in groups.items()
        if REPORTING not in groups or name not in NOT_SHOWN
    }


def line(scores: dict[str, Any]) -> str:
    """All but the detail, in one line."""
    parts = []
    for name, group in claimed(scores).items():
        if name != DETAIL:
            numbers = ", ".join(f"{word(what)} {shown(one)}" for what, one in group.items())
            parts.append(numbers if name in (ALL, REPORTING) else f"{word(name)}: {numbers}")
    return "; ".join(parts)


def word(name: str) -> str:
    return name.replace("_", " ")


def shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{word(name)} {shown(one)}" for name, one in value.items())
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".") if value % 1 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def overview(kept: dict[str, dict[str, Any]]) -> str:
    rows = [["application", "embedded default", "data", "scores on the reporting half", "run"]]
    for name, told in kept.items():
        data = ", ".join(f"{shown(many)} {word(what)}" for what, many in told["data"].items())
        link = f"[{name}]({name}/README.md)"
        rows.append([link, told["default"], data, line(told["scores"]), run_of(told)])
    return table(rows)


def run_of(told: dict[str, Any]) -> str:
    return f"{told['seconds']:.0f} s, {told['calls']:,} calls, ${told['cost_usd']:.2f}"


def own_table(told: dict[str, Any]) -> str:
    """One column for each group of the same measures, and the detail below."""
    groups = claimed(told["scores"])
    detail = groups.pop(DETAIL, {})
    measures = list(dict.fromkeys(what for group in groups.values() for what in group))
    rows = [["", *(word(name) for name in groups)]]
    rows += [[word(what), *(shown(group.get(what, "")) for group in groups.values())]
             for what in measures]  # fmt: skip
    text = f"{table(rows)}\n\nThe run: {run_of(told)}."
    return f"{text}\n\n{table(detail_rows(detail))}" if detail else text


def detail_rows(detail: dict[str, Any]) -> list[list[str]]:
    columns = list(
        dict.fromkeys(what for one in detail.values() if isinstance(one, dict) for what in one)
    )
    rows = [["", *(map(word, columns) if columns else ["score"])]]
    for name, one in detail.items():
        told = [one.get(what, "") for what in columns] if isinstance(one, dict) else [one]
        rows.append([name, *map(shown, told)])
    return rows


def table(rows: list[list[str]]) -> str:
    head, *rest = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, "|" + "---|" * len(rows[0]), *rest])


def between(page: Path, mark: str, text: str) -> None:
    """Put the text between the page's two marks; a page without them is left as it is."""
    first, last = f"<!-- {mark} -->\n", f"<!-- /{mark} -->"
    if not page.exists() or first not in (whole := page.read_text(encoding="utf-8")):
        print(f"score: {page.relative_to(ROOT)} has no mark {first.strip()}", file=sys.stderr)
        return
    before, _, rest = whole.partition(first)
    _, _, after = rest.partition(last)
    page.write_text(f"{before}{first}{text}\n{last}{after}", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
