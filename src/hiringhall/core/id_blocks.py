"""Live jobs in the order of their ids, for listings: ids in blocks of 256, and how many of each are live.

Invariant: every live job is counted in the block of its id, and a block without a live job, other than the
latest, is dropped. So a listing finds the next live job without a search, however many have ended, and a job
that comes and ends costs two additions.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job

BLOCK_BITS: Final = 8
"""Ids that differ only in this many low bits are in one block."""
_SWEEP_MIN: Final = 256


class IdBlock:
    """Neighbouring ids."""

    __slots__ = ("live", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        """The ids of its jobs, without the low bits."""
        self.live = 0
        """How many of its jobs have not ended."""


class IdBlocks:
    """The blocks of all live jobs."""

    __slots__ = ("_blocks", "_latest", "_numbers")

    def __init__(self) -> None:
        self._latest = IdBlock(-1)
        self._blocks: dict[int, IdBlock] = {}
        self._numbers: list[int] = []
        """The numbers in `_blocks`, sorted, and some of blocks that were dropped."""

    def enter(self, job: Job) -> None:
        """A job is live."""
        number = job.id >> BLOCK_BITS
        block = self._latest
        if block.number != number:
            block = self._open(number)
        block.live += 1
        job.id_block = block

    def leave(self, job: Job) -> None:
        """A job has ended."""
        block = job.id_block
        assert block is not None
        job.id_block = None
        block.live -= 1
        if not block.live and block is not self._latest:
            self._drop(block)

    def page(self, jobs: dict[int, Job], after: int, ids_max: int) -> tuple[list[Job], int]:
        """The jobs with ids above `after`, in order, and the position to go on from; 0: there are no more. It
        looks at not many more than `ids_max` ids.
        """
        found: list[Job] = []
        looked = 0
        place = bisect_left(self._numbers, (after + 1) >> BLOCK_BITS)
        while place < len(self._numbers):
            number = self._numbers[place]
            place += 1
            if number not in self._blocks:
                continue
            if looked >= ids_max:
                return found, after
            first = max(after + 1, number << BLOCK_BITS)
            after = ((number + 1) << BLOCK_BITS) - 1
            looked += after - first + 1
            for job_id in range(first, after + 1):
                job = jobs.get(job_id)
                if job is not None:
                    found.append(job)
        return found, 0

    def counts(self) -> dict[int, int]:
        """How many live jobs each block has."""
        return {number: block.live for number, block in self._blocks.items() if block.live}

    def _open(self, number: int) -> IdBlock:
        block = self._blocks.get(number)
        if block is not None:
            return block
        block = self._blocks[number] = IdBlock(number)
        numbers = self._numbers
        place = bisect_left(numbers, number)
        if place == len(numbers) or numbers[place] != number:
            numbers.insert(place, number)
        latest = self._latest
        if number > latest.number:
            self._latest = block
            if not latest.live and latest.number >= 0:
                self._drop(latest)
        return block

    def _drop(self, block: IdBlock) -> None:
        del self._blocks[block.number]
        if len(self._numbers) > 2 * len(self._blocks) + _SWEEP_MIN:
            self._numbers = sorted(self._blocks)
