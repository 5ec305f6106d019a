"""The intermediate device, for asyncio: a `Relay` with sockets.

It stands between workers and managers: a manager to those below, a worker to those above. Devices may stand in
a chain, or side by side.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from hiringhall.peers.wmp.errors import WmpError
from hiringhall.peers.wmp.links import LinkedPeer, Links, LinkTerms, endpoint
from hiringhall.peers.wmp.relay import BELOW, Relay

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hiringhall.peers.wmp.security import Curve

log: Final = logging.getLogger("hiringhall.wmp")

_ROUTER: Final = 0
"""The number of its listening socket; managers have those after it."""


class Device(LinkedPeer):
    """Forwards between those who connect to `listen` and its managers.

    async with Device("127.0.0.1:5600", ["127.0.0.1:5555", "127.0.0.1:5556"]) as device:
        await device.run()
    """

    def __init__(
        self,
        listen: str,
        managers: Sequence[str],
        *,
        curve: Curve | None = None,
        links: LinkTerms | None = None,
    ) -> None:
        if not managers:
            raise ValueError("a device needs at least one manager")
        super().__init__()
        for address in (listen, *managers):
            endpoint(address)
        self.address = listen
        """Where it listens; with the port that was chosen, once it does."""
        self.forwarded = 0
        self._managers = list(managers)
        self._relay = Relay([b"m%d" % number for number in range(len(managers))])
        self._curve = curve
        self._link_terms = links or LinkTerms()

    @property
    def dropped(self) -> int:
        """Messages that had nowhere to go, or that nobody could take."""
        return self._relay.dropped + (self._links.refused if self._links is not None else 0)

    async def open(self) -> None:
        """Listen, and connect to the managers. Raises AddressError when that is not possible."""
        if self._links is not None:
            raise WmpError("a device is opened once")
        self._links = Links(self._heard, self._link_terms, self._curve)
        try:
            self.address = self._links.bind(self.address)
            for number, manager in enumerate(self._managers):
                self._links.connect(manager, number, None)
        except BaseException:
            await self._links.close()
            raise

    async def close(self) -> None:
        if self._links is not None:
            await self._links.close()

    def _heard(self, link: int, frames: list[bytes]) -> None:
        assert self._links is not None
        if link == _ROUTER:
            forwards = self._relay.from_below(frames)
        else:
            forwards = self._relay.from_manager(link - 1, frames)
        if not forwards:
            log.warning("a message from %s had nowhere to go, and is dropped", self._end_of(link))
        for forward in forwards:
            number = _ROUTER if forward.hop == BELOW else forward.hop + 1
            sent = self._links.send(number, forward.frames)
            self.forwarded += sent
            if not sent:
                log.warning("a message to %s could not be sent, and is dropped", self._end_of(number))

    def _end_of(self, link: int) -> str:
        """Who is at the other end of a link, for the log."""
        return "a worker" if link == _ROUTER else self._managers[link - 1]
