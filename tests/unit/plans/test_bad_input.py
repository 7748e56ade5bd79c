"""Whatever is wrong with a file a user wrote: one line that says what, in which file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from fanfold.errors import BadInput
from fanfold.members.roster import load_roster
from fanfold.patterns.fold import KINDS
from fanfold.plans.inputs import open_input
from fanfold.plans.load import load_plan

STEPS = "steps:\n  - map: {prompt: x}\n"
COUNT = "input: {count: 1}\n"


def in_map(fields: str) -> str:
    """A plan whose map begins in line 3 and has these fields from line 4 on."""
    indented = "\n".join(f"      {line}" for line in fields.splitlines())
    return f"{COUNT}steps:\n  - map:\n{indented}\n"


def in_member(fields: str) -> str:
    """A roster with one member, its id in line 2, these fields from line 3 on."""
    indented = "\n".join(f"    {line}" for line in fields.splitlines())
    return f"members:\n  - id: m\n{indented}\n"


def a_function(fields: str) -> str:
    return in_member(f"kind: function\ntarget: a:b\n{fields}")


PLANS = [
    # the file as a whole
    ("", "p.yaml: is empty"),
    ("- a\n", "p.yaml:1: a plan must be a mapping, not a list"),
    ("just words", "p.yaml:1: a plan must be a mapping, not the text 'just words'"),
    ("name: x\n input: y\n",
     "p.yaml:2: broken YAML: mapping values are not allowed in this context; quote a text "
     "that has `: ` in it, or correct the indentation"),
    ("a:\n\t- b\n", "p.yaml:2: broken YAML: found character that cannot start any token; "
                    "indent with spaces, not tabs"),
    ("a: @b\n", "p.yaml:1: broken YAML: found character that cannot start any token; "
               "quote a text that begins with it"),
    ("a:\n  b: 1\n c: 2\n",
     "p.yaml:3: broken YAML: did not find expected key; is the line indented like the one before?"),
    ("a: {{ b }}\n", "p.yaml:1: a key must be a text; quote a text that begins with `{{`"),
    ("name: a\nname: b\n", "p.yaml:2: duplicate key `name`"),
    ("name: a\nstpes: []\n", "p.yaml:2: unknown field `stpes` in a plan: did you mean `steps`?"),
    (COUNT, "p.yaml:1: a plan needs the field `steps`"),
    (STEPS, "p.yaml:2: `map` has no items; name a file with --input, or state the plan's `input`: "
            "one of jsonl, json, csv, tsv, lines, files, list, count, command, http"),
    (f"name: 7\n{COUNT}{STEPS}", "p.yaml:1: `name` must be a text, not the number 7"),
    # budgets
    (f"budget: lots\n{COUNT}{STEPS}",
     "p.yaml:1: `budget` must be dollars or a mapping of usd, tokens, calls, seconds, "
     "not the text 'lots'"),
    (f"budget: 0\n{COUNT}{STEPS}", "p.yaml:1: `budget` must be more than 0, not 0"),
    (f"budget: {{usd: 0}}\n{COUNT}{STEPS}", "p.yaml:1: `usd` must be more than 0, not 0"),
    (f"budget:\n  usd: -1\n{COUNT}{STEPS}", "p.yaml:2: `usd` must be more than 0, not -1"),
    (f"budget:\n  usd: .nan\n{COUNT}{STEPS}",
     "p.yaml:2: `usd` must be a finite number, not the number nan"),
    (f"budget:\n  usd: lots\n{COUNT}{STEPS}",
     "p.yaml:2: `usd` must be a number, not the text 'lots'"),
    (f"budget:\n  calls: 2.5\n{COUNT}{STEPS}",
     "p.yaml:2: `calls` must be a whole number, not the number 2.5"),
    (f"budget:\n  dollars: 2\n{COUNT}{STEPS}",
     "p.yaml:2: unknown field `dollars` in a budget: known: calls, seconds, tokens, usd"),
    (f"budget: {{}}\n{COUNT}{STEPS}",
     "p.yaml:1: `budget` is empty; state one of usd, tokens, calls, seconds"),
    # input
    *((f"input: '{said}'\n{STEPS}",
       f"p.yaml:1: an input must be a mapping, not the text '{said}'; {how}")
      for said, how in {
          "a.jsonl": "write `input: {jsonl: a.jsonl}`",
          "a.csv.gz": "write `input: {csv: a.csv.gz}`",
          "docs/*.txt": 'write `input: {files: "docs/*.txt"}`',
          "a.xyz": "say what it is, such as `input: {jsonl: a.xyz}`",
      }.items()),
    (f"input: {{jsnl: a}}\n{STEPS}",
     "p.yaml:1: unknown field `jsnl` in an input: did you mean `jsonl`?"),
    (f"input: {{jsonl: a, csv: b}}\n{STEPS}",
     "p.yaml:1: an input needs exactly one of jsonl, json, csv, tsv, lines, files, list, count, "
     "command, http; found `jsonl` and `csv`"),
    (f"input: {{count: 0}}\n{STEPS}", "p.yaml:1: `count` must be 1 or more, not 0"),
    (f"input: {{lines: a, id: b}}\n{STEPS}",
     "p.yaml:1: `id` has no use with `lines`: it has no fields"),
    (f"input: {{http: 'file:///etc/passwd'}}\n{STEPS}",
     "p.yaml:1: `http` must be an http:// or https:// URL without a name or password"),
    (f"input: {{command: ls -l}}\n{STEPS}",
     "p.yaml:1: `command` must be a list, not the text 'ls -l'"),
    # steps
    (f"{COUNT}steps: []\n", "p.yaml:2: `steps` is empty; a plan needs at least a `map`"),
    (f"{COUNT}steps: {{map: {{}}}}\n", "p.yaml:2: `steps` must be a list, not a mapping"),
    (f"{COUNT}steps:\n  - mpa: {{}}\n", "p.yaml:3: unknown step `mpa`: did you mean `map`?"),
    (f"{COUNT}steps:\n  - map\n",
     "p.yaml:3: a step must be a mapping such as `map: {prompt: …}`"),
    (f"{COUNT}steps:\n  - map:\n    prompt: x\n",
     "p.yaml:4: `prompt` is beside `map`; indent what belongs to a step below its name"),
    (f"{COUNT}steps:\n  - reduce: collect\n",
     "p.yaml:3: `reduce` comes before any `map`; there is nothing to reduce yet"),
    (f"{COUNT}{STEPS}  - map: {{prompt: y}}\n",
     "p.yaml:4: a second step `map`; give it a `name` of its own"),
    (f"{COUNT}{STEPS}  - list_files: {{path: a}}\n",
     "p.yaml:4: `list_files` must be the first step, and there can be only one"),
    (f"{COUNT}steps:\n  - list_files: {{path: a}}\n  - map: {{prompt: x}}\n",
     "p.yaml:1: state `input` or a `list_files` step, not both"),
    # map
    (in_map("prompt: x\nmebmer: a"),
     "p.yaml:5: unknown field `mebmer` in a map: did you mean `member`?"),
    (in_map("prompt: x\nconcurrency: 0"), "p.yaml:5: `concurrency` must be 1 or more, not 0"),
    (in_map("prompt: x\nrevise: -1"), "p.yaml:5: `revise` must be 0 or more, not -1"),
    (in_map("prompt: x\non_failure: partial"),
     "p.yaml:5: unknown on_failure `partial`: known: abort, hold, skip"),
    (in_map("prompt: x\nspread: wide"), "p.yaml:5: unknown spread `wide`: known: best, overflow"),
    (in_map("prompt: x\nmember: a\nspread: best"),
     "p.yaml:6: `spread` goes with `needs`: those that `member` names share the work anyway"),
    (in_map("prompt: x\non_failure: skp"), "p.yaml:5: unknown on_failure `skp`: did you mean `skip`?"),
    (in_map("prompt: x\nshard: {items: 0}"), "p.yaml:5: `items` must be 1 or more, not 0"),
    (in_map("prompt: x\nshard: {tokens: 5, bytes: 5}"),
     "p.yaml:5: state `tokens` or `bytes` of a shard, not both"),
    (in_map("prompt: x\nshard: {}"),
     "p.yaml:5: `shard` needs `items`, `tokens`, `bytes`, `count`, `hash` or `range`"),
    (in_map("prompt: x\nshard: {hash: item.a}"), "p.yaml:5: `hash` needs `count`: the number of shards"),
    (in_map("prompt: x\nshard: {hash: steps.no.a, count: 2}"),
     "p.yaml:5: `steps.no.a`: no earlier step of that name gave items a reply; there is none"),
    (in_map("prompt: x\nshard: {range: item.year}"),
     "p.yaml:5: `range` needs `bounds`, such as `range: item.year` with `bounds: [1990, 2000]`"),
    (in_map("prompt: x\nshard: {bounds: [1]}"),
     "p.yaml:5: `shard` needs `items`, `tokens`, `bytes`, `count`, `hash` or `range`"),
    (in_map("prompt: x\nshard: {range: item.year, count: 2, bounds: [1]}"),
     "p.yaml:5: state `range` or `count` of a shard, not both"),
    (in_map("prompt: x\nshard: {range: item.year, bounds: [2, 1]}"),
     "p.yaml:5: `bounds` are numbers, or texts, from the lowest to the highest"),
    (in_map("prompt: x\nshard: {range: item..year, bounds: [2]}"),
     "p.yaml:5: `item..year` is not a field: write a name, or names joined by dots"),
    (in_map("prompt: x\nmember: a\nneeds: [b]"), "p.yaml:6: state `member` or `needs`, not both"),
    (in_map("prompt: x\nprompt_file: p.md"),
     "p.yaml:5: state `prompt` or `prompt_file`, not both"),
    (in_map("prompt_file: none.md"), "p.yaml:4: `prompt_file` none.md: no such file"),
    (in_map("prompt_file: ."), "p.yaml:4: `prompt_file` .: is a directory, not a file"),
    (in_map("prompt: ''"), "p.yaml:4: `prompt` is empty"),
    (in_map("prompt: |\n  one\n  two {{ itme.text }}"),
     "p.yaml:6: template: `itme` is not defined: did you mean `item`?"),
    (in_map("prompt: 'x {{ itme }}'"),
     "p.yaml:4: template: `itme` is not defined: did you mean `item`?"),
    (in_map("prompt: '{{ item.text }'"),
     "p.yaml:4: template: unexpected `}`; a value ends with `}}`, a tag with `%}`"),
    (in_map("keep: reply.n = 3"), "p.yaml:4: template: one `=` compares nothing; write `==`"),
    (in_map("prompt: '{{ item.text'"), "p.yaml:4: template: a `{{` or `{%` is never closed"),
    (in_map("keep: reply.n or"), "p.yaml:4: template: an expression is incomplete"),
    (in_map("keep: reply.n high"), "p.yaml:4: template: unexpected `high` after the expression"),
    (f"{COUNT}steps:\n  - map: {{name: first, prompt: x}}\n"
     "  - map: {name: second, prompt: '{{ steps.frst }}'}\n",
     "p.yaml:4: the prompt reads `steps.frst`, but it cannot see an earlier step of that name; "
     "did you mean `first`?"),
    (in_map("prompt: '{{ steps.first }}'"),
     "p.yaml:4: the prompt reads `steps.first`, but it cannot see an earlier step of that name; "
     "there is none"),
    (in_map("prompt: x\nschema: text"),
     "p.yaml:5: `schema` must be a JSON Schema or module:Type, not the text 'text'"),
    (in_map("prompt: x\nschema:\n  type: objekt"),
     "p.yaml:5: not a valid JSON Schema: `type`: \"objekt\" is not valid under any of the "
     "schemas listed in the 'anyOf' keyword"),
    (in_map("prompt: x\nschema_file: s.json"), "p.yaml:5: `schema_file` s.json: no such file"),
    (in_map("prompt: x\ngate:\n  - require: [a]\n  - qoutes: b"),
     "p.yaml:7: unknown gate `qoutes`: did you mean `quotes`?"),
    (in_map("prompt: x\ngate: []"),
     "p.yaml:5: `gate` states no check: give one, such as `require: [a]`, or leave it out"),
    (in_map("prompt: x\ngate:\n  - python: zz_none:check"),
     "p.yaml:6: cannot import `zz_none` for target `zz_none:check`: "
     "no module named `zz_none` here or installed"),
    # reduce and write
    (f"{COUNT}{STEPS}  - reduce: {{kind: srt, by: a}}\n",
     "p.yaml:4: unknown kind `srt`: did you mean `sort`?"),
    (f"{COUNT}{STEPS}  - reduce:\n      kind: sort\n      bye: a\n",
     "p.yaml:6: reduce `sort` has no field `bye`: did you mean `by`?"),
    (f"{COUNT}{STEPS}  - reduce: {{kind: top, by: a}}\n", "p.yaml:4: reduce `top` needs the field `n`"),
    (f"{COUNT}{STEPS}  - reduce: {{sep: a}}\n",
     f"p.yaml:4: a reduce needs the field `kind`: one of {', '.join(KINDS)}, ask, ensemble"),
    (f"{COUNT}{STEPS}  - reduce: {{kind: ask}}\n", "p.yaml:4: an asked reduce needs a `prompt`"),
    (f"{COUNT}{STEPS}  - write: .\n", "p.yaml:4: `write` must name a file; . is a directory"),
]  # fmt: skip

ROSTERS = [
    ("members: {}\n", "p.yaml:1: `members` must be a list, not a mapping"),
    ("mebmers: []\n", "p.yaml:1: unknown field `mebmers` in a roster: did you mean `members`?"),
    ("settings: {}\n", "p.yaml:1: a roster needs the field `members`"),
    ("members: []\nsettings: {allow_paid: maybe}\n",
     "p.yaml:2: `allow_paid` must be true or false, not the text 'maybe'"),
    ("members: []\nsettings: {max_concurrency: 0}\n",
     "p.yaml:2: `max_concurrency` must be 1 or more, not 0"),
    ("members:\n  - claude\n", "p.yaml:2: a member must be a mapping, not the text 'claude'"),
    (in_member("good_at: a"), "p.yaml:2: a member needs the field `kind`: one of function, "
                              "command, openai, anthropic, replay, claude, codex, gemini, "
                              "opencode, local, embedding, litellm"),
    (in_member("kind: opnai"), "p.yaml:3: unknown kind `opnai`: did you mean `openai`?"),
    (in_member("kind: claude\ntype: writer"),
     "p.yaml:4: unknown type `writer`: did you mean `write`?"),
    (in_member("kind: codex\nmax_budget_usd: 0"), "p.yaml:4: `max_budget_usd` must be more than 0, not 0"),
    (in_member("kind: codex\ntools: [Read]"),
     "p.yaml:4: `tools` is a field of kind openai, anthropic, claude, litellm, not of kind codex"),
    (in_member("kind: openai"), "p.yaml:2: a member of kind openai needs the field `model`"),
    (in_member("kind: command\ncmd: []"), "p.yaml:4: `cmd` is empty"),
    (in_member("kind: command\ncmd: ls -l"), "p.yaml:4: `cmd` must be a list, not the text 'ls -l'"),
    (in_member("kind: function\ntarget: a:b\nmodel: x"),
     "p.yaml:5: `model` is a field of kind openai, anthropic, claude, codex, gemini, opencode,"
     " local, embedding, litellm, not of kind function"),
    (in_member("kind: openai\nmodel: x\nmodle: y"),
     "p.yaml:5: unknown field `modle` in a member of kind openai: did you mean `model`?"),
    (in_member("kind: openai\nmodel: x\nbase_url: localhost:8000"),
     "p.yaml:5: `base_url` must begin with http:// or https://, not `localhost:8000`"),
    (in_member("kind: openai\nmodel: x\nbase_url: https://me:word@host/"),
     "p.yaml:5: `base_url` must not hold a name or password; use `key`"),
    (a_function("price: {input: -1, output: 1}"), "p.yaml:5: `input` must be 0 or more, not -1"),
    (a_function("price: {input: 1}"),
     "p.yaml:5: a price needs `input` and `output`, or `call`; else calls would look free"),
    (a_function("price: {}"),
     "p.yaml:5: a price needs `input` and `output`, or `call`; else calls would look free"),
    (a_function("price: 3"), "p.yaml:5: a price must be a mapping, not the number 3"),
    (a_function("price: {call: 1, inptu: 1}"),
     "p.yaml:5: unknown field `inptu` in a price: did you mean `input`?"),
    (a_function("can_delegate: 1"),
     "p.yaml:5: `can_delegate` must be true or false, not the number 1"),
    (a_function("can_orchestrate: maybe"),
     "p.yaml:5: `can_orchestrate` must be true or false, not the text 'maybe'"),
    (a_function("budget_usd_month: -3"),
     "p.yaml:5: `budget_usd_month` must be more than 0, not -3"),
    (a_function("context: 0"), "p.yaml:5: `context` must be 1 or more, not 0"),
    (a_function("good_at: [3]"), "p.yaml:5: `good_at[0]` must be a text, not the number 3"),
    (in_member("kind: command\ncmd: [a]\nprompt: file"),
     "p.yaml:5: unknown prompt `file`: known: argument, stdin"),
    (in_member("kind: command\ncmd: [a]\ndelegate_args: x"),
     "p.yaml:5: `delegate_args` must be a list, not the text 'x'"),
    (a_function("parse: plain"), "p.yaml:5: `parse` is a field of kind command, not of kind function"),
    (a_function("tier: freee"), "p.yaml:5: unknown tier `freee`: "
                                "known: api, local, paid, sub, subscription"),
    (a_function("limits: {concurrency: 0}"), "p.yaml:5: `concurrency` must be 1 or more, not 0"),
    (a_function("limits: {rps: 3}"),
     "p.yaml:5: unknown field `rps` in limits: did you mean `rpm`?"),
    (a_function("timeout: 0"), "p.yaml:5: `timeout` must be more than 0, not 0"),
    (a_function("timeout: .inf"), "p.yaml:5: `timeout` must be a finite number, not the number inf"),
    (a_function("enabled: yes"), "p.yaml:5: `enabled` must be true or false, not the text 'yes'"),
    (a_function("max_tokens: true"), "p.yaml:5: `max_tokens` must be a whole number, not true"),
    (a_function("") + "  - {id: m, kind: replay, file: a}\n",
     "p.yaml:5: duplicate member `m`, first in line 2"),
]  # fmt: skip

HALF = "is half of a surrogate pair, no character; write both halves, or leave it out"
INPUTS: list[tuple[str, str | bytes, str]] = [
    ("jsonl: d.x", '{"id": 1}\n{"id": \n', "d.x:2: broken JSON: input data was truncated"),
    ("jsonl: d.x", '{"id": 1}\n{"t": "\\ud800"}\n', f"d.x:2: broken JSON: \\ud800 {HALF}"),
    ("jsonl: d.x", '{"id": 1}\n{"t": "\\udc00 x"}\n', f"d.x:2: broken JSON: \\udc00 {HALF}"),
    ("json: d.x", '[1,\n"\\\\ud800 \\ud800",\n3]', f"d.x:2: broken JSON: \\ud800 {HALF}"),
    ("jsonl: d.x", "{}\n\n{'a': 1}\n", "d.x:3: broken JSON: object keys must be strings"),
    ("jsonl: d.x", b'{}\n{"a": "\xff"}\n', "d.x:2: is not UTF-8 text; save it as UTF-8"),
    ("jsonl: d.x, id: name", '{"name": "a"}\n{"nam": "b"}\n',
     "d.x:2: the item has no id: field `name` is missing"),
    ("jsonl: d.x, id: name", '"text"\n', "d.x:1: the item has no id: field `name` is missing"),
    ("jsonl: d.x", '{"id": [1]}\n',
     "d.x:1: the item's id must be a text or a number, but `id` is a list"),
    ("jsonl: d.x", '{"id": true}\n',
     "d.x:1: the item's id must be a text or a number, but `id` is true"),
    ("jsonl: d.x", '{"id": ""}\n',
     "d.x:1: the item's id must be a text or a number, but `id` is empty"),
    ("json: d.x", '{"a": 1}', "d.x:1: must be a JSON array; for one object per line use `jsonl`"),
    ("json: d.x", '[1,\n2,\nx]', "d.x:3: broken JSON: invalid character"),
    ("json: d.x", '[1,\n2', "d.x:2: broken JSON: input data was truncated"),
    ("json: d.x", "", "d.x: is empty"),
    ("csv: d.x", "", "d.x:1: needs a first line with the names of the columns"),
    ("csv: d.x", "id,id\n", "d.x:1: duplicate column `id`"),
    ("csv: d.x", "id,\n", "d.x:1: a column has no name"),
    ("csv: d.x", "id,b\n1,2\n1,2,3\n", "d.x:3: 3 values for 2 columns; "
     "a value that holds the separator needs double quotes around it"),
    ("csv: d.x", "id,b\n1\n", "d.x:2: 1 value for 2 columns"),
    ("csv: d.x", "id;b\n1;2\n",
     "d.x:1: the columns are separated by semicolons; save it with commas"),
    ("csv: d.x", "id\tb\n1\t2\n",
     "d.x:1: the columns are separated by tabs; read it as `tsv`, or save it with commas"),
    *((f"{kind}: d.x", "id,b\n1,2\n".encode("utf-16"), "d.x:1: is not UTF-8 text; save it as UTF-8")
      for kind in ("csv", "jsonl", "json", "lines")),
    ("csv: d.x", 'id,b\n1,"2\n3,4\n', "d.x:2: broken CSV: a double quote in this row is never closed"),
    ("csv: d.x", b"id\n\xff\n", "d.x:2: is not UTF-8 text; save it as UTF-8"),
    ("lines: d.x", b"ok\n\xff\n", "d.x:2: is not UTF-8 text; save it as UTF-8"),
    ("files: '*.x'", b"\xff", "d.x:1: is not UTF-8 text; save it as UTF-8"),
    ("jsonl: none.x", "", "p.yaml:1: input `none.x`: no such file"),
    ("jsonl: .", "", "p.yaml:1: input `.`: is a directory, not a file"),
    ("files: '*.ts'", "", "p.yaml:1: input: no file matches `*.ts` in DIR"),
    ("command: [zz-none]", "",
     "p.yaml:1: input command `zz-none` cannot be started: no such file or directory"),
    ("command: [printf, '{\"id\": 1}\\n{']", "", "p.yaml:1: the output of `printf`, line 2: broken JSON: "
     "input data was truncated; a program prints JSON lines or one array"),
    ("command: [printf, '[1,\\n}']", "", "p.yaml:1: the output of `printf`, line 2: broken JSON: "
     "invalid character; a program prints JSON lines or one array"),
    ("command: [echo, '{\"id\": {}}']", "", "p.yaml:1: the output of `echo`, line 1: "
     "the item's id must be a text or a number, but `id` is a mapping"),
    ("command: [sh, -c, exit 4]", "", "p.yaml:1: input command `sh` ended with 4"),
    ("list: [{id: {}}]", "",
     "p.yaml:1: the item's id must be a text or a number, but `id` is a mapping"),
]  # fmt: skip


def said(error: pytest.ExceptionInfo[BadInput], folder: Path) -> str:
    return str(error.value).replace(f"{folder}/", "").replace(str(folder), "DIR")


@pytest.mark.parametrize(("text", "message"), PLANS)
def test_plans(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(text)
    with pytest.raises(BadInput) as error:
        load_plan(path)
    assert said(error, tmp_path) == message


@pytest.mark.parametrize(("text", "message"), ROSTERS)
def test_rosters(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(text)
    with pytest.raises(BadInput) as error:
        load_roster(path)
    assert said(error, tmp_path) == message


@pytest.mark.parametrize(("spec", "data", "message"), INPUTS)
def test_inputs(tmp_path: Path, spec: str, data: str | bytes, message: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(f"input: {{{spec}}}\n{STEPS}")
    (tmp_path / "d.x").write_bytes(data if isinstance(data, bytes) else data.encode())
    plan = load_plan(path)
    with pytest.raises(BadInput) as error:
        list(open_input(plan.input, plan.folder, spool=tmp_path / "spool").walk())
    assert said(error, tmp_path) == message


@pytest.mark.parametrize("load", [load_plan, load_roster])
def test_files_that_are_none(tmp_path: Path, load: object) -> None:
    assert callable(load)
    (tmp_path / "odd.yaml").write_bytes(b"a: \xff")
    found = []
    for name in ("none.yaml", ".", "odd.yaml"):
        with pytest.raises(BadInput) as error:
            load(tmp_path / name)
        found.append(said(error, tmp_path))
    assert found == [
        "none.yaml: no such file",
        "DIR: is a directory, not a file",
        "odd.yaml:1: is not UTF-8 text; save it as UTF-8",
    ]


def test_a_mistake_in_a_file_the_plan_names_is_found_in_that_file(tmp_path: Path) -> None:
    (tmp_path / "p.md").write_text("one\n{{ itme }}")
    (tmp_path / "s.json").write_text('{\n"type": }')
    (tmp_path / "t.json").write_text('{\n"type": "objekt"}')
    path = tmp_path / "p.yaml"
    found = []
    for field in ("prompt_file: p.md", "schema_file: s.json", "schema_file: t.json"):
        path.write_text(in_map(field))
        with pytest.raises(BadInput) as error:
            load_plan(path)
        found.append(said(error, tmp_path).partition(" is not valid")[0])
    assert found == [
        "p.md:2: template: `itme` is not defined: did you mean `item`?",
        "s.json:2: broken JSON: expecting value",
        't.json:1: not a valid JSON Schema: `type`: "objekt"',
    ]
