"""The sessions of browsers that have logged in with a token.

Invariant: a session is known by a random id of 256 bits, ends after 12 hours, and is kept in memory only. Their
number is bounded: the oldest makes room.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

SESSION_S: Final = 12 * 3600
SESSIONS_MAX: Final = 10_000


@dataclass(frozen=True)
class Actor:
    """Who makes a request. The hall has confirmed name and role."""

    name: str
    role: str
    """viewer, operator or admin."""
    token: str
    """The token that it showed; empty: none, it is on this machine."""


class Sessions:
    """The open sessions of one web process. With TLS a cookie is sent over TLS only."""

    def __init__(
        self, *, tls: bool, sessions_max: int = SESSIONS_MAX, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tls = tls
        self._max = sessions_max
        self._clock = clock
        self._open: dict[str, tuple[Actor, float]] = {}
        """Actor and end of each session, in the order of their ends."""

    @property
    def cookie(self) -> str:
        """The name of the cookie. With the prefix, a browser takes it from this host and over TLS only."""
        return "__Host-hall_session" if self._tls else "hall_session"

    def __len__(self) -> int:
        return len(self._open)

    def open(self, actor: Actor) -> str:
        """Begin a session. Returns the value of the Set-Cookie field."""
        self._sweep()
        while len(self._open) >= self._max:
            del self._open[next(iter(self._open))]
        session_id = secrets.token_urlsafe(32)
        self._open[session_id] = actor, self._clock() + SESSION_S
        return self._set_cookie(session_id, SESSION_S)

    def find(self, cookies: str) -> Actor | None:
        """The actor of the session in a Cookie field; None: it names none that is open."""
        session_id = self._read(cookies)
        actor, ends_s = self._open.get(session_id, (None, 0.0))
        if actor is None or ends_s <= self._clock():
            self._open.pop(session_id, None)
            return None
        return actor

    def close(self, cookies: str) -> str:
        """End the session in a Cookie field. Returns the value of the Set-Cookie field that removes it."""
        self._open.pop(self._read(cookies), None)
        return self._set_cookie("", 0)

    def close_token(self, token: str) -> None:
        """The hall no longer takes a token: end the sessions that began with it."""
        for session_id, (actor, _) in list(self._open.items()):
            if actor.token == token:
                del self._open[session_id]

    def _sweep(self) -> None:
        """Forget sessions that are over."""
        now_s = self._clock()
        for session_id, (_, ends_s) in list(self._open.items()):
            if ends_s > now_s:
                return
            del self._open[session_id]

    def _read(self, cookies: str) -> str:
        """The session id in a Cookie field; empty: there is none."""
        for cookie in cookies.split(";"):
            name, _, value = cookie.strip().partition("=")
            if name == self.cookie:
                return value
        return ""

    def _set_cookie(self, session_id: str, age_s: int) -> str:
        secure = "; Secure" if self._tls else ""
        return f"{self.cookie}={session_id}; Max-Age={age_s}; Path=/; HttpOnly; SameSite=Strict{secure}"
