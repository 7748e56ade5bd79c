"""What docs/teams.md says of roles: with the grants that it shows, a worker takes asks and reads nothing else
of the store, and a reader reads."""

from __future__ import annotations

import re
import secrets
import sys
from pathlib import Path

import pytest

from tests import postgres
from tests.docs.pages import ROOT
from tests.faces.cli import fanfold, started
from tests.faces.project import write_items

MEMBER = "members: [{{id: m, kind: command, cmd: [{}, -c, 'print(1)']{}}}]"
PLAN = """\
name: talk
input: {jsonl: items.jsonl, id: id}
steps:
  - map: {prompt: "{{ item.text }}", member: m}
"""


def granted(role: str, schema: str, name: str) -> str:
    """The statements of the page, for this role and schema."""
    page = (ROOT / "docs" / "teams.md").read_text()
    (found,) = re.findall(rf"```sql\n(-- {name}\n.*?)```", page, re.DOTALL)
    return found.replace("ROLE", role).replace("fanfold", schema)


def test_the_roles_of_workers_and_readers_can_do_what_the_page_says(tmp_path: Path) -> None:
    server, schema = postgres.server(), f"s{secrets.token_hex(6)}"
    place, run, mill = server.place(schema), tmp_path / "run", tmp_path / "mill"
    for folder in (run, mill):
        folder.mkdir()
    (run / "plan.yaml").write_text(PLAN)
    (run / "roster.yaml").write_text(MEMBER.format(sys.executable, ", at: workers"))
    (mill / "workers.yaml").write_text(MEMBER.format(sys.executable, ""))
    write_items(run, ["one", "two"])
    fanfold(run, "workers", "--queue", place)
    names = {}
    for name in ("worker", "reader"):
        role = names[name] = f"{name}_{schema}"
        server.run(f"create role {role} login")
        server.run(granted(role, schema, name))
    theirs = place.replace("fanfold@", f"{names['worker']}@")
    with started(mill, "worker", "--queue", theirs, "--roster", "workers.yaml") as worker:
        worker.until_it_says("takes asks for m")
        ended = fanfold(run, "run", "plan.yaml", "--json", "--store", place)
    assert (ended.code, ended.receipt["passed"]) == (0, 2), ended
    for table in ("replies", "blobs", "runs", "outcomes", "prompts"):
        with pytest.raises(Exception, match="permission denied"):
            server.run(f"set role {names['worker']}; select * from {schema}.{table}")
    looks = place.replace("fanfold@", f"{names['reader']}@")
    shown = fanfold(run, "status", "--store", looks)
    assert (shown.code, "talk" in shown.out) == (0, True), shown
    with pytest.raises(Exception, match="permission denied"):
        server.run(f"set role {names['reader']}; delete from {schema}.runs")
