"""Workers and clients of PING/PONG."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.dialects.pingpong import wire

from .callers import Caller
from .world import MS, SECOND

if TYPE_CHECKING:
    from .actors import Town
    from .post import Post

KINDS: Final = ("honest", "honest", "slow", "crashing", "lively", "silent", "restless", "failing", "flapping")
PING_US: Final = 100 * MS
BROKER_TIMEOUT_US: Final = 150 * MS
TIMEOUTS_MAX: Final = 3
PATIENCE_US: Final = 1500 * MS


class PingPongWorker(Caller):
    """Connects again after too much silence, as the protocol says. It does not PING while it works, unless
    it is a lively one.
    """

    door = "backend"
    lossy = False

    def __init__(self, town: Town, post: Post, name: str, kind: str) -> None:
        super().__init__(town, post, f"{kind} pingpong worker {name}")
        self.kind = kind
        self.leaving = False
        """It works on what it has, and says nothing more after that."""

    def leave(self) -> None:
        self.leaving = True

    def started(self) -> None:
        self._jobs: list[bytes] = []
        self._heard_us = self.world.now_us
        self.send(b"", wire.READY)
        self.later(PING_US, self._tick)

    def _tick(self) -> None:
        if self.leaving:
            return
        self.later(PING_US, self._tick)
        if self._jobs and self.kind != "lively":
            return
        if self.world.now_us - self._heard_us > TIMEOUTS_MAX * BROKER_TIMEOUT_US:
            self.connect()
            self._heard_us = self.world.now_us
            self.send(b"", wire.READY)
        if self.kind == "flapping" and not self.town.calm and self.world.chance(0.1) and self.line is not None:
            self.line.flap()
        if self.kind == "silent" and not self.town.calm and self.world.chance(0.25):
            self.freeze(self.world.random.choice((300 * MS, 420 * MS, 1500 * MS)))
        self.send(b"", wire.PING)

    def listen(self, frames: list[bytes]) -> None:
        self._heard_us = self.world.now_us
        if frames[-1] != wire.PONG:
            self._jobs.append(frames[-1])
            if len(self._jobs) == 1:
                self._work()

    def _work(self) -> None:
        random = self.world.random
        work_us = random.randrange(1, 30 * MS)
        if self.kind in ("slow", "lively") and self.world.chance(0.5):
            work_us += random.randrange(SECOND)
        self.later(work_us, self._finish)

    def _finish(self) -> None:
        dice = self.world.random.random()
        if self.kind == "crashing" and dice < 0.4:
            self.die()
            return
        if self.kind == "restless" and dice < 0.4:
            # Another process in its place, which knows nothing of the job.
            self._jobs = []
            self.connect()
            self.send(b"", wire.READY)
            return
        payload = self._jobs[0]
        if self.kind == "failing" and dice < 0.5:
            self.send(b"", wire.pack_error(b"7", self.town.result("e")))
        elif self.kind == "lively":
            # What it says late may be taken for the answer to another job: its results name none.
            self.send(b"", self.town.result("r"))
        else:
            self.send(b"", self.town.product("r", payload))
        del self._jobs[0]
        self._heard_us = self.world.now_us
        if self._jobs:
            self._work()


class PingPongClient(Caller):
    """Asks, waits for the answer, and asks anew under another name after too long a time."""

    door = "frontend"

    def __init__(self, town: Town, post: Post, name: str) -> None:
        super().__init__(town, post, f"pingpong client {name}")
        random = self.world.random
        self.acts = random.randrange(3, 20)
        self.pause_us = random.choice((MS, 30 * MS, 200 * MS))
        self.own_identity = b""
        self._several = self.world.chance(0.5)
        """It has several requests at once, each with a number of its own in the envelope."""
        self._number = 0
        self._answered = 0

    def started(self) -> None:
        self._act()

    def _act(self) -> None:
        if self.town.calm or not self.acts:
            return
        self.acts -= 1
        self._number += 1
        number = self._number
        payload = self.town.payload()
        if self._several:
            self.send(b"%d" % number, b"", payload)
            self.later(self.world.random.randrange(self.pause_us), self._act)
        else:
            self.send(b"", payload)
            self.later(PATIENCE_US, lambda: self._give_up(number))

    def _give_up(self, number: int) -> None:
        if self._answered < number:
            self._answered = number
            self.connect()
            self._act()

    def listen(self, frames: list[bytes]) -> None:
        if not self._several and self._answered < self._number:
            self._answered = self._number
            self.later(self.world.random.randrange(self.pause_us), self._act)
        elif self.world.chance(0.02) and not self.town.calm:
            self.die()
