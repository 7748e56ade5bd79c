"""`fanfold init` and `fanfold new`: a small plan to begin with, or a copy of an application; and which
applications come with fanfold."""

from __future__ import annotations

import errno
import shlex
import shutil
import sys
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path, PurePath

import click

from fanfold.errors import BadInput
from fanfold.faces.cli.run import OutputOptions, perform, write_account
from fanfold.journal import opening
from fanfold.plans.prepare import Job, Options, prepare
from fanfold.work.nearest import remedy

PLAN = "plan.yaml"
USUAL = "contracts"


def names() -> list[str]:
    """Every folder of ours with a plan in it."""
    return sorted(one.name for one in _folder().iterdir() if one.joinpath(PLAN).is_file())


def known(name: str) -> str:
    """The name itself; BadInput when no application is called that."""
    there = names()
    if name not in there:
        raise BadInput(f"no application {name!r}: {remedy(name, there)}")
    return name


def listing() -> str:
    """All of them with the heading of their READMEs, for a help page (`\\b`: lines stay as they are)."""
    there = names()
    wide = max(map(len, there))
    return "\n".join(["\b", "Applications:", *(f"  {one:{wide}}  {_title(one)}" for one in there)])


def _title(name: str) -> str:
    """The title after the name in the first line: `# contracts: a risk report`."""
    page = _folder() / name / "README.md"
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    return text.partition("\n")[0].partition(": ")[2]


def copy(name: str, folder: Path) -> None:
    """Its files, into `folder`; those of an earlier time are written over. OSError if they cannot."""
    for inside, source in _files(_folder() / known(name), PurePath()):
        to = folder / inside
        to.parent.mkdir(parents=True, exist_ok=True)
        with source.open("rb") as stream, to.open("wb") as out:
            shutil.copyfileobj(stream, out)


def why(error: OSError) -> str:
    """In a few words, as part of a sentence."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full"
    return (error.strerror or "cannot be written").lower()


def _folder() -> Traversable:
    return resources.files("fanfold") / "apps"


def _files(folder: Traversable, inside: PurePath) -> list[tuple[PurePath, Traversable]]:
    found: list[tuple[PurePath, Traversable]] = []
    for one in folder.iterdir():
        if one.name.startswith(".") or one.name == "__pycache__":  # left by a run in place
            continue
        place = inside / one.name
        found += _files(one, place) if one.is_dir() else [(place, one)]
    return found


STARTER = ("plan.yaml", "roster.yaml", "items.jsonl")


@click.command()
@click.argument("folder", metavar="[FOLDER]", default=".")
def init(folder: str) -> None:
    """Write a small plan, a roster and an input into FOLDER (by default the current one). They run at once,
    without a key; the comments say what to change for a real model. No file is overwritten."""
    place = Path(folder)
    for name in STARTER:
        if (place / name).exists() or (place / name).is_symlink():
            raise BadInput(
                f"{place / name} is there already; name another folder: fanfold init FOLDER"
            )
    _write_starter(place)
    click.echo(
        f"{', '.join(str(place / name) for name in STARTER)}: they need no key. To run them:"
    )
    if place != Path("."):
        click.echo(f"  cd {shlex.quote(folder)}")
    click.echo("  fanfold run plan.yaml")
    click.echo("For a real model, and for your own items, see the comments in these files.")


def _write_starter(place: Path) -> None:
    """All of them or none: an unfinished copy does not prevent a second try."""
    starter, written = resources.files("fanfold.faces.cli") / "starter", list[Path]()
    try:
        place.mkdir(parents=True, exist_ok=True)
        for name in STARTER:
            with (place / name).open("xb") as out:  # never over one that came meanwhile
                written.append(place / name)
                out.write((starter / name).read_bytes())
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        raise BadInput(f"{place}: {why(error)}; name another folder") from None


@click.command(epilog=listing())
@click.argument("folder", metavar="FOLDER")
@click.option("--from", "name", metavar="NAME", help="The application to begin with.")
def new(folder: str, name: str | None) -> None:
    """Copy an application into a folder of your own, to change it there."""
    if name is None:
        raise BadInput(f"say which application to begin with: --from {'|'.join(names())}")
    known(name)
    _refuse_taken(Path(folder))
    _make(name, Path(folder))
    click.echo(f"{folder}: a copy of {name}; its README.md says what to change. To run it:")
    click.echo(f"  cd {shlex.quote(folder)}")
    click.echo(f"  fanfold run {PLAN}")


def _refuse_taken(folder: Path) -> None:
    try:
        taken = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    except OSError as error:
        raise BadInput(f"{folder}: {why(error)}; name another folder") from None
    if taken:
        raise BadInput(f"{folder} is not empty; name a new folder")


def _make(name: str, folder: Path) -> None:
    """All of it or nothing: an unfinished copy does not prevent a second try."""
    there = folder.exists()
    try:
        copy(name, folder)
    except OSError as error:
        for one in folder.iterdir() if folder.is_dir() else ():
            shutil.rmtree(one) if one.is_dir() else one.unlink()
        if folder.is_dir() and not there:
            folder.rmdir()
        raise BadInput(f"{folder}: {why(error)}; name another folder") from None


# ── `fanfold demo` ───────────────────────────────────────────────────────────────────────────

USUAL_STORE = ".fanfold"
REPORT = "report.md"
PAGE = "report.html"
"""The account of the run, for a browser; beside what the plan writes itself."""
MORE = "<!-- more -->"
"""The line of a report up to which it is shown here."""


@click.command(epilog=listing())
@click.argument("name", metavar="[NAME]", default=USUAL)
@click.option(
    "--store", default=USUAL_STORE, metavar="DIR", help="The folder that runs are stored in."
)
@click.option("--json", "as_json", is_flag=True, help="Print the receipt as one JSON object.")
@click.option("--quiet", is_flag=True, help="No progress.")
def demo(name: str, store: str, as_json: bool, quiet: bool) -> int:
    """Run an application that comes with fanfold: NAME, or contracts. It needs no key, no account
    and no network."""
    folder = opening.files(store) / "demo" / known(name)
    # Its files, into the store. A report of an earlier time must not pass for this run's.
    try:
        copy(name, folder)
        for left in (REPORT, PAGE):
            (folder / left).unlink(missing_ok=True)
    except OSError as error:
        raise BadInput(f"{folder}: {why(error)}; use --store DIR") from None
    job = prepare(str(folder / PLAN), Options(store=store))
    code = perform(job, OutputOptions(as_json, quiet))
    write_account(job.name, store, folder / PAGE)
    if not as_json:
        lines = (*_head(folder / REPORT), *_page(folder), *_onward(job, store))
        click.echo("\n".join((*lines, f"yours:   fanfold new my-{name} --from {name}")))
    return code


def _head(report: Path) -> Iterator[str]:
    """The part of the report that is meant for the terminal; nothing when there is no report."""
    if report.exists():
        shown, _, _ = report.read_text(encoding="utf-8").partition(f"{MORE}\n")
        yield from ("", shown.rstrip(), "")


def _page(folder: Path) -> Iterator[str]:
    """The run's account for a browser; the closing lines name what the plan wrote."""
    if (folder / PAGE).exists():
        yield f"page:    {folder / PAGE}"


def _onward(job: Job, store: str) -> Iterator[str]:
    """What can be typed next; after `make demo` that `fanfold` is found comes first."""
    begun = Path(sys.argv[0])
    if shutil.which("fanfold") is None and (begun.parent / "activate").exists():
        yield f"first:   . {shlex.quote(str(begun.parent / 'activate'))}"
    words = ["fanfold", "report", job.name, *([] if store == USUAL_STORE else ["--store", store])]
    yield f"report:  {shlex.join(words)}"
