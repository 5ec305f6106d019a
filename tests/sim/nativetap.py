"""The tap for peers of the native protocol. Each request with a number has one answer, in any order.

The law: a worker has exactly the leases that it was told of, until it reports or is told to stop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import msgpack

from hiringhall.core.errors import STALE_LEASE, STORE_DOWN, UNKNOWN_JOB, Refusal
from hiringhall.core.states import CANCELLED, DONE, FAILED, STATE_NAMES
from hiringhall.dialects.native import terms as native_terms
from hiringhall.dialects.native import wire

from . import handlaws, retrylaws
from .nativeasked import LAST, REPORTS, Asked
from .sights import Submit
from .taps import Tap
from .world import Violation

if TYPE_CHECKING:
    from msgspec import Raw

    from hiringhall.dialects.session import Session

    from .laws import Laws

_ENDS: Final = {STATE_NAMES[state]: state for state in (DONE, FAILED, CANCELLED)}
_SHOWN: Final = 80


class NativeTap(Tap):
    """A client, a worker, or both."""

    pushed = True

    def __init__(self, number: int, session: Session, laws: Laws) -> None:
        super().__init__(number, session, laws)
        self._requests = wire.Reader()
        self._responses = wire.Reader()
        self._greeted = False
        self._unread = False
        """The hall reads nothing more from it."""
        self._pending: dict[int, Asked] = {}
        self._over: set[int] = set()
        """Leases that it had."""
        self._untold: set[int] = set()
        """Leases that it has guessed, and given up, before it was told of them."""
        self._slots = 0
        """Jobs that it takes at once, as it was confirmed; 0: perhaps none."""
        self._slots_max = 0
        self._blocked = 0
        """Slots that are free again with its next frame."""
        self._drains = False
        """It was told that it gets no more jobs."""
        self._slots_request = 0
        """The number of its latest request for slots."""
        self._refused_ids: set[int] = set()
        """Jobs of submits that the store failed, or that it sent again and no longer watches: what was said of
        them before may still reach it."""
        self._unwatchable: set[int] = set()
        """Jobs that the store failed while its watch of them waited for it. What was said of them meanwhile is
        in the same write, behind the refusal."""
        self._again: dict[int, int] = {}
        """How often it must be told the ends of jobs whose submits it has sent again."""
        self._recalled: dict[int, list[tuple[int, int, bytes]]] = {}
        """Jobs that had ended when it asked to watch them: what it must be told next of their ends."""

    @property
    def unanswered(self) -> int:
        live = self.laws.scheduler.jobs
        again = [job_id for job_id in self._again if job_id not in live and job_id not in self.unwatched]
        return len(self._pending) + sum(self._again[job_id] for job_id in again)

    @property
    def waits_for_a_job(self) -> bool:
        return self._slots > len(self.leases) + self._blocked

    # --- what the hall hears

    def heard(self, data: bytes) -> None:
        super().heard(data)
        self._blocked = 0
        if self._unread:
            return
        for frame in self._requests.feed(data):
            try:
                kind, number, body = wire.decode_frame(frame)
            except wire.BadFrame:
                self._unread = True
                return
            self.note(f"-> {kind} {number} {bytes(body)[:_SHOWN]!r}")
            self._take_in(kind, number, body)
            if self._unread:
                return
        self._unread = bool(self._requests.error)

    def _take_in(self, kind: str, number: int, body: Raw) -> None:
        asked = Asked(kind)
        try:
            if self._greeted:
                asked = self._asked(kind, number, body)
            elif kind == wire.HELLO and _is_welcome(body):
                self._greeted = True
            else:
                self._unread = True
        except (wire.BadBody, Refusal):
            self._unread = self._unread and self._greeted
        if number:
            self._pending[number] = asked

    def _asked(self, kind: str, number: int, body: Raw) -> Asked:
        laws = self.laws
        if kind in REPORTS:
            return self._report(kind, wire.decode(REPORTS[kind], body))
        if kind == wire.SUBMIT:
            watch, specs, again = wire.decode_submit(body)
            submits = self._submits(watch, specs)
            for submit in submits:
                laws.submitted(submit)
            return Asked(kind, submits, again=self._known(submits) if again else None)
        if kind in (wire.WORK, wire.SLOTS):
            return self._offer(kind, number, body)
        if kind in (wire.PAUSE, wire.RESUME):
            return self._pause(kind, wire.decode(wire.QUEUE_BODY, body)[0])
        if kind in (wire.DRAIN, wire.UNDRAIN):
            worker = wire.decode(wire.ID_BODY, body)[0]
            laws.drains.asked(laws, worker, drain=kind == wire.DRAIN)
            return Asked(kind, worker=worker)
        if kind == wire.CANCEL:
            job_id = wire.decode(wire.CANCEL_BODY, body)[0]
            laws.cancelling(job_id)
            return Asked(kind, job_id=job_id)
        if kind == wire.CANCEL_FLOW:
            for job_id in retrylaws.jobs_of_flow(laws, wire.decode(wire.CANCEL_FLOW_BODY, body)[0]):
                laws.cancelling(job_id)
            return Asked(kind)
        if kind == wire.RETRY_FLOW:
            for job_id in retrylaws.jobs_of_flow(laws, wire.decode(wire.FLOW_BODY, body)[0]):
                retrylaws.retrying(laws, job_id, with_flow=True)
            return Asked(kind)
        if kind == wire.WATCH:
            job_id = wire.decode(wire.WATCH_BODY, body)[0]
            laws.see(job_id).watchers.append(self)
            return self._question(kind, job_id)
        if kind in (wire.RETRY, wire.JOB, wire.UNWATCH):
            job_id = wire.decode(wire.ID_BODY, body)[0]
            if kind == wire.RETRY:
                retrylaws.retrying(laws, job_id)
            elif kind == wire.UNWATCH and not number:
                self.unwatched[job_id] = None  # It is not told when that is done.
            return self._question(kind, job_id)
        return Asked(kind)

    def _known(self, submits: tuple[Submit, ...]) -> tuple[bool, ...]:
        names = {(row.queue, row.key) for row in self.laws.mirror.history.values()}
        return tuple((submit.queue, submit.key) in names for submit in submits)

    def _submits(self, watch: int, specs: Any) -> tuple[Submit, ...]:
        now_us = self.laws.now_us
        submits = []
        for queue, payload, stated, key, delay_us, parents in specs:
            terms = native_terms.TermsCache().get(bytes(stated)).terms
            submits.append(
                Submit(
                    self,
                    queue,
                    key,
                    payload,
                    watched=watch > 0,
                    priority=terms.priority,
                    due_us=now_us + delay_us if delay_us else 0,
                    parents=tuple(parents),
                    durable=terms.durable,
                    detached=terms.detached,
                    failures_max=terms.failures_max,
                    backoff_us=terms.backoff_us,
                    losses_max=terms.losses_max,
                    lease_us=terms.lease_us,
                    run_us=terms.run_us,
                    on_parent_failure=terms.on_parent_failure,
                )
            )
        return tuple(submits)

    def _pause(self, kind: str, queue: bytes) -> Asked:
        if kind == wire.PAUSE:
            self.laws.pauses.pausing(queue, self.laws.now_us)
        else:
            self.laws.pauses.resuming(queue, self.laws.now_us)
        return Asked(kind, queue=queue, asked_us=self.laws.now_us)

    def _offer(self, kind: str, number: int, body: Raw) -> Asked:
        self._slots = 0
        self._slots_request = number
        if kind == wire.WORK:
            _, slots, queues, _, silence_us = wire.decode(wire.WORK_BODY, body)
            self.abilities.clear()
            for queue, run_us, _ in queues:
                self.can_do(queue, run_us)
            self.silence_us = silence_us
        else:
            slots = wire.decode(wire.SLOTS_BODY, body)[0]
        self._slots_max = max(self._slots_max, slots)
        return Asked(kind, slots=slots)

    def _question(self, kind: str, job_id: int) -> Asked:
        sight = self.laws.sights.get(job_id)
        row = self.laws.mirror.history.get(job_id)
        steady = sight is not None and not sight.retried
        promised = sight is not None and sight.promised
        dead = row is not None and row.state == FAILED and row.terms.durable
        return Asked(
            kind,
            job_id=job_id,
            ended=steady and row is not None,
            promised=promised,
            dead_since_us=row.ended_us if row is not None and dead else 0,
        )

    def _report(self, kind: str, said: Any) -> Asked:
        laws = self.laws
        lease = said[0]
        job_id = self.leases.get(lease, 0)
        others = [tap for tap in laws.taps.values() if tap is not self and lease in tap.leases]
        if not job_id:
            self._guessed(kind, lease, said)
            return Asked(kind, stale=lease in self._over or len(others) > 0)
        holding = laws.see(job_id).holding
        certain = holding is not None and holding.tap is self and not holding.doubtful
        if kind in LAST:
            del self.leases[lease]
            self._over.add(lease)
        if kind == wire.FINISH:
            laws.finished(self, job_id, said[1])
        elif kind == wire.FAIL:
            laws.failed(self, job_id, retry=said[3])
        elif kind == wire.RELEASE:
            handlaws.released(laws, self, job_id, front=said[1])
        elif kind == wire.RENEW:
            handlaws.renewed(laws, self, job_id)
        elif kind == wire.LOSE:
            handlaws.lost(laws, self, job_id)
        return Asked(kind, job_id=job_id, certain=certain)

    def _guessed(self, kind: str, lease: int, said: Any) -> None:
        """It reports by a number that it was not told. It may have guessed that of a lease that is its own, and
        of which it is told only after a commit.
        """
        worker = self.session.worker
        untold = [one.job.id for one in worker.leases.values() if one.number == lease] if worker else []
        for job_id in untold:
            self.laws.disturbed = True
            if kind in LAST:
                self._untold.add(lease)
            if kind == wire.FINISH:
                self.laws.finished_by_name(self, job_id, said[1])

    # --- what the hall says

    def said(self, data: bytes) -> None:
        self._unwatchable.clear()
        for frame in self._responses.feed(data):
            kind, number, body = msgpack.decode(frame)
            self.note(f"<- {kind} {number} {body!r:.{_SHOWN}}")
            if kind in (wire.OK, wire.ERROR):
                if number:
                    self._answered(kind, number, body)
            elif number:
                raise Violation("wire", f"c{self.number} is told {kind} with the number {number}")
            else:
                self._told(kind, body)

    def _told(self, kind: str, body: Any) -> None:
        laws = self.laws
        if kind == wire.ASSIGN:
            self._assigned(*body)
        elif kind == wire.ENDED:
            self._ended(*body)
        elif kind == wire.REVOKE:
            self._revoked(body[0])
        elif kind == wire.LOST:
            self.silence_us = self._slots = 0
            self._drains = False
            self.abilities.clear()
            if self.leases:
                raise Violation("revoke", f"c{self.number} is lost, and was not told to stop")
            laws.lost(self)
        elif kind == wire.DRAIN:
            if body is self._drains:
                raise Violation("wire", f"c{self.number} is told twice whether it drains: {body}")
            self._drains = body
        elif kind not in (wire.PROGRESS, wire.CHUNK):
            raise Violation("wire", f"c{self.number} is told {kind!r}")
        elif not (
            self.watches.get(body[0])
            or self._again.get(body[0])
            or body[0] in self._refused_ids
            or body[0] in self._unwatchable
        ):
            raise Violation("watch", f"c{self.number} hears {kind} of {body[0]} and does not watch it")

    def _answered(self, kind: str, number: int, body: Any) -> None:
        asked = self._pending.pop(number, None)
        if asked is None:
            raise Violation("one answer", f"c{self.number} gets an answer {number} that it is not owed")
        if kind == wire.ERROR:
            self._refused(asked, *body)
        elif asked.stale:
            raise Violation("lease", f"c{self.number} reports by a lease that it has not, and is told ok")
        elif asked.submits:
            self._created(asked, body)
        elif asked.slots >= 0:
            self._slots = asked.slots if number == self._slots_request else 0
        elif asked.kind == wire.CANCEL:
            self.laws.cancelled(asked.job_id)
        elif asked.kind == wire.PAUSE:
            self.laws.pauses.paused(asked.queue, asked.asked_us, self.laws.now_us)
        elif asked.kind == wire.RESUME:
            self.laws.pauses.resumed(asked.queue)
        elif asked.kind == wire.RETRY:
            retrylaws.retried(self.laws, asked.job_id, asked.dead_since_us)
        elif asked.worker:
            self.laws.drains.answered(asked.worker, self.laws.now_us, drain=asked.kind == wire.DRAIN)
        elif asked.kind == wire.UNWATCH:
            self.watches[asked.job_id] = 0
            if self._again.pop(asked.job_id, 0):
                self._refused_ids.add(asked.job_id)  # It may be on its way from the history.
        elif asked.kind in (wire.JOB, wire.WATCH):
            self._described(asked, body)
        elif asked.kind in LAST:
            self._noted(asked)

    def _refused(self, asked: Asked, code: str, text: str) -> None:
        laws = self.laws
        if asked.certain and code == STALE_LEASE:
            raise Violation("lease", f"c{self.number} has {asked.job_id}, and is told that it has not")
        if code in (UNKNOWN_JOB, wire.NOT_KEPT) and asked.promised and asked.kind in (wire.JOB, wire.WATCH):
            raise Violation("missing", f"c{self.number} asks for {asked.job_id}, which the hall has promised")
        row = laws.mirror.history.get(asked.job_id)
        still_dead = row is not None and row.ended_us == asked.dead_since_us
        if asked.kind == wire.RETRY and still_dead and code in (UNKNOWN_JOB, wire.NOT_KEPT):
            raise Violation("history", f"c{self.number} retries {asked.job_id}, which is a dead letter: {text}")
        if asked.kind == wire.WORK:
            self.abilities.clear()
        if asked.kind == wire.WATCH and code == STORE_DOWN:
            self._unwatchable.add(asked.job_id)
        for submit in asked.submits:
            self._refused_ids.add(laws.find_id(submit.payload))
            if submit.key:
                name = (submit.queue, submit.key)
                named = [sight.id for sight in laws.sights.values() if (sight.queue, sight.key) == name]
                named += [row.id for row in laws.mirror.history.values() if (row.queue, row.key) == name]
                self._refused_ids.update(named)
            job = laws.scheduler.jobs.get(laws.find_id(submit.payload))
            if code != STORE_DOWN and job is not None and job.payload == submit.payload:
                raise Violation("all or none", f"c{self.number} is refused {submit.payload[:9]!r}: {text}")

    def _created(self, asked: Asked, ids: list[int]) -> None:
        laws = self.laws
        if len(ids) != len(asked.submits):
            raise Violation(
                "wire", f"c{self.number} submits {len(asked.submits)} jobs and is told {len(ids)} ids"
            )
        for place, (submit, job_id) in enumerate(zip(asked.submits, ids, strict=True)):
            if asked.again is None or laws.find_id(submit.payload) == job_id:
                if asked.again is not None and asked.again[place]:
                    raise Violation(
                        "again", f"c{self.number} sent {submit.key!r} again, which had ended: it runs"
                    )
                laws.created(submit, job_id)
                continue
            # It lived, or had ended.
            submit.acknowledged = True
            sight = laws.see(job_id)
            if sight.queue and (sight.queue, sight.key) != (submit.queue, submit.key):
                raise Violation("identity", f"c{self.number} is told {job_id} for {submit.key!r}")
            if submit.watched:
                sight.watchers.append(self)
                self._again[job_id] = self._again.get(job_id, 0) + 1

    def _noted(self, asked: Asked) -> None:
        """What was reported of a durable job is on disk before it is confirmed."""
        live = self.laws.mirror.live.get(asked.job_id)
        retried = self.laws.see(asked.job_id).retried
        if asked.certain and asked.kind == wire.FINISH and live is not None and not retried:
            raise Violation("promise", f"the end of {asked.job_id} was confirmed before it was on disk")

    def _assigned(
        self, lease: int, job_id: int, queue: bytes, payload: bytes, key: bytes, attempt: int, run_us: int
    ) -> None:
        del key, attempt
        laws = self.laws
        if lease in self._untold:
            self._untold.remove(lease)
            self._over.add(lease)
            return
        if lease in self.leases or lease in self._over:
            raise Violation("lease", f"c{self.number} is given the lease {lease} twice")
        self.leases[lease] = job_id
        if len(self.leases) > self._slots_max:
            raise Violation("slots", f"c{self.number} is given more jobs than it takes")
        job = laws.scheduler.jobs.get(job_id)
        current = job.lease if job is not None else None
        if current is None or current.number != lease:
            return  # It was taken away while this waited for the disk: a revoke must follow.
        laws.assigned(self, job_id, queue, payload, current.started_us)
        holding = laws.see(job_id).holding
        if holding is not None and holding.run_us != run_us:
            raise Violation("run limit", f"c{self.number} is told a limit of {run_us} us for {job_id}")

    def _revoked(self, lease: int) -> None:
        laws = self.laws
        job_id = self.leases.pop(lease, 0)
        self._blocked += 1
        if not job_id and lease not in self._over:
            raise Violation("revoke", f"c{self.number} is to stop with {lease}, which it never had")
        self._over.add(lease)
        sight = laws.sights.get(job_id)
        if sight is not None and sight.holding is not None and sight.holding.tap is self:
            if not sight.holding.doubtful:
                raise Violation("revoke", f"c{self.number} is to stop with {job_id} for no reason")
            laws.let_lapse(sight)

    # --- how jobs stand

    def _described(self, asked: Asked, job: dict[str, Any]) -> None:
        state = _ENDS.get(job["state"])
        row = self.laws.mirror.history.get(asked.job_id)
        sight = self.laws.see(asked.job_id)
        if job["id"] != asked.job_id:
            raise Violation("identity", f"c{self.number} asks for {asked.job_id} and hears of {job['id']}")
        if state is None:
            if asked.ended and not sight.retried:
                raise Violation("history", f"job {asked.job_id} has ended, and c{self.number} hears it has not")
            if asked.kind == wire.WATCH and not (
                self.watches.get(asked.job_id) or self._again.get(asked.job_id)
            ):
                self.laws.watching(self, asked.job_id)
            return
        end = (state, job["code"], job["result"])
        if asked.kind == wire.WATCH:
            self._recalled.setdefault(asked.job_id, []).append(end)
        if sight.retried:
            return
        if row is not None and end != (row.state, row.code, row.result):
            raise Violation("history", f"the history says otherwise than c{self.number} hears of {row.id}")
        if row is None and sight.promised:
            raise Violation("promise", f"c{self.number} was told an end of {asked.job_id} that is not on disk")

    def _ended(self, job_id: int, state: str, code: int, result: bytes, truncated: bool = False) -> None:
        if truncated and job_id in self.laws.mirror.history:
            raise Violation("history", f"c{self.number} does not hear the whole result of {job_id}")
        recalled = self._recalled.get(job_id)
        if recalled:
            if recalled.pop(0) != (_ENDS[state], code, result):
                raise Violation("history", f"c{self.number} hears two ends of {job_id}")
        elif self._again.get(job_id):
            self._again[job_id] -= 1
            self._ended_before(job_id, (_ENDS[state], code, result))
        elif not self.watches.get(job_id) and job_id in self._refused_ids:
            return  # The history was asked for it before the submit was refused.
        else:
            self.laws.told_end(self, job_id, _ENDS[state], result)

    def _ended_before(self, job_id: int, end: tuple[int, int, bytes]) -> None:
        """It is told what the history says, if that knows the job."""
        row = self.laws.mirror.history.get(job_id)
        sight = self.laws.see(job_id)
        if sight.retried:
            return
        if row is not None and end != (row.state, row.code, row.result):
            raise Violation("history", f"the history says otherwise than c{self.number} hears of {job_id}")
        if row is None and sight.promised:
            raise Violation("promise", f"c{self.number} was told an end of {job_id} that is not on disk")


def _is_welcome(body: Raw) -> bool:
    version = wire.decode(wire.HELLO_BODY, body).get("version")
    return version is not None and wire.decode(wire.VERSION_BODY, version) == wire.VERSION
