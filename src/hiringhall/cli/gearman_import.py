"""Submit the jobs of a file at a Gearman door.

Invariant: jobs that the protocol cannot carry are reported before anything is sent; jobs are sent in order.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Final

from hiringhall.core.terms import HIGH, LOW, NORMAL
from hiringhall.dialects.gearman.session import data_key
from hiringhall.endpoints import HallError
from hiringhall.peers.gearman import AsyncClient, ConnectionLost, GearmanError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from ssl import SSLContext

    from hiringhall.core.jobs import JobSpec
    from hiringhall.peers.gearman.client import Priority
    from hiringhall.records.joblines import WrittenJob

ANSWER_S: Final = 10.0
"""A peer that does not answer for this long is not a Gearman server."""
UNACKNOWLEDGED_MAX: Final = 200
"""Jobs that were sent and not yet acknowledged."""
_SECOND_US: Final = 1_000_000
_PRIORITIES: Final[dict[int, Priority]] = {HIGH: "high", NORMAL: "normal", LOW: "low"}


class Tally:
    """How many jobs of a file were imported, for the message when that is not all of them."""

    def __init__(self) -> None:
        self.total = 0
        self.taken = 0
        self.unsure = 0
        """Sent, and not yet acknowledged."""

    def __str__(self) -> str:
        more = f", and {self.unsure} more may have been" if self.unsure else ""
        return (
            f"{self.taken} of {counted_jobs(self.total)} {'was' if self.taken == 1 else 'were'} imported{more}"
        )


def counted_jobs(count: int) -> str:
    return f"{count} job" if count == 1 else f"{count} jobs"


def carry_problems(jobs: Iterable[WrittenJob]) -> list[tuple[int, str]]:
    """What a Gearman submit cannot carry, by line."""
    now_us = time.time_ns() // 1000
    return [
        (job.line, f"a Gearman door cannot take {what}; import the file into a stopped hall")
        for job in jobs
        for what in _uncarried(job.spec, now_us)
    ]


async def send_jobs(
    jobs: Iterable[WrittenJob], address: str, tally: Tally, tls: SSLContext | None = None
) -> None:
    """Submit all; raises HallError at the first that is refused. Counts in `tally`."""
    unacknowledged: deque[tuple[int, asyncio.Task[None]]] = deque()
    try:
        async with AsyncClient(address, tls=tls) as client:
            await _check_answers(client, address)
            try:
                for job in jobs:
                    if len(unacknowledged) >= UNACKNOWLEDGED_MAX:
                        await unacknowledged[0][1]
                        unacknowledged.popleft()
                        tally.taken += 1
                    unacknowledged.append((job.line, asyncio.create_task(_submit(client, job.spec))))
                while unacknowledged:
                    await unacknowledged[0][1]
                    unacknowledged.popleft()
                    tally.taken += 1
            except GearmanError:
                await asyncio.gather(*(task for _, task in unacknowledged), return_exceptions=True)
                raise
            finally:
                await _count_last([task for _, task in unacknowledged], tally)
    except GearmanError as error:
        if not unacknowledged and not tally.taken:
            raise HallError(f"{error}; no job was sent") from error
        where = f"line {unacknowledged[0][0]}: " if unacknowledged else ""
        raise HallError(f"{where}{error}; {tally}") from error


async def _check_answers(client: AsyncClient, address: str) -> None:
    """Check that a Gearman door answers; afterwards jobs are sent in order."""
    try:
        async with asyncio.timeout(ANSWER_S):
            await client.echo(b"")
    except TimeoutError as error:
        text = f"{address} did not answer within {ANSWER_S:g} s: it is not a Gearman door"
        raise HallError(f"{text}; no job was sent") from error


async def _count_last(tasks: list[asyncio.Task[None]], tally: Tally) -> None:
    """Stop waiting for unanswered jobs; these may or may not have been imported."""
    for task in tasks:
        task.cancel()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    tally.taken += ends.count(None)
    tally.unsure += len([end for end in ends if isinstance(end, asyncio.CancelledError | ConnectionLost)])


async def _submit(client: AsyncClient, spec: JobSpec) -> None:
    unique = b"-" if spec.key and spec.key == data_key(spec.work) else spec.key
    if spec.due_us > time.time_ns() // 1000:
        epoch_s = -(-spec.due_us // _SECOND_US)
        await client.submit_at(spec.queue, spec.work, epoch_s=epoch_s, unique=unique)
    else:
        priority = _PRIORITIES[spec.terms.priority]
        await client.submit_background(spec.queue, spec.work, unique=unique, priority=priority)


def _uncarried(spec: JobSpec, now_us: int) -> list[str]:
    found: list[str] = []
    if spec.parents:
        found.append("parents")
    if spec.extras:
        found.append("extras")
    if spec.flow:
        found.append("a flow")
    if spec.due_us > now_us and spec.terms.priority != NORMAL:
        found.append("a priority together with a due time")
    if spec.terms.skill:
        found.append("a required skill")
    if spec.terms.takes_us:
        found.append("an expected duration")
    if b"\0" in spec.queue:
        found.append("a queue with a NUL in its name")
    if b"\0" in spec.key and spec.key != data_key(spec.work):
        found.append("a key with a NUL in it")
    if spec.key == b"-":
        found.append('the key "-", which has another meaning in Gearman')
    return found
