"""The submits of one native connection: all jobs of a request or none, and requests that are sent again.

A client that has lost its connection does not know whether its last submits arrived. It sends them again, with
the keys that they had. A job of such a key that lives is joined. One that has ended, as memory or the history
knows, is not submitted a second time: its id is the answer, and a watcher is told its end. A client that wants
jobs that failed or were cancelled to run again says so (`unless_done`). Jobs with debounce or throttle, whose
keys are used again and again, are submitted as if for the first time.

Invariant: only a request that is sent again waits for the history, and it changes nothing until the history has
answered.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from hiringhall.core.errors import BAD_REQUEST, HALL_FULL, STORE_DOWN, Refusal
from hiringhall.core.jobs import Job, JobSpec
from hiringhall.core.rules.debouncing import content_of
from hiringhall.core.rules.spacing import is_debounced
from hiringhall.core.states import CALLED_OFF, CANCELLED, DONE, STATE_NAMES
from hiringhall.core.timers import NEVER
from hiringhall.dialects.native import describing, wire
from hiringhall.dialects.session import REFUSED_SUBMIT

if TYPE_CHECKING:
    from msgspec import Raw

    from hiringhall.core.changes import EndRow
    from hiringhall.core.jobs import ParentRef
    from hiringhall.core.rules.debouncing import Content
    from hiringhall.dialects.native.context import NativeContext
    from hiringhall.dialects.native.session import NativeSession

ENDS: Final = 1
"""The level of a watch that hears of the end only; above it, of progress, chunks and log lines too."""
ENDS_ASKED_MAX: Final = 64
"""Ends for watchers that are looked up in the history at once."""
ENDS_BYTES_MAX: Final = 1 << 20
"""With more output than this, further requests for the same ended job are answered in a later turn. They may be
thousands, and each answer has the whole result."""
UNTOLD_MAX: Final = 100_000
"""While more ends than this are still to be told to a connection, it cannot submit jobs again."""


class Request:
    """A submit that waits for the history."""

    __slots__ = ("asked", "came_us", "found", "number", "size", "specs", "unless_done", "watch")

    def __init__(
        self, number: int, watch: int, specs: list[wire.JobSpecBody], unless_done: bool, size: int, came_us: int
    ) -> None:
        self.number = number
        self.came_us = came_us
        """When it came: delays count from then."""
        self.watch = watch
        self.specs = specs
        self.unless_done = unless_done
        """Jobs that ended without success run again."""
        self.size = size
        self.asked: dict[ParentRef, None] = {}
        """The keys that the history was asked for."""
        self.found: dict[ParentRef, EndRow] = {}


class Submits:
    """What the submits of one session wait for. The session is passed to each method, and not kept."""

    __slots__ = ("_context", "_ends_asked", "_ends_wanted", "_requests", "_ticket", "_untold", "waiting_bytes")

    def __init__(self, context: NativeContext) -> None:
        self._context = context
        self._ticket = 0
        self._requests: dict[int, Request] = {}
        """Submits that wait for the history, by ticket."""
        self.waiting_bytes = 0
        """Their bytes."""
        self._ends_wanted: deque[tuple[int, int, int]] = deque()
        """Ended jobs whose watcher is to be told, once the history has been asked for the result: id, state and
        code."""
        self._ends_asked: dict[int, list[tuple[int, int]]] = {}
        """The state and code of those that are being looked up, by id; for each watch one."""
        self._untold = 0
        """How many watches there are in both."""

    def submit(self, session: NativeSession, number: int, body: Raw) -> None:
        # [1, [["resize", "...", {"retries": 3}, "cat.jpg", 0, []]]]
        watch, specs, again = wire.decode_submit(body)
        if not 0 < len(specs) <= wire.JOBS_MAX:
            raise Refusal(BAD_REQUEST, f"a submit must have 1 to {wire.JOBS_MAX} jobs")
        if again:
            now_us = self._context.scheduler.now_us
            size = len(memoryview(body))
            request = Request(number, watch, specs, again == wire.UNLESS_DONE, size, now_us)
            self._submit_again(session, request)
        else:
            self._enter(session, number, watch, specs, None, self._context.scheduler.now_us)

    def _submit_again(self, session: NativeSession, request: Request) -> None:
        scheduler = self._context.scheduler
        if self._untold > UNTOLD_MAX:
            raise Refusal(HALL_FULL, f"{self._untold} ends are still to be told to this connection")
        for _, _, _, key, _, _ in request.specs:
            if not key:
                raise Refusal(BAD_REQUEST, "each job of a submit that is sent again must have a key")
        unknown = self._unknown(request)
        if not unknown or scheduler.archive.complete:
            self._enter_again(session, request)
            return
        if scheduler.store_trouble:
            raise Refusal(STORE_DOWN, scheduler.store_trouble)
        lookups_max = self._context.options.lookups_max
        if len(self._requests) >= lookups_max:
            text = f"{lookups_max} submits of this connection wait for the history (lookups_max)"
            raise Refusal(HALL_FULL, text)
        self._look_up(session, request, unknown)

    def _unknown(self, request: Request) -> dict[ParentRef, None]:
        """The keys of jobs that are not in memory, and that the history was not asked for."""
        scheduler = self._context.scheduler
        unknown: dict[ParentRef, None] = {}
        for queue, _, _, key, _, _ in request.specs:
            if (
                (queue, key) not in request.asked
                and scheduler.find_key(queue, key) is None
                and scheduler.archive.find_key(queue, key) is None
            ):
                unknown[queue, key] = None
        return unknown

    def _look_up(self, session: NativeSession, request: Request, unknown: dict[ParentRef, None]) -> None:
        self._ticket += 1
        self._requests[self._ticket] = request
        self.waiting_bytes += request.size
        request.asked.update(unknown)
        self._context.look_up_keys(session, self._ticket, list(unknown))

    def keys_looked_up(
        self, session: NativeSession, ticket: int, found: dict[ParentRef, EndRow], trouble: str
    ) -> None:
        """The history has answered what a submit waits for."""
        request = self._requests.pop(ticket)
        self.waiting_bytes -= request.size
        if trouble:
            session.refuse(request.number, STORE_DOWN, trouble)
            return
        request.found.update(found)
        unknown = self._unknown(request)
        if unknown:
            # They were in memory when the others were asked for, and have left it since.
            self._look_up(session, request, unknown)
            return
        try:
            self._enter_again(session, request)
        except Refusal as refusal:
            session.refuse(request.number, refusal.reason, refusal.text)

    def _enter_again(self, session: NativeSession, request: Request) -> None:
        self._enter(
            session,
            request.number,
            request.watch,
            request.specs,
            request.found,
            request.came_us,
            unless_done=request.unless_done,
        )

    def _enter(
        self,
        session: NativeSession,
        number: int,
        watch: int,
        specs: list[wire.JobSpecBody],
        known: dict[ParentRef, EndRow] | None,
        came_us: int,
        *,
        unless_done: bool = False,
    ) -> None:
        """Submit all of them, or none, apart from those that run again. `known` is what the history has of a
        submit that is sent again; None: it is sent for the first time.
        """
        scheduler = self._context.scheduler
        watcher = session if watch else None
        ids: list[int] = []
        jobs: list[Job] = []
        created: list[Job] = []
        joined: list[tuple[Job, Content]] = []
        replaced: dict[int, None] = {}
        ended: list[Job] = []
        rows: list[EndRow] = []
        gone: list[int] = []
        again = 0
        durable: bool | None = None
        try:
            for queue, payload, data, key, delay_us, parents in specs:
                stated = self._context.terms.get(bytes(data))
                terms = stated.terms
                if durable is None:
                    durable = terms.durable
                elif durable != terms.durable:
                    # If the commit fails, all of them must go.
                    raise Refusal(BAD_REQUEST, "the jobs of one submit must be all durable, or all not")
                live = scheduler.find_key(queue, key) if key else None
                due_us = came_us + delay_us if delay_us else NEVER
                spec = JobSpec(
                    queue,
                    payload,
                    key,
                    terms,
                    due_us,
                    tuple(parents),
                    stated.extras,
                    stated.flow,
                    stated.spacing,
                )
                if live is not None:
                    if stated.spacing is not None and is_debounced(live):
                        replaced[live.id] = None
                    joined.append((live, content_of(live)))
                elif first := self._throttled_by(spec):
                    # As if it was sent again: the first one answers, though it has ended.
                    archived = scheduler.find(first) or scheduler.unwritten(first)
                    if archived is not None:
                        ended.append(archived)
                    else:
                        gone.append(first)
                    ids.append(first)
                    continue
                elif known is not None and stated.spacing is None:
                    archived = scheduler.archive.find_key(queue, key)
                    row = known.get((queue, key)) if archived is None else None
                    if unless_done:
                        failed = self._run_again(spec, archived, row, watcher)
                        if failed is not None:
                            jobs.append(failed)
                            ids.append(failed.id)
                            again += 1
                            continue
                    if archived is not None and (archived.state == DONE or not unless_done):
                        ended.append(archived)
                        ids.append(archived.id)
                        continue
                    if row is not None and (row.state == DONE or not unless_done):
                        rows.append(row)
                        ids.append(row.id)
                        continue
                job = scheduler.submit(spec, watcher)
                jobs.append(job)
                ids.append(job.id)
                if live is None:
                    created.append(job)
        except (wire.BadBody, Refusal) as error:
            self._take_back(session, jobs, created, joined, watching=watch > 0)
            reason = error.reason if isinstance(error, Refusal) else BAD_REQUEST
            text = error.text if isinstance(error, Refusal) else str(error)
            place = len(ids)
            queue, key = specs[place][0], specs[place][3]
            session.report(REFUSED_SUBMIT, text, queue, key)
            others = f"apart from {again} that run again, none" if again else "none"
            rest = (
                f" (job {place + 1} of {len(specs)}; {others} of them was submitted)" if len(specs) > 1 else ""
            )
            raise Refusal(reason, text + rest) from error
        if watch > ENDS:
            session.streamed.update([job.id for job in jobs])
        if number:
            unstored = [job for job in jobs if job.terms.durable and (not job.stored or job.id in replaced)]
            unstored += [job for job in ended if job.terms.durable and not job.stored and not job.logged]
            # If the commit fails, the others are refused with those that it had.
            pledged = jobs + ended if unstored else unstored
            session.acknowledge_all(pledged, wire.encode(wire.OK, number, ids), watching=watch > 0)
        if watch and (ended or rows or gone):
            self._tell_ends(session, ended, rows, gone)

    def _throttled_by(self, spec: JobSpec) -> int:
        """The job that answers for a throttled key, if the submit heeds it; 0: none."""
        if spec.spacing is None or not spec.spacing.throttle_us:
            return 0
        return self._context.scheduler.throttle_windows.find(spec.queue, spec.key)

    def _run_again(
        self, spec: JobSpec, archived: Job | None, row: EndRow | None, watcher: NativeSession | None
    ) -> Job | None:
        """Run the job of this key again, if it is known, is not done, and can be told to run; else None."""
        retries = self._context.scheduler.retries
        job = retries.recorded(row) if row is not None and row.state != DONE else archived
        if job is None or not retries.can_run_again(job, spec):
            return None
        retries.run_again(job, spec, watcher)
        return job

    def _take_back(
        self,
        session: NativeSession,
        jobs: list[Job],
        created: list[Job],
        joined: list[tuple[Job, Content]],
        *,
        watching: bool,
    ) -> None:
        """Undo a submit of which one job was refused."""
        scheduler = self._context.scheduler
        if watching:
            for job in jobs:
                scheduler.watchers.unwatch_once(job, session)
        for job, content in reversed(joined):
            scheduler.submissions.leave_join(job, content)
        for job in reversed(created):
            scheduler.submissions.take_back(job)

    # --- jobs that ended before they were sent again

    def _tell_ends(self, session: NativeSession, ended: list[Job], rows: list[EndRow], gone: list[int]) -> None:
        """Tell the watcher how they ended. The result of a job whose end is in the history is only there. Of
        those that are `gone` only the ids are known; if the history has dropped them, they count as cancelled.
        """
        before = len(self._ends_wanted)
        for job in ended:
            if job.logged:
                self._ends_wanted.append((job.id, job.state, job.code))
            else:
                # Its end is about to be stored, or was never durable: then its result is not kept.
                unkept = job.state == DONE and self._context.scheduler.unwritten(job.id) is None
                body = describing.end_body(job.id, STATE_NAMES[job.state], job.code, job.result, unkept)
                session.conclude(job, wire.encode(wire.ENDED, 0, body))
        for row in rows:
            self._ends_wanted.append((row.id, row.state, row.code))
        for job_id in gone:
            self._ends_wanted.append((job_id, CANCELLED, CALLED_OFF))
        self._untold += len(self._ends_wanted) - before
        self._ask_for_ends(session)

    def _ask_for_ends(self, session: NativeSession) -> None:
        wanted = self._ends_wanted
        asked = self._ends_asked
        while wanted and len(asked) < ENDS_ASKED_MAX:
            job_id, state, code = wanted.popleft()
            watches = asked.get(job_id)
            if watches is None:
                asked[job_id] = [(state, code)]
                self._context.look_up(session, job_id)
            else:
                watches.append((state, code))

    def end_looked_up(self, session: NativeSession, job_id: int, line: EndRow | None, trouble: str) -> None:
        """The history has answered: tell the watcher, if one waits for this end."""
        watches = self._ends_asked.pop(job_id, None)
        if watches is None:
            return
        if trouble:
            # The peer would wait for ever; it connects again and asks again.
            session.break_off(f"the end of job {job_id} cannot be read: {trouble}", STORE_DOWN)
            return
        live = self._context.scheduler.jobs.get(job_id)
        for place, (state, code) in enumerate(watches):
            if place and session.out_bytes > ENDS_BYTES_MAX:
                rest = [(job_id, state, code) for state, code in reversed(watches[place:])]
                self._ends_wanted.extendleft(rest)
                break
            self._untold -= 1
            if live is not None:
                # A dead letter that was retried while the history was asked.
                try:
                    self._context.scheduler.watch(live, session)
                except Refusal as refusal:
                    # The submit was answered, and its watcher would wait for ever; see above.
                    session.break_off(f"job {job_id} cannot be watched: {refusal.text}", refusal.reason)
                    return
            elif line is not None:
                session.tell_end(job_id, line.state, line.code, line.result, describing.is_cut(line))
            else:
                session.tell_end(job_id, state, code, b"", state == DONE)
        self._ask_for_ends(session)
