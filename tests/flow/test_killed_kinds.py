"""Plans with each kind of step and each field that arranges work, over HTTP, killed at seeded requests
and resumed: nothing that was answered is asked again, all outcomes add up, the result is the same."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from fanfold.testing.script import Asked, Says
from tests.examples import seeds
from tests.flow.killed_plans import ROSTER, Killed, carried_through
from tests.flow.operator_scenes import RECORDS
from tests.flow.operator_scenes import answered as compared

# Each below its name; INPUT, ALL and the words after it stand for what several have in common.
_PLANS = """
=== group
INPUT
  - group: {by: kind, concurrency: 2, reduce: {kind: ask, prompt: "SUM {{ parts | map(attribute='ids') | list }}", member: m, fan_in: 3}}
=== resolve
INPUT
  - resolve: {prompt: "SAME <{{ item.a.name }}> <{{ item.b.name }}>", NEAR, canonical: {prompt: "NAME {{ item.records | length }}", member: m}}
=== join
INPUT
  - join: {prompt: "SAME <{{ item.left.name }}> <{{ item.right.name }}>", NEAR, right: {jsonl: items.jsonl}}
=== rank
INPUT
  - rank: {ORDER, rounds: 2}
=== sample
INPUT
  - sample: {items: 9, by: kind}
  - map: {EACH}
=== when
INPUT
  - map: {EACH}
  - ask: {prompt: LIST, member: m, when: counts.map.passed > 3}
  - ask: {name: never, prompt: LIST, member: m, when: counts.map.failed > 3}
=== repeat
INPUT
  - repeat: {steps: [{map: {EACH}}], until: round == 2, at_most: 3}
=== rank in repeat
INPUT
  - repeat: {steps: [{rank: {ORDER, rounds: 1}}], until: round == 2, at_most: 3}
=== group in repeat
steps:
  - repeat:
      steps:
        - ask: {name: all, prompt: LIST, member: m, schema: {type: array}}
        - group: {over: steps.all, by: id, reduce: {kind: ask, prompt: "SUM {{ parts[0].id }}", member: m}}
      until: round == 2
      at_most: 3
=== over: map
ALL
  - map: {over: steps.all, EACH}
=== over: ensemble
ALL
  - ensemble: {over: steps.all, EACH, samples: 2}
=== over: conduct, over_all
ALL
  - conduct: {over: steps.all, EACH, over_all: "code:fine"}
=== over: scatter
ALL
  - scatter: {over: steps.all, EACH, synthesise: {prompt: SUM, member: m}}
=== over: graph
ALL
  - graph: {over: steps.all, EACH}
=== over: divide, partial
ALL
  - divide: {over: steps.all, EACH, fits: {items: 1}, combine: {prompt: SUM, member: m, fan_in: 2, on_failure: partial}}
=== over: pipeline
ALL
  - pipeline: {over: steps.all, stages: [{map: {EACH}}]}
=== over: group
ALL
  - group: {over: steps.all, by: id, reduce: {kind: ask, prompt: "SUM {{ parts[0].id }}", member: m}}
=== reduce, partial
INPUT
  - map: {EACH}
  - reduce: {kind: ask, prompt: SUM, member: m, fan_in: 4, on_failure: partial}
=== stream
ALL
  - pipeline:
      over: steps.all
      stages:
        - map: {name: lines, prompt: "LINES {{ item.id }}", member: m}
        - map: {name: part, prompt: "MAP {{ item.text }}", member: m, stream: lines, waiting: 2}
=== context_before, context_after
input: {list: [{id: book, text: "PAGES"}]}
steps:
  - divide:
      prompt: "MAP {{ item.context_before }}|{{ item.text }}|{{ item.context_after }}"
      member: m
      concurrency: 2
      split: paragraphs
      fits: {tokens: 50}
      combine: concat
      context_before: {paragraphs: 1}
      context_after: {paragraphs: 1}
=== spread
INPUT
  - map: {prompt: "MAP {{ item.id }}", needs: talking, spread: overflow}
=== shards by count
INPUT
  - map: {EACH, shard: {count: 7}}
=== shards by hash
INPUT
  - map: {EACH, shard: {hash: item.name, count: 9}}
=== shards by range
INPUT
  - map: {EACH, shard: {range: item.n, bounds: [2, 4, 6, 8, 10, 12, 14, 16]}}
"""  # noqa: E501
_WORDS = {
    "INPUT": "input: {jsonl: items.jsonl}\nsteps:",
    "ALL": "steps:\n  - ask: {name: all, prompt: LIST, member: m, schema: {type: array}}",
    "EACH": 'prompt: "MAP {{ item.id }}", member: m, concurrency: 2',
    "NEAR": "member: m, block: {on: name, neighbours: 1}, concurrency: 2",
    "ORDER": 'prompt: "ORDER {% for one in item.choices %}{{ one.label }}={{ one.item.n }} {% endfor %}",'
    " member: m, concurrency: 2",
    "PAGES": "\\n\\n".join(f"{n} one two three four five six seven" for n in range(24)),
}
PLANS = {
    name: re.sub("|".join(_WORDS), lambda found: _WORDS[found[0]], plan)
    for name, plan in re.findall(r"=== (.+)\n((?:(?!===).*\n)+)", _PLANS)
}


def says(asked: Asked) -> Says:
    """Right, and always the same for the same prompt."""
    if asked.prompt.startswith("###"):
        ids = re.findall(r'^### "(\w+)"$', asked.prompt, re.MULTILINE)
        return Says(data={"answers": [{"id": id, "answer": f"about {id}"} for id in ids]})
    if asked.prompt == "LIST":
        return Says(data=[{"id": f"t{n}"} for n in range(8)])
    if asked.prompt.startswith("LINES"):
        return Says(text="\n".join(f"{asked.prompt[6:]} line {n}" for n in range(3)))
    return compared(asked)


def carried(folder: Path, kind: str, seed: int, kills: int) -> tuple[Killed, Killed]:
    """Once to its end, and once killed so often on the way."""
    ended: list[Killed] = []
    for name, many in (("whole", 0), ("killed", kills)):
        (folder / name).mkdir()
        (folder / name / "code.py").write_text("def fine(parts):\n    return {}\n")
        rows = "".join(json.dumps(row) + "\n" for row in RECORDS)
        (folder / name / "items.jsonl").write_text(rows)
        head, member = ROSTER.splitlines(keepends=True)
        slots = "good_at: [talking], concurrency: 2"
        many_members = (member.replace("id: m", f"id: {id}, {slots}") for id in "mno")
        roster = head + "".join(many_members) if kind == "spread" else ROSTER
        plan = f"name: killed\n{PLANS[kind]}"
        made = len(ended[0].asked) if ended else 0
        ended.append(carried_through(folder / name, plan, says, seed, many, roster, made))
    return ended[0], ended[1]


def check(whole: Killed, killed: Killed) -> None:
    killed.check(whole)
    assert whole.receipt.status == killed.receipt.status == "complete"
    assert (whole.receipt.maybe_paid_twice, killed.receipt.planned) == (0, whole.receipt.planned)


@pytest.mark.parametrize("kind", seeds(list(PLANS), quick=6))
def test_killed_and_resumed_nothing_is_asked_twice_and_the_result_is_the_same(
    tmp_path: Path, kind: str
) -> None:
    whole, killed = carried(tmp_path, kind, seed=list(PLANS).index(kind), kills=1)
    check(whole, killed)
    assert killed.receipt.result == whole.receipt.result


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("kind", PLANS)
def test_also_at_many_other_moments(tmp_path: Path, kind: str, seed: int) -> None:
    whole, killed = carried(tmp_path, kind, seed, kills=5)
    check(whole, killed)
    assert killed.receipt.result == whole.receipt.result
