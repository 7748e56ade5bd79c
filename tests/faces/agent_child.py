"""Drives a real agent as orchestrator against a model server on loopback, and prints what came of it
as one JSON object. Run it where there is no other network: `agent_child.py WHO PROGRAM FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from fanfold.testing.running import threaded_server
from tests.faces.cli import environment, fanfold
from tests.faces.codex_config import CODEX_CONFIG
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
    timeout: 600
"""

CODEX = """\
  - id: codex
    kind: codex
    program: {program}
    model: gpt-5.5
    env: {{CODEX_HOME: {folder}/codex, FAKE_API_KEY: "env:FAKE_API_KEY"}}
    price: {{input: 1.25, output: 10.0, cache_read: 0.125}}
    max_budget_usd: 5
    can_orchestrate: true
    can_delegate: false
"""
COMMAND = """\
  - id: codex-command
    kind: command
    cmd: [{program}, exec, -m, gpt-5.5, -s, read-only, --skip-git-repo-check,
          -c, analytics.enabled=false, -c, check_for_update_on_startup=false,
          -c, features.plugins=false, -c, features.apps=false, -c, agents.enabled=false, "-"]
    delegate_args:
      - -c
      - 'mcp_servers.fanfold={{command="{{delegate_mcp_command}}",
        required=true, startup_timeout_sec=600, tool_timeout_sec=3600,
        default_tools_approval_mode="approve"}}'
    price: {{call: 5.0}}
    can_orchestrate: true
    can_delegate: false
    timeout: 600
"""
ROSTERS = {"claude": CLAUDE, "codex": CODEX, "codex-command": COMMAND}


def quiet(folder: Path, url: str) -> dict[str, str]:
    """What keeps it to this machine and this folder."""
    scratch = folder / "tmp"
    scratch.mkdir()
    (folder / "codex").mkdir()
    (folder / "codex" / "config.toml").write_text(CODEX_CONFIG.format(url=url))
    return {
        "CODEX_HOME": str(folder / "codex"), "FAKE_API_KEY": "dummy",
        "TERM": "dumb", "TMPDIR": str(scratch), "CLAUDE_CODE_TMPDIR": str(scratch),
        "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "dummy", "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "CLAUDE_CODE_MAX_RETRIES": "2",
        "IS_SANDBOX": "1",
    }  # fmt: skip


def main(who: str, program: str, folder: Path) -> None:
    script = "tests.faces.scripts:orchestrates"
    with threaded_server(folder / "books", price=PRICE, script=script) as server:
        write_roster(folder, server.url, ROSTERS[who].format(program=program, folder=folder))
        env = quiet(folder, server.url)
        assert environment(folder, env)["HOME"] == str(folder)
        asked = fanfold(folder, "ask", "Do the three parts", "--budget", "20", "--json", **env)
        tree = fanfold(folder, "tree", "ask", "--json", "--all")
    found = {"code": asked.code, "out": asked.out, "err": asked.err, "tree": tree.out}
    sys.stdout.buffer.write(msgspec.json.encode(found))


main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
