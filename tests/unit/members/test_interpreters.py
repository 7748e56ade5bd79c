"""The text of an item is data: no command may run it, or let it choose what is run."""

from __future__ import annotations

import pytest

from fanfold.errors import BadInput
from fanfold.members.command import CommandFields
from fanfold.members.entry import read_entry
from fanfold.work.document import Node

RUN = [
    "bash -c {prompt}", "bash -o posix -c {prompt}", "bash -lc {prompt}", "sh -ec {prompt}",
    "bash -eo pipefail -c {prompt}", "bash -c -x {prompt}", "bash +o posix -c {prompt}",
    "bash --rcfile x -c {prompt}", "/bin/dash -c {prompt}", "zsh -fc {prompt}", "sh -c x{prompt}",
    "busybox sh -c {prompt}", "env bash -c {prompt}", "env -i A=1 sh -c {prompt}",
    "env -S {prompt}", "env {prompt}", "timeout 5 {prompt}", "nice -n 5 {prompt}", "xargs {prompt}",
    "nice -n 5 bash -c {prompt}", "timeout 5 sh -c {prompt}", "sudo -u x sh -c {prompt}",
    "python -c {prompt}", "python3 -I -c {prompt}", "python3.12 -W ignore -c {prompt}",
    "python3 -c{prompt}", "python3 -m {prompt}", "python3 {prompt}", "bash {prompt}", "sh -- {prompt}",
    "perl -e {prompt}", "perl -ne {prompt}", "perl -M{prompt}", "perl -I lib -E {prompt}",
    "node -e {prompt}", "node --eval {prompt}", "node --eval={prompt}", "node -p {prompt}",
    "node --require {prompt} x.js", "ruby -e {prompt}", "ruby -ne {prompt}", "php -r {prompt}",
    "lua -e {prompt}", "Rscript -e {prompt}", "osascript -e {prompt}", "deno eval {prompt}",
    "awk {prompt}", "awk -v a=b {prompt}", "gawk -e {prompt}", "sed {prompt}", "sed -e {prompt}",
    "ssh host {prompt}", "ssh host run {prompt}", "su -c {prompt}", "watch {prompt}",
    "pwsh -Command {prompt}", "cmd /c {prompt}", "script -c {prompt}",
]  # fmt: skip
DATA = [
    "python3 count.py {prompt}", "python3 tool.py -c {prompt}", "bash script.sh {prompt}",
    "bash -c code name {prompt}", "bash -o posix -c code name {prompt}", "sh -ec code {prompt}",
    "python3 -c code {prompt}", "python3 -m tool {prompt}", "python3 -I -m tool --text {prompt}",
    "perl -e code {prompt}", "node app.js {prompt}", "node -e code {prompt}", "awk code {prompt}",
    "env A=1 tool {prompt}", "timeout 5 tool {prompt}", "claude -p {prompt}", "tool -c {prompt}",
    "tool --text={prompt}", "env python3 count.py {prompt}", "perl count.pl -e {prompt}",
    "bash /opt/x/run.sh -c {prompt}", "llm -m model {prompt}", "sh script.sh --eval {prompt}",
]  # fmt: skip


def read(line: str) -> tuple[str, ...]:
    words = line.split(" ")
    top = Node({"id": "m", "kind": "command", "cmd": words}, "roster.yaml", {("cmd",): 4})
    fields = read_entry(top).fields
    assert isinstance(fields, CommandFields)
    return tuple(fields.cmd)


@pytest.mark.parametrize("line", RUN)
def test_a_command_that_would_run_the_text_is_refused_with_its_line(line: str) -> None:
    with pytest.raises(BadInput) as refused:
        read(line)
    assert str(refused.value).startswith("roster.yaml:4: `cmd`: ")
    assert "stdin" in refused.value.what or "later argument" in refused.value.what


@pytest.mark.parametrize("line", DATA)
def test_a_command_that_is_given_the_text_is_accepted(line: str) -> None:
    assert read(line) == tuple(line.split(" "))
