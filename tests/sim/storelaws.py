"""What must hold for the store: a second account of it, kept from the batches that were applied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.jobs import OUTPUT, TRIES_KEPT
from hiringhall.core.residents import OUTSIDE
from hiringhall.core.states import CANCELLED, DONE, FAILED, LEASED, LOST
from hiringhall.engine.deadlines import LINGER_US, STARTED_US
from hiringhall.storage.contract import HistoryQuery, Retention

from .dworktap import LocationHolder
from .owndialect import SPACED
from .world import Violation

if TYPE_CHECKING:
    from hiringhall.core.changes import Batch, EndRow, FlowRow, JobRow
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.storage.contract import Store

    from .laws import Laws

HISTORY_MAX = 1_000_000
EXPIRED = b"no worker took it in time"


class Mirror:
    """The live jobs and the history, as they must be on disk."""

    def __init__(self, laws: Laws) -> None:
        self.live: dict[int, JobRow] = {}
        self.history: dict[int, EndRow] = {}
        self.output: dict[int, list[bytes]] = {}
        self._keys: dict[tuple[bytes, bytes], int] = {}
        self._laws = laws

    def apply(self, batch: Batch) -> None:
        """One transaction. Each of its parts must make sense on what is there."""
        ends = {end.id for end in batch.ends}
        for job_id in batch.revived:
            dead = self.history.pop(job_id, None)
            if dead is None or dead.state != FAILED:
                raise Violation("store", f"{job_id} is taken out of the history and is no dead letter")
        for job_id in batch.deletes:
            if job_id not in ends:
                raise Violation("missing", f"job {job_id} is deleted without an end")
            if job_id not in self.live:
                raise Violation("store", f"job {job_id} is deleted and was not there")
            self._forget(job_id)
        for row in batch.inserts:
            self._insert(row)
        for update in batch.updates:
            if update.id not in self.live:
                raise Violation("store", f"job {update.id} is updated and is not there")
            self.live[update.id] = self.live[update.id].updated(update, batch.payloads.get(update.id))
            _is_begun(self.live[update.id])
        for line in batch.output:
            self.output.setdefault(line.job, []).append(line.data)
        for end in batch.ends:
            self._end(end)
        for flow in batch.flows.values():
            if flow is not None:
                self._count_flow(flow)
        for job_id in {line.job for line in batch.output}:
            row = self.live.get(job_id) or self.history.get(job_id)
            if row is None or OUTPUT not in (row.extras or {}):
                raise Violation("output", f"job {job_id} has output on disk and no mark")

    def _count_flow(self, flow: FlowRow) -> None:
        """What a flow counts is what is on disk with it."""
        live = [row.id for row in self.live.values() if row.flow == flow.name]
        if (flow.ended_us > 0) == bool(live):
            raise Violation("flow", f"flow {flow.name!r} has ended, or not, and {len(live)} of its jobs live")
        states = [row.state for row in self.history.values() if row.flow == flow.name]
        counts = (states.count(DONE), states.count(FAILED), states.count(CANCELLED))
        if counts != (flow.done, flow.failed, flow.cancelled):
            raise Violation("flow", f"flow {flow.name!r} counts {flow[3:]}, and the history has {counts}")

    def is_spaced(self, job_id: int) -> bool:
        """It is a debounced or throttled job, which has laws of its own."""
        row = self.live.get(job_id) or self.history.get(job_id)
        return row is not None and row.queue == SPACED

    def _insert(self, row: JobRow) -> None:
        if row.id in self.live or row.id in self.history:
            raise Violation("identity", f"id {row.id} is given to a second job")
        if row.queue == SPACED:
            self.live[row.id] = row
            return
        if row.key:
            other = self._keys.setdefault((row.queue, row.key), row.id)
            if other != row.id:
                raise Violation("key", f"{row.id} and {other} have one key and live both")
        _is_begun(row)
        self.live[row.id] = row
        if row.holder == OUTSIDE:
            self._report(row.id, row.queue, row.key)
            return
        submit = self._laws.submit_of(row.id, row.payload)
        origin = self._laws.origins.get(row.id)
        if submit is None or (origin is not None and row.payload != origin):
            raise Violation("identity", f"job {row.id} is not what anybody submitted")
        sight = self._laws.see(row.id)
        if sight.submit is not None and sight.submit is not submit:
            raise Violation("identity", f"id {row.id} names two jobs")
        sight.made_by(submit)

    def _report(self, job_id: int, queue: bytes, key: bytes) -> None:
        """A task that runs outside is in the store because somebody has told of it."""
        if (queue, key) not in self._laws.reported:
            raise Violation("identity", f"nobody has told of {key!r}, which is job {job_id}")
        sight = self._laws.see(job_id)
        sight.queue, sight.key = queue, key

    def _forget(self, job_id: int) -> None:
        row = self.live.pop(job_id)
        if row.key and row.queue != SPACED:
            del self._keys[row.queue, row.key]

    def _end(self, end: EndRow) -> None:
        if end.queue == SPACED:
            self.history[end.id] = end
            return
        sight = self._laws.see(end.id)
        if end.id in self.history and not sight.retried:
            raise Violation("one end", f"job {end.id} has a second end in the history")
        if end.id in self.live:
            raise Violation("store", f"job {end.id} has ended and is live too")
        kept = Retention().payload_bytes_max
        if end.state != FAILED and len(end.payload) > kept:
            end = end._replace(payload=end.payload[:kept], payload_cut=len(end.payload))
        self.history[end.id] = end
        if (end.queue, end.key) in self._laws.reported and not sight.queue:
            self._report(end.id, end.queue, end.key)
        if end.state == DONE:
            sight.succeeded = sight.succeeded_surely = True
        elif not sight.retried:
            sight.succeeded = sight.succeeded_surely = False
        # Otherwise its end was on its way to the disk when it was retried: it may have succeeded since.
        if end.state == DONE:
            self._laws.results.check(sight, end.result)
        losses_max = end.terms.losses_max
        if (losses_max and end.losses > losses_max) or (end.code == LOST and end.losses < losses_max):
            raise Violation("losses", f"job {end.id} ended after {end.losses} losses of {losses_max}")
        if end.state == DONE and len(end.tries) != min(end.attempts - 1, TRIES_KEPT):
            raise Violation(
                "tries", f"job {end.id} had {end.attempts} attempts, and {end.tries} are remembered"
            )
        if end.result == EXPIRED and end.ended_us - end.created_us < end.terms.expire_us:
            raise Violation("expiry", f"job {end.id} had no time to be taken")

    def has_holders(self, sealed_us: int) -> None:
        """What somebody had for a while when a batch was made is on disk as begun; what a location had, as its
        own.
        """
        for sight in self._laws.sights.values():
            holding = sight.holding
            if holding is None or holding.doubtful:
                continue
            row = self.live.get(sight.id)
            noted = row is None or row.state == LEASED or not holding.begun
            if not noted and holding.since_us + STARTED_US <= sealed_us:
                raise Violation("begun", f"{sight.id} has been with c{holding.tap.number} for long, unnoted")
            if not isinstance(holding.tap, LocationHolder):
                continue
            old = holding.since_us + LINGER_US <= sealed_us
            if old and row is not None and row.holder != holding.tap.name:
                raise Violation("holder", f"{sight.id} is {holding.tap.name!r}'s, and not so on disk")

    def agrees_with_store(self, store: Store) -> None:
        """The store holds what it was given, row by row."""
        live = {row.id: row for row in store.live()}
        history = {row.id: row for row in store.history(HistoryQuery(limit=HISTORY_MAX))}
        if live != self.live or history != self.history:
            raise Violation("store", "the store does not hold what was committed to it")
        for job_id, lines in self.output.items():
            if [line.data for line in store.output(job_id, 0).lines] != lines:
                raise Violation("output", f"the output of job {job_id} is not what was committed")

    def agrees_with_hall(self, scheduler: Scheduler) -> None:
        """Nothing is under way: the hall's durable jobs are those on disk."""
        durable = [job_id for job_id, job in scheduler.jobs.items() if job.terms.durable]
        for job_id in durable:
            if job_id not in self.live:
                raise Violation("missing", f"job {job_id} lives in the hall and is not on disk")
        for job_id in durable:
            lease = scheduler.jobs[job_id].lease
            resident = lease.worker.name if lease is not None and lease.worker.resident is not None else b""
            if resident != self.live[job_id].holder:
                raise Violation(
                    "holder", f"{job_id} is {resident!r}'s, and {self.live[job_id].holder!r}'s on disk"
                )
        if len(durable) != len(self.live):
            missing = [job_id for job_id in self.live if job_id not in scheduler.jobs]
            raise Violation("missing", f"jobs {missing} are live on disk and not in the hall")


def _is_begun(row: JobRow) -> None:
    """On disk nobody has a job who has not begun with it."""
    if row.state == LEASED and not row.attempts:
        raise Violation("attempt", f"job {row.id} is with a worker on disk, and nobody has begun")
