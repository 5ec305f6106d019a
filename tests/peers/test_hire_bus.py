"""Stories on a bus: everybody hears everybody, no hall is there, and lines get lost."""

from __future__ import annotations

import asyncio

import pytest
from hire_stage import ANN, BEN, INN, MILL, act, bus

from hiringhall.peers.hire import Provider, Worker, best_skill


def test_a_village_without_a_hall() -> None:
    async def story() -> None:
        async with (
            bus() as place,
            Worker(place.address, {"grind": 3, "brew": 2}, uuid=ANN),
            Worker(place.address, {"grind": 8}, uuid=BEN, compact=True),
            Provider(place.address, uuid=MILL, window_s=0.1, policy=best_skill, pause_s=0.01) as mill,
            Provider(place.address, uuid=INN, window_s=0.1, pause_s=0.01) as inn,
        ):
            # Who has joined a moment ago may not be heard yet: it is announced until there is somebody.
            brewed, ground = await asyncio.gather(inn.employ("brew", 0.05), mill.employ("grind", 0.05, skill=5))
            assert (brewed.worker, ground.worker, ground.skill) == (ANN, BEN, 8)
            await place.until(MILL, "DISMISS")
            spoken = [verb for who, verb in place.heard if who in (BEN, MILL)]
            start = len(spoken) - 1 - spoken[::-1].index("HIRE")
            assert spoken[start:] == ["HIRE", "START", "PERFORM", "PERFORMING", "DISMISS"]

    act(story())


@pytest.mark.parametrize("verb", ["ANNOUNCE", "AVAIL", "HIRE", "START", "PERFORM", "PERFORMING"])
def test_a_lost_line_costs_time_but_no_job(verb: str) -> None:
    async def story() -> None:
        async with (
            bus() as place,
            Worker(place.address, {"grind": 3}, uuid=ANN, patience_s=0.1, overtime_s=0.2),
            Provider(
                place.address,
                uuid=MILL,
                window_s=0.05,
                answer_s=0.1,
                buffer_s=0.1,
                pause_s=0.01,
                pause_max_s=0.1,
            ) as mill,
        ):
            assert (await mill.employ("grind", 0.01)).worker == ANN
            before = len(place.heard)
            place.losing.append(verb)
            performance = await mill.employ("grind", 0.01)
            assert performance.announced >= 2
            assert not place.losing
            assert [word for _, word in place.heard[before:]].count(verb) >= 2
            assert (await mill.employ("grind", 0.01)).worker == ANN  # nobody is held by it

    act(story())


def test_a_lost_dismissal_holds_nobody_for_ever() -> None:
    async def story() -> None:
        async with (
            bus() as place,
            Worker(place.address, {"grind": 3}, uuid=ANN, overtime_s=0.05),
            Provider(place.address, uuid=MILL, window_s=0.05, pause_s=0.01, pause_max_s=0.1) as mill,
        ):
            place.losing.append("DISMISS")
            await mill.employ("grind", 0.01)
            assert (await mill.employ("grind", 0.01)).worker == ANN
            assert (ANN, "QUIT") in place.heard

    act(story())
