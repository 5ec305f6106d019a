"""A mixed durable load that knows exactly what it was promised, while the hall is killed under it.

Clients remember each submit they sent and each JOB_CREATED they received; workers do the jobs well, badly
or by dying. At the end `verdict` holds the hall's history against the promises. This is the Gearman part of
the load; `every_load.py` adds the other dialects.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hall_process import wait_until
from raw_link import Closed, RawLink
from testimony import audit, history, job_id

from hiringhall.dialects.gearman import wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from hall_process import HallProcess
    from testimony import End

FUNCTIONS: Final = (b"resize", b"mail", b"index")
HIRED: Final = b"hire"
"""The function of those who are hired for their jobs."""
BEANS: Final = "beans"
"""The tube of beanstalkd's jobs."""
SUBMITS: Final = (wire.SUBMIT_JOB_BG, wire.SUBMIT_JOB_HIGH_BG, wire.SUBMIT_JOB_LOW_BG)
WINDOW: Final = 16
"""Submits of one client that wait for their answer."""
EARLY_S_MAX: Final = 0.05
"""The hall's clock is read at its boot and may differ by so much from ours."""

WELL, SHOW_PROGRESS, FAIL, CRASH_ONCE, CRASH_ALWAYS = "well", "progress", "fail", "once", "always"
MOODS: Final = (WELL,) * 30 + (SHOW_PROGRESS,) * 6 + (FAIL,) * 3 + (CRASH_ONCE,)
KILLERS_MAX: Final = 3
"""Jobs that cost every worker its life."""
OTHERS_SHARE: Final = 0.2
"""How many of the jobs are for workers of other dialects."""
LOST_CODE: Final = 125


@dataclass
class Promises:
    """What was said and heard, over all boots of the hall."""

    sent: Counter[str] = field(default_factory=Counter)
    """Submits by the tag in their payload, answered or not."""
    created: dict[int, str] = field(default_factory=dict)
    """The tag of each job that was acknowledged, by its number."""
    acknowledged: set[str] = field(default_factory=set)
    """The tags of those that were acknowledged in a dialect that tells no number."""
    refused: list[bytes] = field(default_factory=list)
    """ERROR packets. The load gives no reason for one."""
    crashed: set[str] = field(default_factory=set)
    """Tags of CRASH_ONCE that have taken their worker with them."""
    early: list[str] = field(default_factory=list)
    """Tags of delayed jobs that were handed out too soon."""
    surprises: list[str] = field(default_factory=list)
    """Packets that nobody asked for."""


class MixedLoad:
    """Clients and workers around one hall, which dies and comes back."""

    others: tuple[bytes, ...] = ()
    """Functions that only workers of other dialects do. Their jobs always go well."""

    def __init__(self, hall: HallProcess, seed: int, clients: int = 4, workers: int = 8) -> None:
        self.hall = hall
        self.promises = Promises()
        self.up = asyncio.Event()
        """Set while the hall is meant to be there."""
        self.submitting = True
        self.killers = 0
        self._random = random.Random(seed)
        self._tasks = [
            asyncio.create_task(self._client(number, random.Random(f"{seed} client {number}")))
            for number in range(clients)
        ]
        self._workers = [
            asyncio.create_task(self._worker(random.Random(f"{seed} worker {number}")))
            for number in range(workers)
        ]

    async def rounds(
        self, count: int, alive_s: tuple[float, float], told: Callable[[], None] = lambda: None
    ) -> None:
        """Kill the hall `count` times, each time after a random while under load, and start it again; `told`
        is called after each round.
        """
        self.up.set()
        for _ in range(count):
            await asyncio.sleep(self._random.uniform(*alive_s))
            self.up.clear()
            self.hall.kill()
            await asyncio.to_thread(self.hall.start)
            said = await asyncio.to_thread(audit, self.hall)
            assert said == "clean", said
            self.up.set()
            told()

    async def drain(self, timeout_s: float) -> None:
        """No more submits; the workers end everything, delayed jobs included."""
        self.submitting = False
        await asyncio.wait_for(asyncio.gather(*self._tasks), timeout_s)
        await asyncio.to_thread(wait_until, self._empty, "every job has ended", timeout_s)
        for task in self._workers:
            task.cancel()
        for outcome in await asyncio.gather(*self._workers, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome

    def _empty(self) -> bool:
        return all(self.hall.counts(function.decode())[0] == 0 for function in (*FUNCTIONS, *self.others))

    # --- clients

    async def _client(self, number: int, dice: random.Random) -> None:
        count = 0
        while self.submitting:
            await self._until_up()
            with contextlib.suppress(Closed):
                link = await RawLink.open(self.hall.port)
                try:
                    count = await self._submit(link, number, count, dice)
                finally:
                    link.abort()

    async def _submit(self, link: RawLink, number: int, count: int, dice: random.Random) -> int:
        """Keep a window of submits in flight until the end or the hall's; answers come in their order."""
        waiting: deque[str] = deque()
        try:
            while self.submitting or waiting:
                while self.submitting and len(waiting) < dice.randint(1, WINDOW):
                    count += 1
                    waiting.append(self._send_one(link, f"{number}-{count}", dice))
                kind, body = await link.receive()
                tag = waiting.popleft()
                if kind == wire.JOB_CREATED:
                    self.promises.created[job_id(body)] = tag
                else:
                    self.promises.refused.append(body)
                if dice.random() < 0.02:
                    await asyncio.sleep(dice.uniform(0, 0.02))  # a client with something else to do
        except Closed:
            pass
        return count

    def _send_one(self, link: RawLink, name: str, dice: random.Random) -> str:
        mood = dice.choice(MOODS)
        if self.killers < KILLERS_MAX and dice.random() < 0.01:
            self.killers += 1
            mood = CRASH_ALWAYS
        function = dice.choice(FUNCTIONS)
        if self.others and dice.random() < OTHERS_SHARE:
            mood, function = WELL, dice.choice(self.others)
        due_s = 0
        if dice.random() < 0.05:
            due_s = int(time.time()) + dice.randint(0, 2)
        tag = f"{name}/{mood}/{due_s}"
        unique = dice.choice((tag.encode(), tag.encode(), b"-", b""))
        packet = (
            wire.pack_request(wire.SUBMIT_JOB_EPOCH, function, unique, b"%d" % due_s, tag.encode())
            if due_s
            else wire.pack_request(dice.choice(SUBMITS), function, unique, tag.encode())
        )
        self.promises.sent[tag] += 1
        link.write(packet)
        return tag

    # --- workers

    async def _worker(self, dice: random.Random) -> None:
        while True:
            await self._until_up()
            with contextlib.suppress(Closed):
                link = await RawLink.open(self.hall.port)
                try:
                    await self._work(link, dice)
                finally:
                    link.abort()

    async def _work(self, link: RawLink, dice: random.Random) -> None:
        """Until this worker crashes, or the hall does."""
        for function in FUNCTIONS:
            link.send(wire.CAN_DO, function)
        link.send(wire.GRAB_JOB_UNIQ)
        while True:
            kind, body = await link.receive(timeout_s=120)
            if kind == wire.NO_JOB:
                link.send(wire.PRE_SLEEP)
            elif kind == wire.NOOP:
                link.send(wire.GRAB_JOB_UNIQ)
            elif kind == wire.JOB_ASSIGN_UNIQ:
                handle, _, _, payload = body.split(b"\0", 3)
                if not await self._do(link, handle, payload.decode(), dice):
                    return
                link.send(wire.GRAB_JOB_UNIQ)
            else:
                self.promises.surprises.append(f"{wire.NAMES[kind]} {body!r}")

    async def _do(self, link: RawLink, handle: bytes, tag: str, dice: random.Random) -> bool:
        """Work at one job; False: the worker died of it."""
        _, mood, due_s = tag.split("/")
        if time.time() < int(due_s) - EARLY_S_MAX:
            self.promises.early.append(tag)
        if mood == CRASH_ALWAYS or (mood == CRASH_ONCE and tag not in self.promises.crashed):
            self.promises.crashed.add(tag)
            return False
        if mood == SHOW_PROGRESS:
            link.send(wire.WORK_STATUS, handle, b"1", b"2")
            await asyncio.sleep(dice.uniform(0, 0.01))  # a job that takes its time
        if mood == FAIL:
            link.send(wire.WORK_FAIL, handle)
        else:
            link.send(wire.WORK_COMPLETE, handle, tag.encode())
        return True

    async def _until_up(self) -> None:
        if not self.up.is_set():
            await self.up.wait()


def verdict(promises: Promises, ends: list[End]) -> None:
    """Each promise was kept once, and nothing ended that nobody asked for."""
    assert not promises.refused, f"{len(promises.refused)} submits refused, the first: {promises.refused[0]!r}"
    assert not promises.surprises, promises.surprises[:5]
    assert not promises.early, f"handed out before they were due: {promises.early[:5]}"
    lines = Counter(end.id for end in ends)
    twice = [number for number, count in lines.items() if count > 1]
    assert not twice, f"{len(twice)} jobs end more than once, such as {twice[:5]}"
    missing = {number: tag for number, tag in promises.created.items() if number not in lines}
    assert not missing, (
        f"{len(missing)} of {len(promises.created)} promises are lost: {list(missing.items())[:5]}"
    )
    done = Counter(end.result for end in ends if end.state == "done" and end.result)
    missing_tags = [tag for tag in promises.acknowledged if not done[tag]]
    assert not missing_tags, (
        f"{len(missing_tags)} of {len(promises.acknowledged)} promises are lost: {missing_tags[:5]}"
    )
    again = [tag for tag, count in done.items() if count > max(promises.sent[tag], 1)]
    assert not again, f"{len(again)} jobs were done more often than they were handed in: {again[:5]}"
    for end in ends:
        _verdict_of(promises, end)


def _verdict_of(promises: Promises, end: End) -> None:
    """One line of history against what was asked for."""
    tag = promises.created.get(end.id, "")
    if end.state == "done" and not end.result:
        # Those who are hired give no result, and beanstalkd knows none.
        assert end.queue in (HIRED.decode(), BEANS), f"{end} has no result"
        assert tag == "" or tag.split("/")[1] == WELL, f"{end} cannot have succeeded"
    elif end.state == "done":
        assert promises.sent[end.result] > 0, f"nobody asked for {end}"
        assert tag in ("", end.result), f"{end} was promised for {tag}"
        assert end.result.split("/")[1] not in (FAIL, CRASH_ALWAYS), f"{end} cannot have succeeded"
    else:
        assert end.state == "failed", end
        mood = tag.split("/")[1] if tag else ""
        if end.code == LOST_CODE:
            assert mood in ("", CRASH_ALWAYS), f"{end} of {tag} never lost enough workers"
        else:
            assert mood in ("", FAIL), f"{end} of {tag} had no reason to fail"


async def kill_rounds(
    load: MixedLoad, rounds: int, alive_s: tuple[float, float], told: Callable[[], None] = lambda: None
) -> Promises:
    """The whole story: load, kills, drain, a clean audit, a clean stop, and the verdict on the history."""
    hall = load.hall
    await load.rounds(rounds, alive_s, told)
    await load.drain(timeout_s=90)
    said = await asyncio.to_thread(audit, hall)
    assert said == "clean", said
    hall.drain()
    assert await asyncio.to_thread(hall.wait, 60) == 0
    ends = await asyncio.to_thread(history, hall.place)
    verdict(load.promises, ends)
    return load.promises
