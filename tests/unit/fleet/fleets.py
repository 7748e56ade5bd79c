"""Fleets to try things on: a folder with a fleet.json, and a prompt for each worker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def worker(id: str, *depends_on: str, **more: Any) -> dict[str, Any]:
    """Of type write, unless it says otherwise."""
    parents = {"depends_on": list(depends_on)} if depends_on else {}
    return {"id": id, "type": "write", "task": f"the task of {id}", **parents, **more}


def write_fleet(root: Path, workers: list[dict[str, Any]], **top: Any) -> Path:
    """One line for each field at the top and for each worker, so that lines can be told."""
    root.mkdir(parents=True, exist_ok=True)
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in top.items()]
    listed = ",\n".join(json.dumps(one) for one in workers)
    body = ",\n".join([*lines, f'"workers": [\n{listed}\n]'])
    (root / "fleet.json").write_text("{\n" + body + "\n}\n")
    for one in workers:
        write_prompt(root, one["id"], f"Do {one['id']}.\n")
    return root


def write_prompt(root: Path, id: str, text: str) -> Path:
    file = root / "workers" / id / "prompt.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file
