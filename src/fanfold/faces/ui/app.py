"""The page as an application of starlette, and its server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from socket import socket

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fanfold.faces.connections import Bounds
from fanfold.faces.ui.admission import HEADERS, PageAdmission
from fanfold.faces.ui.compare import compare_page
from fanfold.faces.ui.fleet import worker_page
from fanfold.faces.ui.item import item_page
from fanfold.faces.ui.live import Announcer
from fanfold.faces.ui.money import money_page
from fanfold.faces.ui.reading import StoreReader
from fanfold.faces.ui.run import run_page
from fanfold.faces.ui.runs import runs_page
from fanfold.faces.ui.seen import SeenRun, seen_run
from fanfold.faces.ui.shell import STATIC, UiPage, document, kind_of
from fanfold.faces.web import Gatekeeper, RequestRefused, WebServer, application, event_stream
from fanfold.journal.contract import StoreView
from fanfold.journal.facts import RunRecord
from fanfold.observe.html.page import esc
from fanfold.observe.metrics import CONTENT_TYPE, metrics_text

BODY = 64 * 1024
LINGER = 0.5  # seconds for clients to take their responses, at the end; streams would never end

OfStore = Callable[[StoreReader, StoreView, Mapping[str, str]], UiPage]
OfRun = Callable[[SeenRun], UiPage]


class UiEndpoint:
    """`start`, then `stop`. It only reads, except for the forms of a run's pages."""

    def __init__(self, reader: StoreReader, admission: PageAdmission, bounds: Bounds) -> None:
        self._reader, self.announcer = reader, Announcer(reader)
        routes = [
            Route("/", self._of_store(runs_page)),
            Route("/money", self._of_store(money_page)),
            Route("/compare", self._of_store(compare_page)),
            *(Route(path, self._of_run(page)) for path, page in _OF_RUN.items()),
            *(Route(path, self._order, methods=["POST"]) for path in _OF_RUN),
            Route("/events", self._events),
            Route("/metrics", self._metrics),
            Route("/static/{name}", self._static),
        ]
        app = application(routes, self._respond)
        self._server = WebServer(Gatekeeper(app, admission, BODY, self._respond), bounds)

    def start(self, listening: socket) -> None:
        self._server.start(listening)

    async def stop(self) -> None:
        await self.announcer.close()
        await self._server.stop(LINGER)
        self._reader.close()

    # ── the paths ──

    def _of_store(self, page: OfStore) -> Callable[[Request], object]:
        async def answer(request: Request) -> Response:
            query = dict(request.query_params)
            return await self._shown(lambda view: page(self._reader, view, query))

        return answer

    def _of_run(self, page: OfRun) -> Callable[[Request], object]:
        async def answer(request: Request) -> Response:
            query, id = dict(request.query_params), request.path_params["run"]

            def made(view: StoreView) -> UiPage:
                return page(seen_run(self._reader, view, _found(view, id), query))

            return await self._shown(made)

        return answer

    async def _order(self, request: Request) -> Response:
        """The answer is the page again, which says what came of it."""
        if self._reader.orders is None:
            raise RequestRefused("this page is read only: it takes no orders", status=403)
        run = await self._reader.ask(lambda view: _found(view, request.path_params["run"]))
        await self._reader.orders.take(run, await request.body())
        back = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return Response(status_code=303, headers=HEADERS | {"Location": back})

    async def _shown(self, made: Callable[[StoreView], UiPage]) -> Response:
        return self._html(await self._reader.ask(made))

    def _html(self, page: UiPage, status: int = 200) -> Response:
        text = document(page, self._reader.shown, read_only=self._reader.orders is None)
        return Response(text.encode(errors="replace"), status, HEADERS, "text/html; charset=utf-8")

    async def _events(self, request: Request) -> Response:
        answer = event_stream(self.announcer.stream())
        answer.headers.update(HEADERS)
        return answer

    async def _metrics(self, request: Request) -> Response:
        text = await self._reader.ask(lambda view: metrics_text(view.read))
        return Response(text, 200, HEADERS, CONTENT_TYPE)

    async def _static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in STATIC:
            raise RequestRefused("there is no such file", status=404)
        headers = HEADERS | {"Cache-Control": "private, max-age=86400, immutable"}
        return Response(STATIC[name], 200, headers, kind_of(name))

    def _respond(self, error: RequestRefused) -> Response:
        body = f"<h1>{_TITLES.get(error.status, 'Not shown')}</h1><p>{esc(str(error))}</p>"
        return self._html(UiPage(title="Not shown", body=body), error.status)


def _found(view: StoreView, id: str) -> RunRecord:
    record = view.read.find(id)
    if record is None:
        raise RequestRefused(f"there is no run {id!r} in this store", status=404)
    return record


_OF_RUN: dict[str, OfRun] = {
    "/run/{run}": run_page, "/run/{run}/item": item_page, "/run/{run}/worker": worker_page,
}  # fmt: skip
_TITLES = {401: "The link is needed", 403: "Refused", 404: "Not found"}
