"""`fanfold members --why`: who would be asked for a task, who not, and the reasons."""

from __future__ import annotations

from collections.abc import Mapping

import click
import msgspec

from fanfold.clock import RealClock
from fanfold.errors import BadInput
from fanfold.faces.cli.store import opened
from fanfold.journal import opening
from fanfold.members.roster import Roster
from fanfold.members.route import ORDER, Need, Ranking, explain, rank
from fanfold.run.choose import months_used_up
from fanfold.work.member import MemberStats, Traits


class Asked(msgspec.Struct, frozen=True):
    """The options of `--why`. `needs` may hold several words each, with commas between them."""

    why: bool = False
    needs: tuple[str, ...] = ()
    tokens: int = 0
    allow_paid: bool = False

    def __bool__(self) -> bool:
        return self.why or bool(self.needs) or self.tokens > 0

    @property
    def words(self) -> tuple[str, ...]:
        found = [word.strip() for given in self.needs for word in given.split(",")]
        return tuple(dict.fromkeys(word for word in found if word))


def tell_why(roster: Roster, store: str, asked: Asked, as_json: bool) -> None:
    """Nobody fits: everyone with what is in the way, then refused with the nearest miss."""
    ranking = _ranking(roster, store, asked)
    if as_json:
        said = {"ranked": ranking.ranked, "barred": ranking.barred, "miss": ranking.miss or None}
        click.echo(msgspec.json.encode(said))
    elif lines := explain(ranking):
        click.echo("\n".join([*lines, *([ORDER] if len(ranking.ranked) > 1 else ())]))
    if ranking.miss:
        raise BadInput(ranking.miss)


def _ranking(roster: Roster, store: str, asked: Asked) -> Ranking:
    traits = {id: entry.traits for id, entry in roster.entries.items()}
    stats, closed = _past(traits, store)
    need = Need(
        needs=asked.words,
        tokens=asked.tokens,
        allow_paid=asked.allow_paid or roster.settings.allow_paid,
        closed=closed,
    )
    return rank(tuple(traits.values()), need, stats)


def _past(
    traits: Mapping[str, Traits], store: str
) -> tuple[dict[str, MemberStats], dict[str, str]]:
    """How each did so far, at whatever it was asked, and who has used up its budget of the month."""
    if not opening.exists(store):
        return {}, {}
    with opened(store) as archive:
        read, clock = archive.read, RealClock()
        found = {id: read.member_stats(id, one.answerer, None) for id, one in traits.items()}
        stats = {id: one for id, one in found.items() if one is not None}
        return stats, months_used_up(read, traits, clock)
