"""The hall as the web sees it: one native connection for each actor, and answers that are shared.

Invariant: the same question within `SHARED_S` is asked once, whoever asks it, and a change makes the next
question a new one. Nothing waits for a hall that is away for longer than `AWAY_S`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hiringhall.access.attempts import Attempts
from hiringhall.dialects.native import wire
from hiringhall.sdk.addresses import read_addresses
from hiringhall.sdk.connection import Connection, unreachable
from hiringhall.sdk.errors import HallError, HallRefused, HallUnreachable
from hiringhall.web.problems import Problem
from hiringhall.web.sessions import Actor

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

SHARED_S: Final = 1.0
"""How long an answer is given to others who ask the same."""
SHARED_MAX: Final = 512
"""Answers that are kept."""
AWAY_S: Final = 2.0
"""How long a request waits for a hall that is not connected."""
ANSWER_S: Final = 30.0
"""How long a connected hall may take."""
CHECK_S: Final = 6.0
"""How long the hall may take to say whose token it is: it takes its time after many wrong ones."""
CHECKS_MAX: Final = 64
"""Tokens that the hall is asked about at once."""
ACTORS_MAX: Final = 100
"""Connections of different actors; the one that was not used for the longest time is closed."""

_log = logging.getLogger("hiringhall")
_encode: Final = msgspec.msgpack.Encoder().encode


class HallClient:
    """The hall for one actor."""

    def __init__(self, connection: Connection, shared: Shared) -> None:
        self.connection = connection
        self._shared = shared

    async def ask(self, kind: str, body: Any = None) -> Any:
        """The hall's answer. Raises HallRefused or HallUnreachable."""
        limit_s = ANSWER_S if self.connection.connected else AWAY_S
        try:
            async with asyncio.timeout(limit_s):
                return await self.connection.request(kind, body)
        except TimeoutError:
            if self.connection.connected:
                raise HallUnreachable(f"the hall has not answered within {limit_s:g} s") from None
            raise HallUnreachable(unreachable(self.connection.addresses, [])) from None

    async def shared(self, kind: str, body: Any = None) -> Any:
        """As `ask`; an answer of the last second will do."""
        key = kind.encode() + _encode(body)
        return await self._shared.get(key, lambda: self.ask(kind, body))

    async def change(self, kind: str, body: Any = None) -> Any:
        """As `ask`, for a request that changes something: what was answered before is forgotten."""
        try:
            return await self.ask(kind, body)
        finally:
            self._shared.clear()


class Shared:
    """Answers that several may have. A question that is under way is not asked a second time."""

    def __init__(self) -> None:
        self._answers: OrderedDict[bytes, tuple[float, asyncio.Future[Any]]] = OrderedDict()

    async def get(self, key: bytes, ask: Callable[[], Awaitable[Any]]) -> Any:
        """The answer to `key`, which `ask` finds out."""
        now_s = asyncio.get_running_loop().time()
        known = self._answers.get(key)
        if known is not None and now_s - known[0] < SHARED_S:
            return await asyncio.shield(known[1])
        asked = asyncio.ensure_future(ask())
        self._answers[key] = now_s, asked
        self._answers.move_to_end(key)
        while len(self._answers) > SHARED_MAX:
            self._answers.popitem(last=False)
        try:
            return await asyncio.shield(asked)
        except Exception:
            # The next one asks again; and an error that nobody else reads is not reported as lost.
            if self._answers.get(key, (0.0, None))[1] is asked:
                del self._answers[key]
            raise

    def clear(self) -> None:
        """Something has changed."""
        self._answers.clear()


class HallPool:
    """The connections of the web process, one for each actor."""

    def __init__(self, url: str, token_ended: Callable[[str], None] = lambda _: None) -> None:
        self.addresses = read_addresses(url)
        self._token_ended = token_ended
        """Told of each token that the hall no longer takes."""
        self._checks: dict[str, asyncio.Task[Actor]] = {}
        """Tokens that the hall is being asked about."""
        self._actors: dict[str, Actor] = {}
        """Whose token it is, of those with a connection."""
        self._attempts = Attempts()
        self._clients: OrderedDict[Actor, HallClient] = OrderedDict()
        self._shared = Shared()
        self._closing: set[asyncio.Task[None]] = set()

    def of(self, actor: Actor) -> HallClient:
        """The client of an actor. Connects with its first request."""
        client = self._clients.get(actor)
        if client is None:
            client = self._clients[actor] = HallClient(self._connect(actor), self._shared)
            if len(self._clients) > ACTORS_MAX:
                self._drop(next(iter(self._clients)))
        self._clients.move_to_end(actor)
        return client

    def _drop(self, actor: Actor) -> None:
        """Close the connection of an actor."""
        client = self._clients.pop(actor, None)
        self._actors.pop(actor.token, None)
        if client is not None:
            self._close_later(client.connection)

    def _close_later(self, connection: Connection) -> None:
        task = asyncio.ensure_future(connection.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _refused(self, actor: Actor) -> None:
        """The hall no longer takes the token of an actor."""
        self._drop(actor)
        if actor.token:
            self._token_ended(actor.token)

    def _connect(self, actor: Actor) -> Connection:
        # It tries for ever to connect: requests have limits of their own.
        # Who comes without a token has that of the web process, if it was given one in HALL_TOKEN.
        connection = Connection(
            self.addresses,
            name=f"web for {actor.name}",
            patience_s=None,
            token=actor.token or None,
            person="" if actor.token else actor.name,
        )
        connection.on_refused.append(lambda _: self._refused(actor))
        connection.on_disconnected.append(lambda _: self._shared.clear())
        return connection

    async def check_token(self, token: str, address: str) -> Actor:
        """Ask the hall whose token it is; `address` is who shows it. Raises Problem.

        The connection on which the hall was asked becomes the actor's. While it is open the token holds: the
        hall closes it when the token ends.
        """
        actor = self._actors.get(token)
        if actor is not None and actor in self._clients and self._clients[actor].connection.connected:
            return actor
        check = self._checks.get(token)
        if check is None:
            if len(self._checks) >= CHECKS_MAX:
                raise Problem("busy", f"{CHECKS_MAX} tokens are being checked; try again in a moment")
            check = self._checks[token] = asyncio.create_task(self._ask_about(token))
            check.add_done_callback(lambda _: self._checks.pop(token, None))
        try:
            return await asyncio.shield(check)
        except HallRefused as error:
            await asyncio.sleep(self._attempts.failed(address, asyncio.get_running_loop().time()))
            raise Problem("unauthorized", error.text) from error
        except (HallError, TimeoutError) as error:
            text = str(error) or f"the hall has not answered within {CHECK_S:g} s"
            raise Problem("hall_unreachable", text) from error

    async def _ask_about(self, token: str) -> Actor:
        """Raises HallError, or TimeoutError."""
        connection = self._connect(Actor("a token", "", token))
        try:
            async with asyncio.timeout(CHECK_S):
                await connection.request(wire.BEAT, None)
        except BaseException:
            self._close_later(connection)
            raise
        welcome = connection.welcome
        assert welcome is not None
        actor = Actor(welcome.actor, welcome.role, token)
        self._drop(actor)
        connection.on_refused[:] = [lambda _: self._refused(actor)]
        self._clients[actor] = HallClient(connection, self._shared)
        self._actors[token] = actor
        self.of(actor)
        return actor

    async def close(self) -> None:
        clients = list(self._clients.values())
        self._clients.clear()
        for client in clients:
            with contextlib.suppress(OSError):
                await client.connection.close()
