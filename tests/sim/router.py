"""A ZeroMQ door in memory, by the rules of the transport: a session for each way back to a peer.

A message that comes by a new way makes a session; one that does no work and waits for nothing may be
forgotten. When a connection is lost, all its sessions end, and what was not sent to them is next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.dialects.session import Caller, Link

from .world import SECOND

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.dialects.session import Session

    from .hall import Hall
    from .post import Line, Post
    from .taps import Tap


class Router:
    """One ROUTER of one boot, and the sessions of those who spoke to it."""

    def __init__(
        self,
        hall: Hall,
        post: Post,
        name: str,
        make_session: Callable[[Caller], Session],
        make_tap: Callable[[int, Session], Tap],
        answer_route: Callable[[list[bytes]], list[bytes] | None],
        *,
        peers_max: int,
        idle_us: int,
    ) -> None:
        self.hall = hall
        self.post = post
        self.name = name
        self.links: dict[tuple[bytes, ...], RouterLink] = {}
        self.peers_max = peers_max
        self._make_session = make_session
        self._make_tap = make_tap
        self._answer_route = answer_route
        self._idle_us = idle_us
        self._swept_us = 0

    def arrived(self, line: Line, frames: list[bytes]) -> None:
        hall = self.hall
        hall.turn()
        key = tuple(frames[:-1])
        link = self.links.get(key)
        if link is not None and link.line is not line and link.failed_us:
            self._drop(link)  # it has missed a message
            link = None
        link = link or self._welcome(key)
        if link is None:
            hall.world.note(f"{self.name} drops a message")
            return
        link.heard_us = hall.laws.now_us
        if link.line is not line:
            link.line = line
            link.tap.speaks_by(line)
        link.tap.heard(frames[-1])
        link.session.receive(frames[-1])
        link.tap.took()

    def _welcome(self, key: tuple[bytes, ...]) -> RouterLink | None:
        route = self._answer_route(list(key))
        if route is None:
            return None
        self._sweep()
        if len(self.links) >= self.peers_max:
            return None
        session = self._make_session(Caller("127.0.0.1", -1, key))
        session.prompt = True
        number = self.hall.next_number()
        link = RouterLink(self, key, route, session, self._make_tap(number, session))
        self.links[key] = link
        session.link = link
        self.hall.engine.join(session)
        self.hall.world.note(f"c{number} is {self.name} {b' '.join(key)!r}")
        return link

    def _sweep(self) -> None:
        now_us = self.hall.laws.now_us
        full = len(self.links) >= self.peers_max
        if now_us - self._swept_us < (SECOND // 10 if full else self._idle_us // 2):
            return
        self._swept_us = now_us
        silent_us = now_us if full else now_us - self._idle_us
        for link in list(self.links.values()):
            if link.heard_us < silent_us and link.session.idle:
                self._part(link)

    def lost(self, identity: bytes) -> None:
        """A connection is closed: what was not sent by it was never seen."""
        for link in [link for key, link in self.links.items() if key[0] == identity]:
            self._drop(link)

    def _drop(self, link: RouterLink) -> None:
        hall = self.hall
        hall.turn()
        hall.laws.disturbed = True
        worker = link.session.worker
        if worker is not None and link.failed_us:
            for lease in reversed(list(worker.leases.values())):
                if lease.started_us >= link.failed_us:
                    hall.scheduler.release(lease)
        link.session.undelivered()
        link.tap.undelivered()
        self._part(link)

    def end_later(self, link: RouterLink) -> None:
        """A session ends after this turn; its connection stays."""
        boot = self.hall.boot

        def end() -> None:
            if boot == self.hall.boot and self.links.get(link.key) is link:
                self._drop(link)

        self.hall.world.after(0, end)

    def _part(self, link: RouterLink) -> None:
        self.links.pop(link.key, None)
        self.hall.world.note(f"c{link.tap.number} parts")
        self.hall.laws.disconnected(link.tap)
        self.hall.engine.leave(link.session)


class RouterLink(Link):
    """The way back to one peer."""

    def __init__(
        self, router: Router, key: tuple[bytes, ...], route: list[bytes], session: Session, tap: Tap
    ) -> None:
        super().__init__()
        self.key = key
        self.session = session
        self.tap = tap
        self.heard_us = 0
        self.failed_us = 0
        """The time of the turn in which something could not be sent; 0: all could."""
        self.line: Line | None = None
        """The peer's socket that spoke last: several may have one identity."""
        self._router = router
        self._route = route

    def write(self, messages: list[bytes]) -> None:
        router = self._router
        identity, *frames = self._route
        if not router.post.reaches(router.name, identity):
            # The connection is closing: its end is reported after this turn.
            router.hall.laws.undelivered = True
            self.failed_us = self.failed_us or router.hall.laws.now_us
            return
        self.session.delivered += len(messages)
        for message in messages:
            self.tap.said(message)
            router.post.deliver(router.name, identity, [*frames, message])

    def close(self) -> None:
        self._router.end_later(self)
