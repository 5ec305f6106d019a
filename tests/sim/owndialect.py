"""A dialect of the simulator's own: one JSON object a line, and every verb of the core.

A request gets exactly one answer, in the order of asking; a notice has the key "notice" in front.

    -> {"do":"submit","queue":"q0","payload":"t7","durable":true,"detached":true}
    <- {"created":68719476737}
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hiringhall.core.errors import UNKNOWN_JOB, Refusal
from hiringhall.core.jobs import JobSpec
from hiringhall.core.rules.queue_rules import QueueRules
from hiringhall.core.rules.spacing import Spacing
from hiringhall.core.terms import Terms
from hiringhall.dialects.session import Session

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.leases import Lease
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.dialects.session import Caller

SPACED = b"spaced"
"""The queue of those who debounce and throttle."""
TERMS = (
    "priority",
    "durable",
    "detached",
    "failures_max",
    "backoff_us",
    "losses_max",
    "lease_us",
    "run_us",
    "on_parent_failure",
    "takes_us",
)


def line(**said: Any) -> bytes:
    return json.dumps(said, separators=(",", ":")).encode() + b"\n"


def text_of(data: bytes) -> str:
    """Bytes as JSON can carry them: those of other dialects, as the reason of a cancel, may be no UTF-8."""
    return data.decode(errors="surrogateescape")


def bytes_of(text: str) -> bytes:
    """What `text_of` was made from."""
    return text.encode(errors="surrogateescape")


class Lines:
    """Cuts a stream into lines, however it arrives."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(text) for text in lines]


class OwnSession(Session):
    """One peer of it."""

    def __init__(self, caller: Caller, hall: Scheduler) -> None:
        super().__init__(caller)
        self._hall = hall
        self._lines = Lines()

    def receive(self, data: bytes) -> None:
        if self.worker is not None:
            self._hall.beat(self.worker)
        for request in self._lines.feed(data):
            try:
                self._do(request["do"], request)
            except Refusal as refusal:
                self.send(line(refused=refusal.reason))

    def _do(self, verb: str, request: dict[str, Any]) -> None:
        hall = self._hall
        if verb == "submit":
            self._submit(request)
        elif verb == "watch":
            job = self._job(request)
            hall.watch(job, self)
            self.send(line(ended=job.id) if job.ended else line(watching=job.id))
        elif verb == "unwatch":
            hall.unwatch(self._job(request), self)
            self.send(line(ok=verb))
        elif verb == "cancel":
            job = self._job(request)
            hall.cancel(job, b"asked for")
            self.pledge(line(cancelled=job.id))
        elif verb == "pause":
            hall.pause_queue(request["queue"].encode())
            self.pledge(line(paused=request["queue"]))
        elif verb == "resume":
            hall.resume_queue(request["queue"].encode())
            self.pledge(line(resumed=request["queue"]))
        elif verb in ("limit", "unlimit"):
            queue = request["queue"].encode()
            if verb == "limit":
                hall.ruled_queues.set(queue, QueueRules(**request["rules"]))
            else:
                hall.ruled_queues.clear(queue)
            self.pledge(line(limited=request["queue"]))
        elif verb == "retry":
            job = self._job(request)
            hall.retry(job)
            self.acknowledge(job, line(retried=job.id))
        else:
            self._work(verb, request)

    def _submit(self, request: dict[str, Any]) -> None:
        parents = tuple(
            ref if isinstance(ref, int) else (ref[0].encode(), ref[1].encode())
            for ref in request.get("parents", ())
        )
        terms = Terms(**{name: request[name] for name in TERMS if name in request})
        spec = JobSpec(
            request["queue"].encode(),
            request["payload"].encode(),
            request.get("key", "").encode(),
            terms,
            request.get("due_us", 0),
            parents,
            {name: value.encode() for name, value in request.get("extras", {}).items()} or None,
            spacing=_spacing(request),
        )
        if spec.spacing is not None:
            self._submit_spaced(spec)
            return
        job = self._hall.submit(spec, self if request.get("watched") else None)
        self.acknowledge(job, line(created=job.id), watching=bool(request.get("watched")))

    def _submit_spaced(self, spec: JobSpec) -> None:
        """As at the native door: what a job is replaced with, and a first job that has ended, are on disk
        first.
        """
        live = self._hall.find_key(spec.queue, spec.key)
        throttled = live is None and spec.spacing is not None and spec.spacing.throttle_us
        first = self._hall.throttle_windows.find(spec.queue, spec.key) if throttled else 0
        answering = self._hall.find(first) or self._hall.unwritten(first) if first else None
        if first and answering is None:
            self.pledge(line(created=first))
            return
        job = answering or self._hall.submit(spec, None)
        if job.stored:
            self.pledge(line(created=job.id))
        else:
            self.acknowledge(job, line(created=job.id))

    def _work(self, verb: str, request: dict[str, Any]) -> None:
        hall = self._hall
        worker = hall.worker(self)
        if verb == "take":
            lease = hall.take(worker)
            if lease is not None:
                self.send(line(assigned=_assignment(lease)))
                return
        elif verb == "can_do":
            hall.can_do(worker, request["queue"].encode(), request.get("run_us", 0))
        elif verb == "cant_do":
            hall.cant_do(worker, request["queue"].encode())
        elif verb == "sleep":
            hall.sleep(worker)
        elif verb == "offer":
            hall.offer(worker, request["slots"])
        elif verb == "equip":
            hall.resources.equip(worker, request["resources"].encode())
        elif verb == "expect":
            hall.expect(worker, request["silence_us"])
        elif verb != "beat":
            self._report(verb, request, hall.find_lease(worker, request["id"]))
        self.send(line(ok=verb))

    def _report(self, verb: str, request: dict[str, Any], lease: Lease) -> None:
        hall = self._hall
        if verb == "finish":
            hall.finish(lease, request["result"].encode())
        elif verb == "fail":
            hall.fail(lease, request["code"], request["result"].encode())
        elif verb == "release":
            hall.release(lease)
        elif verb == "progress":
            hall.progress(lease, 1, 2)
        else:
            hall.chunk(lease, request["result"].encode())

    def _job(self, request: dict[str, Any]) -> Job:
        job = self._hall.find(request["id"])
        if job is None:
            raise Refusal(UNKNOWN_JOB, "there is no such job")
        return job

    # --- notices

    def withdrawn(self, job: Job, said: bytes, refusal: Refusal) -> bytes:
        return line(refused=refusal.reason)

    def woken(self) -> None:
        self.send(line(notice="woken"))

    def assigned(self, lease: Lease) -> None:
        self.send(line(notice="assigned", assigned=_assignment(lease)))

    def revoked(self, lease: Lease) -> None:
        self.send(line(notice="revoked", id=lease.job.id))

    def lost(self) -> None:
        self.send(line(notice="lost"))

    def progressed(self, job: Job) -> None:
        self.send(line(notice="progressed", id=job.id))

    def chunked(self, job: Job, data: bytes, warning: bool) -> None:
        self.send(line(notice="chunked", id=job.id))

    def ended(self, job: Job) -> None:
        self.conclude(
            job, line(notice="ended", id=job.id, state=job.state, code=job.code, result=text_of(job.result))
        )


def _spacing(request: dict[str, Any]) -> Spacing | None:
    if "debounce_us" in request:
        return Spacing(debounce_us=request["debounce_us"])
    return Spacing(throttle_us=request["throttle_us"]) if "throttle_us" in request else None


def _assignment(lease: Lease) -> dict[str, Any]:
    job = lease.job
    return {"id": job.id, "queue": job.queue.name.decode(), "payload": text_of(job.payload)}
