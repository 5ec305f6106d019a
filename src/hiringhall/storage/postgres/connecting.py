"""The connection to PostgreSQL: opened by URL, used by one thread at a time.

Invariant: no transaction is open between two calls. A connection that failed is closed before the next one is
opened, so at most one backend acts for a store.
"""

from __future__ import annotations

import asyncio
import select
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, TypeVar

import uvloop

from hiringhall.storage.contract import StoreError
from hiringhall.storage.places import shown
from hiringhall.storage.postgres.faults import DISPLACED, POOLED, explain

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine, Mapping, Sequence

SCHEMA: Final = "hiringhall"
"""The schema of all tables, so that a database can serve other programs too."""
VERSION_MIN: Final = 14
CONNECT_S: Final = 5.0
ANSWER_S: Final = 30.0
"""If a statement takes longer than this, the connection is closed: the server hangs, or the network lost it."""
SILENCE_S: Final = 10
"""After this time without an acknowledgement by the other side, either side closes the connection."""

_T = TypeVar("_T")
Record = Any
"""A row as asyncpg returns it: a tuple that also knows the names of its columns."""
Connection = Any
"""A connection of asyncpg, which has no types."""

_SESSION: Final = {
    "search_path": SCHEMA,
    "statement_timeout": "25s",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "10s",
    "client_connection_check_interval": "2s",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": str(SILENCE_S * 1000),
    # A plan is made once, while the tables are small, and must be right when they are large.
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
}
_SET: Final = "SELECT set_config(name, value, false) FROM unnest($1::text[], $2::text[]) AS new (name, value)"
_BACKEND: Final = "SELECT pg_backend_pid()"
_URL_FORM: Final = (
    "give postgresql://USER:PASSWORD@HOST:PORT/DATABASE;"
    " write / @ : ? # and % in a password as %2F %40 %3A %3F %23 and %25"
)
_EXTRA_MISSING: Final = (
    "the Python package asyncpg is not installed, which a hall on PostgreSQL needs:"
    " install it with pip install 'hiringhall[postgres]'"
)


class Database:
    """One connection, with an event loop that turns only during a call."""

    def __init__(self, url: str, application: str, settings: Mapping[str, str] | None = None) -> None:
        self.place = shown(url)
        self._url = url
        self._application = application
        self._more = settings or {}
        self._settings = {**_SESSION, "application_name": application, **self._more}
        self._loop = uvloop.new_event_loop()
        self._connection: Connection | None = None
        self._poll = select.poll()

    @property
    def connected(self) -> bool:
        return self._connection is not None and not self._connection.is_closed()

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Wait for a coroutine that uses the connection."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._loop.run_until_complete(work)
        # This thread has a loop that runs, as while a hall opens: two cannot run in one thread.
        with ThreadPoolExecutor(1, "hall-database") as aside:
            return aside.submit(self._loop.run_until_complete, work).result()

    async def connect(self) -> Connection:
        """Open a new connection. Raises StoreError."""
        await self.disconnect()
        connection = None
        try:
            connection = await _connect(self._url, self._settings)
            _check_version(connection, self.place)
        except StoreError:
            if connection is not None:
                connection.terminate()
            raise
        except Exception as error:
            if connection is not None:
                connection.terminate()
            raise explain(error, self.place) from error
        self._connection = connection
        self._poll = select.poll()
        self._poll.register(connection.socket_fileno, select.POLLIN)
        return connection

    async def current(self) -> Connection | None:
        """The connection, if the server has not closed it meanwhile."""
        if self._connection is not None and self._poll.poll(0):
            for _ in range(3):  # the loop has not turned since the last call: let it hear of it
                await asyncio.sleep(0)
        return self._connection if self.connected else None

    async def disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            connection.terminate()
            await asyncio.sleep(0)

    async def refuse_poolers(self) -> None:
        """Raise StoreError if the connection does not keep its backend."""
        await _refuse_shared_backends(await self._usable(), self._url)

    def reopened(self) -> Database:
        """The same, after it was closed."""
        return Database(self._url, self._application, self._more) if self._loop.is_closed() else self

    async def fetch(self, sql: str, *values: object) -> Sequence[Record]:
        """The rows of a statement. Raises StoreError; the connection is closed if its state is unknown."""
        connection = await self._usable()
        rows: Sequence[Record] = await self._answer(connection, connection.fetch(sql, *values))
        return rows

    async def execute(self, sql: str) -> None:
        """Run a statement that has no values and no rows, as BEGIN and COMMIT. Raises StoreError as `fetch`."""
        connection = await self._usable()
        await self._answer(connection, connection.execute(sql))

    async def _usable(self) -> Connection:
        connection = await self.current()
        if connection is None:
            raise StoreError(f"there is no connection to {self.place}: the hall connects again by itself")
        return connection

    async def _answer(self, connection: Connection, question: Awaitable[_T]) -> _T:
        watchdog = self._loop.call_later(ANSWER_S, connection.terminate)
        try:
            return await question
        except Exception as error:
            if not _answered(error) or getattr(error, "sqlstate", None) == DISPLACED:
                await self.disconnect()
            raise explain(error, self.place) from error
        finally:
            watchdog.cancel()

    def close(self) -> None:
        if not self._loop.is_closed():
            self.run(self.disconnect())
            self._loop.close()


async def open_connection(url: str, application: str, **settings: str) -> Connection:
    """A connection on the event loop that runs, for a few statements or for a member's beats."""
    try:
        return await _connect(url, {**_SESSION, "application_name": application, **settings})
    except StoreError:
        raise
    except Exception as error:
        raise explain(error, shown(url)) from error


def _answered(error: Exception) -> bool:
    """Whether the server, or asyncpg before it sent anything, refused the statement: then nothing of it is kept
    and the connection can be used. After any other error neither is known.
    """
    code = getattr(error, "sqlstate", None)
    if code is None:
        return isinstance(error, ValueError | TypeError)  # a value that cannot be sent
    return not code.startswith("08") and getattr(error, "severity_en", None) == "ERROR"


async def _connect(url: str, settings: Mapping[str, str]) -> Connection:
    try:
        import asyncpg  # noqa: PLC0415 (an extra: only halls on PostgreSQL need it)
    except ImportError as error:
        raise StoreError(_EXTRA_MISSING) from error

    class Guarded(asyncpg.Connection):  # type: ignore[misc]
        """Tells its socket, and closes a connection whose other side is gone."""

        def __init__(self, protocol: object, transport: asyncio.Transport, *rest: object) -> None:
            super().__init__(protocol, transport, *rest)
            own = transport.get_extra_info("socket")
            self.socket_fileno: int = own.fileno()
            if own.family in {socket.AF_INET, socket.AF_INET6}:
                own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                own.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 5)
                own.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 2)
                own.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
                own.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENCE_S * 1000)

    try:
        connection = await asyncpg.connect(
            url, timeout=CONNECT_S, connection_class=Guarded, max_cached_statement_lifetime=0
        )
    except asyncpg.ClientConfigurationError as error:
        raise StoreError(f"{shown(url)} cannot be used: {error}") from error
    except ValueError as error:
        if isinstance(error, OSError):  # of TLS
            raise
        # Without the message of the error, which may contain a part of the password.
        raise StoreError(f"{shown(url)} is not a URL of a database: {_URL_FORM}") from error
    try:
        # Not with the first packet: poolers refuse settings there that they do not know.
        await connection.fetch(_SET, list(settings), list(settings.values()), timeout=CONNECT_S)
    except BaseException:
        connection.terminate()
        raise
    return connection


def _check_version(connection: Connection, place: str) -> None:
    version = connection.get_server_version()
    if version.major < VERSION_MIN:
        raise StoreError(f"{place} is PostgreSQL {version.major}: the store needs {VERSION_MIN} or later")


async def _refuse_shared_backends(connection: Connection, url: str) -> None:
    """Raise StoreError if this is a pooler that gives the backend of one connection to another in between. It
    is seen with a second connection: a pooler gives it the backend that has just become free.
    """
    first = await connection.fetchval(_BACKEND)
    second = await open_connection(url, "hiringhall, looking for a pooler")
    try:
        async with second.transaction():
            shared = await second.fetchval(_BACKEND)
            again = await connection.fetchval(_BACKEND)
        last = await connection.fetchval(_BACKEND)
    except Exception as error:
        if getattr(error, "sqlstate", None) in POOLED or "pooling mode" in str(error):
            raise _shared_backends(url) from error
        raise
    finally:
        second.terminate()
    if first == shared or {first} != {again, last}:
        raise _shared_backends(url)


def _shared_backends(url: str) -> StoreError:
    return StoreError(
        f"{shown(url)} is a pooler that changes the backend between two statements:"
        " give the address of PostgreSQL itself, or a pooler in session mode"
    )
