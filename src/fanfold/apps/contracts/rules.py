"""All rules. Written from what such clauses say in general; tried on the fitting half of the data only."""

from __future__ import annotations

from rule import Rule
from rules_rights import RIGHTS
from rules_trade import TRADE

RULES: tuple[Rule, ...] = (*TRADE, *RIGHTS)
CATEGORIES = tuple(rule.category for rule in RULES)
