"""The application `contracts`: its score, its report, and its plan with scripted models."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fanfold.members.target import resolve_target
from fanfold.testing.running import RunningServer, threaded_server
from fanfold.work.outcome import Part
from tests.apps.contract_models import INVENTED, TEXTS, TRUE
from tests.apps.test_contract_rules import CLAUSES
from tests.faces.cli import SRC, Ended, fanfold
from tests.waiting import LONG

pytestmark = pytest.mark.slow

FOLDER = SRC / "fanfold" / "apps" / "contracts"
ENOUGH = 0.70  # of micro-F1, on either half

ROSTER = """\
members:
  - id: model
    kind: {kind}
    model: test-model
    base_url: {url}
    key: none
    price: {{input: 1, output: 1}}
    max_tokens: 1000
    good_at: [legal]
  - {{id: places, kind: function, target: "places:placed", version: 1, good_at: [placing]}}
  - {{id: pages, kind: function, target: "report:page", version: 1, good_at: [paging]}}
"""
PLACED = 6  # calls for places and pages of three contracts


# ── the embedded default ─────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    return scored()


def scored(*words: str) -> dict[str, Any]:
    ended = subprocess.run(
        [sys.executable, str(FOLDER / "score.py"), *words], env={**os.environ, "PYTHONPATH": str(SRC)},
        capture_output=True, text=True, timeout=LONG, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, "")
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


@pytest.mark.sweep
def test_the_rules_find_enough_on_the_half_they_were_made_with_and_on_the_other(
    told: dict[str, Any],
) -> None:
    halves = {name: told["scores"][name] for name in ("all", "fitting", "reporting")}
    assert [name for name, one in halves.items() if one["micro_f1"] < ENOUGH] == []
    assert [name for name, one in halves.items() if one["quote_precision"] < 0.62] == []
    assert [name for name, one in halves.items() if one["likely_precision"] < 0.80] == []
    assert told["data"] == {"contracts": 163, "labels": 163 * 25, "categories": 25}
    assert (told["app"], told["cost_usd"]) == ("contracts", 0.0)


@pytest.mark.sweep
def test_every_category_is_covered_or_named_as_left_out(told: dict[str, Any]) -> None:
    assert sorted(told["covers"]) == sorted(CLAUSES) == sorted(told["scores"]["detail"])
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert f"{len(told['covers'])} of the 33" in page
    (sentence,) = re.findall(r"It leaves out (.+?):", page)
    assert sorted(re.split(", | and ", sentence)) == sorted(told["leaves_out"])


@pytest.mark.sweep
def test_the_prompt_and_the_schema_know_the_same_categories(told: dict[str, Any]) -> None:
    schema = json.loads((FOLDER / "findings.schema.json").read_text(encoding="utf-8"))
    finding = schema["properties"]["findings"]["items"]["properties"]
    prompt = (FOLDER / "review.md").read_text(encoding="utf-8")
    named = re.findall(r"^- ([A-Z][^:]+): ", prompt, re.MULTILINE)
    assert sorted(named) == sorted(finding["category"]["enum"])
    assert sorted(named) == sorted([*told["covers"], *told["leaves_out"]])


@pytest.mark.parametrize("pack", [True, False])
def test_another_folder_of_the_same_layout_is_scored(tmp_path: Path, pack: bool) -> None:
    """Packed or not, also without the lawyers' own clauses. By its labels one finding is wrong."""
    write_contracts(tmp_path, pack=pack)
    names = [*CLAUSES, "Third Party Beneficiary"]
    rows = [["id", "chars", "governing_law", *names]]
    for id, (category, _, _) in TRUE.items():
        there = {category} if id != "c3" else set()
        rows.append([id, "1", "", *("1" if name in there else "0" for name in names)])
    table = "".join(",".join(row) + "\n" for row in rows)
    (tmp_path / "labels_yesno.csv").write_text(table, encoding="utf-8")
    told = scored("--data", str(tmp_path))
    assert told["data"] == {"contracts": 3, "labels": 75, "categories": 25}
    assert told["scores"]["all"] == {
        "micro_precision": 0.667, "micro_recall": 1.0, "micro_f1": 0.8, "macro_f1": 0.08,
    }  # fmt: skip
    assert told["leaves_out"] == ["Third Party Beneficiary"]


def write_contracts(folder: Path, *, pack: bool) -> None:
    rows = [json.dumps({"id": id, "file": f"{id}.txt", "text": text}) for id, text in TEXTS.items()]
    (folder / f"contracts.jsonl{'.gz' if pack else ''}").write_bytes(
        gzip.compress("\n".join(rows).encode()) if pack else "\n".join(rows).encode()
    )


@pytest.mark.sweep
def test_the_score_counts_each_quote_by_itself_and_the_detail_is_of_the_reporting_half(
    told: dict[str, Any],
) -> None:
    """Wrong contracts and categories count too: not only quotes where the rest is right already."""
    halves = [told["scores"][name]["quotes"] for name in ("fitting", "reporting")]
    assert sum(halves) == told["scores"]["all"]["quotes"] == len(demo_findings())
    one = told["scores"]["reporting"]
    assert one["quote_precision_from"] < one["quote_precision"] < one["quote_precision_to"]
    assert told["scores"]["detail"]["Anti-Assignment"]["precision"] == 0.973


@cache
def demo_findings() -> list[dict[str, Any]]:
    """What the demo's rules find, placed and ranked, as in findings.json."""
    flag = resolve_target("clauses:flag_risks", FOLDER)
    placed = resolve_target("places:placed", FOLDER)
    packed = (FOLDER / "data" / "contracts.jsonl.gz").read_bytes()
    rows = [json.loads(line) for line in gzip.decompress(packed).splitlines()]
    parts = [Part(row["id"], n, placed({**row, "steps": {"review": flag(row)}}))
             for n, row in enumerate(rows)]  # fmt: skip
    found: list[dict[str, Any]] = resolve_target("report:ranked", FOLDER)(parts)
    return found


def test_page_one_has_one_finding_of_a_contract_and_of_a_category_and_most_are_real() -> None:
    """Also when it is made of the contracts alone that nothing was fitted on."""
    varied = resolve_target("report:_varied", FOLDER)
    shares, fits = (resolve_target(f"score:{name}", FOLDER) for name in ("shares", "fits"))
    clauses = resolve_target("score:clauses_of", FOLDER)(FOLDER / "data" / "labels.jsonl")
    for some in (demo_findings(), [one for one in demo_findings() if not fits(one["contract"])]):
        first = varied(some)[:6]
        assert len({one["contract"] for one in first}) == 6
        assert len({one["category"] for one in first}) == 6
        real = [
            shares([one["evidence"]], clauses.get((one["contract"], one["category"]), []))
            for one in first
        ]
        assert sum(real) >= 5


# ── with models ──────────────────────────────────────────────────────────────────────────────


class Reviewed:
    """The plan as it is, in a copy, over three contracts, with a model that follows a script."""

    def __init__(self, folder: Path, script: str, kind: str = "openai") -> None:
        self.folder = folder / "mine"
        assert fanfold(folder, "new", "mine", "--from", "contracts").code == 0
        write_contracts(self.folder / "data", pack=True)
        where = f"tests.apps.contract_models:{script}"
        with threaded_server(folder / "books", script=where) as server:
            url = server.url if kind == "anthropic" else f"{server.url}/v1"
            roster = ROSTER.format(url=url, kind=kind)
            (self.folder / "models.yaml").write_text(roster, encoding="utf-8")
            self.ended = self._run()
            self.prompts = self._prompts(server)

    def _run(self) -> Ended:
        return fanfold(
            self.folder, "run", "plan.yaml", "--roster", "models.yaml", "--json", "--quiet"
        )

    def _prompts(self, server: RunningServer) -> list[str]:
        server.wait_idle()
        return [entry.prompt for entry in server.books().asked]

    @property
    def outcome(self) -> tuple[int, int, int, int]:
        receipt = self.ended.receipt
        return self.ended.code, receipt["passed"], receipt["kicked"], receipt["calls"]

    @property
    def findings(self) -> dict[str, tuple[str, str, str]]:
        return {one["contract"]: (one["category"], one["severity"], one["evidence"])
                for one in self.ended.receipt["result"]}  # fmt: skip


@pytest.fixture
def review(tmp_path: Path) -> Callable[..., Reviewed]:
    return lambda script, kind="openai": Reviewed(tmp_path, script, kind)


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_a_model_that_is_right_at_once_is_asked_once(
    review: Callable[..., Reviewed], kind: str
) -> None:
    done = review("careful", kind)
    assert done.outcome == (0, 3, 0, 1 + PLACED)
    assert done.findings == TRUE
    report = (done.folder / "report.md").read_text(encoding="utf-8")
    assert "3 contracts, 3 possible risk clauses: 2 high, 0 medium, 1 low." in report
    assert "Found by language models." in report
    assert "(c2), character 0: Risk." in report
    page = (done.folder / "pages" / "c2.md").read_text(encoding="utf-8")
    assert page.startswith("# Contract c2\n\nContract c2, 86 characters: 1 possible risk clauses")
    assert "> Buyer shall pay $500 as liquidated damages for each day of delay." in page


def test_an_invented_quote_is_kicked_back_with_the_reason_and_the_second_reply_passes(
    review: Callable[..., Reviewed],
) -> None:
    done = review("inventive")
    assert done.outcome == (0, 3, 0, 2 + PLACED)
    assert done.findings == TRUE
    assert (
        f'`findings[0].evidence` is not in the item\'s text word for word: "{INVENTED}"'
        in done.prompts[1]
    )
    assert INVENTED not in (done.folder / "report.md").read_text(encoding="utf-8")


def test_a_model_that_keeps_inventing_is_left_out_and_named(
    review: Callable[..., Reviewed],
) -> None:
    done = review("stubborn")
    assert done.outcome == (1, 2, 1, 2 + 4)
    assert done.findings == {id: TRUE[id] for id in ("c1", "c3")}
    account = fanfold(done.folder, "report", "contract-review").out
    assert "c2" in account and INVENTED in account


def test_a_contract_that_a_shard_forgot_is_asked_about_alone(
    review: Callable[..., Reviewed],
) -> None:
    done = review("forgetful")
    assert done.outcome == (0, 3, 0, 2 + PLACED)
    assert done.findings == TRUE
    assert TEXTS["c3"] in done.prompts[1] and TEXTS["c1"] not in done.prompts[1]


def test_prose_around_the_json_does_no_harm(review: Callable[..., Reviewed]) -> None:
    done = review("talkative")
    assert done.outcome == (0, 3, 0, 1 + PLACED)
    assert done.findings == TRUE
