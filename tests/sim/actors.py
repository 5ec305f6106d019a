"""Whoever comes to the hall: connects, talks, is cut off, comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core import ids

from .sights import MADE_FOR, tag_of
from .world import MS

if TYPE_CHECKING:
    from .hall import Hall
    from .network import Connection
    from .world import World


class Town:
    """What all actors of one run share."""

    def __init__(self, world: World, hall: Hall) -> None:
        self.world = world
        self.hall = hall
        self.queues: list[bytes] = []
        self.strays: list[bytes] = []
        """Queues that hardly anybody uses, and nobody works for before the calm."""
        self.keys: list[bytes] = []
        self.gossip: list[int] = []
        """Ids of jobs that somebody was told: liars and meddlers use them."""
        self.leases: list[int] = []
        """Numbers of leases that somebody was told, for liars."""
        self.calm = False
        """The second phase: nobody starts anything new."""
        self.locations: list[bytes] = []
        self.dead: list[bytes] = []
        """Locations whose workers are gone, for somebody to see to."""
        self.spaced = 0
        """Submits of those who debounce and throttle."""
        self._last_tag = 0
        self._last_result = 0

    def queue(self) -> bytes:
        random = self.world.random
        return random.choice(self.strays if self.strays and random.random() < 0.2 else self.queues)

    def payload(self) -> bytes:
        """Text that no other job has."""
        self._last_tag += 1
        text = b"t%d" % self._last_tag
        random = self.world.random
        return (
            text + b"." * random.choice((0, 0, 0, 0, 0, 0, 90, 5000, 20_000)) if random.random() < 0.3 else text
        )

    def result(self, word: str) -> bytes:
        """Text that no other report has."""
        self._last_result += 1
        text = f"{word}{self._last_result}"
        return (text + "." * 20_000 if self.world.chance(0.01) else text).encode()

    def product(self, word: str, payload: bytes) -> bytes:
        """A result that says for which job it was made."""
        return self.result(word) + MADE_FOR + tag_of(payload)

    def tell(self, job_id: int) -> None:
        self.gossip.append(job_id)

    def hearsay(self) -> int:
        """A job that somebody knows of, rather a new one; or one that nobody does."""
        random = self.world.random
        if not self.gossip or random.random() < 0.1:
            return ids.make(self.world.epoch, random.randrange(40))
        return random.choice(self.gossip[-12:])


class Actor:
    """One of them. Its connection may be cut at any time; it comes back until it retires."""

    dialect = "gearman"
    tap = "gearman"

    def __init__(self, town: Town, name: str) -> None:
        self.town = town
        self.world = town.world
        self.name = name
        self.connection: Connection | None = None
        self.retired = False
        self.world.after(self.world.random.randrange(20 * MS), self.connect)

    def connect(self) -> None:
        if self.retired or self.connection is not None:
            return
        self.connection = self.town.hall.connect(self)
        if self.connection is None:
            self.world.after(self.world.random.randrange(10 * MS, 100 * MS), self.connect)
        else:
            self.arrived()

    def heard(self, connection: Connection, data: bytes) -> None:
        if connection is self.connection:
            self.listen(data)

    def disconnected(self, connection: Connection) -> None:
        if connection is self.connection:
            self.connection = None
            self.world.after(self.world.random.randrange(1, 60 * MS), self.connect)

    def send(self, data: bytes) -> None:
        if self.connection is not None:
            self.connection.send(data)

    def hang_up(self) -> None:
        """Close properly and come back later."""
        connection = self.connection
        if connection is not None:
            connection.close()
            self.disconnected(connection)

    def later(self, delay_us: int, connection: Connection | None, data: bytes) -> None:
        """Send something after a while, if the connection is still the same."""

        def send() -> None:
            if connection is self.connection:
                self.send(data)

        self.world.after(delay_us, send)

    def retire(self) -> None:
        """Leave for good."""
        self.retired = True
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def arrived(self) -> None:
        """A connection has been made."""

    def listen(self, data: bytes) -> None:
        """Bytes have come."""
