"""What must not be said: it is counted, and changes nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hiringhall.core.limits import Limits
from hiringhall.core.states import LEASED
from hiringhall.dialects.wmp import wire
from hiringhall.dialects.wmp.session import WmpContext, WmpOptions
from stage.wmp import SECRET, WmpHall

READY_F = b"WMP1 READY\nrole: f\n\n"
ROLE_LONG = b"r" * 513


def roles(count: int) -> bytes:
    return b"WMP1 READY\n" + b"".join(b"role: %d\n" % number for number in range(count)) + b"\n"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\n\n",
        b"READY",
        b"WMP1 READY\n",
        b"WMP1 READY\nrole: f\n",
        b"WMP2 READY\nrole: f\n\n",
        b"WMP1 ready\nrole: f\n\n",
        b"WMP1 HELLO\n\n",
        b"WMP1 READY\nrole f\n\n",
        b"WMP1 READY\r\nrole: f\r\n\r\n",
        b"WMP1 WAKE\nmanager: hall\nrole: f\n\n",
        b"WMP1 TAKE\nmanager: hall\njob: 1\nrole: f\n\n",
        b"WMP1 NO\nmanager: hall\n\n",
        b"WMP1 CANCEL\nmanager: hall\njob: 1\n\n",
        b"WMP1 READY\n\n",
        b"WMP1 READY\nrole: \n\n",
        b"WMP1 READY\nrole: f\nrole: " + ROLE_LONG + b"\n\n",
        b"WMP1 READY\nrole: f\nworker: " + b"w" * 1025 + b"\n\n",
        roles(257),
        b"WMP1 GIVE\nrole: " + ROLE_LONG + b"\n\n",
        b"WMP1 DONE\n\n",
        b"WMP1 DONE\nmanager: hall\n\n",
        b"WMP1 DONE\njob: 1\n\n",
        b"WMP1 DONE\nmanager: hall\njob: \n\n",
        b"WMP1 DONE\nmanager: hall\njob: " + b"1" * 256 + b"\n\n",
        b"WMP1 DONE\nmanager: other\njob: %s\n\n",
        b"WMP1 DONE\nmanager: hall\njob: %s\nstatus: fine\n\n",
        b"WMP1 DONE\nmanager: hall\njob: %s\nstatus: failed\ncode: 0\n\n",
        b"WMP1 DONE\nmanager: hall\njob: %s\nstatus: failed\ncode: 256\n\n",
        b"WMP1 DONE\nmanager: hall\njob: %s\nstatus: failed\ncode: -1\n\n",
        b"WMP1 DONE\nmanager: hall\njob: %s\nstatus: failed\ncode: one\n\n",
        b"WMP1 STATUS\nmanager: other\njob: %s\n\n",
        b"WMP1 STATUS\nmanager: hall\n\n",
        b"WMP1 STATUS\nmanager: hall\njob: %s\nprogress: 1\n\n",
        b"WMP1 STATUS\nmanager: hall\njob: %s\nprogress: 1/2/3\n\n",
        b"WMP1 STATUS\nmanager: hall\njob: %s\nprogress: -1/2\n\n",
        b"WMP1 STATUS\nmanager: hall\njob: %s\nprogress: 1/" + b"9" * 19 + b"\n\nhalf",
    ],
)
def test_it_is_counted_and_changes_nothing(hall: WmpHall, body: bytes) -> None:
    client, path, stranger = hall.client(), hall.path(), hall.path()
    job = client.submits(b"f")
    name = path.is_ready(b"f").is_woken(b"f").takes(b"f")
    path.is_ready(b"f").hears_nothing()
    bad = body.replace(b"%s", name)
    path.say_bytes(bad).hears_nothing()
    stranger.say_bytes(bad).hears_nothing()
    assert (hall.context.dropped, hall.stale) == (2, 0)
    assert stranger.session.idle
    assert (job.state, client.hears()) == (LEASED, [])
    assert [queue.name for queue in hall.scheduler.queues.values()] == [b"f"]
    # Neither the READY that is remembered nor the job has suffered.
    client.submits(b"f")
    path.is_woken(b"f").reports(name, payload=b"done")
    assert client.hears() == [("done 0", b"done")]


def test_as_many_roles_as_may_be(hall: WmpHall) -> None:
    path = hall.path().say_bytes(roles(256))
    assert hall.context.dropped == 0
    hall.client().submits(b"255")
    path.is_woken(b"255")


def test_a_hall_full_of_queues_knows_the_roles_it_knew() -> None:
    hall = WmpHall(limits=Limits(queues_max=2))
    client = hall.client()
    client.submits(b"f")
    client.submits(b"g")
    path = hall.path().is_ready(b"other", b"g")
    assert hall.context.dropped == 1
    path.is_woken(b"g").takes(b"g")


@pytest.mark.parametrize(
    "options",
    [
        WmpOptions(manager=b""),
        WmpOptions(manager=b"m" * 256),
        WmpOptions(manager=b"two\nlines"),
        WmpOptions(lease_us=0),
        WmpOptions(expire_us=0),
    ],
)
def test_a_door_that_cannot_be(options: WmpOptions) -> None:
    with pytest.raises(ValueError, match=r"name of a manager|above 0"):
        WmpContext(WmpHall().scheduler, options, SECRET)


WORDS = st.sampled_from(
    [
        READY_F,
        b"WMP1 READY\nrole: g\nrole: f\nworker: w\n\n",
        b"WMP1 GIVE\nrole: f\n\n",
        b"WMP1 GIVE\n\n",
        b"WMP1 DONE\nmanager: hall\njob: %s\n\nresult",
        b"WMP1 DONE\nmanager: hall\njob: %s\nstatus: failed\ncode: 7\n\n",
        b"WMP1 DONE\nmanager: hall\njob: %s\nstatus: declined\n\n",
        b"WMP1 STATUS\nmanager: hall\njob: %s\nprogress: 1/2\n\nhalf",
        b"WMP1 CANCEL\nmanager: hall\njob: %s\n\n",
    ]
)
EDITS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 2), st.integers(0, 255)), max_size=2)


def mutate(body: bytes, edits: list[tuple[int, int, int]]) -> bytes:
    """Overwrite, insert or cut."""
    for place, kind, byte in edits:
        at = min(place, len(body))
        body = body[:at] + (b"", bytes((byte,)), bytes((byte,)))[kind] + body[at + (kind < 2) :]
    return body


@settings(max_examples=3 * settings().max_examples, deadline=None)
@given(script=st.lists(st.tuples(st.integers(0, 2), WORDS, EDITS), max_size=25))
def test_whatever_is_said_the_hall_stands(script: list[tuple[int, bytes, list[tuple[int, int, int]]]]) -> None:
    hall = WmpHall()
    client = hall.client()
    for _ in range(6):
        client.submits(b"f")
    paths = [hall.path() for _ in range(3)]
    name = b"none-yet"
    for who, word, edits in script:
        paths[who].say_bytes(mutate(word.replace(b"%s", name), edits))
        for path in paths:
            for message in path.hears():
                if message.command == wire.TAKE:
                    name = message.first(b"job")
        hall.jump(1000)
    hall.wait(3600 * 1_000_000)
    assert not hall.scheduler.workers
    assert not any(queue.leased for queue in hall.scheduler.queues.values())
