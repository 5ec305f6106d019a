"""The members of a database as they see each other: beats, who is active, and the wish for a switch-over.

Invariant: a member that beats also learns in the same statement who is active. Whoever was replaced hears of it
with its next beat. A change of the active role is announced with NOTIFY, so that the others look at once.
Nothing depends on that: they also look without it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeVar

from hiringhall.storage.contract import StoreError
from hiringhall.storage.places import shown
from hiringhall.storage.postgres.connecting import open_connection
from hiringhall.storage.postgres.faults import explain
from hiringhall.storage.postgres.membership import CHANNEL, announced, join

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from hiringhall.storage.postgres.connecting import Connection, Record
    from hiringhall.storage.postgres.membership import Member

ANSWER_S: Final = 2.0
"""A beat that takes longer has failed, and the connection is opened anew."""

_T = TypeVar("_T")
_WISH: Final = "switch-over"
_STANDING: Final = """
SELECT writer.incarnation, writer.backend <> 0 AS open, COALESCE(halls.name, '') AS name,
    COALESCE(halls.address, '') AS address, COALESCE(beats.beat, 0) AS beat,
    COALESCE((SELECT convert_from(content, 'UTF8') FROM documents WHERE name = 'switch-over'), '') AS wish
FROM writer LEFT JOIN halls ON halls.incarnation = writer.incarnation
LEFT JOIN beats ON beats.incarnation = writer.incarnation
"""
_BEATEN: Final = """
WITH beaten AS (
    INSERT INTO beats (hall, incarnation, beat)
    SELECT hall, incarnation, 1 FROM halls WHERE incarnation = $1 AND name = $2
    ON CONFLICT (hall) DO UPDATE SET incarnation = excluded.incarnation, beat = beats.beat + 1
    RETURNING beat
)
"""
_COUNTED: Final = "EXISTS (SELECT FROM beaten)"
_BEAT: Final = f"{_BEATEN} SELECT standing.*, {_COUNTED} FROM ({_STANDING}) AS standing"  # noqa: S608 (our own)
_PUBLISH: Final = announced("UPDATE halls SET address = $2 WHERE incarnation = $1")
_MEMBERS: Final = """
SELECT halls.name, halls.incarnation, halls.address, halls.version, halls.fenced, COALESCE(beats.beat, 0),
    writer.incarnation = halls.incarnation AND writer.backend <> 0
FROM halls CROSS JOIN writer LEFT JOIN beats ON beats.incarnation = halls.incarnation ORDER BY halls.name
"""
_ASK: Final = announced("""
INSERT INTO documents (name, content) VALUES ($1, convert_to($2, 'UTF8'))
ON CONFLICT (name) DO UPDATE SET content = excluded.content
""")


class Wish(NamedTuple):
    """Somebody wants another member to be active in place of an incarnation."""

    instead_of: int = 0
    name: str = ""
    """Which one; empty: any."""

    @classmethod
    def read(cls, text: str) -> Self:
        incarnation, _, name = text.partition(" ")
        return cls(int(incarnation), name) if incarnation.isdecimal() else cls()


class Standing(NamedTuple):
    """Who is active."""

    incarnation: int
    """Of the member that is active, or was the last one; 0: none ever was."""
    open: bool
    """It has not closed the database."""
    name: str
    address: str
    beat: int
    wish: Wish
    counted: bool = False
    """The beat that was answered with this counts. Not so if another process has joined under the same name, or
    if the database went back to a time before this one had joined: then nobody sees that this one lives."""


class MemberState(NamedTuple):
    """One member."""

    name: str
    incarnation: int
    address: str
    version: str
    fenced: bool
    beat: int
    active: bool


class MemberLink:
    """The connection of a member for its beats, on the event loop that runs. It connects again by itself. It is
    asked one thing at a time.
    """

    def __init__(self, url: str, name: str) -> None:
        self._url = url
        self._name = name
        self._connection: Connection | None = None
        self._one_at_a_time = asyncio.Lock()
        self._announced = asyncio.Event()
        """The active role moves, or is to move."""

    async def join(self, member: Member) -> int:
        """Become a member: the incarnation."""
        return (await self._ask(partial(join, member=member)))[1]

    async def beat(self, incarnation: int) -> Standing:
        """Show that this incarnation lives; who is active."""
        (row,) = await self._fetch(_BEAT, incarnation, self._name)
        return _standing(row)

    async def look(self) -> Standing:
        """Who is active."""
        (row,) = await self._fetch(_STANDING)
        return _standing(row)

    async def publish(self, incarnation: int, address: str) -> None:
        """Tell the others where this incarnation listens."""
        await self._fetch(_PUBLISH, incarnation, address)

    async def members(self) -> list[MemberState]:
        """Every member that there is or was, by name."""
        return [MemberState(*row) for row in await self._fetch(_MEMBERS)]

    async def ask(self, wish: Wish) -> None:
        """Ask for a switch-over."""
        await self._fetch(_ASK, _WISH, f"{wish.instead_of} {wish.name}")

    async def pause(self, seconds: float) -> None:
        """Wait for so long, or until a change of the active role is announced."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._announced.wait()
        self._announced.clear()

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    async def _connected(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            # What is told here need not survive a crash of the server, and must not wait for its replicas: a
            # member that finds it lost tells it again.
            self._connection = await open_connection(
                self._url, f"hiringhall {self._name} beats", synchronous_commit="off"
            )
            await self._connection.add_listener(CHANNEL, lambda *_: self._announced.set())
        return self._connection

    async def _fetch(self, sql: str, *values: object) -> Sequence[Record]:
        async def fetch(connection: Connection) -> Sequence[Record]:
            rows: Sequence[Record] = await connection.fetch(sql, *values)
            return rows

        return await self._ask(fetch)

    async def _ask(self, question: Callable[[Connection], Awaitable[_T]]) -> _T:
        """Ask when no other question is under way. After a failure the connection is opened anew."""
        async with self._one_at_a_time:
            try:
                async with asyncio.timeout(ANSWER_S):
                    return await question(await self._connected())
            except StoreError:
                raise
            except Exception as error:
                await self.close()
                raise explain(error, shown(self._url)) from error


def _standing(row: Record) -> Standing:
    incarnation, is_open, name, address, beat, wish, *counted = row
    return Standing(incarnation, is_open, name, address, beat, Wish.read(wish), any(counted))
