"""Workers, managers and devices at work, over real sockets on the loopback."""

from __future__ import annotations

import asyncio
import socket

import pytest
from wmp_stage import ANY, Hands, act, begun, free_address, manager

from hiringhall.peers.wmp import (
    Data,
    Device,
    JobCancelled,
    JobFailed,
    Manager,
    Progress,
)

# --- jobs


@pytest.mark.parametrize("devices", [0, 1, 3])
def test_a_job_by_way_of_devices(devices: int) -> None:
    async def story() -> None:
        async with manager() as first, manager("[::1]:0", "you") as second:
            managers = [first.address, second.address]
            chain: list[Device] = []
            for _ in range(devices):
                chain.append(Device(ANY, managers))
                await chain[-1].open()
                managers = [chain[-1].address]
            async with Hands().worker(*managers):
                job = second.submit("tell", b"data", key="k")
                assert [update async for update in job] == [Progress(1, 2), Data(b"piece")]
                assert await job.result() == b"tell|k|you|data"
                assert job.progress == Progress(1, 2)
                assert await first.do("reverse", b"abc") == b"cba"
            for device in chain:
                assert device.forwarded > 10
                await device.close()

    act(story())


@pytest.mark.parametrize(
    ("payload", "reason", "code"),
    [
        (b"known", b"out of luck", 7),
        (b"unknown", b"KeyError: 'surprise'", 1),
        (b"unspeakable", b"ValueError: \\ud800", 1),
        (b"text", b"TypeError: a handler must return bytes or None, not str", 1),
    ],
)
def test_a_job_that_fails(payload: bytes, reason: bytes, code: int) -> None:
    async def story() -> None:
        async with manager() as boss, Hands().worker(boss.address):
            with pytest.raises(JobFailed) as caught:
                await boss.do("fail", payload)
            assert (caught.value.reason, caught.value.code) == (reason, code)

    act(story())


def test_cancel_stops_the_handler_and_frees_the_slot() -> None:
    async def story() -> None:
        hands = Hands()
        async with manager() as boss, hands.worker(boss.address, slots=1) as worker:
            job = boss.submit("wait", b"")
            await begun(job)
            job.cancel()
            with pytest.raises(JobCancelled):
                await job.result()
            await hands.cancelled.wait()
            assert await boss.do("reverse", b"abc") == b"cba"
            assert worker.state.locked == 0

    act(story())


def test_who_no_longer_waits_for_a_job_cancels_it() -> None:
    async def story() -> None:
        hands = Hands()
        async with manager() as boss, hands.worker(boss.address, slots=1):
            waiting = asyncio.create_task(boss.do("wait", b""))
            await hands.one_at_gate.wait()
            waiting.cancel()
            await asyncio.wait([waiting])
            await hands.cancelled.wait()
            assert boss.state.jobs == {}

    act(story())


def test_several_jobs_at_once_and_no_more_than_there_are_slots() -> None:
    async def story() -> None:
        hands = Hands()
        async with (
            manager() as first,
            manager(identity="you") as second,
            hands.worker(first.address, second.address, slots=3) as worker,
        ):
            jobs = [boss.submit("wait", b"") for boss in (first, second) for _ in range(5)]
            await hands.three_at_gate.wait()
            assert (worker.state.used, worker.state.free) == (3, 0)
            hands.gate.set()
            assert [await job.result() for job in jobs] == [b"through"] * 10
            assert hands.most_at_gate == 3

    act(story())


def test_a_job_takes_the_part_of_the_resources_that_it_costs() -> None:
    async def story() -> None:
        hands = Hands()
        async with manager() as boss, hands.worker(boss.address, slots=3, costs={"wait": 3}) as worker:
            jobs = [boss.submit("wait", b"") for _ in range(2)]
            await begun(jobs[0])
            assert worker.state.used == 3
            small = boss.submit("reverse", b"abc")
            hands.gate.set()
            assert await small.result() == b"cba"
            assert [await job.result() for job in jobs] == [b"through"] * 2
            assert hands.most_at_gate == 1

    act(story())


def test_a_long_job_that_shows_life_is_not_given_to_another() -> None:
    async def story() -> None:
        hands = Hands()
        async with manager(lease_s=1.5) as boss, hands.worker(boss.address) as worker:
            job = boss.submit("wait", b"")
            await begun(job)
            (ticket,) = boss.state.jobs.values()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(2.0):
                    await job.result()
            assert (ticket.losses, worker.state.used) == (0, 1)
            hands.gate.set()
            assert await job.result() == b"through"

    act(story())


# --- coming and going


def test_a_worker_may_be_there_before_its_manager_and_outlive_it() -> None:
    async def story() -> None:
        address = free_address()
        async with Hands().worker(address):
            for _ in range(3):
                async with manager(address) as boss:
                    assert await boss.do("reverse", b"abc") == b"cba"

    act(story())


def test_a_device_may_be_killed_and_started_again() -> None:
    async def story() -> None:
        address = free_address()
        async with manager() as boss, Hands().worker(address):
            for _ in range(3):
                async with Device(address, [boss.address]):
                    assert await boss.do("reverse", b"abc") == b"cba"

    act(story())


def test_a_worker_that_stops_finishes_what_it_has() -> None:
    async def story() -> None:
        hands = Hands()
        async with manager() as boss:
            async with hands.worker(boss.address) as worker:
                job = boss.submit("wait", b"")
                await begun(job)
                worker.stop()
                hands.gate.set()
            assert await job.result() == b"through"

    act(story())


def test_a_worker_that_is_cancelled_gives_its_jobs_back() -> None:
    async def story() -> None:
        hands, others = Hands(), Hands()
        others.gate.set()
        async with manager(lease_s=1000) as boss:
            leaving = asyncio.create_task(hands.worker(boss.address).run())
            job = boss.submit("wait", b"")
            await begun(job)
            leaving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await leaving
            assert hands.cancelled.is_set()
            async with others.worker(boss.address):
                assert await job.result() == b"through"

    act(story())


def test_who_leaves_a_worker_in_trouble_does_not_wait_for_its_jobs() -> None:
    async def trouble(boss: Manager, hands: Hands) -> None:
        async with hands.worker(boss.address):
            await begun(boss.submit("wait", b""))
            raise KeyError("trouble")

    async def story() -> None:
        hands = Hands()
        async with manager() as boss:
            with pytest.raises(KeyError, match="trouble"):
                await trouble(boss, hands)
            assert hands.cancelled.is_set()

    act(story())


def test_a_manager_that_closes_cancels_its_jobs() -> None:
    async def story() -> None:
        hands = Hands()
        async with manager() as boss, hands.worker(boss.address):
            running, waiting = boss.submit("wait", b""), boss.submit("nobody can do this", b"")
            await begun(running)
            await boss.close()
            for job in (running, waiting):
                assert job.ended
                with pytest.raises(JobCancelled):
                    await job.result()
            await hands.cancelled.wait()

    act(story())


@pytest.mark.parametrize("kind", ["manager", "device"])
def test_run_and_stop(kind: str) -> None:
    async def story() -> None:
        peer = manager() if kind == "manager" else Device(ANY, ["127.0.0.1:1"])
        await peer.open()
        running = asyncio.create_task(peer.run())
        peer.stop()
        await running
        with socket.create_server(("127.0.0.1", int(peer.address.rpartition(":")[2]))):
            pass

    act(story())
