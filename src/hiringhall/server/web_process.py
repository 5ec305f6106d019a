"""The web process of a hall: its socket, its start, and its restart when it ends.

The hall binds the socket and keeps it, so that the address is known when the hall opens, and browsers wait
instead of being refused while the web process starts again. Invariant: nothing of the web runs in the process
of the hall, and a web process that fails never harms the hall.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import logging
import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from hiringhall.config.quantities import Address
from hiringhall.sdk.addresses import TOKEN_VARIABLE
from hiringhall.storage.opening import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hiringhall.config.schema import Config
    from hiringhall.server.opening import OpenDoor

BACKLOG: Final = 1024
RESTART_S: Final = 0.5
"""The wait before the first restart; it doubles up to the longest."""
RESTART_MAX_S: Final = 30.0
STEADY_S: Final = 60.0
"""A process that ran this long is started again soon."""
CLOSE_S: Final = 3.0
"""How long it may take to end with the hall."""
TAKEN_S: Final = 1.0
"""How long an address that is in use is waited for: the web process of a hall that was killed has it for a
moment longer than the hall."""
TAKEN_LOOK_S: Final = 0.02

_log = logging.getLogger("hiringhall")


class WebProcess:
    """Starts the web process, and starts it again."""

    def __init__(self, config: Config, hall_url: str, data: str, listener: socket.socket) -> None:
        settings = config.web
        host, port = listener.getsockname()[:2]
        self.address = Address(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        self.url = f"{'https' if settings.tls is not None else 'http'}://{self.address}"
        self._listener = listener
        options = {
            "hall": hall_url,
            "data": data,
            "address": str(self.address),
            "hosts": list(settings.hosts),
            "queue_labels_max": settings.queue_labels_max,
            "certificate": settings.tls.certificate if settings.tls is not None else "",
            "key": settings.tls.key if settings.tls is not None else "",
            "log_level": config.hall.log_level,
            "log_format": config.hall.log_format,
        }
        self._options = json.dumps(options).encode() + b"\n"
        self._keeper: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._keeper = asyncio.create_task(self._keep(), name="web process")

    def stop_taking(self) -> None:
        """The dashboard shows how the hall drains."""

    async def close(self) -> None:
        self._listener.close()
        if self._keeper is not None:
            self._keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeper

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        wait_s = RESTART_S
        while True:
            started_s = loop.time()
            try:
                # A thread, since a process as large as a hall takes a while to start another.
                process = await asyncio.shield(loop.run_in_executor(None, self._spawn))
                code = await self._until_end(process)
                reason = f"signal {-code}" if code < 0 else f"exit code {code}"
            except OSError as error:
                reason = str(error)
            if loop.time() - started_s > STEADY_S:
                wait_s = RESTART_S
            _log.warning("the web process ended (%s); it is started again in %g s", reason, wait_s)
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * 2, RESTART_MAX_S)

    def _spawn(self) -> subprocess.Popen[bytes]:
        descriptor = self._listener.fileno()
        process = subprocess.Popen(  # noqa: S603 (our own module)
            [sys.executable, "-m", "hiringhall.web", str(descriptor)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            # A token in the environment of the hall is for another one: this machine needs none.
            env={name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE},
            pass_fds=[descriptor],
            start_new_session=True,  # Ctrl-C is for the hall, which drains first
        )
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(self._options)
            process.stdin.flush()
        return process

    async def _until_end(self, process: subprocess.Popen[bytes]) -> int:
        """The exit code. The process ends with this wait, whoever ends it."""
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        descriptor = os.pidfd_open(process.pid)
        loop.add_reader(descriptor, ended.set)
        try:
            await ended.wait()
        finally:
            assert process.stdin is not None
            process.stdin.close()  # it ends, if it has not
            try:
                async with asyncio.timeout(CLOSE_S):
                    await ended.wait()
            except TimeoutError:
                process.kill()
                await ended.wait()
            loop.remove_reader(descriptor)
            os.close(descriptor)
            code = process.wait()
        return code


async def open_web(
    config: Config, doors: Iterable[OpenDoor], data: str, *, has_tokens: bool
) -> WebProcess | None:
    """The web process of a hall whose doors are open; None: there is none, and the log says why."""
    settings = config.web
    if not settings.enabled:
        return None
    hall_url = _find_door(doors)
    if not hall_url:
        _log.info(
            "there is no web (dashboard and HTTP API): it needs a native door that this machine reaches without"
            " TLS, such as --door native=127.0.0.1:4731"
        )
        return None
    if not settings.address.is_loopback and not has_tokens:
        # The hall does not fail for it: the last token may have been revoked or have expired.
        remedy = "a hall in memory has none"
        if data:
            token = f"hall token add NAME --role admin --data {shown(data)}"
            remedy = f"make one with `{token}` and start the hall again"
        _log.warning(
            "there is no web on %s: other machines reach it, so it needs tokens; %s, or listen on 127.0.0.1",
            settings.address,
            remedy,
        )
        return None
    try:
        listener = await _listen(settings.address)
    except OSError as error:
        why = "is in use by another program" if error.errno == errno.EADDRINUSE else f"cannot be used ({error})"
        _log.warning(
            "%s %s, so there is no web: choose another address with --web HOST:PORT, or use --no-web",
            settings.address,
            why,
        )
        return None
    return WebProcess(config, hall_url, data, listener)


async def _listen(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + TAKEN_S
    while True:
        try:
            return socket.create_server((address.host, address.port), family=family, backlog=BACKLOG)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or loop.time() > deadline_s:
                raise
        await asyncio.sleep(TAKEN_LOOK_S)


def _find_door(doors: Iterable[OpenDoor]) -> str:
    """The URL of a native door for a program on this machine; the Unix socket is the best one."""
    native = [door for door in doors if door.dialect == "native" and not door.encryption]
    for door in native:
        if door.address.path:
            path = os.path.abspath(door.address.path)  # noqa: PTH100 (not resolved)
            return f"hall+unix://{quote(os.fsencode(path))}"
    for door in native:
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(door.address.host, door.address.host)  # noqa: S104
        return f"hall://{f'[{host}]' if ':' in host else host}:{door.address.port}"
    return ""
