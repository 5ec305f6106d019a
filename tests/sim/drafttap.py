"""The tap for those who speak Gearman's draft: every request has one answer, in the order of asking.

The law: what job_complete_res says of a job is what the history says of it, then and at any later time.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from hiringhall.core.states import CANCELLED, DONE
from hiringhall.core.terms import HIGH, LOW, NORMAL
from hiringhall.dialects.gearman_draft import wire
from hiringhall.dialects.gearman_draft.context import DraftOptions
from hiringhall.dialects.gearman_draft.session import DraftSession

from .gearmantap import id_of
from .sights import Submit, without_ahead
from .taps import Tap
from .world import SECOND, Violation

if TYPE_CHECKING:
    from hiringhall.core.changes import EndRow
    from hiringhall.dialects.gearman.context import GearmanOptions
    from hiringhall.dialects.session import Session

    from .laws import Laws

_PRIORITIES: Final = {wire.FLAG_NORMAL: NORMAL, wire.FLAG_HIGH: HIGH, wire.FLAG_LOW: LOW}
_ANSWERS: Final = {
    wire.JOB_CREATE_REQ: wire.JOB_CREATE_RES,
    wire.JOB_ASSIGN_REQ: wire.JOB_ASSIGN_RES,
    wire.JOB_STATUS_REQ: wire.JOB_STATUS_RES,
    wire.JOB_COMPLETE_REQ: wire.JOB_COMPLETE_RES,
    wire.TASK_START: wire.JOB_CREATE_RES,
    wire.TASK_RESULT: wire.JOB_CREATE_RES,
}
_SILENT: Final = (wire.WORKER_CONNECT, wire.WORKER_SLEEP, wire.JOB_STATUS_ANNOUNCE, wire.JOB_COMPLETE_ANNOUNCE)
"""Answered only when something is wrong with them."""
_CANCELLED_CODE: Final = 130


def draft_options(options: GearmanOptions) -> DraftOptions:
    """The draft is spoken at the Gearman door, and is as it is there."""
    return DraftOptions(
        handle_prefix=options.handle_prefix,
        lease_us=options.lease_us,
        losses_max=options.losses_max,
        failures_max=options.failures_max,
        backoff_us=options.backoff_us,
        expire_us=options.expire_us,
        log_all=options.log_all,
    )


class Asked(NamedTuple):
    """A packet that may still be answered."""

    packet_type: int
    submit: Submit | None = None
    job_id: int = 0
    ended: bool = False
    """Its end was in the history when it was asked for."""
    done: bool = False
    """The history said then that it had succeeded, which is final. Any other end may be followed by a retry."""
    promised: bool = False
    task: tuple[bytes, bytes, int, bytes] | None = None
    """Of a task outside: queue, key, code and result."""


class DraftTap(Tap):
    """An application, a worker, or one who tells of tasks; each speaks of nothing else on its connection."""

    def __init__(self, number: int, session: Session, laws: Laws) -> None:
        super().__init__(number, session, laws)
        self._requests = wire.Reader()
        self._responses = wire.Reader()
        self._pending: deque[Asked] = deque()
        self._awaited: deque[tuple[Submit, int]] = deque()
        """The sync job whose end is to come, with its id."""
        self._task = 0
        """The job that it was given last."""
        self._hasty: list[bytes] = []
        """Ends that it told after it had asked for the next task: no handle says which one is meant."""

    @property
    def unanswered(self) -> int:
        return sum(asked.packet_type in _ANSWERS for asked in self._pending)

    # --- what the hall hears

    def heard(self, data: bytes) -> None:
        super().heard(data)
        for packet_type, body in self._requests.feed(data):
            self.note(f"-> {wire.NAMES[packet_type]} {body[:60]!r}")
            self._asked(packet_type, body)

    def _asked(self, packet_type: int, body: bytes) -> None:
        laws = self.laws
        if packet_type in (wire.JOB_STATUS_REQ, wire.JOB_COMPLETE_REQ):
            self._pending.append(self._question(packet_type, id_of(body)))
        elif packet_type == wire.JOB_CREATE_REQ:
            submit = self._submit(body)
            laws.submitted(submit)
            self._pending.append(Asked(packet_type, submit))
        elif packet_type in (wire.TASK_START, wire.TASK_RESULT):
            self._pending.append(Asked(packet_type, task=self._told_of(packet_type, body)))
        elif packet_type == wire.JOB_ASSIGN_REQ:
            self._pending.append(Asked(packet_type))
            self.awake()
        elif packet_type == wire.WORKER_DISCONNECT:
            self.abilities.clear()
            self.awake()
            laws.released(self, self._task)
        elif packet_type in _SILENT:
            self._pending.append(Asked(packet_type))
            self._working(packet_type, body)

    def _working(self, packet_type: int, body: bytes) -> None:
        laws = self.laws
        if packet_type == wire.WORKER_CONNECT:
            self.abilities.clear()
            for queue in wire.parse_worker_connect(body, len(body) + 1) or ():
                self.can_do(queue, 0)
        elif packet_type == wire.WORKER_SLEEP:
            sight = laws.sights.get(self._task)
            if sight is None or sight.holding is None or sight.holding.tap is not self:
                self.sleeps()
        elif packet_type == wire.JOB_COMPLETE_ANNOUNCE:
            if self._asks(wire.JOB_ASSIGN_REQ):
                self._hasty.append(body)
            if body[0]:
                laws.failed(self, self._task)
            else:
                laws.finished(self, self._task, body[1:])

    def _question(self, packet_type: int, job_id: int) -> Asked:
        sight = self.laws.sights.get(job_id)
        row = self.laws.mirror.history.get(job_id)
        steady = sight is not None and not sight.retried
        promised = sight is not None and sight.promised
        ended = steady and row is not None
        done = row is not None and row.state == DONE
        return Asked(packet_type, job_id=job_id, ended=ended, done=done, promised=promised)

    def _submit(self, body: bytes) -> Submit:
        parsed = wire.parse_job_create_req(body)
        assert parsed is not None
        queue, key, flags, job_type, payload = parsed
        options = self.laws.options
        watched = job_type == wire.SYNC_WAIT
        return Submit(
            self,
            queue,
            key,
            payload,
            watched=watched,
            priority=_PRIORITIES[flags],
            durable=not watched,
            detached=not watched,
            failures_max=options.failures_max,
            backoff_us=options.backoff_us,
            losses_max=options.losses_max,
            lease_us=options.lease_us,
        )

    def _told_of(self, packet_type: int, body: bytes) -> tuple[bytes, bytes, int, bytes]:
        told = wire.parse_task_start(body) if packet_type == wire.TASK_START else None
        result = wire.parse_task_result(body) if packet_type == wire.TASK_RESULT else None
        if result is not None:
            queue, key, _, code, data = result
            self.laws.reported.setdefault((queue, key), {})[data] = code
            return queue, key, code, data
        assert told is not None
        self.laws.reported.setdefault((told[0], told[1]), {})
        return told[0], told[1], 0, b""

    def took(self) -> None:
        """There is no handle for some jobs: the hall is asked for their ids while they are live for certain.

        What waits behind a look-up has not been taken in: a key may mean another job by then.
        """
        assert isinstance(self.session, DraftSession)
        taken = len(self._pending) - len(self.session._held)
        for number, asked in enumerate(self._pending):
            if number >= taken:
                return
            if asked.submit is not None and not asked.job_id:
                self._pending[number] = asked._replace(job_id=self._live_id(asked.submit))
            elif asked.packet_type == wire.JOB_ASSIGN_REQ:
                self.laws.take_census()
            elif asked.task is not None:
                self._see_task(asked.task[0], asked.task[1])

    def _live_id(self, submit: Submit) -> int:
        job_id = self.laws.find_id(submit.payload)
        if not job_id and submit.key:
            joined = self.laws.scheduler.find_key(submit.queue, submit.key)
            job_id = joined.id if joined is not None else 0
        return job_id

    def _see_task(self, queue: bytes, key: bytes) -> None:
        scheduler = self.laws.scheduler
        job = scheduler.find_key(queue, key) or scheduler.archive.find_key(queue, key)
        if job is not None:
            sight = self.laws.see(job.id)
            sight.queue, sight.key = queue, key

    # --- what the hall says

    def said(self, data: bytes) -> None:
        for packet_type, body in self._responses.feed(data):
            self.note(f"<- {wire.NAMES[packet_type]} {body[:60]!r}")
            self._told(packet_type, body)
        if self._responses.error is not None:
            raise Violation("wire", f"c{self.number} cannot read on: {self._responses.error.text}")

    def _told(self, packet_type: int, body: bytes) -> None:
        if packet_type == wire.NOOP:
            self.awake(self.laws.now_us)
            return
        complete = wire.parse_job_complete_res(body) if packet_type == wire.JOB_COMPLETE_RES else None
        if complete is not None and complete[0] == wire.ERROR_STATUS:
            self._refused(complete[1])
        elif packet_type == wire.JOB_STATUS_RES and self._awaited and not self._asks(wire.JOB_STATUS_REQ):
            return
        elif complete is not None and self._awaited and not self._asks(wire.JOB_COMPLETE_REQ):
            submit, job_id = self._awaited.popleft()
            self.laws.told_end(
                self, job_id, DONE if complete[1] == 0 else CANCELLED, without_ahead(complete[2])
            )
            del submit
        else:
            self._answered(packet_type, body)

    def _asks(self, packet_type: int) -> bool:
        return any(asked.packet_type == packet_type for asked in self._pending)

    def _refused(self, code: int) -> None:
        """An error stands where the answer would, or behind what is answered by nothing else."""
        while self._pending:
            asked = self._pending.popleft()
            if asked.packet_type in _SILENT and code not in (wire.NO_TASK, wire.BUSY, wire.FULL):
                continue
            if asked.packet_type == wire.WORKER_CONNECT and code != wire.FULL:
                continue
            if asked.packet_type in _ANSWERS and code == wire.NO_TASK:
                break
            if code in (wire.UNKNOWN_HANDLE, wire.NOT_KEPT) and asked.promised:
                raise Violation(
                    "missing", f"c{self.number} asks for {asked.job_id}, which the hall has promised"
                )
            if asked.packet_type == wire.WORKER_SLEEP:
                self.awake()  # it was given a task by an answer that it had not heard when it said so
            return
        raise Violation("order", f"c{self.number} is told of a mistake, {code}, that it did not make")

    def _answered(self, packet_type: int, body: bytes) -> None:
        while self._pending and self._pending[0].packet_type in _SILENT:
            self._pending.popleft()
        if not self._pending:
            raise Violation("order", f"c{self.number} is told {wire.NAMES[packet_type]} and asked for nothing")
        asked = self._pending.popleft()
        if packet_type != _ANSWERS[asked.packet_type]:
            raise Violation(
                "order",
                f"c{self.number} asked {wire.NAMES[asked.packet_type]} and is told {wire.NAMES[packet_type]}",
            )
        if asked.submit is not None:
            self._created(asked.submit, asked.job_id, body)
        elif asked.task is not None:
            self._noted(asked, id_of(body))
        elif packet_type == wire.JOB_COMPLETE_RES:
            self._completed(asked, body)
        elif packet_type == wire.JOB_STATUS_RES:
            self._stands(asked, body)
        else:
            if body:
                self._given(body)
            if not self._asks(wire.JOB_ASSIGN_REQ):
                self._hasty.clear()

    def _given(self, body: bytes) -> None:
        parsed = wire.parse_job_assign_res(body)
        assert parsed is not None
        before = self.laws.see(self._task).holding
        if before is not None and before.tap is self and not before.doubtful:
            raise Violation("one task", f"c{self.number} has {self._task} and is given another")
        self._task = self.laws.id_of(parsed[1])
        self.laws.assigned(self, self._task, *parsed)
        if self._hasty:
            self.laws.disturbed = True
            self.laws.in_doubt(self._task)
            self._may_have_done(self._task)

    def _may_have_done(self, job_id: int) -> None:
        """What it told before it was told its task may have been meant for this one."""
        sight = self.laws.see(job_id)
        for told in self._hasty:
            if not told[0]:
                sight.results[told[1:]] = sight.mixed_up[told[1:]] = None
                sight.succeeded = True

    def parts(self) -> None:
        """It may have been given a task, and leaves before it is told so. It may have told its end, too."""
        unsent = b"".join((self.session.sealed or []) + self.session.out)
        for packet_type, body in self._responses.feed(unsent):
            parsed = wire.parse_job_assign_res(body) if packet_type == wire.JOB_ASSIGN_RES and body else None
            if parsed is not None:
                self._may_have_done(self.laws.id_of(parsed[1]))

    def _created(self, submit: Submit, job_id: int, handle: bytes) -> None:
        if handle:
            job_id = id_of(handle)
        if submit.watched:
            self._awaited.append((submit, job_id))
            if len(self._awaited) > 1:
                raise Violation("order", f"c{self.number} waits for two jobs that it cannot tell apart")
        if job_id:
            self.laws.created(submit, job_id)

    def _noted(self, asked: Asked, job_id: int) -> None:
        """What was told of a task outside is on disk before it is acknowledged, and so is its end."""
        assert asked.task is not None
        queue, key, code, result = asked.task
        sight = self.laws.see(job_id)
        sight.promised = True
        row = self.laws.mirror.history.get(job_id)
        if asked.packet_type == wire.TASK_START:
            live = self.laws.mirror.live.get(job_id)
            found = live or row
            if found is None or (found.queue, found.key) != (queue, key):
                raise Violation("promise", f"task {key!r} was noted as {job_id} and is not on disk")
        elif row is None or (row.queue, row.key, row.code, row.result) != (queue, key, code, result):
            raise Violation("promise", f"the end of task {key!r} was noted as {job_id} and is not on disk")

    def _completed(self, asked: Asked, body: bytes) -> None:
        parsed = wire.parse_job_complete_res(body)
        assert parsed is not None
        status, code, result = parsed
        sight = self.laws.see(asked.job_id)
        row = self.laws.mirror.history.get(asked.job_id)
        if status == wire.INCOMPLETE:
            # Since it was asked, somebody may have given it another life.
            if asked.ended and not sight.retried:
                raise Violation("history", f"job {asked.job_id} has ended, and c{self.number} hears it has not")
        elif row is not None and not sight.retried:
            if (status, code, result) != _line(row):
                raise Violation("history", f"the history says otherwise than c{self.number} hears of {row.id}")
        elif sight.promised and not sight.retried:
            raise Violation("promise", f"c{self.number} was told an end of {asked.job_id} that is not on disk")

    def _stands(self, asked: Asked, body: bytes) -> None:
        parsed = wire.parse_job_status(body)
        assert parsed is not None
        if asked.done and (parsed[0] != parsed[1] or not parsed[1]):
            raise Violation("history", f"job {asked.job_id} is done, and c{self.number} hears it is not")


def _line(row: EndRow) -> tuple[int, int, bytes]:
    """What job_complete_res says of a line of the history."""
    code = {DONE: 0, CANCELLED: _CANCELLED_CODE}.get(row.state, max(row.code, 1))
    return max((row.ended_us - row.created_us) // SECOND, 1), code, row.result
