"""Turns the reports of the core, the sessions and the transports into log records.

Invariant: an event that is only counted creates no record, and one below the log level costs almost nothing.
Every event is counted.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from hiringhall.dialects.session import Caller, Reporter, Session
from hiringhall.logs.lines import EVENT_ATTRIBUTE, FIELDS_ATTRIBUTE
from hiringhall.logs.repeats import Repeats, Topic

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.workers import Worker

EVENT_LINES_MAX: Final = 5
"""Events of one kind at one door that get their own line within a window; the rest is counted."""
JOBS_LISTED: Final = 100
"""Jobs that one line names."""

DEAD_LETTER: Final = "dead_letter"
LOST_WORKER: Final = "lost_worker"
SLOW_COMMIT: Final = "slow_commit"
UNKNOWN_COMMIT: Final = "unknown_commit"
SETTLED_COMMIT: Final = "settled_commit"
UNSETTLED_COMMIT: Final = "unsettled_commit"
PAUSE: Final = "pause"
_NOBODY: Final = Caller("", -1)

_log = logging.getLogger("hiringhall")


class Events(Reporter):
    """Writes a record for each event, up to a limit for each kind."""

    def __init__(self, repeats: Repeats) -> None:
        super().__init__()
        self._repeats = repeats
        self._muted = False
        self.counts: dict[tuple[str, str], int] = {}
        """How often each event has happened, written or not, by its kind and the name of the door."""

    def mute(self) -> None:
        """The hall closes: workers that it disconnects itself are not reported as lost."""
        self._muted = True

    def dead_letter(self, job: Job, worker: Worker | None) -> None:
        session = _session_of(worker)
        caller = session.caller if session is not None else _NOBODY
        topic = Topic(logging.WARNING, DEAD_LETTER, "dead letter", caller.door, job.queue.name)
        if self._admits(topic):
            text = f"failed for good with code {job.code} after {_counted(job.attempts, 'attempt')}"
            fields = _job_fields(job, session) | _worker_fields(worker)
            self._write(topic, f"{text}: {_first_line(job.result)}" if job.result else text, caller, fields)

    def worker_lost(self, worker: Worker, job: Job | None, reason: bytes = b"") -> None:
        session = _session_of(worker)
        caller = session.caller if session is not None else _NOBODY
        queue = job.queue.name if job is not None else b""
        topic = Topic(
            logging.WARNING if job is not None else logging.INFO, LOST_WORKER, "lost worker", caller.door, queue
        )
        if not self._admits(topic):
            return
        if job is None:
            self._write(topic, "it was silent for too long; it held no job", caller, _worker_fields(worker))
        else:
            losses = _counted(job.losses, "worker")
            fields = _job_fields(job, session) | _worker_fields(worker)
            said = _first_line(reason) if reason else "it disconnected or was silent while it held a job"
            self._write(topic, f"{said}; the job has lost {losses} so far", caller, fields)

    def report(self, kind: str, text: str, caller: Caller, queue: bytes = b"", key: bytes = b"") -> None:
        topic = Topic(logging.WARNING, kind, kind.replace("_", " "), caller.door)
        if self._admits(topic):
            fields: dict[str, str | bytes] = {}
            if queue:
                fields["queue"] = queue
            if key:
                fields["key"] = key
            self._write(topic, text, caller, fields)

    def slow_commit(self, took_us: int, changes: int) -> None:
        topic = Topic(logging.WARNING, SLOW_COMMIT, "slow commit")
        if self._admits(topic):
            text = f"the store took {took_us / 1_000_000:.1f} s for {_counted(changes, 'change')}"
            self._write(topic, text, _NOBODY, {"seconds": f"{took_us / 1_000_000:.3f}"})

    def unknown_commit(self, changes: int) -> None:
        topic = Topic(logging.WARNING, UNKNOWN_COMMIT, "unknown commit")
        if self._admits(topic):
            text = f"a commit of {_counted(changes, 'change')} is stored or not; answers wait until it is known"
            self._write(topic, text, _NOBODY, {"changes": str(changes)})

    def settled_commit(self, changes: int, *, kept: bool) -> None:
        topic = Topic(logging.WARNING, SETTLED_COMMIT, "settled commit")
        if self._admits(topic):
            stored = "stored" if kept else "not stored"
            text = f"the unknown commit of {_counted(changes, 'change')} is {stored}"
            self._write(topic, text, _NOBODY, {"changes": str(changes), "kept": str(kept).lower()})

    def unsettled_commit(self, job_ids: list[int]) -> None:
        """Each job is named, in lines of a readable length: a person has to look for them."""
        topic = Topic(logging.ERROR, UNSETTLED_COMMIT, "unsettled commit")
        if self._admits(topic):
            for first in range(0, len(job_ids), JOBS_LISTED):
                listed = ", ".join(map(str, job_ids[first : first + JOBS_LISTED]))
                text = "the hall closes, and the last changes of these jobs may be stored or not"
                self._write(topic, f"{text}: {listed}", _NOBODY, {})

    def paused(self, paused_us: int) -> None:
        topic = Topic(logging.WARNING, PAUSE, "pause")
        if self._admits(topic):
            seconds = paused_us / 1_000_000
            text = f"the hall or its machine was stopped for {seconds:.1f} s; all deadlines move by that time"
            self._write(topic, text, _NOBODY, {"seconds": f"{seconds:.3f}"})

    def _admits(self, topic: Topic) -> bool:
        """Count an event; whether it is written."""
        counted = topic.event, topic.door
        self.counts[counted] = self.counts.get(counted, 0) + 1
        return (
            not self._muted and _log.isEnabledFor(topic.level) and self._repeats.admit(topic, EVENT_LINES_MAX)
        )

    def _write(self, topic: Topic, text: str, caller: Caller, fields: dict[str, str | bytes]) -> None:
        named: dict[str, str | bytes] = {}
        if caller.door:
            named["door"] = caller.door
        if peer := peer_name(caller):
            named["peer"] = peer
        extra = {EVENT_ATTRIBUTE: topic.event, FIELDS_ATTRIBUTE: named | fields}
        _log.log(topic.level, "%s: %s", topic.text, text, extra=extra)


def peer_name(caller: Caller) -> str:
    """The address and port of a peer, and its ZeroMQ identity if it has one."""
    name = caller.name
    if caller.route:
        identity = caller.route[0]
        shown = identity.decode() if identity.isascii() and identity.decode().isprintable() else identity.hex()
        name += f"/{shown}"
    return name


def _session_of(worker: Worker | None) -> Session | None:
    speaker = worker.peer.speaker if worker is not None else None
    return speaker if isinstance(speaker, Session) else None


def _job_fields(job: Job, session: Session | None) -> dict[str, str | bytes]:
    handle = session.job_handle(job) if session is not None else b"%d" % job.id
    fields: dict[str, str | bytes] = {"queue": job.queue.name, "handle": handle}
    if job.key:
        fields["key"] = job.key
    return fields


def _worker_fields(worker: Worker | None) -> dict[str, str | bytes]:
    return {"worker": worker.name} if worker is not None and worker.name else {}


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _first_line(data: bytes) -> str:
    """The error without the traceback that may follow. The history has all of it."""
    return data[:400].partition(b"\n")[0].decode("utf-8", "backslashreplace")
