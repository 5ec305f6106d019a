"""The members of a database as an operator sees them, and the switch of the active role to another one."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from hiringhall.storage.contract import StoreError
from hiringhall.storage.postgres.members import MemberLink, Wish

if TYPE_CHECKING:
    from hiringhall.storage.postgres.members import Standing

WATCHED_S: Final = 1.2
"""A member whose beat has not moved in this time is taken for gone. It beats twice as often."""
SWITCH_S: Final = 20.0
"""A switch-over that takes longer has failed."""
_LOOK_S: Final = 0.05
_JOIN_S: Final = 5.0
"""After this time, a hall that has given its role away has joined the others again."""

ACTIVE: Final = "active"
STANDBY: Final = "standby"
GONE: Final = "gone"
SILENT: Final = "silent"
_ROLES: Final = {(True, True): ACTIVE, (True, False): SILENT, (False, True): STANDBY, (False, False): GONE}
"""By whether it is active, and whether it beats."""


class ObservedMember(NamedTuple):
    """One member."""

    name: str
    role: str
    """ACTIVE; SILENT: it is active and does not beat; STANDBY; GONE."""
    incarnation: int
    version: str
    address: str
    """Where it listens while it is active, as JSON."""
    beats: int
    """By how much its beat has moved while it was watched."""


async def observe(url: str) -> list[ObservedMember]:
    """All members, after they were watched for a moment. Raises StoreError."""
    link = MemberLink(url, "operator")
    try:
        before = {member.incarnation: member.beat for member in await link.members()}
        await asyncio.sleep(WATCHED_S)
        members = await link.members()
    finally:
        await link.close()
    seen: list[ObservedMember] = []
    for member in members:
        beats = member.beat - before.get(member.incarnation, 0)
        role = _ROLES[member.active, beats > 0]
        seen.append(
            ObservedMember(member.name, role, member.incarnation, member.version, member.address, beats)
        )
    return seen


async def switch_over(url: str, name: str) -> tuple[str, float]:
    """Move the active role to a member, or to any if the name is empty: who is active now, and how many seconds
    it took. Raises StoreError.
    """
    standbys = await _await_standbys(url)
    chosen = [each for each in standbys if name in (each, each.partition("@")[0])] if name else [""]
    if len(chosen) != 1:
        raise StoreError(f"no hall stands by as {name}, or several do; name one of: {', '.join(standbys)}")
    link = MemberLink(url, "operator")
    try:
        before = await link.look()
        begun_s = time.monotonic()
        await link.ask(Wish(before.incarnation, chosen[0]))
        async with asyncio.timeout(SWITCH_S):
            while not _is_served(after := await link.look(), before):
                await link.pause(_LOOK_S)
    except TimeoutError:
        raise StoreError(f"hall {before.name} did not hand over within {SWITCH_S:g} s: see its log") from None
    finally:
        await link.close()
    return after.name, time.monotonic() - begun_s


async def _await_standbys(url: str) -> list[str]:
    """The names of the members that stand by. One that was active a moment ago may have to join first."""
    until_s = time.monotonic() + _JOIN_S
    while True:
        members = await observe(url)
        if not any(member.role == ACTIVE for member in members):
            raise StoreError("no hall is active: a standby takes over by itself")
        standbys = [member.name for member in members if member.role == STANDBY]
        if standbys:
            return standbys
        if time.monotonic() >= until_s:
            raise StoreError("no hall stands by: start one with hall serve --standby")


def _is_served(after: Standing, before: Standing) -> bool:
    """Another incarnation is active, and has published its doors."""
    return after.incarnation != before.incarnation and after.open and bool(after.address)
