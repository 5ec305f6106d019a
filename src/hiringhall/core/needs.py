"""What jobs need of a worker, and what is known of workers: their skills, and the time they have left.

The law: what a worker is good for changes only here, and whoever becomes good for a job that waits is found at
the end of the turn. Time alone makes nobody good for a job, so nothing has to be watched while it passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.errors import BAD_REQUEST, HALL_FULL, TOO_LARGE, Refusal
from hiringhall.core.limits import SECOND_US

if TYPE_CHECKING:
    from hiringhall.core.ratings import Ratings
    from hiringhall.core.table import JobTable
    from hiringhall.core.terms import Shape
    from hiringhall.core.workers import Worker

SKILL_MAX: Final = 1_000_000
TIME_US_MAX: Final = 36_500 * 86_400 * SECOND_US
"""The longest time that a job takes, or a worker has left: a hundred years."""


class Needs:
    """The verbs that say who is good for what."""

    def __init__(self, table: JobTable) -> None:
        self._table = table
        self.by_queue: dict[bytes, Shape] = {}
        """The skill and the time that jobs of some queues need when they do not say so themselves."""
        self.ratings: Ratings | None = None
        """What is known of workers by their names; None: nothing is."""

    def introduce(self, worker: Worker, name: bytes) -> None:
        """The worker calls itself so. Under another name than before it is what the hall knows of that name:
        what was said of its skills and its time is forgotten.
        """
        if name != worker.name:
            worker.name = name
            self.rate_by_name(worker)
            self._look_again(worker)

    def know(self, ratings: Ratings) -> None:
        """Have the hall know workers by their names."""
        self.ratings = ratings
        for worker in self._table.workers:
            self.rate_by_name(worker)
            self._look_again(worker)

    def rate(self, worker: Worker, name: bytes, skill: int) -> None:
        """The worker is so good at a queue."""
        if not 0 <= skill <= SKILL_MAX:
            raise Refusal(BAD_REQUEST, f"a skill is a whole number from 0 to {SKILL_MAX}")
        if worker.skills is None:
            worker.skills = {}
        elif len(worker.skills) >= self._table.limits.abilities_max and name not in worker.skills:
            text = f"a worker may do {self._table.limits.abilities_max} queues (abilities_max)"
            raise Refusal(HALL_FULL, text)
        worker.skills[name] = skill
        self._look_again(worker)

    def rate_anew(self, worker: Worker) -> None:
        """Forget what was said of the worker's skills, but for what the hall knows by its name."""
        worker.skills = None
        if self.ratings is not None:
            worker.skills = dict(self.ratings.of(worker.name).skills) or None
        self._look_again(worker)

    def need(self, name: bytes, skill: int, takes_us: int) -> None:
        """Jobs of a queue that are handed in from now on, and do not say so themselves, need this skill and
        this time; with neither, nothing.
        """
        if not 0 <= skill <= SKILL_MAX or not 0 <= takes_us <= TIME_US_MAX:
            text = f"a skill is from 0 to {SKILL_MAX}, a time from 0 to {TIME_US_MAX // SECOND_US} seconds"
            raise Refusal(BAD_REQUEST, text)
        if not skill and not takes_us:
            self.by_queue.pop(name, None)
            return
        bytes_max = self._table.limits.queue_name_bytes_max
        if not 0 < len(name) <= bytes_max:
            raise Refusal(TOO_LARGE, f"a queue's name has 1 to {bytes_max} bytes (queue_name_bytes_max)")
        if len(self.by_queue) >= self._table.limits.queues_max and name not in self.by_queue:
            raise Refusal(HALL_FULL, f"{self._table.limits.queues_max} queues have needs already (queues_max)")
        self.by_queue[name] = (skill, takes_us)

    def stay(self, worker: Worker, left_us: int) -> None:
        """The worker has so much time left, from now on; less than nothing: it stays for good."""
        worker.until_us = self._table.now_us + left_us if left_us >= 0 else 0
        self._look_again(worker)

    def rate_by_name(self, worker: Worker) -> None:
        ratings = self.ratings
        worker.skills = None
        worker.until_us = 0
        if ratings is not None:
            rating = ratings.of(worker.name) if worker.name else ratings.nameless
            worker.skills = dict(rating.skills) or None
            worker.until_us = self._table.now_us + rating.stays_us if rating.stays_us else 0

    def _look_again(self, worker: Worker) -> None:
        """What a worker can be given has changed."""
        for queue in worker.abilities:
            if queue.unmatched:
                queue.reconsider(worker, self._table.now_us)
            if queue.ready:
                self._table.unsettle(queue)
