"""Counting what repeats."""

from __future__ import annotations

import logging

from hiringhall.logs.repeats import TOPICS_MAX, Repeats, Summary, Topic

BAD = Topic(logging.WARNING, "bad_input", "bad input", "gearman@127.0.0.1:4730")
LOST = Topic(logging.WARNING, "lost_worker", "lost worker", "gearman@127.0.0.1:4730", b"rev")


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_the_first_lines_are_admitted_and_the_rest_is_summarised() -> None:
    clock = Clock()
    repeats = Repeats(10.0, clock)
    assert [repeats.admit(BAD, 2) for _ in range(5)] == [True, True, False, False, False]
    clock.now_s += 9.9
    assert repeats.summaries() == []
    clock.now_s += 0.1
    assert repeats.summaries() == [Summary(BAD, 3, 10.0)]
    assert repeats.summaries() == []


def test_after_its_window_a_topic_is_admitted_again_and_nothing_is_forgotten() -> None:
    clock = Clock()
    repeats = Repeats(10.0, clock)
    repeats.admit(BAD, 1)
    repeats.admit(BAD, 1)
    clock.now_s += 10.0
    assert repeats.admit(BAD, 1)
    assert repeats.summaries() == [Summary(BAD, 1, 10.0)]


def test_topics_are_counted_apart() -> None:
    repeats = Repeats(10.0, Clock())
    assert repeats.admit(BAD, 1)
    assert repeats.admit(LOST, 1)
    assert not repeats.admit(LOST, 1)
    assert repeats.summaries(all_of_them=True) == [Summary(LOST, 1, 0.0)]


def test_what_does_not_repeat_is_not_summarised() -> None:
    clock = Clock()
    repeats = Repeats(10.0, clock)
    repeats.admit(BAD, 1)
    clock.now_s += 60.0
    assert repeats.summaries() == []


def test_of_too_many_topics_the_oldest_is_summarised_early() -> None:
    repeats = Repeats(10.0, Clock())
    repeats.admit(BAD, 1)
    repeats.admit(BAD, 1)
    for number in range(TOPICS_MAX):
        repeats.admit(Topic(logging.INFO, "", f"message {number}"), 1)
    assert repeats.summaries() == [Summary(BAD, 1, 0.0)]
