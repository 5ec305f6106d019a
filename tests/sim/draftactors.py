"""Those who speak Gearman's draft: applications that wait, applications that ask later, workers, and whoever
tells of tasks that run elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.dialects.gearman_draft import wire

from .actors import Actor
from .clients import Client
from .gearmantap import HANDLE_PREFIX
from .world import MS, SECOND

if TYPE_CHECKING:
    from .actors import Town

KINDS = (
    "honest",
    "honest",
    "slow",
    "crashing",
    "lying",
    "duplicating",
    "silent",
    "late",
    "quitting",
    "failing",
    "greedy",
)
_FLAGS = (wire.FLAG_NORMAL, wire.FLAG_NORMAL, wire.FLAG_HIGH, wire.FLAG_LOW)


class DraftClient(Client):
    """What the applications have in common."""

    dialect = "draft"
    tap = "draft"

    def arrived(self) -> None:
        self._reader = wire.Reader()

    def create(self, job_type: int) -> None:
        world = self.world
        key = world.random.choice(self.town.keys) if world.chance(self.keyed) else b""
        flags = world.random.choice(_FLAGS)
        self.send(wire.pack_job_create_req(self.town.queue(), key, flags, job_type, self.town.payload()))

    def listen(self, data: bytes) -> None:
        for packet_type, body in self._reader.feed(data):
            self.answered(packet_type, body)

    def answered(self, packet_type: int, body: bytes) -> None:
        """A packet has come."""


class DraftWaiter(DraftClient):
    """Waits for its jobs, one at a time; sometimes it does not wait, and is told so."""

    def __init__(self, town: Town, name: str) -> None:
        super().__init__(town, f"draft waiter {name}")
        self._waits = False

    def arrived(self) -> None:
        super().arrived()
        self._waits = False

    def act(self) -> None:
        if not self._waits or self.world.chance(0.1):
            self._waits = True
            self.create(wire.SYNC_WAIT)

    def answered(self, packet_type: int, body: bytes) -> None:
        if packet_type == wire.JOB_COMPLETE_RES:
            del body
            self._waits = False


class DraftPoller(DraftClient):
    """Hands jobs in and asks for them later, on whichever connection it has then."""

    def __init__(self, town: Town, name: str) -> None:
        super().__init__(town, f"draft poller {name}")
        self.mine: list[bytes] = []

    def act(self) -> None:
        random = self.world.random
        dice = random.random()
        if dice < 0.40:
            self.create(wire.ASYNC_HANDLE)
        elif dice < 0.50:
            self.create(wire.ASYNC_THROW_AWAY)
        else:
            asks = wire.pack_job_status_req if dice < 0.65 else wire.pack_job_complete_req
            for _ in range(random.choice((1, 1, 2, 5))):
                self.send(asks(self._some_handle()))

    def _some_handle(self) -> bytes:
        random = self.world.random
        if self.mine and random.random() < 0.8:
            return random.choice(self.mine)
        if random.random() < 0.05:
            return random.choice((b"", b"H:elsewhere:1", HANDLE_PREFIX + b"9" * 20))
        return HANDLE_PREFIX + b"%d" % self.town.hearsay()

    def answered(self, packet_type: int, body: bytes) -> None:
        if packet_type == wire.JOB_CREATE_RES and body:
            self.mine.append(body)
            self.town.tell(int(body.removeprefix(HANDLE_PREFIX)))


class DraftClerk(DraftClient):
    """Tells of tasks that run elsewhere. When nothing that it said is on its way any more, not even by a
    connection that it has closed, it tells the end of each task, until that is noted.
    """

    def __init__(self, town: Town, name: str) -> None:
        super().__init__(town, f"draft clerk {name}")
        self._last_task = 0
        self.running: list[tuple[bytes, bytes]] = []
        """Queue and key of tasks whose start it has told."""
        self._closing: tuple[bytes, bytes] | None = None
        self._owed = 0
        """Answers that are still to come on this connection."""
        self._calm = False

    def act(self) -> None:
        random = self.world.random
        if self.running and random.random() < 0.5:
            # It stays in mind: what was told may be lost on the way, and told again it is perhaps another task.
            self._tell_end(*random.choice(self.running))
            return
        queue, key = self.town.queue(), self._key()
        if random.random() < 0.2:
            self._tell_end(queue, key)
        else:
            self.running.append((queue, key))
            self._ask(wire.pack_task_start(queue, key, self._time_us()))

    def _key(self) -> bytes:
        random = self.world.random
        if random.random() < 0.2:
            return random.choice(self.town.keys)
        self._last_task += random.choice((0, 1, 1))
        return f"{self.name} {self._last_task}".encode()

    def _time_us(self) -> int:
        return self.world.random.choice((0, self.world.now_us - SECOND, self.world.now_us, (1 << 64) - 1))

    def _tell_end(self, queue: bytes, key: bytes) -> None:
        code = self.world.random.choice((0, 0, 9))
        self._ask(wire.pack_task_result(queue, key, self._time_us(), code, self.town.result("told")))

    def _ask(self, packet: bytes) -> None:
        self._owed += 1
        self.send(packet)

    def calm(self) -> None:
        """From now on it only brings to an end what it has begun."""
        self._calm = True
        self._closing = None
        self._close_next()

    def arrived(self) -> None:
        super().arrived()
        self._owed = 0
        if self._calm:
            self.calm()

    def _close_next(self) -> None:
        if self.running:
            self._closing = self.running[-1]
            self._tell_end(*self._closing)

    def answered(self, packet_type: int, body: bytes) -> None:
        del packet_type, body
        self._owed -= 1
        if self._closing is None or self._owed:
            return
        # Noted, or refused because a job of the hall has the key: nothing of its own is left either way.
        if self._closing in self.running:
            self.running.remove(self._closing)
        self._closing = None
        self._close_next()


class DraftWorker(Actor):
    """Asks, works, sleeps when there is nothing; its kind says what it does with what it gets."""

    dialect = "draft"
    tap = "draft"

    def __init__(self, town: Town, name: str, kind: str, queues: list[bytes]) -> None:
        super().__init__(town, f"{kind} draft worker {name}")
        self.kind = kind
        self.queues = queues
        self.work_us = 2 * MS if kind == "honest" else self.world.random.choice((MS, 30 * MS, 150 * MS))

    def arrived(self) -> None:
        self._reader = wire.Reader()
        self._hello()

    def _hello(self) -> None:
        self.send(wire.pack_worker_connect(self.queues) + wire.JOB_ASSIGN_REQ_PACKET)

    def listen(self, data: bytes) -> None:
        for packet_type, body in self._reader.feed(data):
            if packet_type == wire.NOOP:
                self.send(wire.JOB_ASSIGN_REQ_PACKET)
            elif packet_type == wire.JOB_ASSIGN_RES and body:
                self._work()
            elif packet_type == wire.JOB_ASSIGN_RES:
                self._idle()

    def _idle(self) -> None:
        if self.kind == "lying" and self.world.chance(0.7):
            self.send(wire.pack_job_complete_announce(0, self.town.result("lie")))
        if self.kind == "quitting" and self.world.chance(0.3):
            self._quit()
        else:
            self.send(wire.WORKER_SLEEP_PACKET)

    def _quit(self) -> None:
        """Work no more, and come back to it on the same connection."""
        self.send(wire.WORKER_DISCONNECT_PACKET)
        again = wire.pack_worker_connect(self.queues) + wire.JOB_ASSIGN_REQ_PACKET
        self.later(self.world.random.randrange(300 * MS), self.connection, again)

    def _work(self) -> None:
        kind = self.kind
        world = self.world
        random = world.random
        connection = self.connection
        assert connection is not None
        work_us = random.randrange(self.work_us) + 1
        if kind == "silent" and world.chance(0.7):
            return
        if kind == "crashing" and world.chance(0.6):
            world.after(work_us, random.choice((connection.close, connection.drop, connection.vanish)))
            if not connection.here:
                return
        elif kind == "quitting" and world.chance(0.4):
            self._quit()
            return
        elif kind == "greedy":
            self.later(random.randrange(work_us), connection, wire.JOB_ASSIGN_REQ_PACKET)
        elif kind == "late":
            work_us += random.randrange(900 * MS)
        elif kind == "slow":
            for step in range(1, 5):
                shown = wire.pack_job_status_announce(step, 5, 5 - step)
                self.later(step * 90 * MS, connection, shown)
            work_us += 4 * 90 * MS
        self.later(work_us, connection, self._outcome() + wire.JOB_ASSIGN_REQ_PACKET)

    def _outcome(self) -> bytes:
        if self.kind == "failing" and self.world.chance(0.7):
            return wire.pack_job_complete_announce(
                self.world.random.choice((1, 130, 255)), self.town.result("e")
            )
        done = wire.pack_job_complete_announce(0, self.town.result("r"))
        if self.kind == "duplicating":
            done += wire.pack_job_complete_announce(0, self.town.result("again"))
        return done
