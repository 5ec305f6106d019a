"""A provider: it announces a job, chooses among those who bid, and has it performed.

The law: `employ` returns when somebody has performed the job to its end. Whoever quits, does not come, falls
silent or is lost is dismissed, and the job announced again; when `employ` is left, nobody is hired any more.
Whatever it waits for, it listens meanwhile: it raises Left as soon as the provider has left.
"""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID, uuid4

from hiringhall.dialects.hire.wire import (
    ANNOUNCE,
    AVAIL,
    DISMISS,
    HIRE,
    PERFORM,
    PERFORMING,
    QUIT,
    SKILL_MAX,
    START,
    TIME_US_MAX,
    BadLine,
    Line,
    read_line,
    write_line,
)
from hiringhall.peers.hire.errors import Left
from hiringhall.peers.hire.hire_peer import HirePeer, decoded, encoded
from hiringhall.peers.hire.policies import Ask, Bid, Policy, soonest

if TYPE_CHECKING:
    from hiringhall.peers.hire.links import Security

_HEARD_MAX: Final = 10_000
"""Lines about one job that wait to be looked at."""


class Performance(NamedTuple):
    """How a job went."""

    job: str
    type: str
    worker: UUID
    skill: int
    announced: int
    """How often it was announced: once if all went well."""
    due_s: float
    begun_s: float
    """When its worker began, on the clock of the event loop."""
    ended_s: float

    @property
    def waited_s(self) -> float:
        """How long the provider waited for its worker."""
        return self.begun_s - self.due_s


class _Gone(Exception):
    """The worker does not do it, and need not be told so."""


class _Post:
    """A job that is being announced or done."""

    def __init__(self, job: str, kind: str, time_s: float, due_s: float, skill: int) -> None:
        self.id = job
        self.type = kind
        self.time_s = time_s
        self.due_s = due_s
        self.skill = skill
        self.announced = 0
        self.heard: asyncio.Queue[Line | None] = asyncio.Queue(_HEARD_MAX)
        """None: the connection was lost, or there is one again, or the provider has left."""
        self.hired: UUID | None = None


class Provider(HirePeer):
    """Has jobs done by workers who bid for them; any number at once.

        async with Provider("tcp://127.0.0.1:7430", policy=best_skill) as bakery:
            loaf = await bakery.employ("bake", time_s=30.0)
            print(loaf.worker, "kept us waiting for", loaf.waited_s)

    Bids are taken for `window_s`. A worker is expected at the time it named, `travel_s` later if it does not
    count its own way, and may be `buffer_s` late; it has `answer_s` to say PERFORMING. A job is announced
    `ahead_s` before it is due. One that nobody wants is announced again after `pause_s`, then twice that and
    so on up to `pause_max_s`.
    """

    def __init__(
        self,
        address: str,
        *,
        policy: Policy = soonest,
        window_s: float = 0.1,
        travel_s: float = 0.0,
        buffer_s: float = 5.0,
        answer_s: float = 5.0,
        ahead_s: float = 0.0,
        pause_s: float = 0.25,
        pause_max_s: float = 5.0,
        uuid: UUID | None = None,
        compact: bool = False,
        security: Security | None = None,
    ) -> None:
        super().__init__(address, uuid, compact=compact, security=security)
        self._policy = policy
        self._window_s = window_s
        self._travel_s = travel_s
        self._buffer_s = buffer_s
        self._answer_s = answer_s
        self._ahead_s = ahead_s
        self._pause_s = pause_s
        self._pause_max_s = pause_max_s
        self._posts: dict[bytes, _Post] = {}
        self._left = False

    async def employ(
        self,
        type: str,  # noqa: A002 (the protocol's word)
        time_s: float,
        *,
        due_s: float | None = None,
        skill: int = 0,
        satisfied: asyncio.Event | None = None,
        job: str = "",
    ) -> Performance:
        """Have a job done: `time_s` long, or until `satisfied`, and not before `due_s` on the loop's clock.

        `job` is its id, a new UUID if none is named. Cancelling it cancels the job: its worker is dismissed.
        Raises ValueError before anything is said if the job cannot be described, and Left.
        """
        self._check_present()
        due_s = _now_s() if due_s is None else due_s
        if not math.isfinite(due_s):
            raise ValueError("a job is due at a time on the loop's clock")
        if skill > SKILL_MAX:
            raise ValueError(f"nobody has a skill above {SKILL_MAX}")
        line = self._announcement(job or str(uuid4()), type, time_s)
        if line.job in self._posts:
            raise ValueError(f"job {job} is under way already")
        post = _Post(decoded(line.job), type, time_s, due_s, skill)
        self._posts[line.job] = post
        pause_s = self._pause_s
        try:
            while _now_s() < post.due_s - self._ahead_s:
                await self._rest(post, post.due_s - self._ahead_s)
            while True:
                chosen = await self._choose(post)
                if chosen is None:
                    await self._rest(post, _now_s() + pause_s)
                    pause_s = min(2 * pause_s, self._pause_max_s)
                    continue
                pause_s = self._pause_s
                with suppress(_Gone, TimeoutError):
                    return await self._engage(post, chosen, satisfied)
        finally:
            del self._posts[line.job]

    def _announcement(self, job: str, kind: str, time_s: float) -> Line:
        """As others will read it: what would not come through is refused, a UUID is put in lower case."""
        if not 0 <= time_s * 1_000_000 <= TIME_US_MAX:
            raise ValueError(
                f"a job takes from 0 s to {TIME_US_MAX // 1_000_000} s, a year, and not {time_s} s"
            )
        try:
            line = Line(self._speaker, ANNOUNCE, encoded(job), type=encoded(kind))
            return read_line(write_line(line, compact=self._compact))
        except BadLine as reason:
            raise ValueError(str(reason)) from reason

    # --- what others say

    def heard(self, line: Line) -> None:
        post = self._posts.get(line.job)
        if post is not None and line.verb in (AVAIL, START, PERFORMING, QUIT) and not post.heard.full():
            post.heard.put_nowait(line)

    def found(self) -> None:
        self._wake()

    def lost(self) -> None:
        self._wake()

    def leave(self) -> None:
        self._left = True
        for post in self._posts.values():
            self._dismiss(post)
        self._wake()

    def _wake(self) -> None:
        for post in self._posts.values():
            if post.heard.full():
                post.heard.get_nowait()  # no line is worth as much
            post.heard.put_nowait(None)

    # --- a job from ANNOUNCE to its end

    async def _rest(self, post: _Post, until_s: float) -> None:
        """Let time pass while nobody is hired; it ends early when the connection is lost or found."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until_s):
                while await self._listen_to(post) is not None:
                    pass

    async def _choose(self, post: _Post) -> Bid | None:
        """Announce it, and take bids while the window is open. None: nobody, or the connection was lost."""
        bids: dict[bytes, Bid] = {}
        while self._link is None:
            await self._listen_to(post)
        _forget(post)
        post.announced += 1
        self.say(ANNOUNCE, post.id, type=post.type)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._window_s):
                while True:
                    line = await self._listen_to(post)
                    if line is None:
                        return None
                    if line.verb == AVAIL and line.skill >= post.skill:
                        arrives_s = _now_s() + line.time_us / 1_000_000 + self._travel_s
                        bids[line.speaker] = Bid(UUID(bytes=line.speaker), line.skill, arrives_s)
                    elif line.verb == QUIT:
                        bids.pop(line.speaker, None)
        return self._policy(list(bids.values()), Ask(post.skill, post.due_s, _now_s())) if bids else None

    async def _engage(self, post: _Post, bid: Bid, satisfied: asyncio.Event | None) -> Performance:
        """Have it done by this worker. Raises _Gone or TimeoutError: it does not."""
        post.hired = bid.worker
        self.say(HIRE, post.id, worker=bid.worker)
        try:
            await self._expect(post, START, max(bid.arrives_s, post.due_s, _now_s()) + self._buffer_s)
            await self._pass(post, post.due_s)
            self.say(PERFORM, post.id, type=post.type, time_s=post.time_s)
            await self._expect(post, PERFORMING, _now_s() + self._answer_s)
            begun_s = _now_s()
            await self._pass(post, begun_s + post.time_s, satisfied)
        finally:
            self._dismiss(post)
        return Performance(
            post.id, post.type, bid.worker, bid.skill, post.announced, post.due_s, begun_s, _now_s()
        )

    def _dismiss(self, post: _Post) -> None:
        if post.hired is not None:
            self.say(DISMISS, post.id, worker=post.hired)
            post.hired = None

    async def _expect(self, post: _Post, verb: bytes, until_s: float) -> None:
        """Wait for a word of the worker that was hired."""
        async with asyncio.timeout_at(until_s):
            while (await self._next_word(post)) != verb:
                pass

    async def _pass(self, post: _Post, until_s: float, satisfied: asyncio.Event | None = None) -> None:
        """Let time pass, unless the worker quits meanwhile."""
        listening = asyncio.create_task(self._expect(post, b"", until_s))
        tasks: list[asyncio.Task[object]] = [listening]
        if satisfied is not None:
            tasks.append(asyncio.create_task(satisfied.wait()))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if listening.done():
                with suppress(TimeoutError):
                    listening.result()
        finally:
            for task in tasks:
                task.cancel()

    async def _next_word(self, post: _Post) -> bytes:
        """What the hired worker says next. Raises _Gone when it quits, and when the connection is lost."""
        while True:
            line = await self._listen_to(post)
            if line is None:
                raise _Gone
            if post.hired is None or line.speaker != post.hired.bytes:
                if line.verb == START:
                    # It was dismissed, and has not heard of it.
                    self.say(DISMISS, post.id, worker=UUID(bytes=line.speaker))
                continue
            if line.verb == QUIT:
                post.hired = None
                raise _Gone
            return line.verb

    async def _listen_to(self, post: _Post) -> Line | None:
        """The next that is heard of it. Raises Left."""
        self._check_present()
        line = await post.heard.get()
        self._check_present()
        return line

    def _check_present(self) -> None:
        if self._left:
            raise Left("the provider has left")


def _forget(post: _Post) -> None:
    """What was said before an announcement is no answer to it."""
    while not post.heard.empty():
        post.heard.get_nowait()


def _now_s() -> float:
    return asyncio.get_running_loop().time()
