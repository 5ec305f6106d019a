"""The intermediate device, for asyncio: a `Relay` with sockets.

It is placed between workers and managers: it acts as a manager for its workers, and as a worker for its
managers. Devices may be chained, or run side by side.
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
"""The number of its listening socket; the managers follow."""


class Device(LinkedPeer):
    """Forwards messages between the peers that connect to `listen` and its managers.

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
        """Its listening address; after `open`, with the actual port."""
        self.forwarded = 0
        self._managers = list(managers)
        self._relay = Relay([b"m%d" % number for number in range(len(managers))])
        self._curve = curve
        self._link_terms = links or LinkTerms()

    @property
    def dropped(self) -> int:
        """Number of messages without a route, or that could not be sent."""
        return self._relay.dropped + (self._links.refused if self._links is not None else 0)

    async def open(self) -> None:
        """Listen, and connect to the managers. Raises AddressError if an address cannot be used."""
        if self._links is not None:
            raise WmpError("the device is already open")
        self._links = Links(self._received, self._link_terms, self._curve)
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

    def _received(self, link: int, frames: list[bytes]) -> None:
        assert self._links is not None
        if link == _ROUTER:
            forwards = self._relay.from_below(frames)
        else:
            forwards = self._relay.from_manager(link - 1, frames)
        if not forwards:
            log.warning("a message from %s had no route, and was dropped", self._end_of(link))
        for forward in forwards:
            number = _ROUTER if forward.hop == BELOW else forward.hop + 1
            sent = self._links.send(number, forward.frames)
            self.forwarded += sent
            if not sent:
                log.warning("a message to %s could not be sent, and was dropped", self._end_of(number))

    def _end_of(self, link: int) -> str:
        """The peer at the other end of a link, for the log."""
        return "a worker" if link == _ROUTER else self._managers[link - 1]
