"""Those who debounce and throttle, who does their jobs, and their laws; and somebody who changes rules.

Their queue is apart from the others: a job of it may change its payload, and two live jobs may have one key.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from hiringhall.core.errors import HALL_FULL
from hiringhall.core.rules.queue_rules import QueueRules
from hiringhall.core.states import LEASED

from .actors import Actor
from .owndialect import SPACED, Lines, line
from .taps import Tap
from .world import MS, Violation

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.core.changes import EndRow, JobRow
    from hiringhall.core.jobs import Job
    from hiringhall.dialects.session import Session

    from .actors import Town
    from .hall import Hall
    from .laws import Laws

QUIET_US: Final = 120 * MS
WINDOW_US: Final = 400 * MS
_CAN_DO: Final = line(do="can_do", queue=SPACED.decode())


class SpacedSubmit:
    """A submit, as the hall heard it."""

    def __init__(self, number: int, key: str, word: str, at_us: int, started: set[int]) -> None:
        self.number = number
        self.key = key
        self.word = word
        self.at_us = at_us
        self.started = started
        """The jobs that had started by then, as far as the hall knows."""


class SpacingLaws:
    """What was asked of the queue, and what was answered."""

    def __init__(self) -> None:
        self._heard: dict[bytes, int] = {}
        """The payloads in the order in which the hall heard them."""
        self._promised: dict[int, SpacedSubmit] = {}
        """By job: the latest submit that was answered with it."""
        self._windows: dict[str, tuple[int, int]] = {}
        """By key: the latest job that answers for it, and when it was created."""
        self._started: set[int] = set()

    def opened(self) -> None:
        """The hall may not know what had started."""
        self._started = set()

    def heard(self, request: dict[str, Any], now_us: int) -> SpacedSubmit:
        """Each submit has a payload of its own."""
        word = "debounce" if "debounce_us" in request else "throttle"
        number = self._heard[request["payload"].encode()] = len(self._heard) + 1
        return SpacedSubmit(number, request["key"], word, now_us, set(self._started))

    def answered(self, submit: SpacedSubmit, job_id: int, row: JobRow | EndRow | None) -> None:
        """It is on disk."""
        if row is None:
            raise Violation("promise", f"job {job_id} was acknowledged and is not on disk")
        if submit.word == "throttle":
            self._answered_throttle(submit, job_id, row.created_us)
            return
        if job_id in submit.started:
            raise Violation("debounce", f"submit {submit.number} joined {job_id}, which had started")
        latest = self._promised.get(job_id)
        if latest is None or latest.number < submit.number:
            self._promised[job_id] = submit

    def _answered_throttle(self, submit: SpacedSubmit, job_id: int, created_us: int) -> None:
        first, since_us = self._windows.get(submit.key, (0, 0))
        if since_us < submit.at_us < since_us + WINDOW_US and first != job_id:
            raise Violation("throttle", f"submit {submit.number} is {job_id}, and {first} answers for its key")
        if since_us < created_us:
            self._windows[submit.key] = (job_id, created_us)

    def check(self, hall: Hall) -> None:
        """At the end of a turn."""
        for job in hall.scheduler.jobs.values():
            if job.queue.name == SPACED and job.state == LEASED and job.id not in self._started:
                self._started.add(job.id)
                self._starts(job, hall.world.now_us)

    def _starts(self, job: Job, now_us: int) -> None:
        latest = self._promised.get(job.id)
        if latest is None or job.attempts > 1:
            return
        number = self._heard[job.payload]
        if number < latest.number:
            raise Violation(
                "debounce", f"{job.id} starts with {job.payload!r}; {latest.number} was answered with it"
            )
        if number == latest.number and now_us < latest.at_us + QUIET_US:
            raise Violation("debounce", f"{job.id} starts {now_us - latest.at_us} us after its latest submit")


class SpacedTap(Tap):
    """Hears what they ask, and what they are answered. What it says to workers has no laws."""

    def __init__(self, number: int, session: Session, laws: Laws) -> None:
        super().__init__(number, session, laws)
        self._requests = Lines()
        self._responses = Lines()
        self._pending: deque[tuple[str, Any]] = deque()

    def heard(self, data: bytes) -> None:
        super().heard(data)
        spacing = self.laws.spacing
        assert spacing is not None
        for request in self._requests.feed(data):
            self.note(f"-> {request}")
            asked: Any = None
            if request["do"] == "submit":
                asked = spacing.heard(request, self.laws.now_us)
            elif request["do"] in ("limit", "unlimit"):
                asked = self._asked_rules(request)
            self._pending.append((request["do"], asked))

    def _asked_rules(self, request: dict[str, Any]) -> QueueRules | None:
        limits = self.laws.limits
        assert limits is not None
        rules = QueueRules(**request["rules"]) if request["do"] == "limit" else None
        limits.asked(rules, self.laws.scheduler)
        return rules

    def said(self, data: bytes) -> None:
        for told in self._responses.feed(data):
            self.note(f"<- {told}")
            if "notice" in told:
                continue
            verb, asked = self._pending.popleft()
            if "refused" in told:
                continue
            if verb == "submit":
                assert self.laws.spacing is not None
                mirror, job_id = self.laws.mirror, told["created"]
                row = mirror.live.get(job_id) or mirror.history.get(job_id)
                self.laws.spacing.answered(asked, job_id, row)
            elif verb in ("limit", "unlimit"):
                assert self.laws.limits is not None
                self.laws.limits.answered(asked)


class Spaced(Actor):
    """One of them."""

    dialect = "own"
    tap = "spaced"

    def __init__(self, town: Town, name: str) -> None:
        super().__init__(town, name)
        self.random = self.world.stream(name)
        self._lines = Lines()
        self.every(self.act)

    def every(self, act: Callable[[], None]) -> None:
        def again() -> None:
            if not self.retired and not (self.town.calm and self.rests):
                self.world.after(self.random.randrange(5 * MS, 60 * MS), again)
                if self.connection is not None:
                    act()

        self.world.after(self.random.randrange(50 * MS), again)

    @property
    def rests(self) -> bool:
        """It has nothing to do once the faults stop."""
        return True

    def arrived(self) -> None:
        self._lines = Lines()

    def act(self) -> None:
        raise NotImplementedError


class Spacer(Spaced):
    """Submits with few keys."""

    def act(self) -> None:
        random = self.random
        self.town.spaced += 1
        said: dict[str, Any] = {
            "queue": SPACED.decode(),
            "payload": str(self.town.spaced),
            "durable": True,
            "detached": True,
            "losses_max": 0,
        }
        if random.random() < 0.6:
            self.send(line(do="submit", key=random.choice(("d1", "d2")), debounce_us=QUIET_US, **said))
        else:
            self.send(line(do="submit", key=random.choice(("t1", "t2")), throttle_us=WINDOW_US, **said))
        if random.random() < 0.05:
            self.hang_up()


class SpacedWorker(Spaced):
    """Takes a job and finishes it, some time later."""

    @property
    def rests(self) -> bool:
        return False

    def arrived(self) -> None:
        super().arrived()
        self.send(_CAN_DO)

    def act(self) -> None:
        self.send(line(do="take"))

    def listen(self, data: bytes) -> None:
        for told in self._lines.feed(data):
            if "assigned" in told:
                done = line(do="finish", id=told["assigned"]["id"], result="")
                self.later(self.random.randrange(1, 80 * MS), self.connection, done)
            elif told.get("refused") == HALL_FULL:
                # The hall had no room for its queue, and nobody else does the jobs of it.
                self.later(50 * MS, self.connection, _CAN_DO)


class Ruler(Spaced):
    """Changes the rules of the queue with limits, and clears them."""

    def act(self) -> None:
        random = self.random
        if random.random() < 0.7:
            return
        queue = self.town.queues[0].decode()
        if random.random() < 0.2:
            self.send(line(do="unlimit", queue=queue))
            return
        rules = random.choice(
            (
                {"running_max": 1},
                {"running_max": 3},
                {"key_running_max": 1},
                {"key_running_max": 2},
                {"fair": True},
                {},
            )
        )
        self.send(line(do="limit", queue=queue, rules=rules))
