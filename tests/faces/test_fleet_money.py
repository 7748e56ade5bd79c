"""What a fleet's workers took, and what is shown of it: judged by what they said themselves."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fanfold.observe.amounts import usd
from tests.faces.odd_fleet import OddRoot, odd_fleet
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

SAMPLE = Path(__file__).parents[1] / "data" / "dag_fleet" / "fleet.json"
CODEX = {"provider": "codex", "model": "gpt-5.5"}


@pytest.fixture
def team(memory_path: Path) -> Iterator[OddRoot]:
    with odd_fleet(memory_path) as root:
        yield root


def test_what_was_billed_is_never_clipped_and_an_overrun_is_shown_as_one(team: OddRoot) -> None:
    """A worker that reports $0.53 took that, whatever was reserved for it, also when it failed."""
    team.plan(
        {"id": "w", "max_budget_usd": 0.4, "do": "COST 0.53\nFAIL"},
        max_budget_fleet=0.45, overrun="allow",
    )  # fmt: skip
    team.launch()
    assert team.over() == "flagged"
    account = team.account()
    assert (account["cost_usd"], account["overrun_usd"]) == (0.53, pytest.approx(0.08))
    assert account["workers"][0]["cost"] == account["summary"]["total_cost"] == 0.53
    assert account["workers"][0]["overrun_usd"] == pytest.approx(0.13)
    status, report = team.ok("status", team.name).out, team.ok("report", str(team.root)).out
    assert "$0.53 spent  of $0.45  $0.08 over" in " ".join(status.split(chr(10)))
    assert "over: w $0.13 more than was reserved" in status
    assert (
        "More than was reserved: `w` $0.13." in report
        and "$0.53 of $0.45 ($0.08 over budget)" in report
    )


def test_a_killed_worker_took_what_its_files_show_and_one_call_of_its_context(
    team: OddRoot,
) -> None:
    """$0.035 by its rollout; the call that was under way is bounded by the context as it stands, not
    by the largest there can be. The bound stays marked as one when it is launched again."""
    asks_again, gate = team.gate("b-asks-again"), team.gate("b")
    does = f"RECORD 4000 500\nOUTPUT 400\nWRITE {asks_again}\nWAIT {gate}"
    team.plan({"id": "b", **CODEX, "do": does}, max_budget_fleet=5)
    team.launch()
    team.program("b")
    wait_until(asks_again.exists)
    wait_until(lambda: team.seen()["b"]["cost"] == 0.035)
    team.ok("kill", str(team.root), "b")
    assert team.over() == "flagged"
    killed = team.seen()["b"]
    assert (killed["status"], killed["at_most"]) == ("KILLED", True)
    assert 0.035 < killed["cost"] < 0.035 + 0.03 + 32_000 * 30e-6
    tree = team.ok("tree", team.name).out
    report = team.ok("report", str(team.root)).out
    assert (
        usd(killed["cost"], at_most=True) in tree and "billed" not in report.split("## Billing")[1]
    )
    gate.touch()
    team.ok("relaunch", str(team.root), "b", "--no-tmux")
    assert team.over("complete") == "complete"
    again = team.account()
    assert again["cost_at_most"] and again["workers"][0]["at_most"]
    assert usd(again["cost_usd"], at_most=True) in team.ok("status", team.name).out


def test_the_original_sample_fleet_runs_through_where_overruns_are_allowed(team: OddRoot) -> None:
    """Two of its workers may take more than the whole fleet: they start with what is left."""
    made = json.loads(SAMPLE.read_text())
    made["fleet_name"] = team.name
    made["config"] |= {"overrun": "allow", "launch_delay_seconds": 0}
    team.root.mkdir()
    (team.root / "fleet.json").write_text(json.dumps(made))
    for one in made["workers"]:
        team.prompt(one["id"], f"I am {one['id']}\nCOST 0.02\nTOKENS 100 20\n")
    team.launch()
    assert team.over() == "complete"
    assert set(team.states().values()) == {"DONE"}
    assert team.account()["overrun_usd"] == 0
    words = json.loads((team.root / "workers" / "synth" / "spec.json").read_text())["words"]
    assert float(words[words.index("--max-budget-usd") + 1]) < 0.5


def test_what_a_worker_runs_itself_counts_within_the_budget_of_its_fleet(team: OddRoot) -> None:
    """A worker starts a run of five calls at $0.30. Of the fleet's $2.00, $0.92 are reserved for the
    worker and three calls fit; status, receipt and tree say the same."""
    roster = "members: [{id: c, kind: command, cmd: [cat], price: {call: 0.3}}]\n"
    (team.folder / "roster.yaml").write_text(roster)
    step = "{map: {prompt: '{{ item.id }}', member: c}}"
    (team.folder / "inner.yaml").write_text(f"name: inner\ninput: {{count: 5}}\nsteps: [{step}]\n")
    words = f"run {team.folder}/inner.yaml --roster {team.folder}/roster.yaml --allow-paid --quiet"
    program = f"{sys.executable} -m fanfold {words}"
    team.plan({"id": "w", "max_budget_usd": 0.5, "do": f"RUN {program}"}, max_budget_fleet=2)
    team.launch()
    wait_until(lambda: team.account()["status"] == "complete")
    account = team.account()
    assert (account["cost_usd"], account["below_usd"]) == (0.01, pytest.approx(0.9))
    assert account["summary"]["total_cost"] == account["workers"][0]["cost"] == pytest.approx(0.91)
    assert account["budget"]["spent_usd"] == pytest.approx(0.91)
    assert (account["overrun_usd"], account["status"]) == (0, "complete")
    tree = team.ok("tree", account["run"], "--json", "--store", str(team.store)).receipt
    assert tree["total"]["cost_usd"] == pytest.approx(0.91)
