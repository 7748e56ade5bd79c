"""`fanfold demo`: an application that comes with fanfold, on its embedded default."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from fanfold.errors import BadInput
from fanfold.faces.cli import examples
from fanfold.faces.cli.run import OutputOptions, perform, write_account
from fanfold.journal import opening
from fanfold.plans.execute import Job, Options, prepare

USUAL_STORE = ".fanfold"
REPORT = "report.md"
PAGE = "report.html"
"""The account of the run, for a browser; beside what the plan writes itself."""
MORE = "<!-- more -->"
"""The line of a report up to which it is shown here."""


@click.command(epilog=examples.listing())
@click.argument("name", metavar="[NAME]", default=examples.USUAL)
@click.option(
    "--store", default=USUAL_STORE, metavar="DIR", help="The folder that runs are stored in."
)
@click.option("--json", "as_json", is_flag=True, help="Print the receipt as one JSON object.")
@click.option("--quiet", is_flag=True, help="No progress.")
def demo(name: str, store: str, as_json: bool, quiet: bool) -> int:
    """Run an application that comes with fanfold: NAME, or contracts. It needs no key, no account
    and no network."""
    folder = opening.files(store) / "demo" / examples.known(name)
    # Its files, into the store. A report of an earlier time must not pass for this run's.
    try:
        examples.copy(name, folder)
        for left in (REPORT, PAGE):
            (folder / left).unlink(missing_ok=True)
    except OSError as error:
        raise BadInput(f"{folder}: {examples.why(error)}; use --store DIR") from None
    job = prepare(str(folder / examples.PLAN), Options(store=store))
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
