"""Who pays is decided at the start, shown there, and does not make a fleet a changed one."""

from __future__ import annotations

from fanfold.fleet.job import translate
from fanfold.fleet.preflight import accounts, billing_notices
from fanfold.fleet.records import Fleet, FleetConfig, WorkerSpec
from fanfold.members.roster import read_roster
from fanfold.work.document import Node

TWO = (WorkerSpec(id="a"), WorkerSpec(id="b", provider="codex"))
BOTH = {"ANTHROPIC_API_KEY": "dummy", "OPENAI_API_KEY": "dummy"}


def fleet(**config: object) -> Fleet:
    return Fleet(name="f", id="f", file="fleet.json", root="/f", workers=TWO,
                 config=FleetConfig(**config))  # type: ignore[arg-type]  # fmt: skip


def test_a_key_that_is_set_is_used_and_that_is_said() -> None:
    billed = accounts(fleet(), {"ANTHROPIC_API_KEY": "dummy", "OPENAI_API_KEY": ""})
    assert billed == {"claude": "ANTHROPIC_API_KEY"}
    assert billing_notices(fleet(), billed) == [
        "ANTHROPIC_API_KEY is set, so claude workers are billed to that account; for the login"
        ' write "billing": "subscription" into `config`'
    ]


def test_what_the_fleet_says_counts_and_needs_no_warning() -> None:
    subscription, api = fleet(billing="subscription"), fleet(billing="api")
    assert accounts(subscription, BOTH) == {}
    assert accounts(api, {}) == {"claude": "ANTHROPIC_API_KEY", "codex": "CODEX_API_KEY"}
    assert billing_notices(api, accounts(api, BOTH)) == []


def test_workers_that_are_billed_to_a_key_are_paid_and_allowed() -> None:
    made = translate(fleet(), billed={"claude": "ANTHROPIC_API_KEY"})
    roster = read_roster(Node(made.roster, "fleet.json", {}))
    tiers = {id: entry.traits.tier for id, entry in roster.entries.items()}
    assert (tiers, roster.settings.allow_paid) == ({"a": "paid", "b": "subscription"}, True)
    plain = read_roster(Node(translate(fleet()).roster, "fleet.json", {}))
    assert not plain.settings.allow_paid
