"""`fanfold tune`: from recorded replies, who should be asked, in which order, and what that costs."""

from __future__ import annotations

import shutil
from pathlib import Path

import click
import msgspec

from fanfold.errors import BadInput
from fanfold.tune.choose import Goal
from fanfold.tune.choose import tune as tuned
from fanfold.tune.replies import read_replies
from fanfold.tune.show import plot, tuning_text

_WIDTH = 120


@click.command()
@click.argument("replies", type=click.Path(path_type=Path))
@click.option("--target", type=click.FloatRange(0, 1), help="Be right in this share of the items.")
@click.option("--max-usd-per-1000", type=click.FloatRange(0), help="Spend at most this much.")
@click.option("--as-good-as", metavar="MEMBER", help="Be right as often as this member.")
@click.option(
    "--plot", "picture", type=click.Path(path_type=Path), help="Write the frontier as SVG."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def tune(
    replies: Path,
    target: float | None,
    max_usd_per_1000: float | None,
    as_good_as: str | None,
    picture: Path | None,
    as_json: bool,
) -> None:
    """Find the cheapest way to answers that are good enough. REPLIES is a CSV with a row for each
    item and member: item, member, answer, truth (or right), usd, seconds; other columns are features
    to route by. Nothing is asked: half of the items chooses, the other half reports."""
    goal = Goal(target, max_usd_per_1000, as_good_as)
    if sum(one is not None for one in (target, max_usd_per_1000, as_good_as)) > 1:
        raise BadInput("state one of --target, --max-usd-per-1000 and --as-good-as")
    found = tuned(read_replies(replies), goal)
    if picture is not None:
        try:
            picture.write_text(plot(found), encoding="utf-8")
        except OSError as error:
            raise BadInput(f"cannot be written: {error.strerror}", file=str(picture)) from None
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=1).decode())
        return
    width = max(80, min(_WIDTH, shutil.get_terminal_size((_WIDTH, 24)).columns))
    click.echo(tuning_text(found, goal, width))
