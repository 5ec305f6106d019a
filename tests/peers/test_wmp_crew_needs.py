"""What a WMP worker says of its skills and its time, to all managers, with every READY."""

from __future__ import annotations

import pytest

from hiringhall.dialects.wmp import wire
from hiringhall.peers.wmp import Worker, WorkerState, WorkerTerms
from hiringhall.peers.wmp.worker_state import SECOND_US, Effect, Send


def said(effects: list[Effect]) -> list[list[tuple[bytes, bytes]]]:
    """The headers of each READY that goes out."""
    headers = []
    for effect in effects:
        assert isinstance(effect, Send)
        message = wire.parse_body(effect.frames[-1])
        assert message.command == wire.READY
        headers.append(message.headers)
    return headers


def test_ready_counts_the_time_down() -> None:
    crew = WorkerState(2, {b"resize": 1}, WorkerTerms(name=b"blade-7", skills=((b"resize", 9), (b"crop", 0))))
    crew.until_us = 30 * SECOND_US
    ready = [
        (b"role", b"resize"),
        (b"worker", b"blade-7"),
        (b"slots", b"1"),
        (b"skill", b"9 resize"),
        (b"skill", b"0 crop"),
    ]
    assert said(crew.start(0)) == [[*ready, (b"time-left", b"30")]] * 2
    assert said(crew.tick(SECOND_US // 2)) == [[*ready, (b"time-left", b"29.5")]] * 2
    assert said(crew.stay(5 * SECOND_US, SECOND_US)) == [[*ready, (b"time-left", b"5")]] * 2
    assert said(crew.tick(60 * SECOND_US)) == [[*ready, (b"time-left", b"0")]] * 2
    assert said(crew.stay(None, 61 * SECOND_US)) == [ready] * 2
    crew.audit()


def test_who_says_nothing_of_it_says_what_it_always_said() -> None:
    (headers,) = said(WorkerState(1, {b"resize": 1}, WorkerTerms()).start(0))
    assert headers == [(b"role", b"resize"), (b"slots", b"1")]


def test_a_crew_that_has_not_begun_or_has_left_tells_nobody() -> None:
    crew = WorkerState(1, {b"resize": 1}, WorkerTerms())
    assert crew.stay(SECOND_US, 0) == []
    crew.start(0)
    crew.leave()
    assert crew.stay(None, 1) == []


@pytest.mark.parametrize("skills", [{"resize": -1}, {"resize": wire.SKILL_MAX + 1}, {"crop": 1}])
def test_a_skill_is_a_number_for_a_role_of_its_own(skills: dict[str, int]) -> None:
    async def resize(_: object) -> bytes:
        return b""

    with pytest.raises(ValueError, match="a value from 0 to 1000000"):
        Worker(["127.0.0.1:1"], {"resize": resize}, skills=skills)
    worker = Worker(["127.0.0.1:1"], {"resize": resize}, skills={"resize": wire.SKILL_MAX})
    with pytest.raises(ValueError, match="must not be negative"):
        worker.stay(-1)
    with pytest.raises(ValueError, match="must not be negative"):
        Worker(["127.0.0.1:1"], {"resize": resize}, time_left_s=-0.5)
