"""Stores whose bytes have changed on the disk: refused, or read as they were; never wrong in silence."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from fanfold.errors import FanfoldError
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.outcome import Receipt
from fanfold.work.task import Budget
from tests.flow.simulation import Camera, Provider, Said, Scene, play, words
from tests.fuzz.engine import Given, Wrong
from tests.fuzz.files import command

PAGE = 4096
USED = Usage(9, 9)
LONG = "long " * 2000  # a reply that is kept by its hash


def _says(ask: Ask, n: int) -> Said:
    text = ask.messages[0].content
    return Said(Reply(f"{text}, said {LONG if '3' in text else ''}", usage=USED), USED, 1.0)


def _scene(store: Path, name: str, provider: Provider, **more: Any) -> Scene:
    return Scene(store, (provider,), words(6), name=name, **more)


class Journals:
    """Two images of a store with a run that is done and one that is paused: with all of it in the database,
    and with the last commits in the write-ahead log. Pieces are edits of their files."""

    name, divisible = "journal", False

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="fuzz-")).resolve()
        first = self.home / "first"
        camera = Camera(first, self.home / "images", lambda: None)
        self.truth = play(_scene(first, "done", Provider(_says)), after_commit=camera).result
        play(
            _scene(first, "held", Provider(_says), budget=Budget(calls=3), settings={"fresh": True})
        )
        logged = max(camera.seen, key=lambda image: os.path.getmtime(image))
        self.images = {"whole": first, "logged": logged}
        self.files = {
            name: sorted(
                one.name for one in image.iterdir() if one.is_file() and one.stat().st_size
            )
            for name, image in self.images.items()
        }
        self.folder = self.home / "project"
        self.seen = {name: self._looked(image) for name, image in self.images.items()}

    def close(self) -> None:
        shutil.rmtree(self.home)

    def make(self, rng: Random) -> Given:
        image = rng.choice(list(self.images))
        return [
            image.encode(),
            *(self._edit(rng, image) for _ in range(rng.choice((1, 1, 1, 2, 4)))),
        ]

    def _edit(self, rng: Random, image: str) -> bytes:
        databases = [name for name in self.files[image] if name.startswith("journal.db")]
        name = rng.choice(databases if rng.random() < 0.9 else self.files[image])
        size = (self.images[image] / name).stat().st_size
        way = rng.choice(("flip", "flip", "flip", "flip", "noise", "zero", "cut", "swap", "copy"))
        at, to = rng.randrange(size), rng.randrange(size)
        if way in ("swap", "copy", "zero") and rng.random() < 0.8:
            at, to = at // PAGE * PAGE, to // PAGE * PAGE
        return json.dumps([name, way, at, to, rng.randrange(8), rng.choice((1, 8, 512))]).encode()

    def _spoiled(self, given: Given) -> str:
        image = given[0].decode() if given and given[0].decode() in self.images else "whole"
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.images[image], self.folder / "store")
        for piece in given[1:] if given and given[0].decode() in self.images else given:
            name, way, at, to, bit, few = json.loads(piece)
            file = self.folder / "store" / name
            if file.exists():
                file.write_bytes(_edited(bytearray(file.read_bytes()), way, at, to, bit, few))
        return image

    def check(self, given: Given) -> None:
        """Of a log that is damaged SQLite takes what is before the damage: an earlier state, but a whole
        one, and only that is asked for then. Of pages that are another's, or blank, what is told may be
        wrong; but no result, and nothing is asked again, or `fanfold store check` finds them."""
        image = self._spoiled(given)
        earlier = any(b"-wal" in piece for piece in given)
        flips = all(b'"flip"' in piece for piece in given if piece.startswith(b"["))
        found = self._looked(self.folder / "store")
        checked = command(self.folder, "store", "check", "store")[0]
        if flips and not earlier:
            self._check_looked(found, self.seen[image])
        try:
            for name in ("done", "later", "held"):
                self._check_run(name, earlier)
        except Wrong:
            if flips or checked == 0:
                raise

    def _looked(self, store: Path) -> dict[str, Any]:
        """What the commands tell of it; nothing of what they refuse."""
        folder, told = store.parent, {}
        for words_ in (
            ("status", "--json"),
            ("status", "done", "--json"),
            ("report", "done"),
            ("runs",),
        ):
            code, out, _ = command(folder, *words_, "--store", store.name)
            if code == 0:
                read = (
                    json.loads
                    if "--json" in words_
                    else _rows
                    if words_ == ("runs",)
                    else str.splitlines
                )
                told[" ".join(words_)] = read(out)
        return told

    def _check_looked(self, found: dict[str, Any], truth: dict[str, Any]) -> None:
        for name, told in found.items():
            if other := _difference(told, truth[name]):
                raise Wrong(f"{name} tells another {other}")

    def _check_run(self, name: str, earlier: bool) -> None:
        """Carried out again over the same items, or resumed."""
        provider = Provider(_says)
        scene = _scene(self.folder / "store", name, provider)
        try:
            receipt = play(replace(scene, budget=Budget(calls=20)), resume=name != "later")
        except FanfoldError as error:
            if "\n" in str(error) or len(str(error)) > 600:
                raise Wrong(f"more than a line: {error}") from error
            return
        self._check_receipt(name, receipt, 0 if earlier else len(provider.sent))

    def _check_receipt(self, name: str, receipt: Receipt, asked: int) -> None:
        if receipt.status == "complete" and receipt.result != self.truth:
            raise Wrong(f"{name} is complete with another result: {receipt.result!r:.200}")
        if name != "held" and asked > receipt.maybe_paid_twice:
            raise Wrong(f"{name}: {asked} asked again in silence, {receipt.maybe_paid_twice} told")
        msgspec.json.encode(receipt)


def _edited(raw: bytearray, way: str, at: int, to: int, bit: int, few: int) -> bytes:
    at, to = min(at, max(len(raw) - 1, 0)), min(to, max(len(raw) - 1, 0))
    match way:
        case "flip" if raw:
            raw[at] ^= 1 << bit
        case "noise":
            raw[at : at + few] = Random(to).randbytes(len(raw[at : at + few]))
        case "zero":
            raw[at : at + few * 8] = bytes(len(raw[at : at + few * 8]))
        case "cut":
            del raw[at:]
        case "swap" | "copy":
            one, other = raw[at : at + PAGE], raw[to : to + PAGE]
            if len(one) == len(other):
                raw[to : to + PAGE] = one
                raw[at : at + PAGE] = other if way == "swap" else one
    return bytes(raw)


def _rows(table: str) -> dict[str, str]:
    """By name, whatever the width of the columns; without what is explained below."""
    rows = [line.split() for line in table.partition("\n\n")[0].splitlines()]
    return {row[0]: " ".join(row) for row in rows}


def _difference(found: Any, truth: Any, name: str = "") -> str:
    """The first field that is told otherwise. A run or a line that says that it is damaged is not told as
    right."""
    if isinstance(found, str) and ("is damaged" in found or " damaged ? " in found):
        return ""
    if isinstance(found, dict) and "damaged" in str(found.get("reason")):
        return ""
    if isinstance(found, dict) and isinstance(truth, dict):
        keys = (*truth, *(key for key in found if key not in truth))
        each = (_difference(found.get(key), truth.get(key), key) for key in keys)
        return next((one for one in each if one), "")
    if isinstance(found, list) and isinstance(truth, list) and len(found) == len(truth):
        pairs = zip(found, truth, strict=True)
        return next((one for pair in pairs if (one := _difference(*pair, name))), "")
    return "" if found == truth else f"{name}: {found!r:.80}, not {truth!r:.80}"
