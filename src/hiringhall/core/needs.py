"""What jobs require of a worker, and what workers have: their skills, and the time they have left.

Invariant: what a worker qualifies for changes only here, and a worker that comes to qualify for a waiting job
is found at the end of the turn. Time alone makes no worker qualify, so nothing is polled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.errors import BAD_REQUEST, HALL_FULL, TOO_LARGE, Refusal
from hiringhall.core.limits import SECOND_US

if TYPE_CHECKING:
    from hiringhall.core.ratings import Ratings
    from hiringhall.core.table import JobTable
    from hiringhall.core.terms import Requirement
    from hiringhall.core.workers import Worker

SKILL_MAX: Final = 1_000_000
TIME_US_MAX: Final = 36_500 * 86_400 * SECOND_US
"""The longest time that a job may take or a worker may have left: a hundred years."""


class Needs:
    """The verbs that set requirements of queues, and skills and time of workers."""

    def __init__(self, table: JobTable) -> None:
        self._table = table
        self.by_queue: dict[bytes, Requirement] = {}
        """The default requirement of the jobs of a queue, by the queue's name."""
        self.ratings: Ratings | None = None
        """Skills and times configured by worker name; None: there are none."""

    def introduce(self, worker: Worker, name: bytes) -> None:
        """Set the worker's name. With a new name it has the skills and the time configured for that name, and
        loses those it had.
        """
        if name != worker.name:
            worker.name = name
            self.rate_by_name(worker)
            self._look_again(worker)

    def set_ratings(self, ratings: Ratings) -> None:
        """Use these skills and times for workers by name, present ones included."""
        self.ratings = ratings
        for worker in self._table.workers:
            self.rate_by_name(worker)
            self._look_again(worker)

    def undrained(self, worker: Worker) -> None:
        """The worker takes jobs again."""
        worker.undrain()
        self._look_again(worker)

    def rate(self, worker: Worker, name: bytes, skill: int) -> None:
        """Set the worker's skill in a queue."""
        if not 0 <= skill <= SKILL_MAX:
            raise Refusal(BAD_REQUEST, f"a skill must be a whole number from 0 to {SKILL_MAX}")
        if worker.skills is None:
            worker.skills = {}
        elif len(worker.skills) >= self._table.limits.abilities_max and name not in worker.skills:
            text = f"a worker may have {self._table.limits.abilities_max} queues (abilities_max)"
            raise Refusal(HALL_FULL, text)
        worker.skills[name] = skill
        self._look_again(worker)

    def rate_all(self, worker: Worker, skills: dict[bytes, int]) -> None:
        """Set the worker's skills: these, and those configured for its name in other queues."""
        for skill in skills.values():
            if not 0 <= skill <= SKILL_MAX:
                raise Refusal(BAD_REQUEST, f"a skill must be a whole number from 0 to {SKILL_MAX}")
        known = dict(self.ratings.of(worker.name).skills) if self.ratings is not None else {}
        worker.skills = {**known, **skills} or None
        self._look_again(worker)

    def rate_anew(self, worker: Worker) -> None:
        """Reset the worker's skills to those configured for its name."""
        worker.skills = None
        if self.ratings is not None:
            worker.skills = dict(self.ratings.of(worker.name).skills) or None
        self._look_again(worker)

    def need(self, name: bytes, skill: int, takes_us: int) -> None:
        """Set the default requirement of a queue: it applies to jobs submitted from now on that state none.
        With neither skill nor time, the queue has no default.
        """
        if not 0 <= skill <= SKILL_MAX or not 0 <= takes_us <= TIME_US_MAX:
            seconds_max = TIME_US_MAX // SECOND_US
            text = f"a skill must be from 0 to {SKILL_MAX}, a time from 0 to {seconds_max} seconds"
            raise Refusal(BAD_REQUEST, text)
        if not skill and not takes_us:
            self.by_queue.pop(name, None)
            return
        bytes_max = self._table.limits.queue_name_bytes_max
        if not 0 < len(name) <= bytes_max:
            raise Refusal(TOO_LARGE, f"a queue name must have 1 to {bytes_max} bytes (queue_name_bytes_max)")
        if len(self.by_queue) >= self._table.limits.queues_max and name not in self.by_queue:
            raise Refusal(
                HALL_FULL, f"{self._table.limits.queues_max} queues have requirements already (queues_max)"
            )
        self.by_queue[name] = (skill, takes_us, ())

    def stay(self, worker: Worker, left_us: int) -> None:
        """The worker leaves after `left_us`; negative: it stays."""
        worker.leave_at(self._table.now_us + left_us if left_us >= 0 else 0)
        self._look_again(worker)

    def rate_by_name(self, worker: Worker) -> None:
        """Set the skills and the time that are configured for its name."""
        ratings = self.ratings
        worker.skills = None
        leaves_us = 0
        if ratings is not None:
            rating = ratings.of(worker.name) if worker.name else ratings.nameless
            worker.skills = dict(rating.skills) or None
            leaves_us = self._table.now_us + rating.stays_us if rating.stays_us else 0
        worker.leave_at(leaves_us)

    def _look_again(self, worker: Worker) -> None:
        """The skills or the time of a worker have changed: match its queues again."""
        for queue in worker.abilities:
            if queue.unmatched:
                queue.reconsider(worker, self._table.now_us)
            if queue.ready:
                self._table.unsettle(queue)
