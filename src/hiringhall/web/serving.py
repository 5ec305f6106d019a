"""Serving HTTP: uvicorn on one socket, until it is told to end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from typing import TYPE_CHECKING, Final

import uvicorn
import uvloop

from hiringhall.web.app import build
from hiringhall.web.patience import PatientProtocol
from hiringhall.web.services import Services

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hiringhall.web.options import WebOptions

BACKLOG: Final = 1024
CONNECTIONS_MAX: Final = 2000
CLOSE_S: Final = 2
"""How long answers that are under way may take when the process ends."""


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)


def serve(options: WebOptions, listener: socket.socket, ended: Callable[[], None] | None = None) -> None:
    """Serve until SIGTERM or SIGINT; with `ended`, also when that returns, which runs in a thread."""
    services = Services(options)
    config = uvicorn.Config(
        build(services),
        http=PatientProtocol,
        ws="none",
        loop="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_graceful_shutdown=CLOSE_S,
        ssl_certfile=options.certificate or None,
        ssl_keyfile=options.key or None,
    )
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)  # its start and its end are not news
    server = Server(config, services)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(server, listener, ended))


class Server(uvicorn.Server):
    """uvicorn's server, which ends like a command of ours: with exit code 0 after a signal."""

    def __init__(self, config: uvicorn.Config, services: Services) -> None:
        super().__init__(config)
        self._services = services

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        yield

    def stop(self) -> None:
        self._services.end_streams()
        self.should_exit = True


async def _serve(server: Server, listener: socket.socket, ended: Callable[[], None] | None) -> None:
    watch = asyncio.ensure_future(_end_with(server, ended)) if ended is not None else None
    try:
        await server.serve(sockets=[listener])
    finally:
        if watch is not None:
            watch.cancel()


async def _end_with(server: Server, ended: Callable[[], None]) -> None:
    await asyncio.get_running_loop().run_in_executor(None, ended)
    server.stop()
