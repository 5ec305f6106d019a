"""A running hall: signals, drain, background tasks, and the orderly end.

Invariant: the first SIGTERM or SIGINT drains, the second stops at once. Both commit what is pending before the
process ends.
"""

from __future__ import annotations

import asyncio
import encodings.idna  # noqa: F401 (uvloop looks it up late, when a change of user may hide it)
import logging
import os
import signal
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hiringhall.access.audit_log import AuditLog
from hiringhall.access.gate import Gate
from hiringhall.access.tokens import TokenList, TokensError
from hiringhall.config.listing import listed
from hiringhall.core.errors import BrokenLaw
from hiringhall.core.limits import SECOND_US
from hiringhall.doors.dialect import HallAccess
from hiringhall.doors.keyfiles import CertificateWatch, secret_warnings
from hiringhall.endpoints import HallError
from hiringhall.process import tune_interpreter
from hiringhall.schedules.book import Book, BookError
from hiringhall.schedules.editor import Editor
from hiringhall.schedules.keeper import Keeper
from hiringhall.server.measuring import HallMeasures
from hiringhall.server.opening import Opened, OpenParts, data_folder, data_place, open_doors
from hiringhall.server.web_process import open_web
from hiringhall.storage.contract import StoreError
from hiringhall.storage.opening import shown
from hiringhall.transports.tcp import TcpDoor

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.cluster.beating import Beats
    from hiringhall.config.schema import Config
    from hiringhall.doors.dialect import Dialect
    from hiringhall.engine.driver import Driver
    from hiringhall.logs.events import Events
    from hiringhall.server.web_process import WebProcess
    from hiringhall.storage.documents import Documents

GRACEFUL_S: Final = 86_400.0
"""How long a graceful shutdown, by SIGUSR1 or an admin command, waits for running jobs."""
STORE_CHECK_S: Final = 1.0
"""How often the hall checks that its data file is in its place, and whether the history has lines to drop."""
EXPIRY_PAUSE_S: Final = 0.05
"""The pause between two commits that only drop lines of the history."""
STOPPED_AT_ONCE: Final = 1
"""Exit code after a second signal."""

_log = logging.getLogger("hiringhall")


class Hall:
    """A hall whose store is open and whose jobs are recovered. `serve` opens the doors."""

    def __init__(
        self,
        config: Config,
        get_dialect: Callable[[str], Dialect],
        driver: Driver,
        events: Events,
        documents: Documents | None,
        beats: Beats | None = None,
    ) -> None:
        self._config = config
        self._get_dialect = get_dialect
        self._driver = driver
        self._events = events
        self._documents = documents
        """Schedules, tokens and the audit log. None: they are in memory only."""
        self._beats = beats
        """None: the hall is the only one on its store."""
        self._data = data_folder(config)
        self._recovered = len(driver.scheduler.jobs)
        self._parts = OpenParts()
        self._web: WebProcess | None = None
        self._draining = asyncio.Event()
        self._stopping = asyncio.Event()
        self._broken: BaseException | None = None
        self._grace_s = 0.0
        self._exit_code = 0
        self.told_to_stop = False
        """By a signal or an admin command, not because another hall is to be active."""

    # --- requests to stop, by signals and by admin commands

    def drain(self, grace_s: float) -> None:
        """Hand out no more work, give running jobs this time to finish, then close."""
        if not self._draining.is_set():
            self._grace_s = grace_s
            self._draining.set()

    def stop(self) -> None:
        """Close now."""
        self._stopping.set()
        self._draining.set()

    def _shut_down(self, graceful: bool) -> None:
        _log.info("a peer asked for a shutdown")
        self.told_to_stop = True
        if graceful:
            self.drain(GRACEFUL_S)
        else:
            self.stop()

    def _shut_down_gracefully(self) -> None:
        self.told_to_stop = True
        self.drain(GRACEFUL_S)

    def _signalled(self) -> None:
        self.told_to_stop = True
        if self._draining.is_set():
            _log.info("stopping at once")
            self._exit_code = STOPPED_AT_ONCE
            self.stop()
        else:
            self.drain(self._config.hall.drain_grace_s)

    def _audit(self) -> None:
        """Check every cross-reference of the core, and always log the result: somebody has asked for it."""
        try:
            self._driver.scheduler.audit()
        except BrokenLaw as law:
            _log.critical("audit broken: %s", law)
        else:
            _log.info("audit clean")

    async def _publish(self, beats: Beats, opened: Opened) -> None:
        from hiringhall.server.addresses import published  # noqa: PLC0415 (only with a database)

        await beats.publish(published(self._config, opened.doors))

    # --- from the first door to the last commit

    async def serve(self, announce: Callable[[Opened], None]) -> int:
        """Open the doors, serve until the hall is told to stop, and close. Returns the exit code."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._handle_exception)
        self._driver.start(loop)
        if self._beats is not None:
            self._beats.guard(self._driver, partial(self.drain, 0.0))
        try:
            keeper, editor = self._read_schedules(loop)
            gate, audit = self._read_tokens(loop)
            opened = await self._open(editor, gate, audit)
            if self._beats is not None:
                await self._publish(self._beats, opened)
            self._start_services(loop, keeper, editor)
            self._parts.start(gate)
            self._parts.start(audit)
            self._handle_signals(loop)
            tune_interpreter()
            announce(opened)
            await self._draining.wait()
            self._parts.stop_taking()
            if not self._stopping.is_set():
                await self._wait_for_leases()
        finally:
            await self._close()
            if self._documents is not None:
                self._documents.close()
        _log.info("closed")
        return self._exit_code

    def _read_schedules(self, loop: asyncio.AbstractEventLoop) -> tuple[Keeper, Editor]:
        """The schedules are known before a peer can ask for them; they fire once the doors are open."""
        book = Book(self._documents) if self._documents is not None else None
        keeper = Keeper(self._driver, loop, [table.plan() for table in self._config.schedule], book)
        try:
            editor = Editor(self._driver, loop, keeper, book, os.getpid())
            # The signal is handled before the book is read, so that no change of the book is missed.
            loop.add_signal_handler(signal.SIGHUP, editor.reread)
            keeper.load()
        except BookError as error:
            raise HallError(str(error)) from error
        return keeper, editor

    def _read_tokens(self, loop: asyncio.AbstractEventLoop) -> tuple[Gate, AuditLog]:
        tokens = TokenList(self._documents) if self._documents is not None else None
        gate, audit = Gate(tokens, loop, self._driver.run_soon), AuditLog(self._documents)
        try:
            gate.load()
        except TokensError as error:
            raise HallError(str(error)) from error
        audit.load()
        return gate, audit

    async def _open(self, editor: Editor, gate: Gate, audit: AuditLog) -> Opened:
        hall, pid = self._config.hall, os.getpid()
        access = HallAccess(
            hall.name,
            self._driver,
            pid,
            hall.log_level,
            self._shut_down,
            self._parts.door_states,
            editor,
            self._data,
            HallMeasures(hall.name, self._driver, self._parts, self._events).read,
            lambda: listed(self._config),
            gate,
            audit,
        )
        doors = await open_doors(self._config, self._get_dialect, access, self._parts)
        place = data_place(self._config)
        self._web = await open_web(
            self._config, [door for door, _ in self._parts.doors], place, has_tokens=gate.has_tokens
        )
        url = self._web.url if self._web is not None else ""
        return Opened(hall.name, pid, shown(place), doors, self._recovered, url)

    def _start_services(self, loop: asyncio.AbstractEventLoop, keeper: Keeper, editor: Editor) -> None:
        """Start the background tasks that belong to no door."""
        self._parts.start(keeper)
        self._parts.start(editor)
        self._parts.start(StoreWatch(self._driver, loop))
        for warning in secret_warnings(self._config.door):
            _log.warning("%s", warning)
        self._parts.start(CertificateWatch(self._config.door, _log.warning))
        if self._web is not None:
            self._parts.start(self._web)

    def _handle_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled)
        loop.add_signal_handler(signal.SIGUSR1, self._shut_down_gracefully)
        loop.add_signal_handler(signal.SIGUSR2, self._driver.run_soon, self._audit)

    async def _wait_for_leases(self) -> None:
        """Wait until no job is running, the grace period is over, or the hall is to stop at once."""
        drain = asyncio.ensure_future(self._driver.drain(round(self._grace_s * SECOND_US)))
        stop = asyncio.ensure_future(self._stopping.wait())
        await asyncio.sleep(0)  # the drain begins before the log says so
        _log.info("draining: running jobs have %g s; a further signal stops at once", self._grace_s)
        done, pending = await asyncio.wait((drain, stop), return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        for task in done:
            task.result()

    async def _close(self) -> None:
        """Commit before the connections close, so that the leases which end with them count as no loss."""
        self._parts.close_listeners()
        for service in self._parts.services:
            await service.close()
        if self._broken is None:
            await self._answer_the_last()
            await self._driver.stop()
        self._events.mute()
        for transport in self._parts.transports:
            await transport.close()
        if self._broken is not None:
            raise BrokenLaw("the hall stopped without a last commit") from self._broken

    async def _answer_the_last(self) -> None:
        """Answer the last requests at ZeroMQ doors. A connection by TCP ends, so its peer does not wait."""
        doors = [door for door in self._parts.transports if not isinstance(door, TcpDoor)]
        if doors:
            from hiringhall.transports.closing import answer_the_last  # noqa: PLC0415 (only with such doors)

            await answer_the_last(self._driver, doors, patient=not self._stopping.is_set())

    def _handle_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle what nothing else caught: trouble of one connection, or a broken invariant."""
        del loop
        error = context.get("exception")
        if error is None or isinstance(error, OSError):
            _log.debug("%s: %s", context.get("message"), error)
        elif "protocol" in context and not isinstance(error, BrokenLaw):
            _log.error("%s; the connection is closed", context.get("message"), exc_info=error)
        else:
            self._broken = error
            self.stop()


class StoreWatch:
    """Does what the store needs while there is nothing to commit: detects that the data file was removed or
    replaced, and has lines of the history dropped that are due.
    """

    def __init__(self, driver: Driver, loop: asyncio.AbstractEventLoop) -> None:
        self._driver = driver
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        pause_s = STORE_CHECK_S
        try:
            self._driver.store.check()
        except StoreError:
            self._driver.run_soon(self._driver.engine.probe)
        else:
            if self._expiry_is_due():
                self._driver.run_soon(self._driver.engine.expire)
                pause_s = EXPIRY_PAUSE_S
        self._timer = self._loop.call_later(pause_s, self.start)

    def _expiry_is_due(self) -> bool:
        driver = self._driver
        return not driver.scheduler.store_trouble and driver.store.next_expiry_us() <= driver.clock.now_us()

    def stop_taking(self) -> None:
        """It takes no jobs, and goes on until the hall closes."""

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
