"""The demo's member: it finds clauses, quotes them word for word, and leaves harmless text alone."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

import fanfold
from fanfold.demo.contracts.contracts import LONGEST, MOST, RULES, flag_risks

FOLDER = Path(fanfold.__file__).parent / "demo" / "contracts"
LINES = (FOLDER / "data" / "contracts.jsonl").read_text(encoding="utf-8").splitlines()
ROWS = [json.loads(line) for line in LINES]

CLAUSES = {
    "Cap On Liability": "In no event shall either party be liable for any indirect, incidental or "
    "consequential damages arising out of this Agreement.",
    "Liquidated Damages": "For each day of delay the Supplier shall pay the sum of $1,000 as "
    "liquidated damages and not as a penalty.",
    "Non-Compete": "During the Term the Distributor shall not sell, promote or manufacture any "
    "products which are competitive with the Products.",
    "Exclusivity": "The Company hereby grants to Licensee the exclusive right to market and sell "
    "the Products in the Territory.",
    "Termination For Convenience": "Either party may terminate this Agreement without cause upon "
    "thirty (30) days written notice to the other party.",
    "Change Of Control": "Owner may terminate this Agreement upon written notice after a change of "
    "control of the Operator.",
    "Anti-Assignment": "Neither party may assign this Agreement or any of its rights hereunder "
    "without the prior written consent of the other party.",
    "Ip Ownership Assignment": "Consultant hereby irrevocably assigns to the Company all right, "
    "title and interest in and to the Inventions.",
    "Audit Rights": "The Licensor shall have the right to audit the books and records of the "
    "Licensee upon reasonable notice.",
    "Insurance": "The Contractor shall maintain commercial general liability insurance of at least "
    "$1,000,000 throughout the Term.",
}


def test_there_is_an_example_of_every_category() -> None:
    assert sorted(CLAUSES) == sorted(rule.category for rule in RULES)


@pytest.mark.parametrize("category", CLAUSES)
def test_a_clause_is_found_and_quoted_out_of_its_surroundings(category: str) -> None:
    clause = CLAUSES[category]
    severity = next(rule.severity for rule in RULES if rule.category == category)
    text = f"The parties met in May. {clause} The Fee is due each month."
    assert flag_risks({"text": text}) == {
        "findings": [{"category": category, "severity": severity, "evidence": clause}]
    }


@pytest.mark.parametrize(
    "harmless",
    [
        "",
        "The Buyer grants the Seller a non-exclusive right to market and sell the Products.",
        "The courts of Delaware shall have exclusive jurisdiction over the right to sell shares.",
        "Either party may terminate this Agreement at any time if the other commits a breach of it.",
        "Sections 5 and 6 survive the termination of this Agreement for any reason whatsoever.",
        "12.1 Exclusivity. 12.2 Assignment. 12.3 Insurance.",
        "The Company shall not be at a competitive disadvantage when it offers its goods for sale.",
    ],
)
def test_harmless_text_has_no_findings(harmless: str) -> None:
    assert flag_risks({"text": harmless}) == {"findings": []}


def test_a_clause_broken_over_lines_is_quoted_as_it_stands() -> None:
    text = "Neither party may assign\n  this Agreement without the\n  consent of the other party."
    assert [finding["evidence"] for finding in flag_risks({"text": text})["findings"]] == [text]


def test_a_very_long_sentence_is_quoted_in_part() -> None:
    text = "x " * 2000 + CLAUSES["Insurance"] + " y" * 2000
    (finding,) = flag_risks({"text": text})["findings"]
    assert finding["evidence"] in text
    assert "insurance" in finding["evidence"]
    assert len(finding["evidence"]) <= LONGEST


def test_all_contracts_of_the_demo_are_there_with_ids_of_their_own() -> None:
    assert len({row["id"] for row in ROWS}) == len(ROWS) == 163


def test_every_finding_in_the_demo_occurs_word_for_word_in_its_contract() -> None:
    found = [(row, finding) for row in ROWS for finding in flag_risks(row)["findings"]]
    assert len(found) > 100
    wrong = [(row["id"], one) for row, one in found if one["evidence"] not in row["text"]]
    assert wrong == []


def test_no_contract_has_too_many_findings_of_one_category() -> None:
    counts = [Counter(one["category"] for one in flag_risks(row)["findings"]) for row in ROWS]
    assert max(many for count in counts for many in count.values()) == MOST
