"""The beats of the active hall, by which the others see that it lives.

Invariant: a hall hands out jobs only for `LEASE_US` after it sent a beat that the database answered. Another
one takes over after `SILENCE_US` without a beat, which is later. So a hall that was stopped, or cut off, hands
out nothing when its jobs may be somebody else's.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from hiringhall.storage.contract import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.cluster.standby import Replaced
    from hiringhall.engine.driver import Driver
    from hiringhall.storage.postgres.members import MemberLink

BEAT_S: Final = 0.5
LEASE_US: Final = 3_000_000
"""For this long after a good beat was sent, no other hall takes over. `SILENCE_US` is longer: the clock of this
machine may be a quarter slower than that of the other."""

_log = logging.getLogger("hiringhall")


class Beats:
    """Beats from the moment that the store has an incarnation. A service of the hall."""

    def __init__(
        self, link: MemberLink, find_incarnation: Callable[[], int], now_us: Callable[[], int]
    ) -> None:
        self._link = link
        self._find_incarnation = find_incarnation
        self._now_us = now_us
        self._task: asyncio.Task[None] | None = None
        self._driver: Driver | None = None
        self._depose: Callable[[], None] | None = None
        self._good_us = 0
        """When the last beat was sent that the database answered."""
        self._trouble = ""
        self.deposed = ""
        """Why this hall is active no more; empty: it is."""

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())

    async def outlast(self, replaced: Replaced) -> None:
        """After a take-over: wait until the other hall hands out nothing. That is so already, unless it sent
        another beat just before it was replaced.
        """
        beat = await self._link.beat_of(replaced.incarnation)
        if beat is not None and beat != replaced.beat:
            _log.warning("the hall that was replaced had come back: waiting until it hands out nothing")
            await asyncio.sleep(LEASE_US / 1_000_000)

    def guard(self, driver: Driver, depose: Callable[[], None]) -> None:
        """From now on the driver hands out jobs only after good beats. `depose` closes the hall."""
        self._driver = driver
        self._depose = depose
        if self.deposed:
            self._end_reign(self.deposed)
        else:
            driver.may_hand_out(self._good_us + LEASE_US)

    async def publish(self, address: str) -> None:
        """Tell the others where this hall listens."""
        await self._link.publish(self._find_incarnation(), address)

    def stop_taking(self) -> None:
        """It goes on until the hall has closed: until then nobody else may take over."""

    async def close(self) -> None:
        """The beats go on while the last commits are made; `end` ends them."""

    async def end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._link.close()

    async def _run(self) -> None:
        while not self.deposed:
            begun_us = self._now_us()
            if self._find_incarnation():
                await self._beat(self._find_incarnation(), begun_us)
            await asyncio.sleep(max(0.0, BEAT_S - (self._now_us() - begun_us) / 1_000_000))

    async def _beat(self, incarnation: int, sent_us: int) -> None:
        try:
            standing = await self._link.beat(incarnation)
        except StoreError as error:
            if not self._trouble:
                _log.warning("no beat: %s", error)
            self._trouble = str(error)
            if self._driver is not None:
                self._driver.may_hand_out(self._good_us + LEASE_US)  # no longer than before
            return
        if self._trouble:
            self._trouble = ""
            _log.warning("beats again")
        if standing.incarnation != incarnation:
            self._end_reign(f"hall {standing.name} has taken over")
            return
        if not standing.known:
            # The others do not see its beats any more.
            self._end_reign(f"another process has joined as {standing.name}: give each hall a name of its own")
            return
        self._good_us = sent_us
        if self._driver is not None:
            self._driver.may_hand_out(sent_us + LEASE_US)
            if standing.wish.instead_of == incarnation:
                self._end_reign(f"a switch-over to {standing.wish.name or 'another hall'} is asked for")

    def _end_reign(self, reason: str) -> None:
        self.deposed = reason
        _log.warning("this hall is active no more: %s", reason)
        if self._driver is not None:
            self._driver.may_hand_out(0)
        if self._depose is not None:
            self._depose()
