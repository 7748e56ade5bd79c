"""Is the vote better than the best single model, and at what price?

    python score.py [--data DIR] [--chances]

DIR has questions.jsonl, predictions.csv and output_chars.csv (default: data beside this file). The
plan is run as it stands in a temporary copy; one JSON object comes out. The best single model is the
one that did best on the fitting half, of all that were recorded; both, and the judge beside the vote,
are reported on each half.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from math import sqrt
from pathlib import Path
from typing import Any

from chances import FILE, agreement, counted
from recordings import HERE, Question, calibrates, dollars, load, panel, write_replies

from fanfold import FanfoldError

NAMED = 6  # single models in the ranking that is shown
DONE = (0, 1)  # exit codes of a run that came to its end

Decisions = dict[str, dict[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="score.py")
    parser.add_argument("--data", type=Path, default=HERE / "data")
    parser.add_argument("--chances", action="store_true", help="write chances.json anew")
    asked = parser.parse_args()
    questions, made, receipt = decided(asked.data)
    if asked.chances:
        counts = counted(list(made.values()), {one.id: one.gold for one in questions})
        FILE.write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(scored(questions, made, receipt), indent=2))


def decided(folder: Path) -> tuple[list[Question], Decisions, dict[str, Any]]:
    """The questions of a folder, what the plan made of them, and its receipt."""
    data = _recordings(folder.resolve())
    questions = load(data)
    if not questions:
        raise FanfoldError(f"{data / 'questions.jsonl'}: there is no question")
    with tempfile.TemporaryDirectory(prefix="fanfold-score-") as name:
        app = _copy(data, Path(name))
        receipt = _run(app, data)
        made = {one["id"]: one for one in json.loads((app / "decisions.json").read_text("utf-8"))}
    return questions, made, receipt


def _recordings(data: Path) -> Path:
    """DIR itself, or the folder of the recordings in it."""
    below = data / "recorded_mmlu_pro"
    return below if below.is_dir() else data


def _copy(data: Path, to: Path) -> Path:
    """The application with these data, its recorded replies made anew."""
    app = to / "decision"
    shutil.copytree(HERE, app, ignore=shutil.ignore_patterns("data", "__pycache__", ".fanfold"))
    shutil.copytree(data, app / "data", ignore=shutil.ignore_patterns("replies"))
    for one in (app, app / "data"):
        one.chmod(0o755)
    questions = app / "data" / "questions.jsonl"
    if not questions.exists():
        packed = questions.with_name(f"{questions.name}.gz")
        questions.write_bytes(gzip.decompress(packed.read_bytes()))
    write_replies(app / "data")
    return app


def _run(app: Path, data: Path) -> dict[str, Any]:
    command = [sys.executable, "-P", "-m", "fanfold", "run", "plan.yaml", "--json", "--quiet"]
    ended = subprocess.run(
        [*command, "--store", f"{app}/store"], cwd=app, capture_output=True, text=True, check=False
    )
    sys.stderr.write(ended.stderr.replace(f"{app}/data/", f"{data}/"))
    if ended.returncode not in DONE:
        sys.exit(ended.returncode)
    receipt: dict[str, Any] = json.loads(ended.stdout)
    return receipt


# ── figures ──────────────────────────────────────────────────────────────────────────────────


def scored(questions: list[Question], made: Decisions, receipt: dict[str, Any]) -> dict[str, Any]:
    fitting = [one for one in questions if calibrates(one.id)]
    reporting = [one for one in questions if not calibrates(one.id)]
    ranking = _ranking(fitting or questions)
    best = next(iter(ranking))
    halves = {"all": questions, "fitting": fitting, "reporting": reporting}
    return {
        "app": "decision",
        "data": {"questions": len(questions), "models": len({m for q in questions for m in q.answers})},
        "scores": {
            **{name: _figures(own, made, best) for name, own in halves.items() if own},
            "detail": _detail(reporting or questions, made, best, ranking),
        },
        "best_single": best,
        "default": "recorded answers of four real models, and a vote",
        "seconds": receipt["seconds"],
        "calls": receipt["calls"],
        "cost_usd": receipt["cost_usd"],
    }  # fmt: skip


def _ranking(questions: list[Question]) -> dict[str, float]:
    """Every recorded model by its share of right answers; one not given is not right."""
    models = {name for one in questions for name in one.answers}
    share = {name: _alone(questions, name) for name in models}
    return dict(sorted(share.items(), key=lambda pair: (-pair[1], pair[0])))


def _alone(questions: list[Question], model: str) -> float:
    return _mean(one.answers.get(model) == one.gold for one in questions)


def _together(questions: list[Question], made: Decisions) -> float:
    return _mean(made[one.id]["decision"] == one.gold for one in questions)


def _figures(questions: list[Question], made: Decisions, best: str) -> dict[str, float]:
    """Dollars are estimates for 1,000 questions; -1 where the model has no price here."""
    price = next((voter for voter in panel() if voter.model == best), None)
    alone = -1.0 if price is None else 1000 * _mean(dollars(one, price) for one in questions)
    return {
        "accuracy": round(_together(questions, made), 4),
        "judged": round(_mean(made[one.id]["judged"] == one.gold for one in questions), 4),
        "best_single": round(_alone(questions, best), 4),
        "questions": len(questions),
        **_difference(questions, made, best),
        "calls_each": round(_mean(made[one.id]["asked"] for one in questions), 2),
        "usd_1000": round(1000 * _mean(made[one.id].get("usd", 0.0) for one in questions), 2),
        "best_single_usd_1000": round(alone, 2),
    }


def _difference(questions: list[Question], made: Decisions, best: str) -> dict[str, float]:
    """Of the vote and the best single model, in the same questions, with its 95 % interval."""
    off = [
        (made[one.id]["decision"] == one.gold) - (one.answers.get(best) == one.gold)
        for one in questions
    ]
    mean = _mean(off)
    wide = 1.96 * sqrt(_mean((one - mean) ** 2 for one in off) / max(1, len(off)))
    return {
        "won": round(mean, 4), "won_from": round(mean - wide, 4), "won_to": round(mean + wide, 4)
    }  # fmt: skip


def _detail(
    questions: list[Question], made: Decisions, best: str, ranking: dict[str, float]
) -> dict[str, float]:
    """By subject, the vote and the best single model; how often it is right by agreement; who ranks
    how on the fitting half."""
    found = {}
    for name, own in _grouped(questions, lambda one: one.category).items():
        found[f"{name}: vote"] = round(_together(own, made), 4)
        found[f"{name}: judged"] = round(
            _mean(made[one.id]["judged"] == one.gold for one in own), 4
        )
        found[f"{name}: best single"] = round(_alone(own, best), 4)
    for name, own in _grouped(questions, lambda one: agreement(made[one.id])).items():
        found[f"right when {name} agree"] = round(_together(own, made), 4)
    shown = list(ranking.items())[:NAMED]
    return found | {f"{name} on the fitting half": round(share, 4) for name, share in shown}


def _grouped(questions: list[Question], key: Any) -> dict[str, list[Question]]:
    found: dict[str, list[Question]] = defaultdict(list)
    for one in questions:
        found[key(one)].append(one)
    return dict(sorted(found.items()))


def _mean(values: Iterable[float]) -> float:
    held = list(values)
    return sum(held) / len(held) if held else 0.0


if __name__ == "__main__":
    try:
        main()
    except FanfoldError as error:
        print(f"score.py: {error}", file=sys.stderr)
        sys.exit(2)
