"""The beats of the active hall, by which the others see that it lives.

Invariant: a hall hands out jobs only as long as its `Reign` says. Another one takes over later than that; see
`Suspicion`. So a hall that was stopped, or cut off, hands out nothing when its jobs may be somebody else's.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from hiringhall.cluster.reign import Reign
from hiringhall.storage.contract import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.engine.driver import Driver
    from hiringhall.storage.postgres.members import MemberLink

BEAT_S: Final = 0.5

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
        self._reign = Reign()
        self._address = ""
        """Where this hall listens; empty: its doors are not open yet."""
        self._trouble = ""

    @property
    def deposed(self) -> str:
        """Why this hall is active no more; empty: it is."""
        return self._reign.ended

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())
            self._task.add_done_callback(_fail_loudly)

    def guard(self, driver: Driver, depose: Callable[[], None]) -> None:
        """From now on the driver hands out jobs only after good beats. `depose` closes the hall."""
        self._driver = driver
        self._depose = depose
        driver.may_hand_out(self._reign.hands_out_until_us)
        if self.deposed:
            depose()

    async def publish(self, address: str) -> None:
        """Tell the others where this hall listens. It has beaten then, so that it hands out jobs at once."""
        self._address = address
        if self._reign.hands_out_until_us:
            await self._publish()
        else:
            await self._beat(self._find_incarnation(), self._now_us())

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
            await self._link.pause(max(0.0, BEAT_S - (self._now_us() - begun_us) / 1_000_000))

    async def _beat(self, incarnation: int, sent_us: int) -> None:
        try:
            standing = await self._link.beat(incarnation)
        except StoreError as error:
            if not self._trouble:
                _log.warning("no beat: %s", error)
            self._trouble = str(error)
            if self._driver is not None:
                self._driver.may_hand_out(self._reign.hands_out_until_us)  # no longer than before
            return
        if self._trouble:
            self._trouble = ""
            _log.warning("beats again")
        self._reign.answered(sent_us, incarnation, standing, serving=self._driver is not None)
        if self.deposed:
            _log.warning("this hall is active no more: %s", self.deposed)
        if self._driver is not None:
            self._driver.may_hand_out(self._reign.hands_out_until_us)
        if self.deposed and self._depose is not None:
            self._depose()
        elif standing.address != self._address:
            await self._publish()

    async def _publish(self) -> None:
        """If the database does not answer, or loses it in a crash, it is told again with a later beat."""
        try:
            await self._link.publish(self._find_incarnation(), self._address)
        except StoreError as error:
            _log.warning("the standbys do not know yet where this hall listens: %s", error)


def _fail_loudly(task: asyncio.Task[None]) -> None:
    """Without its beats a hall is replaced, and nobody would know why."""
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error
