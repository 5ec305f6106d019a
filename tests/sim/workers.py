"""Those who work, honestly and otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hiringhall.dialects.gearman import wire

from .actors import Actor
from .gearmantap import HANDLE_PREFIX
from .owndialect import Lines, line
from .sights import AHEAD
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
    "sleepy",
    "overrunning",
    "fickle",
    "failing",
)
_GRABS = (wire.GRAB_JOB, wire.GRAB_JOB_UNIQ, wire.GRAB_JOB_ALL)
_ASSIGNMENTS = (wire.JOB_ASSIGN, wire.JOB_ASSIGN_UNIQ, wire.JOB_ASSIGN_ALL)


class GearmanWorker(Actor):
    """Pulls by the Gearman door; its kind says what it does with what it gets."""

    def __init__(self, town: Town, name: str, kind: str, queues: list[bytes]) -> None:
        super().__init__(town, f"{kind} {name}")
        self.kind = kind
        self.queues = queues
        self.grab = self.world.random.choice(_GRABS)
        self.work_us = 2 * MS if kind == "honest" else self.world.random.choice((MS, 30 * MS, 150 * MS))

    def arrived(self) -> None:
        self._reader = wire.Reader(wire.RESPONSE)
        hello = [wire.pack_request(wire.SET_CLIENT_ID, self.name.encode())]
        for queue in self.queues:
            if self.kind == "overrunning":
                hello.append(wire.pack_request(wire.CAN_DO_TIMEOUT, queue, b"1"))
            else:
                hello.append(wire.pack_request(wire.CAN_DO, queue))
        hello.append(wire.pack_request(self.grab))
        self.send(b"".join(hello))

    def listen(self, data: bytes) -> None:
        for packet_type, body in self._reader.feed(data):
            if packet_type == wire.NO_JOB:
                self._idle()
            elif packet_type == wire.NOOP:
                pause_us = 900 * MS if self.kind == "sleepy" and not self.town.calm else 0
                self.later(pause_us, self.connection, wire.pack_request(self.grab))
            elif packet_type in _ASSIGNMENTS:
                self.town.tell(int(body.partition(b"\0")[0].removeprefix(HANDLE_PREFIX)))
                self._work(body.partition(b"\0")[0])

    def _idle(self) -> None:
        if self.kind == "fickle" and self.world.chance(0.4):
            self.send(wire.pack_request(wire.CANT_DO, self.world.random.choice(self.queues)))
            if self.world.chance(0.3):
                self.send(wire.pack_request(wire.RESET_ABILITIES))
            again = b"".join(wire.pack_request(wire.CAN_DO, queue) for queue in self.queues)
            self.later(self.world.random.randrange(300 * MS), self.connection, again)
        elif self.kind == "lying" and self.world.chance(0.7):
            self._lie()
        self.send(wire.pack_request(wire.PRE_SLEEP))

    def _work(self, handle: bytes) -> None:
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
        elif kind == "lying":
            self._lie()
        elif kind == "late":
            work_us += random.randrange(900 * MS)
        elif kind == "overrunning":
            work_us += random.randrange(400 * MS)
        elif kind == "slow":
            for step in range(1, 5):
                shown = wire.pack_request(wire.WORK_STATUS, handle, b"%d" % step, b"5")
                self.later(step * 90 * MS, connection, shown)
            work_us += 4 * 90 * MS
        self.later(work_us, connection, self._outcome(handle) + wire.pack_request(self.grab))

    def _outcome(self, handle: bytes) -> bytes:
        random = self.world.random
        if self.kind == "failing" and random.random() < 0.7:
            text = self.town.result("e")
            failed = wire.pack_request(wire.WORK_FAIL, handle)
            excepted = wire.pack_request(wire.WORK_EXCEPTION, handle, text)
            return random.choice((failed, excepted, excepted + failed))
        done = wire.pack_request(wire.WORK_COMPLETE, handle, self.town.result("r"))
        if self.kind == "duplicating":
            done += wire.pack_request(wire.WORK_COMPLETE, handle, self.town.result("again"))
        elif random.random() < 0.2:
            done = wire.pack_request(wire.WORK_DATA, handle, AHEAD) + done
        return done

    def _lie(self) -> None:
        handle = HANDLE_PREFIX + b"%d" % self.town.hearsay()
        if self.world.chance(0.1):
            handle = b"H:elsewhere:1"
        self.send(wire.pack_request(wire.WORK_COMPLETE, handle, self.town.result("lie")))


class OwnWorker(Actor):
    """Has work pushed to it, or pulls; may be lost by silence, releases, fails with a code."""

    dialect = "own"
    tap = "own"

    def __init__(self, town: Town, name: str, kind: str, queues: list[bytes]) -> None:
        super().__init__(town, f"{kind} {name}")
        random = self.world.random
        self.kind = kind
        self.queues = queues
        self.slots = random.choice((0, 1, 2))
        """Work pushed to it at once; 0: it pulls."""
        self.silence_us = random.choice((0, 250 * MS)) if kind != "honest" else 0

    def arrived(self) -> None:
        self._lines = Lines()
        self._hello()

    def _hello(self) -> None:
        for queue in self.queues:
            self.send(line(do="can_do", queue=queue.decode()))
        if self.silence_us:
            self.send(line(do="expect", silence_us=self.silence_us))
        self._ready()

    def _ready(self) -> None:
        self.send(line(do="offer", slots=self.slots) if self.slots else line(do="take"))

    def listen(self, data: bytes) -> None:
        for told in self._lines.feed(data):
            if "assigned" in told:
                self.town.tell(told["assigned"]["id"])
                self._work(told["assigned"]["id"])
            elif told.get("ok") == "take":
                self.send(line(do="sleep"))
            elif told.get("notice") == "woken":
                self.send(line(do="take"))
            elif told.get("notice") == "lost":
                self._hello()

    def _work(self, job_id: int) -> None:
        world = self.world
        kind = self.kind
        connection = self.connection
        assert connection is not None
        work_us = world.random.randrange(1, 40 * MS)
        if kind == "crashing" and world.chance(0.5):
            world.after(work_us, connection.vanish)
            return
        if kind in ("silent", "late") and world.chance(0.6):
            work_us += world.random.randrange(SECOND)
        report: dict[str, Any] = {"do": "finish", "id": job_id, "result": self.town.result("r").decode()}
        if kind == "lying":
            self.send(line(do="finish", id=self.town.hearsay(), result=self.town.result("lie").decode()))
        elif kind == "failing" and world.chance(0.7):
            report |= {"do": "fail", "code": 7}
        elif kind == "fickle" and world.chance(0.5):
            report = {"do": "release", "id": job_id}
        elif kind == "slow":
            self.later(work_us // 2, connection, line(do="progress", id=job_id))
        said = line(**report)
        if kind == "duplicating":
            said += line(do="finish", id=job_id, result=self.town.result("again").decode())

        def done() -> None:
            if connection is self.connection:
                self.send(said)
                self._ready()

        world.after(work_us, done)
