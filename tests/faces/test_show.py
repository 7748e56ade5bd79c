"""`fanfold show RUN ITEM`: what was asked about one item, what came back, what it cost and why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from fanfold.testing.running import RunningServer, threaded_server
from fanfold.testing.script import Asked, Says
from tests.faces.cli import fanfold
from tests.faces.project import PRICE, write_function_project, write_items, write_project

GATE = "      gate:\n        - regex: '^good'\n      concurrency"


def strict(asked: Asked) -> Says:
    """`word 1` is answered badly at first, `word 2` always, and `word 3` with an escape sequence."""
    said = asked.raw.decode()
    again = "That reply was not accepted" in said
    if "word 2" in said or ("word 1" in said and not again):
        return Says(text="bad")
    return Says(text="good \x1b[2J\x1b]0;owned\x07" if "word 3" in said else "good")


class Project(NamedTuple):
    folder: Path
    server: RunningServer


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    top = tmp_path_factory.mktemp("show")
    with threaded_server(
        top / "books", price=PRICE, script="tests.faces.test_show:strict"
    ) as server:
        folder = top / "project"
        write_project(folder, server.url)
        plan = (folder / "plan.yaml").read_text().replace("      concurrency", GATE)
        (folder / "plan.yaml").write_text(plan)
        assert fanfold(folder, "run", "plan.yaml", "--quiet").code == 1
        (folder / "kept.yaml").write_text(plan.replace("name: talk", "name: kept\nkeep: prompts"))
        assert fanfold(folder, "run", "kept.yaml", "--quiet", "--fresh").code == 1
        yield Project(folder, server)


def shown(folder: Path, run: str, item: str) -> dict[str, Any]:
    ended = fanfold(folder, "show", run, item, "--json")
    assert (ended.code, ended.err) == (0, "")
    found: dict[str, Any] = msgspec.json.decode(ended.out)
    return found


def test_one_item_is_shown_from_its_input_to_its_cost(project: Project) -> None:
    ended = fanfold(project.folder, "show", "talk", "i0")
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0].startswith("i0 in talk (")
    assert lines[2] == "input: items.jsonl:1"
    assert "step map: passed" in lines
    at = lines.index("prompt to m, rendered again; it is what was sent")
    assert lines[at + 1] == "  Say word 0"
    assert lines[lines.index("reply of m (test-model)") + 1] == "  good"
    titles, attempt = lines[-2:]
    assert titles.split() == [
        "time",
        "member",
        "state",
        "cost",
        "took",
        "why",
        "this",
        "member",
        "error",
    ]
    assert attempt.split()[1:3] == ["m", "ok"]
    assert attempt.split()[-1] == "named"


def test_a_reply_that_was_kicked_back_is_shown_with_its_prompt_and_what_the_gate_said(
    project: Project,
) -> None:
    (step,) = shown(project.folder, "talk", "i1")["steps"]
    first, again = step["prompts"]
    assert (step["state"], step["calls"], step["reply"]["text"]) == ("passed", 2, "good")
    assert (first["state"], first["messages"][0]["content"]) == ("matches", "Say word 1")
    assert (first["reply"]["text"], first["reasons"]) == ("bad", ["the reply does not match ^good"])
    assert (again["state"], again["member"], again["reply"]) == ("matches", "m", None)
    assert [one["role"] for one in again["messages"]] == ["user", "assistant", "user"]
    assert [one["state"] for one in step["attempts"]] == ["ok", "ok"]


@pytest.mark.parametrize("keep", ["", "keep: prompts\n"])
def test_an_escalation_is_shown_with_the_replies_of_each_member(
    project: Project, tmp_path: Path, keep: str
) -> None:
    """The same question to two members: each with its own reply, also when nothing was kept."""
    folder = tmp_path / "project"
    write_project(folder, project.server.url)
    plan = (folder / "plan.yaml").read_text().replace("      concurrency", GATE)
    plan = plan.replace("      concurrency", "      escalate: [b]\n      concurrency")
    (folder / "plan.yaml").write_text(keep + plan)
    roster = folder / "roster.yaml"
    member = roster.read_text().partition("\n")[2]
    roster.write_text(
        roster.read_text() + member.replace("id: m", "id: b").replace("test-model", "better")
    )
    assert fanfold(folder, "run", "plan.yaml", "--quiet").code == 1
    (step,) = shown(folder, "talk", "i2")["steps"]
    prompts = step["prompts"]
    assert [one["member"] for one in prompts] == ["m", "m", "b"]
    assert [len(one["messages"]) for one in prompts] == [1, 3, 1]
    assert [one["reply"] and one["reply"]["text"] for one in prompts] == ["bad", "bad", None]
    assert (step["state"], step["member"], step["calls"]) == ("kicked", "b", 3)


def test_an_item_that_did_not_pass_says_why(project: Project) -> None:
    (step,) = shown(project.folder, "talk", "i2")["steps"]
    assert step["state"] == "kicked"
    assert step["reasons"] == ["the reply does not match ^good"]
    assert step["cost_usd"] > 0


def test_kept_prompts_are_shown_as_they_were_sent_whatever_became_of_the_input(
    project: Project, tmp_path: Path
) -> None:
    """All of them, with what the gate said in between."""
    text = (project.folder / "items.jsonl").read_text()
    try:
        (project.folder / "items.jsonl").unlink()
        found = shown(project.folder, "kept", "i1")
    finally:
        (project.folder / "items.jsonl").write_text(text)
    assert not found["input"]["known"]
    first, again = found["steps"][0]["prompts"]
    assert (first["state"], first["member"], again["state"]) == ("stored", "m", "stored")
    assert [one["content"] for one in first["messages"]] == ["Say word 1"]
    assert [one["role"] for one in again["messages"]] == ["user", "assistant", "user"]
    assert "does not match" in again["messages"][2]["content"]
    assert (first["reply"]["text"], again["reply"]) == ("bad", None)


def test_an_input_that_changed_since_is_not_passed_off_as_what_was_sent(
    project: Project, tmp_path: Path
) -> None:
    folder = tmp_path / "project"
    write_project(folder, project.server.url)
    assert fanfold(folder, "run", "plan.yaml", "--quiet").code == 0
    write_items(folder, ["another word"])
    (step,) = shown(folder, "talk", "i0")["steps"]
    assert step["prompts"][0]["state"] == "changed"
    ended = fanfold(folder, "show", "talk", "i0")
    assert "(the input has changed since)" in ended.out
    assert "so this is not what was sent" in ended.out
    ended = fanfold(folder, "show", "talk", "i5")
    assert "the input has changed since: it is not there any more" in ended.out
    (folder / "items.jsonl").unlink()
    assert "no such file" in fanfold(folder, "show", "talk", "i0").out


def test_nothing_in_it_steers_a_terminal(project: Project) -> None:
    ended = fanfold(project.folder, "show", "talk", "i3")
    assert "\\u001b[2J" in ended.out
    assert "\x1b" not in ended.out and "\x07" not in ended.out


def test_an_unknown_item_names_the_nearest(project: Project) -> None:
    ended = fanfold(project.folder, "show", "talk", "i9")
    assert (ended.code, ended.out) == (2, "")
    assert (
        ended.err == "fanfold: no item 'i9' in run talk; there are: i0, i1, i2, i3, i4, i5\n"
        or (ended.err.startswith("fanfold: no item 'i9' in run talk; did you mean 'i"))
    )


def test_looking_runs_no_code_of_the_users(tmp_path: Path) -> None:
    """Neither the functions of a plan nor the program that its items came from."""
    write_function_project(tmp_path, gate="python: 'shouting:check'")
    code = (tmp_path / "shouting.py").read_text()
    code = code + "\ndef check(value):\n    return True\n\nopen('ran', 'a').write('x')\n"
    (tmp_path / "shouting.py").write_text(code)
    items = "sh, -c, 'touch ran; cat items.jsonl'"
    plan = (tmp_path / "plan.yaml").read_text()
    (tmp_path / "plan.yaml").write_text(
        plan.replace("{jsonl: items.jsonl}", f"{{command: [{items}]}}")
    )
    assert fanfold(tmp_path, "run", "plan.yaml", "--quiet").code == 1
    (tmp_path / "ran").unlink()
    found = shown(tmp_path, "shout", "one")
    assert not (tmp_path / "ran").exists()
    assert found["input"]["data"] == {"id": "one", "text": "good"}
    (step,) = found["steps"]
    assert (step["reply"], step["member"]) == ({"text": "GOOD"}, "shout")
    assert step["prompts"] == [
        {"state": "matches", "messages": [], "note": "", "member": "", "reply": None, "reasons": []}
    ]


def test_tasks_of_a_graph_are_items_too(project: Project, tmp_path: Path) -> None:
    """With the answers of their parents in the prompt."""
    write_project(tmp_path, project.server.url)
    (tmp_path / "graph.yaml").write_text(
        "name: tasks\nsteps:\n  - graph:\n      tasks:\n"
        "        - {id: a, member: m, prompt: 'Say word 7'}\n"
        "        - {id: b, member: m, depends_on: [a], prompt: 'After {{ parents.a }}'}\n"
    )
    assert fanfold(tmp_path, "run", "graph.yaml", "--quiet").code == 0
    (step,) = shown(tmp_path, "tasks", "b")["steps"]
    (prompt,) = step["prompts"]
    assert (prompt["state"], prompt["messages"][0]["content"]) == ("matches", "After good")


def test_a_later_step_sees_the_replies_of_earlier_ones(project: Project, tmp_path: Path) -> None:
    write_project(tmp_path, project.server.url)
    plan = (tmp_path / "plan.yaml").read_text()
    second = "  - map: {name: more, member: m, prompt: 'More of {{ steps.map }}'}\n  - reduce"
    (tmp_path / "plan.yaml").write_text(plan.replace("  - reduce", second))
    assert fanfold(tmp_path, "run", "plan.yaml", "--quiet").code == 0
    _, step = shown(tmp_path, "talk", "i0")["steps"]
    (prompt,) = step["prompts"]
    assert (step["step"], prompt["state"]) == ("more", "matches")
    assert prompt["messages"][0]["content"] == "More of good"


def test_the_calls_of_voters_are_shown_below_their_step(project: Project, tmp_path: Path) -> None:
    write_project(tmp_path, project.server.url)
    plan = (tmp_path / "plan.yaml").read_text().replace("- map:", "- ensemble:\n      samples: 2")
    (tmp_path / "plan.yaml").write_text(plan.partition("  - reduce")[0])
    assert fanfold(tmp_path, "run", "plan.yaml", "--quiet").code == 0
    shown = fanfold(tmp_path, "show", "talk", "i0").out
    assert "\nstep ensemble: passed\n" in shown
    votes = shown.partition("\nstep ensemble.vote\n")[2]
    assert votes.splitlines()[1] == "attempts"
    assert "?" not in shown and "not known" not in shown


VOTERS = """\
def one(data): return "yes"
def two(data): return "Yes."
def three(data, ask): return "no" if ask.turns else "perhaps"
def four(data): return "perhaps"
"""
VOTE = """\
name: vote
roster: roster.yaml
input: {list: [{id: a, text: hi}, {id: b, text: ho}]}
steps:
  - ensemble: {name: v, members: [one, two, three, four], prompt: "Is {{ item.text }}?", revise: 1,
               gate: [regex: "^(yes|Yes.|no)$"]}
"""


def voted(folder: Path, plan: str, *options: str) -> None:
    (folder / "voters.py").write_text(VOTERS)
    names = ("one", "two", "three", "four")
    members = [f"- {{id: {name}, kind: function, target: 'voters:{name}'}}\n" for name in names]
    (folder / "roster.yaml").write_text("members:\n" + "".join(members))
    (folder / "vote.yaml").write_text(plan)
    ended = fanfold(folder, "run", "vote.yaml", "--quiet", *options)
    assert (ended.code, ended.err) == (0, "")


VOTED = """\
prompt to one, two, three and four, rendered again; it is what was sent
  Is hi?

votes
  one: yes
  two: Yes.
  three: no
  four: no vote: the reply does not match ^(yes|Yes.|no)$

prompt to three, rendered again; it is what was sent
  Is hi?

reply, which did not count
  perhaps
  kicked back: the reply does not match ^(yes|Yes.|no)$
"""


def test_of_a_vote_it_shows_who_said_what_and_what_decided(tmp_path: Path) -> None:
    voted(tmp_path, VOTE)
    said = fanfold(tmp_path, "show", "vote", "a").out
    assert VOTED in said
    assert said.endswith("\n\nanswer (by majority)\n  yes\n")
    (step,) = shown(tmp_path, "vote", "a")["steps"]
    assert (step["decided_by"], step["member"], step["reply"]) == ("majority", "", {"text": "yes"})
    votes = [(one["member"], one["counts"], one["answer"]) for one in step["votes"]]
    assert votes == [("one", True, "yes"), ("two", True, "Yes."), ("three", True, "no"),
                     ("four", False, None)]  # fmt: skip
    replies = [[prompt["reply"]["text"] for prompt in one["prompts"]] for one in step["votes"]]
    assert replies == [["yes"], ["Yes."], ["perhaps", "no"], ["perhaps", "perhaps"]]


def test_a_vote_on_one_question_is_shown_alike(tmp_path: Path) -> None:
    plan = VOTE.replace("input: {list: [{id: a, text: hi}, {id: b, text: ho}]}\n", "")
    voted(tmp_path, plan.replace("{{ item.text }}", "it"))
    said = fanfold(tmp_path, "show", "vote", "question").out
    assert "\n\ninput: vote.yaml (one question)\n\nstep v: passed\n" in said
    assert VOTED.replace("Is hi?", "Is it?") in said


def test_a_vote_has_only_those_who_were_asked(tmp_path: Path) -> None:
    voted(tmp_path, VOTE)
    early = VOTE.replace("revise: 1", "stop_early: true").replace(", three, four]", ", three]")
    voted(tmp_path, early.replace("name: vote", "name: early"), "--name", "early")
    said = fanfold(tmp_path, "show", "early", "a").out
    assert "prompt to one and two, rendered again" in said
    assert "votes\n  one: yes\n  two: Yes.\n\nanswer (by majority)\n  yes\n" in said


def test_samples_of_one_voter_are_told_apart(tmp_path: Path) -> None:
    voted(tmp_path, VOTE.replace("members: [one, two, three, four]", "member: one, samples: 2"))
    assert "votes\n  one#1: yes\n  one#2: yes\n" in fanfold(tmp_path, "show", "vote", "b").out


def test_where_only_code_of_the_user_can_judge_the_replies_no_voter_is_picked_out(
    tmp_path: Path,
) -> None:
    (tmp_path / "strict.py").write_text("def fits(value): return True\n")
    plan = VOTE.replace('gate: [regex: "^(yes|Yes.|no)$"]', "gate: [python: 'strict:fits']")
    voted(tmp_path, plan.replace(", four]", "]"))
    said = fanfold(tmp_path, "show", "vote", "a").out
    assert "prompt, rendered again; it is what was sent\n  Is hi?\n\nanswer (by majority)\n" in said


def test_a_dry_run_shows_the_first_prompt(project: Project) -> None:
    ended = fanfold(project.folder, "run", "plan.yaml", "--dry-run")
    assert ended.code == 0
    assert "\n\nthe first prompt (step map, item i0):\n  Say word 0\n\n" in ended.out


def test_keep_takes_prompts_and_nothing_else(project: Project) -> None:
    plan = (project.folder / "kept.yaml").read_text().replace("keep: prompts", "keep: promts")
    (project.folder / "wrong.yaml").write_text(plan)
    ended = fanfold(project.folder, "run", "wrong.yaml")
    assert ended.code == 2
    assert ended.err == "fanfold: wrong.yaml:2: unknown keep `promts`: did you mean `prompts`?\n"
    plan = plan.replace("keep: promts\n", "").replace("prompt:", "keep: prompts\n      prompt:")
    (project.folder / "wrong.yaml").write_text(plan)
    ended = fanfold(project.folder, "run", "wrong.yaml")
    assert ended.code == 2
    assert ended.err.endswith("to store prompts, state `keep: prompts` at the top of the plan\n")
