"""The taps for PING/PONG. The protocol has no names: a worker's answer is for the one job that it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.states import CANCELLED, DONE, FAILED, HELD
from hiringhall.dialects.pingpong import wire

from .sights import Submit, without_ahead
from .taps import Tap
from .world import Violation

if TYPE_CHECKING:
    from hiringhall.dialects.pingpong.context import PingPongOptions
    from hiringhall.dialects.session import Session

    from .laws import Laws
    from .post import Line
    from .sights import Holding


class WorkerTap(Tap):
    """A worker at the backend."""

    def __init__(
        self,
        number: int,
        session: Session,
        laws: Laws,
        options: PingPongOptions,
        sent: dict[bytes, tuple[int, Line | None]],
    ) -> None:
        super().__init__(number, session, laws)
        self._options = options
        self._identity = session.caller.route[0]
        self._sent = sent
        """What every identity was sent and has not answered for, whichever session it had then, and the socket
        that spoke for it then."""
        self._socket: Line | None = None
        """The one that speaks for it."""
        self._reported_id = 0
        """The job whose result it has just sent."""
        self._job_id = 0
        """What it was sent and has not answered for; 0: nothing."""
        self._holding: Holding | None = None
        """Of that job."""
        self._alive_us = 0
        """When it last said PING."""
        self._in_step = True
        """Its next answer is for the job it was sent last. Not so for one that was sent a job on its PING
        alone: it may have had one of a hall that died, or one that was taken from it long ago, and then it is
        an answer ahead until it says READY. Nor for another socket with its identity, in this session or in
        a later one: what that was sent, if anything, is unknown."""
        self._begun = False
        """It has said READY, or answered."""
        self._pings = 0
        """Those not yet answered."""
        self.able[options.queue] = 0

    def heard(self, data: bytes) -> None:
        super().heard(data)
        self.note(f"-> {data[:60]!r}")
        if data == wire.PING:
            self._pings += 1
            self._alive_us = self.laws.now_us
            return
        self._begun = True
        known = self._job_id != 0
        self._job_id = 0
        job_id, socket = self._sent.pop(self._identity, (0, self._socket))
        self._in_step = data == wire.READY or (self._in_step and socket is self._socket)
        if data == wire.READY:
            self.laws.lost(self)
        if not job_id or data == wire.READY:
            return
        if not self._in_step:
            self.laws.see(job_id).mixed_up[data] = None
        error = wire.parse_error(data)
        if error is not None and wire.failure_number(error[0]):
            self.laws.failed(self, job_id)
            # It may back off now, and is not the next one then.
            self.laws.see(job_id).returned_us = 0
        else:
            self.laws.finished_by_name(self, job_id, data)
            # Somebody else may have been given it in this turn, and is told so at its end.
            self.laws.cancelling(job_id)
            if known:
                self._reported_id = job_id

    def took(self) -> None:
        """A result counts, however late it is, unless the job has ended or waits for something."""
        job = self.laws.scheduler.jobs.get(self._reported_id)
        self._reported_id = 0
        if job is not None and job.state != HELD:
            raise Violation("late", f"c{self.number} has done job {job.id}, which has not ended")

    def speaks_by(self, socket: Line) -> None:
        self._in_step = self._in_step and self._socket is None
        self._socket = socket

    def said(self, data: bytes) -> None:
        self.note(f"<- {data[:60]!r}")
        laws = self.laws
        if data == wire.PONG:
            self._pings -= 1
            if self._pings < 0:
                raise Violation("order", f"c{self.number} is told PONG and said no PING")
            return
        options = self._options
        holding = self._holding
        if self._job_id and holding is not None and self._alive_us < holding.taken_us + options.job_timeout_us:
            raise Violation("one job", f"c{self.number} is sent a job and has not answered for another")
        self._in_step = self._in_step and self._begun and not self._job_id
        if self.heard_us + options.expire_us <= laws.now_us:
            raise Violation("expired", f"c{self.number} is sent a job after too much silence")
        job_id = laws.id_of(data)
        submit = laws.submit_of(job_id, data)
        self.silence_us = 0
        if submit is not None and not submit.lease_us:
            self.silence_us = options.job_timeout_us + options.expire_us
        laws.assigned(self, job_id, options.queue, data)
        self._job_id = job_id
        self._sent[self._identity] = job_id, self._socket
        self._holding = laws.see(job_id).holding


class ClientTap(Tap):
    """One request at the frontend, or several one after the other."""

    def __init__(self, number: int, session: Session, laws: Laws, options: PingPongOptions) -> None:
        super().__init__(number, session, laws)
        self._options = options
        self.request: Submit | None = None
        """What is not yet answered."""

    def heard(self, data: bytes) -> None:
        super().heard(data)
        self.note(f"-> {data[:60]!r}")
        options = self._options
        self.request = Submit(
            self,
            options.queue,
            b"",
            data,
            watched=True,
            durable=options.durable,
            detached=options.durable,
            losses_max=options.losses_max,
            lease_us=options.job_timeout_us,
        )
        self.laws.submitted(self.request)

    def said(self, data: bytes) -> None:
        self.note(f"<- {data[:60]!r}")
        request = self.request
        if request is None:
            raise Violation("order", f"c{self.number} is answered and asked for nothing")
        self.request = None
        error = wire.parse_error(data)
        if error is not None and error[0] in wire.REASONS:
            return
        job_id = self.laws.find_id(request.payload)
        if job_id:
            state = DONE
            if error is not None:
                state = CANCELLED if error[0] == wire.CANCELLED else FAILED
            self.laws.watching(self, job_id)
            self.laws.told_end(self, job_id, state, without_ahead(data))
