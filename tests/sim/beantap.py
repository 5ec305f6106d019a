"""The tap for peers of the beanstalkd protocol. Each request has one reply, in the order of asking.

The law: behind a reserve nothing is asked that concerns a job which the asker has. So it is known when the hall
hears it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from hiringhall.core.states import FAILED
from hiringhall.dialects.beanstalkd import wire
from hiringhall.dialects.beanstalkd.context import DEFAULT_TUBE, level_of
from hiringhall.dialects.beanstalkd.session import KICK_MAX

from . import handlaws, retrylaws
from .sights import Holding, Submit
from .taps import DeafTap, Tap
from .world import SECOND, Violation

if TYPE_CHECKING:
    from hiringhall.dialects.session import Session

    from .laws import Laws

BODY_BYTES_MAX: Final = 65_535
_RESERVES: Final = (wire.RESERVE, wire.RESERVE_WITH_TIMEOUT, wire.RESERVE_JOB)
_WORDS: Final = {
    # What each command is answered with when all is well.
    wire.PUT: b"INSERTED",
    wire.USE: b"USING",
    wire.DELETE: b"DELETED",
    wire.RELEASE: b"RELEASED",
    wire.BURY: b"BURIED",
    wire.TOUCH: b"TOUCHED",
    wire.WATCH: b"WATCHING",
    wire.IGNORE: b"WATCHING",
    wire.KICK: b"KICKED",
    wire.KICK_JOB: b"KICKED",
}
_WITH_BODY: Final = (b"RESERVED", b"FOUND", b"OK")
_LATE_US: Final = SECOND
"""A reserve that has timed out is answered so long after at the latest."""


class Asked(NamedTuple):
    """A request that is to be answered."""

    command: bytes
    job_id: int = 0
    submit: Submit | None = None
    tube: bytes = b""
    held: bool = False
    """The asker has the job for certain."""
    foreign: bool = False
    """Somebody else has the job for certain."""
    until_us: int = 0
    """When a reserve times out; 0: never."""
    holding: Holding | None = None
    """Who had the job, as far as was known."""
    not_before_us: int = 0
    """When the job might be handed out, before this was asked."""


class Replies:
    """Cuts what the hall says into words, and the body behind them."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[tuple[list[bytes], bytes]]:
        self._rest += data
        found: list[tuple[list[bytes], bytes]] = []
        while (end := self._rest.find(b"\r\n")) >= 0:
            words = self._rest[:end].split(b" ")
            size = int(words[-1]) + 2 if words[0] in _WITH_BODY else 0
            if len(self._rest) < end + 2 + size:
                break
            body = self._rest[end + 2 : end + size]
            found.append((words, body))
            self._rest = self._rest[end + 2 + size :]
        return found


class BeanTap(Tap):
    """A producer, a worker, or both."""

    pushed = True

    def __init__(self, number: int, session: Session, laws: Laws) -> None:
        super().__init__(number, session, laws)
        self._requests = wire.Reader(BODY_BYTES_MAX)
        self._replies = Replies()
        self._pending: deque[Asked] = deque()
        self._tube = DEFAULT_TUBE
        self.can_do(DEFAULT_TUBE, 0)

    @property
    def unanswered(self) -> int:
        """What stands behind a reserve that waits may wait too."""
        waits = bool(self._pending) and self._pending[0].command in _RESERVES
        return 0 if waits else len(self._pending)

    @property
    def waits_for_a_job(self) -> bool:
        if not self._pending or self._pending[0].command not in _RESERVES:
            return False
        until_us = self._pending[0].until_us
        if until_us and until_us + _LATE_US < self.laws.now_us:
            raise Violation("bound", f"c{self.number} waits for a job beyond its time")
        return True

    # --- what the hall hears

    def heard(self, data: bytes) -> None:
        super().heard(data)
        self._requests.receive(data)
        while (request := self._requests.next_request()) is not None:
            self.note(f"-> {request.command!r} {request.numbers} {request.tube!r} {request.body[:20]!r}")
            asked = Asked(request.command)
            if not request.fault:
                asked = self._asked(request)
            self._pending.append(asked)

    def _asked(self, request: wire.Request) -> Asked:
        laws = self.laws
        command = request.command
        numbers = request.numbers
        if command == wire.PUT:
            submit = self._submit(numbers, request.body)
            laws.submitted(submit)
            return Asked(command, submit=submit)
        if command == wire.RESERVE_WITH_TIMEOUT:
            return Asked(command, until_us=laws.now_us + numbers[0] * SECOND)
        if command == wire.WATCH:
            self.able.setdefault(request.tube, 0)
        elif command == wire.IGNORE:
            self.abilities.pop(request.tube, None)
        elif command == wire.KICK:
            self._kick(numbers[0])
        elif command in (wire.KICK_JOB, wire.RESERVE_JOB):
            self._fetch(numbers[0], command)
            return Asked(command, numbers[0])
        elif command in (wire.DELETE, wire.RELEASE, wire.BURY, wire.TOUCH):
            return self._report(command, numbers)
        return Asked(command, numbers[0] if command == wire.PEEK else 0, tube=request.tube)

    def _submit(self, numbers: list[int], body: bytes) -> Submit:
        priority, delay_s, run_s, _ = numbers
        return Submit(
            self,
            self._tube,
            b"",
            body,
            watched=False,
            priority=level_of(priority),
            due_us=self.laws.now_us + delay_s * SECOND if delay_s else 0,
            durable=self.laws.bean_durable,
            detached=True,
            losses_max=0,
            run_us=max(run_s, 1) * SECOND,
        )

    def _kick(self, bound: int) -> None:
        """Dead letters of the tube are retried, or its delayed jobs are made ready: the hall says which."""
        scheduler = self.laws.scheduler
        certain = 0
        for job in scheduler.archive.dead_letters(self._tube, KICK_MAX):
            if certain >= bound:
                break
            retrylaws.retrying(self.laws, job.id)
            certain += not job.key  # One whose key another job has by then is passed over.
        for job in scheduler.jobs.values():
            if job.queue.name == self._tube:
                handlaws.hastened(self.laws, job.id)

    def _fetch(self, job_id: int, command: bytes) -> None:
        """One job is made ready, or is to be handed out, whatever it waits for."""
        laws = self.laws
        job = laws.scheduler.find(job_id)
        if job is None:
            return
        if job.state == FAILED:
            retrylaws.retrying(laws, job_id)
        handlaws.hastened(laws, job_id)
        if command == wire.RESERVE_JOB:
            self.able.setdefault(job.queue.name, 0)
            laws.see(job_id).hired = True  # It may be taken out of its turn.

    def _report(self, command: bytes, numbers: list[int]) -> Asked:
        laws = self.laws
        job_id = numbers[0]
        sight = laws.see(job_id)
        holding = sight.holding
        certain = holding is not None and not holding.doubtful
        ours = holding is not None and holding.tap is self
        asked = Asked(
            command,
            job_id,
            held=certain and ours,
            foreign=certain and not ours,
            holding=holding,
            not_before_us=sight.not_before_us,
        )
        if command == wire.RELEASE:
            handlaws.released(laws, self, job_id, delay_us=numbers[2] * SECOND)
        elif command == wire.BURY:
            laws.failed(self, job_id)
        elif command == wire.TOUCH:
            handlaws.renewed(laws, self, job_id)
        else:
            self._delete(asked)
        return asked

    def _delete(self, asked: Asked) -> None:
        """What it has is done; what nobody has is cancelled; a dead letter, too, which lives again for that."""
        laws = self.laws
        job = laws.scheduler.find(asked.job_id)
        if job is not None and job.lease is not None and self.has(job.lease):
            # Also if it was to be buried, and the store failed: then it has it again.
            laws.finished_by_name(self, asked.job_id, b"")
        elif not asked.foreign:
            if job is not None and job.state == FAILED:
                retrylaws.retrying(laws, asked.job_id)
            laws.cancelling(asked.job_id)

    # --- what the hall says

    def said(self, data: bytes) -> None:
        for words, body in self._replies.feed(data):
            self.note(f"<- {b' '.join(words)[:60]!r} {body[:20]!r}")
            if not self._pending:
                raise Violation("order", f"c{self.number} is told {words[0]!r} and asked for nothing")
            self._answered(self._pending.popleft(), words, body)

    def _answered(self, asked: Asked, words: list[bytes], body: bytes) -> None:
        laws = self.laws
        word = words[0]
        if word == b"RESERVED":
            if asked.command not in _RESERVES or (asked.job_id and asked.job_id != int(words[1])):
                raise Violation("order", f"c{self.number} is given {words[1]!r} for {asked.command!r}")
            self._reserved(int(words[1]), body)
        elif word == wire.TIMED_OUT.strip() and laws.now_us < asked.until_us:
            raise Violation("due", f"c{self.number} is told too soon that its time is out")
        elif word == b"FOUND" and body and laws.submit_of(int(words[1]), body) is None:
            raise Violation("identity", f"c{self.number} is shown {words[1]!r}, which nobody submitted")
        elif word == _WORDS.get(asked.command):
            self._done(asked, words)
        elif _is_refused_bury(asked, word):
            self._not_buried(asked)
        elif asked.held and word == wire.NOT_FOUND.strip():
            raise Violation("lease", f"c{self.number} has {asked.job_id}, and is told that it has not")

    def parts(self) -> None:
        """The hall may have refused a bury, and it leaves before it is told so: then it leaves with the job."""
        unsent = b"".join((self.session.sealed or []) + self.session.out)
        for asked, (words, _) in zip(self._pending, self._replies.feed(unsent), strict=False):
            if _is_refused_bury(asked, words[0]):
                self._not_buried(asked)

    def _not_buried(self, asked: Asked) -> None:
        """What is not on disk cannot be kept as a dead letter while the store fails: it still has it, unless it
        was buried before the store failed.
        """
        laws = self.laws
        sight = laws.see(asked.job_id)
        sight.failures -= 1
        sight.not_before_us = asked.not_before_us
        job = laws.scheduler.jobs.get(asked.job_id)
        lease = job.lease if job is not None else None
        holding = asked.holding
        same = lease is not None and holding is not None and lease.started_us == holding.since_us
        if lease is not None and same and self.has(lease):
            sight.holding = holding

    def _done(self, asked: Asked, words: list[bytes]) -> None:
        laws = self.laws
        command = asked.command
        if asked.foreign:
            raise Violation("lease", f"c{self.number} was let do {command!r} with another's job {asked.job_id}")
        if asked.submit is not None:
            laws.created(asked.submit, int(words[1]))
        elif command == wire.USE:
            self._tube = words[1]
        elif command == wire.WATCH:
            self.can_do(asked.tube, 0)
        elif command == wire.DELETE:
            self._deleted(asked)
        elif command == wire.BURY:
            self._buried(asked.job_id)

    def _deleted(self, asked: Asked) -> None:
        laws = self.laws
        if asked.job_id in laws.mirror.live and not laws.see(asked.job_id).retried:
            raise Violation("promise", f"{asked.job_id} was deleted before that was on disk")
        if not asked.held:
            laws.cancelled(asked.job_id)

    def _buried(self, job_id: int) -> None:
        """It is a dead letter on disk, or is tried again."""
        laws = self.laws
        row = laws.mirror.live.get(job_id)
        kept = job_id in laws.mirror.history or (row is not None and row.failures > 0)
        if not kept and not laws.see(job_id).retried and laws.see(job_id).promised:
            raise Violation("promise", f"{job_id} was buried before that was on disk")

    def _reserved(self, job_id: int, payload: bytes) -> None:
        laws = self.laws
        submit = laws.submit_of(job_id, payload)
        job = laws.scheduler.jobs.get(job_id)
        current = job.lease if job is not None else None
        if not payload:
            laws.foreign[job_id] = None  # a provider's own
            return
        if submit is None:
            raise Violation("identity", f"job {job_id} is not what anybody submitted")
        if current is None or not self.has(current):
            return  # It was taken away while this waited for the disk.
        laws.assigned(self, job_id, submit.queue, payload, current.started_us)


def _is_refused_bury(asked: Asked, word: bytes) -> bool:
    """The store fails, and the asker has the job for certain."""
    return asked.held and asked.command == wire.BURY and word == wire.OUT_OF_MEMORY.strip()


class BeanDeafTap(DeafTap):
    """For those who talk nonsense: they may hear anything but a job."""

    def said(self, data: bytes) -> None:
        self.note(f"<- {data[:60]!r}")
        if data.startswith((b"RESERVED", b"INSERTED")):
            raise Violation("garbage", f"c{self.number} got a job for nonsense")
