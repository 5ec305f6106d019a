"""The gate of a running hall: whose token it is, and what becomes of a peer whose token ends.

Invariant: the loop never waits for the list of tokens. A change of the list holds within two seconds, also for
connections that are open. A list that becomes unreadable changes nothing but the log.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from hiringhall.access.attempts import Attempts
from hiringhall.access.tokens import Token, TokensError, digest_of
from hiringhall.core.errors import Refusal
from hiringhall.dialects.hall import TOKENS_OFF, TOKENS_REQUIRED, Actor
from hiringhall.dialects.native.roles import ADMIN, ROLES, WITHOUT_TOKEN
from hiringhall.dialects.session import UNIX

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from concurrent.futures import Future

    from hiringhall.access.tokens import TokenList
    from hiringhall.dialects.hall import Visitor
    from hiringhall.dialects.session import Caller
    from hiringhall.storage.documents import Stamp

UNAUTHORIZED: Final = "unauthorized"
CHECK_S: Final = 1.0
"""How often the list is looked at, and expiries are."""
USES_S: Final = 60.0
"""How often the last uses are written, at most."""
TOKEN_BYTES_MAX: Final = 200
_LOCAL, _ANONYMOUS = WITHOUT_TOKEN

_log = logging.getLogger("hiringhall")


class Gate:
    """Decides who comes in by the native doors. `inside` runs an action inside a turn of the hall."""

    def __init__(
        self,
        known: TokenList | None,
        loop: asyncio.AbstractEventLoop,
        inside: Callable[[Callable[[], None]], None],
    ) -> None:
        self._list = known
        """None: a hall in memory has no tokens."""
        self._loop = loop
        self._inside = inside
        self._tokens: dict[str, Token] | None = None
        """By digest; None: there was never a list."""
        self._stamp: Stamp | None = None
        """Of the list that was read last. Used by the thread."""
        self._unreachable = False
        """The list could not be looked at the last time. Used by the thread."""
        self._visitors: dict[str, dict[Visitor, None]] = {}
        """Open connections of each token, by digest."""
        self._uses: dict[str, datetime] = {}
        """Those that are not written yet."""
        self._written_s = 0.0
        self._attempts = Attempts()
        self._thread = ThreadPoolExecutor(1, "hall-tokens")
        """Has no thread until there is something to do."""
        self._look: Future[None] | None = None
        """The latest look at the list."""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def has_tokens(self) -> bool:
        """Whether somebody can show a token."""
        now = datetime.now(UTC)
        return any(not token.has_expired(now) for token in (self._tokens or {}).values())

    # --- peers, inside a turn

    def admit(self, visitor: Visitor, caller: Caller, token: str | None, rule: str) -> Actor:
        """Who a peer is. Raises Refusal."""
        if rule == TOKENS_OFF or token is None:
            return self._without_token(caller, rule)
        if len(token) > TOKEN_BYTES_MAX:
            raise Refusal(UNAUTHORIZED, "this is not a token: it is too long")
        digest = digest_of(token)
        known = self._tokens.get(digest) if self._tokens is not None else None
        if known is None:
            raise Refusal(UNAUTHORIZED, "the token is wrong, or was revoked; make one with `hall token add`")
        now = datetime.now(UTC)
        if known.has_expired(now):
            raise Refusal(UNAUTHORIZED, f'the token "{known.name}" has expired; make one with `hall token add`')
        self._visitors.setdefault(digest, {})[visitor] = None
        self._uses[digest] = now
        return Actor(known.name, ROLES.index(known.role) + 1, digest)

    def _without_token(self, caller: Caller, rule: str) -> Actor:
        local = caller.is_loopback
        required = rule == TOKENS_REQUIRED or (rule != TOKENS_OFF and not local and self._tokens is not None)
        # The file of a Unix socket says who can reach it.
        if required and caller.address != UNIX:
            raise Refusal(UNAUTHORIZED, "a token is needed here: set HALL_TOKEN; `hall token add` makes one")
        return Actor(_LOCAL if local else _ANONYMOUS, ADMIN, "")

    def turned_away(self, caller: Caller, tell: Callable[[], None]) -> None:
        """A peer was refused: tell it so, later if there were many. `tell` is called inside a turn."""
        delay_s = self._attempts.failed(caller.address, self._loop.time())
        if delay_s:
            self._loop.call_later(delay_s, self._inside, tell)
        else:
            tell()

    def left(self, visitor: Visitor, actor: Actor) -> None:
        """A connection with a token has ended."""
        visitors = self._visitors.get(actor.key)
        if visitors is not None:
            visitors.pop(visitor, None)
            if not visitors:
                del self._visitors[actor.key]

    # --- the list

    def load(self) -> None:
        """Read the tokens before the doors open. Raises TokensError."""
        if self._list is not None:
            self._stamp = self._list.stamp()
            self._take_over(self._list.read())

    def start(self) -> None:
        if self._list is not None:
            self._timer = self._loop.call_later(CHECK_S, self._check)

    def stop_taking(self) -> None:
        """Peers that come while the hall drains are checked too."""

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._note_uses()
        await self._loop.run_in_executor(None, self._thread.shutdown)

    def _check(self) -> None:
        """Once a second: has the list changed, has a token expired, are there uses to be written?"""
        self._timer = self._loop.call_later(CHECK_S, self._check)
        assert self._list is not None
        if self._look is None or self._look.done():
            self._look = self._thread.submit(self._look_for_changes, self._list)
        if self._visitors:
            self._inside(self._expel)
        if self._uses and time.monotonic() - self._written_s >= USES_S:
            self._note_uses()

    def _look_for_changes(self, known: TokenList) -> None:
        """Runs in the thread."""
        try:
            stamp = known.stamp()
        except TokensError as error:
            if not self._unreachable:
                self._unreachable = True
                self._tell(None, str(error))
            return
        self._unreachable = False
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._tell(known.read(), "")
        except TokensError as error:
            self._tell(None, str(error))

    def _tell(self, tokens: dict[str, Token] | None, trouble: str) -> None:
        """Runs in the thread."""
        self._loop.call_soon_threadsafe(self._inside, lambda: self._reread(tokens, trouble))

    def _reread(self, tokens: dict[str, Token] | None, trouble: str) -> None:
        if trouble:
            _log.error("the tokens stay as they were: %s", trouble)
        else:
            self._take_over(tokens)
            self._expel()

    def _take_over(self, tokens: dict[str, Token] | None) -> None:
        if tokens is not None:
            self._tokens = {token.digest: token for token in tokens.values()}
        elif self._tokens is not None:
            # Whoever removes the list takes all tokens back. That must not open the doors to everybody.
            self._tokens = {}

    def _expel(self) -> None:
        """End connections whose token was revoked or has expired."""
        now = datetime.now(UTC)
        tokens = self._tokens or {}
        for digest, visitors in list(self._visitors.items()):
            token = tokens.get(digest)
            text = ""
            if token is None:
                text = "the token was revoked"
            elif token.has_expired(now):
                text = f'the token "{token.name}" has expired'
            for visitor in list(visitors):
                role = ROLES.index(token.role) + 1 if token is not None else 0
                if text or visitor.actor.role != role:
                    self.left(visitor, visitor.actor)
                    visitor.expel(
                        UNAUTHORIZED, text or f'the role of the token "{visitor.actor.name}" has changed'
                    )

    def _note_uses(self) -> None:
        """Write the last uses; a token with an open connection is in use."""
        known, uses = self._list, self._uses
        if known is None or not uses:
            return
        self._written_s = time.monotonic()
        now = datetime.now(UTC)
        self._uses = dict.fromkeys(self._visitors, now)
        written = uses | self._uses

        def write() -> None:
            try:
                known.note_uses(written)
            except TokensError as error:
                _log.warning("the last uses of tokens are not written: %s", error)

        self._thread.submit(write)
