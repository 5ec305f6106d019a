"""The hall's answer to `metrics` as families of Prometheus metrics.

Invariant: units are seconds and bytes, what only grows ends with `_total`, and the number of label values is
bounded. docs/monitoring.md lists every family.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)

from hiringhall.web.queue_labels import OTHER, STATES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prometheus_client.core import Metric

    from hiringhall.web.queue_labels import Labelled

    Answer = Mapping[str, Any]

OUTCOMES: Final = ("done", "failed", "cancelled")

QUEUE_COUNTS: Final = (
    ("hall_jobs_submitted", "Jobs that were made.", "submitted_total"),
    ("hall_job_retries", "Failed attempts that were followed by another.", "retried_total"),
    ("hall_job_losses", "Attempts that ended because their worker was lost.", "lost_total"),
)
HALL_COUNTS: Final = (
    ("hall_submits_joined", "Submits that joined a live job with the same key.", "joined"),
    ("hall_attempts", "Jobs given to a worker.", "taken"),
    ("hall_attempts_expired", "Attempts that a time limit ended.", "expired"),
    ("hall_attempts_released", "Attempts that ended because the job was given or taken back.", "released"),
    ("hall_jobs_withdrawn", "Jobs withdrawn before they were acknowledged.", "withdrawn"),
    ("hall_reports_refused", "Reports of workers that do not hold the job.", "stale"),
    ("hall_wakeups", "Workers woken.", "woken"),
    ("hall_announcements", "Jobs announced to workers that bid.", "announced"),
    ("hall_hirings", "Workers hired.", "hired"),
    ("hall_dismissals", "Hired workers that did not arrive or begin in time.", "dismissed"),
)
DOOR_COUNTS: Final = (
    ("hall_door_accepted", "Connections accepted; with ZeroMQ, peers that became known.", "accepted"),
    ("hall_door_received_bytes", "Bytes received.", "received_bytes"),
    ("hall_door_sent_bytes", "Bytes sent.", "sent_bytes"),
)
DOOR_EVENTS: Final = (
    "bad_input",
    "dead_letter",
    "door_full",
    "lost_worker",
    "over_budget",
    "refused_submit",
    "slow_peer",
    "tls_failure",
)
"""Shown from the start, so that a rate is known when the first one happens."""
HALL_EVENTS: Final = ("pause", "slow_commit", "unknown_commit")
"""The same, of events at no door."""


def hall_up(up: bool) -> Metric:
    return GaugeMetricFamily("hall_up", "Whether the web process reaches the hall.", float(up))


def families(answer: Answer, queues: Sequence[Labelled]) -> Iterator[Metric]:
    """All families but `hall_up`."""
    yield from _queues(answer, queues)
    yield from _times(answer, queues)
    yield from _workers(answer)
    yield from _hall(answer)
    if "hall" in answer:
        yield from _process(answer["hall"], answer["bounds_us"])
    yield from _doors(answer.get("doors", []))
    yield _events(answer.get("events", {}))


def _queues(answer: Answer, queues: Sequence[Labelled]) -> Iterator[Metric]:
    jobs = GaugeMetricFamily("hall_queue_jobs", "Unfinished jobs.", labels=("queue", "state"))
    dead = GaugeMetricFamily("hall_queue_dead_letters", "Failed jobs in memory.", labels=("queue",))
    workers = GaugeMetricFamily("hall_queue_workers", "Workers that can do its jobs.", labels=("queue",))
    paused = GaugeMetricFamily("hall_queue_paused", "1 if no job of it starts.", labels=("queue",))
    oldest = GaugeMetricFamily(
        "hall_queue_oldest_seconds", "How long its oldest ready job has been ready.", labels=("queue",)
    )
    ended = CounterMetricFamily("hall_jobs_ended", "Jobs that ended.", labels=("queue", "outcome"))
    for label, queue in queues:
        for state in STATES:
            jobs.add_metric((label, state), queue[state])
        dead.add_metric((label,), queue["failed"])
        for outcome in OUTCOMES:
            ended.add_metric((label, outcome), queue[f"{outcome}_total"])
        if label != OTHER:
            workers.add_metric((label,), queue["workers"])
            paused.add_metric((label,), queue["paused"])
            since_us = queue["oldest_us"]
            oldest.add_metric((label,), _seconds(answer["at_us"] - since_us if since_us else 0))
    yield from (jobs, dead, workers, paused, oldest, ended)
    for name, text, count in QUEUE_COUNTS:
        family = CounterMetricFamily(name, text, labels=("queue",))
        for label, queue in queues:
            family.add_metric((label,), queue[count])
        yield family


def _times(answer: Answer, queues: Sequence[Labelled]) -> Iterator[Metric]:
    bounds = _bounds(answer["bounds_us"])
    wait = HistogramMetricFamily(
        "hall_job_wait_seconds", "From ready to start, of the latest attempt.", labels=("queue",)
    )
    run = HistogramMetricFamily(
        "hall_job_run_seconds", "From start to end, of the latest attempt.", labels=("queue",)
    )
    for label, queue in queues:
        for family, (sum_us, counts) in ((wait, queue["wait"]), (run, queue["run"])):
            family.add_metric((label,), _buckets(bounds, counts), _seconds(sum_us))
    yield from (wait, run)


def _workers(answer: Answer) -> Iterator[Metric]:
    workers = GaugeMetricFamily("hall_workers", "Workers.", labels=("dialect", "state"))
    for dialect, (busy, idle) in sorted(answer["workers"].items()):
        workers.add_metric((dialect or "none", "busy"), busy)
        workers.add_metric((dialect or "none", "idle"), idle)
    yield workers


def _hall(answer: Answer) -> Iterator[Metric]:
    for name, text, count in HALL_COUNTS:
        yield CounterMetricFamily(name, text, answer["counters"][count])
    yield GaugeMetricFamily("hall_jobs", "Unfinished jobs of all queues.", answer["jobs"])
    yield GaugeMetricFamily("hall_ended_jobs", "Ended jobs in memory.", answer["ended_jobs"])
    yield GaugeMetricFamily("hall_store_backlog", "Changes that are not on disk.", answer["changes"])
    trouble = bool(answer["store_trouble"])
    yield GaugeMetricFamily("hall_store_up", "0 while the store is in trouble.", float(not trouble))
    paused_s = _seconds(answer["paused_us"])
    yield CounterMetricFamily("hall_paused_seconds", "How long the hall was stopped or suspended.", paused_s)


def _process(hall: Answer, bounds_us: Sequence[int]) -> Iterator[Metric]:
    yield InfoMetricFamily("hall", "The hall.", {"name": hall["name"], "version": hall["version"]})
    started_s = _seconds(hall["started_us"])
    yield GaugeMetricFamily("hall_start_time_seconds", "When the hall opened, since 1970.", started_s)
    yield GaugeMetricFamily("hall_memory_bytes", "Resident memory of the hall.", hall["resident_bytes"])
    yield GaugeMetricFamily("hall_open_fds", "Open files and sockets of the hall.", hall["descriptors"])
    yield CounterMetricFamily("hall_cpu_seconds", "CPU time of the hall.", _seconds(hall["cpu_us"]))
    yield CounterMetricFamily("hall_turns", "Turns of the event loop.", hall["turns"])
    yield CounterMetricFamily("hall_pauses", "Times that the hall was stopped or suspended.", hall["pauses"])
    yield CounterMetricFamily("hall_commit_rows", "Changes of jobs that were committed.", hall["commit_rows"])
    yield CounterMetricFamily("hall_commit_failures", "Commits that failed.", hall["commit_failures"])
    bounds = _bounds(bounds_us)
    for name, text, (sum_us, counts) in (
        ("hall_commit_seconds", "How long commits took.", hall["commit"]),
        ("hall_loop_lag_seconds", "How late the event loop woke up, while scraped.", hall["lag"]),
    ):
        yield HistogramMetricFamily(name, text, _buckets(bounds, counts), _seconds(sum_us))


def _doors(doors: Sequence[Answer]) -> Iterator[Metric]:
    connections = GaugeMetricFamily("hall_door_connections", "Open connections.", labels=("door",))
    events = CounterMetricFamily(
        "hall_door_events", "Events of the log, written or not.", labels=("door", "event")
    )
    for door in doors:
        connections.add_metric((door["door"],), door["connections"])
        for event in sorted({*DOOR_EVENTS, *door["events"]}):
            events.add_metric((door["door"], event), door["events"].get(event, 0))
    yield from (connections, events)
    for name, text, count in DOOR_COUNTS:
        family = CounterMetricFamily(name, text, labels=("door",))
        for door in doors:
            family.add_metric((door["door"],), door[count])
        yield family


def _events(counts: Mapping[str, int]) -> Metric:
    events = CounterMetricFamily("hall_events", "Events of the log that belong to no door.", labels=("event",))
    for event in sorted({*HALL_EVENTS, *counts}):
        events.add_metric((event,), counts.get(event, 0))
    return events


def _bounds(bounds_us: Sequence[int]) -> list[str]:
    return [*[repr(_seconds(bound_us)) for bound_us in bounds_us], "+Inf"]


def _buckets(bounds: Sequence[str], counts: Sequence[int]) -> list[tuple[str, float]]:
    """Each bucket with all shorter times, as Prometheus wants it."""
    return list(zip(bounds, accumulate(counts), strict=True))


def _seconds(us: int) -> float:
    return us / 1_000_000
