"""A TCP proxy that can stop forwarding, in either direction, as a broken network does."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType


class Proxy:
    """`address`: where it listens; it forwards to a port of loopback."""

    def __init__(self, port: int, address: str = "127.0.0.1") -> None:
        self._target = port
        self._listening = socket.create_server((address, 0))
        self.port: int = self._listening.getsockname()[1]
        self._flowing = {"to_server": threading.Event(), "from_server": threading.Event()}
        self._open: set[socket.socket] = set()
        for event in self._flowing.values():
            event.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def hold(self, direction: str) -> None:
        """Nothing more is forwarded in that direction, or in both."""
        for name, event in self._flowing.items():
            if direction in (name, "both"):
                event.clear()

    def mend(self) -> None:
        """What was held back is forwarded now, late, and all that follows."""
        for event in self._flowing.values():
            event.set()

    def drop(self) -> None:
        """End all connections, with what they hold; new ones work."""
        held, self._open = self._open, set()
        for one in held:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self.mend()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                client.close()
                continue
            self._open |= {client, server}
            for here, there, way in (
                (client, server, "to_server"),
                (server, client, "from_server"),
            ):
                work = threading.Thread(target=self._forward, args=(here, there, way))
                work.daemon = True
                work.start()

    def _forward(self, here: socket.socket, there: socket.socket, way: str) -> None:
        with here, suppress(OSError):
            while data := here.recv(65536):
                self._flowing[way].wait()
                if here not in self._open:
                    break  # it was dropped meanwhile, and this with it
                there.sendall(data)
        with suppress(OSError):
            there.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listening.close()
        self.drop()
