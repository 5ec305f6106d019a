"""Another manager for the same workers: the peers' own desk, on a network that loses messages.

The law: a job that it was given ends once, and all of them end while there are workers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.peers.wmp.manager_state import Ended, ManagerState, ManagerTerms, Post

from .sights import MADE_FOR, tag_of
from .world import MS, Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hiringhall.peers.wmp.manager_state import Effect

    from .actors import Town
    from .post import Post as Network

ACTS_MAX: Final = 8


class WmpManager:
    """It is never killed: its jobs are nowhere else."""

    def __init__(self, town: Town, network: Network) -> None:
        self.town = town
        self.world = town.world
        self.network = network
        self.below: dict[bytes, Callable[[list[bytes]], None]] = {}
        """Who is reached under an identity."""
        terms = ManagerTerms(wake_us=100 * MS, lease_us=self.world.random.choice((100 * MS, 400 * MS)))
        self.desk = ManagerState(b"other", b"1", terms)
        self._acts = self.world.random.randrange(2, ACTS_MAX)
        self._ended: dict[bytes, None] = {}
        self._timer_us: int | None = None
        self._clear_us = 0
        self.world.after(self.world.random.randrange(50 * MS), self._act)

    def _act(self) -> None:
        if self.town.calm or not self._acts:
            return
        self._acts -= 1
        role = self.world.random.choice(self.town.queues)
        ticket, effects = self.desk.submit(role, self.town.payload(), b"", self.world.now_us)
        self._do(effects)
        random = self.world.random
        if random.random() < 0.2:
            self.world.after(random.randrange(100 * MS), lambda: self._do(self.desk.cancel(ticket)))
        self.world.after(random.randrange(1, 300 * MS), self._act)

    def raise_up(self, identity: bytes, frames: list[bytes]) -> None:
        """Somebody below sends something."""
        if not self._loses():
            self._later(lambda: self._do(self.desk.received([identity, *frames], self.world.now_us)))

    def _loses(self) -> bool:
        return self.network.lose > 0 and self.world.chance(self.network.lose)

    def _later(self, action: Callable[[], None]) -> None:
        """Messages keep their order."""
        delay_us = self.world.random.randrange(self.network.weather.delay_max_us)
        self._clear_us = max(self._clear_us, self.world.now_us + delay_us)
        self.world.at(self._clear_us, action)

    def _do(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Post):
                self._send(effect)
            elif isinstance(effect, Ended):
                self._end(effect)
        try:
            self.desk.audit()
        except AssertionError as broken:
            raise Violation("desk", str(broken)) from broken
        next_us = self.desk.next_deadline()
        if next_us is not None and next_us != self._timer_us:
            self._timer_us = next_us
            self.world.at(next_us, lambda: self._tick(next_us))

    def _tick(self, due_us: int) -> None:
        if due_us == self._timer_us:
            self._timer_us = None
            self._do(self.desk.tick(self.world.now_us))

    def _send(self, post: Post) -> None:
        deliver = self.below.get(post.frames[0])
        if deliver is None:
            self.world.after(0, lambda: self._do(self.desk.undelivered(post, self.world.now_us)))
        elif not self._loses():
            self._later(lambda: deliver(post.frames[1:]))

    def _end(self, ended: Ended) -> None:
        ticket, outcome = ended
        self.world.note(f"other manager: {ticket.id!r} {outcome.status} {outcome.payload[:40]!r}")
        if ticket.id in self._ended:
            raise Violation("one end", f"the other manager's {ticket.id!r} has ended twice")
        self._ended[ticket.id] = None
        made, _, tag = outcome.payload.partition(MADE_FOR)
        if made and tag and tag != tag_of(ticket.payload):
            raise Violation("mixed up", f"{ticket.id!r} has a result that was made for {tag!r}")

    def check_idle(self) -> None:
        if self.desk.jobs:
            raise Violation("drain", f"the other manager still has {list(self.desk.jobs)}")
