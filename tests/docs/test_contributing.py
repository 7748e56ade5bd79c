"""What CONTRIBUTING.md says about adding a gate and a reducer: its changes apply, and work in a plan."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import ROOT, blocks

FILES = {
    "says.py": "def say(item):\n    return item\n",
    "roster.yaml": "members:\n  - {id: say, kind: function, target: 'says:say'}\n",
    "plan.yaml": """
name: longest
input: {list: ["Fan out", "Fold it all in", "Fan the work out and fold the answers in"]}
steps:
  - map: {member: say, gate: [{max_words: {most: 4}}], revise: 0}
  - reduce: longest
""",
}


def test_the_changes_apply_to_what_is_here_and_a_plan_uses_them(tmp_path: Path) -> None:
    changes = [one.text for one in blocks(ROOT / "CONTRIBUTING.md") if one.language == "diff"]
    assert len(changes) == 2
    for name in ("docs", "tests/unit/gates", "tests/unit/patterns", "src/fanfold"):
        unneeded = shutil.ignore_patterns("__pycache__", "apps")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=unneeded)
    for change in changes:
        apply = ["git", "apply", "-C1", "-"]
        done = subprocess.run(apply, input=change, cwd=tmp_path, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
    assert used(tmp_path) == {"result": "Fold it all in", "passed": 2, "kicked": 1}


def used(folder: Path) -> dict[str, object]:
    """What the plan gives with the package as it is in this folder."""
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "fanfold",
        "run",
        "plan.yaml",
        "--json",
        "--roster",
        "roster.yaml",
    ]
    env = {
        **os.environ,
        "PYTHONPATH": str(folder / "src"),
    }
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, ""), "one item did not pass"
    receipt = json.loads(done.stdout)
    return {name: receipt[name] for name in ("result", "passed", "kicked")}
