"""Plans, rosters and fleets as nobody would write them: refused in a line or two, or carried out."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import yaml

from fanfold.errors import BadInput
from fanfold.faces.cli.main import main
from fanfold.faces.cli.preview import SCHEMAS
from fanfold.work.document import parse
from tests.docs.pages import ROOT, all_blocks
from tests.fuzz.engine import Given, Wrong
from tests.fuzz.mutate import Mutation, noisy, written

TARGET = re.compile(r"[a-z_]+:[a-z_]+")
FILE = re.compile(r"[\w./-]+\.(csv|jsonl|json|txt|md)")
CODE = "def {}(*given, **named):\n    return 'a fine text of some length'\n"
CONTENT = {
    "csv": "id,text\na,first\nb,second\n",
    "jsonl": '{"id": "a", "text": "first"}\n{"id": "b", "text": "second"}\n',
    "json": '[{"id": "a", "text": "first"}]',
}
SCHEMA, TEXT = '{"type": "string"}', "some text\n\nand more\n"
OUTCOMES = (
    "passed",
    "skipped",
    "kicked",
    "failed",
    "unjudged",
    "unfunded",
    "in_doubt",
    "cancelled",
)
EXITS = (0, 1, 2, 3, 4)


# ── the command line, in this process ────────────────────────────────────────────────────────


class _Fence:
    """While it is up, nothing is started, nobody but this machine is spoken to, and what is opened to be
    written lies in the folder. A plan may not do otherwise than fail on this."""

    def __init__(self) -> None:
        self.folder: str | None = None
        self.passed: list[str] = []
        self._heard = False

    @contextmanager
    def around(self, folder: Path) -> Iterator[None]:
        if not self._heard:
            sys.addaudithook(self._hear)
            self._heard = True
        self.folder, self.passed = str(folder), []
        try:
            yield
        finally:
            self.folder = None

    def _hear(self, event: str, given: tuple[Any, ...]) -> None:
        if self.folder is None:
            return
        if event in ("subprocess.Popen", "os.posix_spawn", "os.exec", "os.fork", "os.system"):
            raise PermissionError(13, "not while fuzzing")
        if event == "socket.connect" and isinstance(given[1], tuple) and given[1][0] != "127.0.0.1":
            raise PermissionError(13, "not while fuzzing")
        if event == "open" and isinstance(given[0], str) and given[2] & (os.O_WRONLY | os.O_RDWR):
            place = os.path.realpath(given[0])
            compiled = (
                f"{os.sep}__pycache__{os.sep}" in place
            )  # by Python, of what is imported first
            if not compiled and not place.startswith((self.folder, "/dev/")):
                self.passed.append(place)


FENCE = _Fence()


def command(folder: Path, *words: str) -> tuple[int, str, str]:
    """`fanfold WORDS` in a folder: its exit code, stdout and stderr; checked for what always holds."""
    before, here = (sys.stdout, sys.stderr), os.getcwd()
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace") for _ in range(2))
    os.chdir(folder)
    sys.stdout, sys.stderr = out, err
    try:
        with FENCE.around(folder):
            main(list(words))
        code: Any = 0
    except SystemExit as ended:
        code = ended.code
    finally:
        sys.stdout, sys.stderr = before
        os.chdir(here)
    said = [stream.buffer.getvalue().decode() for stream in (out, err) if not stream.flush()]
    _check(words, code, *said)
    return code, said[0], said[1]


def _check(words: tuple[str, ...], code: int, out: str, err: str) -> None:
    if "unexpected " in err and "add --debug" in err:
        raise Wrong(re.sub(r"[\d'`]\S*", "", err.strip())[:70] + f" | {words[0]}: {err.strip()}")
    if "Traceback" in err + out:
        raise Wrong(f"a traceback of {words[0]}: {err[-600:]}")
    if code not in EXITS:
        raise Wrong(f"exit code {code!r} of {words[0]}")
    lines = [line for line in err.splitlines() if "warning: " not in line and line.strip()]
    if code == 2 and not (1 <= len(lines) <= 3 and len(err) < 6000 and "fanfold: " in err):
        raise Wrong(f"{words[0]} refused in {len(lines)} lines: {err[:500]}")
    if FENCE.passed:
        raise Wrong(f"{words[0]} writes outside its folder: {FENCE.passed[0]}")


# ── what is in the examples ──────────────────────────────────────────────────────────────────


def _parsed(text: str) -> Any:
    try:
        return parse(text, "page").value
    except BadInput:
        return None


def examples(key: str) -> list[Any]:
    """The mappings with this key in the pages and the applications."""
    apps = sorted((ROOT / "src/fanfold/apps").glob("*/*.yaml"))
    texts = [block.text for block in all_blocks("yaml")] + [path.read_text() for path in apps]
    found = [_parsed(text) for text in texts]
    if key == "steps":  # pages show single steps too
        found += [{"steps": one} for one in found if isinstance(one, list)]
    return [one for one in found if isinstance(one, dict) and isinstance(one.get(key), list)]


def _runnable(plan: dict[str, Any], fields: list[str]) -> dict[str, Any]:
    """With items that have every field, in place of files and a roster that the page shows elsewhere."""
    items = [{"id": id, **{name: f"{name} of {id}" for name in fields}} for id in ("a", "b", "c")]
    return {"input": {"list": items}} | {
        k: v for k, v in plan.items() if k not in ("input", "roster")
    }


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for inner in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        yield from _texts(inner)


def _members(value: Any) -> Iterator[str]:
    """All that may be the name of a member."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in (
                "member",
                "members",
                "fallback",
                "escalate",
                "judge",
                "conductor",
                "weights",
            ):
                yield from _texts(list(inner) if isinstance(inner, dict) else inner)
            yield from _members(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _members(inner)


def project(folder: Path, plans: list[Any]) -> None:
    """What the examples name: members, functions, files."""
    named = {name: None for name in (*_members(plans), "up") if re.fullmatch(r"[\w-]+", name)}
    member = {"kind": "function", "target": "mine:answer", "good_at": ["legal", "sentiment"]}
    members = [{"id": id, **member} for id in named]
    (folder / "roster.yaml").write_text(json.dumps({"members": members}))
    modules: dict[str, set[str]] = {"mine": {"answer"}}
    for text in _texts(plans):
        if TARGET.fullmatch(text):
            module, _, function = text.partition(":")
            modules.setdefault(module, set()).add(function)
        if (kind := FILE.fullmatch(text)) and not text.startswith(("/", ".")):
            (folder / text).parent.mkdir(parents=True, exist_ok=True)
            content = SCHEMA if text.endswith("schema.json") else CONTENT.get(kind[1], TEXT)
            (folder / text).write_text(content)
    for module, functions in modules.items():
        (folder / f"{module}.py").write_text("".join(map(CODE.format, sorted(functions))))


def _as_yaml(value: Any) -> bytes:
    """Nothing of what YAML cannot have, such as half a surrogate pair."""
    try:
        return yaml.dump(
            value, None, yaml.CSafeDumper, allow_unicode=True, sort_keys=False
        ).encode()
    except (UnicodeEncodeError, RecursionError):
        return b""


class _Files:
    """Files of one kind, in a project of their own."""

    name: str
    file: str
    divisible = True

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="fuzz-")).resolve()
        self.folder = self.home / "project"
        self.folder.mkdir()
        self.examples = self._examples()
        self._mutation = Mutation(self.examples, SCHEMAS[self.name]())
        self._environment = dict(os.environ)
        os.environ |= {"FANFOLD_CLAUDE": "/bin/true", "FANFOLD_CODEX": "/bin/true"}

    def _examples(self) -> list[Any]:
        raise NotImplementedError

    def close(self) -> None:
        os.environ.clear()
        os.environ |= self._environment
        shutil.rmtree(self.home)

    def make(self, rng: Random) -> Given:
        value = rng.choice(self.examples)
        if rng.random() < 0.85:
            value = self._mutation.changed(rng, value)
        raw = b"" if self.file.endswith("json") or rng.random() < 0.4 else _as_yaml(value)
        raw = raw or written(rng, value)
        if rng.random() < 0.25:
            raw = noisy(rng, raw)
        return raw.splitlines(keepends=True)

    def put(self, given: Given) -> None:
        (self.folder / self.file).write_bytes(b"".join(given))


class PlanFiles(_Files):
    """Looked at, drawn, and carried out where it is accepted."""

    name, file = "plan", "plan.yaml"

    def _examples(self) -> list[Any]:
        found = examples("steps")
        fields = sorted(set(re.findall(r"item\.(\w+)", json.dumps(found))) - {"id"})
        found += [_runnable(plan, fields) for plan in found]
        project(self.folder, found)
        return found

    def check(self, given: Given) -> None:
        self.put(given)
        accepted = command(self.folder, "run", "plan.yaml", "--dry-run", "--store", "none")[0] == 0
        drawn = command(self.folder, "graph", "plan.yaml", *(["--mermaid"] * (len(given) % 2)))[0]
        if accepted and drawn:
            raise Wrong("it can be run, but not drawn")
        if accepted:
            self._carry_out()

    def _carry_out(self) -> None:
        shutil.rmtree(self.folder / "store", ignore_errors=True)
        words = ("run", "plan.yaml", "--quiet", "--json", "--budget", "usd=1,calls=200,seconds=5")
        code, out, _ = command(self.folder, *words, "--store", "store", "--cap", "200")
        if code not in (0, 1, 4):
            return
        receipt = json.loads(out.strip().split("\n")[-1])
        ended = sum(receipt[state] for state in OUTCOMES)
        if receipt["planned"] != ended and receipt["status"] in ("complete", "flagged"):
            raise Wrong(f"{receipt['planned']} items planned, {ended} ended: {receipt['status']}")


class RosterFiles(_Files):
    """Listed, and used by a plan."""

    name, file = "roster", "roster.yaml"

    def _examples(self) -> list[Any]:
        (self.folder / "plan.yaml").write_text(
            "input: {count: 2}\nsteps:\n  - map: {prompt: '{{ item.id }}'}\n"
        )
        return examples("members")

    def check(self, given: Given) -> None:
        self.put(given)
        command(self.folder, "members", "--json", "--roster", "roster.yaml")
        command(self.folder, "run", "plan.yaml", "--dry-run", "--store", "none")


class FleetFiles(_Files):
    """Drawn, and looked at as far as it could be started."""

    name, file = "fleet", "fleet.json"

    def _examples(self) -> list[Any]:
        large = json.loads((ROOT / "tests/data/dag_fleet/fleet.json").read_text())
        blocks = [_parsed(block.text) for block in all_blocks("json")]
        found = [one for one in (large, *blocks) if isinstance(one, dict) and "workers" in one]
        found += [{**one, "workers": one["workers"][:3]} for one in found]
        for one in found:
            for worker in one["workers"]:
                home = self.folder / "workers" / worker["id"]
                home.mkdir(parents=True, exist_ok=True)
                (home / "prompt.md").write_text("Say something.\n")
        return found

    def check(self, given: Given) -> None:
        self.put(given)
        drawn = command(self.folder, "graph", "fleet.json", *(["--mermaid"] * (len(given) % 2)))[0]
        accepted = command(self.folder, "run", "fleet.json", "--dry-run", "--store", "none")[0] == 0
        if accepted and drawn:
            raise Wrong("it can be run, but not drawn")
