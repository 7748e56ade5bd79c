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

NAME, MARK = "fanfold", ".installed"
FILES = ("SKILL.md", "FLEET.md")


@click.group()
def skill() -> None:
    """The skill that tells Claude Code and Codex when and how to use fanfold."""


@skill.command()
@click.argument("page", default=FILES[0], type=click.Choice(FILES), metavar="[PAGE]")
def show(page: str) -> None:
    """Print the skill, or its other page, FLEET.md."""
    click.echo(shipped(page), nl=False)


@skill.command()
@click.option(
    "--for", "tools", type=click.Choice(list(TOOLS)), multiple=True,
    help="Only for this program; both by default.",
)  # fmt: skip
@click.option("--project", is_flag=True, help="Into this folder instead of the home folder.")
@click.option("--force", is_flag=True, help="Overwrite a file that was changed by hand.")
def install(tools: tuple[str, ...], project: bool, force: bool) -> None:
    """Install or update the skill where the tools look for it."""
    top = Path() if project else home(os.environ)
    texts = {file: shipped(file) for file in FILES}
    places = [top / TOOLS[tool] / NAME for tool in tools or TOOLS]
    if not force:
        for place in places:
            _refuse_changed(place, texts)
    for place in places:
        click.echo(_write(place, texts))


def shipped(file: str) -> str:
    return (resources.files("fanfold") / "skills" / NAME / file).read_text(encoding="utf-8")


def home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or "~").expanduser()


def _refuse_changed(place: Path, texts: Mapping[str, str]) -> None:
    """A file that is neither the one of now nor one we wrote belongs to somebody."""
    for file, text in texts.items():
        found = _read(place / file)
        if found in (None, text):
            continue
        if _digest(found or "") not in (_read(place / MARK) or "").split():
            raise BadInput(f"{place / file} was changed by hand; --force overwrites it")


def _write(place: Path, texts: Mapping[str, str]) -> str:
    """What came of it. The digests of all pages are remembered beside them."""
    before = {file: _read(place / file) for file in texts}
    try:
        place.mkdir(parents=True, exist_ok=True)
        for file, text in texts.items():
            if before[file] != text:
                (place / file).write_text(text, encoding="utf-8")
        digests = "".join(f"{_digest(text)}\n" for text in texts.values())
        (place / MARK).write_text(digests, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{place / FILES[0]}: cannot be written: {error.strerror}") from None
    if before == texts:
        return f"{place / FILES[0]}: up to date"
    new = before[FILES[0]] is None
    return f"{place / FILES[0]}: {'written' if new else 'brought up to date'}"


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
