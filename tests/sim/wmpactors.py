"""Workers of WMP with several slots, and a device between them and the hall: the peers' own state machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.peers.wmp.relay import BELOW, Relay
from hiringhall.peers.wmp.worker_state import Order, Send, Start, WorkerState, WorkerTerms

from .callers import Caller
from .world import MS, SECOND, Violation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hiringhall.peers.wmp.worker_state import Effect

    from .actors import Town
    from .post import Post
    from .wmpmanager import WmpManager

KINDS: Final = ("honest", "honest", "slow", "crashing", "silent", "failing", "fickle", "flapping")
LOCK_US: Final = 150 * MS
HALL: Final = 0
OTHER: Final = 1
"""The links of a worker, and the hops of a device."""


class WmpDevice(Caller):
    """Passes messages on, and forgets everything when it is killed: it keeps nothing."""

    door = "wmp"

    def __init__(self, town: Town, post: Post, name: str, other: WmpManager | None) -> None:
        super().__init__(town, post, f"device {name}")
        self.below: dict[bytes, WmpWorker] = {}
        self.other = other

    def started(self) -> None:
        self._relay = Relay([b"m", b"o"] if self.other is not None else [b"m"])
        if self.other is not None:
            self.other.below[self.name.encode()] = lambda frames: self._pass_down(OTHER, frames)
        if not self.town.calm and self.world.chance(0.5):
            self.later(self.world.random.randrange(2 * SECOND), self.die)

    def raise_up(self, worker: bytes, frames: list[bytes]) -> None:
        """A worker sends something."""
        if self.line is not None:
            for forward in self._relay.from_below([worker, *frames]):
                if forward.hop == HALL:
                    self.send(*forward.frames)
                elif self.other is not None:
                    self.other.raise_up(self.name.encode(), forward.frames)

    def listen(self, frames: list[bytes]) -> None:
        self._pass_down(HALL, frames)

    def _pass_down(self, manager: int, frames: list[bytes]) -> None:
        for forward in self._relay.from_manager(manager, frames):
            worker = self.below.get(forward.frames[0])
            if forward.hop == BELOW and worker is not None and not self.world.chance(self.post.lose):
                worker.arrives(forward.frames[1:])


class WmpWorker(Caller):
    """A crew with a line to the hall, or to a device."""

    door = "wmp"

    def __init__(
        self,
        town: Town,
        post: Post,
        name: str,
        kind: str,
        queues: list[bytes],
        other: WmpManager | None = None,
        device: WmpDevice | None = None,
    ) -> None:
        super().__init__(town, post, f"{kind} wmp worker {name}")
        self.other = other if device is None else None
        self.kind = kind
        self.queues = queues
        self.capacity = self.world.random.choice((1, 2, 4))
        self.device = device
        self.crew: WorkerState | None = None
        self._timer_us: int | None = None
        self._orders: dict[Order, None] = {}

    def connect(self) -> None:
        identity = self.name.encode()
        if self.device is None:
            super().connect()
        else:
            self.device.below[identity] = self
        if self.other is not None:
            self.other.below[identity] = self._hear_other

    def _send_by(self, link: int, frames: list[bytes]) -> None:
        if link == OTHER and self.other is not None:
            self.other.raise_up(self.name.encode(), frames)
        elif self.device is None:
            self.send(*frames)
        elif not self.world.chance(self.post.lose):
            self.device.raise_up(self.name.encode(), frames)

    def arrives(self, frames: list[bytes]) -> None:
        """By way of a device."""
        if self.crew is not None:
            self._arrived(self._socket, frames)

    def _hear_other(self, frames: list[bytes]) -> None:
        if self.crew is not None:
            self._do(self.crew.received(OTHER, frames, self.world.now_us))

    def started(self) -> None:
        terms = WorkerTerms(
            capacity=self.capacity,
            name=self.name.encode(),
            lock_us=LOCK_US,
            ready_first_us=50 * MS,
            ready_max_us=800 * MS,
        )
        costs = {queue: self.world.random.randrange(1, self.capacity + 1) for queue in self.queues}
        self.crew = WorkerState(1 if self.other is None else 2, costs, terms)
        self._orders = {}
        self._timer_us = None
        self._do(self.crew.start(self.world.now_us))

    def die(self) -> None:
        self.crew = None
        if self.other is not None:
            del self.other.below[self.name.encode()]
        super().die()

    def listen(self, frames: list[bytes]) -> None:
        assert self.crew is not None
        self._do(self.crew.received(HALL, frames, self.world.now_us))

    def _do(self, effects: Iterable[Effect]) -> None:
        crew = self.crew
        assert crew is not None
        for effect in effects:
            if isinstance(effect, Send):
                self._send_by(effect.link, effect.frames)
            elif isinstance(effect, Start):
                self._start(effect.order)
            else:
                self._stop(effect.order)
        self.audit()
        next_us = crew.next_deadline()
        if next_us is not None and next_us != self._timer_us:
            self._timer_us = next_us
            self.later(max(next_us - self.world.now_us, 0), lambda: self._tick(next_us))

    def _tick(self, due_us: int) -> None:
        if due_us == self._timer_us:
            self._timer_us = None
            assert self.crew is not None
            self._do(self.crew.tick(self.world.now_us))

    def audit(self) -> None:
        """What it has promised never exceeds what it has."""
        if self.crew is not None:
            try:
                self.crew.audit()
            except AssertionError as broken:
                raise Violation("crew", f"{self.name}: {broken}") from broken

    def _start(self, order: Order) -> None:
        random = self.world.random
        self._orders[order] = None
        work_us = random.randrange(1, 40 * MS)
        if self.kind == "slow" and self.world.chance(0.5):
            work_us += random.randrange(SECOND)
        self.later(work_us, lambda: self._finish(order))

    def _stop(self, order: Order) -> None:
        """It takes a moment until a handler is over."""
        self.later(self.world.random.randrange(1, 5 * MS), lambda: self._stopped(order))

    def _stopped(self, order: Order) -> None:
        if order in self._orders:
            del self._orders[order]
            assert self.crew is not None
            self._do(self.crew.give_back(order, self.world.now_us))

    def _finish(self, order: Order) -> None:
        if order not in self._orders:
            return
        crew = self.crew
        assert crew is not None
        dice = self.world.random.random()
        now_us = self.world.now_us
        if self.kind == "crashing" and dice < 0.3:
            self.die()
            return
        if self.kind == "silent" and dice < 0.3:
            self.freeze(self.world.random.randrange(SECOND))
        if self.kind == "flapping" and dice < 0.3 and self.line is not None:
            self.line.flap()
        del self._orders[order]
        if self.kind == "failing" and dice < 0.5:
            self._do(crew.fail(order, self.town.result("e"), 7, now_us))
        elif self.kind == "fickle" and dice < 0.5:
            self._do(crew.give_back(order, now_us))
        else:
            if dice > 0.8:
                self._do(crew.progress(order, 1, 2, now_us))
            self._do(crew.finish(order, self.town.product("r", order.payload), now_us))

    @property
    def free(self) -> bool:
        """No slot is locked or used."""
        return self.crew is None or not (self.crew.locked or self.crew.used)

    def check_free(self) -> None:
        """Nothing is going on any more."""
        crew = self.crew
        if crew is not None and not self.free:
            raise Violation("locked", f"{self.name} has {crew.locked} locked and {crew.used} used at the end")
