"""Labels of queues in the metrics: bounded, stable and unique, and nothing that is counted is lost."""

from __future__ import annotations

from typing import Any

from web_metrics import BUCKETS, answer, queue

from hiringhall.web.queue_labels import LABEL_CHARACTERS_MAX, OTHER, QueueLabels, label_of


def labels(labels: QueueLabels, **changes: Any) -> list[str]:
    return [shown.label for shown in labels.arrange(answer(**changes))]


def other(labels: QueueLabels, **changes: Any) -> Any:
    return labels.arrange(answer(**changes))[-1].queue


def test_the_busiest_queues_get_a_label_and_the_rest_is_other() -> None:
    queues = {b"q%d" % number: queue(submitted_total=number, ready=1) for number in range(5)}
    shown = QueueLabels(2).arrange(answer(queues=queues))
    assert [one.label for one in shown] == ["q4", "q3", OTHER]
    assert shown[-1].queue["ready"] == 3


def test_a_queue_keeps_its_label_when_others_become_busier() -> None:
    kept = QueueLabels(1)
    assert labels(kept, queues={b"a": queue(submitted_total=5), b"b": queue()}) == ["a", OTHER]
    assert labels(kept, queues={b"a": queue(), b"b": queue(submitted_total=50)}) == ["a", OTHER]
    assert labels(kept, queues={b"b": queue(submitted_total=50)}) == ["b", OTHER]


def test_other_counts_what_queues_without_a_label_have_done_since_the_first_answer() -> None:
    kept = QueueLabels(1)
    first = {b"a": queue(done_total=100, submitted_total=100), b"b": queue(done_total=10)}
    assert other(kept, queues=first)["done_total"] == 0
    later = {b"a": queue(done_total=130, submitted_total=130), b"b": queue(done_total=17)}
    assert other(kept, queues=later)["done_total"] == 7
    assert other(kept, queues=later)["done_total"] == 7


def test_other_does_not_fall_when_a_queue_gets_a_label() -> None:
    kept = QueueLabels(1)
    other(kept, queues={b"a": queue(submitted_total=9), b"b": queue(done_total=10)})
    both = {b"a": queue(submitted_total=9), b"b": queue(done_total=15)}
    assert other(kept, queues=both)["done_total"] == 5
    # The queue a was dropped by the hall; b gets its label.
    only = {"queues": {b"b": queue(done_total=18)}, "other": {"submitted_total": 9}}
    assert labels(kept, **only) == ["b", OTHER]
    assert 5 <= other(kept, **only)["done_total"] <= 8


def test_a_new_queue_with_a_label_adds_nothing_to_other() -> None:
    kept = QueueLabels(5)
    other(kept, queues={b"a": queue(done_total=3)})
    assert other(kept, queues={b"a": queue(done_total=3), b"b": queue(done_total=4)})["done_total"] == 0


def test_a_hall_that_has_restarted_counts_from_0() -> None:
    kept = QueueLabels(1)
    started: Any = {"hall": {"started_us": 1}}
    other(kept, queues={b"a": queue(submitted_total=1), b"b": queue()}, **started)
    assert (
        other(kept, queues={b"a": queue(submitted_total=1), b"b": queue(lost_total=8)}, **started)["lost_total"]
        == 8
    )
    restarted: Any = {"hall": {"started_us": 2}}
    assert other(kept, queues={b"a": queue(), b"b": queue(lost_total=2)}, **restarted)["lost_total"] == 2


def test_times_of_other_have_all_buckets() -> None:
    kept = QueueLabels(0)
    other(kept, queues={b"a": queue()})
    counts = [0] * BUCKETS
    counts[3] = 2
    times = other(kept, queues={b"a": queue(run=(5000, counts))})
    assert times["run"] == (5000, tuple(counts))
    assert times["wait"] == (0, (0,) * BUCKETS)


def test_names_that_cannot_be_shown_are_escaped_and_never_collide() -> None:
    assert label_of("größe".encode()) == "größe"
    assert label_of(b"a\nb\x00") == "a\\nb\\x00"
    names = [b"\xff", b"\\xff", OTHER.encode(), b"x" * 500, b"x" * 501]
    shown = labels(QueueLabels(), queues={name: queue() for name in names})
    assert len(set(shown)) == len(names) + 1
    assert all(len(label) <= LABEL_CHARACTERS_MAX + 13 for label in shown)
