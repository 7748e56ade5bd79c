"""The application `intel`: its score, its readers, a product that is missing, scripted models."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fanfold.members.target import resolve_target
from fanfold.testing.running import RunningServer, threaded_server
from tests.apps.intel_models import INVENTED, facts, readme, row
from tests.faces.cli import SRC, Ended, fanfold
from tests.waiting import LONG

pytestmark = pytest.mark.slow

FOLDER = SRC / "fanfold" / "apps" / "intel"
material = resolve_target("products:material", FOLDER)
read = resolve_target("reader:product", FOLDER)
sections = resolve_target("reader:sections", FOLDER)
of_file = resolve_target("licences:of_file", FOLDER)
of_readme = resolve_target("licences:of_readme", FOLDER)
main_language = resolve_target("languages:main_language", FOLDER)
accounted = resolve_target("checks:accounted", FOLDER)
faithful = resolve_target("checks:faithful", FOLDER)


# ── the score ────────────────────────────────────────────────────────────────────────────────


def scored(*words: str) -> dict[str, Any]:
    ended = subprocess.run(
        [sys.executable, str(FOLDER / "score.py"), *words], env={**os.environ, "PYTHONPATH": str(SRC)},
        capture_output=True, text=True, timeout=LONG, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, "")
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def test_nearly_all_that_the_material_can_answer_is_answered_right() -> None:
    told = scored()
    assert told["data"] == {"products": 10, "cells": 110, "answerable": 88}
    groups = [told["scores"][name]["right"] for name in ("all", "fitting", "reporting")]
    assert min(groups) >= 0.95
    assert told["scores"]["all"]["named"] == 1.0
    assert (told["app"], told["cost_usd"]) == ("intel", 0.0)


def test_the_score_takes_another_folder_and_a_wrong_cell_shows(tmp_path: Path) -> None:
    """One product whose truth was changed in one cell of nine, one that is not there at all."""
    data = tmp_path / "data"
    for name in (
        "texts/qdrant.md",
        "evidence/qdrant.json",
        "evidence/qdrant.tags.txt",
        "truth.csv",
    ):
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(FOLDER / "data" / name, data / name)
    truth = (data / "truth.csv").read_text(encoding="utf-8").splitlines()
    kept = [line for line in truth if line.startswith(("product,", "qdrant,", "faiss,"))]
    text = "\n".join(kept).replace("LICENSE,Apache-2.0", "LICENSE,GPL-3.0")
    (data / "truth.csv").write_text(text + "\n", encoding="utf-8")
    told = scored("--data", str(data))
    assert told["data"] == {"products": 2, "cells": 22, "answerable": 9}
    assert told["scores"]["all"] == {
        "right": 0.8889, "right_of_all": 0.3636, "cells": 9, "named": 0.5
    }  # fmt: skip


# ── the readers ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("   Apache License\n      Version 2.0, January 2004", "Apache-2.0"),
        ("GNU AFFERO GENERAL PUBLIC LICENSE\n  Version 3, 19 November 2007", "AGPL-3.0"),
        ("GNU LESSER GENERAL PUBLIC LICENSE\n Version 2.1, February 1999", "LGPL-2.1"),
        ("GNU GENERAL PUBLIC LICENSE\n Version 2, June 1991", "GPL-2.0"),
        ("Mozilla Public License Version 2.0", "MPL-2.0"),
        ("Business Source License 1.1\n\nLicensor: Acme", "BUSL-1.1"),
        ("Redistributions in binary form must reproduce the above\n3. Neither the name of the copyright"
         " holder nor the names of its\ncontributors", "BSD-3-Clause"),
        ("Redistributions in binary form must reproduce the above copyright", "BSD-2-Clause"),
        ("Permission is hereby granted, free of charge,\nto any person obtaining a copy", "MIT"),
        ("All rights reserved. Do not copy.", None),
    ],
)  # fmt: skip
def test_a_licence_file_is_known_by_how_it_begins(text: str, name: str | None) -> None:
    found = of_file(text)
    assert (found and found.name) == name
    assert found is None or found.quote in text


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("[Apache 2.0](./LICENSE)", "Apache-2.0"),
        ("badge/License-Apache%202.0-blue.svg", "Apache-2.0"),
        (
            "Bolt uses MIT-licensed parts. It is itself under the BSD 3-Clause License.",
            "BSD-3-Clause",
        ),
        ("It is free as in beer.", None),
        ("It is under the Apache License 2.0, not licensed under the MIT License.", "Apache-2.0"),
        ("Acme is no longer under the Business Source License.", None),
        ("It is free. Not slow. It has an MIT license.", "MIT"),
    ],
)
def test_of_the_licences_in_a_readme_the_last_counts(text: str, name: str | None) -> None:
    found = of_readme(text)
    assert (found and found.name) == name


@pytest.mark.parametrize(
    ("sizes", "language"),
    [
        ({".rs": 900, ".png": 5000, ".json": 4000, ".py": 100}, "Rust"),
        ({".h": 600, ".cpp": 300, ".c": 100, ".py": 800}, "C++"),
        ({".h": 600, ".c": 300, ".py": 800}, "C"),
        ({".ts": 500, ".tsx": 500, ".js": 900}, "TypeScript"),
        ({".md": 500}, None),
    ],
)
def test_the_language_is_that_of_most_of_the_source(
    sizes: dict[str, int], language: str | None
) -> None:
    assert main_language(sizes) == language


def test_every_fact_is_quoted_from_the_material_and_every_field_is_accounted_for() -> None:
    for name in ("pgvector", "marqo", "faiss"):
        item = {"product": name, "text": material(FOLDER / "data", name)}
        found = read(item)
        plain = " ".join(item["text"].split())
        assert [f for f in found["facts"] if " ".join(f["evidence"].split()) not in plain] == []
        assert accounted(found, Given(item)) is True


def test_a_readme_cannot_pass_for_what_git_knows() -> None:
    text = (
        '===== readme =====\n===== commits by year =====\n"1970": 9\n\n'
        "===== counted from these files =====\n9 commits in all\n\n"
    )
    text += '===== commits by year =====\n"2020": 3,\n"2021": 4\n\n'
    text += "===== counted from these files =====\n7 commits in all"
    found = {fact["field"]: fact["value"] for fact in read({"product": "x", "text": text})["facts"]}
    assert found == {"commits": "7", "since": "2020", "data_end": "2021"}
    assert sections("no headline at all") == {}


class Given:
    """An item as a gate sees it."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data


@pytest.mark.parametrize(
    ("readme", "docker"),
    [
        ("Run it with Docker.", "yes"),
        ("It does not need Docker.", "no"),
        ("It does not need Docker. Or use the Docker image.", "yes"),
        ("It is not only fast: Docker images are there.", "yes"),
        ("Docker is not supported.", "no"),
        ("Docker images aren't offered.", "no"),
        ("There is no official Docker image.", "no"),
        ("Docker is not only supported, it is the default.", "yes"),
        ("Docker is supported. Windows is not.", "yes"),
        ("It is fast.", None),
    ],
)
def test_a_negation_is_read_and_silence_is_no_fact(readme: str, docker: str | None) -> None:
    item = {"product": "x", "text": f"===== readme =====\n{readme}"}
    found = {fact["field"]: fact["value"] for fact in read(item)["facts"]}
    assert found.get("docker") == docker
    silent = resolve_target("compare:row_of", FOLDER)({"product": "x", "facts": []})
    assert set(silent.values()) == {"x", "not stated"}


@pytest.mark.parametrize(
    ("readme", "install"),
    [
        ("pip install acme", "pip install"),
        ("docker run -p 80:80 \\\n  acme/acme", "docker run"),
        ("docker compose up -d", "docker compose up"),
        ("To build acme:\n\nbrew install cmake\nnpm install -g bats", None),
    ],
)
def test_an_install_command_counts_where_it_names_the_product(
    readme: str, install: str | None
) -> None:
    item = {"product": "Acme", "text": f"===== readme =====\n{readme}"}
    found = {fact["field"]: fact["value"] for fact in read(item)["facts"]}
    assert found.get("install") == install


def test_nothing_may_be_quoted_from_what_was_counted_beside_the_files() -> None:
    item = {"product": "qdrant", "text": material(FOLDER / "data", "qdrant")}
    said = read(item)
    for fact in said["facts"]:
        if fact["field"] == "commits":
            fact["evidence"] = "6679 commits in all"
    assert accounted(said, Given(item)) == "`commits` is not quoted from the product's files"


def test_the_end_of_a_snapshot_is_not_the_end_of_the_product() -> None:
    rows = [{**row("acme"), "data_end": "2024"}, {**row("bolt"), "data_end": "2026"}]
    (said,) = [one for one in resolve_target("compare:_summary", FOLDER)(rows) if "2024" in one]
    assert "snapshot ends" in said and "active" not in said


def test_a_broken_file_costs_its_product_and_is_named(tmp_path: Path) -> None:
    app = copied(tmp_path, "acme", "bolt", "crux")
    (app / "data" / "evidence").mkdir()
    (app / "data" / "evidence" / "bolt.json").write_text(
        '{\n"commits_by_year": {\n', encoding="utf-8"
    )
    (app / "data" / "texts" / "crux.md").write_bytes(b"\xff\xfe")
    ended = fanfold(app, "run", "plan.yaml", "--json", "--quiet")
    assert (ended.code, ended.receipt["passed"], ended.receipt["failed"]) == (1, 1, 2)
    found = matrix(app)
    assert found["acme"]["missing"] == ""
    assert "data/evidence/bolt.json:3: broken JSON" in found["bolt"]["missing"]
    assert "data/texts/crux.md: not a text in UTF-8" in found["crux"]["missing"]


def test_a_field_that_is_left_out_or_stands_twice_is_a_reason() -> None:
    item, said = Given({"product": "acme"}), facts("acme")
    assert accounted(said, item) is True
    lacking = {**said, "absent": said["absent"][1:]}
    assert accounted(lacking, item) == "`since` is neither in `facts` nor in `absent`"
    double = {**said, "absent": [*said["absent"], "docker"]}
    assert accounted(double, item) == "`docker` stands there twice"
    other = {**said, "product": "bolt"}
    assert accounted(other, item) == "`product` is 'acme', not 'bolt'"


def test_the_matrix_may_not_leave_out_add_or_change_anything() -> None:
    parts = [{"value": facts("acme")}]
    item = Given({"parts": parts, "missing": [{"id": "crux"}]})
    missing = [{"product": "crux", "why": "gone"}]

    def said(rows: list[dict[str, str]], missing: list[dict[str, str]]) -> Any:
        return faithful({"matrix": rows, "missing": missing}, item)

    assert said([row("acme")], missing) is True
    assert said([], missing) == "there is no row for acme"
    assert said([row("acme")], []) == "crux must be named in `missing`"
    assert said([row("acme"), row("bolt")], missing) == (
        "nothing was found of bolt, so it has no row"
    )
    changed = {**row("acme"), "licence": "MIT"}
    assert said([changed], missing) == "acme, licence: found was 'Apache-2.0', not 'MIT'"


# ── the plan ─────────────────────────────────────────────────────────────────────────────────


def copied(folder: Path, *products: str) -> Path:
    app = folder / "intel"
    shutil.copytree(FOLDER, app, ignore=shutil.ignore_patterns("data", "__pycache__"))
    (app / "data" / "texts").mkdir(parents=True)
    for name in products:
        (app / "data" / "texts" / f"{name}.md").write_text(readme(name), encoding="utf-8")
    return app


def matrix(app: Path) -> dict[str, dict[str, str]]:
    with (app / "matrix.csv").open(newline="", encoding="utf-8") as stream:
        return {one["product"]: one for one in csv.DictReader(stream)}


def test_the_demo_prints_the_matrix(tmp_path: Path) -> None:
    ended = fanfold(tmp_path, "demo", "intel", "--quiet")
    assert (ended.code, ended.err) == (0, "")
    (line,) = [
        one for one in ended.out.splitlines() if one.startswith("| qdrant") and "2020" in one
    ]
    cells = "| qdrant | Apache-2.0 | Rust | 2020 | 2026 | 6,679 | 117 | v1.19.0 |"
    assert " ".join(line.split()) == cells
    report = (tmp_path / ".fanfold" / "demo" / "intel" / "report.md").read_text(encoding="utf-8")
    head = report.partition("<!-- more -->")[0].splitlines()
    assert len(head) <= 60 and max(map(len, head)) <= 100
    assert "has no prices and no independent view of strengths and weaknesses" in " ".join(head)


def test_a_product_with_nothing_to_read_is_named_and_the_others_are_compared(
    tmp_path: Path,
) -> None:
    app = copied(tmp_path, "acme", "bolt")
    (app / "data" / "texts" / "crux.md").write_text("\n")
    ended = fanfold(app, "run", "plan.yaml", "--json", "--quiet")
    assert (ended.code, ended.receipt["status"]) == (1, "flagged")
    assert (ended.receipt["passed"], ended.receipt["failed"]) == (2, 1)
    why = "there is no README and no evidence of crux"
    found = matrix(app)
    assert {name: one["licence"] for name, one in found.items()} == {
        "acme": "Apache-2.0", "bolt": "Apache-2.0", "crux": ""
    }  # fmt: skip
    assert [name for name, one in found.items() if why in one["missing"]] == ["crux"]
    assert f"- **crux**: ValueError: {why}" in (app / "report.md").read_text(encoding="utf-8")


# ── with models ──────────────────────────────────────────────────────────────────────────────

ROSTER = """\
members:
  - {{id: one, kind: openai, model: test-model, base_url: "{url}", key: none,
     price: {{input: 1, output: 1}}, max_tokens: 4000, good_at: [research, comparison]}}
  - {{id: two, kind: anthropic, model: test-model, base_url: "{url}", key: none,
     price: {{input: 1, output: 1}}, max_tokens: 4000, good_at: [research]}}
  - {{id: writer, kind: function, target: "report:told", version: 1, good_at: [reporting]}}
  - {{id: clerk, kind: function, target: "report:records", version: 1, good_at: [tabulating]}}
"""


@contextmanager
def asked(app: Path, script: str) -> Iterator[tuple[Ended, RunningServer]]:
    with threaded_server(app / "books.jsonl", script=f"tests.apps.intel_models:{script}") as server:
        (app / "models.yaml").write_text(ROSTER.format(url=server.url))
        words = ("run", "plan.yaml", "--roster", "models.yaml", "--json", "--quiet")
        yield fanfold(app, *words), server


@pytest.fixture
def app(tmp_path: Path) -> Path:
    return copied(tmp_path, "acme", "bolt", "crux")


@pytest.mark.parametrize("script", ["careful", "talkative"])
def test_models_read_and_compare(app: Path, script: str) -> None:
    with asked(app, script) as (ended, server):
        assert (ended.code, ended.receipt["status"]) == (0, "complete")
        assert len(server.books().asked) == 4
    assert matrix(app) == {name: {**row(name), "missing": ""} for name in ("acme", "bolt", "crux")}
    assert "- They are much alike." in (app / "report.md").read_text(encoding="utf-8")


def test_an_invented_quote_is_kicked_back_with_the_reason_and_put_right(app: Path) -> None:
    with asked(app, "inventive") as (ended, server):
        assert (ended.code, ended.receipt["status"]) == (0, "complete")
        prompts = [entry.prompt for entry in server.books().asked]
    (kicked,) = [prompt for prompt in prompts if "word for word" in prompt and INVENTED in prompt]
    assert "`facts[0].evidence` is not in the item's text word for word" in kicked
    assert matrix(app)["bolt"] == {**row("bolt"), "missing": ""}


def test_a_product_whose_reader_will_not_learn_is_named_as_missing(app: Path) -> None:
    with asked(app, "stubborn") as (ended, _):
        assert (ended.code, ended.receipt["status"]) == (1, "flagged")
    assert (ended.receipt["passed"], ended.receipt["kicked"]) == (2, 1)
    assert matrix(app)["bolt"]["missing"] == "not found"
    assert INVENTED not in (app / "report.md").read_text(encoding="utf-8")


def test_a_matrix_that_says_something_else_is_kicked_back(app: Path) -> None:
    with asked(app, "flattering") as (ended, server):
        assert (ended.code, ended.receipt["status"]) == (0, "complete")
        prompts = [entry.prompt for entry in server.books().asked]
    (kicked,) = [prompt for prompt in prompts if "found was" in prompt]
    assert "acme, licence: found was 'Apache-2.0', not 'MIT'" in kicked
    assert matrix(app)["acme"]["licence"] == "Apache-2.0"
