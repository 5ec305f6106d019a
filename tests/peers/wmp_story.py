"""A manager's desk, and a test that plays its workers."""

from __future__ import annotations

from hiringhall.dialects.wmp import wire
from hiringhall.peers.wmp.manager_state import (
    SECOND_US,
    Chunked,
    Effect,
    Ended,
    ManagerState,
    ManagerTerms,
    Outcome,
    Post,
    Progressed,
    Ticket,
)

LEASE_US = 30 * SECOND_US
WAKE_US = SECOND_US // 2
STEP_US = SECOND_US // 200
Header = tuple[bytes, bytes]


class Story:
    """A desk, and a test that plays its workers; a worker's path is written "w" or "d/w"."""

    def __init__(self, losses_max: int = 0, jobs_max: int = 100, readys_max: int = 100) -> None:
        self.now_us = 0
        terms = ManagerTerms(losses_max=losses_max, jobs_max=jobs_max, readys_max=readys_max)
        self.desk = ManagerState(b"M", b"L", terms)
        self.posts: list[Post] = []
        self.ends: list[tuple[bytes, Outcome]] = []
        self.news: list[Progressed | Chunked] = []

    def do(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Post):
                self.posts.append(effect)
            elif isinstance(effect, Ended):
                self.ends.append((effect.ticket.id, effect.outcome))
            else:
                self.news.append(effect)
        self.desk.audit()

    def hear(self, path: str, command: bytes, *headers: Header, payload: bytes = b"") -> None:
        identity, *come = path.encode().split(b"/")
        body = wire.encode_body(command, list(headers), payload)
        self.do(self.desk.received([identity, *wire.join_frames([], come, body)], self.now_us))

    def ready(self, path: str, *roles: bytes) -> None:
        self.hear(path, wire.READY, *((b"role", role) for role in roles or (b"r",)))

    def give(self, path: str, role: bytes = b"r") -> None:
        self.hear(path, wire.GIVE, (b"role", role))

    def done(self, path: str, job: bytes, *headers: Header, payload: bytes = b"") -> None:
        self.hear(path, wire.DONE, (b"manager", b"M"), (b"job", job), *headers, payload=payload)

    def status(self, path: str, job: bytes, *headers: Header, payload: bytes = b"") -> None:
        self.hear(path, wire.STATUS, (b"manager", b"M"), (b"job", job), *headers, payload=payload)

    def submit(self, role: bytes = b"r") -> Ticket:
        ticket, effects = self.desk.submit(role, b"pay", b"", self.now_us)
        self.do(effects)
        return ticket

    def pass_to(self, at_us: int) -> None:
        """Time passes; the desk is called whenever it has something to do."""
        while (due_us := self.desk.next_deadline()) is not None and self.now_us < due_us < at_us:
            self.now_us = due_us
            self.do(self.desk.tick(due_us))
        self.now_us = at_us
        self.do(self.desk.tick(at_us))

    def hush(self) -> list[str]:
        """What was said since the last time."""
        lines = [shown(post) for post in self.posts]
        self.posts.clear()
        return lines


def shown(post: Post) -> str:
    """As in d/w TAKE job=L-1 role=r lease=30 | payload; the path first."""
    parts = wire.split_frames(post.frames)
    assert parts is not None
    to, come, body = parts
    assert (tuple(to), come) == (post.path, [])
    message = wire.parse_body(body)
    assert message.first(b"manager") == b"M", "every message of a manager says whose it is"
    words = [
        b"/".join(to),
        message.command,
        *(b"=".join(pair) for pair in message.headers if pair[0] != b"manager"),
    ]
    return b" ".join(words).decode() + (f" | {message.payload.decode()}" if message.payload else "")


TAKE_1 = "TAKE job=L-1 role=r lease=30 | pay"
