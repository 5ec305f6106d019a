"""A ZeroMQ door with a toy dialect behind it, over real loopback sockets.

A message is a word and what follows it: `work N` offers N slots for the one queue, `submit X` hands in a job
and is told its end, `flood N` is answered with N KiB, `pledge X` is answered after a commit. All else is
answered with itself. An envelope of the dialect is the identity, with or without an empty frame after it.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, cast

import uvloop
import zmq

from hiringhall.core.jobs import JobSpec
from hiringhall.core.limits import SECOND_US, Limits
from hiringhall.core.terms import Terms
from hiringhall.dialects.session import Caller, Session
from hiringhall.engine.driver import Clock, Driver
from hiringhall.engine.recovery import open_scheduler
from hiringhall.storage.memory import MemoryStore
from hiringhall.transports.zmtp.options import ZmqOptions
from hiringhall.transports.zmtp.router import RouterDoor

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hiringhall.core.changes import Batch
    from hiringhall.core.jobs import Job
    from hiringhall.core.leases import Lease
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.transports.zmtp.router_link import RouterLink

PATIENCE_S = 20.0
"""A story that waits for longer has failed; none comes near it."""
QUEUE = b"toys"
KIB = 1 << 10
DURABLE = Terms(durable=True, detached=True)


def answer_route(envelope: list[bytes]) -> list[bytes] | None:
    if len(envelope) == 1 or (len(envelope) == 2 and not envelope[1]):
        return envelope
    return None


class Toy(Session):
    """The toy dialect."""

    def __init__(self, caller: Caller, scheduler: Scheduler) -> None:
        super().__init__(caller)
        self.heard: list[bytes] = []
        self.heard_us: list[int] = []
        """When, by the time of the turn."""
        self.is_parted = False
        self._scheduler = scheduler

    def receive(self, data: bytes) -> None:
        self.heard.append(data)
        self.heard_us.append(self._scheduler.now_us)
        word, _, rest = data.partition(b" ")
        if word == b"work":
            worker = self._scheduler.worker(self)
            self._scheduler.can_do(worker, QUEUE)
            self._scheduler.offer(worker, int(rest))
        elif word == b"submit":
            self._scheduler.submit(JobSpec(QUEUE, rest), self)
        elif word == b"flood":
            self.send(b"x" * KIB * int(rest))
        elif word == b"pledge":
            job = self._scheduler.submit(JobSpec(b"kept", rest, b"", DURABLE), None)
            self.acknowledge(job, rest)
        elif word == b"bye":
            self.send(b"goodbye")
            self.finish()
        else:
            self.send(data)

    def assigned(self, lease: Lease) -> None:
        self.send(b"job " + lease.job.payload)

    def ended(self, job: Job) -> None:
        self.send(b"end " + job.result)

    def disconnected(self) -> None:
        self.is_parted = True


class SlowStore(MemoryStore):
    """Commits when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.may_commit = threading.Event()
        self.may_commit.set()

    def commit(self, batch: Batch, now_us: int) -> None:
        assert self.may_commit.wait(PATIENCE_S)
        super().commit(batch, now_us)


class House:
    """The door, and the sessions behind it."""

    def __init__(
        self, options: ZmqOptions, route: Callable[[list[bytes]], list[bytes] | None] = answer_route
    ) -> None:
        self.sessions: list[Toy] = []
        self.clock = Clock()
        self.store = SlowStore()
        self.scheduler = open_scheduler(self.store, Limits(), self.clock.now_us())
        self.driver = Driver(self.scheduler, self.store, self._trouble, self.clock)
        self.door = RouterDoor(self.driver, self._make, route, options)
        self.address = ""
        self._guests: list[Guest] = []
        self._outside: zmq.Context[zmq.Socket[bytes]] = zmq.Context()

    def _make(self, caller: Caller) -> Toy:
        session = Toy(caller, self.scheduler)
        self.sessions.append(session)
        return session

    def _trouble(self, trouble: str) -> None:
        raise AssertionError(trouble)

    async def open(self, host: str = "127.0.0.1", port: int = 0) -> tuple[str, int]:
        self.driver.start(asyncio.get_running_loop())
        bound = await self.door.open(host, port)
        self.address = f"[{bound[0]}]:{bound[1]}" if ":" in bound[0] else f"{bound[0]}:{bound[1]}"
        return bound

    async def close(self) -> None:
        """As the hall does it: commit, then close the door."""
        await asyncio.wait_for(self.driver.stop(), PATIENCE_S)
        await asyncio.wait_for(self.door.close(), PATIENCE_S)
        # The turn in which everybody disconnected ends with the loop's next round.
        await asyncio.sleep(0)
        for guest in self._guests:
            guest.leaves()
        self._outside.term()

    def visit(self, identity: bytes = b"", **options: int | bytes) -> Guest:
        """Somebody comes; options are those of the socket, by their names in lower case."""
        socket = self._outside.socket(zmq.DEALER)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.RCVHWM, 0)
        socket.setsockopt(zmq.SNDHWM, 0)
        if identity:
            socket.setsockopt(zmq.ROUTING_ID, identity)
        if ":" in self.address.rpartition(":")[0]:
            socket.setsockopt(zmq.IPV6, 1)
        for name, value in options.items():
            socket.setsockopt(getattr(zmq, name.upper()), value)
        guest = Guest(socket)
        self._guests.append(guest)
        socket.connect(f"tcp://{self.address}")
        return guest

    def link(self, session: Toy) -> RouterLink:
        link = self.door.links[session.caller.route]
        assert link.session is session
        return link

    def is_gone(self, session: Toy) -> bool:
        """Whether the door knows of no connection with this identity."""
        return session.caller.route[0] not in self.door.sides

    def submit(self, payload: bytes) -> Job:
        """A job from nobody at this door."""
        self.driver.turn()
        return self.scheduler.submit(JobSpec(QUEUE, payload, b"", Terms(detached=True)), None)

    async def later(self, seconds: float) -> None:
        """Let time pass for the hall."""
        await until(lambda: not self.driver._turning)
        self.clock._offset_us += round(seconds * SECOND_US)


class Guest:
    """Somebody with a DEALER socket. None of its calls holds up the loop."""

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self.socket = socket

    def says(self, *messages: bytes) -> None:
        for message in messages:
            self.socket.send(message, zmq.NOBLOCK)

    def says_frames(self, *frames: bytes) -> None:
        self.socket.send_multipart(frames, zmq.NOBLOCK)

    async def next(self) -> list[bytes]:
        await until(self.has_mail)
        return self.socket.recv_multipart(zmq.NOBLOCK)

    async def hears(self, *messages: bytes) -> None:
        for message in messages:
            assert await self.next() == [message]

    def has_mail(self) -> bool:
        return bool(cast("int", self.socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN)

    def leaves(self) -> None:
        self.socket.close()


async def until(holds: Callable[[], bool]) -> None:
    """Let the loop go round until something is so."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110 (the transport has no event for what goes on inside it)
            await asyncio.sleep(0)


def run(tell: Callable[[], Awaitable[None]]) -> None:
    """Run something on the hall's kind of loop; errors that only reach the loop's handler count too."""

    async def watched() -> None:
        faults: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
        await tell()
        assert faults == []

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(watched())


def story(
    tell: Callable[[House], Awaitable[None]],
    options: ZmqOptions | None = None,
    route: Callable[[list[bytes]], list[bytes] | None] = answer_route,
) -> None:
    """Run one story in a house of its own; whatever happens in it, all is in order after it."""

    async def tell_all() -> None:
        house = House(options if options is not None else ZmqOptions(close_wait_s=0.0), route)
        await house.open()
        try:
            await tell(house)
            house.scheduler.audit()
        finally:
            house.store.may_commit.set()
            await house.close()
        assert house.door.links == {}
        assert all(session.is_parted for session in house.sessions)

    run(tell_all)
