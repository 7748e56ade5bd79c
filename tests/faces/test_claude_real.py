"""The real claude, driven by its dialect against a model server on loopback, judged by its files and
the server's books. It is not part of the project: `make agents` fetches it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.faces.claude_runs import Ran
from tests.faces.test_agents import ALONE, ROOT, alone, program
from tests.waiting import LONG

pytestmark = pytest.mark.slow

SECONDS = 3 * LONG  # for all of them, of which each has as long
RUNS = Path(__file__).with_name("claude_runs.py")
LAST_CALL = 15_000 * 3_750 + 32_000 * 15_000  # nano-dollars: its context, and the longest reply


class Found(msgspec.Struct):
    """`out` are the files in a folder that none of them works in."""

    ran: dict[str, Ran]
    out: list[str]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """All cases, one after the other, in a network of their own."""
    alone()
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    }
    folder = tmp_path_factory.mktemp("claude")
    command = [*ALONE, sys.executable, str(RUNS), program("claude"), str(folder)]
    ended = subprocess.run(command, env=env, capture_output=True, timeout=SECONDS)
    assert ended.returncode == 0, ended
    return msgspec.json.decode(ended.stdout, type=Found)


def test_what_ended_by_itself_cost_what_the_books_say(found: Found) -> None:
    """To the nano-dollar, with a stated price as well as by its own figures, and live as well: only
    a reply that it gave up at its budget's end is not counted before its result."""
    ended = {name: ran for name, ran in found.ran.items() if ran.code >= 0 and ran.asked}
    assert len(ended) == 19
    assert {name: ran.cost for name, ran in ended.items()} == {
        name: ran.bill for name, ran in ended.items()
    }
    assert all(ran.exact for ran in ended.values())
    live = {name: ran.live or 0 for name, ran in ended.items() if name != "budget"}
    assert live == {name: ended[name].bill for name in live}


def test_one_call_gives_no_more_than_it_may(found: Found) -> None:
    assert {limit for ran in found.ran.values() for limit in ran.output} == {7_000}


@pytest.mark.parametrize(
    ("case", "tools", "files"),
    [
        ("read-only", "Glob Grep Read", {}),
        ("plain", "Glob Grep Read", {}),
        ("write", "Edit Glob Grep NotebookEdit Read Write", {"here.txt": "found it"}),
        ("code-run", "Bash Edit Glob Grep NotebookEdit Read Write", {"ran.txt": "ran\n"}),
        ("reviewer", "Read Write", {"verdict.md": "found it"}),
        ("research", "Glob Grep Read WebFetch WebSearch Write", {"found.md": "found it"}),
        ("orchestrator", "Bash Glob Grep Read Write", {"ran.txt": "ran\n"}),
        ("git only", "Bash", {}),
        ("no tools", "", {}),
    ],
)
def test_it_does_what_its_type_allows_and_no_more(
    found: Found, case: str, tools: str, files: dict[str, str]
) -> None:
    ran = found.ran[case]
    assert (ran.made, ran.text, ran.code) == ("Reply", "all done", 0)
    assert (ran.tools, ran.files) == (tools.split(), files)


def test_nobody_wrote_elsewhere_but_who_may(found: Found) -> None:
    """`write` did, to an absolute path; read-only and plain tried by three ways."""
    assert found.out == ["there.txt"]


def test_a_tool_that_is_there_but_not_allowed_so_is_denied(found: Found) -> None:
    ran = found.ran["git only"]
    assert (ran.denied, ("system", "denied: Bash") in ran.told) == (("Bash",), True)


@pytest.mark.parametrize(
    ("case", "made", "scope", "text"),
    [
        ("budget", "Terminal", "ask", "w: stopped at its budget of $0.5"),
        ("turns", "Terminal", "ask", "w: stopped at its limit of turns: 2"),
        ("api error", "Transient", "", "w: API Error: 500 Internal server error."),
        ("bad key", "Terminal", "pool", "w: Invalid API key"),
        ("schema wrong", "InvalidReply", "", "w: Failed to provide valid structured output"),
        ("schema never", "InvalidReply", "", "w: it never gave the data that the schema asks for"),
        ("session in use", "Terminal", "ask", "w: exit code 1 without output"),
    ],
)
def test_failures(found: Found, case: str, made: str, scope: str, text: str) -> None:
    ran = found.ran[case]
    assert (ran.made, ran.scope, ran.lost) == (made, scope, False)
    assert ran.text.startswith(text), ran


def test_it_tells_of_its_retries(found: Found) -> None:
    ran = found.ran["api error"]
    assert (ran.retries, ran.asked) == (1, 2)
    assert ("retry", "retry 1 of 1 in 0.5 s: server_error (500)") in [
        (kind, text.replace("0.6 s", "0.5 s")) for kind, text in ran.told
    ]


def test_a_refusal_is_for_the_gate(found: Found) -> None:
    assert (found.ran["refusal"].made, found.ran["refusal"].finish) == ("Reply", "refusal")


def test_data_by_a_schema(found: Found) -> None:
    assert (found.ran["schema"].made, found.ran["schema"].data) == ("Reply", {"n": 3})


def test_killed_by_a_stranger_it_is_in_doubt_with_its_session(found: Found) -> None:
    """Its second call was under way: it counts as one of the context as it stood, not of a window."""
    ran = found.ran["killed"]
    assert (ran.made, ran.lost, ran.code, ran.exact) == ("MemberError", True, -9, False)
    assert "ended by signal 9 without a result; its session is 11111111-" in ran.text
    assert ran.cost is not None and ran.bill < ran.cost < ran.bill + LAST_CALL


def test_a_session_that_is_gone_on_with_costs_only_its_own_part(found: Found) -> None:
    first, second = found.ran["own figures"], found.ran["resumed"]
    assert (second.made, second.asked, second.cost) == ("Reply", 1, second.bill)
    assert second.cost is not None and first.cost is not None and second.cost < first.cost
