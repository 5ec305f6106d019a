"""Those who hand jobs in, by the Gearman door and in the simulator's own dialect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hiringhall.core.states import FAILED
from hiringhall.core.terms import PRIORITIES
from hiringhall.dialects.gearman import wire

from .actors import Actor
from .gearmantap import HANDLE_PREFIX
from .owndialect import Lines, line
from .world import MS, SECOND

if TYPE_CHECKING:
    from .actors import Town

_FOREGROUND = (wire.SUBMIT_JOB, wire.SUBMIT_JOB, wire.SUBMIT_JOB_HIGH, wire.SUBMIT_JOB_LOW)
_BACKGROUND = (wire.SUBMIT_JOB_BG, wire.SUBMIT_JOB_BG, wire.SUBMIT_JOB_HIGH_BG, wire.SUBMIT_JOB_LOW_BG)


class Client(Actor):
    """Does something now and then, until it has done enough."""

    def __init__(self, town: Town, name: str) -> None:
        super().__init__(town, name)
        random = self.world.random
        self.acts = random.randrange(5, 25)
        self.pause_us = random.choice((MS, 20 * MS, 150 * MS, 400 * MS))
        self.flighty = random.choice((0.0, 0.0, 0.05, 0.2))
        """How often it leaves in the middle of things."""
        self.keyed = random.choice((0.0, 0.4, 0.9))
        self.world.after(random.randrange(50 * MS), self._act)

    def _act(self) -> None:
        world = self.world
        if self.retired or self.town.calm or not self.acts:
            return
        world.after(world.random.randrange(self.pause_us), self._act)
        connection = self.connection
        if connection is None:
            return
        self.acts -= 1
        for _ in range(world.random.choice((1, 1, 1, 2, 4))):
            self.act()
        if self.flighty and world.chance(self.flighty):
            if world.chance(0.5):
                connection.vanish()
            else:
                self.hang_up()

    def act(self) -> None:
        raise NotImplementedError


class GearmanClient(Client):
    """Submits in the foreground and in the background."""

    def __init__(self, town: Town, name: str) -> None:
        super().__init__(town, name)
        self.background = self.world.random.choice((0.0, 0.5, 1.0))

    def arrived(self) -> None:
        self._reader = wire.Reader(wire.RESPONSE)
        if self.world.chance(0.3):
            self.send(wire.pack_request(wire.OPTION_REQ, b"exceptions"))

    def act(self) -> None:
        random = self.world.random
        dice = random.random()
        if dice < 0.05:
            self.send(wire.pack_request(wire.ECHO_REQ, b"echo"))
        elif dice < 0.08:
            self.send(wire.pack_request(wire.GET_STATUS_UNIQUE, random.choice(self.town.keys)))
        elif dice < 0.12:
            self.send(wire.pack_request(wire.GET_STATUS, HANDLE_PREFIX + b"%d" % self.town.hearsay()))
        else:
            self._submit()

    def _submit(self) -> None:
        world = self.world
        random = world.random
        queue = self.town.queue()
        key = random.choice(self.town.keys) if world.chance(self.keyed) else random.choice((b"", b"", b"-"))
        payload = self.town.payload()
        dice = random.random()
        if dice < 0.08:
            due_s = b"%d" % ((world.now_us + random.randrange(2 * SECOND)) // SECOND)
            self.send(wire.pack_request(wire.SUBMIT_JOB_EPOCH, queue, key, due_s, payload))
        elif dice < 0.10:
            self.send(wire.pack_request(wire.SUBMIT_JOB_SCHED, queue, key, *[b"*"] * 5, payload))
        elif dice < 0.15:
            kind = random.choice((wire.SUBMIT_REDUCE_JOB, wire.SUBMIT_REDUCE_JOB_BACKGROUND))
            self.send(wire.pack_request(kind, queue, key, b"sum", payload))
        else:
            kinds = _BACKGROUND if world.chance(self.background) else _FOREGROUND
            self.send(wire.pack_request(random.choice(kinds), queue, key, payload))

    def listen(self, data: bytes) -> None:
        for packet_type, body in self._reader.feed(data):
            if packet_type == wire.JOB_CREATED:
                self.town.tell(int(body.removeprefix(HANDLE_PREFIX)))


class OwnClient(Client):
    """Reaches what the Gearman door does not: parents, retries, delays to the microsecond, cancels."""

    dialect = "own"
    tap = "own"

    def __init__(self, town: Town, name: str) -> None:
        super().__init__(town, name)
        self.mine: list[int] = []
        self.dead: list[int] = []
        """Jobs that have failed."""

    def arrived(self) -> None:
        self._lines = Lines()

    def act(self) -> None:
        random = self.world.random
        dice = random.random()
        if dice < 0.12:
            self.send(line(do="cancel", id=self.town.hearsay()))
        elif dice < 0.20:
            self.send(line(do="watch", id=self.town.hearsay()))
        elif dice < 0.24 and self.mine:
            self.send(line(do="unwatch", id=random.choice(self.mine)))
        elif dice < 0.34:
            job_id = random.choice(self.dead) if self.dead else self.town.hearsay()
            self.send(line(do="retry", id=job_id))
        else:
            self._submit()

    def _submit(self) -> None:
        world = self.world
        random = world.random
        request: dict[str, Any] = {
            "queue": self.town.queue().decode(),
            "payload": self.town.payload().decode(),
            "priority": random.randrange(PRIORITIES),
            "durable": world.chance(0.6),
            "failures_max": random.choice((0, 0, 1, 2)),
            "backoff_us": random.choice((1, 20 * MS, 200 * MS)),
            "losses_max": random.choice((0, 1, 2, 3)),
            "lease_us": random.choice((0, 0, 150 * MS, 400 * MS)),
            "run_us": random.choice((0, 0, 0, 300 * MS)),
            "on_parent_failure": random.randrange(3),
        }
        request["watched"] = world.chance(0.6)
        request["detached"] = not request["watched"] or (request["durable"] and world.chance(0.7))
        if world.chance(self.keyed):
            request["key"] = random.choice(self.town.keys).decode()
        if world.chance(0.2):
            request["due_us"] = world.now_us + random.randrange(SECOND)
        if world.chance(0.4):
            request["parents"] = [self._parent() for _ in range(random.choice((1, 1, 2, 3)))]
        self.send(line(do="submit", **request))

    def _parent(self) -> int | list[str]:
        random = self.world.random
        if random.random() < 0.6:
            return self.town.hearsay()
        return [self.town.queue().decode(), random.choice(self.town.keys).decode()]

    def listen(self, data: bytes) -> None:
        for told in self._lines.feed(data):
            if "created" in told:
                self.mine.append(told["created"])
                self.town.tell(told["created"])
            elif told.get("notice") == "ended" and told["state"] == FAILED:
                self.dead.append(told["id"])
