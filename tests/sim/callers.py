"""Whoever comes by ZeroMQ: has a line, is killed or stands still, and comes back under the same name or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .post import Line
from .world import MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from .actors import Town
    from .post import Post


class Caller:
    """One of them. What it has in mind for later is forgotten when it dies."""

    door = ""
    lossy = True
    """Single messages are lost on the way; otherwise only with the connection."""

    def __init__(self, town: Town, post: Post, name: str) -> None:
        self.town = town
        self.post = post
        self.world = town.world
        self.name = name
        self.line: Line | None = None
        self.retired = False
        self.own_identity = name.replace(" ", "-").encode() if self.world.chance(0.4) else b""
        """Its own choice of a ZeroMQ identity; none: the hall's side makes one up."""
        self._life = 0
        self._socket = 0
        self._frozen_until_us = 0
        self.world.after(self.world.random.randrange(20 * MS), self.start)

    def start(self) -> None:
        if not self.retired:
            self.connect()
            self.started()

    def connect(self) -> None:
        """A new socket; the one before is closed, with all that it has not read."""
        if self.line is not None:
            self.line.close()
        self._socket += 1
        socket = self._socket
        self.line = Line(
            self.post,
            self.door,
            lambda frames: self._arrived(socket, frames),
            self.own_identity,
            lossy=self.lossy,
        )

    def send(self, *frames: bytes) -> None:
        if self.line is not None:
            self.line.send(*frames)

    def _arrived(self, socket: int, frames: list[bytes]) -> None:
        """While it stands still, messages wait in its socket."""
        if socket != self._socket:
            return
        if self.world.now_us < self._frozen_until_us:
            self.world.at(self._frozen_until_us, lambda: self._arrived(socket, frames))
        else:
            self.listen(frames)

    def later(self, delay_us: int, action: Callable[[], None]) -> None:
        """Do something after a while, unless it dies before."""
        life = self._life

        def act() -> None:
            if life != self._life or self.retired:
                return
            if self.world.now_us < self._frozen_until_us:
                self.world.at(self._frozen_until_us, act)
            else:
                action()

        self.world.after(delay_us, act)

    def freeze(self, duration_us: int) -> None:
        """Stand still, as after SIGSTOP."""
        self._frozen_until_us = self.world.now_us + duration_us

    def die(self) -> None:
        """As by kill -9. Another process comes in its place."""
        self._life += 1
        self._socket += 1
        if self.line is not None:
            self.world.note(f"{self.name} dies")
            self.line.close(silently=True)
            self.line = None
        self.world.after(self.world.random.randrange(1, 200 * MS), self.start)

    def retire(self) -> None:
        """Leave for good, without a word."""
        self.retired = True
        self._life += 1
        self._socket += 1
        if self.line is not None:
            self.line.close(silently=True)
            self.line = None

    def started(self) -> None:
        """It has a line."""

    def listen(self, frames: list[bytes]) -> None:
        """A message has come."""
