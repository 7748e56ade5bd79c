"""Drives a real agent as orchestrator against a model server on loopback, and prints what came of it
as one JSON object. Run it where there is no other network: `agent_child.py PROGRAM FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from fanfold.testing.running import running_server
from tests.faces.cli import environment, fanfold
from tests.faces.desk import write_roster
from tests.faces.project import PRICE

CLAUDE = """\
  - id: claude
    kind: command
    cmd: [{program}, -p, --output-format, json, --model, claude-sonnet-4-5, --max-turns, "12",
          --permission-mode, dontAsk, "--setting-sources="]
    parse: claude-json
    delegate_args: [--mcp-config, "{{delegate_mcp_json}}", --strict-mcp-config,
                    --allowed-tools, "mcp__fanfold__menu,mcp__fanfold__delegate_many"]
    price: {{call: 5.0}}
    can_orchestrate: true
    can_delegate: false
    timeout: 120
"""


def quiet(folder: Path, url: str) -> dict[str, str]:
    """What keeps it to this machine and this folder."""
    scratch = folder / "tmp"
    scratch.mkdir()
    return {
        "TERM": "dumb", "TMPDIR": str(scratch), "CLAUDE_CODE_TMPDIR": str(scratch),
        "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "dummy", "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "CLAUDE_CODE_MAX_RETRIES": "2",
        "IS_SANDBOX": "1",
    }  # fmt: skip


def main(program: str, folder: Path) -> None:
    script = "tests.faces.scripts:orchestrates"
    with running_server(folder / "books", price=PRICE, script=script) as server:
        write_roster(folder, server.url, CLAUDE.format(program=program))
        env = quiet(folder, server.url)
        assert environment(folder, env)["HOME"] == str(folder)
        asked = fanfold(folder, "ask", "Do the three parts", "--budget", "20", "--json", **env)
        tree = fanfold(folder, "tree", "ask", "--json", "--all")
    found = {"code": asked.code, "out": asked.out, "err": asked.err, "tree": tree.out}
    sys.stdout.buffer.write(msgspec.json.encode(found))


main(sys.argv[1], Path(sys.argv[2]))
