"""Those who speak the beanstalkd protocol: producers, workers, and one who talks nonsense."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from hiringhall.dialects.beanstalkd import wire

from .actors import Actor
from .beantap import Replies
from .clients import Client
from .hostile import Vandal
from .world import MS

if TYPE_CHECKING:
    from .actors import Town

KINDS = (
    "honest",
    "slow",
    "crashing",
    "lying",
    "duplicating",
    "silent",
    "late",
    "burying",
    "releasing",
    "fetching",
    "greedy",
)
_PRIORITIES = (0, 1024, 1 << 31, (1 << 31) + 1)


def put(town: Town, delays: tuple[int, ...] = (0, 0, 0, 1)) -> bytes:
    """A put of some job, with its body."""
    random = town.world.random
    body = town.payload()
    delay_s = random.choice(delays)
    run_s = random.choice((1, 1, 2, 60))
    head = b"put %d %d %d %d" % (random.choice(_PRIORITIES), delay_s, run_s, len(body))
    return head + b"\r\n" + body


class BeanActor(Actor):
    """One that asks, and knows which of its requests is answered."""

    dialect = "bean"
    tap = "bean"

    def arrived(self) -> None:
        self._replies = Replies()
        self._asked: deque[bytes] = deque()
        self.using = b""
        """The tube in use, as it was told."""

    def ask(self, line: bytes) -> None:
        self._asked.append(line.partition(b" ")[0])
        if line.startswith(b"use "):
            self.using = b""
        self.send(line + b"\r\n")

    def listen(self, data: bytes) -> None:
        for words, body in self._replies.feed(data):
            command = self._asked.popleft()
            if words[0] == b"USING":
                self.using = words[1]
            elif words[0] == b"INSERTED":
                self.town.tell(int(words[1]))
            self.answered(command, words, body)

    def answered(self, command: bytes, words: list[bytes], body: bytes) -> None:
        """A reply has come."""


class BeanProducer(BeanActor, Client):
    """Puts jobs, and meddles with those of others."""

    def __init__(self, town: Town, name: str) -> None:
        super().__init__(town, f"bean producer {name}")

    def arrived(self) -> None:
        super().arrived()
        self.ask(b"use " + self.town.queue())

    def act(self) -> None:
        random = self.world.random
        dice = random.random()
        job_id = b"%d" % self.town.hearsay()
        if not self.using:
            return
        if dice < 0.10:
            self.ask(b"use " + self.town.queue())
        elif dice < 0.20:
            self.ask(b"delete " + job_id)
        elif dice < 0.30:
            self.ask(random.choice((b"kick 2", b"kick 100", b"kick-job " + job_id)))
        elif dice < 0.40:
            self.ask(random.choice((b"peek-ready", b"peek-delayed", b"peek-buried", b"peek " + job_id)))
        elif dice < 0.48:
            self.ask(random.choice((b"stats", b"list-tubes", b"stats-tube q0", b"stats-job " + job_id)))
        else:
            self.ask(put(self.town))


class BeanWorker(BeanActor):
    """Reserves one job after the other; its kind says what it does with them."""

    def __init__(self, town: Town, name: str, kind: str, queues: list[bytes]) -> None:
        super().__init__(town, f"{kind} bean worker {name}")
        self.kind = kind
        self.queues = queues
        self.patience = b"reserve" if self.world.chance(0.5) else b"reserve-with-timeout 1"

    def arrived(self) -> None:
        super().arrived()
        for queue in self.queues:
            self.ask(b"watch " + queue)
        if self.kind != "honest" and self.world.chance(0.5):
            self.ask(b"ignore default")
        self.ask(b"use " + self.queues[0])
        self._reserve()

    @property
    def waits(self) -> bool:
        """A reserve is not answered: what stands behind it may have to wait."""
        return any(command.startswith(wire.RESERVE) for command in self._asked)

    def _reserve(self) -> None:
        if self.waits:
            return
        random = self.world.random
        if self.kind == "fetching" and random.random() < 0.5:
            self.ask(b"reserve-job %d" % self.town.hearsay())
        else:
            self.ask(random.choice((self.patience, self.patience, b"reserve-with-timeout 0")))
        if self.using and not self.town.calm and random.random() < 0.1:
            self.ask(put(self.town, (0,)))  # a delay would begin when the reserve is answered

    def answered(self, command: bytes, words: list[bytes], body: bytes) -> None:
        if not command.startswith(wire.RESERVE):
            return
        if words[0] == b"RESERVED":
            self.town.tell(int(words[1]))
            self._work(words[1])
        else:
            self._soon(self.world.random.randrange(20 * MS, 120 * MS), self.connection)

    def _soon(self, delay_us: int, connection: object) -> None:
        """Reserve again after a while."""

        def again() -> None:
            if connection is self.connection and not self.retired:
                self._reserve()

        self.world.after(delay_us, again)

    def _work(self, job_id: bytes) -> None:
        world = self.world
        random = world.random
        kind = self.kind
        connection = self.connection
        assert connection is not None
        work_us = random.randrange(1, 40 * MS)
        if kind == "crashing" and world.chance(0.5):
            world.after(work_us, random.choice((connection.close, connection.drop, connection.vanish)))
            return
        if kind == "silent" and world.chance(0.6):
            self._soon(work_us, connection)
            return
        if kind == "late" and world.chance(0.6):
            work_us += random.randrange(1800 * MS)
        elif kind == "slow":
            for step in range(1, 4):
                world.after(step * 600 * MS, lambda: self._if_free(connection, b"touch " + job_id))
            work_us += random.randrange(2200 * MS)
        elif kind == "greedy":
            self._soon(1, connection)
        elif kind == "lying":
            verb = random.choice((b"delete %d", b"release %d 0 0", b"bury %d 0", b"touch %d"))
            self.ask(verb % self.town.hearsay())
        world.after(work_us, lambda: self._done(connection, job_id))

    def _if_free(self, connection: object, line: bytes) -> None:
        if connection is self.connection and not self.waits:
            self.ask(line)

    def _done(self, connection: object, job_id: bytes) -> None:
        if connection is not self.connection or self.retired:
            return
        if self.waits:
            self.world.after(30 * MS, lambda: self._done(connection, job_id))
            return
        random = self.world.random
        priority = random.choice(_PRIORITIES)
        if self.kind == "burying" and self.world.chance(0.5):
            self.ask(b"bury %b %d" % (job_id, priority))
        elif self.kind == "releasing" and self.world.chance(0.5):
            self.ask(b"release %b %d %d" % (job_id, priority, random.choice((0, 0, 1))))
        else:
            self.ask(b"delete " + job_id)
        if self.kind == "duplicating":
            self.ask(b"delete " + job_id)
        self._reserve()


class BeanVandal(Vandal):
    """Sends what no peer should, in the beanstalkd protocol."""

    dialect = "bean"
    tap = "deaf bean"

    def _nonsense(self) -> bytes:
        random = self.world.random
        nonsense = random.choice(
            (
                random.randbytes(random.randrange(1, 40)),
                b"put 1 0 60 5\r\nmore than five\r\n",
                b"put 1 0 60 99999999\r\nshort",
                b"put 1 0 60 -1\r\nx\r\n",
                b"put 99999999999 0 60 1\r\nx\r\n",
                b"x" * 300 + b"\r\n",
                b"use -\r\nuse " + b"t" * 201 + b"\r\nwatch a b\r\n",
                b"delete 18446744073709551616\r\ndelete 0\r\ndelete x\r\n",
                b"release 1\r\nbury 1\r\ntouch 99\r\n",
                b"kick\r\nkick -1\r\npeek-ready x\r\nquit now\r\n",
                b"pause-tube q0 1\r\n",
                b"stats\0\r\n",
                b"\r\n\r\n",
            )
        )
        return self._garbled(nonsense) if random.random() < 0.4 else nonsense

    def _garbled(self, line: bytes) -> bytes:
        """Some bytes changed, unless that would be a request that concerns jobs."""
        random = self.world.random
        garbled = bytearray(line)
        garbled[random.randrange(len(garbled))] = random.randrange(256)
        requests = [wire.parse_line(part) for part in bytes(garbled).split(b"\r\n")]
        return line if any(not request.fault for request in requests) else bytes(garbled)
