"""Stories of a provider: it announces, chooses, and has its jobs performed, whatever its workers do."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Final

import pytest
from hire_stage import ANN, BEN, MILL, Street, act, street

from hiringhall.peers.hire import (
    Ask,
    Bid,
    Left,
    Performance,
    Provider,
    best_skill,
    least_waiting,
    soonest,
    sufficient_skill,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID


async def announced(hall: Street, kind: str = "grind") -> str:
    job, heard = await hall.expect_word(MILL, "ANNOUNCE")
    assert heard == kind
    return job


async def hired(hall: Street, who: UUID, skill: int = 1) -> str:
    """Somebody bids for the next job, and is hired; the job."""
    job = await announced(hall)
    hall.say(f"{who} AVAIL {job}:0:{skill}")
    await hall.expect(f"{MILL} HIRE {who}:{job}")
    return job


LONG_S: Final = 3600.0
"""Longer than any test waits."""
WINDOW_S: Final = 0.4
"""Every test that hires waits for its end. A bid arrives within it, also where the machine is busy."""


def mill(hall: Street, *, answer_s: float = 5.0, buffer_s: float = 5.0, ahead_s: float = 0.0) -> Provider:
    return Provider(
        hall.address,
        uuid=MILL,
        window_s=WINDOW_S,
        answer_s=answer_s,
        buffer_s=buffer_s,
        ahead_s=ahead_s,
        pause_s=0.01,
    )


class Pausing(Provider):
    """One who pauses for long, and can be seen to do so."""

    def __init__(self, hall: Street, window_s: float) -> None:
        super().__init__(
            hall.address,
            uuid=MILL,
            policy=self._choose_bid,
            window_s=window_s,
            pause_s=LONG_S,
            pause_max_s=LONG_S,
            buffer_s=LONG_S,
            answer_s=LONG_S,
        )
        self.wants_none = False
        self.asked = asyncio.Event()
        """The window is over."""
        self.missing = asyncio.Event()
        """The connection is lost."""

    def _choose_bid(self, bids: Sequence[Bid], ask: Ask) -> Bid | None:
        self.asked.set()
        return None if self.wants_none else soonest(bids, ask)

    def lost(self) -> None:
        super().lost()
        self.missing.set()


def silent_mill(hall: Street, stage: str) -> Provider:
    """One that loses its patience with those who are silent at this stage."""
    return mill(hall, buffer_s=0.01) if stage == "never starts" else mill(hall, answer_s=0.01)


def test_a_job_from_its_announcement_to_its_end() -> None:
    async def story() -> None:
        async with (
            street() as hall,
            Provider(hall.address, uuid=MILL, window_s=WINDOW_S, policy=best_skill) as provider,
        ):
            await hall.meet()
            working = asyncio.create_task(provider.employ("grind", 0.01))
            job = await announced(hall)
            hall.say(f"{ANN} AVAIL {job}:0:4", f"{BEN} AVAIL {job}:3:9")
            await hall.expect(f"{MILL} HIRE {BEN}:{job}")
            hall.say(f"{BEN} START {job}")
            await hall.expect(f"{MILL} PERFORM {job}:grind:0.01")
            hall.say(f"{BEN} PERFORMING {job}")
            await hall.expect(f"{MILL} DISMISS {BEN}:{job}")
            performance = await working
            assert performance[:5] == (job, "grind", BEN, 9, 1)
            assert performance.due_s < performance.begun_s < performance.ended_s
            assert performance.waited_s > WINDOW_S

    act(story())


def test_a_provider_that_is_satisfied_earlier_dismisses_earlier() -> None:
    async def story() -> None:
        async with street() as hall, mill(hall) as provider:
            await hall.meet()
            satisfied = asyncio.Event()
            working = asyncio.create_task(provider.employ("grind", 3600.0, satisfied=satisfied))
            job = await hired(hall, ANN)
            hall.say(f"{ANN} START {job}")
            await hall.expect(f"{MILL} PERFORM {job}:grind:3600")
            hall.say(f"{ANN} PERFORMING {job}")
            satisfied.set()
            await hall.expect(f"{MILL} DISMISS {ANN}:{job}")
            assert (await working).worker == ANN

    act(story())


@pytest.mark.parametrize("stage", ["bid", "hired", "there", "called", "performing"])
def test_whoever_quits_the_job_is_announced_again(stage: str) -> None:
    async def story() -> None:
        async with street() as hall, mill(hall) as provider:
            await hall.meet()
            working = asyncio.create_task(provider.employ("grind", 0.5 if stage == "performing" else 0.01))
            if stage == "bid":
                job = await announced(hall)
                hall.say(f"{ANN} AVAIL {job}:0:1")
            else:
                job = await hired(hall, ANN)
            if stage in ("called", "performing"):
                hall.say(f"{ANN} START {job}")
                await hall.expect_word(MILL, "PERFORM")
            if stage == "performing":
                hall.say(f"{ANN} PERFORMING {job}")
            hall.say(f"{ANN} QUIT {job}")
            assert await hired(hall, BEN) == job  # and ANN is told nothing
            hall.say(f"{BEN} START {job}")
            await hall.expect_word(MILL, "PERFORM")
            hall.say(f"{BEN} PERFORMING {job}")
            await hall.expect(f"{MILL} DISMISS {BEN}:{job}")
            assert (await working).announced == 2

    act(story())


@pytest.mark.parametrize("stage", ["never starts", "never performs"])
def test_whoever_is_silent_is_dismissed(stage: str) -> None:
    async def story() -> None:
        async with street() as hall, silent_mill(hall, stage) as provider:
            await hall.meet()
            working = asyncio.create_task(provider.employ("grind", 0.01))
            job = await hired(hall, ANN)
            if stage == "never performs":
                hall.say(f"{ANN} START {job}")
                await hall.expect_word(MILL, "PERFORM")
            await hall.expect(f"{MILL} DISMISS {ANN}:{job}")
            assert await announced(hall) == job
            working.cancel()

    act(story())


def test_a_dismissed_worker_that_comes_all_the_same_is_told_again() -> None:
    async def story() -> None:
        async with street() as hall, mill(hall) as provider:
            await hall.meet()
            working = asyncio.create_task(provider.employ("grind", 0.01))
            job = await hired(hall, ANN)
            hall.say(f"{BEN} START {job}")
            await hall.expect(f"{MILL} DISMISS {BEN}:{job}")
            working.cancel()
            await hall.expect(f"{MILL} DISMISS {ANN}:{job}")

    act(story())


def test_a_job_nobody_wants_is_announced_again_and_so_is_one_for_better_hands() -> None:
    async def story() -> None:
        async with street() as hall, mill(hall) as provider:
            await hall.meet()
            working = asyncio.create_task(provider.employ("grind", 0.01, skill=10))
            job = await announced(hall)
            hall.say(f"{ANN} AVAIL {job}:0:9")
            assert await announced(hall) == job
            hall.say(f"{BEN} AVAIL {job}:0:10")
            await hall.expect(f"{MILL} HIRE {BEN}:{job}")
            working.cancel()

    act(story())


def test_a_job_announced_ahead_is_not_begun_before_it_is_due() -> None:
    async def story() -> None:
        async with street() as hall, mill(hall, ahead_s=60.0) as provider:
            await hall.meet()
            due_s = asyncio.get_running_loop().time() + 0.5
            working = asyncio.create_task(provider.employ("grind", 0.01, due_s=due_s))
            job = await hired(hall, ANN)
            hall.say(f"{ANN} START {job}")
            assert asyncio.get_running_loop().time() < due_s
            await hall.expect_word(MILL, "PERFORM")
            assert asyncio.get_running_loop().time() >= due_s
            hall.say(f"{ANN} PERFORMING {job}")
            performance: Performance = await working
            assert 0 <= performance.waited_s < 5

    act(story())


def test_after_a_lost_connection_the_job_is_announced_again() -> None:
    async def story() -> None:
        async with street() as hall, mill(hall) as provider:
            await hall.meet()
            working = asyncio.create_task(provider.employ("grind", 0.01))
            job = await hired(hall, ANN)
            hall.hang_up()
            await hall.meet()
            assert await announced(hall) == job
            working.cancel()

    act(story())


@pytest.mark.parametrize("stage", ["bidding", "pausing", "expecting", "performing"])
def test_a_lost_connection_ends_every_wait(stage: str) -> None:
    async def story() -> None:
        async with street() as hall, Pausing(hall, LONG_S if stage == "bidding" else WINDOW_S) as provider:
            await hall.meet()
            provider.wants_none = stage == "pausing"
            working = asyncio.create_task(provider.employ("grind", LONG_S))
            job = await announced(hall)
            hall.say(f"{ANN} AVAIL {job}:{LONG_S}:1")
            if stage == "pausing":
                await provider.asked.wait()
            elif stage in ("expecting", "performing"):
                await hall.expect(f"{MILL} HIRE {ANN}:{job}")
            if stage == "performing":
                hall.say(f"{ANN} START {job}")
                await hall.expect_word(MILL, "PERFORM")
                hall.say(f"{ANN} PERFORMING {job}")
            hall.hang_up()
            await hall.meet()
            assert await announced(hall) == job  # and not HIRE, of somebody who bid in another life
            working.cancel()

    act(story())


def test_nothing_is_announced_while_nobody_can_hear_it() -> None:
    async def story() -> None:
        async with street() as hall, mill(hall) as provider:
            await hall.meet()
            hall.hang_up()
            await hall.meet()
            due_s = asyncio.get_running_loop().time() + 0.2
            working = asyncio.create_task(provider.employ("grind", 0.01, due_s=due_s))
            await asyncio.sleep(0)  # it has begun
            hall.hang_up()  # before it is due
            await hall.meet()
            await hired(hall, ANN)
            assert asyncio.get_running_loop().time() >= due_s
            hall.hang_up()
            await hall.meet()
            job = await hired(hall, BEN)
            hall.say(f"{BEN} START {job}")
            await hall.expect_word(MILL, "PERFORM")
            hall.say(f"{BEN} PERFORMING {job}")
            assert (await working).announced == 2

    act(story())


@pytest.mark.parametrize("time_s", [4e7, 1e300, math.inf, math.nan, -1.0])
def test_a_time_that_cannot_be_said_is_refused_before_anybody_is_hired(time_s: float) -> None:
    async def story() -> None:
        async with street() as hall, mill(hall) as provider:
            await hall.meet()
            with pytest.raises(ValueError, match=r"must be from 0 to 31536000 \(a year\), not"):
                await provider.employ("precious", time_s)
            working = asyncio.create_task(provider.employ("grind", 31_536_000.0))
            await announced(hall)
            working.cancel()

    act(story())


@pytest.mark.parametrize(
    ("due_s", "skill", "wrong"), [(math.nan, 0, "due"), (math.inf, 0, "due"), (0.0, 1_000_001, "skill")]
)
def test_a_job_that_nobody_could_ever_do_is_refused(due_s: float, skill: int, wrong: str) -> None:
    async def story() -> None:
        async with street() as hall, mill(hall) as provider:
            await hall.meet()
            with pytest.raises(ValueError, match=wrong):
                await provider.employ("grind", 1.0, due_s=due_s, skill=skill)

    act(story())


def test_the_longest_id_can_be_said_in_the_short_form() -> None:
    async def story() -> None:
        async with street() as hall, Provider(hall.address, uuid=MILL, compact=True) as provider:
            await hall.meet()
            working = asyncio.create_task(provider.employ("grind", 1.0, job="j" * 255))
            await hall.expect(f"!qqqqqgAAQACAAAAAAAAAAQN.{'j' * 255}:grind")
            working.cancel()

    act(story())


def test_a_job_may_have_an_id_of_its_own_if_it_is_one_word_and_nobody_elses() -> None:
    async def story() -> None:
        async with street() as hall, mill(hall) as provider:
            await hall.meet()
            working = asyncio.create_task(provider.employ("fine: flour", 60.0, job=str(ANN).upper()))
            await hall.expect(f"{MILL} ANNOUNCE {ANN}:fine%3A%20flour")
            with pytest.raises(ValueError, match="is already open"):
                await provider.employ("grind", 1.0, job=str(ANN))
            for wrong in ("two words", "a:b"):
                with pytest.raises(ValueError, match=r"field|blank"):
                    await provider.employ("grind", 1.0, job=wrong)
            hall.say(f"{BEN} AVAIL {ANN}:0:1")
            await hall.expect(f"{MILL} HIRE {BEN}:{ANN}")
            working.cancel()

    act(story())


def test_a_provider_that_leaves_dismisses_its_workers() -> None:
    async def story() -> None:
        async with street() as hall:
            async with mill(hall) as provider:
                await hall.meet()
                working = asyncio.create_task(provider.employ("grind", 60.0))
                job = await hired(hall, ANN)
            await hall.expect(f"{MILL} DISMISS {ANN}:{job}", "")
            with pytest.raises(Left):
                await working

    act(story())


@pytest.mark.parametrize("stage", ["not due", "bidding", "pausing", "lost", "expecting", "performing"])
def test_who_waits_for_a_provider_that_leaves_hears_of_it_at_once(stage: str) -> None:
    async def story() -> None:
        async with street() as hall, Pausing(hall, LONG_S if stage == "bidding" else WINDOW_S) as provider:
            await hall.meet()
            due_s = asyncio.get_running_loop().time() + (LONG_S if stage == "not due" else 0.0)
            provider.wants_none = stage == "pausing"
            working = asyncio.create_task(provider.employ("grind", LONG_S, due_s=due_s))
            if stage == "not due":
                await asyncio.sleep(0)  # it has begun
            else:
                job = await announced(hall)
                hall.say(f"{ANN} AVAIL {job}:{LONG_S}:1")
            if stage == "pausing":
                await provider.asked.wait()
            elif stage == "lost":
                hall.close()
                hall.hang_up()
                await provider.missing.wait()
            elif stage in ("expecting", "performing"):
                await hall.expect(f"{MILL} HIRE {ANN}:{job}")
            if stage == "performing":
                hall.say(f"{ANN} START {job}")
                await hall.expect_word(MILL, "PERFORM")
                hall.say(f"{ANN} PERFORMING {job}")
            provider.leave()
            with pytest.raises(Left):
                await working
            with pytest.raises(Left):
                await provider.employ("grind", 1.0)

    act(story())


def test_policies_choose_what_their_names_say() -> None:
    early, late, good = Bid(ANN, 5, 10.0), Bid(BEN, 5, 25.0), Bid(MILL, 9, 40.0)
    bids = [late, good, early]
    ask = Ask(0, 28.0, 0.0)
    assert soonest(bids, ask) == early
    assert best_skill(bids, ask) == good
    assert best_skill([late, early], ask) == early
    assert sufficient_skill(bids, Ask(6, 28.0, 0.0)) == good
    assert sufficient_skill(bids, Ask(10, 28.0, 0.0)) is None
    assert least_waiting(bids, ask) == late
    assert least_waiting(bids, Ask(0, 0.0, 11.0)) == early
    assert soonest([], ask) is None
