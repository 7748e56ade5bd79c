"""Tools of MCP servers, as the official SDK serves them: over stdio and over HTTP."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fanfold as ff
from fanfold.errors import BadInput
from fanfold.testing.running import RunningServer
from fanfold.testing.script import Asked, Says
from tests.flow.test_tools import gone, run
from tests.flow.test_tools import server as server
from tests.flow.tool_models import calling, script
from tests.waiting import LONG, however_slow, wait_until

PROGRAM = Path(__file__).parent / "mcp_tool_server.py"


def words(folder: Path) -> list[str]:
    return [sys.executable, str(PROGRAM), str(folder / "noted")]


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with subprocess.Popen(
        [*words(tmp_path), "http"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        wait_until(lambda: reachable(port))
        yield f"http://127.0.0.1:{port}/mcp"
        process.kill()


def reachable(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def stdio(folder: Path, **how: Any) -> Any:
    return ff.tool(mcp=words(folder), **{"timeout": LONG, **how})


def checked(folder: Path, server: RunningServer, tool: Any, kind: str) -> None:
    script.says = calling(
        [("add", {"a": 2, "b": 3}), ("note", {"word": "w"})], [("fails", {}), ("add", {"a": "x"})]
    )
    said, receipt = run(folder, server, kind, tools=[tool])
    added, noted, failed, refused = said.split(" | ")
    assert (added, noted) == ("5", "noted w")
    assert "fails" in json.loads(failed)["error"]
    assert "error" in json.loads(refused)
    assert (receipt.status, (folder / "noted").read_text()) == ("complete", "w\n")


@pytest.mark.parametrize("kind", ["openai", pytest.param("anthropic", marks=pytest.mark.slow)])
def test_over_stdio(tmp_path: Path, server: RunningServer, kind: str) -> None:
    checked(tmp_path, server, stdio(tmp_path), kind)


def test_over_http_and_a_model_reads_what_the_server_says_and_only_what_is_wanted(
    tmp_path: Path, server: RunningServer, url: str
) -> None:
    """Two runs by one server: it takes a second to start."""
    checked(tmp_path, server, ff.tool(mcp=url, timeout=LONG), "openai")
    seen: list[Any] = []

    def says(asked: Asked) -> Says:
        seen.extend(asked.body["tools"])
        return Says(text="done")

    script.says = says
    run(tmp_path, server, tools=[ff.tool(mcp=url, timeout=LONG, only=["add"])])
    (one,) = seen
    assert (one["function"]["name"], one["function"]["description"]) == (
        "add", "The sum of two numbers.",
    )  # fmt: skip
    assert set(one["function"]["parameters"]["properties"]) == {"a", "b"}


@pytest.mark.slow
def test_a_server_that_hangs_is_ended_with_its_children_and_started_again(
    tmp_path: Path, server: RunningServer
) -> None:
    def check(scale: float) -> None:
        """The one that is started again has as long to be there as the first one has to hang."""
        folder, seconds = tmp_path / f"{scale:g}", round(15 * scale)
        folder.mkdir()
        script.says = calling([("hangs", {})], [("add", {"a": 1, "b": 1})])
        try:
            said, _ = run(folder, server, tools=[stdio(folder, timeout=seconds)])
        except BadInput as slow:
            raise AssertionError(str(slow)) from slow
        late, added = said.split(" | ")
        assert (json.loads(late), added) == ({"error": f"no result within {seconds} s"}, "2")
        pids = [int(one) for one in (folder / "noted.pids").read_text().split()]
        assert len(pids) == 2
        wait_until(lambda: all(gone(pid) for pid in pids))

    however_slow(check)


@pytest.mark.slow
def test_of_ten_megabytes_a_model_sees_both_ends(tmp_path: Path, server: RunningServer) -> None:
    script.says = calling([("big", {})])
    said, _ = run(tmp_path, server, tools=[stdio(tmp_path, max_bytes=1000)])
    assert said.startswith("begin.") and said.endswith(".end") and len(said) < 1000


@pytest.mark.slow
def test_of_ten_megabytes_over_http(tmp_path: Path, server: RunningServer, url: str) -> None:
    script.says = calling([("big", {})])
    said, _ = run(tmp_path, server, tools=[ff.tool(mcp=url, max_bytes=1000, timeout=LONG)])
    assert "begin." in said and len(said) < 1000


@pytest.mark.slow
def test_a_server_that_dies_is_an_error_and_the_next_call_starts_another(
    tmp_path: Path, server: RunningServer
) -> None:
    script.says = calling([("dies", {})], [("add", {"a": 1, "b": 1})])
    said, _ = run(tmp_path, server, tools=[stdio(tmp_path)])
    dead, added = said.split(" | ")
    assert ("error" in json.loads(dead), added) == (True, "2")


@pytest.mark.slow
def test_a_server_sees_only_what_it_is_given(
    tmp_path: Path, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hidden")
    monkeypatch.setenv("GIVEN", "seen")
    script.says = calling([("secrets", {})])
    said, _ = run(tmp_path, server, tools=[stdio(tmp_path, env=["GIVEN"])])
    assert said == "GIVEN"


@pytest.mark.slow
def test_only_a_hint_makes_a_tool_one_without_effects(
    tmp_path: Path, server: RunningServer
) -> None:
    """Each item has its own call of the one that may have effects; the other is called once for all."""
    script.says = calling([("note", {"word": "x"}), ("add", {"a": 1, "b": 2})])
    items = [{"id": str(n), "text": "same"} for n in range(3)]
    said, receipt = run(tmp_path, server, items=items, tools=[stdio(tmp_path)])
    assert said == ["noted x | 3"] * 3
    assert (tmp_path / "noted").read_text() == "x\n" * 3
    assert receipt.calls == 2 + 3 + 1


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"only": ["ad"]}, "it has no tool `ad`: did you mean `add`?"),
        ({"mcp": ["no-such-server"]}, "there is no program `no-such-server`"),
        ({"mcp": [sys.executable, "-c", "print('no protocol'); import sys; sys.exit('no licence')"]},
         "no licence"),
        ({"mcp": [sys.executable, "-c", "import time; time.sleep(600)"], "timeout": 1},
         "no answer within 1 s"),
        ({"mcp": "http://127.0.0.1:1/mcp"}, "mcp http://127.0.0.1:1/mcp: "),
    ],
)  # fmt: skip
def test_a_server_that_cannot_be_had_is_refused_before_anything_is_asked(
    tmp_path: Path, server: RunningServer, fields: dict[str, Any], what: str
) -> None:
    with pytest.raises(BadInput) as found:
        run(
            tmp_path, server, tools=[ff.tool(**{"mcp": words(tmp_path), "timeout": LONG, **fields})]
        )
    assert what in str(found.value)
    assert server.books().asked == []
