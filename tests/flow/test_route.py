"""`route`: who answers goes by a field of the item, in plans and in Python, killed or not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import fanfold as ff
from fanfold.errors import BadInput
from fanfold.members.roster import load_roster
from fanfold.plans.drawing.picture import picture
from fanfold.plans.load import check_plan, load_plan
from fanfold.testing.script import Asked, Says
from tests.examples import seeds
from tests.flow.killed_plans import carried_through

ITEMS = [
    {"id": f"i{n}", "lang": ("de", "fr", "en", "it")[n % 4], "text": f"t{n}"} for n in range(24)
]
ROUTE = {"by": "lang", "to": {"de": "ada", "fr": "bob"}, "else": "cleo"}
WANTED = {"ada": {"de"}, "bob": {"fr"}, "cleo": {"en", "it"}}


def test_in_python_each_item_goes_to_the_member_of_its_value(tmp_path: Path) -> None:
    heard: dict[str, set[str]] = {}

    def member(id: str) -> ff.Member:
        return ff.function(lambda item: heard.setdefault(id, set()).add(item["lang"]) or id, id=id)

    async def main() -> None:
        members = [member(id) for id in ("ada", "bob", "cleo", "dora")]
        async with ff.open_run("r", members=members, store=tmp_path) as run:
            folded = await ff.map_reduce(run, ITEMS, route=ROUTE, reduce=ff.fold.count())
            assert folded.value == 24
            with pytest.raises(BadInput, match="state `route` or `member`, not both"):
                await ff.map_reduce(run, ITEMS, route=ROUTE, member="ada", step="b")
            with pytest.raises(BadInput, match="state `route` or `shard`, not both"):
                await ff.map_reduce(run, ITEMS, route=ROUTE, shard=3, step="c")
            with pytest.raises(BadInput, match="route"):
                await ff.map_reduce(run, ITEMS, route={"by": "lang"}, step="d")

    ff.run_sync(main())
    assert heard == WANTED


PLAN = """\
name: killed
roster: roster.yaml
input:
  list: %s
steps:
  - map:
      prompt: "Translate {{ item.lang }} {{ item.text }}"
      route: {by: item.lang, to: {de: ada, fr: bob}, else: cleo}
      concurrency: 3
  - reduce: {kind: count}
"""


def roster() -> str:
    line = '  - {{id: %s, kind: openai, model: %s, base_url: "{url}/v1", max_tokens: 50, %s}}\n'
    price = "price: {{input: 1, output: 1}}"
    return "members:\n" + "".join(line % (id, id, price) for id in ("ada", "bob", "cleo", "dora"))


@pytest.mark.parametrize("seed", seeds(range(2), quick=1))
def test_killed_and_resumed_each_item_keeps_its_member(tmp_path: Path, seed: int) -> None:
    heard: dict[str, set[str]] = {}

    def says(asked: Asked) -> Says:
        heard.setdefault(asked.model, set()).add(asked.prompt.split()[1])
        return Says()

    found = carried_through(tmp_path, PLAN % ITEMS, says, seed, roster=roster())
    found.check()
    assert (found.receipt.result, heard) == (24, WANTED)
    assert Counter(found.asked).total() >= 24


def test_the_preview_knows_all_who_are_asked_and_the_picture_says_who(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(PLAN % ITEMS)
    (tmp_path / "roster.yaml").write_text(roster().format(url="http://127.0.0.1:9"))
    plan = load_plan(tmp_path / "p.yaml")
    check_plan(plan, load_roster(tmp_path / "roster.yaml"))
    assert "by item.lang: de: ada; fr: bob; else cleo" in str(picture(plan))


@pytest.mark.parametrize(
    ("stated", "line", "said"),
    [
        ("{by: item.lang, to: {de: ada}, else: adda}", 8, "there is no member `adda`"),
        ("{by: item.lang, to: {de: ada}}", 8, "a route needs the field `else`"),
        ("{by: item.lang, to: {}, else: ada}", 8, "`to` needs a member for at least one value"),
        ("{by: steps.x.lang, to: {de: ada}, else: bob}", 8, "no earlier step of that name"),
        ("{by: item.lang, to: {de: ada}, else: bob}\n      member: ada", 9, "state `route` or `member`"),
    ],
)  # fmt: skip
def test_a_mistake_names_its_line(tmp_path: Path, stated: str, line: int, said: str) -> None:
    before = "{by: item.lang, to: {de: ada, fr: bob}, else: cleo}"
    (tmp_path / "p.yaml").write_text((PLAN % ITEMS).replace(before, stated))
    (tmp_path / "roster.yaml").write_text(roster().format(url="http://127.0.0.1:9"))
    with pytest.raises(BadInput) as refused:
        check_plan(load_plan(tmp_path / "p.yaml"), load_roster(tmp_path / "roster.yaml"))
    assert (refused.value.line, said in str(refused.value)) == (line, True), refused.value
