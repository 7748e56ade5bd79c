"""`fanfold members --why`: the router's reasons, for people and for programs."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.faces.cli import fanfold

ROSTER = """\
members:
  - id: haiku
    kind: anthropic
    model: claude-haiku-4-5
    price: {input: 1, output: 5}
    good_at: [legal, summaries]
    context: 8192
    enabled: true
  - id: opus
    kind: anthropic
    model: claude-opus-4-1
    price: {input: 15, output: 75}
    good_at: [legal, summaries]
    context: 200000
    enabled: true
  - {id: wc, kind: command, cmd: [wc], price: {call: 0}, good_at: [counting]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "roster.yaml").write_text(ROSTER, encoding="utf-8")
    return tmp_path


def test_the_ranking_is_told_with_its_reasons(folder: Path) -> None:
    ended = fanfold(folder, "members", "--why", "--needs", "legal", "--allow-paid")
    assert (ended.code, ended.out.splitlines(), ended.err) == (
        0,
        [
            "1. haiku: good at legal; paid, about $0.003500 a call",
            "2. opus: good at legal; paid, about $0.052500 a call",
            "-  wc: not good at legal",
            "The cheapest first, by a call of 1,000 tokens in and 500 out (--tokens N: N in);"
            " at the same cost local, subscription, paid.",
        ],
        "",
    )


def test_a_long_task_goes_to_a_long_context(folder: Path) -> None:
    words = ("--why", "--needs", "legal", "--tokens", "50000", "--allow-paid", "--json")
    ended = fanfold(folder, "members", *words)
    assert ended.code == 0
    assert msgspec.json.decode(ended.out) == {
        "ranked": [
            {
                "id": "opus", "grade": 0, "why": "best that is good at legal",
                "reasons": ["good at legal", "paid, about $0.787500 a call"],
                "chosen": True,
            }
        ],
        "barred": [
            {"id": "haiku", "reason": "its context is 8,192 tokens, 50,000 and 4,096 for the"
                                      " reply are needed"},
            {"id": "wc", "reason": "not good at legal"},
        ],
        "miss": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "miss"),
    [
        (("--needs", "legal,counting", "--allow-paid"),
         "no member is good at legal and counting; nearest: haiku (legal)"),
        (("--needs", "legal", "--tokens", "900000", "--allow-paid"),
         "needs 900,000 tokens, the largest context is 200,000 (opus), 4,096 of it for the reply"),
        (("--needs", "legal"), "no member may be used; nearest: haiku"
         " (paid; allow it with --allow-paid or settings.allow_paid)"),
    ],
)  # fmt: skip
def test_nobody_fits_is_refused_with_the_nearest_miss(
    folder: Path, words: tuple[str, ...], miss: str
) -> None:
    ended = fanfold(folder, "members", "--why", *words)
    assert (ended.code, ended.err) == (2, f"fanfold: {miss}\n")
    assert len(ended.out.splitlines()) == 3
