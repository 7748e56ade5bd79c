"""Orders by clicking: the buttons of a page, what they ask for, and what came of it.

A form is sent to the address of the page that it is on. Its buttons have the verb for a name and the
object for a value, so it works without a script. The order itself is the one of the command line.
"""

from __future__ import annotations

import asyncio
import getpass
import time
from collections import deque
from collections.abc import Callable, Mapping
from hashlib import sha256
from urllib.parse import parse_qsl

import msgspec

from fanfold.errors import FanfoldError
from fanfold.faces.web import RequestRefused, is_same
from fanfold.fleet import tmux
from fanfold.fleet.kill import kill_all, kill_worker
from fanfold.fleet.launch import Launched, register, resume_detached, retry_options
from fanfold.fleet.relaunch import relaunch
from fanfold.fleet.runs import Registry, reading
from fanfold.journal import opening
from fanfold.journal.answers import OrderRecord
from fanfold.journal.facts import OrderState, RunRecord
from fanfold.journal.opening import open_store
from fanfold.plans.prepare import Options, prepare_resume
from fanfold.run.orders import Verb, WorkerMessage, give

PATIENCE = 5.0  # seconds until a page is shown without the answer of the run's process
KEPT = 100
_FORMS: tuple[Verb, ...] = ("pause", "resume", "set", "approve", "skip", "tell")
_UNASKED = "this is not a form of this page; reload the page and try again"


class PageOrders:
    """Takes the forms of all pages of a store. What is no fact of the journal (a process that was
    started or ended) is remembered here, so that the page can say what came of it."""

    def __init__(self, place: str, secret: str) -> None:
        self._place = place
        self.token = sha256(f"form {secret}".encode()).hexdigest()
        self._done: deque[OrderRecord] = deque(maxlen=KEPT)

    async def take(self, run: RunRecord, body: bytes) -> None:
        """Carry out what a form asks for. RequestRefused: it is no form of ours."""
        form = dict(parse_qsl(body.decode("latin-1"), keep_blank_values=True, encoding="utf-8"))
        if not is_same(form.get("token", ""), self.token):
            raise RequestRefused(_UNASKED, status=403)
        for verb in _FORMS:
            if verb in form:
                await self._order(run, verb, _object(form, verb))
        for name, act in self._acts.items():
            if name in form:
                await self._act(run, name, form[name], act)

    def given(self, run: int, journal: list[OrderRecord]) -> list[OrderRecord]:
        """The newest first."""
        own = [one for one in self._done if one.run == run]
        return sorted([*journal, *own], key=lambda one: one.at, reverse=True)

    async def _order(self, run: RunRecord, verb: Verb, value: str) -> None:
        store = open_store(self._place)
        try:
            async with asyncio.timeout(PATIENCE):
                await give(store, run, _user(), verb, value)
        except TimeoutError:
            pass  # the page shows it as given, and its answer when it comes
        except FanfoldError as error:
            self._note(run, verb, value, str(error), "refused")
        finally:
            store.close()

    # ── what starts and ends processes ──

    async def _act(
        self, run: RunRecord, name: str, value: str, act: Callable[[RunRecord, str], str]
    ) -> None:
        try:
            said = await asyncio.to_thread(act, run, value)
            if said or name != "kill":  # one that was killed is on record as that
                self._note(run, name, value, said, "done")
        except FanfoldError as error:
            self._note(run, name, value, str(error), "refused")

    def _note(self, run: RunRecord, what: str, value: str, said: str, state: OrderState) -> None:
        now = time.time()
        self._done.append(OrderRecord(0, run.no, now, _user(), what, value, state, now, said))

    @property
    def _acts(self) -> dict[str, Callable[[RunRecord, str], str]]:
        return {
            "continue": self._continue, "retry": self._retry, "kill": self._kill,
            "kill-all": self._kill_all, "relaunch": self._relaunch,
        }  # fmt: skip

    def _continue(self, run: RunRecord, value: str) -> str:
        job = prepare_resume(run.id, Options(store=self._place))
        return _started(resume_detached(job))

    def _retry(self, run: RunRecord, id: str) -> str:
        options = retry_options(self._place, run.id, [id])
        return _started(resume_detached(prepare_resume(run.id, options)))

    def _kill(self, run: RunRecord, id: str) -> str:
        ended = kill_worker(opening.server(self._place) or self._files(), run, id, _user())
        if ended.left:
            raise FanfoldError(f"could not be ended: {'; '.join(ended.left)}")
        return ended.said

    def _kill_all(self, run: RunRecord, value: str) -> str:
        folder = self._files()
        ended = kill_all(opening.server(self._place) or folder, run, _user())
        Registry().remove(run.name, run.id)
        tmux.close_session(run.name, run.id, folder)
        if ended.left:
            raise FanfoldError(f"could not be ended: {'; '.join(ended.left)}")
        return ", ".join(ended.killed)

    def _relaunch(self, run: RunRecord, id: str) -> str:
        return _started(relaunch(run.id, id, Options(store=self._place), _user()))

    def _files(self) -> str:
        with reading(self._place) as archive:
            return str(archive.files)


def _started(launched: Launched) -> str:
    return register(launched, Registry()) or ""


def _object(form: Mapping[str, str], verb: Verb) -> str:
    """Of `set` and `tell`: the button says what or whom, the field beside it the rest."""
    stated, value = form[verb], form.get("value", "").strip()
    if verb == "tell":
        return msgspec.json.encode(WorkerMessage(stated, value)).decode()
    if verb != "set" or "=" in stated:
        return stated
    return f"{stated}={value}" if stated else value


def _user() -> str:
    try:
        return f"{getpass.getuser()} on the page"
    except (KeyError, OSError):  # a user without a name
        return "the operator on the page"
