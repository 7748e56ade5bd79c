"""The project does not know the machine it was written on."""

from __future__ import annotations

import re
from pathlib import Path

from tests.architecture.sources import ROOT, text_files

# Put together here, so that this file does not hold what it looks for.
TOPS = ("work", "root", "home", "Users")
MACHINE_PATH = re.compile(r"(?<![\w.$}~])/(?:" + "|".join(TOPS) + ")/")


def named(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    if not any(f"/{top}/" in text for top in TOPS):
        return []  # so in nearly every file, and found at once
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}"
        for number, line in enumerate(text.splitlines(), 1)
        if MACHINE_PATH.search(line)
    ]


def test_no_file_names_a_path_of_a_machine() -> None:
    assert [found for path in text_files() for found in named(path)] == []


def test_the_lock_files_name_packages_by_hash_and_no_index() -> None:
    for name in ("requirements.lock", "requirements-dev.lock"):
        lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
        stated = [line for line in lines if line and not line.startswith("#")]
        fits = re.compile(r"[a-z0-9.-]+==\S+( ; [^\\]+)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?")
        assert [line for line in stated if not fits.fullmatch(line)] == []
