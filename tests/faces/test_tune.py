"""`fanfold tune PLAN`: members are asked about a sample once, and the plan that comes of it runs."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest
import yaml

from fanfold.price import Price
from fanfold.testing.running import RunningServer, threaded_server
from fanfold.testing.script import Asked, Says
from tests.faces.cli import Ended, fanfold, started
from tests.flow.killed_plans import Script

pytestmark = pytest.mark.slow

ITEMS = 130
ANSWERS = ("yes", "no", "unclear")
SKILLS = {"small": 0.8, "medium": 0.9, "large": 0.97, "bad": 0.1}
PRICES = {"small": 1, "medium": 3, "large": 20, "bad": 2}
MEMBER = """\
  - id: {id}
    kind: openai
    model: {id}
    base_url: "{url}/v1"
    max_tokens: 20
    price: {{input: {price}, output: {price}}}
"""
PLAN = """\
name: sort
roster: roster.yaml
input: {jsonl: items.jsonl}
steps:
  - map:
      prompt: "yes, no or unclear? {{ item.text }}"
      member: large
      gate: {regex: "^(yes|no|unclear)$"}
  - reduce: {kind: count}
"""


def _share(*words: str) -> float:
    return int.from_bytes(sha256(" ".join(words).encode()).digest()[:4], "big") / 2**32


def truth(id: str) -> str:
    return ANSWERS[int(_share("truth", id) * 3)]


def says(asked: Asked) -> Says:
    """Each model is right as often as it is skilled, always in the same cases."""
    id = asked.prompt.rpartition(" ")[2]
    right = truth(id)
    if _share(asked.model, id) < SKILLS[asked.model]:
        return Says(text=right)
    return Says(text=ANSWERS[(ANSWERS.index(right) + 1) % 3])


script = Script()


@pytest.fixture
def models(tmp_path: Path) -> Iterator[RunningServer]:
    script.says, script.arrived, script.kill_at, script.victim = says, 0, 0, None
    name = "tests.faces.test_tune:script"
    with threaded_server(tmp_path / "books", price=Price(input=1, output=1), script=name) as server:
        rows = [
            {"id": f"q{n}", "text": f"question q{n}", "label": truth(f"q{n}")} for n in range(ITEMS)
        ]
        (tmp_path / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        labels = "".join(f"{row['id']},{row['label']}\n" for row in rows)
        (tmp_path / "labels.csv").write_text(f"item,truth\n{labels}")
        members = (
            MEMBER.format(id=id, url=server.url, price=price) for id, price in PRICES.items()
        )
        (tmp_path / "roster.yaml").write_text("members:\n" + "".join(members))
        (tmp_path / "plan.yaml").write_text(PLAN)
        yield server


def tuned(folder: Path, *words: str) -> Ended:
    return fanfold(folder, "tune", "plan.yaml", "--sample", "120", *words)


def contents(server: RunningServer) -> Counter[tuple[str, str]]:
    return Counter((one.model, one.content) for one in server.books().asked)


def test_each_is_asked_once_and_the_tuned_plan_reuses_it(
    tmp_path: Path, models: RunningServer
) -> None:
    ended = tuned(
        tmp_path, "--truth", "labels.csv", "--target", "0.85", "--out", "tuned.yaml", "--replies", "r.csv"
    )  # fmt: skip
    assert ended.code == 0, ended
    asked = contents(models)
    assert set(asked.values()) == {1}
    models_asked = Counter(model for model, _ in asked)
    assert models_asked["small"] == models_asked["large"] == 120
    assert models_asked["bad"] < 120, "it is beaten by `small`, which is cheaper"
    assert f"bad (after {models_asked['bad']} items)" in ended.out
    # a second tuning, and one from the table, say the same and ask nobody
    again = tuned(tmp_path, "--truth", "item.label", "--target", "0.85")
    table = fanfold(tmp_path, "tune", "r.csv", "--target", "0.85")
    assert contents(models) == asked
    assert _body(again) == _body(ended) == table.out
    # the plan runs, and only what was not in the sample is asked
    ran = fanfold(tmp_path, "run", "tuned.yaml", "--json").receipt
    assert (ran["status"], ran["passed"]) == ("complete", ITEMS)
    assert set(contents(models).values()) == {1}
    tail = {content for (_, content), _ in (contents(models) - asked).items()}
    assert len(tail) == ITEMS - 120
    assert (tmp_path / "tuned.yaml").read_text().startswith("# Tuned by `fanfold tune plan.yaml`")


def _body(ended: Ended) -> str:
    """Without what was asked to learn it."""
    lines = ended.out.split("\n")
    return "\n".join(lines[next(n for n, line in enumerate(lines) if "ways were tried" in line) :])


@pytest.mark.parametrize("seed", range(3))
def test_killed_and_done_again_nothing_that_was_answered_is_asked_twice(
    tmp_path: Path, models: RunningServer, seed: int
) -> None:
    words = ("tune", "plan.yaml", "--sample", "120", "--truth", "labels.csv", "--out", "tuned.yaml")
    script.kill_at = 40 + 97 * seed
    with started(tmp_path, *words) as program:
        script.victim = program.process.pid
        assert program.end().code == -9
    script.victim = None
    models.wait_idle()
    ended = fanfold(tmp_path, *words)
    assert ended.code == 0, ended
    repeated = sum(times - 1 for times in contents(models).values())
    told = json.loads(fanfold(tmp_path, "status", "tune-sort", "--json").out)
    assert repeated <= told["maybe_paid_twice"]
    assert (tmp_path / "tuned.yaml").exists()


@pytest.mark.sweep
@pytest.mark.slow
def test_killed_at_thirty_moments_nothing_that_was_answered_is_asked_twice(
    tmp_path: Path, models: RunningServer
) -> None:
    """One tuning, killed again and again, at each time some asks later."""
    words = ("tune", "plan.yaml", "--sample", "120", "--truth", "labels.csv", "--out", "tuned.yaml")
    for kill in range(30):
        script.kill_at = script.arrived + 1 + kill * 5 % 13
        with started(tmp_path, *words) as program:
            script.victim = program.process.pid
            assert program.end().code == -9, kill
        script.victim = None
        models.wait_idle()
    script.kill_at = 0
    ended = fanfold(tmp_path, *words)
    assert ended.code == 0, ended
    repeated = sum(times - 1 for times in contents(models).values())
    told = json.loads(fanfold(tmp_path, "status", "tune-sort", "--json").out)
    assert repeated <= told["maybe_paid_twice"]


def test_the_tuned_plan_is_watched_and_drift_is_found(
    tmp_path: Path, models: RunningServer
) -> None:
    """By a strong member, whose answers of the reporting half say how often the chosen way should say
    the same. Later the chosen members get worse."""
    ended = tuned(
        tmp_path, "--truth", "labels.csv", "--max-usd-per-1000", "0.2", "--out", "tuned.yaml",
        "--watch", "member:large", "--watch-rate", "0.8", "--watch-usd", "5", "--on-drift", "pause",
    )  # fmt: skip
    assert ended.code == 0, ended
    plan = yaml.safe_load((tmp_path / "tuned.yaml").read_text())
    (step,) = plan["steps"][0].values()
    watch = step["watch"]
    assert (watch["truth"], watch["rate"], watch["budget"]) == ("member:large", 0.8, {"usd": 5})
    assert (watch["on_drift"], 0.5 < watch["target"] < 1) == ("pause", True)
    assert plan["roster"] == "roster.yaml"
    ran = fanfold(tmp_path, "run", "tuned.yaml", "--json").receipt
    assert ran["status"] == "complete", ran["reason"]
    script.says = lambda asked: (
        says(asked) if asked.model == "large" else Says(text="unclear")
    )  # fmt: skip
    (tmp_path / "labels.csv").unlink()
    ended = fanfold(tmp_path, "run", "tuned.yaml", "--json", "--fresh")
    assert (ended.code, ended.receipt["cause"]["kind"]) == (4, "drift")


def test_whom_it_should_be_as_good_as_is_asked_to_the_end_also_when_beaten(
    tmp_path: Path, models: RunningServer
) -> None:
    ended = tuned(tmp_path, "--truth", "labels.csv", "--as-good-as", "bad")
    assert ended.code == 0, ended
    assert "Wanted: to be as good as bad. Ask " in ended.out
    assert Counter(model for model, _ in contents(models))["bad"] == 120


def test_a_file_that_cannot_be_written_does_not_cost_the_table(
    tmp_path: Path, models: RunningServer
) -> None:
    """Here the best way is a vote, which no route can state."""
    ended = tuned(tmp_path, "--truth", "labels.csv", "--target", "0.99", "--learned", "learned.yaml",
                  "--plot", "frontier.svg")  # fmt: skip
    assert (ended.code, ended.err) == (2, (
        "fanfold: --learned: the way that was chosen is a vote, which no route can state; --out writes"
        " it as a plan\n"
    ))  # fmt: skip
    assert "In a plan:\n  ensemble:" in ended.out and (tmp_path / "frontier.svg").exists()


def test_by_default_it_is_watched_by_what_it_was_tuned_on(
    tmp_path: Path, models: RunningServer
) -> None:
    words = ("--truth", "labels.csv", "--target", "0.7", "--out", "tuned.yaml")
    assert tuned(tmp_path, *words).code == 0
    (step,) = yaml.safe_load((tmp_path / "tuned.yaml").read_text())["steps"][0].values()
    assert step["watch"] == {"truth": "labels.csv", "target": 0.7}
    assert tuned(tmp_path, *words, "--watch", "none").code == 0
    (step,) = yaml.safe_load((tmp_path / "tuned.yaml").read_text())["steps"][0].values()
    assert "watch" not in step


def test_prompts_and_kick_backs_are_candidates_and_the_best_goes_into_the_plan(
    tmp_path: Path, models: RunningServer
) -> None:
    """Asked with care, all are right more often."""
    (tmp_path / "plain.md").write_text("yes, no or unclear? {{ item.text }}")
    (tmp_path / "care.md").write_text("Think carefully: yes, no or unclear? {{ item.text }}")
    words = ("--truth", "labels.csv", "--members", "small,medium", "--out", "tuned.yaml",
             "--prompts", "plain.md,care.md")  # fmt: skip
    script.says = lambda asked: (
        Says(text=truth(asked.prompt.rpartition(" ")[2]))
        if "carefully" in asked.prompt
        else says(asked)
    )
    ended = tuned(tmp_path, *words)
    assert ended.code == 0, ended
    assert "By all members on 30 items, right and for 1,000 asks: plain.md " in ended.out
    assert "Tuned with care.md." in ended.out
    asked = contents(models)
    assert set(asked.values()) == {1}
    assert len(asked) == 2 * 30 + 2 * 120, "each prompt by both on a quarter, the best on all"
    (step,) = yaml.safe_load((tmp_path / "tuned.yaml").read_text())["steps"][0].values()
    assert (step["prompt_file"], "prompt" in step) == ("care.md", False)
    ran = fanfold(tmp_path, "run", "tuned.yaml", "--json").receipt
    assert ran["status"] == "complete"
    ended = tuned(tmp_path, "--truth", "labels.csv", "--members", "small,medium", "--revise", "0,2",
                  "--out", "tuned.yaml")  # fmt: skip
    assert ended.code == 0, ended
    (step,) = yaml.safe_load((tmp_path / "tuned.yaml").read_text())["steps"][0].values()
    assert (step["revise"], "prompt" in step) == (0, True), "equally good, and no dearer"


SHARDED = f"""\
name: sort
roster: roster.yaml
input: {{jsonl: items.jsonl}}
steps:
  - map:
      prompt: |
        yes, no or unclear? {"Mind this. " * 30}
        {{% for one in items %}} Claim {{{{ one.id }}}}. {{% endfor %}}
      member: large
      shard: {{items: 30}}
      revise: 0
  - reduce: {{kind: count}}
"""


def one_of(asked: Asked, id: str) -> str | None:
    return says(msgspec.structs.replace(asked, prompt=f"question {id}")).text


def in_shards(asked: Asked) -> Says:
    """Several at once are answered as well as one alone; many at once are not."""
    ids = re.findall(r"Claim (q\d+)", asked.prompt)
    if len(ids) == 1:
        return Says(text=one_of(asked, ids[0]))
    tired = len(ids) > 10
    answers = [{"id": id, "answer": "tired" if tired else one_of(asked, id)} for id in ids]
    return Says(data={"answers": answers})


def test_shard_sizes_are_candidates_and_the_cheapest_good_one_goes_into_the_plan(
    tmp_path: Path, models: RunningServer
) -> None:
    script.says = in_shards
    (tmp_path / "plan.yaml").write_text(SHARDED)
    ended = tuned(
        tmp_path, "--truth", "labels.csv", "--members", "small,medium", "--shards", "1,5,30",
        "--target", "0.75", "--out", "tuned.yaml", "--replies", "r.csv",
    )  # fmt: skip
    assert ended.code == 0, ended
    assert "2 members were asked about 120 items, 1, 5 and 30 at once: " in ended.out
    assert "small ×30 (after 30 items)" in ended.out, "surely worse than others no dearer"
    assert set(contents(models).values()) == {1}
    (step,) = yaml.safe_load((tmp_path / "tuned.yaml").read_text())["steps"][0].values()
    assert (step["member"], step["shard"]) == ("small", {"items": 5})
    table = fanfold(tmp_path, "tune", "r.csv", "--target", "0.75")
    assert _body(ended) == table.out and "    shard: {items: 5}" in table.out
    ran = fanfold(tmp_path, "run", "tuned.yaml", "--json", "--limit", "20", "--fresh").receipt
    assert (ran["status"], ran["passed"], ran["calls"]) == ("complete", 20, 4)


@pytest.mark.parametrize(
    ("plan", "more", "usd"), [(PLAN, (), "1.00"), (SHARDED, ("--shards", "1,5"), "0.20")]
)
def test_what_a_reply_on_record_costs_is_known_where_a_call_has_a_flat_price(
    tmp_path: Path, models: RunningServer, plan: str, more: tuple[str, ...], usd: str
) -> None:
    script.says = in_shards if more else says
    (tmp_path / "plan.yaml").write_text(plan)
    roster = tmp_path / "roster.yaml"
    flat = re.sub(r"price: .*", "price: {call: 0.001}", roster.read_text())
    roster.write_text(flat)
    ended, again = (
        tuned(tmp_path, "--truth", "labels.csv", "--members", "small,medium", *more) for _ in "12"
    )
    assert " 0 calls, $0.0000" in again.out
    assert _body(again) == _body(ended) and f"at ${usd} for 1,000 items" in ended.out


def test_what_a_strong_member_says_can_be_taken_as_right(
    tmp_path: Path, models: RunningServer
) -> None:
    ended = tuned(tmp_path, "--truth", "member:large", "--members", "small,medium")
    assert ended.code == 0, ended
    assert "right if it says what large says, who is taken as right" in ended.out
    assert "100.0%" in ended.out


@pytest.mark.parametrize(
    ("gate", "more", "said"),
    [
        ("^", (), "of q19 small says \"unclear\", and right is 3\n"),
        ("^", ("--field", "kind"), "none passed the gate and has the field kind\n"),
        ("^maybe$", (), "none passed the gate\n"),
    ],
)  # fmt: skip
def test_labels_that_no_reply_agrees_with_end_it_after_a_quarter_of_the_sample(
    tmp_path: Path, models: RunningServer, gate: str, more: tuple[str, ...], said: str
) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN.replace("^(yes|no|unclear)$", gate).replace(
        "member: large", "member: large\n      revise: 0"))  # fmt: skip
    coded = "".join(f"q{n},{ANSWERS.index(truth(f'q{n}')) + 1}\n" for n in range(ITEMS))
    (tmp_path / "coded.csv").write_text(f"item,truth\n{coded}")
    ended = tuned(tmp_path, "--truth", "coded.csv", *more)
    assert (ended.code, said in ended.err) == (2, True), ended
    assert "no reply is right, of 4 members on 30 items: " in ended.err
    assert len(models.books().asked) == 4 * 30


def test_a_member_that_is_never_right_is_no_way(tmp_path: Path, models: RunningServer) -> None:
    script.says = lambda asked: Says(text="well") if asked.model == "small" else says(asked)
    ended = tuned(tmp_path, "--truth", "labels.csv", "--members", "small,medium,large")
    assert ended.code == 0, ended
    assert "small" not in _body(ended)


def test_a_budget_pauses_and_a_larger_one_goes_on(tmp_path: Path, models: RunningServer) -> None:
    ended = tuned(tmp_path, "--truth", "labels.csv", "--budget", "calls=100")
    assert (ended.code, len(models.books().asked)) == (4, 100)
    assert "again with a larger --budget" in ended.err
    ended = tuned(tmp_path, "--truth", "labels.csv", "--budget", "calls=1000")
    assert ended.code == 0, ended
    assert set(contents(models).values()) == {1}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "what is right? --truth labels.csv, item.FIELD, gate, or member:ID"),
        (("--truth", "truth.txt"), "--truth truth.txt: give a table"),
        (("--truth", "none.csv"), "none.csv: no such file"),
        (("--truth", "item.lable"), "--truth: no item has the field lable"),
        (("--truth", "other.csv"), "--truth: no label fits an item: the first label is for 'x1'"),
        (("--truth", "same.csv"), "--truth: all 130 answers are \"yes\": members cannot be told apart"),
        (("--truth", "twice.csv"), "twice.csv:3: item q1 has two labels"),
        (("--truth", "comma.csv"), "comma.csv:2: more cells than columns; a text with a comma in it"),
        (("--truth", "few.csv"), "2 labelled items make halves of "),
        (("--truth", "bare.csv"), "bare.csv:1: a table of labels has the columns item (or id) and truth"),
        (("--truth", "item.label", "--members", "smal"), "there is no member `smal`"),
        (("--truth", "item.label", "--members", "small"), "there is only small to choose from"),
        (("--truth", "item.label", "--step", "reduce"), "only the first step, `map`, can be tuned"),
        (("--truth", "item.label", "--step", "mpa"), "there is no step `mpa`: did you mean `map`?"),
        (("--truth", "item.label", "--out", "../tuned.yaml"), "--out must be in the plan's folder"),
        (("--truth", "item.label", "--target", "0.9", "--as-good-as", "small"), "state one of"),
        (("--truth", "item.label", "--as-good-as", "smal"), "--as-good-as smal: did you mean `small`?"),
        (("--truth", "item.label", "--prompts", "none.md"), "`prompt_file` none.md: no such file"),
        (("--truth", "item.label", "--prompts", "bad.md"), "bad.md"),
        (("--truth", "item.label", "--revise", "often"), "--revise: 'often' is no number of these"),
        (("--truth", "item.label", "--shards", "0"), "--shards: '0' is no number of these"),
        (("--truth", "member:large", "--shards", "5"), "is asked alone; add 1 to --shards"),
        (("--truth", "item.label", "--shards", "5", "--watch", "member:large"), "add 1 to --shards"),
        (("--truth", "item.label", "--watch", "member:hugo"), "--watch member:hugo: known: "),
        (("--truth", "item.label", "--watch", "hugo"), "--watch hugo: give a table"),
        (("--truth", "item.label", "--watch", "item.text"), "--watch: what --truth says, member:ID"),
    ],
)  # fmt: skip
def test_what_cannot_be_tuned_is_refused_before_anything_is_asked(
    tmp_path: Path, models: RunningServer, words: tuple[str, ...], said: str
) -> None:
    same = "".join(f"q{n},yes\n" for n in range(ITEMS))
    (tmp_path / "same.csv").write_text(f"item,truth\n{same}")
    (tmp_path / "other.csv").write_text("item,truth\nx1,yes\nx2,no\n")
    (tmp_path / "twice.csv").write_text("item,truth\nq1,yes\nq1,no\n")
    (tmp_path / "comma.csv").write_text("item,truth\nq1,no, never\n")
    (tmp_path / "few.csv").write_text("item,truth\nq1,yes\nq2,no\n")
    (tmp_path / "bad.md").write_text("{{ itme.text }}")
    (tmp_path / "bare.csv").write_text("question,answer\nq1,yes\n")
    ended = fanfold(tmp_path, "tune", "plan.yaml", "--sample", "130", *words)
    assert (ended.code, said in ended.err) == (2, True), ended
    assert ended.err.count("\n") <= 2
    assert len(models.books().asked) == 0
    assert not (tmp_path / ".fanfold").exists()
