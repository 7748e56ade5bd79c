"""The embedded member of `contracts`: it finds clauses, quotes them, and leaves harmless text alone."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from fanfold.members.target import resolve_target

FOLDER = Path(__file__).parents[2] / "src" / "fanfold" / "apps" / "contracts"
flag: Callable[[dict[str, Any]], dict[str, Any]] = resolve_target("clauses:flag_risks", FOLDER)
sentences = resolve_target("sentences:sentences", FOLDER)
levelled = resolve_target("sentences:levelled", FOLDER)
readable: Callable[[str], str] = resolve_target("report:readable", FOLDER)
placed = resolve_target("places:placed", FOLDER)
MOST = 3

CLAUSES = {
    "Uncapped Liability": "The limitations of liability in this Section shall not apply to a breach "
    "of the duties of confidentiality.",
    "Cap On Liability": "In no event shall either party be liable for any indirect, incidental or "
    "consequential damages arising out of this Agreement.",
    "Liquidated Damages": "For each day of delay the Supplier shall pay the sum of $1,000 as "
    "liquidated damages and not as a penalty.",
    "Minimum Commitment": "The Distributor shall purchase at least 500 units of the Product in each "
    "calendar year.",
    "Revenue/Profit Sharing": "The Company shall pay to the Author a royalty equal to five percent "
    "(5%) of Net Sales.",
    "Non-Compete": "During the Term the Distributor shall not sell, promote or manufacture any "
    "products which are competitive with the Products.",
    "Exclusivity": "The Company hereby appoints the Dealer as its exclusive distributor of the "
    "Products in the Territory.",
    "No-Solicit Of Employees": "Neither party shall solicit for employment any employee of the other "
    "party during the Term.",
    "No-Solicit Of Customers": "The Agent shall not divert or attempt to divert any customers of the "
    "Company to another firm.",
    "Non-Disparagement": "The Consultant agrees that he will not disparage the Company or its officers "
    "in any forum.",
    "Rofr/Rofo/Rofn": "The Tenant shall have a right of first refusal to purchase the Premises on the "
    "same terms.",
    "Termination For Convenience": "Either party may terminate this Agreement without cause upon "
    "sixty (60) days written notice to the other party.",
    "Change Of Control": "A Change of Control of the Operator gives the Owner an option to buy the "
    "Facility.",
    "Anti-Assignment": "Neither party may assign this Agreement or any of its rights hereunder "
    "without the prior written consent of the other party.",
    "Post-Termination Services": "Upon termination of this Agreement the Vendor shall provide "
    "transition services for ninety days.",
    "Ip Ownership Assignment": "Consultant hereby irrevocably assigns to the Company all right, "
    "title and interest in and to the Inventions.",
    "Joint Ip Ownership": "All improvements made during the project shall be jointly owned by the "
    "parties in equal parts.",
    "License Grant": "Licensor hereby grants to Licensee a non-exclusive license to use the Marks "
    "during the Term.",
    "Non-Transferable License": "The license is non-transferable and ends with the Term of the "
    "underlying subscription.",
    "Irrevocable Or Perpetual License": "The license to the Deliverables is perpetual and covers all "
    "later versions of them.",
    "Source Code Escrow": "The source code of the Software shall be deposited in escrow with an agent.",
    "Covenant Not To Sue": "Licensee shall not contest the validity of the Marks or the ownership of "
    "Licensor in them.",
    "Audit Rights": "The Licensor shall have the right to audit the books and records of the "
    "Licensee upon reasonable notice.",
    "Warranty Duration": "The Products are warranted for a period of twelve (12) months from their "
    "delivery to the Customer.",
    "Insurance": "The Contractor shall maintain commercial general liability insurance of at least "
    "$1,000,000 throughout the Term.",
}

HARMLESS = [
    "",
    "The Buyer is a non-exclusive reseller, and sells the Products next to those of others.",
    "The courts of Delaware shall have exclusive jurisdiction over all that concerns shares.",
    "Either party may terminate this Agreement at any time if the other commits a breach of it.",
    "Sections 5 and 6 survive the termination of this Agreement for any reason whatsoever.",
    "12.1 Exclusivity. 12.2 Assignment. 12.3 Insurance.",
    "The Company shall not be at a competitive disadvantage when it offers its goods for sale.",
    'The term "Change of Control" means a notice of any sale of more than half of the shares.',
    "15. Insurance to be maintained by the Contractor ................................. 44",
]


def found(text: str) -> list[dict[str, str]]:
    return list(flag({"text": text})["findings"])


@pytest.mark.parametrize("category", CLAUSES)
def test_a_clause_is_found_and_quoted_out_of_its_surroundings(category: str) -> None:
    clause = CLAUSES[category]
    text = f"The parties met in May. {clause} The Fee is due each month."
    assert [(one["category"], one["evidence"]) for one in found(text)] == [(category, clause)]


@pytest.mark.parametrize("harmless", HARMLESS)
def test_harmless_text_has_no_findings(harmless: str) -> None:
    assert found(harmless) == []


@pytest.mark.parametrize(
    ("clause", "severity"),
    [
        (CLAUSES["Termination For Convenience"], "medium"),
        ("Owner may terminate this Agreement without cause on ten days notice.", "high"),
        ("Owner may terminate this Agreement without cause on 180 days notice.", "low"),
        (CLAUSES["Anti-Assignment"], "low"),
        ("No party may assign this Agreement, also not by operation of law or merger.", "medium"),
    ],
)
def test_the_wording_shifts_the_severity(clause: str, severity: str) -> None:
    assert [one["severity"] for one in found(clause)] == [severity]


def test_a_clause_broken_over_lines_and_pages_is_quoted_as_it_stands() -> None:
    text = "Neither party may assign\n  this Agreement\n\n\n  without the\n  consent of the other party."
    assert [one["evidence"] for one in found(text)] == [text]


@pytest.mark.parametrize(
    "heading",
    ["2.3  RESELLER'S OBLIGATION NOT TO COMPETE WITH THE COMPANY.", "NON-COMPETITION;",
     "No Assignment or Transfer of Agreement Without Consent."],
)  # fmt: skip
def test_a_heading_is_no_evidence(heading: str) -> None:
    assert found(f"The parties met in May. {heading} The Fee is due each month.") == []


def test_of_many_candidates_the_likeliest_are_kept_in_the_order_of_the_text() -> None:
    weak = (
        "Insurance may be obtained and shall be discussed, as described in the insurance manual. "
    )
    text = weak * 4 + " ".join([CLAUSES["Insurance"]] * 2)
    own = [one["evidence"] for one in found(text) if one["category"] == "Insurance"]
    assert own[-2:] == [CLAUSES["Insurance"]] * 2 and len(own) <= MOST


@pytest.mark.parametrize(
    ("text", "section"),
    [
        ("12.3 Insurance. The Contractor shall insure. ", "Section 12.3"),
        ("ARTICLE IX\n\nINSURANCE\n\nSee Section 4. The Fee is due. ", "Article IX"),
        ("7. Duties. It costs $5.00 The rest follows, as said in Section 3. Then ", "Section 7"),
        ("The parties agree. ", None),
    ],
)
def test_a_quote_has_its_place(text: str, section: str | None) -> None:
    item = {"text": text + CLAUSES["Insurance"].replace(" ", "\n", 1)}
    finding = {"category": "Insurance", "evidence": CLAUSES["Insurance"]}
    review = {"title": "x", "findings": [finding]}
    assert placed({**item, "steps": {"review": review}}) == {
        "title": "x", "chars": len(item["text"]),
        "findings": [{**finding, "section": section, "offset": len(text), "chance": None}],
    }  # fmt: skip


def test_the_numbers_of_a_table_of_contents_are_no_places() -> None:
    clause = CLAUSES["Insurance"]
    names = [f"1.{n} Part" for n in range(1, 8)]
    body = " ".join(f"{name}. {'It ends after one year. ' * 8}" for name in names)
    text = f"Contents {' 3 '.join(names)} Whereas they met, {clause} {body} {clause}"
    review = {"title": "x", "findings": [{"category": "Insurance", "evidence": clause}]}
    (first,) = placed({"text": text, "steps": {"review": review}})["findings"]
    (later,) = placed({"text": text.replace(clause, "", 1), "steps": {"review": review}})[
        "findings"
    ]
    assert (first["section"], later["section"]) == (None, "Section 1.7")


def test_a_duty_that_stands_above_a_list_reaches_its_points() -> None:
    text = (
        "The Distributor shall not: (a) change the Products; (b) act as the agent of any person for "
        "goods which are competitive with the Products; or (c) open branches abroad."
    )
    (one,) = found(text)
    assert one["category"] == "Non-Compete"
    assert one["evidence"] in text and "(b)" in one["evidence"] and "(c)" not in one["evidence"]


def test_a_very_long_sentence_is_quoted_in_part_and_in_whole_words() -> None:
    text = "word " * 2000 + CLAUSES["Insurance"] + " more" * 2000
    (one,) = found(text)
    assert one["category"] == "Insurance" and f" {one['evidence']} " in text
    assert len(one["evidence"]) <= 900


def test_letters_that_grow_when_they_are_made_small_move_no_quote() -> None:
    text = f"İİİİ met İİİİ in May. {CLAUSES['Insurance']}"
    assert [one["evidence"] for one in found(text)] == [CLAUSES["Insurance"]]


def test_sentences_end_where_people_end_them() -> None:
    text = (
        "Acme Inc. and J. Doe agree. See Sec. 4 of the U.S. Code.\n\nPage 2\n\n"
        "This goes on\n\nafter a page break. The end"
    )
    split = [text[one.start : one.end].strip() for one in sentences(text, levelled(text))]
    assert split == [
        "Acme Inc. and J. Doe agree.", "See Sec. 4 of the U.S. Code.", "Page 2",
        "This goes on\n\nafter a page break.", "The end",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("data", "title"),
    [
        (
            {"file": "AcmeInc_2001-EX-10-Supply Agreement.txt", "text": "x"},
            "Acme Inc: Supply Agreement",
        ),
        ({"file": "lease.txt", "text": "x"}, "lease"),
        ({"text": "\n\n  LEASE OF A SHIP\n between"}, "LEASE OF A SHIP"),
        ({"text": ""}, "untitled"),
    ],
)
def test_the_title_is_the_file_name_or_the_first_line(data: dict[str, str], title: str) -> None:
    assert flag(data)["title"] == title


def test_every_finding_in_the_data_occurs_word_for_word_and_none_too_often() -> None:
    packed = (FOLDER / "data" / "contracts.jsonl.gz").read_bytes()
    rows = [json.loads(line) for line in gzip.decompress(packed).splitlines()]
    assert len({row["id"] for row in rows}) == len(rows) == 163
    few = [row for row in rows if sha256(row["id"].encode()).digest()[0] < 64]
    for row in few:
        own = flag(row)["findings"]
        assert [one for one in own if one["evidence"] not in row["text"]] == []
        assert max(Counter(one["category"] for one in own).values(), default=0) <= MOST
    assert len(few) > 20


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        ("CORIOINC: LICENSE AND HOSTING AGREEMENT", "Corio Inc: License and Hosting Agreement"),
        ("NETGEAR, INC: NON COMPETITION AGREEMENT", "Netgear, Inc: Non Competition Agreement"),
        ("Papa Johns Inc: SUPPLY AGREEMENT", "Papa Johns Inc: Supply Agreement"),
        ("IBM and Acme: Supply Agreement", "IBM and Acme: Supply Agreement"),
        ("", ""),
    ],
)  # fmt: skip
def test_a_title_in_capitals_is_shown_as_people_write_it(title: str, shown: str) -> None:
    assert readable(title) == shown
