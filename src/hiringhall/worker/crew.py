"""The processes of a pool: as many as wanted, replaced when they end.

Invariant: at most `wanted` processes work or start. A process that ends before it has had a job is replaced
after a pause, which doubles each time; one that has had a job is replaced at once.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from hiringhall.worker import messages
from hiringhall.worker.process import RETIRING

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.worker.process import Child, Owner

PAUSE_S_MIN: Final = 0.5
PAUSE_S_MAX: Final = 30.0
LINGER_S: Final = 5.0
"""How long a process that has no more jobs may take to end."""


class Joining(Protocol):
    """The pool, which gives jobs to the processes."""

    def joined(self, child: Child) -> None: ...


class Crew:
    """Keeps the processes of one pool alive."""

    def __init__(self, spawn: Callable[[Owner], Child], complain: Callable[[Child, float], None]) -> None:
        """`complain` is told of a child that cannot start, and after how many seconds it is tried again."""
        self._spawn = spawn
        self._complain = complain
        self._loop = asyncio.get_running_loop()
        self._pause_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.pool: Joining | None = None
        self.wanted = 0
        self.working: list[Child] = []
        """Those that take jobs."""
        self.starting: list[Child] = []
        self.leaving: list[Child] = []
        """Those that finish what they have, or were killed and have not ended."""

    @property
    def everyone(self) -> list[Child]:
        return [*self.working, *self.starting, *self.leaving]

    def want(self, count: int) -> None:
        self.wanted = count
        self.fill()

    def fill(self) -> None:
        """Start what is missing."""
        if self._timer is not None:
            return
        while len(self.working) + len(self.starting) < self.wanted:
            self.starting.append(self._spawn(self))

    def heard(self, child: Child, tag: int, _: int, body: bytes) -> None:
        """The first words of a child."""
        if tag == messages.BROKEN:
            child.broken = messages.BROKEN_BODY.decode(body)
        elif tag == messages.READY:
            child.ready = messages.READY_BODY.decode(body)
            self.starting.remove(child)
            self.adopt(child)

    def adopt(self, child: Child) -> None:
        """A child that is ready joins."""
        self.working.append(child)
        if self.pool is not None:
            self.pool.joined(child)

    def ended(self, child: Child) -> None:
        """A child ended before it was ready."""
        self.starting.remove(child)
        if self.wanted == 0 or child.doom:
            self.fill()
        else:
            self._try_later(child)

    def _try_later(self, child: Child) -> None:
        self._pause_s = min(max(2 * self._pause_s, PAUSE_S_MIN), PAUSE_S_MAX)
        self._complain(child, self._pause_s)
        if self._timer is None:
            self._timer = self._loop.call_later(self._pause_s, self._fill_again)

    def _fill_again(self) -> None:
        self._timer = None
        self.fill()

    def dismiss(self, child: Child) -> None:
        """It takes no more jobs, and is replaced."""
        if child in self.working:
            self.working.remove(child)
            self.leaving.append(child)
            self.fill()

    def left(self, child: Child) -> None:
        """A child that was ready has ended."""
        if child.given:
            self._pause_s = 0.0
        elif child in self.working and not child.doom and self.wanted:
            # It died before its first job: the next one would do the same.
            self.working.remove(child)
            self._try_later(child)
            return
        self.dismiss(child)
        if child in self.leaving:
            self.leaving.remove(child)

    def linger(self, child: Child) -> None:
        """A child that has nothing more to do should end soon."""
        self._loop.call_later(LINGER_S, self._hurry, child)

    def _hurry(self, child: Child) -> None:
        if child.state == RETIRING:
            child.kill("it did not end by itself")

    def renew(self) -> None:
        """Start what is missing with the code of now, whatever was tried before."""
        for child in self.starting:
            child.kill("replaced")
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._pause_s = 0.0

    def kill_all(self) -> None:
        self.wanted = 0
        for child in self.everyone:
            child.kill("the worker ends")
