"""`/metrics` as Prometheus reads it: valid in both formats, bounded, and present while the hall is away."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text
from web_metrics import BUCKETS, answer, queue

from hiringhall.sdk.errors import HallRefused, HallUnreachable
from hiringhall.web.metrics import Metrics

PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;q=0.3,*/*;q=0.2"
)
HOSTILE = (b'"} evil 1\n', b"\xff\xfe", b"\\", "naïve\u2028".encode(), b"_other", b"x" * 4000)


class Hall:
    """A connection that answers, or does not."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def shared(self, kind: str, body: Any = None) -> Any:
        assert (kind, body) == ("metrics", None)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def samples(data: bytes) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    found = [sample for family in read_text(data.decode()) for sample in family.samples]
    values = {(sample.name, frozenset(sample.labels.items())): sample.value for sample in found}
    assert len(values) == len(found), "a sample is there twice"
    return values


def value(data: bytes, name: str, **labels: str) -> float:
    return samples(data)[name, frozenset(labels.items())]


def test_a_queue_is_shown_with_its_depths_and_counts() -> None:
    now_us = answer()["at_us"]
    shown = queue(
        ready=3, running=2, held=1, delayed=6, failed=4, workers=7, paused=True, oldest_us=now_us - 2_500_000
    )
    shown |= {"submitted_total": 20, "done_total": 9, "failed_total": 1, "cancelled_total": 5}
    data = Metrics().expose(answer(queues={b"resize": shown}))
    for state, count in (("ready", 3), ("running", 2), ("held", 1), ("delayed", 6)):
        assert value(data, "hall_queue_jobs", queue="resize", state=state) == count
    assert value(data, "hall_queue_oldest_seconds", queue="resize") == 2.5
    assert value(data, "hall_queue_workers", queue="resize") == 7
    assert value(data, "hall_queue_paused", queue="resize") == 1
    assert value(data, "hall_queue_dead_letters", queue="resize") == 4
    assert value(data, "hall_jobs_submitted_total", queue="resize") == 20
    assert value(data, "hall_jobs_ended_total", queue="resize", outcome="cancelled") == 5
    assert value(data, "hall_up") == 1


def test_times_are_cumulative_buckets_in_seconds() -> None:
    counts = [1, 0, 2] + [0] * (BUCKETS - 4) + [3]
    data = Metrics().expose(answer(queues={b"q": queue(run=(1_500_000, counts))}))
    assert value(data, "hall_job_run_seconds_bucket", queue="q", le="0.0001") == 1
    assert value(data, "hall_job_run_seconds_bucket", queue="q", le="0.001") == 3
    assert value(data, "hall_job_run_seconds_bucket", queue="q", le="3600.0") == 3
    assert value(data, "hall_job_run_seconds_bucket", queue="q", le="+Inf") == 6
    assert value(data, "hall_job_run_seconds_count", queue="q") == 6
    assert value(data, "hall_job_run_seconds_sum", queue="q") == 1.5


@pytest.mark.parametrize(
    "accept", ["", "*/*", "text/plain;version=0.0.4", PROMETHEUS, "text/plain;version=x,;,="]
)
def test_hostile_names_leave_the_exposition_valid_in_every_format(accept: str) -> None:
    queues = {name: queue(submitted_total=1) for name in HOSTILE}
    said = answer(queues=queues, workers={"gearman": [1, 2], "": [0, 1]})
    response = asyncio.run(Metrics().respond(Hall(said), accept))
    is_openmetrics = response.headers["content-type"].startswith("application/openmetrics-text")
    assert is_openmetrics == (accept == PROMETHEUS)
    read = read_openmetrics if is_openmetrics else read_text
    found = {family.name: family for family in read(bytes(response.body).decode())}
    submitted = found["hall_jobs_submitted"].samples
    assert len({sample.labels["queue"] for sample in submitted}) == len(HOSTILE) + 1
    assert {sample.value for sample in submitted if sample.labels["queue"] != "_other"} == {1}


def test_the_number_of_queues_is_bounded() -> None:
    queues = {b"q%d" % number: queue(ready=1) for number in range(1000)}
    data = Metrics(labels_max=10).expose(answer(queues=queues))
    names = {dict(labels).get("queue") for _, labels in samples(data)} - {None}
    assert len(names) == 11
    assert value(data, "hall_queue_jobs", queue="_other", state="ready") == 990


def test_a_hall_that_is_away_is_reported_as_down() -> None:
    response = asyncio.run(Metrics().respond(Hall(HallUnreachable("away")), ""))
    assert response.status_code == 200
    assert value(bytes(response.body), "hall_up") == 0


def test_a_hall_that_refuses_is_an_error_of_the_scrape() -> None:
    with pytest.raises(HallRefused):
        asyncio.run(Metrics().respond(Hall(HallRefused("forbidden", "no")), ""))


def test_store_trouble_is_shown() -> None:
    data = Metrics().expose(answer(store_trouble="disk full"))
    assert value(data, "hall_store_up") == 0


def test_an_answer_is_written_once_however_many_scrapers_there_are() -> None:
    async def scrape() -> None:
        metrics = Metrics()
        hall = Hall(answer(queues={b"q": queue(submitted_total=1)}))
        bodies = {(await metrics.respond(hall, "")).body for _ in range(5)}
        assert len(bodies) == 1
        hall.answer = answer(queues={b"q": queue(submitted_total=2)}, at_us=hall.answer["at_us"] + 1)
        response = await metrics.respond(hall, "")
        assert value(bytes(response.body), "hall_jobs_submitted_total", queue="q") == 2

    asyncio.run(scrape())
