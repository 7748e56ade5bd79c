"""Tasks of a graph as a script states them: what they become, and what is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fanfold.errors import BadInput
from fanfold.observe.script import open_run
from fanfold.patterns.arguments import ask_member
from fanfold.patterns.graph import check_reads, graph, node
from fanfold.testing.member import Scripted
from fanfold.work.ask import Reply
from fanfold.work.task import Who


def test_a_node_holds_what_was_stated() -> None:
    made = node("b", "Sum {{ parents.a }}", depends_on=["a", "a"], weight=3, member="m", revise=0)
    assert (made.id, made.depends_on, made.partial, made.weight) == ("b", ("a",), False, 3)
    assert (made.terms.step, made.terms.who, made.terms.revise) == ("graph", Who(("m",)), 0)
    assert (made.by, made.data, made.stated) == (ask_member, None, {"member": "m", "revise": 0})


def test_one_parent_may_stand_alone() -> None:
    assert node("b", depends_on="alpha").depends_on == ("alpha",)


@pytest.mark.parametrize(
    ("data", "fields"),
    [
        (None, {"id": "a"}),
        ({"topic": "x"}, {"topic": "x", "id": "a"}),
        ("plain", {"data": "plain", "id": "a"}),
        ({"id": "other"}, {"id": "a"}),
    ],
)
def test_the_fields_of_its_data_are_names_in_the_prompt(data: Any, fields: dict[str, Any]) -> None:
    made = node("a", " ".join(f"{{{{ {name} }}}}" for name in fields), data=data)
    assert made.fields() == fields


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"id": ""}, "the id of a task is a text, not ''"),
        ({"id": 3}, "the id of a task is a text, not 3"),
        ({"id": "a", "depends_on": [1]}, "the id of a task is a text, not 1"),
        ({"id": "a", "partial": "some"}, "the `partial` of task `a` is True, False or 'always', not 'some'"),
        ({"id": "a", "weight": -1}, "the `weight` of task `a` is a number from 0 on, not -1"),
        ({"id": "a", "weight": True}, "the `weight` of task `a` is a number from 0 on, not True"),
        ({"id": "a", "weight": float("nan")}, "the `weight` of task `a` is a number from 0 on, not nan"),
        (
            {"id": "a", "data": {"parents": 1}},
            "task `a`: `parents` is not free as a name in `data`; rename it",
        ),
        ({"id": "a", "dependson": []}, "node() has no argument `dependson`: did you mean `depends_on`?"),
        ({"id": "a", "step": "s"}, "task `a` cannot have a `step` of its own; give it to the graph"),
        (
            {"id": "a", "concurrency": 2},
            "task `a` cannot have a `concurrency` of its own; give it to the graph",
        ),
        (
            {"id": "a", "prompt": "{{ topic }}"},
            "prompt:1: template: `topic` is not defined: known: id, missing, parents",
        ),
    ],
)  # fmt: skip
def test_a_task_that_cannot_be_is_refused(stated: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as caught:
        node(**stated)
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("prompt", "parent", "hint"),
    [
        ("{{ parents.ab }}", "ab", "; did you mean `abc`?"),
        ("{{ parents['x-y'] }}", "x-y", "; known: abc, d"),
    ],
)
def test_a_prompt_reads_only_parents(prompt: str, parent: str, hint: str) -> None:
    with pytest.raises(BadInput) as caught:
        check_reads([node("t", prompt, depends_on=["abc", "d"])])
    assert str(caught.value) == (
        f"the prompt of task `t` reads `parents.{parent}`, on which it does not depend:"
        f" add it to `depends_on`{hint}"
    )


def test_a_prompt_may_read_its_parents_in_any_way() -> None:
    check_reads(
        [
            node("t", '{{ parents["a-b"] }} {{ parents.c }}', depends_on=["a-b", "c"]),
            node("u", "{% for id in parents %}{{ id }}{% endfor %}", depends_on=["c"]),
            node("v", "{{ parents.c | default('-') }}", depends_on=["c"], partial=True),
            node("w"),
        ]
    )


@pytest.mark.parametrize(
    ("tasks", "how", "said"),
    [
        ([{"id": "a", "depends_on": ["b"]}, {"id": "b", "depends_on": ["a"]}], {}, "CYCLE:a,b"),
        ([{"id": "a"}, {"id": "a"}], {}, "duplicate task id `a`"),
        ([{"id": "a", "depends_on": ["a"]}], {}, "CYCLE:a"),
        ([{"id": "alpha"}, {"id": "b", "depends_on": ["alhpa"]}], {}, "did you mean `alpha`?"),
        ([{"id": "a", "prompt": "x"}, {"id": "b", "prompt": "{{ parents.a }}"}], {}, "`depends_on`"),
        ([{"prompt": "x"}], {}, "task 0 needs the field `id`"),
        (["a"], {}, "task 0 must be a node or a dict, not str"),
        ([{"id": "a"}], {"concurrency": 0}, "`concurrency` must be 1 or more, not 0"),
        ([{"id": "a"}], {"memeber": "m"}, "graph() has no argument `memeber`: did you mean `member`?"),
        ([{"id": "a", "member": "nobdy"}, {"id": "b"}], {}, "there is no member `nobdy`"),
        ([{"id": "b"}, {"id": "a", "member": "nobdy"}], {}, "there is no member `nobdy`"),
        ([{"id": "a", "prompt": "x", "data": {"x": object()}}], {}, "not plain JSON"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_before_anything_is_planned_or_asked(
    tmp_path: Path, tasks: list[Any], how: dict[str, Any], said: str
) -> None:
    member = Scripted(lambda ask, n: Reply("fine"))

    async def main() -> None:
        async with open_run("bad", members=[member], store=tmp_path) as run:
            with pytest.raises(BadInput) as caught:
                await graph(run, tasks, **how)
            assert said in str(caught.value) and len(str(caught.value).splitlines()) <= 2
            assert run.statistics().planned == 0

    asyncio.run(main())
    assert member.asked == []
