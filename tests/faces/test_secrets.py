"""The value of a key is found nowhere: not in the store, the report, the output, the errors, nor in
any process's arguments, nor in what a command gets to see."""

from __future__ import annotations

from pathlib import Path

import pytest

from fanfold.testing.books import key_digest
from fanfold.testing.running import RunningServer, threaded_server
from tests.faces.cli import fanfold, new_process
from tests.faces.project import write_items

IN_VARIABLE = "sk-variable-7f3a9c51e0"
IN_FILE = "sk-file-2b8d46c7aa"
KEYS = (IN_VARIABLE, IN_FILE)

ROSTER = """\
members:
  - {{id: one, kind: openai, model: x, base_url: "{url}/v1", key: "env:ONE_KEY"}}
  - {{id: two, kind: anthropic, model: y, base_url: "{url}", key: "file:two.key"}}
  - {{id: env, kind: command, cmd: [env]}}
  - {{id: words, kind: command, cmd: [cat, /proc/self/cmdline, /proc/self/environ]}}
"""
STEP = "  - map: {{name: {member}, member: {member}, prompt: '{member} {{{{ item.text }}}}'}}\n"


def write_keyed_project(folder: Path, url: str, *members: str) -> None:
    """Three items go through each member, one after the other."""
    folder.mkdir()
    (folder / "two.key").write_text(IN_FILE + "\n")
    (folder / "roster.yaml").write_text(ROSTER.format(url=url))
    steps = "".join(STEP.format(member=member) for member in members)
    (folder / "plan.yaml").write_text(
        f"name: keyed\ninput: {{jsonl: items.jsonl}}\nsteps:\n{steps}  - reduce: collect\n"
    )
    write_items(folder, ["a", "b", "c"])


def leaks(folder: Path) -> list[str]:
    """Files that hold a key: the store with its write-ahead log, results, all that was printed."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "two.key"]
    assert any(path.name == "journal.db" for path in files)
    return [
        f"{path.relative_to(folder)}: {key}"
        for path in files
        for key in KEYS
        if key.encode() in path.read_bytes()
    ]


def arguments() -> dict[str, bytes]:
    """The command lines of all processes on this machine, by their numbers."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found[process.name] = (process / "cmdline").read_bytes()
        except OSError:  # it has just ended
            continue
    return found


def test_keys_that_work_are_used_and_left_nowhere(tmp_path: Path, server: RunningServer) -> None:
    folder = tmp_path / "project"
    write_keyed_project(folder, server.url, "one", "two", "env", "words")
    with new_process(folder, "run", "plan.yaml", "--json", ONE_KEY=IN_VARIABLE) as run:
        run.until(lambda: server.totals().in_flight == 3)
        assert (folder / ".fanfold" / "journal.db-wal").stat().st_size > 0
        assert leaks(folder) == []
        processes = arguments()
        assert b"plan.yaml" in processes[str(run.process.pid)]
        assert [args for args in processes.values() for key in KEYS if key.encode() in args] == []
        server.release()
        ended = run.end()
    used = {entry.key for entry in server.books().asked}
    assert (ended.code, ended.receipt["passed"]) == (0, 3)
    assert used == {key_digest(IN_VARIABLE), key_digest(IN_FILE)}
    assert "PATH=" in ended.out, "the commands did show their environment"
    assert "ONE_KEY" not in ended.out
    for words in (["report", "keyed"], ["status", "keyed", "-v"], ["status", "keyed", "--json"]):
        assert fanfold(folder, *words, ONE_KEY=IN_VARIABLE).code == 0
    assert fanfold(folder, "members", "--check", "--json", ONE_KEY=IN_VARIABLE).code == 0
    assert leaks(folder) == []


@pytest.mark.parametrize("member", ["one", "two"])
def test_a_server_that_repeats_a_bad_key_does_not_spread_it(tmp_path: Path, member: str) -> None:
    folder = tmp_path / "project"
    with threaded_server(tmp_path / "books", script="tests.faces.scripts:tells_the_key") as server:
        write_keyed_project(folder, server.url, member)
        ended = fanfold(folder, "--debug", "run", "plan.yaml", ONE_KEY=IN_VARIABLE)
        asked = len(server.books())
    assert ended.code == 4
    assert ended.out.splitlines()[0].endswith("Incorrect API key provided: [key].")
    assert 1 <= asked <= 3
    for words in (["report", "keyed"], ["status", "keyed", "-v"], ["status", "keyed", "--json"]):
        shown = fanfold(folder, *words).out.replace("\\", "")
        assert "Incorrect API key provided: [key]." in shown
    assert leaks(folder) == []


def test_a_key_that_no_header_can_carry_is_refused_without_being_repeated(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    with threaded_server(tmp_path / "books") as server:
        write_keyed_project(folder, server.url, "one")
        ended = fanfold(folder, "--debug", "run", "plan.yaml", ONE_KEY=f"{IN_VARIABLE}\x7f")
        assert len(server.books()) == 0
    assert ended.code == 4
    assert "the key contains a character that is not allowed in a header" in ended.out
    assert leaks(folder) == []
