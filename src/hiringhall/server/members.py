"""A hall on PostgreSQL as one of several members: it stands by, becomes active, and stands by again.

Invariant: a process is active or stands by, never both. Its doors are open in both roles.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from typing import TYPE_CHECKING, Final

from hiringhall import __version__
from hiringhall.cluster.beating import Beats
from hiringhall.cluster.reading_ahead import ReadingAhead, Successor
from hiringhall.cluster.standby import NameTaken, Standby
from hiringhall.config.quantities import Address
from hiringhall.endpoints import HallError
from hiringhall.engine.driver import Clock
from hiringhall.engine.recovery import restore_ahead
from hiringhall.process import forget_garbage
from hiringhall.server.opening import OpenDoor, Opened, data_folder, open_driver_on
from hiringhall.server.running import Hall
from hiringhall.storage.contract import StoreError
from hiringhall.storage.opening import member_name, open_documents, open_member, shown
from hiringhall.storage.postgres.members import MemberLink
from hiringhall.storage.postgres.membership import Member

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from hiringhall.config.schema import Config
    from hiringhall.doors.dialect import Dialect
    from hiringhall.logs.events import Events
    from hiringhall.storage.postgres import PostgresStore

RETRY_S: Final = 1.0
"""The pause after a take-over that failed."""

_log = logging.getLogger("hiringhall")


class MemberHall:
    """One process of several on a database."""

    def __init__(
        self,
        config: Config,
        get_dialect: Callable[[str], Dialect],
        make_events: Callable[[], Events],
        announce: Callable[[Opened], None],
    ) -> None:
        self._config = config
        self._get_dialect = get_dialect
        self._make_events = make_events
        self._announce = announce
        self._url = config.hall.data
        self._clock = Clock()
        self._member = Member(member_name(config.hall.name), "", __version__)
        self._stopping = asyncio.Event()

    async def serve_alone(self) -> int:
        """Be active from the start, or not at all. Raises HallError."""
        try:
            code, _ = await self._serve(Successor(self._store(data_folder(self._config))))
        except StoreError as error:
            raise HallError(str(error)) from error
        return code

    async def serve_or_stand_by(self) -> int:
        """Be active whenever no other member is, and stand by otherwise, until the process is told to stop.
        Raises HallError.
        """
        try:
            store = self._store(None)
            await asyncio.get_running_loop().run_in_executor(None, store.migrate)
        except StoreError as error:
            raise HallError(str(error)) from error
        former = 0
        while True:
            try:
                successor = await self._stand_by(former)
                if successor is None:
                    return 0
                code, former = await self._serve(successor)
            except StoreError as error:
                _log.warning("this hall stays a standby: %s", error)
                await asyncio.sleep(RETRY_S)
                continue
            if not former:
                return code
            forget_garbage()

    async def _stand_by(self, former: int) -> Successor | None:
        """Wait until this member is to take over, which it does when the store is loaded. None: the process is
        to stop. `former`: the incarnation as which it was active until now. Raises StoreError.
        """
        self._handle_signals(asyncio.get_running_loop())
        link = MemberLink(self._url, self._member.name)
        addresses = [door.addresses for door in self._config.door]
        limits = self._config.limits.limits()
        ahead = ReadingAhead(
            lambda: self._store(data_folder(self._config)),
            limits.ended_max,
            lambda loaded: restore_ahead(loaded, limits, self._clock.now_us()),
        )
        standby = Standby(link, self._member, addresses, self._clock.now_us, ahead, former)
        try:
            self._announce(self._opened(await _open(standby)))
            waiting = asyncio.ensure_future(standby.wait())
            stopping = asyncio.ensure_future(self._stopping.wait())
            await asyncio.wait((waiting, stopping), return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            if not waiting.done():
                waiting.cancel()
                return None
            replaced = waiting.result()
            await standby.close()  # clients come again, and find this hall
            successor = await ahead.finish() or Successor(self._store(data_folder(self._config)))
            successor.store.take_over_from(replaced)
            return successor
        except NameTaken as error:
            raise HallError(str(error)) from error
        finally:
            await standby.close()
            await ahead.close()
            await link.close()

    def _handle_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        """Take the place of the handlers of a hall that was active before."""
        loop.set_exception_handler(None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            loop.add_signal_handler(number, self._stopping.set)
        for number in (signal.SIGHUP, signal.SIGUSR2):
            loop.add_signal_handler(number, _log.info, "signal %d: a standby has nothing to do for it", number)

    def _opened(self, bound: Sequence[Sequence[tuple[str, int]]]) -> Opened:
        doors = [
            OpenDoor(settings.dialect, "", Address.of(host, port), settings.encryption, "")
            for settings, places in zip(self._config.door, bound, strict=True)
            for host, port in places
            if port
        ]
        return Opened(self._config.hall.name, os.getpid(), shown(self._url), doors, 0, standby=True)

    async def _serve(self, successor: Successor) -> tuple[int, int]:
        """Open the database and serve: the exit code, and its incarnation if another member is to be active
        now, or 0.
        """
        store, restored = successor
        events = self._make_events()
        beats = Beats(MemberLink(self._url, self._member.name), lambda: store.incarnation, self._clock.now_us)
        beats.start()
        try:
            try:
                driver = await asyncio.get_running_loop().run_in_executor(
                    None, open_driver_on, store, self._config, events, self._clock, restored
                )
            except BaseException:
                store.close()
                raise
            documents = open_documents(self._url, store.incarnation)
            hall = Hall(self._config, self._get_dialect, driver, events, documents, beats)

            def announce(opened: Opened) -> None:
                self._announce(opened)
                if self._stopping.is_set():  # a signal came while the jobs were loaded
                    hall.stop()

            code = await hall.serve(announce)
        finally:
            await beats.end()
        goes_on = bool(beats.deposed) and not hall.told_to_stop and not self._stopping.is_set()
        return code, store.incarnation if goes_on else 0

    def _store(self, files: Path | None) -> PostgresStore:
        retention = self._config.history.retention()
        name = self._member.name
        return open_member(self._url, retention, _log.warning, name, version=__version__, files=files)


async def _open(standby: Standby) -> list[list[tuple[str, int]]]:
    try:
        return await standby.open()
    except OSError as error:
        raise HallError(f"a door of the standby cannot be opened: {error}") from error
