"""A hall that stands by: it watches the active one, passes connections on to it, and says when to take over.

Invariant: it takes over only from an incarnation that has closed the database, or that it has itself seen
silent for too long; see `Suspicion`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from hiringhall.cluster.passing import PassDoor
from hiringhall.cluster.suspicion import Suspicion
from hiringhall.config.quantities import Address
from hiringhall.storage.contract import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hiringhall.storage.postgres.members import MemberLink, Standing
    from hiringhall.storage.postgres.membership import Member

LOOK_S: Final = 0.25
"""How often a standby looks at the active hall."""
COURTESY_US: Final = 2_000_000
"""For this long a closed database is left to the member that is asked for by a switch-over, or else to any
other than the one that has handed over."""

_log = logging.getLogger("hiringhall")


class Standby:
    """One member that stands by, from `open` to `close`."""

    def __init__(
        self,
        link: MemberLink,
        member: Member,
        addresses: Sequence[Sequence[Address]],
        now_us: Callable[[], int],
        former: int = 0,
    ) -> None:
        """`former`: the incarnation as which this process was active until now; 0: it was not."""
        self._link = link
        self._member = member
        self._addresses = addresses
        """Of each door."""
        self._now_us = now_us
        self._former = former
        self._doors: list[PassDoor] = []
        self._suspicion = Suspicion()
        self._targets: list[list[tuple[str, int]]] = []
        """Where the active hall listens, door by door."""
        self._followed: tuple[int, str] | None = None
        """The incarnation that connections are passed on to, and its addresses."""
        self._incarnation = 0
        """Of this member; 0: it has not joined yet."""
        self._closed_us = 0
        """Since when the database is closed; 0: it is open."""
        self._trouble = ""

    async def open(self) -> list[list[tuple[str, int]]]:
        """Open the doors; the addresses that were bound. Raises OSError."""
        bound: list[list[tuple[str, int]]] = []
        for index, addresses in enumerate(self._addresses):
            bound.append([])
            for place, address in enumerate(addresses):
                if address.path:
                    bound[-1].append(("", 0))  # a file of this machine, which only an active hall serves
                    continue
                door = PassDoor(partial(self._target, index, place, exposed=not address.is_loopback))
                self._doors.append(door)
                bound[-1].append(await door.open(address.host, address.port))
        return bound

    async def wait(self) -> int:
        """Watch until this member is to take over: the incarnation that it replaces."""
        while True:
            try:
                standing = await self._look()
            except StoreError as error:
                self._suspicion.missed()
                if not self._trouble:
                    _log.warning("the database does not answer; nobody takes over: %s", error)
                self._trouble = str(error)
            else:
                self._trouble = ""
                self._follow(standing)
                if self._is_due(standing):
                    return standing.incarnation
            await asyncio.sleep(LOOK_S)

    async def close(self) -> None:
        """Close the doors and every connection that is passed on."""
        await asyncio.gather(*(door.close() for door in self._doors))

    async def _look(self) -> Standing:
        if not self._incarnation:
            self._incarnation = await self._link.join(self._member)
        return await self._link.beat(self._incarnation)

    def _is_due(self, standing: Standing) -> bool:
        now_us = self._now_us()
        silent = self._suspicion.answered(now_us, standing.incarnation, standing.beat)
        if standing.open:
            self._closed_us = 0
            if silent:
                _log.warning("hall %s has been silent for too long", standing.name or standing.incarnation)
            return silent
        self._closed_us = self._closed_us or now_us
        wish = standing.wish
        for_another = wish.name not in ("", self._member.name) or standing.incarnation == self._former
        courteous = wish.instead_of == standing.incarnation and for_another
        return not courteous or now_us - self._closed_us >= COURTESY_US

    def _follow(self, standing: Standing) -> None:
        """Pass connections on to the hall that is active now. Those to an earlier one are closed."""
        followed = standing.incarnation, standing.address
        if followed == self._followed:
            return
        self._followed = followed
        self._targets = read_addresses(standing.address)
        for door in self._doors:
            door.drop()
        if self._targets:
            _log.info("standing by for hall %s", standing.name)

    def _target(self, index: int, place: int, *, exposed: bool) -> tuple[str, int] | None:
        """Where the active hall has this door. `exposed`: other machines reach this one."""
        try:
            host, port = self._targets[index][place]
        except IndexError:
            return None
        if exposed and Address(f"{host}:{port}").is_loopback:
            # There the active hall would take a client from anywhere for one on its own machine.
            _log.warning("a connection is refused: the active hall is at %s, on loopback", host)
            return None
        return (host, port) if port else None


def write_addresses(doors: Sequence[Sequence[tuple[str, int]]]) -> str:
    """Where a hall listens, as the database keeps it."""
    return json.dumps(doors)


def read_addresses(text: str) -> list[list[tuple[str, int]]]:
    """What `write_addresses` wrote; empty if it was something else."""
    try:
        return [[(str(host), int(port)) for host, port in door] for door in json.loads(text)]
    except (ValueError, TypeError):
        return []
