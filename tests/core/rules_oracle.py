"""What the rules of a queue say, for the model of test_core_rules_model: read anew from all jobs each time."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from hiringhall.core.rules.queue_rules import LIMIT_KEY, TENANT, QueueRules
from hiringhall.core.rules.spacing import Spacing
from hiringhall.core.states import DELAYED, QUEUED
from hiringhall.core.terms import HIGH, LOW, NORMAL

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job

DEBOUNCE = Spacing(debounce_us=600_000, debounce_max_us=1_500_000)
THROTTLE = Spacing(throttle_us=1_000_000)


class Oracle:
    """What the rules say, read anew from all jobs each time."""

    def __init__(self, rules: QueueRules, now_us: int) -> None:
        self.rules = rules
        self.places: dict[int, int] = {}
        """Ready jobs by id: lower goes first."""
        self.jobs: dict[int, Job] = {}
        self.running: list[Job] = []
        self.tokens = Fraction(0)
        self.filled_us = now_us
        self.tags: dict[tuple[int, bytes], Fraction] = {}
        self.arrival: dict[tuple[int, bytes], int] = {}
        self.served = {HIGH: Fraction(0), NORMAL: Fraction(0), LOW: Fraction(0)}
        self.quiet: dict[bytes, Job] = {}
        """Debounced jobs that have not started, by key."""
        self.windows: dict[bytes, tuple[int, int]] = {}
        """By throttled key: the job that answers for it, and until when."""
        self.payloads: dict[int, bytes] = {}
        """By job: what its latest submit said."""

    def change(self, rules: QueueRules, order: list[Job], now_us: int) -> None:
        """Other rules hold. Turns begin anew, and so do tokens unless the rate stays."""
        if (rules.starts_per_1000s, rules.burst) != (self.rules.starts_per_1000s, self.rules.burst):
            self.tokens, self.filled_us = Fraction(0), now_us
        self.rules = rules
        self.tags, self.arrival = {}, {}
        self.served = dict.fromkeys(self.served, Fraction(0))
        assert {job.id for job in order} == self.places.keys()
        self.places = {}
        for job in order:
            self.ready(job)

    def debounce(self, job: Job, payload: bytes, now_us: int) -> None:
        """It waits anew, even if it was ready, but not beyond its bound: then it is ready again, behind all."""
        due_us = min(now_us + DEBOUNCE.debounce_us, job.created_us + DEBOUNCE.debounce_max_us)
        self.quiet[job.key] = job
        self.payloads[job.id] = payload
        self.places.pop(job.id, None)
        assert job.state == (DELAYED if due_us > now_us else QUEUED)
        if due_us > now_us:
            assert job.due_us == due_us
        else:
            self.ready(job)

    def answers_for(self, key: bytes, now_us: int) -> int:
        job_id, until_us = self.windows.get(key, (0, 0))
        return job_id if now_us < until_us else 0

    def ready(self, job: Job, *, front: bool = False) -> None:
        tenant = (job.terms.priority, self.tenant(job))
        if all((other.terms.priority, self.tenant(other)) != tenant for other in self.waiting()):
            self.tags[tenant] = max(self.tags.get(tenant, Fraction(0)), self.served[tenant[0]])
        self.arrival.setdefault(tenant, len(self.arrival))
        places = self.places.values()
        self.places[job.id] = min(places, default=0) - 1 if front else max(places, default=0) + 1
        self.jobs[job.id] = job

    def waiting(self) -> list[Job]:
        return [self.jobs[job_id] for job_id in self.places]

    def tenant(self, job: Job) -> bytes:
        return (job.extras or {}).get(TENANT, b"") if self.rules.fair else b""

    def started(self, job: Job) -> None:
        assert job.payload == self.payloads[job.id]
        self.quiet = {key: quiet for key, quiet in self.quiet.items() if quiet is not job}
        tenant = (job.terms.priority, self.tenant(job))
        self.served[tenant[0]] = self.tags[tenant]
        self.tags[tenant] += Fraction(1, self.rules.weights.get(tenant[1], 1))
        del self.places[job.id]
        self.running.append(job)
        self.tokens -= 1

    def pass_to(self, now_us: int) -> None:
        passed = Fraction((now_us - self.filled_us) * self.rules.starts_per_1000s, 10**9)
        self.tokens = min(Fraction(self.rules.burst), self.tokens + passed)
        self.filled_us = now_us

    def room(self, key: bytes) -> bool:
        rules = self.rules
        if rules.running_max and len(self.running) >= rules.running_max:
            return False
        if rules.starts_per_1000s and self.tokens < 1:
            return False
        return not (key and rules.key_running_max) or self.running_of(key) < rules.key_running_max

    def running_of(self, key: bytes) -> int:
        return sum((job.extras or {}).get(LIMIT_KEY) == key for job in self.running)

    def eligible(self, skill: int) -> list[Job]:
        """The jobs that may start for a worker with this skill, first one first."""
        able = [job for job in self.waiting() if job.terms.skill <= skill]
        may = [job for job in able if self.room((job.extras or {}).get(LIMIT_KEY, b""))]
        return sorted(may, key=self.turn)

    def turn(self, job: Job) -> tuple[int, Fraction, int, int]:
        tenant = (job.terms.priority, self.tenant(job))
        return job.terms.priority, self.tags[tenant], self.arrival[tenant], self.places[job.id]
