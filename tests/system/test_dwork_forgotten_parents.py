"""A task behind a predecessor that ended long ago: memory has forgotten it, the history has not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from dwork_peer import Asker
from hall_process import HallProcess

from hiringhall.dialects.dwork import wire

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ENDED_MAX = 20
TASKS = 500


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[HallProcess]:
    with HallProcess(tmp_path, door={"dialect": "dwork"}, limits={"ended_max": ENDED_MAX}) as hall:
        yield hall


def do_all(asker: Asker) -> list[bytes]:
    """Steal and complete until the hall says that all is done; what was done."""
    done: list[bytes] = []
    while True:
        kind, names = asker.steal(b"worker", 16)
        if kind == wire.EXIT:
            return done
        done += names
        if names:
            assert asker.complete(b"worker", names) == []


def test_every_task_behind_a_setup_of_long_ago_is_done(hall: HallProcess) -> None:
    names = [b"task %d" % number for number in range(TASKS)]
    with Asker(hall.address) as asker:
        asker.create([(b"setup", ())])
        assert do_all(asker) == [b"setup"]
        done: list[bytes] = []
        for start in range(0, TASKS, 50):
            asker.create([(name, (b"setup",)) for name in names[start : start + 50]])
            done += do_all(asker)
    assert sorted(done) == sorted(names)


def test_a_setup_of_long_ago_is_known_after_a_kill(hall: HallProcess) -> None:
    with Asker(hall.address) as asker:
        asker.create([(b"setup", ()), *[(b"other %d" % number, ()) for number in range(2 * ENDED_MAX)]])
        assert len(do_all(asker)) == 1 + 2 * ENDED_MAX
        asker.create([(b"child", (b"setup", b"to come"))])
    hall.kill()
    hall.start()
    with Asker(hall.address) as asker:
        asker.create([(b"second child", (b"setup",)), (b"to come", ())])
        assert sorted(do_all(asker)) == [b"child", b"second child", b"to come"]
