"""The members around a session that has no plan: those of a roster, in the folder of the user."""

from __future__ import annotations

from pathlib import Path

from fanfold.members.roster import DEFAULT_ROSTER, Roster, find_roster, load_roster
from fanfold.run.open import Listed
from fanfold.work.member import Member
from fanfold.work.task import Budget


class Staff(Listed):
    """Functions are imported from the roster's folder; programs are started in `folder`."""

    def __init__(
        self, roster: Roster, folder: Path, *, allow_paid: bool = False, at_once: int | None = None
    ) -> None:
        super().__init__(roster, folder, allow_paid=allow_paid, at_once=at_once)
        self.roster, self.folder = roster, folder
        file = None if roster.file in (None, str(DEFAULT_ROSTER)) else roster.file
        self._home = folder if file is None else Path(file).absolute().parent

    def build(self, id: str) -> Member:
        self.roster.check_keys([id])
        function = self.roster.entry(id).traits.kind == "function"
        return self.roster.build(id, folder=self._home if function else self.folder)


def find_staff(
    roster: str | None, folder: Path, *, allow_paid: bool = False, at_once: int | None = None
) -> Staff:
    """Those of the roster that counts: the one named, or the one that is found from `folder`."""
    found = load_roster(find_roster(roster, None, folder))
    return Staff(found, folder, allow_paid=allow_paid, at_once=at_once)


def budget_words(budget: Budget) -> list[str]:
    """A budget as the command line takes it; nothing where there is no limit."""
    amounts = {name: getattr(budget, name) for name in budget.__struct_fields__}
    said = ",".join(f"{name}={amount}" for name, amount in amounts.items() if amount is not None)
    return ["--budget", said] if said else []
