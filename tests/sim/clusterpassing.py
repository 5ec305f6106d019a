"""The door of a standby: it passes bytes on to the active hall, as `cluster.passing.PassDoor` does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .clusterlaws import MuteTap
from .network import Connection

if TYPE_CHECKING:
    from .clustermember import Member


class Relay:
    """One connection that is passed on: a hall towards the client, an actor towards the active hall."""

    def __init__(self, member: Member, actor: Any) -> None:
        cluster = member.cluster
        self.name = f"{actor.name} by {member.name}"
        self._member = member
        self._inner: Connection | None = None
        this: Any = self
        tap: Any = MuteTap()
        session: Any = None
        self.outer = Connection(
            cluster.next_number(), cluster.world, cluster.weather, this, actor, session, tap
        )

    def onward(self, connection: Connection) -> None:
        """The connection to the active hall is there."""
        self._inner = connection

    def drop(self) -> None:
        """Close both, as when the active hall is another one now."""
        if self._inner is not None:
            self._inner.drop()
        self.outer.shut()

    # --- towards the client

    def arrived(self, connection: Connection, data: bytes) -> None:
        inner = self._inner
        if inner is not None:
            self._member.after_real(0, lambda: inner.send(data))

    def disconnected(self, connection: Connection) -> None:
        """One of both is gone: so is the other."""
        if connection is self._inner:
            self.outer.shut()
        elif self._inner is not None:
            self._inner.close()

    # --- towards the active hall

    def heard(self, connection: Connection, data: bytes) -> None:
        self._member.after_real(0, lambda: self.outer.write(data))
