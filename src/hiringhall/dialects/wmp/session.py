"""One path to a worker, with the hall as its manager.

Invariant: a READY counts until the path is handed a job, leaves a WAKE unanswered, or is silent for too long.
Jobs that were handed out belong to the context, not to the path.

The protocol has no error message: a bad message, or one that only a manager may send, is counted and ignored.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from hiringhall.core.errors import Refusal
from hiringhall.core.resources.resourcing import totals_of
from hiringhall.core.states import FAILURE
from hiringhall.dialects.session import BAD_INPUT, Session
from hiringhall.dialects.wmp import wire
from hiringhall.dialects.wmp.context import WmpContext, WmpOptions

if TYPE_CHECKING:
    from hiringhall.core.leases import Lease
    from hiringhall.core.workers import Worker
    from hiringhall.dialects.session import Caller

__all__ = ["WmpContext", "WmpOptions", "WmpSession"]

CODE_MAX: Final = 255
STATUSES: Final = (b"ok", b"failed", b"declined")
NO_QUEUE: Final = b""


class WmpSession(Session):
    """One path."""

    def __init__(self, caller: Caller, context: WmpContext) -> None:
        super().__init__(caller)
        self._context = context
        self._scheduler = context.scheduler
        self._said = 0
        """Messages sent so far."""
        self._unconfirmed: deque[tuple[int, Lease]] = deque()
        """Jobs in messages that may not have been delivered, with the number of the message."""
        self._skills: dict[bytes, int] = {}
        """The skills in the latest READY, by role."""
        self._leaves = False
        """The latest READY had a time-left."""
        self._declines: dict[bytes, int] = {}
        """Jobs declined in a row, by role."""

    @property
    def dialect(self) -> str:
        return "wmp"

    # --- receiving

    def receive(self, data: bytes) -> None:
        try:
            message = wire.parse_body(data)
            command = message.command
            if command == wire.READY:
                self._on_ready(message)
            elif command == wire.GIVE:
                self._on_give(message)
            elif command == wire.DONE:
                self._on_done(message)
            elif command == wire.STATUS:
                self._on_status(message)
            else:
                raise wire.BadMessage("only a manager sends this command")
        except wire.BadMessage as error:
            self._context.dropped += 1
            self.report(BAD_INPUT, str(error))
            return
        worker = self.worker
        if worker is not None:
            self._scheduler.beat(worker)

    def _on_ready(self, message: wire.Message) -> None:
        # WMP1 READY / role: resize / role: crop / worker: blade-7 / slots: 4 / skill: 9 resize / time-left: 30
        #   / resource: cpus=8 / resource: gpus=2
        roles = dict.fromkeys(message.every(b"role"))
        name = message.first(b"worker")
        if not 0 < len(roles) <= self._context.options.roles_max or len(name) > wire.NAME_BYTES_MAX:
            raise wire.BadMessage("READY names no role, too many roles, or a worker whose name is too long")
        for role in roles:
            self._check_role(role)
        skills = self._parse_skills(message)
        resources = self._parse_resources(message)
        left = message.first(b"time-left")
        left_us = wire.parse_seconds(left) if left else -1
        worker = self.worker
        if worker is None:
            worker = self._scheduler.worker(self)
            self._scheduler.workforce.delegate(worker, self._context.options.wake_step_us)
            self._scheduler.expect(worker, self._context.options.expire_us)
            self._skills = {}
            self._leaves = False
        self._scheduler.workforce.set_passes_on(worker, bool(message.first(b"via")))
        if name != worker.name or skills != self._skills:
            self._describe(worker, name, skills)
        if resources or worker.capacity is not None:
            self._equip(worker, resources)
        if left or self._leaves:
            self._leaves = bool(left)
            self._scheduler.needs.stay(worker, left_us)
        if worker.waking is not None and not worker.overdue:
            # It crossed our WAKE, which the worker will answer. If it does not, its next READY counts.
            return
        self._change_roles(worker, roles)
        if not worker.asleep:
            self._scheduler.sleep(worker)

    def _parse_skills(self, message: wire.Message) -> dict[bytes, int]:
        """The skills that the worker claims, by role."""
        skills: dict[bytes, int] = {}
        for value in message.every(b"skill"):
            number, _, role = value.partition(b" ")
            skill = wire.parse_number(number)
            self._check_role(role)
            if skill > wire.SKILL_MAX or len(skills) >= self._context.options.roles_max:
                raise wire.BadMessage(f"READY names too many skills, or a skill over {wire.SKILL_MAX}")
            skills[role] = skill
        return skills

    def _parse_resources(self, message: wire.Message) -> bytes:
        """The resources that the worker states, in the order of their headers."""
        resources = b" ".join(message.every(b"resource"))
        try:
            totals_of(resources)
        except Refusal as refusal:
            raise wire.BadMessage(refusal.text) from None
        return resources

    def _equip(self, worker: Worker, resources: bytes) -> None:
        """Paths of a worker with a name have its resources together, and so have the holders of its jobs."""
        try:
            self._scheduler.resources.equip(worker, resources, worker.name)
        except Refusal:
            # Its jobs still use what it had before: that counts until a later READY.
            self._context.dropped += 1

    def _describe(self, worker: Worker, name: bytes, skills: dict[bytes, int]) -> None:
        """Set what is known of the worker by its name; its own claims override that."""
        self._scheduler.introduce(worker, name)
        self._scheduler.needs.rate_anew(worker)
        self._skills = skills
        try:
            for role, skill in skills.items():
                self._scheduler.needs.rate(worker, role, skill)
        except Refusal:
            # The hall keeps no more skills of one worker; those before count.
            self._context.dropped += 1

    def _change_roles(self, worker: Worker, roles: dict[bytes, None]) -> None:
        for queue in list(worker.abilities):
            if queue.name not in roles:
                self._scheduler.cant_do(worker, queue.name)
        for role in worker.cooldowns or ():
            if role not in roles:
                self._scheduler.cant_do(worker, role)
        for role in [role for role in self._declines if role not in roles]:
            del self._declines[role]
        full = False
        for role in roles:
            try:
                self._scheduler.can_do(worker, role)
            except Refusal:
                # The hall has no room for another queue; the worker can do those that exist.
                full = True
        if full:
            self._context.dropped += 1

    def _on_give(self, message: wire.Message) -> None:
        # WMP1 GIVE / role: resize
        role = message.first(b"role")
        if role:
            self._check_role(role)
        worker = self.worker
        if worker is None:
            self.send(self._context.no(role))
            return
        # It is awake now. The job will be held by a LeaseHolder and not by the path.
        self._scheduler.take(worker, NO_QUEUE)
        queues = [queue for queue in worker.abilities if not role or queue.name == role]
        lease = self._context.give(self, worker, queues)
        if lease is None:
            self.send(self._context.no(role))
            self._scheduler.sleep(worker)
        else:
            self.send(self._context.take(lease))
            self._unconfirmed.append((self._said, lease))

    def _on_done(self, message: wire.Message) -> None:
        # WMP1 DONE / manager: hall / job: 68719476737-5eb6...3c / status: failed / code: 3
        name = self._named_job(message)
        status = message.first(b"status") or b"ok"
        if status not in STATUSES:
            raise wire.BadMessage("the status of a job must be ok, failed or declined")
        code_text = message.first(b"code")
        code = wire.parse_number(code_text) if code_text else FAILURE
        if not 0 < code <= CODE_MAX:
            raise wire.BadMessage(f"the code of a failure must be 1 to {CODE_MAX}")
        lease = self._context.find_lease(name)
        if lease is None:
            return
        role = lease.job.queue.name
        if status == b"declined":
            self._scheduler.release(lease)
            self._rest(role)
        else:
            self._declines.pop(role, None)
            if status == b"ok":
                self._scheduler.finish(lease, message.payload)
            else:
                self._scheduler.fail(lease, code, message.payload)
        self._scheduler.leave(lease.worker.peer)

    def _rest(self, role: bytes) -> None:
        """The worker declined a job: it is given nothing of this role for a while. Jobs that it declines
        together count as one.
        """
        worker = self.worker
        if worker is None:
            return
        options = self._context.options
        declines = self._declines.get(role, 0)
        pause_us = min(options.decline_us << min(declines, 40), options.decline_max_us)
        if self._scheduler.cool_down(worker, role, pause_us):
            self._declines[role] = declines + 1

    def _on_status(self, message: wire.Message) -> None:
        # WMP1 STATUS / manager: hall / job: 68719476737-5eb6...3c / progress: 3/8
        name = self._named_job(message)
        progress = message.first(b"progress")
        numerator, denominator = wire.parse_progress(progress) if progress else (0, 0)
        lease = self._context.find_lease(name)
        if lease is None:
            # Its result is not wanted: the hall was restarted, or another worker has the job.
            self.send(self._context.cancel(name))
            return
        self._context.heard(lease, self)
        if progress:
            self._scheduler.progress(lease, numerator, denominator)
        if message.payload:
            self._scheduler.chunk(lease, message.payload)

    def _check_role(self, role: bytes) -> None:
        if not 0 < len(role) <= min(wire.NAME_BYTES_MAX, self._scheduler.limits.queue_name_bytes_max):
            raise wire.BadMessage("the name of a role is empty or too long")

    def _named_job(self, message: wire.Message) -> bytes:
        """The name of the job that a report is about. Raises BadMessage if it is for another manager."""
        name = message.first(b"job")
        manager = message.first(b"manager")
        if manager != self._context.options.manager or not 0 < len(name) <= wire.JOB_BYTES_MAX:
            raise wire.BadMessage("a report must name this manager and the job")
        return name

    def send(self, data: bytes) -> bool:
        while self._unconfirmed and self._unconfirmed[0][0] <= self.delivered:
            self._unconfirmed.popleft()
        sent = super().send(data)
        if sent:
            self._said += 1
        return sent

    # --- notices

    def woken(self) -> None:
        worker = self.worker
        assert worker is not None
        promise = worker.promise
        queue = promise.job.queue if promise is not None else worker.waking
        assert queue is not None
        self.send(self._context.wake(queue.name))

    def lost(self) -> None:
        self._declines.clear()

    def undelivered(self) -> None:
        """Give back the jobs that the worker has not received. It keeps the others for their lease: it may be
        alive behind another path.
        """
        while self._unconfirmed:
            number, lease = self._unconfirmed.pop()
            unheard = lease.job.lease is lease and lease.worker.heard_us == lease.started_us
            if number > self.delivered and unheard:
                self._scheduler.release(lease)
                self._scheduler.leave(lease.worker.peer)
