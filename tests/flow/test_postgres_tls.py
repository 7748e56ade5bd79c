"""A store on a server that has a certificate, made by the test: who trusts it uses the store by TLS, who does
not is refused in one line."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from fanfold.journal import opening
from tests.faces.cli import fanfold
from tests.postgres import server_at

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed"),
]
BY_TLS = (
    "select distinct s.ssl from pg_stat_ssl s join pg_stat_activity a using (pid)"
    " where a.application_name = 'fanfold'"
)


def certificate(folder: Path, name: str) -> Path:
    """For `localhost`, signed by itself; its key is beside it."""
    made = folder / f"{name}.crt"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
             "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
             "-keyout", made.with_suffix(".key"), "-out", made]  # fmt: skip
    subprocess.run(words, check=True, capture_output=True)
    return made


def test_a_store_is_used_by_tls_and_only_with_a_certificate_that_is_trusted(tmp_path: Path) -> None:
    mine, other = certificate(tmp_path, "mine"), certificate(tmp_path, "other")
    with server_at("127.0.0.1", tls=mine) as server:

        def place(mode: str, root: Path = mine, host: str = "localhost") -> str:
            address = server.place("team").replace("127.0.0.1", host)
            return f"{address}&sslmode={mode}&sslrootcert={root}"

        store = opening.open_store(place("verify-full"))
        assert store.read.runs() == []
        assert server.run(BY_TLS) == [(True,)]
        store.close()
        assert fanfold(tmp_path, "status", "--store", place("verify-full")).code == 0
        refused(tmp_path, place("verify-full", other), "certificate verify failed")
        refused(tmp_path, place("verify-full", tmp_path / "none.crt"), "does not exist")
        refused(tmp_path, place("verify-full", host="127.0.0.1"), "server certificate for")
        refused(tmp_path, place("disable"), "no encryption")


def refused(folder: Path, place: str, why: str) -> None:
    ended = fanfold(folder, "status", "--store", place)
    assert (ended.code, ended.out) == (2, ""), ended
    assert ended.err.startswith(f"fanfold: {place}: ")
    assert why in ended.err
    assert ended.err.count("\n") == 1, ended


def test_a_server_without_a_certificate_is_refused_where_one_is_required(tmp_path: Path) -> None:
    with server_at("127.0.0.1") as server:
        refused(tmp_path, f"{server.place('team')}&sslmode=require", "does not support SSL")
