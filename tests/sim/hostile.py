"""Those who talk nonsense. They must harm nobody but themselves."""

from __future__ import annotations

from struct import pack
from typing import TYPE_CHECKING

from hiringhall.dialects.gearman import wire
from hiringhall.dialects.gearman_draft import wire as draft

from .actors import Actor
from .callers import Caller
from .world import MS

if TYPE_CHECKING:
    from .actors import Town
    from .post import Post


class Vandal(Actor):
    """Sends what no peer should, at the Gearman door."""

    tap = "deaf"

    def __init__(self, town: Town, name: str) -> None:
        super().__init__(town, f"vandal {name}")
        self.acts = self.world.random.randrange(3, 10)

    def arrived(self) -> None:
        self._act()

    def _act(self) -> None:
        if self.retired or self.town.calm or not self.acts:
            return
        self.acts -= 1
        self.send(self._nonsense())
        self.world.after(self.world.random.randrange(1, 200 * MS), self._act)

    def _nonsense(self) -> bytes:
        random = self.world.random
        return random.choice(
            (
                random.randbytes(random.randrange(1, 40)),
                b"\0REQ" + pack(">II", wire.SUBMIT_JOB, 0xFFFFFFFF) + b"x",
                b"\0RES" + pack(">II", wire.JOB_CREATED, 0),
                wire.pack_request(random.choice((5, 17, 19, 43, 99, 200)), b"what"),
                wire.pack_request(wire.SUBMIT_JOB, b"no arguments"),
                wire.pack_request(wire.SUBMIT_JOB_EPOCH, b"q0", b"", b"soon", b"x"),
                wire.pack_request(wire.WORK_COMPLETE, b"no handle"),
                wire.pack_request(wire.WORK_STATUS, b"H:sim:1", b"-1"),
                wire.pack_request(wire.CAN_DO, b"q\0q"),
                b"status\nworkers\nshow jobs\nprioritystatus\nwhat\n",
                b"\0REQ\0\0\0",
            )
        )


class DraftVandal(Vandal):
    """Sends what no peer should, as one who speaks the draft."""

    dialect = "draft"

    def _nonsense(self) -> bytes:
        random = self.world.random
        return random.choice(
            (
                random.randbytes(random.randrange(1, 40)),
                draft.MAGIC + b"\x04\xff\xff\xff\xffx",
                draft.MAGIC[:3],
                draft.pack(random.choice((0x05, 0x07, 0x0A, 0x0D, 0x10, 0xFF)), b"what"),
                draft.pack(random.choice(list(draft.NAMES)), random.choice((b"\0", b"\0\0"))),
                draft.pack_job_create_req(b"q0", b"", 3, draft.ASYNC_HANDLE, b"no such priority"),
                draft.pack_job_create_req(b"q0", b"", 0, 3, b"no such type"),
                draft.pack_worker_connect([b"q"] * 70),
                draft.pack_job_complete_announce(0, b"of nothing"),
                draft.pack_job_complete_req(b"H:sim:" + b"9" * 20),
                draft.pack_task_start(b"", b"k0", 0) + draft.pack_task_result(b"q0", b"", 0, 0, b""),
            )
        )


class ZmqVandal(Caller):
    """Sends what no peer should, at the ZeroMQ doors. At PING/PONG's all bytes mean something."""

    def __init__(self, town: Town, post: Post, door: str) -> None:
        super().__init__(town, post, f"vandal at {door}")
        self.door = door
        self.acts = self.world.random.randrange(3, 10)

    def started(self) -> None:
        if self.town.calm or not self.acts:
            return
        self.acts -= 1
        random = self.world.random
        body = random.choice(
            (b"", b"\x08", b"\xff" * 11, b"WMP1 READY\n\n", b"WMP1 TAKE\n\n", random.randbytes(30))
        )
        self.send(*random.choice(((), (b"",), (b"", b""), (b"x",), (b"", b"x", b""), (b"",) * 70)), body)
        self.later(random.randrange(1, 200 * MS), self.started)
