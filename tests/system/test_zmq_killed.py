"""Peers of ZeroMQ doors that are killed, and sockets of every kind: real processes, written in C.

What a killed peer had is free within a second, if its protocol lets jobs belong to connections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from hall_process import wait_until
from many_doors import ManyDoors, complete, create, steal
from zmq_puppet import Puppet

from hiringhall.dialects.dwork import wire as dwork
from hiringhall.dialects.wmp import wire as wmp
from stage.needs import skip_without
from stage.stopwatch import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Iterator

LONG: Final = {"job_timeout_s": 600.0, "worker_expire_s": 600.0}
"""So that nothing but the end of a connection can be the reason."""
FREE_S: Final = 1.0


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManyDoors]:
    skip_without("cc")
    folder = tmp_path_factory.mktemp("killed")
    with ManyDoors(folder, pingpong=LONG, wmp={"lease_s": 600.0, "expire_s": 600.0}) as hall:
        yield hall
        hall.check()


def body(command: bytes, *headers: tuple[bytes, bytes], payload: bytes = b"") -> bytes:
    return wmp.encode_body(command, list(headers), payload)


def test_the_job_of_a_killed_pingpong_worker_is_with_another_within_a_second(hall: ManyDoors) -> None:
    with Puppet(hall.folder, "DEALER", hall.backend) as first, hall.pingpong_client() as client:
        first.send(b"", b"READY")
        request = client.start(b"important")
        assert first.receive() == [b"", b"important"]
        with Puppet(hall.folder, "DEALER", hall.backend) as second:
            second.send(b"", b"PING")
            assert second.receive() == [b"", b"PONG"]
            with Stopwatch() as watch:
                first.kill()
                assert second.receive() == [b"", b"important"]
            assert watch.elapsed_s < FREE_S
            second.send(b"", b"done")
            assert request.result() == b"done"


def test_a_killed_pingpong_client_takes_its_waiting_job_along(hall: ManyDoors) -> None:
    with Puppet(hall.folder, "REQ", hall.frontend) as client:
        client.send(b"nobody's")
        wait_until(lambda: hall.counts("pingpong")[0] == 1, "the job is known")
        with Stopwatch() as watch:
            client.kill()
            wait_until(lambda: hall.counts("pingpong")[0] == 0, "the job is gone")
        assert watch.elapsed_s < FREE_S


def test_the_paths_of_a_killed_wmp_worker_are_forgotten_and_its_job_keeps_its_lease(hall: ManyDoors) -> None:
    ready = body(wmp.READY, (b"role", b"saw"))
    with Puppet(hall.folder, "DEALER", hall.wmp) as idle, Puppet(hall.folder, "DEALER", hall.wmp) as busy:
        for hop in (b"one", b"two", b"three"):
            idle.send(b"", hop, b"", ready)
        busy.send(b"", b"", ready)
        wait_until(lambda: hall.counts("saw")[2] == 4, "all paths are known")
        with Stopwatch() as watch:
            idle.kill()
            wait_until(lambda: hall.counts("saw")[2] == 1, "three paths are forgotten")
        assert watch.elapsed_s < FREE_S
        with hall.client() as client:
            client.submit_background("saw", b"a log")
            assert wmp.parse_body(busy.receive()[-1]).command == wmp.WAKE
            busy.send(b"", b"", body(wmp.GIVE, (b"role", b"saw")))
            take = wmp.parse_body(busy.receive()[-1])
            assert take.command == wmp.TAKE
            busy.kill()
            wait_until(lambda: hall.counts("saw")[2] == 0, "its path is forgotten")
            # It may be alive behind another path, and says so by the name of the job.
            assert hall.counts("saw")[:2] == (1, 1)
            with Puppet(hall.folder, "DEALER", hall.wmp) as elsewhere:
                name = [(key, take.first(key)) for key in (b"manager", b"job")]
                elsewhere.send(b"", b"", body(wmp.DONE, *name, payload=b"planks"))
                wait_until(lambda: hall.counts("saw")[:2] == (0, 0), "the job is done")


def test_a_dwork_location_keeps_its_tasks_when_its_socket_is_killed(hall: ManyDoors) -> None:
    with hall.asker() as asker, Puppet(hall.folder, "REQ", hall.dwork) as worker:
        assert create(asker, b"cut", b"mill") == dwork.OK
        worker.send(dwork.encode(dwork.STEAL, location=b"bench"))
        assert dwork.parse(worker.receive()[0]).type == dwork.TRANSFER
        worker.kill()
        assert asker.ask(dwork.encode(dwork.STEAL, location=b"other")).type == dwork.NOT_FOUND
        assert complete(asker, b"bench", b"cut", b"done") == dwork.OK
        assert create(asker, b"again", b"mill") == dwork.OK
        assert steal(asker, b"other").name == b"again"
        assert complete(asker, b"other", b"again", b"done") == dwork.OK


def test_sockets_of_every_fitting_kind_are_answered(hall: ManyDoors) -> None:
    status = dwork.encode(dwork.OK)
    with (
        Puppet(hall.folder, "REQ", hall.dwork) as req,
        Puppet(hall.folder, "DEALER", hall.dwork, "puppet") as dealer,
        Puppet(hall.folder, "PUSH", hall.dwork) as push,
    ):
        req.send(status)
        assert dwork.parse(req.receive()[0]).type == dwork.OK
        dealer.send(status)
        assert dwork.parse(dealer.receive()[0]).type == dwork.OK
        dealer.send(b"", status)
        assert len(dealer.receive()) == 2
        push.send(status)
        assert not push.waiting(0.2)
    wait_until(lambda: "its socket is a PUSH" in hall.errors(), "the log says why")
