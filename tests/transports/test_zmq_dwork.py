"""Dwork's stealers over real sockets: what cannot be delivered to one that is gone is ready again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zmq_house import House, run, until

from hiringhall.dialects.dwork import wire
from hiringhall.dialects.dwork.context import DworkContext, DworkOptions
from hiringhall.dialects.dwork.session import DworkSession
from hiringhall.transports.zmtp.options import ZmqOptions

if TYPE_CHECKING:
    from hiringhall.dialects.session import Caller


class DworkHouse(House):
    """A house whose door speaks dwork."""

    def __init__(self) -> None:
        super().__init__(ZmqOptions(close_wait_s=0.0), wire.answer_route)
        self.dwork = DworkContext(self.scheduler, DworkOptions())
        self.stealers: list[DworkSession] = []

    def _make(self, caller: Caller) -> DworkSession:  # type: ignore[override]
        session = DworkSession(caller, self.dwork)
        self.stealers.append(session)
        return session

    @property
    def counts(self) -> tuple[int, int]:
        """Tasks that are ready, and that are assigned."""
        queue = self.dwork.counts()
        return queue.ready, queue.leased


def test_tasks_of_stealers_who_sent_and_left_are_ready_again() -> None:
    """Each leaves while its assignment is on its way to the disk, before it can be told of it."""

    async def tell() -> None:
        house = DworkHouse()
        await house.open()
        try:
            house.driver.turn()
            house.dwork.create([wire.Task(b"%d" % number, b"mill") for number in range(5)])
            await until(lambda: not house.driver.engine.busy)
            for number in range(5):
                await house.later(1.0)
                house.store.may_commit.clear()
                guest = house.visit()
                guest.says_frames(b"", wire.encode(wire.STEAL, location=b"w%d" % number))
                await until(lambda: house.counts == (4, 1))
                stealer = house.stealers[-1]
                guest.leaves()
                await until(lambda stealer=stealer: house.is_gone(stealer))  # type: ignore[misc]
                house.store.may_commit.set()
                await until(lambda: house.counts == (5, 0))
                await until(lambda: not house.driver.engine.busy)
            losses = {job.losses for job in house.scheduler.jobs.values()}
            assert losses == {0}
            house.scheduler.audit()
        finally:
            house.store.may_commit.set()
            await house.close()

    run(tell)
