"""Reading a fleet.json: all it can say, its defaults, and what is refused with which words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fanfold.errors import BadInput
from fanfold.fleet.load import Cycle, is_fleet, load_fleet, outline
from fanfold.fleet.records import Fleet, FleetConfig, WorkerSpec
from tests.unit.fleet.fleets import worker, write_fleet, write_prompt

EVERYTHING: dict[str, Any] = {
    "fleet_name": "night.run-1",
    "fleet_id": "n1",
    "type": "dag",
    "status": "running",
    "launched_at": "2026-11-15T19:46:38Z",
    "killed_at": None,
    "config": {
        "max_concurrent": 2,
        "model": "haiku",
        "fallback_model": "sonnet",
        "provider": "codex",
        "reasoning_effort": "high",
        "launch_delay_seconds": 0.5,
        "max_budget_fleet": 7,
        "keep_panes_open": True,
        "record": True,
        "isolation": "worktree",
        "silence_seconds": 90,
        "timeout_seconds": 3600,
    },
    "workers": [
        {
            "id": "a",
            "type": "code-run",
            "task": 'say "hello"',
            "provider": "claude",
            "model": "opus",
            "max_turns": 30,
            "max_budget_usd": 0.25,
            "isolation": "none",
            "target_files": ["src/**"],
            "silence_seconds": 0,
            "timeout_seconds": 60,
            "status": "killed",
            "session_name": "fleet-x-a",
            "started_at": "2026-11-15T19:46:38Z",
            "killed_at": "2026-11-15T19:46:39Z",
        },
        {"id": "b_2.x-y", "type": "research", "depends_on": ["a", "a"], "reasoning_effort": "low"},
    ],
}


NAME = (
    "a name of letters, digits, `_`, `.` and `-` (at most 100) that begins with a letter, a digit or"
    " `_`"
)


def bare(fleet: Fleet) -> list[WorkerSpec]:
    """The workers without their prompts and places."""
    return [
        WorkerSpec(**{f: getattr(one, f) for f in one.__struct_fields__
                      if f not in ("line", "stated", "prompt")})
        for one in fleet.workers
    ]  # fmt: skip


def refused(root: Path) -> BadInput:
    with pytest.raises(BadInput) as raised:
        load_fleet(root)
    return raised.value


def said(root: Path) -> str:
    """The refusal, with the fleet's folder left out."""
    return str(refused(root)).replace(f"{root}/", "")


def test_everything_that_it_can_say(tmp_path: Path) -> None:
    (tmp_path / "fleet.json").write_text(json.dumps(EVERYTHING, indent=1))
    for id in ("a", "b_2.x-y"):
        write_prompt(tmp_path, id, "x")
    fleet = load_fleet(tmp_path)
    assert (fleet.name, fleet.id, fleet.type, fleet.root) == (
        "night.run-1", "n1", "dag", str(tmp_path.resolve()),
    )  # fmt: skip
    assert fleet.config == FleetConfig(
        max_concurrent=2, model="haiku", fallback_model="sonnet", provider="codex",
        reasoning_effort="high", launch_delay_seconds=0.5, max_budget_fleet=7.0,
        keep_panes_open=True, record=True, isolation="worktree", silence_seconds=90.0,
        timeout_seconds=3600.0,
    )  # fmt: skip
    assert bare(fleet) == [
        WorkerSpec(
            id="a", type="code-run", task='say "hello"', provider="claude", model="opus",
            fallback_model="sonnet", reasoning_effort="high", max_turns=30, max_budget_usd=0.25,
            isolation="none", target_files=("src/**",), silence_seconds=0.0, timeout_seconds=60.0,
        ),
        WorkerSpec(
            id="b_2.x-y", type="research", provider="codex", model="haiku", reasoning_effort="low",
            depends_on=("a",), isolation="worktree", silence_seconds=90.0, timeout_seconds=3600.0,
        ),
    ]  # fmt: skip


def test_what_is_not_said_is_as_in_the_original(tmp_path: Path) -> None:
    root = write_fleet(tmp_path, [{"id": "a"}, {"id": "b", "provider": "codex"}])
    fleet = load_fleet(root)
    assert (fleet.name, fleet.id, fleet.config) == ("fleet", "fleet", FleetConfig())
    assert FleetConfig() == FleetConfig(
        max_concurrent=5, model="sonnet", fallback_model="haiku", provider="claude",
        reasoning_effort=None, launch_delay_seconds=3.0, max_budget_fleet=0.0,
        keep_panes_open=False, record=False, isolation="none", silence_seconds=0.0,
        timeout_seconds=0.0,
    )  # fmt: skip
    assert bare(fleet) == [
        WorkerSpec(
            id="a", type="read-only", provider="claude", model="sonnet", fallback_model="haiku",
            max_turns=0, max_budget_usd=1.0,
        ),
        WorkerSpec(id="b", type="read-only", provider="codex", model=None, fallback_model=None),
    ]  # fmt: skip


def test_null_is_the_same_as_not_there_and_so_is_an_empty_effort(tmp_path: Path) -> None:
    empty = {"type": None, "model": None, "depends_on": None, "reasoning_effort": "", "task": ""}
    root = write_fleet(tmp_path, [{"id": "a", **empty}], config={"provider": None}, fleet_id=None)
    assert bare(load_fleet(root)) == bare(load_fleet(write_fleet(tmp_path, [{"id": "a"}])))


def test_a_fallback_equal_to_the_model_is_left_out(tmp_path: Path) -> None:
    root = write_fleet(tmp_path, [worker("a", model="haiku"), worker("b", model="sonnet")])
    assert [one.fallback_model for one in load_fleet(root).workers] == [None, "haiku"]


def test_a_fleet_of_type_worktree_isolates_its_workers(tmp_path: Path) -> None:
    root = write_fleet(tmp_path, [worker("a"), worker("b", isolation="none")], type="worktree")
    assert [one.isolation for one in load_fleet(root).workers] == ["worktree", "none"]


def test_it_is_named_by_its_folder_or_by_the_file(tmp_path: Path) -> None:
    root = write_fleet(tmp_path / "f", [worker("a")])
    assert load_fleet(root) == load_fleet(root / "fleet.json") == load_fleet(str(root))
    assert (is_fleet(root), is_fleet(root / "fleet.json")) == (True, True)
    assert (is_fleet(tmp_path), is_fleet(root / "none.json"), is_fleet(root / "workers")) == (
        False, False, False,
    )  # fmt: skip
    assert (
        str(refused(tmp_path))
        == f"{tmp_path}: holds no fleet.json; name a plan, or the folder of a fleet"
    )


def test_nothing_is_written(tmp_path: Path) -> None:
    root = write_fleet(tmp_path, [worker("a")])
    before = sorted(tmp_path.rglob("*"))
    load_fleet(root)
    assert sorted(tmp_path.rglob("*")) == before


# ── refused ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "id", ["../x", "a b", "", ".", "..", "-a", "a/b", ".hid", "/a", "a\n", "é", "x" * 101, 7, None]
)
def test_an_id_that_could_leave_its_folder_is_refused(tmp_path: Path, id: Any) -> None:
    (tmp_path / "fleet.json").write_text(json.dumps({"workers": [{"id": id}]}, indent=1))
    if id is None:
        assert said(tmp_path) == "fleet.json:3: a worker needs the field `id`"
    else:
        given = f"the text {id!r}" if isinstance(id, str) else f"the number {id}"
        given = "the text " + repr(id)[:41] + "…'" if id == "x" * 101 else given
        empty = "fleet.json:4: `id` is empty"
        assert said(tmp_path) == (
            empty if id == "" else f"fleet.json:4: `id` must be {NAME}, not {given}"
        )


@pytest.mark.parametrize("name", ["fleet_name", "fleet_id"])
def test_so_is_the_name_of_a_fleet(tmp_path: Path, name: str) -> None:
    root = write_fleet(tmp_path, [worker("a")], **{name: "../up"})
    assert said(root) == f"fleet.json:2: `{name}` must be {NAME}, not the text '../up'"


BAD = [
    ({"type": "readonly"}, "fleet.json:3: unknown type `readonly`: did you mean `read-only`?"),
    ({"type": "wizard"}, "fleet.json:3: unknown type `wizard`: known: code-run, orchestrator,"
     " read-only, research, reviewer, write"),
    ({"provider": "pi"}, "fleet.json:3: unknown provider `pi`: known: claude, codex"),
    ({"reasoning_effort": "max"},
     "fleet.json:3: unknown reasoning_effort `max`: known: high, low, medium"),
    ({"max_budget_usd": -1}, "fleet.json:3: `max_budget_usd` must be more than 0, not -1"),
    ({"max_budget_usd": 0}, "fleet.json:3: `max_budget_usd` must be more than 0, not 0"),
    ({"max_budget_usd": "1"}, "fleet.json:3: `max_budget_usd` must be a number, not the text '1'"),
    ({"max_budget_usd": float("nan")},
     "fleet.json:3: `max_budget_usd` must be a finite number, not the number nan"),
    ({"max_turns": 1.5}, "fleet.json:3: `max_turns` must be a whole number, not the number 1.5"),
    ({"timeout_seconds": -1}, "fleet.json:3: `timeout_seconds` must be 0 or more, not -1"),
    ({"max_turn": 3}, "fleet.json:3: unknown field `max_turn` in a worker: did you mean `max_turns`?"),
    ({"isolation": "container"},
     "fleet.json:3: unknown isolation `container`: known: none, worktree"),
    ({"target_files": ["../x"]},
     "fleet.json:3: `../x` in `target_files` must be below the fleet's folder"),
]  # fmt: skip


PLACES = [
    ({"at": "mill"}, "fleet.json:3: `at` is `workers`, {tags: […]} or ssh://HOST, not `mill`"),
    ({"at": "ssh://a b"},
     "fleet.json:3: `ssh://a b` is no host: write ssh://USER@HOST:PORT/FOLDER, or less of it"),
    ({"at": {"tag": "x"}}, "fleet.json:3: unknown field `tag` in a place: did you mean `tags`?"),
    ({"inputs": ["../x"]},
     "fleet.json:3: `inputs`: `../x` must be a path below the folder, without `..`"),
]  # fmt: skip
"""What no JSON Schema says."""


@pytest.mark.parametrize(("field", "words"), BAD + PLACES)
def test_a_wrong_field_of_a_worker(tmp_path: Path, field: dict[str, Any], words: str) -> None:
    assert said(write_fleet(tmp_path, [{"id": "a", **field}])) == words


@pytest.mark.parametrize(
    ("top", "words"),
    [
        (
            {"config": {"max_concurent": 3}},
            "fleet.json:2: unknown field `max_concurent` in config: did you mean `max_concurrent`?",
        ),
        (
            {"config": {"max_budget_fleet": -1}},
            "fleet.json:2: `max_budget_fleet` must be 0 or more, not -1",
        ),
        (
            {"config": {"max_concurrent": 0}},
            "fleet.json:2: `max_concurrent` must be 1 or more, not 0",
        ),
        (
            {"config": {"at": ["ssh://a", "b"]}},
            "fleet.json:2: `at` is `workers`, {tags: […]} or ssh://HOST, not `ssh://a, b`",
        ),
        ({"config": 3}, "fleet.json:2: config must be a mapping, not the number 3"),
        (
            {"fleetname": "x"},
            "fleet.json:2: unknown field `fleetname` in a fleet: did you mean `fleet_name`?",
        ),
        (
            {"type": "iterative"},
            "fleet.json:2: a fleet of type iterative runs in a loop, which is not supported; with"
            ' "dag" its workers run once',
        ),
    ],
)
def test_a_wrong_field_of_the_fleet(tmp_path: Path, top: dict[str, Any], words: str) -> None:
    assert said(write_fleet(tmp_path, [worker("a")], **top)) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "fleet.json: is empty"),
        ("[]", "fleet.json:1: a fleet must be a mapping, not a list"),
        ("{}", "fleet.json:1: a fleet needs the field `workers`"),
        ('{"workers": []}', "fleet.json:1: `workers` is empty; a fleet needs at least one"),
        ('{"workers": [3]}', "fleet.json:1: a worker must be a mapping, not the number 3"),
        ('{"workers": [],\n"workers": []}', "fleet.json:2: duplicate key `workers`"),
        ('{"workers": [{"id": "a",\n"id": "b"}]}', "fleet.json:2: duplicate key `id`"),
        ('{"workers": [],}', "fleet.json:1: broken JSON: "),
        ("{'workers': []}", "fleet.json:1: broken JSON: "),
        ('{"workers": [\n// x\n]}', "fleet.json:2: broken JSON: "),
    ],
)
def test_a_file_that_is_no_fleet(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "fleet.json").write_text(text)
    assert said(tmp_path).startswith(words)


def test_two_workers_with_one_id(tmp_path: Path) -> None:
    root = write_fleet(tmp_path, [worker("a"), worker("b"), worker("a")])
    assert said(root) == "fleet.json:5: duplicate worker `a`, first in line 3; rename one"


def test_the_word_that_means_every_worker_is_no_id(tmp_path: Path) -> None:
    assert said(write_fleet(tmp_path, [worker("all")])) == (
        "fleet.json:3: the id `all` means every worker in `fanfold kill`; choose another one"
    )


def test_a_dependency_that_is_not_there(tmp_path: Path) -> None:
    root = write_fleet(tmp_path, [worker("research-1"), worker("b", "research1")])
    assert said(root) == (
        "fleet.json:4: worker `b` depends on `research1`, which is not there: did you mean"
        " `research-1`?"
    )


def test_files_that_two_workers_claim(tmp_path: Path) -> None:
    claims = [worker("a", target_files=["docs/**", "src/*.ts"]), worker("b", target_files=["src/"])]
    assert said(write_fleet(tmp_path, claims)) == (
        "fleet.json:4: `src/` of worker `b` and `src/*.ts` of worker `a` can name the same file;"
        " give each file to one worker"
    )


def test_one_worker_may_name_a_file_twice(tmp_path: Path) -> None:
    root = write_fleet(tmp_path, [worker("a", target_files=["src/**", "src/a.py"])])
    assert load_fleet(root).workers[0].target_files == ("src/**", "src/a.py")


# ── cycles ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("workers", "ids", "line"),
    [
        ([worker("a", "b"), worker("b", "a")], ("a", "b"), 3),
        ([worker("r"), worker("c", "b", "r"), worker("a", "c"), worker("b", "a")],
         ("c", "a", "b"), 4),
    ],
)  # fmt: skip
def test_a_cycle_is_named_in_the_order_in_which_it_would_run(
    tmp_path: Path, workers: list[dict[str, Any]], ids: tuple[str, ...], line: int
) -> None:
    found = refused(write_fleet(tmp_path, workers))
    assert isinstance(found, Cycle)
    assert found.ids == ids
    assert str(found).splitlines() == [
        f"CYCLE:{','.join(ids)}",
        f"{tmp_path}/fleet.json:{line}: these workers wait for one another; take one of them out of"
        " a `depends_on`",
    ]


def test_a_worker_that_waits_for_itself_is_a_cycle_of_one(tmp_path: Path) -> None:
    found = refused(write_fleet(tmp_path, [worker("b"), worker("a", "b", "a")]))
    assert isinstance(found, Cycle)
    assert str(found).splitlines() == [
        "CYCLE:a",
        f"{tmp_path}/fleet.json:4: worker `a` depends on itself; take it out of its `depends_on`",
    ]


def test_a_cycle_is_found_before_the_prompts_are_looked_for(tmp_path: Path) -> None:
    text = json.dumps({"workers": [worker("a", "b"), worker("b", "a")]})
    (tmp_path / "fleet.json").write_text(text)
    assert isinstance(refused(tmp_path), Cycle)
    assert [path.name for path in tmp_path.iterdir()] == ["fleet.json"]


def test_the_shape_alone_needs_no_prompts(tmp_path: Path) -> None:
    (tmp_path / "fleet.json").write_text(json.dumps({"workers": [worker("a")]}))
    assert outline(tmp_path).workers[0].prompt == ""
