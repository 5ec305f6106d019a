"""Serving HTTP: uvicorn on one socket, until it is told to end."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING, Final

import uvicorn
import uvloop

from hiringhall.web.app import build

if TYPE_CHECKING:
    from collections.abc import Callable

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
    config = uvicorn.Config(
        build(options),
        http="h11",
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
    server = uvicorn.Server(config)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(server, listener, ended))


async def _serve(server: uvicorn.Server, listener: socket.socket, ended: Callable[[], None] | None) -> None:
    watch = asyncio.ensure_future(_end_with(server, ended)) if ended is not None else None
    try:
        await server.serve(sockets=[listener])
    finally:
        if watch is not None:
            watch.cancel()


async def _end_with(server: uvicorn.Server, ended: Callable[[], None]) -> None:
    await asyncio.get_running_loop().run_in_executor(None, ended)
    server.should_exit = True
