"""Failed attempts are answered later and later; memory is bounded."""

from __future__ import annotations

from hiringhall.access.attempts import DELAY_S_MAX, FREE, QUIET_S, Attempts


def test_the_first_failures_are_answered_at_once_and_later_ones_ever_later() -> None:
    attempts = Attempts()
    delays = [attempts.failed("10.0.0.1", 0.0) for _ in range(40)]
    assert delays[:FREE] == [0.0] * FREE
    assert delays[FREE:] == sorted(delays[FREE:])
    assert 0 < delays[FREE] < delays[FREE + 1]
    assert delays[-1] == DELAY_S_MAX


def test_another_address_and_a_quiet_one_begin_anew() -> None:
    attempts = Attempts()
    for _ in range(20):
        attempts.failed("10.0.0.1", 0.0)
    assert attempts.failed("10.0.0.2", 0.0) == 0.0
    assert attempts.failed("10.0.0.1", QUIET_S) == DELAY_S_MAX
    assert attempts.failed("10.0.0.1", 2 * QUIET_S + 1) == 0.0


def test_the_addresses_of_one_machine_count_together() -> None:
    attempts = Attempts()
    for number in range(20):
        attempts.failed(f"2001:db8::{number:x}", 0.0)
    assert attempts.failed("2001:db8::ffff", 0.0) == DELAY_S_MAX
    assert attempts.failed("2001:db8:0:1::1", 0.0) == 0.0
    assert len(attempts) == 2


def test_memory_is_bounded_and_the_quietest_is_forgotten() -> None:
    attempts = Attempts(addresses_max=2)
    for _ in range(20):
        attempts.failed("a", 0.0)
    attempts.failed("b", 1.0)
    attempts.failed("c", 2.0)
    assert len(attempts) == 2
    assert attempts.failed("a", 3.0) == 0.0
