"""Dead letters that only the history has are retried once, whatever has happened since it was asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hall_recorder import BACKGROUND, Hall, refused

from hiringhall.core.errors import STORE_DOWN, WRONG_STATE
from hiringhall.core.limits import Limits

if TYPE_CHECKING:
    from hiringhall.core.changes import EndRow


@pytest.fixture
def hall() -> Hall:
    return Hall(Limits(ended_max=1))


def buried(hall: Hall) -> EndRow:
    """The line of a dead letter that has left memory."""
    carl = hall.worker("carl")
    hall.submit("a", terms=BACKGROUND)
    hall.core.fail(carl.takes("a"), 7)
    batch = hall.commit()
    for name in ("b", "c", "d"):
        hall.submit(name, terms=BACKGROUND)
        hall.core.finish(carl.takes(name), b"")
    hall.commit()
    (line,) = batch.ends
    assert hall.core.find(line.id) is None
    return line


def test_it_is_ready_with_its_counts_reset(hall: Hall) -> None:
    line = buried(hall)
    job = hall.core.retry_recorded(line)
    assert (job.id, job.payload, job.failures, job.attempts) == (line.id, b"a", 0, 1)
    batch = hall.commit()
    assert (batch.revived, [row.id for row in batch.inserts]) == ([line.id], [line.id])


def test_a_line_that_is_out_of_date_does_not_double_the_job(hall: Hall) -> None:
    line = buried(hall)
    hall.core.retry_recorded(line)
    with refused(WRONG_STATE):
        hall.core.retry_recorded(line)
    carl = hall.worker("carol")
    hall.core.finish(carl.takes("a"), b"")
    for name in ("b", "c", "d"):
        hall.submit(name, terms=BACKGROUND)
        hall.core.finish(carl.takes(name), b"")
    assert hall.core.archive.find(line.id) is None, "only the ledger has it"
    with refused(WRONG_STATE):
        hall.core.retry_recorded(line)
    hall.turn()
    assert not hall.core.jobs


def test_a_payload_of_which_only_the_beginning_is_kept_is_refused(hall: Hall) -> None:
    line = buried(hall)
    with refused(WRONG_STATE):
        hall.core.retry_recorded(line._replace(payload_cut=5))
    with refused(WRONG_STATE):
        hall.core.retry_recorded(line._replace(terms=line.terms.replace(durable=False)))
    assert not hall.core.jobs


def test_while_the_store_is_in_trouble_it_is_refused(hall: Hall) -> None:
    line = buried(hall)
    hall.submit("x", terms=BACKGROUND)
    hall.commit_fails()
    with refused(STORE_DOWN):
        hall.core.retry_recorded(line)
    assert line.id not in hall.core.jobs


def test_one_that_has_left_memory_before_it_was_written_is_retried(hall: Hall) -> None:
    carl = hall.worker("carl")
    job = hall.submit("a", terms=BACKGROUND)
    hall.core.fail(carl.takes("a"), 7)
    for name in ("b", "c", "d"):
        hall.submit(name, terms=BACKGROUND)
        hall.core.finish(carl.takes(name), b"")
    assert hall.core.find(job.id) is None
    assert hall.core.unwritten(job.id) is job
    hall.core.retry(job)
    hall.commit()
    carl.takes("a")
