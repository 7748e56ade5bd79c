"""Applications tuned: over their rules, the embedded model and two scripted models. What tuning costs is
small against what it saves, by the books of the server."""

from __future__ import annotations

import csv
import gzip
import json
import shutil
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from fanfold.price import Price, dollars
from fanfold.testing.running import RunningServer, threaded_server
from fanfold.testing.script import Asked, Says
from tests.faces.cli import SRC, fanfold
from tests.unit.members.embedded import CACHE, pretending, real_engine, without_engine

APPS = SRC / "fanfold" / "apps"
MANY = 10_000  # items that the tuned plan is for
SKILLS = {"quick": 0.86, "strong": 0.97}
PRICES = {"quick": 1, "strong": 20}
MODELS = """\
  - {{id: quick, kind: openai, model: quick, base_url: "{url}/v1", max_tokens: 40, good_at: [{good}],
     price: {{input: 1, output: 1}}}}
  - {{id: strong, kind: openai, model: strong, base_url: "{url}/v1", max_tokens: 40, good_at: [{good}],
     price: {{input: 20, output: 20}}}}
"""
LOCAL = "  - {{id: small, kind: local, answers: labels, good_at: [{good}], slots: 2, threads: 1{model}}}\n"
ENGINES = (
    pytest.param("pretending", marks=(without_engine, pytest.mark.slow)),
    pytest.param("real", marks=(real_engine, pytest.mark.sweep)),
)
RIGHT: dict[str, str] = {}
FIELD = {"name": "sentiment", "other": "negative", "one": "positive"}


def script(asked: Asked) -> Says:
    """Each is right as often as it is skilled, always in the same cases; who is asked about which item
    shows in the prompt."""
    mark = asked.prompt.rpartition("[")[2].partition("]")[0]
    drawn = int.from_bytes(sha256(f"{asked.model} {mark}".encode()).digest()[:4], "big") / 2**32
    right = RIGHT[mark]
    wrong = FIELD["one"] if right == FIELD["other"] else FIELD["other"]
    return Says(data={FIELD["name"]: right if drawn < SKILLS[asked.model] else wrong})


@pytest.fixture
def models(tmp_path: Path) -> Iterator[RunningServer]:
    name = "tests.apps.test_tuned:script"
    with threaded_server(tmp_path / "books", price=Price(input=1, output=1), script=name) as server:
        yield server


def spent(server: RunningServer) -> dict[str, float]:
    """Dollars by model, as the server counts them, at the price of each."""
    found = dict.fromkeys(PRICES, 0.0)
    for one in server.books().asked:
        found[one.model] += dollars(one.cost) * PRICES[one.model]
    return found


def embedded(folder: Path, good: str, engine: str) -> tuple[str, dict[str, str]]:
    """The embedded model as a line of the roster, and where it is found. One that pretends says that all
    is positive, or yes."""
    if engine == "real":
        return LOCAL.format(good=good, model=""), {"XDG_CACHE_HOME": str(CACHE.parents[1])}
    (folder.parent / "caches/fanfold").mkdir(parents=True)
    pretending(folder).rename(folder.parent / "caches/fanfold/local")
    return LOCAL.format(good=good, model=", model: tiny.gguf"), {
        "XDG_CACHE_HOME": str(folder.parent / "caches")
    }


def check(folder: Path, server: RunningServer, where: dict[str, str], *words: str) -> None:
    """Against `strong` for everything: at least as good, and tuning costs less than a tenth of what is
    saved. All four were tried."""
    words = (*words, "--replies", "replies.csv")
    ended = fanfold(folder, "tune", *words, "--out", "tuned.yaml", "--json", **where)
    assert ended.code == 0, ended
    with (folder / "replies.csv").open(encoding="utf-8", newline="") as file:
        tried = {row["member"] for row in csv.DictReader(file)}
    assert len(tried) == 4 and {"small", "quick", "strong"} < tried
    found = json.loads(ended.out)
    best = found["ways"][found["recommended"]]
    asked = [one for one in server.books().asked if one.model == "strong"]
    each = spent(server)["strong"] / len(asked)
    assert len({(one.model, one.content) for one in server.books().asked}) == len(
        server.books().asked
    )
    saved = MANY * (each - best["usd_1000"] / 1000)
    tuning = sum(spent(server).values())
    assert 0 < tuning < saved / 10, (tuning, saved, best)
    assert found["reached"]
    (folder / "few.yaml").write_text((folder / "tuned.yaml").read_text())
    ran = fanfold(folder, "run", "few.yaml", "--json", "--limit", "20", **where).receipt
    assert (ran["status"], ran["passed"]) == ("complete", 20), ran["reason"]


@pytest.mark.sweep
@pytest.mark.parametrize("engine", ENGINES)
def test_reviews(tmp_path: Path, models: RunningServer, engine: str) -> None:
    folder = tmp_path / "reviews"
    shutil.copytree(APPS / "reviews", folder)
    with gzip.open(folder / "data/reviews.csv.gz", "rt", encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["rating"] != "3"][:260]
    labels = {row["id"]: "positive" if int(row["rating"]) > 3 else "negative" for row in rows}
    RIGHT.clear()
    RIGHT.update(labels)
    FIELD.update(name="sentiment", other="negative", one="positive")
    with (folder / "some.jsonl").open("w") as out:
        for row in rows:
            row.pop("rating")
            out.write(json.dumps(row) + "\n")
    (folder / "labels.csv").write_text(
        "item,truth\n" + "".join(f"{id},{label}\n" for id, label in labels.items())
    )
    plan = (folder / "sentiment.yaml").read_text()
    plan = plan.replace(
        "input: {csv: data/reviews.csv.gz, id: id, limit: 120}", "input: {jsonl: some.jsonl}"
    )
    (folder / "sentiment.yaml").write_text(plan)
    label = (folder / "label.md").read_text()
    (folder / "label.md").write_text(f"{label}\n[{{{{ item.id }}}}]")
    own, where = embedded(folder, "sentiment", engine)
    roster = (folder / "roster.yaml").read_text() + MODELS.format(url=models.url, good="sentiment")
    (folder / "roster.yaml").write_text(roster + own)
    check(folder, models, where, "sentiment.yaml", "--truth", "labels.csv", "--field", "sentiment",
          "--target", "0.9", "--sample", "260", "--budget", "50")  # fmt: skip


PLAN = """\
name: assignment
roster: roster.yaml
input: {jsonl: data/contracts.jsonl.gz, id: id}
steps:
  - map:
      name: answer
      needs: [assignment]
      prompt: "May it be assigned freely? {{ item.text | truncate(400) }} [{{ item.id }}]"
      schema: {type: object, required: [found], properties: {found: {enum: ["yes", "no"]}}}
"""
RULES = """\
from clauses import flag_risks


def found(item):
    reply = flag_risks(item)
    named = {one["category"] for one in reply["findings"]}
    return {"found": "yes" if "Anti-Assignment" in named else "no"}
"""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.sweep
def test_contracts(tmp_path: Path, models: RunningServer, engine: str) -> None:
    folder = tmp_path / "contracts"
    shutil.copytree(APPS / "contracts", folder)
    with (folder / "data/labels_yesno.csv").open(encoding="utf-8", newline="") as file:
        labels = {
            row["id"]: ("no", "yes")[int(row["Anti-Assignment"])] for row in csv.DictReader(file)
        }
    RIGHT.clear()
    RIGHT.update(labels)
    FIELD.update(name="found", other="no", one="yes")
    (folder / "labels.csv").write_text(
        "item,truth\n" + "".join(f"{id},{label}\n" for id, label in labels.items())
    )
    (folder / "assignment.py").write_text(RULES)
    (folder / "assignment.yaml").write_text(PLAN)
    own = '  - {id: rules, kind: function, target: "assignment:found", good_at: [assignment]}\n'
    more = MODELS.format(url=models.url, good="assignment")
    local, where = embedded(folder, "assignment", engine)
    (folder / "roster.yaml").write_text(f"members:\n{own}{more}{local}")
    check(folder, models, where, "assignment.yaml", "--truth", "labels.csv", "--field", "found",
          "--target", "0.8", "--budget", "50")  # fmt: skip
