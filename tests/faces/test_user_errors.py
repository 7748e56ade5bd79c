"""Mistakes in the user's own code: a run says in which line of which file, and goes on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import fanfold as ff
from fanfold.errors import BadInput, StoreError
from tests.faces.cli import fanfold
from tests.places import place

CODE = """\
def fine(item):
    return item["text"]

def member(item):
    return item["price"]

def gate(value):
    return value["price"]

def fold(parts):
    raise ValueError("no total")

async def waits(value):
    raise ValueError("too late")
"""
ROSTER = "members: [{id: m, kind: function, target: 'rules:fine'}]"
PLAN = """\
name: mistakes
input: {{list: [{{id: a, text: one}}, {{id: b, text: two}}]}}
steps:
  - map: {{member: m{more}}}
  - reduce: {reduce}
"""
WRONG = {
    "member": ("", "count", "KeyError: 'price' (rules.py:5)"),
    "gate": (
        ", gate: [{python: 'rules:gate'}]",
        "count",
        "the gate raised TypeError: string indices must be integers, not 'str' (rules.py:8)",
    ),
    "gate that waits": (
        ", gate: [{python: 'rules:waits'}]",
        "count",
        "the gate raised ValueError: too late (rules.py:14)",
    ),
    "reduce": (
        "",
        "{kind: python, target: 'rules:fold'}",
        "reduce: `fold` raised ValueError: no total (rules.py:11)",
    ),
}


def write(folder: Path, case: str) -> str:
    """A plan with one mistake in its code; what is said of it."""
    more, reduce, said = WRONG[case]
    roster = ROSTER.replace("fine", "member") if case == "member" else ROSTER
    (folder / "rules.py").write_text(CODE)
    (folder / "roster.yaml").write_text(roster)
    (folder / "plan.yaml").write_text(PLAN.format(more=more, reduce=reduce))
    return said


@pytest.mark.parametrize("case", WRONG)
def test_a_mistake_in_code_of_the_users_names_its_file_and_line(tmp_path: Path, case: str) -> None:
    said = write(tmp_path, case)
    ended = fanfold(tmp_path, "run", "plan.yaml", "--quiet")
    assert (ended.code, ended.err) == (1, "")
    assert said in ended.out


@pytest.mark.parametrize("case", WRONG)
def test_debug_shows_each_mistake_once_with_its_traceback(tmp_path: Path, case: str) -> None:
    """After the command too, and however many items stumble over it."""
    said = write(tmp_path, case)
    ended = fanfold(tmp_path, "run", "plan.yaml", "--quiet", "--debug")
    assert ended.code == 1
    assert ended.err.count("Traceback (most recent call last)") == 1
    line = said.rpartition(":")[2].rstrip(")")
    assert f'rules.py", line {line}, in ' in ended.err


def test_a_plan_that_sorts_by_a_field_that_no_reply_has_is_flagged(tmp_path: Path) -> None:
    write(tmp_path, "reduce")
    plan = PLAN.format(more="", reduce="{kind: sort, by: prise}")
    (tmp_path / "plan.yaml").write_text(plan)
    (tmp_path / "rules.py").write_text("def fine(item):\n    return {'price': 1}\n")
    ended = fanfold(tmp_path, "run", "plan.yaml", "--quiet")
    said = "flagged: reduce: no reply has the field `prise`: did you mean `price`?"
    assert (ended.code, ended.err) == (1, "") and said in ended.out


@pytest.mark.parametrize("fan_in", [None, 2])
def test_a_reducer_of_a_script_that_raises_pauses_the_run_and_nobody_is_asked_again(
    tmp_path: Path, fan_in: int | None
) -> None:
    asked: list[str] = []

    def answer(text: str) -> str:
        asked.append(text)
        return text

    def broken(parts: object) -> float:
        return 1 / 0

    async def main(reduce: Any) -> ff.Folded:
        members = [ff.function(answer)]
        async with ff.open_run("script", members=members, store=tmp_path / "store") as run:
            return await ff.map_reduce(run, ["a", "b", "c"], reduce=reduce, fan_in=fan_in)

    with pytest.raises(ff.RunStopped) as error:
        ff.run_sync(main(broken))
    assert str(error.value) == (
        f"paused: reduce: `broken` raised ZeroDivisionError: division by zero{place(broken)}; the replies"
        " are kept: correct it and run the script again, which asks for none of them again"
    )
    assert sorted(asked) == ["a", "b", "c"]
    assert fanfold(tmp_path, "status", "script", "--store", "store").out.split()[4] == "paused:"
    folded = ff.run_sync(main(ff.concat(",")))
    assert (folded.value, len(asked)) == ("a,b,c", 3)


def test_a_filter_in_a_script_names_its_line_too(tmp_path: Path) -> None:
    def keep(value: object) -> bool:
        return bool(1 / 0)

    async def main() -> ff.Folded:
        async with ff.open_run(
            "script", members=[ff.function(str)], store=tmp_path / "store"
        ) as run:
            return await ff.map_reduce(run, ["a", "b"], keep=keep)

    (why,) = ff.run_sync(main()).receipt.reasons
    assert (why.reason, why.items) == (
        f"the filter raised ZeroDivisionError: division by zero{place(keep)}",
        2,
    )


@pytest.mark.parametrize("words", ["status", "local status", "skill show"])
def test_every_command_takes_debug_after_its_name(tmp_path: Path, words: str) -> None:
    ended = fanfold(tmp_path, *words.split(), "--debug")
    assert "no such option" not in ended.err.lower()


async def _mapped(items: Any, store: Path) -> ff.Folded:
    async with ff.open_run("script", members=[ff.function(str)], store=store) as run:
        return await ff.map_reduce(run, items)


@pytest.mark.parametrize(
    ("items", "said"),
    [
        (
            {"id": "a"},
            "items must be a list or another iterable, not dict; of a single item [item]",
        ),
        (b"text", "items must be a list or another iterable, not bytes"),
        ("text", "items must be a list or another iterable, not str"),
    ],
)
def test_a_single_item_is_no_list_of_items(tmp_path: Path, items: Any, said: str) -> None:
    with pytest.raises(BadInput) as refused:
        ff.run_sync(_mapped(items, tmp_path / "store"))
    assert str(refused.value) == said


@pytest.mark.parametrize("what", ["not entered", "no run"])
def test_what_is_no_open_run_is_refused_with_the_way_to_one(tmp_path: Path, what: str) -> None:
    run: Any = None
    if what == "not entered":
        run = ff.open_run("script", members=[ff.function(str)], store=tmp_path / "store")

    async def main() -> ff.Folded:
        return await ff.map_reduce(run, ["a"])

    with pytest.raises(BadInput) as refused:
        ff.run_sync(main())
    assert str(refused.value) == (
        "map_reduce() needs a run that is open: async with open_run(…) as run: await map_reduce(run, …)"
    )


async def _called(store: Path, call: Callable[[ff.Run], Awaitable[Any]]) -> None:
    async with ff.open_run("script", members=[ff.function(str)], store=store) as run:
        await call(run)


CALLS: dict[str, tuple[Callable[[Any], Awaitable[Any]], str]] = {
    "swapped": (
        lambda run: ff.map_reduce([1, 2], run),  # type: ignore[arg-type]
        "map_reduce(): the run comes first: map_reduce(run, items)",
    ),
    "stages by name": (
        lambda run: ff.pipeline(run, ["a"], stages=[ff.stage("x")]),  # type: ignore[call-arg]
        "pipeline(): `stages` are given one by one, without a name: pipeline(run, items, *stages)",
    ),
    "unknown member": (
        lambda run: ff.map_reduce(run, ["a"], member="g"),
        "there is no member `g`: known: str",
    ),
}


@pytest.mark.parametrize("case", CALLS)
def test_a_pattern_that_is_called_the_wrong_way_is_refused_with_the_right_one(
    tmp_path: Path, case: str
) -> None:
    call, said = CALLS[case]
    with pytest.raises(BadInput) as refused:
        ff.run_sync(_called(tmp_path / "store", call))
    assert str(refused.value) == said


def test_a_run_is_opened_with_async_with(tmp_path: Path) -> None:
    opened: Any = ff.open_run("script", members=[ff.function(str)], store=tmp_path / "store")
    said = "a run is opened with `async with`: async with open_run"
    with pytest.raises(BadInput, match=said), opened:
        pass


def test_a_store_that_cannot_be_used_names_the_argument_of_scripts(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError) as refused:
        ff.run_sync(_mapped(["a"], tmp_path / "file"))
    assert str(refused.value) == f"{tmp_path / 'file'}: is a file, not a folder; use store=DIR"


def test_the_receipt_of_a_closed_run_is_its_closing_one(tmp_path: Path) -> None:
    async def main() -> tuple[ff.Run, ff.Folded]:
        async with ff.open_run(
            "script", members=[ff.function(str)], store=tmp_path / "store"
        ) as run:
            folded = await ff.map_reduce(run, ["a"])
        return run, folded

    run, folded = ff.run_sync(main())
    assert folded.receipt.status == "running"
    assert run.receipt() == run.closing
    assert run.receipt().status == "complete"


def test_a_function_that_takes_no_item_is_refused_at_once(tmp_path: Path) -> None:
    what = "must take one argument, the item, or two, the item and the ask"
    with pytest.raises(BadInput) as refused:
        ff.function(lambda: 1)
    assert str(refused.value) == f"function(): `<lambda>` {what}"
    write(tmp_path, "reduce")
    (tmp_path / "rules.py").write_text("def fine():\n    return 1\n\ndef fold(parts): return 1\n")
    ended = fanfold(tmp_path, "run", "plan.yaml", "--quiet")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.endswith(f"roster.yaml:1: target `rules:fine` {what}\n")
