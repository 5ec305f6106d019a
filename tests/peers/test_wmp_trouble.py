"""What goes wrong around WMP peers, over real sockets: bad frames, strangers, wrong addresses, wrong use."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import zmq
from wmp_stage import ANY, Hands, Raw, act, begun, manager
from zmq.utils.monitor import parse_monitor_message

from hiringhall.dialects.wmp import wire
from hiringhall.peers.wmp import (
    AddressError,
    Curve,
    Device,
    Job,
    LinkTerms,
    Manager,
    ManagerFull,
    WmpError,
    Worker,
)
from hiringhall.peers.wmp.links import is_private

# --- the wire, by hand


READY = wire.encode_body(wire.READY, [(b"role", b"r")])
NO = wire.encode_body(wire.NO, [(b"manager", b"M"), (b"role", b"r")])


def test_what_a_device_cannot_forward_is_counted_and_harms_nobody() -> None:
    async def story() -> None:
        with Raw(zmq.ROUTER) as above, Raw(zmq.DEALER) as below:
            port = above.socket.bind_to_random_port("tcp://127.0.0.1")
            async with Device(ANY, [f"127.0.0.1:{port}"]) as device:
                below.socket.set(zmq.IDENTITY, b"joe")
                below.socket.connect(f"tcp://{device.address}")
                for frames in ([b"m7", b"", b"", NO], [b"", b"", NO], [b"nonsense"], [b"", b"", READY]):
                    below.socket.send_multipart(frames)
                identity, *heard = await above.hear()
                assert heard == [b"", b"joe", b"", READY]
                assert (device.forwarded, device.dropped) == (1, 3)
                for path in ([b"nobody"], [], [b"joe"]):
                    above.socket.send_multipart([identity, *path, b"", b"", NO])
                assert await below.hear() == [b"", b"m0", b"", NO]
                assert (device.forwarded, device.dropped) == (2, 5)

    act(story())


def test_a_worker_with_an_identity_is_known_by_it() -> None:
    async def story() -> None:
        hands = Hands()
        async with manager() as boss, hands.worker(boss.address, identity=b"joe"):
            job = boss.submit("wait", b"")
            await begun(job)
            (ticket,) = boss.state.jobs.values()
            assert ticket.holder == (b"joe",)
            hands.gate.set()
            await job.result()

    act(story())


def test_a_job_sent_to_a_worker_that_is_gone_goes_to_another_at_once() -> None:
    async def story() -> None:
        async with manager(lease_s=1000) as boss:
            with Raw(zmq.DEALER) as gone:
                gone.socket.connect(f"tcp://{boss.address}")
                job = boss.submit("reverse", b"abc")
                gone.socket.send_multipart([b"", b"", READY.replace(b"role: r", b"role: reverse")])
                assert (await gone.hear())[2].startswith(b"WMP1 WAKE")
            async with Hands().worker(boss.address):
                assert await job.result() == b"cba"

    act(story())


def test_a_message_over_the_limit_costs_only_its_connection() -> None:
    async def story() -> None:
        boss = Manager(ANY, identity="me", links=LinkTerms(message_bytes_max=10_000))
        async with boss, Hands().worker(boss.address):
            with Raw(zmq.DEALER) as large:
                events = large.socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
                events.set(zmq.RCVTIMEO, 10_000)
                large.socket.connect(f"tcp://{boss.address}")
                large.socket.send_multipart([b"", b"", bytes(20_000)])
                event = parse_monitor_message(await asyncio.to_thread(events.recv_multipart))
                assert event["event"] == zmq.EVENT_DISCONNECTED
                large.socket.disable_monitor()
                events.close()
            assert await boss.do("reverse", b"abc") == b"cba"

    act(story())


# --- who may come in


def keys() -> tuple[bytes, bytes]:
    public, secret = zmq.curve_keypair()
    return public, secret


def test_with_curve_those_who_are_known_come_in() -> None:
    async def story() -> None:
        boss_keys, device_keys, worker_keys = keys(), keys(), keys()
        boss = Manager(ANY, identity="me", curve=Curve(*boss_keys, callers=(device_keys[0],)))
        async with boss:
            curve = Curve(*device_keys, managers=(boss_keys[0],), callers=(worker_keys[0],))
            async with Device(ANY, [boss.address], curve=curve) as device:
                own = Curve(*worker_keys, managers=(device_keys[0],))
                async with Hands().worker(device.address, curve=own):
                    assert await boss.do("reverse", b"abc") == b"cba"

    act(story())


def test_with_curve_nobody_else_comes_in() -> None:
    async def story() -> None:
        boss_keys, stranger_keys = keys(), keys()
        async with Manager(ANY, identity="me", curve=Curve(*boss_keys, callers=(keys()[0],))) as boss:
            with Raw(zmq.DEALER) as stranger:
                events = stranger.socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_FAILED_AUTH)
                events.set(zmq.RCVTIMEO, 10_000)
                stranger.socket.set(zmq.CURVE_PUBLICKEY, stranger_keys[0])
                stranger.socket.set(zmq.CURVE_SECRETKEY, stranger_keys[1])
                stranger.socket.set(zmq.CURVE_SERVERKEY, boss_keys[0])
                stranger.socket.connect(f"tcp://{boss.address}")
                event = parse_monitor_message(await asyncio.to_thread(events.recv_multipart))
                assert event["event"] == zmq.EVENT_HANDSHAKE_FAILED_AUTH
                stranger.socket.disable_monitor()
                events.close()

    act(story())


KEYS = keys()


@pytest.mark.parametrize(
    ("curve", "words"),
    [
        (Curve(*KEYS, managers=(KEYS[0],)), "give the public keys of the callers"),
        (Curve(*KEYS, callers=(KEYS[0],)), "give the public key of each manager"),
        (Curve(*KEYS, managers=(KEYS[0], KEYS[0]), callers=(KEYS[0],)), "keys for 2 managers"),
        (Curve(*KEYS, managers=(b"short",), callers=(KEYS[0],)), "40 characters"),
        (Curve(KEYS[0], b"~" * 40, managers=(KEYS[0],), callers=(KEYS[0],)), "40 characters"),
        (Curve(*KEYS, managers=(KEYS[0],), callers=(b"\xff" * 40,)), "40 characters"),
    ],
)
def test_curve_with_keys_that_do_not_do(curve: Curve, words: str) -> None:
    async def story() -> None:
        with pytest.raises(WmpError, match=words):
            await Device(ANY, ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"], curve=curve).open()

    act(story())


# --- wrong use


@pytest.mark.parametrize(
    "address", ["", "nowhere", "host:", "host:port", "host:65536", "udp://host:1", "tcp://", "[::1:5", "a b:1"]
)
def test_an_address_that_is_none(address: str) -> None:
    for make in (
        lambda: Manager(address, identity="me"),
        lambda: Worker([address], {"r": Hands.reverse}),  # type: ignore[dict-item]
        lambda: Device(address, [ANY]),
        lambda: Device(ANY, [address]),
    ):
        with pytest.raises(AddressError, match="is not an address: write HOST:PORT"):
            make()


def test_an_address_that_is_taken() -> None:
    async def story() -> None:
        async with manager() as boss:
            for peer in (manager(boss.address), Device(boss.address, [ANY])):
                with pytest.raises(
                    AddressError, match=f"cannot listen on {boss.address}: Address already in use"
                ):
                    await peer.open()

    act(story())


@pytest.mark.parametrize(
    ("address", "private"),
    [
        ("127.0.0.1:1", True),
        ("tcp://[::1]:1", True),
        ("localhost:1", True),
        ("ipc:///a/b", True),
        ("0.0.0.0:1", False),
        ("*:1", False),
        ("[::]:1", False),
        ("example.org:1", False),
    ],
)
def test_who_can_reach_an_address(address: str, private: bool) -> None:
    assert is_private(address) == private


def test_a_manager_has_its_bounds_and_its_time() -> None:
    async def story() -> None:
        boss = manager(jobs_max=1)
        with pytest.raises(WmpError, match="not open"):
            boss.submit("r", b"")
        async with boss:
            with pytest.raises(WmpError, match="is already open"):
                await boss.open()
            boss.submit("r", b"")
            with pytest.raises(ManagerFull):
                boss.submit("r", b"")

    act(story())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"slots": 0}, "more than 0"),
        ({"beat_s": 0}, "more than 0"),
        ({"ready_first_s": 2, "ready_max_s": 1}, "at least ready_first_s"),
        ({"costs": {"other": 1}}, "without a handler: other"),
        ({"costs": {"r": 2}}, "must cost from 1 to 1"),
        ({"name": "two\nlines"}, "a name must have"),
    ],
)
def test_a_worker_that_could_not_work(options: dict[str, Any], words: str) -> None:
    async def handler(job: Job) -> bytes:
        return job.payload

    with pytest.raises(ValueError, match=words):
        Worker([ANY], {"r": handler}, **options)
    with pytest.raises(ValueError, match="at least one manager and one handler"):
        Worker([], {"r": handler})
    with pytest.raises(ValueError, match="a role must have"):
        Worker([ANY], {"": handler})


def test_a_broken_law_ends_the_worker() -> None:
    async def story() -> None:
        async with manager() as boss:
            worker = Hands().worker(boss.address)
            worker.state.used = 100
            boss.submit("reverse", b"")
            with pytest.raises(AssertionError, match="100 used of 4"):
                await worker.run()

    act(story())
