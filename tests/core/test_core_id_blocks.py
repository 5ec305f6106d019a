"""The index of live jobs by id: pages in order, with bounded work, however many jobs have ended."""

from __future__ import annotations

import random

import pytest
from hall_recorder import DETACHED, Hall

from hiringhall.core.id_blocks import BLOCK_BITS, IdBlocks
from hiringhall.core.jobs import Job
from hiringhall.core.queues import Queue
from hiringhall.core.terms import DEFAULT_TERMS

SIZE = 1 << BLOCK_BITS


class Table:
    """Live jobs and their blocks."""

    def __init__(self) -> None:
        self.queue = Queue(b"q")
        self.jobs: dict[int, Job] = {}
        self.id_blocks = IdBlocks()

    def enter(self, job_id: int) -> None:
        job = self.jobs[job_id] = Job(job_id, self.queue, b"", b"", DEFAULT_TERMS, 1)
        self.id_blocks.enter(job)

    def leave(self, job_id: int) -> None:
        self.id_blocks.leave(self.jobs.pop(job_id))

    def all_pages(self, ids_max: int) -> list[int]:
        found: list[int] = []
        after = -1
        while True:
            page, after = self.id_blocks.page(self.jobs, max(after, 0), ids_max)
            assert len(page) <= ids_max + SIZE
            found += [job.id for job in page]
            if not after:
                return found


@pytest.mark.parametrize("ids_max", [1, SIZE, 10 * SIZE])
def test_pages_have_all_live_jobs_by_id_whatever_the_order_in_which_they_came(ids_max: int) -> None:
    draw = random.Random(7)
    table = Table()
    for step in range(6000):
        job_id = 1 + draw.randrange(40 * SIZE) if step % 10 == 0 else 1 + step
        if job_id not in table.jobs:
            table.enter(job_id)
        if draw.random() < 0.9:
            table.leave(draw.choice(list(table.jobs)))
    assert table.all_pages(ids_max) == sorted(table.jobs)
    for job_id in list(table.jobs):
        table.leave(job_id)
    assert table.all_pages(ids_max) == []
    assert table.id_blocks.counts() == {}


def test_ended_jobs_cost_a_page_nothing() -> None:
    table = Table()
    last = 3000 * SIZE
    table.enter(1)
    for job_id in range(2, last, SIZE):
        table.enter(job_id)
        table.leave(job_id)
    table.enter(last)
    page, after = table.id_blocks.page(table.jobs, 0, SIZE + 1)
    assert ([job.id for job in page], after) == ([1, last], 0)


def test_a_page_begins_above_its_position() -> None:
    table = Table()
    for job_id in range(1, 3 * SIZE):
        table.enter(job_id)
    page, after = table.id_blocks.page(table.jobs, 5, 1)
    assert ([job.id for job in page], after) == (list(range(6, SIZE)), SIZE - 1)
    assert table.id_blocks.page(table.jobs, 3 * SIZE - 1, 1) == ([], 0)


def test_a_retried_job_is_listed_in_its_old_place(hall: Hall) -> None:
    bob = hall.worker("bob")
    durable = DETACHED.replace(durable=True)
    job = hall.submit("a", terms=durable)
    hall.core.fail(bob.takes("a"), 1, b"")
    later = [hall.submit(f"b{number}", terms=durable) for number in range(2 * SIZE)]
    hall.core.retry(job)
    hall.turn()
    page, _ = hall.core.table.id_blocks.page(hall.core.jobs, 0, 10 * SIZE)
    assert page == [job, *later]


def test_a_queue_counts_its_ends(hall: Hall) -> None:
    bob = hall.worker("bob")
    for name in "abc":
        hall.submit(name, terms=DETACHED)
    hall.core.finish(bob.takes("a"), b"")
    hall.core.finish(bob.takes("b"), b"")
    hall.core.fail(bob.takes("c"), 1, b"")
    hall.core.cancel(hall.submit("d", terms=DETACHED))
    queue = hall.core.queues[b"q"]
    assert (queue.done, queue.failed) == (2, 1)
