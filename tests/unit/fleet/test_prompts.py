"""What a worker is sent: its prompt.md as it stands, and the line that says where files go."""

from __future__ import annotations

from pathlib import Path

import pytest

from fanfold.errors import BadInput
from fanfold.fleet.load import load_fleet
from tests.unit.fleet.fleets import worker, write_fleet, write_prompt


def sent(root: Path, text: str, type: str = "write") -> str:
    write_fleet(root, [worker("a", type=type)])
    write_prompt(root, "a", text)
    return load_fleet(root).workers[0].prompt


def line(root: Path) -> str:
    return f"Save ALL output files to {root.resolve()}/workers/a/output/ — use absolute paths."


@pytest.mark.parametrize(
    "text", ["Do it.\r\n{{ x }} {% y", "  one\n\n", "ümläut 漢字 \\n $HOME `x`"]
)
def test_it_is_sent_as_it_stands_with_the_line_on_its_own(tmp_path: Path, text: str) -> None:
    file = tmp_path / "f" / "workers" / "a" / "prompt.md"
    write_fleet(tmp_path / "f", [worker("a")])
    file.write_bytes(text.encode())
    own = "" if text.endswith("\n") else "\n"
    assert load_fleet(tmp_path / "f").workers[0].prompt == f"{text}{own}{line(tmp_path / 'f')}\n"


@pytest.mark.parametrize(
    "spelt",
    [
        "Save ALL output files to {root}/workers/a/output/ — use absolute paths.",
        "Save ALL output files to {root}/workers/a/output — use absolute paths.",
        "- Save ALL output files to `{root}/./workers/b/../a/output/`",
        "Save ALL output files to {link}/workers/a/output/ — use absolute paths.\nmore",
    ],
)
def test_any_absolute_spelling_of_the_folder_counts(tmp_path: Path, spelt: str) -> None:
    root, link = tmp_path / "a folder", tmp_path / "link"
    root.mkdir()
    link.symlink_to(root)
    text = f"Do it.\n{spelt.format(root=root, link=link)}"
    assert sent(root, text) == text


@pytest.mark.parametrize(
    "spelt",
    [
        "Save ALL output files to workers/a/output/ — use absolute paths.",
        "Save ALL output files to $FLEET_ROOT/workers/a/output/ — use absolute paths.",
        "Save ALL output files to {root}/workers/ab/output/ — use absolute paths.",
        "Save your files to {root}/workers/a/output/",
    ],
)
def test_another_folder_or_other_words_do_not(tmp_path: Path, spelt: str) -> None:
    text = spelt.format(root=tmp_path)
    assert sent(tmp_path, text) == f"{text}\n{line(tmp_path)}\n"


def test_a_read_only_worker_is_not_told_to_save(tmp_path: Path) -> None:
    assert sent(tmp_path, "Look.", "read-only") == "Look."


@pytest.mark.parametrize("text", ["", " \n\t\n"])
def test_an_empty_prompt_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadInput) as raised:
        sent(tmp_path, text)
    assert str(raised.value) == (
        f"{tmp_path}/fleet.json:3: worker `a`: workers/a/prompt.md: is empty; write its task there"
    )


def test_a_missing_prompt_is_refused(tmp_path: Path) -> None:
    write_fleet(tmp_path, [worker("a"), worker("b")])
    (tmp_path / "workers" / "b" / "prompt.md").unlink()
    with pytest.raises(BadInput) as raised:
        load_fleet(tmp_path)
    assert str(raised.value) == (
        f"{tmp_path}/fleet.json:4: worker `b`: workers/b/prompt.md: no such file;"
        " write its task there"
    )
