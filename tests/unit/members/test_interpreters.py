"""The text of an item is data: no command may run it, or let it choose what is run."""

from __future__ import annotations

import pytest

from fanfold.errors import BadInput
from fanfold.members.command import CommandFields
from fanfold.members.entry import read_entry
from fanfold.members.interpreters import run_as_code
from fanfold.work.document import Node

RUN = [
    "bash -c {prompt}", "bash -o posix -c {prompt}", "bash -lc {prompt}", "sh -ec {prompt}",
    "bash -eo pipefail -c {prompt}", "bash -c -x {prompt}", "bash +o posix -c {prompt}",
    "bash --rcfile x -c {prompt}", "/bin/dash -c {prompt}", "zsh -fc {prompt}", "sh -c x{prompt}",
    "busybox sh -c {prompt}", "env bash -c {prompt}", "env -i A=1 sh -c {prompt}", "env -S {prompt}",
    "env {prompt}", "timeout 5 {prompt}", "nice -n 5 {prompt}", "xargs {prompt}",
    "nice -n 5 bash -c {prompt}", "timeout 5 sh -c {prompt}", "sudo -u x sh -c {prompt}",
    "python -c {prompt}", "python3 -I -c {prompt}", "python3.12 -W ignore -c {prompt}",
    "python3 -c{prompt}", "python3 -m {prompt}", "python3 {prompt}", "bash {prompt}", "sh -- {prompt}",
    "perl -e {prompt}", "perl -ne {prompt}", "perl -M{prompt}", "perl -I lib -E {prompt}",
    "node -e {prompt}", "node --eval {prompt}", "node --eval={prompt}", "node -p {prompt}",
    "node --require {prompt} x.js", "ruby -e {prompt}", "ruby -ne {prompt}", "php -r {prompt}",
    "lua -e {prompt}", "Rscript -e {prompt}", "osascript -e {prompt}", "deno eval {prompt}",
    "awk {prompt}", "awk -v a=b {prompt}", "gawk -e {prompt}", "sed {prompt}", "sed -e {prompt}",
    "ssh host {prompt}", "ssh host run {prompt}", "su -c {prompt}", "watch {prompt}",
    "pwsh -Command {prompt}", "cmd /c {prompt}", "script -c {prompt}", "perl -Mstrict -E {prompt}",
    "perl -0777 -ne {prompt}", "perl -i.bak {prompt}", "node -pe {prompt}", "deno run -A {prompt}",
    "flock F -c {prompt}", "flock F {prompt}", "sudo -u x {prompt}", "sudo -nu x {prompt}",
    "timeout -s KILL 5 {prompt}", "flock F bash -c {prompt}", "sudo --user x bash {prompt}",
    "find . -exec {prompt} ;", "find . -exec sh -c {prompt} ;", "fd -x {prompt}", "tmux new {prompt}",
    "socat - EXEC:{prompt}", "guile -c {prompt}", "ipython -c {prompt}", "vim -c {prompt} f",
    "vim {prompt}", "emacs --eval {prompt}", "su me -c {prompt}", "watch date {prompt}",
    "fish -C {prompt} x.fish", "docker run -i box sh -c {prompt}", "launcher sh -c {prompt}",
    "pwsh -c code {prompt}", "lua -e code {prompt}", "sed -f {prompt} x", "sed -n code x -e {prompt}",
    "deno eval -p {prompt}", "awk -f {prompt}", "R -e {prompt}", "php -B {prompt}",
    "ruby -rjson -e {prompt}", "uv run python -c {prompt}", "xargs sh -c {prompt}", "julia -E {prompt}",
]  # fmt: skip
DATA = [
    "python3 count.py {prompt}", "python3 tool.py -c {prompt}", "bash script.sh {prompt}",
    "bash -c code name {prompt}", "bash -o posix -c code name {prompt}", "sh -ec code {prompt}",
    "python3 -c code {prompt}", "python3 -m tool {prompt}", "python3 -I -m tool --text {prompt}",
    "perl -e code {prompt}", "node app.js {prompt}", "node -e code {prompt}", "awk code {prompt}",
    "env A=1 tool {prompt}", "timeout 5 tool {prompt}", "claude -p {prompt}", "tool -c {prompt}",
    "tool --text={prompt}", "env python3 count.py {prompt}", "perl count.pl -e {prompt}",
    "bash /opt/x/run.sh -c {prompt}", "llm -m model {prompt}", "sh script.sh --eval {prompt}",
    "python3 script.py {prompt}", "bash --login run.sh {prompt}",
    "python3 -u -W ignore tool.py {prompt}", "node --no-warnings app.js {prompt}",
    "deno run --allow-net app.ts {prompt}", "bash -- run.sh {prompt}", "perl -Mstrict -E code {prompt}",
    "awk -f count.awk {prompt}", "sed -n -f x.sed {prompt}", "flock F tool {prompt}",
    "env -i tool {prompt}", "sudo -n tool {prompt}", "stdbuf -oL tool {prompt}",
    "find . -name {prompt}", "find . -exec grep {prompt} {} ;", "grep -e {prompt}",
    "tool --language python --text {prompt}", "llm -t bash {prompt}", "docker run --rm box {prompt}",
    "docker run --rm box python3 x.py {prompt}", "./script {prompt}", "./watch {prompt}",
    "jq . {prompt}", "Rscript count.R {prompt}", "ruby -rjson count.rb {prompt}",
    "php count.php {prompt}", "agy -p {prompt}", "pwsh -File x.ps1 {prompt}",
    "uv run count.py {prompt}", "julia --project count.jl {prompt}",
]  # fmt: skip
APPENDED = [
    "bash -c", "sh -c", "env sh -c", "python3 -c", "perl -e", "bash -ec", "busybox sh -c", "awk",
    "ssh h", "bash", "python3", "node", "sed", "xargs", "env", "flock F", "flock F -c", "tmux new",
    "vim",
]  # fmt: skip
"""Commands where the prompt, which comes last, would be run."""
READ = [
    "bash", "sh", "/bin/sh", "zsh", "bash -s", "bash -s x", "sh -", "bash --login", "bash /dev/stdin",
    "python3", "python3 -", "python3 - x", "python3 -u", "python3 -i x.py", "perl", "ruby", "node",
    "node -", "node -i -e code", "php", "lua", "tclsh", "env bash", "env -i A=1 python3", "env -S bash",
    "timeout 5 sh", "sudo -u me bash", "sudo -s", "busybox sh", "flock F bash", "ssh h", "ssh -p 22 h",
    "ssh h bash -s", "xargs bash -c", "xargs -n 1 sh -c", "xargs -I {} sh -c {}", "xargs env",
    "xargs python3", "parallel", "su me", "at now", "awk -f -", "sed -n -f /dev/stdin", "rbash",
    "perl /dev/fd/0", "docker exec -i box bash", "docker run -i python python3 -", "ed file",
    "uv run python",
]  # fmt: skip
"""Commands that run what they get on stdin."""
READ_AS_DATA = [
    "cat", "claude -p", "llm -m x", "jq .", "bash run.sh", "sh -c cat|wc", "python3 count.py",
    "awk -f a.awk", "python3 -c code", "python3 -I -m tool", "perl -ne code", "perl -Mstrict -E code",
    "node app.js", "env", "awk code", "sed -n p", "sed -e p", "tr a-z A-Z", "wc -w",
    "env A=1 python3 count.py", "xargs", "xargs wc", "xargs -0 wc", "xargs --null -n 2 wc",
    "stdbuf -oL tool", "ssh -p 22 h claude -p", "ssh h python3 count.py", "timeout 60 llm -t bash",
    "pygmentize -l python", "docker run -i --rm box python3 x.py", "docker run -i box", "./script",
    "./eval", "bash -eo pipefail -c x", "xargs -I {} tool {}", "sudo -u me tool",
    "codex exec -s read-only -", "ruby -ne code", "uv run x.py", "bash -ic code", "php x.php",
    "Rscript x.R", "script -c tool", "lua -e code", "tool --shell bash",
]  # fmt: skip


def read(line: str, **stated: object) -> tuple[str, ...]:
    words = line.split(" ")
    top = Node({"id": "m", "kind": "command", "cmd": words, **stated}, "roster.yaml", {("cmd",): 4})
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


@pytest.mark.parametrize("line", APPENDED)
def test_a_prompt_that_comes_last_is_no_program_either(line: str) -> None:
    with pytest.raises(BadInput, match="would be run as code, or choose what is run"):
        read(line, prompt="argument")


def test_words_that_are_added_when_it_orchestrates_count_too() -> None:
    with pytest.raises(BadInput, match="after `-c` would be run as code"):
        read("tool sh", prompt="argument", delegate_args=["-c"])


@pytest.mark.parametrize("line", READ)
def test_a_command_that_would_run_its_stdin_is_refused(line: str) -> None:
    with pytest.raises(
        BadInput, match=r"^roster.yaml:4: `cmd`: `.+` would run the prompt, which it gets"
    ):
        read(line)


@pytest.mark.parametrize("line", READ_AS_DATA)
def test_a_command_that_reads_its_stdin_as_data_is_accepted(line: str) -> None:
    assert read(line) == tuple(line.split(" "))


@pytest.mark.parametrize(
    "split", [["-S", "bash -c"], ["-Sbash -c"], ["--split-string=bash -c"], ["-vS", "sh -c"]]
)
def test_a_line_that_env_splits_is_read_word_by_word(split: list[str]) -> None:
    assert run_as_code(["env", *split, "{prompt}"], "{prompt}") is not None
    assert run_as_code(["env", "-S", "bash run.sh", "{prompt}"], "{prompt}") is None
