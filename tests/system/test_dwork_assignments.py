"""A location's assignments at the dwork door outlive the hall, however it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from dwork_peer import Asker
from hall_process import HallProcess

from hiringhall.core.states import DONE
from hiringhall.dialects.dwork import wire

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[HallProcess]:
    with HallProcess(tmp_path, door={"dialect": "dwork"}) as hall:
        yield hall


def end(hall: HallProcess, way: str) -> None:
    if way == "kill":
        hall.kill()
    else:
        hall.drain()
        assert hall.wait() == 0
    hall.start()


@pytest.mark.parametrize("way", ["kill", "drain"])
def test_what_a_location_was_given_is_its_own_after_the_hall_came_back(hall: HallProcess, way: str) -> None:
    for number in range(5):
        names = [b"%d-%d" % (number, count) for count in range(20)]
        with Asker(hall.address) as asker:
            asker.create([(name, ()) for name in names])
            kind, stolen = asker.steal(b"owner", 10)
        assert (kind, stolen) == (wire.TRANSFER, names[:10])
        end(hall, way)
        with Asker(hall.address) as asker:
            assert asker.status() == (10, 0, 10)
            assert asker.lookup(names[3]) == b"owner"
            assert asker.steal(b"thief", 100)[1] == names[10:]
            assert asker.complete(b"thief", names[10:]) == []
            assert asker.status() == (0, 0, 10)
            assert asker.complete(b"owner", names[:10]) == []
            assert asker.steal(b"thief") == (wire.EXIT, [])
    rows = hall.history()
    assert len(rows) == 100
    assert {(row.state, row.attempts, row.losses) for row in rows} == {(DONE, 1, 0)}


def test_what_was_completed_before_a_kill_stays_so(hall: HallProcess) -> None:
    with Asker(hall.address) as asker:
        asker.create([(b"a", ()), (b"b", (b"a",)), (b"c", (b"b",))])
        assert asker.steal(b"w", 9)[1] == [b"a"]
        assert asker.complete(b"w", [b"a"]) == []
    hall.kill()
    hall.start()
    with Asker(hall.address) as asker:
        assert asker.complete(b"w", [b"a"]) == [b"a"]
        assert asker.steal(b"w", 9)[1] == [b"b"]
        assert asker.lookup(b"a") == b"w"
        asker.create([(b"d", (b"a",))])
        assert asker.steal(b"w", 9)[1] == [b"d"]


def test_a_location_that_was_marked_down_holds_nothing_after_a_kill(hall: HallProcess) -> None:
    with Asker(hall.address) as asker:
        asker.create([(b"a", ()), (b"b", ())])
        assert asker.steal(b"w", 9)[1] == [b"a", b"b"]
        assert asker.leave(b"w")
    hall.kill()
    hall.start()
    with Asker(hall.address) as asker:
        assert not asker.leave(b"w")
        assert asker.status() == (2, 0, 0)
        assert asker.steal(b"v", 9)[1] == [b"a", b"b"]


def test_the_log_of_a_task_outlives_the_hall(hall: HallProcess) -> None:
    with Asker(hall.address) as asker:
        asker.create([(b"p", ()), (b"t", (b"p",))])
        asker.steal(b"w")
        asker.complete(b"w", [b"p"])
        asker.steal(b"w")
        told = wire.encode_log(wire.STARTED, 11) + wire.encode_log(wire.DONE, 12)
        task = wire.encode_task(b"t", b"", None, None, told)
        assert asker.ask(wire.encode(wire.COMPLETE, [task], location=b"w")).type == wire.OK
        (before,) = asker.ask(wire.encode(wire.LOOKUP, name=b"t")).tasks
    hall.kill()
    hall.start()
    with Asker(hall.address) as asker:
        answer = asker.ask(wire.encode(wire.LOOKUP, name=b"t"))
    assert (answer.type, answer.name, answer.location) == (wire.OK, b"t", b"w")
    (after,) = answer.tasks
    assert after.log is not None
    assert after.log == before.log
    states = sorted(state for state, _ in after.log)
    assert states == [
        wire.PENDING,
        wire.STOLEN,
        wire.WAITING,
        wire.READY,
        wire.STARTED,
        wire.DONE,
        wire.RECORDED,
    ]
    assert {(wire.STARTED, 11), (wire.DONE, 12)} <= set(after.log)
