"""The account of a fleet as a page for a browser: its workers, then the books of every run."""

from __future__ import annotations

from fanfold.fleet.diffs import Diff
from fanfold.fleet.report import workers_sections
from fanfold.fleet.status import FleetStatus
from fanfold.observe.account import Account
from fanfold.observe.html.account import FOOT, books, head, sections
from fanfold.observe.html.page import Section, page
from fanfold.observe.html.prose import prose


def fleet_page(account: Account, s: FleetStatus, diffs: dict[str, Diff]) -> str:
    """The same sections as in Markdown, and those of a run's page."""
    own = [
        Section(title.capitalize(), prose("\n".join(lines), top=1))
        for title, lines in workers_sections(s, diffs)
    ]
    rest = books(account) if account.receipt.result is None else sections(account)
    return page(s.standing.run.name, head(account), [*own, *rest], FOOT)
