"""`fanfold simulate PLAN`: what a run comes to is said beforehand, and nothing is asked, paid or run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from fanfold.price import Price
from fanfold.testing.running import RunningServer, threaded_server
from fanfold.testing.script import Asked, Says
from tests.faces.cli import Ended, fanfold, new_process

ITEMS = 120
ROSTER = """\
members:
  - id: ada
    kind: openai
    model: small
    base_url: "URL/v1"
    key: none
    max_tokens: 60
    price: {input: 2, output: 10}
    limits: {concurrency: 16}
"""
PLAN = """\
name: sort
roster: roster.yaml
input: {count: ITEMS}
steps:
  - map:
      prompt: "yes or no? Question {{ item.id }}"
      member: ada
      gate: {regex: "^(yes|no)"}
  - reduce: {kind: count}
"""
_times: Counter[str] = Counter()


def _share(*words: str) -> float:
    return int.from_bytes(sha256(" ".join(words).encode()).digest()[:4], "big") / 2**32


def says(asked: Asked) -> Says:
    """A tenth of the asks is refused the first time, a fifth of the replies does not pass the gate."""
    _times[asked.content] += 1
    if _times[asked.content] == 1 and _share("refused", asked.content) < 0.1:
        return Says(status=429)
    if _share("bad", asked.content) < 0.2:
        return Says(text="perhaps")
    return Says(text="yes, " * (1 + int(_share("long", asked.content) * 8)))


def project(folder: Path, url: str = "http://127.0.0.1:9") -> None:
    (folder / "roster.yaml").write_text(ROSTER.replace("URL", url))
    (folder / "plan.yaml").write_text(PLAN.replace("ITEMS", str(ITEMS)))


@pytest.fixture
def models(tmp_path: Path) -> Iterator[RunningServer]:
    _times.clear()
    script = "tests.faces.test_simulate:says"
    with threaded_server(tmp_path / "books", price=Price(input=2, output=10), script=script) as one:
        project(tmp_path, one.url)
        yield one


def simulated(folder: Path, *words: str) -> dict[str, Any]:
    ended = fanfold(folder, "simulate", "plan.yaml", "--json", *words)
    assert (ended.code, ended.err) == (0, "")
    found: dict[str, Any] = json.loads(ended.out)
    return found


def test_what_is_said_from_the_record_is_what_the_run_came_to(
    tmp_path: Path, models: RunningServer
) -> None:
    """Calls within 8 %, cost within 10 %, outcomes within 5 % of the items; the server is not asked again."""
    real = fanfold(tmp_path, "run", "plan.yaml", "--json").receipt
    before = (sum(_times.values()), _stored(tmp_path))
    total = simulated(tmp_path, "--runs", "6", "--what-if", "concurrency=8")["total"]
    assert (sum(_times.values()), _stored(tmp_path)) == before
    refused = sum(_times.values()) - len(_times)
    assert refused > 5 and real["kicked"] > 0
    assert total["calls"]["mean"] == pytest.approx(real["calls"], rel=0.08)
    assert total["usd"]["mean"] == pytest.approx(real["cost_usd"], rel=0.1)
    for state in ("passed", "kicked"):
        assert total["outcomes"][state]["mean"] == pytest.approx(real[state], abs=0.05 * ITEMS)
    assert set(total["outcomes"]) == {"passed", "kicked"}, "who is refused is asked again"


def _stored(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in (folder / ".fanfold").rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in files}


OWN = """\
from pathlib import Path
Path("imported").touch()

def answer(item):
    return "yes"

def good(reply):
    return True

def join(parts):
    return list(parts)
"""
OWN_PLAN = """\
name: own
roster: roster.yaml
input: {count: 12}
steps:
  - map: {name: mine, member: own, gate: {python: "own:good"}}
  - command: {name: shell, cmd: [touch, started]}
  - reduce: {kind: python, target: "own:join"}
  - write: out/result.json
"""


def test_no_code_is_run_nothing_is_written_and_no_key_is_needed(tmp_path: Path) -> None:
    project(tmp_path)
    keyed = ROSTER.replace("URL", "http://127.0.0.1:9").replace("key: none", "key: env:NOT_SET")
    own = '  - {id: own, kind: function, target: "own:answer"}\n'
    (tmp_path / "roster.yaml").write_text(keyed + own)
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "own.yaml").write_text(OWN_PLAN)
    before = {path.name for path in tmp_path.iterdir()}
    for plan in ("own.yaml", "plan.yaml"):
        ended = fanfold(tmp_path, "simulate", plan, "--limit", "12", "--runs", "3", "-j", "4")
        assert ended.code == 0, ended
        assert "12 items" in ended.out
    assert {path.name for path in tmp_path.iterdir() if not path.name.startswith(".")} == before


@pytest.mark.slow
def test_the_same_seed_prints_the_same_in_any_process(tmp_path: Path) -> None:
    project(tmp_path)
    words = ("simulate", "plan.yaml", "--limit", "16", "--runs", "3", "--picture", "p.svg")
    words += ("--member", "ada:latency=2s,p95=9s,errors=0.1,refused=0.1,kicked=0.3", "--json")
    words += ("--what-if", "concurrency=4")
    said = set()
    for seed in ("1", "2"):
        with new_process(tmp_path, *words, PYTHONHASHSEED=seed) as program:
            ended = program.end()
        assert ended.code == 0, ended
        said.add((ended.out, (tmp_path / "p.svg").read_text()))
    assert len(said) == 1


BAD = {
    "no member": (["--member", "bob:latency=2s"], "no member `bob`"),
    "no what-if": (["--what-if", "speed=3"], "`speed`"),
    "few runs": (["--runs", "1"], "--runs"),
    "picture": (["--picture", "none/there/p.svg"], "cannot be written"),
    "budget": (["--budget", "much"], "budget"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_said_in_a_line_and_with_exit_code_2(tmp_path: Path, name: str) -> None:
    project(tmp_path)
    words, what = BAD[name]
    ended = fanfold(tmp_path, "simulate", "plan.yaml", "--limit", "3", *words)
    _refused(ended, what)


def test_a_plan_that_cannot_be_simulated_is_refused(tmp_path: Path) -> None:
    project(tmp_path)
    _refused(fanfold(tmp_path, "simulate", "nowhere.yaml"), "nowhere.yaml")
    (tmp_path / "fleet.json").write_text("{}")
    _refused(fanfold(tmp_path, "simulate", "fleet.json"), "a fleet is not simulated")
    given = PLAN.replace("{count: ITEMS}", "{command: [touch, started]}")
    (tmp_path / "plan.yaml").write_text(given)
    _refused(fanfold(tmp_path, "simulate", "plan.yaml"), "plan.yaml:3: ")
    assert not (tmp_path / "started").exists()
    (tmp_path / "own.py").write_text(OWN)
    divided = (
        "  - divide: {prompt: 'x {{ item.id }}', member: ada, split: 'own:join', combine: concat}\n"
    )
    head = PLAN.partition("steps:\n")[0].replace("ITEMS", "3")
    (tmp_path / "plan.yaml").write_text(f"{head}steps:\n{divided}")
    _refused(fanfold(tmp_path, "simulate", "plan.yaml"), "plan.yaml:5: `split` is a function")


def _refused(ended: Ended, what: str) -> None:
    assert ended.code == 2, ended
    assert what in ended.err and ended.out == ""
    assert len(ended.err.strip().splitlines()) <= 3
