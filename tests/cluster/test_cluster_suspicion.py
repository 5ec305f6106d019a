"""A hall is suspected by changes that the observer did not see, in time in which the database answered."""

from __future__ import annotations

from hiringhall.cluster.beating import BEAT_S
from hiringhall.cluster.reign import LEASE_US
from hiringhall.cluster.suspicion import GAP_US, SILENCE_US, Suspicion

STEP_US = 250_000


def watch(suspicion: Suspicion, begin_us: int, duration_us: int, beat: int) -> int:
    """Look again and again at a beat that stands still; when it was suspected first, 0: it was not."""
    for now_us in range(begin_us, begin_us + duration_us + 1, STEP_US):
        if suspicion.answered(now_us, 7, beat):
            return now_us
    return 0


def test_a_beat_that_stands_still_is_suspected_after_its_time_and_not_before() -> None:
    assert watch(Suspicion(), 1_000_000, 10_000_000, 5) == 1_000_000 + SILENCE_US


def test_a_beat_that_moves_is_not_suspected() -> None:
    suspicion = Suspicion()
    for beat in range(100):
        assert not watch(suspicion, 1 + beat * 3_000_000, 3_000_000 - STEP_US, beat)


def test_another_incarnation_with_the_same_beat_is_another_hall() -> None:
    suspicion = Suspicion()
    watch(suspicion, 1, SILENCE_US - STEP_US, 5)
    assert not suspicion.answered(1 + SILENCE_US, 8, 5)


def test_time_in_which_the_database_did_not_answer_does_not_count() -> None:
    suspicion = Suspicion()
    assert not watch(suspicion, 1, SILENCE_US - STEP_US, 5)
    suspicion.missed()
    later_us = 60_000_000
    assert not suspicion.answered(later_us, 7, 5)
    assert suspicion.answered(later_us + STEP_US, 7, 5)


def test_a_pause_of_the_observer_counts_only_a_little() -> None:
    suspicion = Suspicion()
    assert not suspicion.answered(1, 7, 5)
    assert not suspicion.answered(600_000_000, 7, 5)
    assert watch(suspicion, 600_000_000 + STEP_US, 10_000_000, 5) >= 600_000_000 + SILENCE_US - GAP_US


def test_a_hall_stops_handing_out_before_it_is_suspected_even_by_a_clock_that_is_a_quarter_slow() -> None:
    assert LEASE_US / 0.75 <= SILENCE_US
    assert BEAT_S * 1_000_000 < LEASE_US / 3, "a few beats may fail"
