"""A kind of member as a newcomer would add it: the example of CONTRIBUTING.md, to the letter."""

from __future__ import annotations

from pathlib import Path

from fanfold.members.kinds import BuildContext, MemberFields
from fanfold.price import FREE
from fanfold.work.ask import Ask, Reply
from fanfold.work.member import Request, Tell, Traits
from fanfold.work.reader import Count


class EchoFields(MemberFields, frozen=True, kw_only=True, tag="echo"):
    """Answers with the prompt, `times` over."""

    times: Count = 1

    def traits(self, roster: Path) -> Traits:
        answerer = f"echo:{self.times}"
        return Traits(**self.common(), answerer=answerer, price=FREE, metered=False)

    def build(self, traits: Traits, context: BuildContext) -> Echo:
        return Echo(traits, self.times)


class Echo:
    def __init__(self, traits: Traits, times: int) -> None:
        self.traits, self._times = traits, times

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    def prepare(self, ask: Ask) -> Request:
        return Request(ask)

    async def ask(self, request: Request, tell: Tell) -> Reply:
        return Reply(text=request.ask.spoken() * self._times)
