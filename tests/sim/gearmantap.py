"""The tap for Gearman clients and workers. Answers must come in the order of the requests."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from hiringhall.core.states import DONE, FAILED
from hiringhall.core.terms import HIGH, LOW, NORMAL
from hiringhall.dialects.gearman import wire

from .sights import Submit
from .taps import Tap
from .world import MINUTE, SECOND, Violation

if TYPE_CHECKING:
    from hiringhall.dialects.session import Session

    from .laws import Laws

HANDLE_PREFIX: Final = b"H:sim:"

_PRIORITIES = {
    wire.SUBMIT_JOB: NORMAL,
    wire.SUBMIT_JOB_HIGH: HIGH,
    wire.SUBMIT_JOB_LOW: LOW,
    wire.SUBMIT_JOB_BG: NORMAL,
    wire.SUBMIT_JOB_HIGH_BG: HIGH,
    wire.SUBMIT_JOB_LOW_BG: LOW,
    wire.SUBMIT_JOB_EPOCH: NORMAL,
    wire.SUBMIT_JOB_SCHED: NORMAL,
    wire.SUBMIT_REDUCE_JOB: NORMAL,
    wire.SUBMIT_REDUCE_JOB_BACKGROUND: NORMAL,
}
_REDUCED = (wire.SUBMIT_REDUCE_JOB, wire.SUBMIT_REDUCE_JOB_BACKGROUND)
_WATCHED = (wire.SUBMIT_JOB, wire.SUBMIT_JOB_HIGH, wire.SUBMIT_JOB_LOW, wire.SUBMIT_REDUCE_JOB)
_ASSIGNMENTS = {wire.JOB_ASSIGN: 3, wire.JOB_ASSIGN_UNIQ: 4, wire.JOB_ASSIGN_ALL: 5}
_GRABS = (wire.GRAB_JOB, wire.GRAB_JOB_UNIQ, wire.GRAB_JOB_ALL)
_ANSWERS = {
    wire.GRAB_JOB: (wire.NO_JOB, *_ASSIGNMENTS),
    wire.GRAB_JOB_UNIQ: (wire.NO_JOB, *_ASSIGNMENTS),
    wire.GRAB_JOB_ALL: (wire.NO_JOB, *_ASSIGNMENTS),
    wire.GET_STATUS: (wire.STATUS_RES,),
    wire.GET_STATUS_UNIQUE: (wire.STATUS_RES_UNIQUE,),
    wire.ECHO_REQ: (wire.ECHO_RES,),
    wire.OPTION_REQ: (wire.OPTION_RES,),
}


class GearmanTap(Tap):
    """A Gearman client or worker."""

    def __init__(self, number: int, session: Session, laws: Laws) -> None:
        super().__init__(number, session, laws)
        self._requests = wire.Reader(wire.REQUEST)
        self._responses = wire.Reader(wire.RESPONSE)
        self._pending: deque[tuple[int, Submit | None]] = deque()

    @property
    def asks_for_a_job(self) -> bool:
        return any(packet_type in _GRABS for packet_type, _ in self._pending)

    def heard(self, data: bytes) -> None:
        super().heard(data)
        for packet_type, body in self._requests.feed(data):
            self.note(f"-> {wire.NAMES[packet_type]} {body[:60]!r}")
            self._asked(packet_type, body)

    def _asked(self, packet_type: int, body: bytes) -> None:
        laws = self.laws
        if packet_type in _PRIORITIES:
            submit = self._submit(packet_type, body)
            laws.submitted(submit)
            self._pending.append((packet_type, submit))
        elif packet_type in _ANSWERS:
            self._pending.append((packet_type, None))
            if packet_type in _GRABS:
                self.awake()
        elif packet_type == wire.PRE_SLEEP:
            self.sleeps()
        elif packet_type == wire.CAN_DO:
            self.can_do(body, 0)
        elif packet_type == wire.CAN_DO_TIMEOUT:
            queue, _, count = body.partition(b"\0")
            self.can_do(queue, int(count) * laws.options.timeout_unit_us)
        elif packet_type == wire.CANT_DO:
            self.abilities.pop(body, None)
        elif packet_type == wire.RESET_ABILITIES:
            self.abilities.clear()
        elif packet_type in (wire.WORK_COMPLETE, wire.WORK_FAIL, wire.WORK_EXCEPTION):
            handle, _, data = body.partition(b"\0")
            if packet_type == wire.WORK_COMPLETE:
                laws.finished(self, id_of(handle), data)
            else:
                laws.failed(self, id_of(handle))

    def _submit(self, packet_type: int, body: bytes) -> Submit:
        due_us = 0
        if packet_type == wire.SUBMIT_JOB_EPOCH:
            queue, key, seconds, payload = body.split(b"\0", 3)
            due_us = int(seconds) * SECOND
        elif packet_type == wire.SUBMIT_JOB_SCHED:
            queue, key, *_, payload = body.split(b"\0", 7)
            due_us = (self.laws.now_us // MINUTE + 1) * MINUTE
        elif packet_type in _REDUCED:
            queue, key, _, payload = body.split(b"\0", 3)
        else:
            queue, key, payload = body.split(b"\0", 2)
        options = self.laws.options
        watched = packet_type in _WATCHED
        return Submit(
            self,
            queue,
            b"" if key == b"-" else key,
            payload,
            watched=watched,
            priority=_PRIORITIES[packet_type],
            due_us=due_us,
            durable=not watched,
            detached=not watched,
            failures_max=options.failures_max,
            backoff_us=options.backoff_us,
            losses_max=options.losses_max,
            lease_us=options.lease_us,
        )

    def said(self, data: bytes) -> None:
        for packet_type, body in self._responses.feed(data):
            self.note(f"<- {wire.NAMES[packet_type]} {body[:60]!r}")
            self._told(packet_type, body)
        if self._responses.error is not None:
            raise Violation("wire", f"c{self.number} cannot read on: {self._responses.error.text}")

    def _told(self, packet_type: int, body: bytes) -> None:
        laws = self.laws
        if packet_type == wire.NOOP:
            self.awake(laws.now_us)
        elif packet_type == wire.WORK_COMPLETE:
            handle, _, data = body.partition(b"\0")
            laws.told_end(self, id_of(handle), DONE, data)
        elif packet_type in (wire.WORK_FAIL, wire.WORK_EXCEPTION):
            laws.told_end(self, id_of(body.partition(b"\0")[0]), FAILED, b"")
        elif packet_type in (wire.WORK_STATUS, wire.WORK_DATA, wire.WORK_WARNING):
            return
        elif packet_type == wire.ERROR:
            if self._pending and self._pending[0][1] is not None:
                self._pending.popleft()
        else:
            self._answered(packet_type, body)

    def _answered(self, packet_type: int, body: bytes) -> None:
        if not self._pending:
            raise Violation("order", f"c{self.number} is told {wire.NAMES[packet_type]} and asked for nothing")
        asked, submit = self._pending.popleft()
        expected = (wire.JOB_CREATED,) if submit is not None else _ANSWERS[asked]
        if packet_type not in expected:
            raise Violation(
                "order", f"c{self.number} asked {wire.NAMES[asked]} and is told {wire.NAMES[packet_type]}"
            )
        if submit is not None:
            self.laws.created(submit, id_of(body))
        elif packet_type in _ASSIGNMENTS:
            handle, queue, *_, payload = body.split(b"\0", _ASSIGNMENTS[packet_type] - 1)
            self.laws.assigned(self, id_of(handle), queue, payload)


def id_of(handle: bytes) -> int:
    """The job that a handle names; 0: none."""
    digits = handle.removeprefix(HANDLE_PREFIX)
    return int(digits) if digits.isdigit() else 0
