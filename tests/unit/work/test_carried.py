"""Files that are carried: which paths and patterns name them, what is refused, and where they land."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from fanfold.errors import Terminal
from fanfold.work import carried
from fanfold.work.ask import Ask
from fanfold.work.carried import (
    AskFiles,
    CarriedFile,
    FileTrouble,
    Repository,
    check_pattern,
    collect,
    describe_inputs,
    is_there,
    matches,
    put_below,
)
from fanfold.work.media import content_hash
from fanfold.work.member import Request
from fanfold.work.wire import decode_request, encode_request, unpacked


def write(folder: Path, *paths: str) -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "~/x", "../x", "a/../../x", "a\\b", "a\0b", ".", "./", "x" * 1001]
)
def test_a_path_that_leads_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(FileTrouble, match=r"^`inputs`: "):
        check_pattern(path, "inputs")


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("a/*.txt", "a/b.txt", True),
        ("a/*.txt", "a/b/c.txt", False),
        ("a/**", "a/b/c.txt", True),
        ("a/**", "b/c.txt", False),
        ("**/*.py", "x.py", True),
        ("**/*.py", "a/b/x.py", True),
        ("**/*.py", ".git/x.py", False),
        ("a/**", "a/.hidden", False),
        (".github/*.yml", ".github/ci.yml", True),
        ("a?.md", "ab.md", True),
        ("[ab].md", "c.md", False),
    ],
)
def test_what_a_pattern_names(pattern: str, path: str, fits: bool) -> None:
    assert matches(pattern, path) is fits


def test_a_folder_is_all_that_is_below_it(tmp_path: Path) -> None:
    write(tmp_path, "docs/a.md", "docs/b/c.md", "docs/.d", "other")
    found = describe_inputs(tmp_path, [check_pattern("docs/", "inputs"), "other", "none/*"])
    assert [one.path for one in found] == ["docs/a.md", "docs/b/c.md", "other"]
    assert found[2] == CarriedFile("other", content_hash(b"other"), 5)


def test_a_link_is_not_followed_wherever_it_is(tmp_path: Path) -> None:
    write(tmp_path, "real/a")
    (tmp_path / "folder").symlink_to(tmp_path / "real")
    (tmp_path / "file").symlink_to(tmp_path / "real" / "a")
    (tmp_path / "real" / "b").symlink_to("/etc/hostname")
    for path in ("file", "folder/a", "real/b", "real/*"):
        with pytest.raises(FileTrouble, match="is a link, or lies behind one"):
            describe_inputs(tmp_path, [path])
        with pytest.raises(FileTrouble, match="is a link, or lies behind one"):
            collect(tmp_path, [path], tmp_path / "into", 0)


def test_a_file_is_not_written_through_a_link(tmp_path: Path) -> None:
    """One that is itself a link is replaced."""
    outside = tmp_path / "outside"
    outside.mkdir()
    write(tmp_path, "plan/x", "outside/kept")
    (tmp_path / "plan" / "out").symlink_to(outside)
    (tmp_path / "plan" / "link").symlink_to(outside / "kept")
    with pytest.raises(
        FileTrouble, match="`out/a` is a link, or lies behind one; it is not written"
    ):
        put_below(tmp_path / "plan", CarriedFile("out/a", "", 0), b"new")
    put_below(tmp_path / "plan", CarriedFile("link", "", 0), b"new")
    assert [one.name for one in outside.iterdir()] == ["kept"]
    assert (outside / "kept").read_text() == "outside/kept"
    assert (tmp_path / "plan" / "link").read_text() == "new"
    assert sorted(one.name for one in (tmp_path / "plan").iterdir()) == ["link", "out", "x"]


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for path in ("pipe", "folder"):
        with pytest.raises(FileTrouble, match=f"^`inputs`: `{path}` is not a file"):
            describe_inputs(tmp_path, [path])
    with pytest.raises(FileTrouble, match=r"^`inputs`: there is no `missing/a`"):
        describe_inputs(tmp_path, ["missing/a"])


def test_too_many_files_are_refused(tmp_path: Path) -> None:
    for n in range(carried.MOST_FILES + 1):
        (tmp_path / f"{n}.txt").touch()
    with pytest.raises(FileTrouble, match=r"more than 1,000 files; `\*.txt` is too wide"):
        describe_inputs(tmp_path, ["*.txt"])


def test_what_is_too_large_to_be_carried_is_refused(tmp_path: Path) -> None:
    """Files without content on the disk; one that need not be carried may have any size."""
    for name in ("a", "b", "c"):
        with (tmp_path / name).open("wb") as stream:
            stream.truncate(carried.FILE_BYTES)
    with (tmp_path / "d").open("wb") as stream:
        stream.truncate(carried.FILE_BYTES + 1)
    files = describe_inputs(tmp_path, ["a", "b", "c", "d"])
    assert files[3].size == carried.FILE_BYTES + 1
    with pytest.raises(FileTrouble, match=r"`d` is larger than 64.0 MB; use `files: shared`"):
        carried.check_sizes(files, "inputs")
    with pytest.raises(FileTrouble, match=r"192.0 MB together, more than 128.0 MB"):
        carried.check_sizes(files[:3], "inputs")
    with pytest.raises(FileTrouble, match=r"`outputs`: `d` is larger than"):
        collect(tmp_path, ["d"], tmp_path / "into", 0)


def test_outputs_are_kept_by_what_is_in_them_and_land_as_they_were(tmp_path: Path) -> None:
    write(tmp_path, "work/out/tool", "work/out/text")
    (tmp_path / "work/out/tool").chmod(0o755)
    tool, text = sorted(collect(tmp_path / "work", ["out/*"], tmp_path / "into", 0), key=str)[::-1]
    assert (tool.executable, text.executable) == (True, False)
    assert {one.name for one in (tmp_path / "into").iterdir()} == {tool.hash, text.hash}
    put_below(tmp_path / "plan", tool, (tmp_path / "into" / tool.hash).read_bytes())
    assert os.access(tmp_path / "plan/out/tool", os.X_OK)
    assert is_there(tmp_path / "plan", tool)
    assert not is_there(tmp_path / "plan", text)


def test_what_is_older_than_the_work_was_not_left_by_it(tmp_path: Path) -> None:
    """A plain path must have been written; of a pattern it is passed over."""
    write(tmp_path, "old")
    since = time.time_ns() + 10**9
    assert collect(tmp_path, ["ol*"], tmp_path / "into", since) == ()
    with pytest.raises(FileTrouble, match="`old` was not written; the one there is older"):
        collect(tmp_path, ["old"], tmp_path / "into", since)


def test_files_of_a_step_and_of_its_member_go_together(tmp_path: Path) -> None:
    one, two = CarriedFile("a", "1", 1), CarriedFile("b", "2", 2)
    step = AskFiles((one,), ("x",), "/plan")
    assert step.joined(AskFiles((two,), ("y",), "/plan", shared=True)) == AskFiles(
        (one, two), ("x", "y"), "/plan", shared=True
    )
    with pytest.raises(FileTrouble, match="of the member are below /other"):
        step.joined(AskFiles(folder="/other"))


BAD = {
    "an input": AskFiles((CarriedFile("../x", "0" * 32, 1),)),
    "an output": AskFiles(outputs=("/etc/hostname",)),
    "a home": AskFiles(home="workers/../../x"),
    "a folder of a repository": AskFiles(repository=Repository("0" * 40, "b", "../x")),
    "a hash": AskFiles((CarriedFile("x", "../../secret", 1),)),
}


@pytest.mark.parametrize("what", BAD)
def test_a_request_from_another_machine_that_leads_elsewhere_is_refused(
    tmp_path: Path, what: str
) -> None:
    request = decode_request(encode_request(Request(Ask(files=BAD[what]), span="r:1")))
    with pytest.raises(Terminal):
        unpacked(request, tmp_path)
    with pytest.raises(FileTrouble, match="leads out of its folder"):
        put_below(tmp_path / "work", CarriedFile("../x", "", 0), b"")
    assert not (tmp_path / "x").exists()
