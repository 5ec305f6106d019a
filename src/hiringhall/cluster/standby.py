"""A hall that stands by: it watches the active one, passes connections on to it, and says when to take over.

Invariant: it takes over only when its `Succession` says so.
"""

from __future__ import annotations

import asyncio
import json
import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from hiringhall.cluster.passing import PassDoor
from hiringhall.cluster.succession import Succession
from hiringhall.config.quantities import Address
from hiringhall.storage.contract import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hiringhall.cluster.reading_ahead import ReadingAhead
    from hiringhall.storage.postgres.members import MemberLink, MemberState, Standing
    from hiringhall.storage.postgres.membership import Member, Predecessor

LOOK_S: Final = 0.25
"""How often a standby looks at the active hall."""
CLOSE_LOOK_S: Final = 0.05
"""The same, when it has been silent for a while."""
READER_US: Final = 4_000_000
"""For this long a silent hall is left to the member that reads the jobs ahead."""
NAMESAKE_US: Final = 1_500_000
"""A member of the same name that does not beat in this time is gone."""

_log = logging.getLogger("hiringhall")


class NameTaken(Exception):
    """Another process is a member under the name of this one."""


class Standby:
    """One member that stands by, from `open` to `close`."""

    def __init__(
        self,
        link: MemberLink,
        member: Member,
        addresses: Sequence[Sequence[Address]],
        now_us: Callable[[], int],
        ahead: ReadingAhead,
        former: int = 0,
    ) -> None:
        """`former`: the incarnation as which this process was active until now; 0: it was not."""
        self._link = link
        self._member = member
        self._addresses = addresses
        """Of each door."""
        self._now_us = now_us
        self._ahead = ahead
        self._doors: list[PassDoor] = []
        self._succession = Succession(member.name, former)
        self._targets: list[list[tuple[str, int]]] = []
        """Where the active hall listens, door by door."""
        self._followed: tuple[int, str] | None = None
        """The incarnation that connections are passed on to, and its addresses."""
        self._incarnation = 0
        """Of this member; 0: it has not joined yet."""
        self._namesake: tuple[int, int] | None = None
        """Incarnation and beat of the member that has, or had, the same name."""
        self._namesake_us = 0
        """Since when it is watched."""
        self._due_us = 0
        """Since when this member is to take over, while another one has read the jobs; 0: it is not."""
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

    async def wait(self) -> Predecessor:
        """Watch until this member is to take over: the hall that it replaces. Raises NameTaken."""
        while True:
            try:
                standing = await self._look()
            except StoreError as error:
                self._succession.missed()
                if not self._trouble:
                    _log.warning("the database does not answer; nobody takes over: %s", error)
                self._trouble = str(error)
            else:
                self._trouble = ""
                self._follow(standing)
                now_us = self._now_us()
                succeeds = self._succession.answered(now_us, standing)
                self._ahead.answered(now_us, standing.incarnation, doubts=self._succession.doubts)
                if self._leaves_it_to_another(now_us, standing, succeeds=succeeds):
                    succeeds = False
                if succeeds and (self._incarnation or self._was_active(standing)):
                    if standing.open:
                        _log.warning(
                            "hall %s has been silent for too long", standing.name or standing.incarnation
                        )
                    return self._succession.predecessor(standing)
            await self._link.pause(CLOSE_LOOK_S if self._succession.doubts else LOOK_S)

    def _leaves_it_to_another(self, now_us: int, standing: Standing, *, succeeds: bool) -> bool:
        """Whether another member may take over first, because it serves sooner."""
        if not (succeeds and standing.open and self._ahead.another_reads):
            self._due_us = 0
            return False
        self._due_us = self._due_us or now_us
        return now_us - self._due_us < READER_US

    async def close(self) -> None:
        """Close the doors and every connection that is passed on."""
        await asyncio.gather(*(door.close() for door in self._doors))

    async def _look(self) -> Standing:
        if not self._incarnation:
            free, standing = await self._name_is_free(), await self._link.look()
            # Whoever joins takes the place of the one that had its name. As long as that is the active hall,
            # its beats stay, so that the others see for how long it has been silent.
            if not free or (standing.open and self._was_active(standing)):
                return standing
            self._incarnation = await self._link.join(self._member)
        standing = await self._link.beat(self._incarnation)
        if not standing.counted:
            await self._left()
        return standing

    async def _left(self) -> None:
        """The database does not know this member any more: because of a later process with its name, or because
        the server has lost that it joined, in a crash or a fail-over. Then it joins again. Raises NameTaken.
        """
        namesake = await self._find_namesake()
        if namesake is not None and namesake.incarnation > self._incarnation:
            raise self._name_is_taken()
        self._incarnation, self._namesake = 0, None

    def _was_active(self, standing: Standing) -> bool:
        """An earlier process of this member is still named as the active hall."""
        return standing.name == self._member.name

    async def _name_is_free(self) -> bool:
        """Whether no other process beats under this name. It takes a while to see that."""
        found = await self._find_namesake()
        if found is None:
            return True
        namesake = found.incarnation, found.beat
        if self._namesake is None:
            self._namesake, self._namesake_us = namesake, self._now_us()
        if namesake != self._namesake:
            raise self._name_is_taken()
        return self._now_us() - self._namesake_us >= NAMESAKE_US

    async def _find_namesake(self) -> MemberState | None:
        """The member with this name, as the database knows it."""
        found = [member for member in await self._link.members() if member.name == self._member.name]
        return found[0] if found else None

    def _name_is_taken(self) -> NameTaken:
        return NameTaken(
            f"another process is a member of this database as {self._member.name}:"
            " stop it, or give this hall another name, in hall.name"
        )

    def _follow(self, standing: Standing) -> None:
        """Pass connections on to the hall that is active now. Those to an earlier one are closed."""
        followed = standing.incarnation, standing.address
        if followed == self._followed:
            return
        self._followed = followed
        # An earlier process of this member listened where this one does now: it would pass on to itself.
        self._targets = [] if self._was_active(standing) else read_addresses(standing.address)
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
