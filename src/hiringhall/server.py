"""The composition root: the one place that names concrete parts and joins them to a running hall.

The law: whatever stops a hall from opening is a `HallError` of one line. Once open, the first SIGTERM or
SIGINT drains, the second stops at once; both commit what is pending before the process ends.
"""

from __future__ import annotations

import asyncio
import dataclasses
import encodings.idna  # noqa: F401 (uvloop looks it up late, when a change of user may hide it)
import errno
import gc
import logging
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import uvloop

from hiringhall.config.quantities import Address
from hiringhall.config.schema import TcpDoorSettings, ZmqDoorSettings
from hiringhall.core.errors import BrokenLaw
from hiringhall.core.limits import SECOND_US
from hiringhall.core.ratings import Rating, Ratings
from hiringhall.doors.dialect import Process
from hiringhall.doors.dwork import DWORK
from hiringhall.doors.gearman import GEARMAN
from hiringhall.doors.hire import HIRE, HIRE_BUS
from hiringhall.doors.keyfiles import CertificateWatch, secret_warnings
from hiringhall.doors.pingpong import PINGPONG
from hiringhall.doors.wmp import WMP
from hiringhall.endpoints import HallError, tcp_options, zmq_options
from hiringhall.engine.driver import Clock, Driver
from hiringhall.engine.recovery import open_scheduler
from hiringhall.logs.events import Events
from hiringhall.logs.repeats import Repeats
from hiringhall.process import connections_possible, raise_descriptor_limit, tune_interpreter
from hiringhall.schedules.book import Book, BookError
from hiringhall.schedules.keeper import Keeper
from hiringhall.storage.contract import StoreError
from hiringhall.storage.memory import MemoryStore
from hiringhall.storage.sqlite import DATABASE, SqliteStore
from hiringhall.transports.budget import Budget
from hiringhall.transports.bus import BusDoor
from hiringhall.transports.closing import answer_the_last
from hiringhall.transports.tcp import TcpDoor
from hiringhall.transports.zmq import ZmqDoor

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.config.needs import WorkerSettings
    from hiringhall.config.schema import Config, DoorSettings
    from hiringhall.doors.dialect import Attendant, Endpoint
    from hiringhall.storage.contract import Store
    from hiringhall.storage.sqlite.lock import Kind

DEFAULT_DOORS: Final = ("gearman=127.0.0.1:4730",)

PATIENCE_S: Final = 86_400.0
"""How long a graceful shutdown, by SIGUSR1 or at a door, waits for running jobs."""
WATCH_S: Final = 1.0
"""How often the hall looks whether its data file is still in its place."""
STOPPED_AT_ONCE: Final = 1
"""Exit code after a second signal."""
BROKEN: Final = 70
"""Exit code when one of the hall's own laws does not hold."""

_log = logging.getLogger("hiringhall")


DIALECTS: Final = {
    "gearman": GEARMAN,
    "dwork": DWORK,
    "pingpong": PINGPONG,
    "wmp": WMP,
    "hire": HIRE,
    "hire-bus": HIRE_BUS,
}
"""Every dialect the hall can speak. A new one is a line here."""

DOOR_SETTINGS: Final = {name: dialect.settings for name, dialect in DIALECTS.items()}


class OpenDoor(NamedTuple):
    """A door people can come in by."""

    dialect: str
    role: str
    """Which of the door's endpoints it is; empty where there is one."""
    address: Address
    shield: str
    """TLS or CURVE; empty: nothing encrypts it."""
    first_job: str
    """Empty behind TLS, where a line to paste would need certificates."""


class Opened(NamedTuple):
    """What the hall says of itself once it is open."""

    name: str
    pid: int
    data: str
    """The data folder; empty when everything is in memory."""
    doors: list[OpenDoor]
    recovered: int
    """Live jobs found in the store."""


class Hall:
    """A hall with its store open and its jobs recovered; `serve` opens the doors."""

    def __init__(
        self,
        config: Config,
        kind: Kind = "hall",
        repeats: Repeats | None = None,
        *,
        accept_loss: bool = False,
    ) -> None:
        self._config = config
        self._events = Events(repeats if repeats is not None else Repeats())
        self._accept_loss = accept_loss
        folder = Path(config.hall.data).absolute()
        self._data = str(folder) if config.hall.storage == "sqlite" else ""
        clock = Clock()
        try:
            store = self._open_store(folder, kind)
            scheduler = open_scheduler(store, config.limits.limits(), clock.now_us())
        except StoreError as error:
            raise HallError(str(error)) from error
        self._recovered = len(scheduler.jobs)
        for queue in config.queue:
            scheduler.needs.need(queue.name.encode(), *queue.needs)
        if config.worker:
            scheduler.needs.know(Ratings([_rating(worker) for worker in config.worker]))
        slow_commit_us = round(config.hall.slow_commit_s * SECOND_US)
        self._driver = Driver(scheduler, store, _store_trouble, clock, self._events, slow_commit_us)
        self._budget = Budget(int(config.hall.buffer_bytes_max))
        self._doors: list[TcpDoor | ZmqDoor | BusDoor] = []
        self._attendants: list[Attendant] = []
        self._draining = asyncio.Event()
        self._stopping = asyncio.Event()
        self._broken: BaseException | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._grace_s = 0.0
        self._exit_code = 0

    def _open_store(self, folder: Path, kind: Kind) -> Store:
        retention = self._config.history.retention()
        if self._config.hall.storage == "memory":
            return MemoryStore(retention)
        return SqliteStore(folder / DATABASE, retention, _log.warning, kind, accept_loss=self._accept_loss)

    # --- wishes, from signals and from doors

    def drain(self, grace_s: float) -> None:
        """Hand out no more work, let running jobs finish for so long, then close."""
        if not self._draining.is_set():
            self._grace_s = grace_s
            self._draining.set()

    def stop(self) -> None:
        """Close now."""
        self._stopping.set()
        self._draining.set()

    def _shut_down(self, graceful: bool) -> None:
        _log.info("shutdown asked for at a door")
        if graceful:
            self.drain(PATIENCE_S)
        else:
            self.stop()

    def _audit(self) -> None:
        """Check every cross-reference of the core, and say each time what came of it: somebody has asked."""
        try:
            self._driver.scheduler.audit()
        except BrokenLaw as law:
            _log.critical("audit broken: %s", law)
        else:
            _log.info("audit clean")

    def _signalled(self) -> None:
        if self._draining.is_set():
            _log.info("stopping at once")
            self._exit_code = STOPPED_AT_ONCE
            self.stop()
        else:
            self.drain(self._config.hall.drain_grace_s)

    # --- the life of a hall

    async def serve(self, announce: Callable[[Opened], None]) -> int:
        """From the first door to the last commit; the exit code."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._failed)
        self._driver.start(loop)
        try:
            opened = await self._open_doors()
            self._keep_schedules(loop)
            self._watch_place(loop)
            self._watch_keys()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self._signalled)
            loop.add_signal_handler(signal.SIGUSR1, self.drain, PATIENCE_S)
            loop.add_signal_handler(signal.SIGUSR2, self._driver.run_soon, self._audit)
            tune_interpreter()
            announce(opened)
            await self._draining.wait()
            for door in self._doors:
                door.close_listener()
            for attendant in self._attendants:
                attendant.stop_taking()
            if not self._stopping.is_set():
                await self._wait_for_leases()
        finally:
            await self._close()
        _log.info("closed")
        return self._exit_code

    async def _open_doors(self) -> Opened:
        hall = self._config.hall
        process = Process(os.getpid(), hall.log_level, self._shut_down, self._driver.look_up, hall.name)
        doors: list[OpenDoor] = []
        for index, settings in enumerate(self._config.door):
            dialect = DIALECTS[settings.dialect]
            for endpoint in dialect.endpoints(self._driver.scheduler, settings, process):
                for role, bound in await self._listen(index, settings, endpoint):
                    first_job = ""
                    if dialect.first_job is not None and not settings.shield:
                        first_job = dialect.first_job(bound)
                    doors.append(OpenDoor(settings.dialect, role, bound, settings.shield, first_job))
            attendant = dialect.attendant(self._driver, settings) if dialect.attendant is not None else None
            if attendant is not None:
                attendant.start()
                self._attendants.append(attendant)
        return Opened(hall.name, os.getpid(), self._data, doors, self._recovered)

    def _keep_schedules(self, loop: asyncio.AbstractEventLoop) -> None:
        """Fire what is due. The signal is heeded before the book is read: no change of it is overlooked."""
        book = Book(Path(self._data)) if self._data else None
        keeper = Keeper(self._driver, loop, [table.plan() for table in self._config.schedule], book)
        loop.add_signal_handler(signal.SIGHUP, self._driver.run_soon, keeper.reread)
        try:
            keeper.start()
        except BookError as error:
            raise HallError(str(error)) from error
        self._attendants.append(keeper)

    def _watch_keys(self) -> None:
        """Warn of what is wrong with the files that encrypt the doors, now and while the hall runs."""
        for warning in secret_warnings(self._config.door):
            _log.warning("%s", warning)
        watch = CertificateWatch(self._config.door, _log.warning)
        watch.start()
        self._attendants.append(watch)

    def _watch_place(self, loop: asyncio.AbstractEventLoop) -> None:
        """Find out that the data file was removed or replaced even while there is nothing to commit."""
        try:
            self._driver.store.check()
        except StoreError:
            self._driver.run_soon(self._driver.engine.probe)
        self._watch = loop.call_later(WATCH_S, self._watch_place, loop)

    async def _listen(
        self, index: int, settings: DoorSettings, endpoint: Endpoint
    ) -> list[tuple[str, Address]]:
        """Open an endpoint: where it listens, and in which role."""
        if endpoint.outward is not None:
            return await self._open_bus(index, settings, endpoint, endpoint.outward)
        door: TcpDoor | ZmqDoor
        if isinstance(settings, ZmqDoorSettings):
            assert endpoint.answer_route is not None
            options = zmq_options(settings, index)
            door = ZmqDoor(self._driver, endpoint.make_session, endpoint.answer_route, options, self._budget)
        else:
            assert isinstance(settings, TcpDoorSettings)
            tcp = tcp_options(settings, index)
            if tcp.connections_max > connections_possible():
                tcp = dataclasses.replace(tcp, connections_max=connections_possible())
                _log.debug("door[%d]: the system allows %d connections", index, tcp.connections_max)
            door = TcpDoor(self._driver, endpoint.make_session, tcp, endpoint.guests, self._budget)
        door.name = door_name(settings, endpoint.role, endpoint.address)
        try:
            bound = Address.of(*await door.open(endpoint.address.host, endpoint.address.port))
        except OSError as error:
            raise HallError(f"door[{index}]: {_cannot_listen(endpoint.address, error)}") from error
        door.name = door_name(settings, endpoint.role, bound)
        self._doors.append(door)
        return [(endpoint.role, bound)]

    async def _open_bus(
        self, index: int, settings: DoorSettings, endpoint: Endpoint, outward: Address
    ) -> list[tuple[str, Address]]:
        assert isinstance(settings, ZmqDoorSettings)
        bus = BusDoor(self._driver, endpoint.make_session, zmq_options(settings, index))
        bound: list[tuple[str, Address]] = []
        try:
            address = endpoint.address
            bound.append((endpoint.role, Address.of(*await bus.open_inward(address.host, address.port))))
            bus.name = door_name(settings, endpoint.role, bound[0][1])
            address = outward
            bound.append(("subscribe", Address.of(*await bus.open_outward(address.host, address.port))))
        except OSError as error:
            await bus.close()
            raise HallError(f"door[{index}]: {_cannot_listen(address, error)}") from error
        self._doors.append(bus)
        return bound

    async def _wait_for_leases(self) -> None:
        """Until no job is running, the grace is over, or somebody wants it now."""
        drain = asyncio.ensure_future(self._driver.drain(round(self._grace_s * SECOND_US)))
        stop = asyncio.ensure_future(self._stopping.wait())
        await asyncio.sleep(0)  # so that it is true when it is said
        _log.info("draining: running jobs have %g s; a further signal stops at once", self._grace_s)
        done, pending = await asyncio.wait((drain, stop), return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        for task in done:
            task.result()

    async def _close(self) -> None:
        """Commit first, so that leases given up by closing connections count as no loss."""
        for door in self._doors:
            door.close_listener()
        if self._watch is not None:
            self._watch.cancel()
        for attendant in self._attendants:
            await attendant.close()
        if self._broken is None:
            await answer_the_last(self._driver, self._doors, patient=not self._stopping.is_set())
            await self._driver.stop()
        self._events.mute()
        for door in self._doors:
            await door.close()
        if self._broken is not None:
            raise BrokenLaw("the hall stopped without a last commit") from self._broken

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Something was raised with nobody to catch it: one connection's trouble, or a broken law."""
        del loop
        error = context.get("exception")
        if error is None or isinstance(error, OSError):
            _log.debug("%s: %s", context.get("message"), error)
        elif "protocol" in context and not isinstance(error, BrokenLaw):
            _log.error("%s; the connection is closed", context.get("message"), exc_info=error)
        else:
            self._broken = error
            self.stop()


def run(
    config: Config,
    announce: Callable[[Opened], None],
    kind: Kind = "hall",
    repeats: Repeats | None = None,
    *,
    accept_loss: bool = False,
) -> int:
    """Open a hall, serve until it is told to stop, and give the exit code. `kind` is what the data folder says
    of who has it open, `repeats` counts events of the log that repeat; with `accept_loss` a damaged log of the
    data file is no reason not to open. Raises HallError.
    """
    raise_descriptor_limit()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # `hall schedule` may send it before anybody listens
    gc.collect()  # now, while there is little to look at: what is left later is frozen
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_open_and_serve(config, announce, kind, repeats, accept_loss=accept_loss))
    except (HallError, OSError):
        raise
    except Exception:  # noqa: BLE001 (whatever it is, it is ours, and it is told)
        _log.critical("a law of the hall is broken, it stops here", exc_info=True)
        return BROKEN


async def _open_and_serve(
    config: Config,
    announce: Callable[[Opened], None],
    kind: Kind,
    repeats: Repeats | None,
    *,
    accept_loss: bool,
) -> int:
    return await Hall(config, kind, repeats, accept_loss=accept_loss).serve(announce)


def door_name(settings: DoorSettings, role: str, address: Address) -> str:
    """What the log calls a door, such as gearman@127.0.0.1:4730."""
    return f"{settings.dialect}{'/' if role else ''}{role}@{address}"


def _store_trouble(trouble: str) -> None:
    if trouble:
        _log.error("the store is in trouble, durable jobs are refused: %s", trouble)
    else:
        _log.warning("the store works again")


def _rating(worker: WorkerSettings) -> tuple[bytes, Rating]:
    skills = {queue.encode(): skill for queue, skill in worker.ratings.items()}
    return worker.name.encode(), Rating(skills, int(worker.stays or 0))


def _cannot_listen(address: Address, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"{address} is in use by another program; stop it or choose another port"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"{address} is not for this user to listen on; choose a port above 1023"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{address} is not an address of this machine"
    return f"cannot listen on {address}: {error.strerror or error}"
