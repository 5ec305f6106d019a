"""Random lives of a hall: any verbs in any order, with a disk that fails and a hall that dies.

Checked after each step: the audit; every answer against a plain model; that nothing acknowledged is
missing. At the end the faults stop, and everything must drain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hall_recorder import SECOND_US, Disk, Hall, Person, defer, name_of
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from unconnected_rules import KEYS, LIMITS, QUEUES, UnconnectedRules

from hiringhall.core.errors import BAD_REQUEST, CYCLE, STORE_DOWN, WRONG_STATE, Refusal
from hiringhall.core.states import CANCELLED, DELAYED, DONE, FAILED, HELD, LEASED, QUEUED
from hiringhall.core.terms import FAIL_WITH_PARENT, HIGH, HOLD, LOW, RUN_ANYWAY, Terms

if TYPE_CHECKING:
    from hiringhall.core.changes import Batch
    from hiringhall.core.jobs import Job, ParentRef
    from hiringhall.core.leases import Lease
    from hiringhall.core.workers import Worker


NUMBERS = st.integers(0, 50)
PARENTS = st.lists(st.one_of(NUMBERS, st.tuples(st.sampled_from(QUEUES), st.sampled_from(KEYS))), max_size=3)
"""By id or by name; the live and the ended, the known and the unknown."""
PAUSES = st.sampled_from([1, 10, SECOND_US // 2, SECOND_US, 10 * SECOND_US])


class HallMachine(UnconnectedRules):
    """Clients and workers of one hall, and the model of what they may expect."""

    @initialize()
    def open(self) -> None:
        self.hall = Hall(LIMITS)
        self.core = self.hall.core
        self.disk = Disk()
        self.batch: Batch | None = None
        self.clients: list[Person] = []
        self.workers: list[Person] = []
        self.leases: list[Lease] = []
        """Every lease ever given out in this boot: most are stale."""
        self.acknowledged: dict[int, Job | None] = {}
        """Durable jobs that are on disk: they end, or they are there."""
        self.ends: dict[int, tuple[int, int]] = {}
        """How and when a job ended, as first seen."""
        self.refusals: list[tuple[str, bool]] = []
        """Why submits were refused, and whether they were for durable jobs."""
        self.denials: list[tuple[str, int, bool]] = []
        self.seen: dict[int, None] = {}
        """Every job there ever was."""
        self.detoured: dict[int, None] = {}
        """Jobs that were once held or delayed: they stand in their lane by when they became ready."""
        self.number = 0
        self.open_unconnected()
        for number in range(3):
            self.clients.append(self.hall.person(f"client {number}"))
            self.workers.append(self.hall.worker(f"worker {number}", *QUEUES[: number + 1]))

    # --- clients

    @rule(
        queue=st.sampled_from(QUEUES),
        key=st.sampled_from(("", "", *KEYS)),
        priority=st.integers(HIGH, LOW),
        durable=st.booleans(),
        watched=st.booleans(),
        delay_us=st.sampled_from([0, 0, 0, 10, SECOND_US]),
        failures_max=st.integers(0, 2),
        limited=st.booleans(),
        client=st.integers(0, 2),
        parents=PARENTS,
        expire_us=st.sampled_from([0, 0, 10, SECOND_US]),
        logged=st.booleans(),
        policy=st.sampled_from([FAIL_WITH_PARENT, RUN_ANYWAY, HOLD]),
    )
    def submit(
        self,
        queue: str,
        key: str,
        priority: int,
        durable: bool,
        watched: bool,
        delay_us: int,
        failures_max: int,
        limited: bool,
        client: int,
        parents: list[int | tuple[str, str]],
        policy: int,
        expire_us: int,
        logged: bool,
    ) -> None:
        refs = self._refs(parents)
        terms = Terms(
            priority=priority,
            durable=durable,
            detached=durable or not watched,
            failures_max=failures_max,
            backoff_us=SECOND_US,
            losses_max=3,
            lease_us=SECOND_US if limited else 0,
            run_us=5 * SECOND_US if limited else 0,
            on_parent_failure=policy,
            expire_us=expire_us,
            logged=logged,
        )
        self.number += 1
        watcher = self.clients[client] if watched or not durable else None
        before = self.core.find_key(queue.encode(), key.encode()) if key else None
        try:
            job = self.hall.submit(
                str(self.number),
                queue,
                by=watcher,
                key=key,
                terms=terms,
                due_us=self.core.now_us + delay_us if delay_us else 0,
                parents=tuple(refs),
            )
        except Refusal as refusal:
            self.refusals.append((refusal.reason, durable))
            return
        self.seen[job.id] = None
        assert before is None or job is before
        assert watcher is None or job in watcher.watching
        if before is None:
            waits = [ref for ref in refs if not self._met(ref, policy)]
            assert (job.state == HELD) == bool(waits)

    @rule(number=NUMBERS, parents=PARENTS, give_back=st.booleans())
    def depend(self, number: int, parents: list[int | tuple[str, str]], give_back: bool) -> None:
        jobs = list(self.core.jobs.values())
        if not jobs:
            return
        job = jobs[number % len(jobs)]
        refs = self._refs(parents)
        before, due_us, lease, waited = job.state, job.due_us, job.lease, dict(job.parents or {})
        unmet = [ref for ref in refs if not self._met(ref, job.terms.on_parent_failure)]
        deferred = give_back and lease is not None
        try:
            if give_back and lease is not None:
                defer(self.core, lease, tuple(refs))
            else:
                self.core.dependencies.depend(job, tuple(refs))
        except Refusal as refusal:
            self.denials.append((refusal.reason, QUEUED if deferred else before, job.terms.durable))
            assert (job.state, job.due_us, job.lease, job.parents or {}) == (before, due_us, lease, waited)
            return
        if job.state != CANCELLED:
            assert before < LEASED or deferred or not unmet
            assert job.state == (HELD if unmet else QUEUED if deferred else before)
            assert waited.items() <= (job.parents or {}).items()

    def _refs(self, parents: list[int | tuple[str, str]]) -> list[ParentRef]:
        refs: list[ParentRef] = []
        known = [job_id for job_id in self.seen if self.core.find(job_id) is not None]
        for parent in parents:
            if isinstance(parent, int):
                refs += [known[-1 - parent % len(known)]] if known else []
            else:
                refs.append((parent[0].encode(), parent[1].encode()))
        return refs

    def _met(self, ref: ParentRef, policy: int) -> bool:
        if isinstance(ref, int):
            parent = self.core.find(ref)
        else:
            parent = self.core.find_key(*ref) or self.core.archive.find_key(*ref)
        if parent is None:
            return False
        return parent.state == DONE or (parent.ended and policy == RUN_ANYWAY)

    @rule(client=st.integers(0, 2), number=NUMBERS)
    def watch(self, client: int, number: int) -> None:
        jobs = list(self.core.jobs.values())
        if jobs:
            job = jobs[number % len(jobs)]
            if len(job.watchers or ()) < LIMITS.watchers_max:
                self.core.watch(job, self.clients[client])

    @rule(client=st.integers(0, 2), number=NUMBERS)
    def unwatch(self, client: int, number: int) -> None:
        watched = list(self.clients[client].watching)
        if watched:
            job = watched[number % len(watched)]
            self.core.unwatch(job, self.clients[client])
            assert job not in self.clients[client].watching

    @rule(number=NUMBERS)
    def cancel(self, number: int) -> None:
        jobs = list(self.core.jobs.values())
        if jobs:
            job = jobs[number % len(jobs)]
            self.core.cancel(job, b"changed my mind")
            assert job.state == CANCELLED

    @rule(client=st.integers(0, 2))
    def client_leaves(self, client: int) -> None:
        self.core.leave(self.clients[client])
        assert self.clients[client].watching == {}
        self.clients[client] = self.hall.person("client again")

    @rule(number=st.integers(0, 20))
    def retry(self, number: int) -> None:
        dead = [self.core.find(job_id) for job_id, (state, _) in self.ends.items() if state == FAILED]
        letters = [job for job in dead if job is not None and job.state == FAILED]
        if not letters:
            return
        job = letters[number % len(letters)]
        try:
            self.core.retry(job)
        except Refusal:
            assert job.state == FAILED
            return
        assert job.state == QUEUED
        del self.ends[job.id]

    # --- workers

    @rule(worker=st.integers(0, 2), queue=st.sampled_from([None, None, *QUEUES]))
    def take(self, worker: int, queue: str | None) -> None:
        self.take_as(self.workers[worker].me, queue)

    def take_as(self, worker: Worker, name: str | None) -> None:
        ready = [
            job
            for job in self.core.jobs.values()
            if job.state == QUEUED and job.queue in worker.abilities and name in (None, job.queue.name.decode())
        ]
        lease = self.core.take(worker, name.encode() if name is not None else None)
        assert (lease is not None) == bool(ready)
        if lease is None:
            return
        job = lease.job
        self.leases.append(lease)
        assert job in ready
        assert job.terms.priority == min(other.terms.priority for other in ready)
        # First in, first out: among those that have always stood in this lane, the oldest.
        fresh = [
            other.id
            for other in ready
            if other.queue is job.queue
            and other.terms.priority == job.terms.priority
            and other.attempts == 0
            and other.id in self.always_queued
        ]
        assert job.attempts > 1 or job.id not in self.always_queued or job.id == min(fresh)

    @rule(worker=st.integers(0, 2), number=NUMBERS)
    def take_job(self, worker: int, number: int) -> None:
        jobs = list(self.core.jobs.values())
        if not jobs:
            return
        job = jobs[number % len(jobs)]
        can_be_taken = job.state in (DELAYED, QUEUED)
        try:
            self.leases.append(self.core.take_job(self.workers[worker].me, job))
        except Refusal:
            assert not can_be_taken
            return
        assert can_be_taken

    @rule(worker=st.integers(0, 2))
    def sleep(self, worker: int) -> None:
        self.core.sleep(self.workers[worker].me)

    @rule(worker=st.integers(0, 2), slots=st.integers(0, 3))
    def offer(self, worker: int, slots: int) -> None:
        self.core.offer(self.workers[worker].me, slots)

    @rule(worker=st.integers(0, 2), queue=st.sampled_from(QUEUES), able=st.booleans())
    def learn(self, worker: int, queue: str, able: bool) -> None:
        if able:
            self.workers[worker].can(queue)
        else:
            self.core.cant_do(self.workers[worker].me, queue.encode())

    @rule(worker=st.integers(0, 2), silence_us=st.sampled_from([0, SECOND_US, 30 * SECOND_US]))
    def expect(self, worker: int, silence_us: int) -> None:
        self.core.expect(self.workers[worker].me, silence_us)

    @rule(worker=st.integers(0, 2))
    def beat(self, worker: int) -> None:
        self.core.beat(self.workers[worker].me)

    @rule(worker=st.integers(0, 2), rotate=st.booleans(), quiet=st.booleans())
    def behave(self, worker: int, rotate: bool, quiet: bool) -> None:
        if rotate:
            self.core.take_turns(self.workers[worker].me)
        self.workers[worker].me.quiet_at_work = quiet

    @rule(
        number=st.integers(0, 200),
        verb=st.sampled_from(["finish", "finish", "fail", "release", "renew", "progress", "chunk"]),
    )
    def report(self, number: int, verb: str) -> None:
        live = [lease for lease in self.leases if lease.job.lease is lease]
        candidates = self.leases if number % 4 == 0 else live
        if not candidates:
            return
        lease = candidates[number % len(candidates)]
        job, stale = lease.job, lease.job.lease is not lease
        before = (job.state, job.lease)
        try:
            if verb == "finish":
                self.core.finish(lease, b"result")
            elif verb == "fail":
                self.core.fail(lease, 3, b"failure")
            elif verb == "release":
                self.core.release(lease, delay_us=number % 3 * SECOND_US)
            elif verb == "renew":
                self.core.renew(lease, job.terms.replace(priority=number % 3) if number % 2 else None)
            elif verb == "progress":
                self.core.progress(lease, 1, 2, number)
                assert lease.expected_us == (self.core.now_us + number if number else 0)
            else:
                self.core.chunk(lease, b"chunk")
        except Refusal:
            assert stale
            assert (job.state, job.lease) == before
            return
        assert not stale, "only the live lease is heard"

    @rule(worker=st.integers(0, 2))
    def worker_leaves(self, worker: int) -> None:
        person = self.workers[worker]
        held = [lease.job for lease in person.me.leases.values()]
        self.core.leave(person)
        assert all(job.lease is None for job in held)
        self.workers[worker] = self.hall.worker("worker again", *QUEUES)

    # --- time, the store, the process

    @rule(passed_us=PAUSES)
    def later(self, passed_us: int) -> None:
        self.core.advance(self.core.now_us + passed_us)

    @precondition(lambda self: self.batch is None)
    @rule(hurry=st.booleans(), started=st.booleans())
    def seal(self, hurry: bool, started: bool) -> None:
        self.hall.turn()
        if hurry:
            self.core.ledger.flush_deferred()
        if started:
            self.core.ledger.flush_started()
        self.batch = self.core.seal()

    @precondition(lambda self: self.batch is not None)
    @rule(works=st.sampled_from([True, True, True, False]))
    def store_answers(self, works: bool) -> None:
        batch, self.batch = self.batch, None
        assert batch is not None
        if works:
            self.core.committed(batch)
            self.disk.apply(batch)
            self.acknowledged.update({row.id: None for row in batch.inserts})
        else:
            withdrawn = self.core.withdraw(batch, "disk full")
            self.core.submissions.drop_withdrawn(withdrawn)
            assert not self.acknowledged.keys() & withdrawn.keys(), "what was acknowledged is never taken back"
            self.forget_unstored()

    @rule()
    def crash(self) -> None:
        """Memory is gone, and with it the commit under way; everybody comes in again."""
        now_us = self.core.now_us
        loaded = self.disk.load(LIMITS.ended_max)
        self.hall = Hall(LIMITS, epoch=loaded.epoch)
        self.core = self.hall.core
        self.core.table.now_us = now_us
        self.core.restore(loaded)
        self.batch = None
        self.leases = []
        self.ends = {job_id: (end.state, end.ended_us) for job_id, end in self.disk.history.items()}
        self.clients = [self.hall.person("client again") for _ in range(3)]
        self.workers = [self.hall.worker("worker again", *QUEUES) for _ in range(3)]
        assert set(self.core.jobs) == set(self.disk.live)
        held = {row.id: row.holder for row in self.disk.live.values() if row.holder}
        assert held == {
            job.id: job.lease.worker.name for job in self.core.jobs.values() if job.lease is not None
        }
        self.forget_unstored()

    # --- what always holds

    @property
    def always_queued(self) -> dict[int, None]:
        """Jobs that were ready from the start: they stand in their lane by age."""
        return {
            job.id: None
            for job in self.core.jobs.values()
            if job.attempts == 0 and job.failures == 0 and job.id not in self.detoured
        }

    @invariant()
    def laws_hold(self) -> None:
        if "hall" not in self.__dict__:
            return
        self.hall.turn()
        assert (STORE_DOWN, False) not in self.refusals, "the store's trouble is none of a foreground job"
        for reason, state, durable in self.denials:
            assert reason != WRONG_STATE or state == LEASED
            assert reason in (WRONG_STATE, CYCLE, BAD_REQUEST) or (reason == STORE_DOWN and durable)
        for worker in self.core.workers:
            self.leases += [lease for lease in worker.leases.values() if lease not in self.leases]
        for person in self.workers:
            if person.worker is None and "lost" in person.heard:
                person.can(*QUEUES)
        for job in self.core.jobs.values():
            if job.state in (HELD, DELAYED):
                self.detoured[job.id] = None
            assert job.id not in self.ends, "an end is written once"
        self._see_ends()
        for job_id in self.acknowledged:
            known = job_id in self.disk.live or job_id in self.disk.history
            assert known, "nothing acknowledged is missing"
        assert len(self.core.jobs) <= LIMITS.jobs_max + len(self.disk.history), "retries may go above"
        assert len(self.core.archive) <= LIMITS.ended_max
        self.check_unconnected()
        if self.batch is None and not len(self.core.ledger) and not self.core.ledger.has_deferred:
            self.disk.compare(self.core)

    def _see_ends(self) -> None:
        for job_id in self.seen:
            job = self.core.archive.find(job_id)
            if job is not None:
                end = (job.state, job.ended_us)
                assert self.ends.setdefault(job.id, end) == end, "an end is written once"
                assert job.id not in self.core.jobs

    def teardown(self) -> None:
        """The faults stop: everything that can run does, everything else is seen waiting for somebody."""
        if "hall" not in self.__dict__:
            return
        if self.batch is not None:
            self.core.committed(self.batch)
            self.disk.apply(self.batch)
        self.disk.apply(self.hall.commit())
        for person in self.workers:
            self.core.leave(person)
        self.end_reported()
        for worker in list(self.core.table.residents.values()):
            self.core.residents.retire(worker)
        self.hall.turn()
        last = self.hall.worker("last", *QUEUES)
        self._work_off(last)
        while self.core.jobs:
            for job in self.core.jobs.values():
                assert job.state == HELD, f"{name_of(job)} did not drain"
                assert any(
                    parent is None or parent.ended or parent.state == HELD for parent in self._parents(job)
                )
            self.core.cancel(next(iter(self.core.jobs.values())))
            self.hall.turn()
            self._work_off(last)
        self.disk.apply(self.hall.commit())
        assert self.disk.live == {}
        assert self.core.jobs == {}
        assert self.core.graph.expected == {}
        assert len(self.core.ledger) == 0
        for queue in self.core.queues.values():
            assert queue.counts()[:2] == (0, 0)

    def _work_off(self, worker: Person) -> None:
        while True:
            lease = self.core.take(worker.me)
            if lease is not None:
                self.core.finish(lease, b"")
            elif any(job.state == DELAYED for job in self.core.jobs.values()):
                self.core.advance(max(self.core.now_us, self.core.next_deadline()))
            else:
                return
            self.hall.turn()

    def _parents(self, job: Job) -> list[Job | None]:
        return list((job.parents or {}).values())


HallMachine.TestCase.settings = settings(
    max_examples=2 * settings().max_examples,
    stateful_step_count=60,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestHall = HallMachine.TestCase
