"""The hall as the web sees it: one native connection for each actor, and answers that are shared.

Invariant: the same question within `SHARED_S` is asked once, whoever asks it, and a change makes the next
question a new one. Nothing waits for a hall that is away for longer than `AWAY_S`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hiringhall.access.attempts import Attempts
from hiringhall.dialects.native import wire
from hiringhall.dialects.native.roles import WITHOUT_TOKEN
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
CHECKS_EACH_MAX: Final = 8
"""Of these, asked for by one address: whoever guesses tokens keeps nobody else from logging in."""
TURNED_AWAY_S: Final = 10.0
"""How long the hall is not asked again after it wanted a token that there is not."""
ACTORS_MAX: Final = 1001
"""Connections of different actors: as many as a hall has tokens, and one for those without."""
CHANGING_MAX: Final = 200
"""Connections for changes; the one that was not used for the longest time is closed."""

_log = logging.getLogger("hiringhall")
_encode: Final = msgspec.msgpack.Encoder().encode


class HallClient:
    """The hall for one actor."""

    def __init__(
        self, connection: Connection, shared: Shared, changing: Callable[[], Connection] | None = None
    ) -> None:
        self.connection = connection
        self._shared = shared
        self._changing = changing
        """The connection for changes, which says where the actor is; None: there is only one."""

    async def ask(self, kind: str, body: Any = None) -> Any:
        """The hall's answer. Raises HallRefused or HallUnreachable."""
        return await _ask(self.connection, kind, body)

    async def shared(self, kind: str, body: Any = None) -> Any:
        """As `ask`; an answer of the last second will do."""
        key = kind.encode() + _encode(body)
        return await self._shared.get(key, lambda: self.ask(kind, body))

    async def change(self, kind: str, body: Any = None) -> Any:
        """As `ask`, for a request that changes something: what was answered before is forgotten."""
        try:
            return await _ask(self._changing() if self._changing is not None else self.connection, kind, body)
        finally:
            self._shared.clear()


async def _ask(connection: Connection, kind: str, body: Any) -> Any:
    limit_s = ANSWER_S if connection.connected else AWAY_S
    try:
        async with asyncio.timeout(limit_s):
            return await connection.request(kind, body)
    except TimeoutError:
        if connection.connected:
            raise HallUnreachable(f"the hall has not answered within {limit_s:g} s") from None
        raise HallUnreachable(unreachable(connection.addresses, [])) from None


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
        self._checking: Counter[str] = Counter()
        """How many of them each address has shown."""
        self._actors: dict[str, Actor] = {}
        """Whose token it is, of those with a connection."""
        self._attempts = Attempts()
        self._turned_away = ""
        """What the hall said to this process when it came without a token."""
        self._turned_away_until_s = 0.0
        self._connections: OrderedDict[Actor, Connection] = OrderedDict()
        self._changing: OrderedDict[tuple[Actor, str], Connection] = OrderedDict()
        """By actor and address."""
        self._shared = Shared()
        self._closing: set[asyncio.Task[None]] = set()

    def of(self, actor: Actor, address: str = "") -> HallClient:
        """The client of an actor, who is at an address. Connects with its first request. Raises HallRefused if
        the hall has just said that it wants a token, and the actor has none.
        """
        if not actor.token and asyncio.get_running_loop().time() < self._turned_away_until_s:
            raise HallRefused("unauthorized", self._turned_away)
        connection = self._connections.get(actor)
        if connection is None:
            connection = self._connections[actor] = self._connect(actor)
            if len(self._connections) > ACTORS_MAX:
                # Nothing would tell of the end of its token any more.
                self._refused(next(iter(self._connections)))
        self._connections.move_to_end(actor)
        return HallClient(
            connection, self._shared, (lambda: self._change_from(actor, address)) if address else None
        )

    def knows(self, actor: Actor) -> bool:
        """Whether an actor may still come in, as far as the hall has said."""
        return not actor.token or self._actors.get(actor.token) == actor

    def _change_from(self, actor: Actor, address: str) -> Connection:
        """The connection for changes that an actor makes from an address: the audit log has it."""
        key = actor, address
        connection = self._changing.get(key)
        if connection is None:
            connection = self._changing[key] = self._connect(actor, address)
            if len(self._changing) > CHANGING_MAX:
                self._close_later(self._changing.popitem(last=False)[1])
        self._changing.move_to_end(key)
        return connection

    def _drop(self, actor: Actor) -> None:
        """Close the connections of an actor."""
        self._actors.pop(actor.token, None)
        connection = self._connections.pop(actor, None)
        if connection is not None:
            self._close_later(connection)
        for key in [key for key in self._changing if key[0] == actor]:
            self._close_later(self._changing.pop(key))

    def _close_later(self, connection: Connection) -> None:
        task = asyncio.ensure_future(connection.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _refused(self, actor: Actor, text: str = "") -> None:
        """The hall no longer takes the token of an actor, or wants one."""
        self._drop(actor)
        if actor.token:
            self._token_ended(actor.token)
        else:
            self._turned_away = text
            self._turned_away_until_s = asyncio.get_running_loop().time() + TURNED_AWAY_S

    def _connect(self, actor: Actor, address: str = "") -> Connection:
        # It tries for ever to connect: requests have limits of their own.
        # Who comes without a token has that of the web process, if it was given one in HALL_TOKEN.
        connection = Connection(
            self.addresses,
            name=f"web for {actor.name}",
            patience_s=None,
            token=actor.token or None,
            person="" if actor.token else actor.name,
            address=address,
        )
        connection.on_refused.append(lambda refused: self._refused(actor, refused.text))
        connection.on_disconnected.append(lambda _: self._shared.clear())
        return connection

    async def check_token(self, token: str, address: str) -> Actor:
        """Ask the hall whose token it is; `address` is who shows it. Raises Problem.

        The connection on which the hall was asked becomes the actor's. While it is open the token holds: the
        hall closes it when the token ends.
        """
        actor = self._actors.get(token)
        if actor is not None and actor in self._connections and self._connections[actor].connected:
            return actor
        check = self._checks.get(token)
        if check is None:
            if len(self._checks) >= CHECKS_MAX or self._checking[address] >= CHECKS_EACH_MAX:
                raise Problem("busy", "many tokens are being checked; try again in a moment")
            check = self._checks[token] = asyncio.create_task(self._ask_about(token))
            self._checking[address] += 1
            check.add_done_callback(lambda _: self._checked(token, address))
        try:
            return await asyncio.shield(check)
        except HallRefused as error:
            await asyncio.sleep(self._attempts.failed(address, asyncio.get_running_loop().time()))
            raise Problem("unauthorized", error.text) from error
        except (HallError, TimeoutError) as error:
            text = str(error) or f"the hall has not answered within {CHECK_S:g} s"
            raise Problem("hall_unreachable", text) from error

    def _checked(self, token: str, address: str) -> None:
        del self._checks[token]
        self._checking[address] -= 1
        if not self._checking[address]:
            del self._checking[address]

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
        if welcome.actor in WITHOUT_TOKEN:
            # It takes the web process for a peer that needs no token, whatever token that shows.
            self._close_later(connection)
            text = 'the hall checks no tokens at the native door that the web uses: remove tokens = "off" there'
            raise HallRefused("unauthorized", text)
        actor = Actor(welcome.actor, welcome.role, token)
        self._drop(actor)
        connection.on_refused[:] = [lambda _: self._refused(actor)]
        self._connections[actor] = connection
        self._actors[token] = actor
        self.of(actor)
        return actor

    async def close(self) -> None:
        connections = [*self._connections.values(), *self._changing.values()]
        self._connections.clear()
        self._changing.clear()
        for connection in connections:
            with contextlib.suppress(OSError):
                await connection.close()
