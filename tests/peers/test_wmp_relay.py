"""The device's routing: where each message goes, and what goes nowhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiringhall.dialects.wmp import wire
from hiringhall.peers.wmp.relay import BELOW, Forward, Relay

READY = wire.encode_body(wire.READY, [(b"role", b"r")])
GIVE = wire.encode_body(wire.GIVE, [(b"role", b"r")])
FULL = [b"h%d" % number for number in range(wire.HOPS_MAX)]


@pytest.mark.parametrize(
    ("frames", "forwards"),
    [
        # READY goes to everybody, and remembers whence it came.
        ([b"w", b"", b"", READY], [(0, [b"", b"w", b"", READY]), (1, [b"", b"w", b"", READY])]),
        (
            [b"d", b"", b"w", b"", READY],
            [(0, [b"", b"d", b"w", b"", READY]), (1, [b"", b"d", b"w", b"", READY])],
        ),
        # A READY that names its way goes that way.
        ([b"w", b"m1", b"", b"", READY], [(1, [b"", b"w", b"", READY])]),
        # Everything else goes along its path.
        ([b"w", b"m0", b"", b"", GIVE], [(0, [b"", b"w", b"", GIVE])]),
        ([b"w", b"m1", b"m4", b"", b"", GIVE], [(1, [b"m4", b"", b"w", b"", GIVE])]),
        ([b"d", b"m1", b"", b"w", b"", GIVE], [(1, [b"", b"d", b"w", b"", GIVE])]),
        # What a device does not understand is not its concern.
        ([b"w", b"m0", b"", b"", b"\xff anything"], [(0, [b"", b"w", b"", b"\xff anything"])]),
        ([b"w", b"m0", b"", b"", b""], [(0, [b"", b"w", b"", b""])]),
        # Nowhere to go.
        ([b"w", b"", b"", GIVE], []),
        ([b"w", b"m2", b"", b"", GIVE], []),
        ([b"w", b"", b"", b""], []),
        # No path at all.
        ([b"w"], []),
        ([b"w", READY], []),
        ([b"w", b"", READY], []),
        ([b"w", b"m0", b"", GIVE], []),
        ([b"w", b"x" * 256, b"", b"", GIVE], []),
        # The end of a ring of devices.
        ([b"w", b"", *FULL, b"", READY], []),
        ([b"w", b"m0", b"", *FULL, b"", GIVE], []),
        ([b"w", b"m0", b"", *FULL[1:], b"", GIVE], [(0, [b"", b"w", *FULL[1:], b"", GIVE])]),
    ],
)
def test_from_below(frames: list[bytes], forwards: list[tuple[int, list[bytes]]]) -> None:
    relay = Relay([b"m0", b"m1"])
    assert relay.from_below(frames) == [Forward(*forward) for forward in forwards]
    assert relay.dropped == (not forwards)


@pytest.mark.parametrize(
    ("frames", "forward"),
    [
        ([b"w", b"", b"", GIVE], [b"w", b"", b"m1", b"", GIVE]),
        ([b"d", b"w", b"", b"", GIVE], [b"d", b"w", b"", b"m1", b"", GIVE]),
        ([b"d", b"w", b"", b"m7", b"", GIVE], [b"d", b"w", b"", b"m1", b"m7", b"", GIVE]),
        ([b"w", b"", b"", READY], [b"w", b"", b"m1", b"", READY]),
        ([b"", b"", GIVE], None),
        ([b"", b"w", b"", GIVE], None),
        ([GIVE], None),
        ([b"w", b"", *FULL, b"", GIVE], None),
    ],
)
def test_from_a_manager(frames: list[bytes], forward: list[bytes] | None) -> None:
    relay = Relay([b"m0", b"m1"])
    assert relay.from_manager(1, frames) == ([Forward(BELOW, forward)] if forward else [])
    assert relay.dropped == (not forward)


@pytest.mark.parametrize("hops", [[b"a", b"a"], [b""], [b"x" * 256]])
def test_hops_are_different_names(hops: list[bytes]) -> None:
    with pytest.raises(ValueError, match="different names"):
        Relay(hops)


HOPS = st.binary(min_size=1, max_size=255)


@given(st.lists(HOPS, min_size=1, max_size=wire.HOPS_MAX, unique=True), st.binary(max_size=30), st.binary())
def test_an_answer_finds_its_way_back_through_any_chain(
    workers: list[bytes], asked: bytes, answer: bytes
) -> None:
    """Each device in the chain knows the one below it by one of these identities."""
    devices = [Relay([b"m0", b"m1"]) for _ in workers]
    frames = [b"", b"", READY + asked]
    for device, identity in zip(devices, workers, strict=True):
        frames = device.from_below([identity, *frames])[1].frames
    parts = wire.split_frames(frames)
    assert parts == ([], workers[::-1], READY + asked)

    back = wire.join_frames(parts[1], [], answer)
    for device, identity in zip(reversed(devices), reversed(workers), strict=True):
        (forward,) = device.from_manager(1, back)
        assert forward.frames[0] == identity
        back = forward.frames[1:]
    parts = wire.split_frames(back)
    assert parts == ([], [b"m1"] * len(workers), answer)

    there = wire.join_frames(parts[1], [], asked)
    for device, identity in zip(devices, workers, strict=True):
        (forward,) = device.from_below([identity, *there])
        assert forward.hop == 1
        there = forward.frames
    assert wire.split_frames(there) == ([], workers[::-1], asked)


@given(st.lists(st.binary(max_size=300), max_size=40))
def test_any_frames_are_taken(frames: list[bytes]) -> None:
    relay = Relay([b"m0"])
    for forward in [*relay.from_below(frames or [b"w"]), *relay.from_manager(0, frames)]:
        assert b"" in forward.frames
