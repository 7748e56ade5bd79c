"""The project does not know the machine it was written on."""

from __future__ import annotations

import re

from tests.architecture.sources import ROOT, text_files

# Put together here, so that this file does not hold what it looks for.
MACHINE_PATH = re.compile(r"(?<![\w.$}~])/(?:" + "|".join(("work", "root", "home", "Users")) + ")/")


def test_no_file_names_a_path_of_a_machine() -> None:
    named = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}"
        for path in text_files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if MACHINE_PATH.search(line)
    ]
    assert named == []


def test_the_lock_files_name_packages_by_hash_and_no_index() -> None:
    for name in ("requirements.lock", "requirements-dev.lock"):
        lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
        stated = [line for line in lines if line and not line.startswith("#")]
        fits = re.compile(r"[a-z0-9.-]+==\S+( ; [^\\]+)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?")
        assert [line for line in stated if not fits.fullmatch(line)] == []
