"""What must hold for results: each came from somebody who had the job, and was made for this job where it says
for which.

A watcher may be told a result before its worker is told that it has the job. So a result that nobody is known
to have sent is judged when everything is sent: at the end of the turn, or of a flush between two turns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .sights import MADE_FOR, Early, is_made_for
from .world import Violation

if TYPE_CHECKING:
    from .laws import Laws
    from .sights import Sight
    from .taps import Holder, Tap


class Results:
    """Those that were told and those that were reported."""

    def __init__(self, laws: Laws) -> None:
        self._laws = laws
        self._early: list[Early] = []
        """Those of this turn."""
        self._told: list[tuple[Sight, bytes]] = []
        """Results that watchers heard of, and that nobody is known to have sent."""

    def turn_began(self) -> None:
        self._early = []

    def told(self, sight: Sight, result: bytes) -> bool:
        """A watcher hears that a job is done. False: whether somebody has sent this result is seen later."""
        if result not in sight.results:
            self._told.append((sight, result))
            return False
        self.check(sight, result)
        return True

    def check_told(self) -> None:
        """All is sent: whoever has sent a result that was told is known."""
        told, self._told = self._told, []
        for sight, result in told:
            self.check(sight, result)
            self._laws.ended(sight)

    def crashed(self) -> None:
        """The hall has crashed within a turn: those who reported in this turn are not told what they had."""
        for sight, result in self._told:
            if not any((early.job_id, early.result) == (sight.id, result) for early in self._early):
                self.check(sight, result)
        self._told = []

    def check(self, sight: Sight, result: bytes) -> None:
        """It came from somebody who had the job, and was made for this job where it says for which."""
        laws = self._laws
        if sight.id in laws.foreign or result in laws.reported.get((sight.queue, sight.key), ()):
            return
        if result not in sight.results:
            raise Violation("lease", f"job {sight.id} has a result that no holder sent")
        _, made, tag = result.partition(MADE_FOR)
        if not made or result in sight.mixed_up:
            return
        submit = sight.submit
        named = submit is not None and sight.id in laws.origins and is_made_for(result, submit.key)
        if submit is not None and not named and not is_made_for(result, submit.payload):
            raise Violation("mixed up", f"job {sight.id} has a result that was made for {tag!r}")

    # --- reports of workers that were not told yet what they have

    def reported_early(self, tap: Holder, job_id: int, result: bytes | None) -> None:
        """A worker reports on a job that it has not got, as far as is known: it may be given it in this very
        turn. Without a result it does not say that the job is done.
        """
        sight = self._laws.sights.get(job_id)
        free = sight is None or not (sight.running or sight.ended_order)
        self._early.append(Early(tap, job_id, result, free and tap.asks_for_a_job))

    def assigned(self, tap: Holder, sight: Sight) -> None:
        """A worker is told that it has a job: what it reported in this turn may have counted."""
        for early in self._early:
            if early.tap is tap and early.job_id == sight.id:
                self._laws.disturbed = True
                self._laws.in_doubt(sight.id)
                if early.result is not None:
                    _may_count(sight, early.result)

    def parted(self, tap: Tap) -> None:
        """It left before it could be told which job it was given: its reports of this turn may have counted."""
        for early in self._early:
            if early.tap is tap and early.may_have_job and early.result is not None:
                sight = self._laws.see(early.job_id)
                if not sight.queue or sight.queue in tap.able:
                    _may_count(sight, early.result)


def _may_count(sight: Sight, result: bytes) -> None:
    sight.results[result] = None
    sight.succeeded = True
