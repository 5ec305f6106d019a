"""Those who speak the native protocol: clients, workers, and one who garbles its frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import msgpack

from hiringhall.dialects.native import wire

from .actors import Actor
from .clients import Client
from .hostile import Vandal
from .pausers import Pauser
from .sights import AHEAD
from .world import MS, SECOND

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
    "stubborn",
    "overrunning",
    "fickle",
    "failing",
    "wavering",
    "losing",
    "renewing",
)
_PRIORITIES = ("high", "normal", "low")
_POLICIES = ("fail", "run", "hold")
HELLO = wire.encode(wire.HELLO, 1, {"version": wire.VERSION})


class Speaker:
    """Numbers of requests, and frames that come."""

    def __init__(self) -> None:
        self.last_number = 1
        self.asked: dict[int, str] = {}
        self._reader = wire.Reader()

    def request(self, kind: str, body: Any, *, answered: bool = True) -> bytes:
        if not answered:
            return wire.encode(kind, 0, body)
        self.last_number += 1
        self.asked[self.last_number] = kind
        return wire.encode(kind, self.last_number, body)

    def feed(self, data: bytes) -> list[tuple[str, int, Any]]:
        return [msgpack.decode(frame) for frame in self._reader.feed(data)]


class NativeClient(Client):
    """Submits jobs with all kinds of terms, several at once; watches, asks, cancels, retries."""

    dialect = "native"
    tap = "native"

    def __init__(self, town: Town, name: str) -> None:
        super().__init__(town, f"native client {name}")
        self.mine: list[int] = []
        self.dead: list[int] = []
        """Jobs that have failed."""
        self._last_key = 0
        self._unanswered: dict[int, tuple[int, list[list[Any]]]] = {}
        """Submits whose jobs have keys of their own, by number: the watch and the jobs."""

    def arrived(self) -> None:
        self._speaker = Speaker()
        self.send(HELLO)
        unanswered = list(self._unanswered.values())
        self._unanswered = {}
        for watch, jobs in unanswered:
            # Each submit has a payload of its own, so that it is known which one made a job.
            self._send_submit(watch, [[job[0], self.town.payload(), *job[2:]] for job in jobs], again=True)

    def ask(self, kind: str, body: Any) -> None:
        self.send(self._speaker.request(kind, body, answered=not self.world.chance(0.1)))

    def act(self) -> None:
        random = self.world.random
        dice = random.random()
        job_id = random.choice(self.mine) if self.mine and random.random() < 0.6 else self.town.hearsay()
        if dice < 0.10:
            self.ask(wire.CANCEL, [job_id, b"asked for"])
        elif dice < 0.20:
            self.send(self._speaker.request(wire.WATCH, [job_id, random.choice((1, 2))]))
        elif dice < 0.25:
            self.ask(wire.UNWATCH, [job_id])
        elif dice < 0.40:
            self.ask(wire.JOB, [job_id])
        elif dice < 0.50:
            self.ask(wire.RETRY, [random.choice(self.dead) if self.dead else job_id])
        elif dice < 0.52:
            self.ask(random.choice((wire.QUEUES, wire.WORKERS)), [0, random.choice((0, 1, 1000))])
        elif dice < 0.56:
            filters = {"queue": self.town.queue(), "count": random.choice((1, 100))}
            self.ask(random.choice((wire.JOBS, wire.HISTORY)), filters if random.random() < 0.5 else {})
        else:
            self._submit()

    def _submit(self) -> None:
        random = self.world.random
        watch = random.choice((0, 1, 1, 2))
        durable = random.random() < 0.6
        jobs = [self._job(durable, watch) for _ in range(random.choice((1, 1, 1, 2, 3)))]
        dice = random.random()
        if dice < 0.3:
            for job in jobs:
                self._last_key += 1
                job[3] = b"%s %d" % (self.name.encode(), self._last_key)
            self._send_submit(watch, jobs, again=False)
        elif dice < 0.4:
            for job in jobs:
                job[3] = job[3] or random.choice(self.town.keys)
            self.send(self._speaker.request(wire.SUBMIT, [watch, jobs, True]))
        else:
            quiet = not watch and dice < 0.5
            self.send(self._speaker.request(wire.SUBMIT, [watch, jobs], answered=not quiet))

    def _send_submit(self, watch: int, jobs: list[list[Any]], *, again: bool) -> None:
        """Send it, and send it again if the connection is lost before it is answered."""
        self.send(self._speaker.request(wire.SUBMIT, [watch, jobs, again]))
        self._unanswered[self._speaker.last_number] = (watch, jobs)

    def _job(self, durable: bool, watch: int) -> list[Any]:
        world = self.world
        random = world.random
        terms: dict[str, Any] = {
            "durable": durable,
            "detached": durable or not watch or world.chance(0.5),
            "priority": random.choice(_PRIORITIES),
            "retries": random.choice((0, 0, 1, 2)),
            "backoff_us": random.choice((1, 20 * MS, 200 * MS)),
            "losses_max": random.choice((0, 1, 2, 3)),
            "silence_us": random.choice((0, 0, 150 * MS, 400 * MS)),
            "timeout_us": random.choice((0, 0, 0, 300 * MS)),
            "on_parent_failure": random.choice(_POLICIES),
        }
        key = random.choice(self.town.keys) if world.chance(self.keyed) else b""
        delay_us = random.randrange(SECOND) if world.chance(0.2) else 0
        parents = [self._parent() for _ in range(random.choice((1, 2)))] if world.chance(0.2) else []
        return [self.town.queue(), self.town.payload(), terms, key, delay_us, parents]

    def _parent(self) -> int | tuple[bytes, bytes]:
        random = self.world.random
        if random.random() < 0.6:
            return self.town.hearsay()
        return self.town.queue(), random.choice(self.town.keys)

    def listen(self, data: bytes) -> None:
        for kind, number, body in self._speaker.feed(data):
            if number:
                self._unanswered.pop(number, None)
            if kind == wire.OK and self._speaker.asked.get(number) == wire.SUBMIT:
                for job_id in body:
                    self.mine.append(job_id)
                    self.town.tell(job_id)
            elif kind == wire.ENDED and body[1] == "failed":
                self.dead.append(body[0])


class NativeWorker(Actor):
    """Takes several jobs at once; its kind says what it does with them."""

    dialect = "native"
    tap = "native"

    def __init__(self, town: Town, name: str, kind: str, queues: list[bytes]) -> None:
        super().__init__(town, f"{kind} native worker {name}")
        random = self.world.random
        self.kind = kind
        self.queues = queues
        self.slots = random.choice((1, 2, 4))
        self.silence_us = random.choice((0, 250 * MS)) if kind != "honest" else 0
        self.run_us = 200 * MS if kind in ("overrunning", "renewing") else 0
        self._over: list[int] = []
        """Leases that it had."""

    def arrived(self) -> None:
        self._speaker = Speaker()
        self._leases: dict[int, None] = {}
        self._over = []
        self.send(HELLO)
        self._offer()
        if self.silence_us and self.kind not in ("silent", "late"):
            self._beat(self.connection)

    def _offer(self) -> None:
        abilities = [[queue, self.run_us, 0] for queue in self.queues]
        self.send(
            self._speaker.request(wire.WORK, [self.name.encode(), self.slots, abilities, -1, self.silence_us])
        )

    def _beat(self, connection: Any) -> None:
        if connection is self.connection and connection is not None and not self.retired:
            self.send(self._speaker.request(wire.BEAT, None, answered=False))
            self.world.after(80 * MS, lambda: self._beat(connection))

    def listen(self, data: bytes) -> None:
        for kind, number, body in self._speaker.feed(data):
            if kind == wire.ASSIGN:
                self._leases[body[0]] = None
                self.town.tell(body[1])
                self.town.leases.append(body[0])
                self._work(body[0], body[3])
            elif kind == wire.REVOKE and self.kind != "stubborn":
                self._leases.pop(body[0], None)
                self._over.append(body[0])
                self.send(self._speaker.request(wire.BEAT, None, answered=False))
            elif kind == wire.LOST:
                self._offer()
            elif kind == wire.ERROR and self._speaker.asked.get(number) == wire.WORK:
                self.later(50 * MS, self.connection, self._again())

    def _again(self) -> bytes:
        """The hall had no room for all its queues: it tries one of them."""
        one = [[self.world.random.choice(self.queues), self.run_us, 0]]
        return self._speaker.request(wire.WORK, [self.name.encode(), self.slots, one, -1, self.silence_us])

    def _work(self, lease: int, payload: bytes) -> None:
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
            return
        if kind in ("late", "stubborn", "overrunning") and world.chance(0.6):
            work_us += random.randrange(600 * MS)
        elif kind == "slow":
            for step in range(1, 4):
                shown = self._speaker.request(wire.PROGRESS, [lease, step, 4, 0], answered=False)
                shown += self._speaker.request(wire.CHUNK, [lease, AHEAD, step == 2])
                self.later(step * 50 * MS, connection, shown)
            work_us += 200 * MS
        elif kind == "lying":
            self._lie()
        elif kind == "renewing":
            work_us += random.choice((0, 100 * MS, 250 * MS))
            self.later(work_us * 2 // 3, connection, self._speaker.request(wire.RENEW, [lease]))
        elif kind == "wavering" and world.chance(0.5):
            slots = random.choice((0, 1, self.slots))
            self.send(self._speaker.request(wire.SLOTS, [slots]))
            self.later(work_us, connection, self._speaker.request(wire.SLOTS, [self.slots]))

        def done() -> None:
            if connection is self.connection and (lease in self._leases or kind == "stubborn"):
                self._leases.pop(lease, None)
                self._over.append(lease)
                self.send(self._outcome(lease, payload))

        world.after(work_us, done)

    def _outcome(self, lease: int, payload: bytes) -> bytes:
        world = self.world
        town = self.town
        request = self._speaker.request
        answered = world.chance(0.6)
        if self.kind == "failing" and world.chance(0.7):
            failure = [lease, world.random.choice((1, 7, 255)), town.result("e"), world.chance(0.6)]
            return request(wire.FAIL, failure, answered=answered)
        if self.kind in ("fickle", "wavering") and world.chance(0.5):
            return request(wire.RELEASE, [lease, world.chance(0.5)], answered=answered)
        if self.kind == "losing" and world.chance(0.5):
            return request(wire.LOSE, [lease, b"its process is dead"], answered=answered)
        done = request(wire.FINISH, [lease, town.product("r", payload)], answered=answered)
        if self.kind == "duplicating":
            done += request(wire.FINISH, [lease, town.product("again", payload)])
        return done

    def _lie(self) -> None:
        """Report by a lease of somebody else, by one that is over, or by none."""
        random = self.world.random
        lease = random.choice((random.choice(self._over or [0]), random.choice(self.town.leases), 1 << 40))
        if lease not in self._leases:
            kind = random.choice((wire.FINISH, wire.FINISH, wire.FAIL, wire.RELEASE))
            said = {wire.FAIL: [lease, 1, b"", True], wire.RELEASE: [lease, True]}
            self.send(self._speaker.request(kind, said.get(kind, [lease, self.town.result("lie")])))


class NativePauser(Pauser):
    """Pauses queues and resumes them, by the native protocol."""

    dialect = "native"
    tap = "native"

    def arrived(self) -> None:
        super().arrived()
        self._speaker = Speaker()
        self._queues: dict[int, bytes] = {}
        """What it asked to resume, by the number of the request."""
        self.send(HELLO)

    def say(self, verb: str, queue: bytes) -> None:
        self.send(self._speaker.request(verb, [queue]))
        if verb == wire.RESUME:
            self._queues[self._speaker.last_number] = queue

    def listen(self, data: bytes) -> None:
        for kind, number, _ in self._speaker.feed(data):
            if number in self._speaker.asked:
                self.answered(self._queues.get(number, b"") if kind == wire.OK else b"")


class NativeVandal(Vandal):
    """Sends frames that were garbled on the way, and others that no peer should send."""

    dialect = "native"
    tap = "native"

    def arrived(self) -> None:
        self._numbers = {1}
        if self.world.chance(0.8):
            self.send(HELLO)
        super().arrived()

    def _nonsense(self) -> bytes:
        random = self.world.random
        if random.random() < 0.15:
            return random.choice((random.randbytes(9), b"\xff\xff\xff\xffxx", b"\0\0\0\x01\xc1", b"\0\0"))
        return b"".join(self._garbled() for _ in range(random.choice((1, 2, 5))))

    def _garbled(self) -> bytes:
        """A frame with some bytes changed; or as it was, if it would do what only decent peers do."""
        random = self.world.random
        number = max(self._numbers) + 1
        frame = bytearray(self._frame(number))
        for _ in range(random.choice((0, 1, 1, 2, 4))):
            frame[random.randrange(wire.HEADER_BYTES, len(frame))] = random.randrange(256)
        try:
            kind, said, _ = wire.decode_frame(bytes(frame[wire.HEADER_BYTES :]))
        except wire.BadFrame:
            return bytes(frame)
        if kind in (wire.SUBMIT, wire.WORK) or said in self._numbers:
            return b""
        self._numbers.add(said)
        return bytes(frame)

    def _frame(self, number: int) -> bytes:
        job_id = self.town.hearsay()
        requests: tuple[tuple[str, Any], ...] = (
            ("submitt", [1, [[b"q0", b"", {}, b"", 0, []]]]),
            ("wor", [b"w", 1, [[b"q0", 0, 0]], -1, 0]),
            (wire.WATCH, [job_id, 1]),
            (wire.JOB, [job_id]),
            (wire.UNWATCH, [job_id]),
            (wire.CANCEL, [job_id, b"why"]),
            (wire.RETRY, [job_id]),
            (wire.QUEUES, [0, 10]),
            (wire.SLOTS, [4]),
            (wire.FINISH, [1 << 40, b"of nothing"]),
            (wire.FAIL, [1 << 40, 1, b"", False]),
            (wire.RELEASE, [1 << 40, True]),
            (wire.PROGRESS, [1 << 40, 1, 2, 0]),
            (wire.CHUNK, [1 << 40, b"", False]),
            (wire.HELLO, {"version": 9}),
            (wire.OK, None),
        )
        kind, body = self.world.random.choice(requests)
        return wire.encode(kind, number, body)
