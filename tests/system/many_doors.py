"""A real hall with a door of every dialect, for tests in which they meet."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import zmq
from dwork_peer import Asker
from hall_process import HallProcess, free_port, wait_until
from testimony import audit

from hiringhall.dialects.dwork import wire as dwork
from hiringhall.peers.pingpong import Client as PingPongClient

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hiringhall.dialects.dwork.wire import Task

DIALECTS: Final = ("gearman", "dwork", "pingpong", "wmp")


class ManyDoors(HallProcess):
    """`hall serve` with several doors, all of which stay where they are over a restart. Settings by dialect."""

    dialects: tuple[str, ...] = DIALECTS

    def __init__(self, folder: Path, **settings: Mapping[str, object]) -> None:
        super().__init__(folder, hall=settings.pop("hall", {}), limits=settings.pop("limits", {}))
        self._addresses = {dialect: f"127.0.0.1:{free_port()}" for dialect in self.dialects}
        self.frontend = f"127.0.0.1:{free_port()}"
        """Of the PING/PONG door; `backend` is for its workers."""
        for dialect, door in settings.items():
            prefix = f"HALL_DOOR_{self.dialects.index(dialect)}_"
            for key, value in door.items():
                self._environment[prefix + key.upper()] = str(value)

    @property
    def dwork(self) -> str:
        return self._addresses["dwork"]

    @property
    def backend(self) -> str:
        return self._addresses["pingpong"]

    @property
    def wmp(self) -> str:
        return self._addresses["wmp"]

    def start(self) -> None:
        doors = ",".join(f"{dialect}={address}" for dialect, address in self._addresses.items())
        self._environment["HALL_DOORS"] = doors
        self._environment["HALL_DOOR_2_FRONTEND"] = self.frontend
        super().start()

    def _first_line(self) -> bytes:
        line = super()._first_line()
        for door in json.loads(line)["doors"]:
            if door["role"] == "frontend":
                self.frontend = door["address"]
            else:
                self._addresses[door["dialect"]] = door["address"]
        return line

    def check(self) -> None:
        """It is there, and every cross-reference of its core holds."""
        assert self.running, f"the hall is gone:\n{self.errors()}"
        assert audit(self) == "clean"
        assert "Traceback" not in self.errors(), self.errors()

    def asker(self, timeout_s: float = 20.0) -> Asker:
        return Asker(self.dwork, timeout_s)

    def pingpong_client(self) -> PingPongClient:
        return PingPongClient(self.frontend, timeout_s=20.0, retries=0)

    def dealer(self, context: zmq.Context[zmq.Socket[bytes]], address: str) -> zmq.Socket[bytes]:
        """A plain socket at one of the doors."""
        socket = context.socket(zmq.DEALER)
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(f"tcp://{address}")
        return socket


def steal(asker: Asker, location: bytes) -> Task:
    """Ask until there is a task."""
    found: list[Task] = []

    def look() -> bool:
        answer = asker.ask(dwork.encode(dwork.STEAL, location=location))
        assert answer.type in (dwork.TRANSFER, dwork.NOT_FOUND), answer.type
        found.extend(answer.tasks)
        return bool(found)

    wait_until(look, "there is a task to steal", 20)
    (task,) = found
    return task


def complete(asker: Asker, location: bytes, name: bytes, result: bytes) -> int:
    """The type of the answer."""
    task = dwork.encode_task(name, result)
    return asker.ask(dwork.encode(dwork.COMPLETE, [task], location=location)).type


def create(asker: Asker, name: bytes, origin: bytes, *predecessors: bytes) -> int:
    task = dwork.encode_task(name, origin, list(predecessors) or None)
    return asker.ask(dwork.encode(dwork.CREATE, [task])).type
