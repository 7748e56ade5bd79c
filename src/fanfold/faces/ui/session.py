"""One server process: the page of a store, until it is stopped."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from ipaddress import ip_address

import msgspec

from fanfold.errors import BadInput
from fanfold.faces.connections import bounds
from fanfold.faces.ui.admission import PageAdmission
from fanfold.faces.ui.app import UiEndpoint
from fanfold.faces.ui.orders import PageOrders
from fanfold.faces.ui.reading import StoreReader
from fanfold.faces.web import HOST, listen
from fanfold.journal import opening
from fanfold.run.loop import on_ending_signals


class UiOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `fanfold ui`. `idle`: it ends when nobody has watched for so many seconds."""

    store: str
    token: str
    host: str = HOST
    port: int = 0
    idle: float | None = None
    read_only: bool = False


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


async def serve_ui(options: UiOptions, up: Callable[[str], None]) -> None:
    """Until a signal. `up` gets the link, with the token."""
    if not opening.outlives_process(options.store):
        raise BadInput(
            "a store in memory is seen only by its own process; use a folder: --store DIR"
        )
    opening.look(options.store).close()  # raises where there is none
    stop = asyncio.Event()
    listening = listen(options.port, options.host)
    port = listening.getsockname()[1]
    shown = f"[{options.host}]" if ":" in options.host else options.host
    hosts = {f"{name}:{port}" for name in (shown, HOST, "localhost", "[::1]")}
    admission = PageAdmission(options.token, hosts, port)
    orders = None if options.read_only else PageOrders(options.store, options.token)
    server = UiEndpoint(StoreReader(options.store, orders), admission, bounds(None))
    remove = on_ending_signals(lambda number: stop.set(), signal.SIGINT)
    server.start(listening)
    try:
        up(f"http://{shown}:{port}/?token={options.token}")
        await _until(stop, server, options.idle)
    finally:
        remove()
        await server.stop()
        listening.close()


async def _until(stop: asyncio.Event, server: UiEndpoint, idle: float | None) -> None:
    seen = time.monotonic()
    while not stop.is_set():
        try:
            await asyncio.wait_for(stop.wait(), None if idle is None else min(idle, 1.0))
        except TimeoutError:
            seen = time.monotonic() if server.announcer.watched else seen
            if idle is not None and time.monotonic() - seen > idle:
                return
