"""The ZeroMQ doors of one run: what they are set to, and how they are opened at each boot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.terms import FAIL_WITH_PARENT, HOLD, RUN_ANYWAY
from hiringhall.dialects.dwork import wire as dwork_wire
from hiringhall.dialects.dwork.context import DworkContext, DworkOptions
from hiringhall.dialects.dwork.session import DworkSession
from hiringhall.dialects.pingpong import wire as pingpong_wire
from hiringhall.dialects.pingpong.context import PingPongContext, PingPongOptions
from hiringhall.dialects.pingpong.session import ClientSession, WorkerSession
from hiringhall.dialects.wmp import wire as wmp_wire
from hiringhall.dialects.wmp.context import SECRET_BYTES, WmpContext, WmpOptions
from hiringhall.dialects.wmp.session import WmpSession

from .dworktap import DworkTap
from .pingpongtap import ClientTap, WorkerTap
from .router import Router
from .wmptap import PathTap
from .world import MS, SECOND

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.dialects.session import Caller, Session

    from .hall import Hall
    from .post import Line, Post
    from .taps import Tap
    from .world import World


class ZmqDoors:
    """One door of each dialect. A door's queue is one that Gearman's people use as well."""

    def __init__(self, world: World, post: Post, queues: list[bytes]) -> None:
        random = world.random
        self.post = post
        self._secrets = world.stream("secrets")
        self.dwork = DworkOptions(
            queue=random.choice(queues),
            durable=world.chance(0.8),
            lease_us=random.choice((0, 0, 400 * MS)),
            losses_max=random.choice((0, 2, 3)),
            failures_max=random.choice((0, 1)),
            on_parent_failure=random.choice((FAIL_WITH_PARENT, RUN_ANYWAY, HOLD)),
            keep_open=world.chance(0.5),
            complete_by_holder=world.stream("complete by").random() < 0.5,
        )
        self.pingpong = PingPongOptions(
            queue=random.choice(queues),
            expire_us=400 * MS,
            job_timeout_us=random.choice((150 * MS, 300 * MS, 700 * MS)),
            losses_max=random.choice((0, 1, 3)),
            durable=world.chance(0.4),
        )
        self.wmp = WmpOptions(
            manager=b"hall",
            lease_us=random.choice((200 * MS, 600 * MS)),
            expire_us=random.choice((300 * MS, 2 * SECOND)),
            wake_step_us=world.stream("wake step").choice((MS, 5 * MS, 20 * MS)),
        )
        self.peers_max = random.choice((4, 100, 100))
        """With few, sessions that nothing refers to are forgotten to make room for others."""
        self.idle_us = random.choice((200 * MS, 10 * SECOND))

    def calm(self, hall: Hall) -> None:
        """There is room for everybody."""
        self.peers_max = 100
        for router in hall.routers.values():
            router.peers_max = self.peers_max

    def open(self, hall: Hall) -> dict[str, Router]:
        """A boot: nobody is known."""
        laws = hall.laws
        scheduler = hall.scheduler
        dwork = DworkContext(scheduler, self.dwork)
        pingpong = PingPongContext(scheduler, self.pingpong)
        sent: dict[bytes, tuple[int, Line | None]] = {}
        wmp = WmpContext(scheduler, self.wmp, self._secrets.randbytes(SECRET_BYTES))
        wake_us = hall.limits.wake_us
        routers = (
            self._router(
                hall,
                "dwork",
                lambda caller: DworkSession(caller, dwork),
                lambda number, session: DworkTap(number, session, laws, self.dwork),
                dwork_wire.answer_route,
            ),
            self._router(
                hall,
                "backend",
                lambda caller: WorkerSession(caller, pingpong),
                lambda number, session: WorkerTap(number, session, laws, self.pingpong, sent),
                pingpong_wire.worker_route,
            ),
            self._router(
                hall,
                "frontend",
                lambda caller: ClientSession(caller, pingpong),
                lambda number, session: ClientTap(number, session, laws, self.pingpong),
                pingpong_wire.client_route,
            ),
            self._router(
                hall,
                "wmp",
                lambda caller: WmpSession(caller, wmp),
                lambda number, session: PathTap(number, session, laws, self.wmp, wake_us),
                wmp_wire.answer_route,
            ),
        )
        return {router.name: router for router in routers}

    def _router(
        self,
        hall: Hall,
        name: str,
        make_session: Callable[[Caller], Session],
        make_tap: Callable[[int, Session], Tap],
        answer_route: Callable[[list[bytes]], list[bytes] | None],
    ) -> Router:
        return Router(
            hall,
            self.post,
            name,
            make_session,
            make_tap,
            answer_route,
            peers_max=self.peers_max,
            idle_us=self.idle_us,
        )
