"""`fanfold skill`: what tells coding agents when and how to use fanfold, put where they look."""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256
from importlib import resources
from pathlib import Path

import click

from fanfold.errors import BadInput

TOOLS = {"claude": ".claude/skills", "codex": ".agents/skills"}
"""Where each looks for skills: below the home folder, and below a project's. Codex shares its
folder with other tools that follow the open standard for skills."""

NAME, FILE, MARK = "fanfold", "SKILL.md", ".installed"


@click.group()
def skill() -> None:
    """What tells Claude Code and Codex when and how to use fanfold."""


@skill.command()
def show() -> None:
    """Print it."""
    click.echo(shipped(), nl=False)


@skill.command()
@click.option(
    "--for", "tools", type=click.Choice(list(TOOLS)), multiple=True,
    help="For that one only; both by default.",
)  # fmt: skip
@click.option("--project", is_flag=True, help="Into this folder instead of the home folder.")
@click.option("--force", is_flag=True, help="Also over a file that was changed by hand.")
def install(tools: tuple[str, ...], project: bool, force: bool) -> None:
    """Put it where the tools look for skills. Doing it again brings it up to date."""
    top = Path() if project else home(os.environ)
    text = shipped()
    places = [top / TOOLS[tool] / NAME for tool in tools or TOOLS]
    if not force:
        for place in places:
            _refuse_changed(place, text)
    for place in places:
        click.echo(_write(place, text))


def shipped() -> str:
    return (resources.files("fanfold") / "skills" / NAME / FILE).read_text(encoding="utf-8")


def home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or "~").expanduser()


def _refuse_changed(place: Path, text: str) -> None:
    """A file that is neither the one of now nor one we wrote belongs to somebody."""
    found = _read(place / FILE)
    if found in (None, text) or _digest(found or "") == (_read(place / MARK) or "").strip():
        return
    raise BadInput(f"{place / FILE} was changed by hand; --force writes over it")


def _write(place: Path, text: str) -> str:
    file = place / FILE
    before = _read(file)
    try:
        place.mkdir(parents=True, exist_ok=True)
        if before != text:
            file.write_text(text, encoding="utf-8")
        (place / MARK).write_text(f"{_digest(text)}\n", encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{file}: cannot be written: {error.strerror}") from None
    if before == text:
        return f"{file}: up to date"
    return f"{file}: {'written' if before is None else 'brought up to date'}"


def _read(file: Path) -> str | None:
    """None where there is none; what is no text is changed, whoever did it."""
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadInput(f"{file}: cannot be read: {error.strerror}") from None


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "replace")).hexdigest()
