"""Clients and workers of every dialect at once, around one hall that is killed again and again.

Each client remembers what was acknowledged to it; `mixed_load.verdict` holds the hall's history against that.
Every worker answers a job with the job's own bytes, which name it; those who are hired give no result.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from typing import TYPE_CHECKING, Final

from draft_link import DraftLink
from hall_process import free_port
from many_doors import DIALECTS, ManyDoors
from mixed_load import FUNCTIONS, HIRED, WELL, MixedLoad
from testimony import job_id

from hiringhall.dialects.dwork import wire as dwork
from hiringhall.dialects.gearman_draft import wire as draft
from hiringhall.peers import hire, pingpong, wmp

if TYPE_CHECKING:
    from pathlib import Path

    from dwork_peer import Asker

DRAFT: Final = b"draft"
WMP: Final = b"wmp"
PINGPONG: Final = b"pingpong"
OTHERS: Final = (b"dwork", PINGPONG, DRAFT, WMP, HIRED)
"""A function for each dialect; some are done by workers of another one, too."""
PAUSE_S: Final = 0.02
"""How long a client rests, and how long somebody who was told that there is nothing waits to ask again."""
ASK_S: Final = 1.0
"""After so long without an answer a dwork peer asks again."""
OWN_TYPE: Final = "craft"
"""What a provider of its own has done, by a worker who does nothing else."""
HANDLES_KEPT: Final = 50
"""Handles that a client remembers, to ask for one of them from time to time."""


class EveryDoor(ManyDoors):
    """`hall serve` with a door for each dialect. The draft is spoken at that of Gearman."""

    dialects = (*DIALECTS, "hire")

    def __init__(self, folder: Path) -> None:
        self.manager = f"127.0.0.1:{free_port()}"
        """Where a manager may be whose jobs the hall takes."""
        super().__init__(
            folder,
            pingpong={"durable": "true", "losses_max": 0, "worker_expire_s": 1, "job_timeout_s": 3},
            wmp={"lease_s": 2, "managers": self.manager, "roles": WMP.decode(), "slots": 2},
            hire={"window_s": 0.01, "perform_s": 0.01, "buffer_s": 0.5, "answer_s": 0.5, "pause_max_s": 0.5},
        )

    @property
    def hire(self) -> str:
        return self._addresses["hire"]


class EveryLoad(MixedLoad):
    """The Gearman load, and beside it a few clients and workers of each of the other dialects."""

    others = OTHERS
    window_s = 0.05
    """How long a provider waits for bids."""

    def __init__(self, hall: EveryDoor, seed: int) -> None:
        super().__init__(hall, seed, clients=2, workers=3)
        self.doors = hall
        self.done_drafts: dict[bytes, str] = {}
        """What was told of the end of a job, by its handle: it may never be told otherwise."""
        self.employed = self.managed = 0
        """Jobs of a provider and of another manager that were done: such jobs are theirs, not the hall's."""
        self._working = threading.Event()
        self._working.set()
        """Cleared when the workers are to leave."""
        self._tasks += [
            asyncio.create_task(self._draft_client(random.Random(f"{seed} draft client"))),
            asyncio.create_task(asyncio.to_thread(self._dwork_producer, random.Random(f"{seed} producer"))),
            asyncio.create_task(asyncio.to_thread(self._pingpong_client)),
            asyncio.create_task(self._hire_provider()),
            asyncio.create_task(self._wmp_manager()),
        ]
        self._workers += [
            asyncio.create_task(self._draft_worker()),
            asyncio.create_task(self._wmp_worker()),
            asyncio.create_task(self._hire_worker(HIRED.decode())),
            asyncio.create_task(self._hire_worker(HIRED.decode())),
            asyncio.create_task(self._hire_worker(OWN_TYPE)),
        ]
        self._threads = [
            asyncio.create_task(asyncio.to_thread(self._dwork_stealer, b"near")),
            asyncio.create_task(asyncio.to_thread(self._dwork_stealer, b"far")),
            asyncio.create_task(asyncio.to_thread(self._pingpong_worker)),
        ]

    async def drain(self, timeout_s: float) -> None:
        try:
            await super().drain(timeout_s)
        finally:
            self._working.clear()
        await asyncio.gather(*self._threads)

    def proves_something(self, rounds: int) -> None:
        """Enough was promised, in each dialect, that a hall which breaks its promises would be found out."""
        promises = self.promises
        assert len(promises.created) > 20 * rounds, f"only {len(promises.created)} jobs were acknowledged"
        for who in ("draft", "task", "ping"):
            kept = [tag for tag in (*promises.created.values(), *promises.acknowledged) if tag.startswith(who)]
            assert len(kept) >= rounds // 2, f"only {len(kept)} jobs of {who} were acknowledged"
        assert self.employed, "no job of a provider was done"
        assert self.managed, "no job of another manager was done"

    def _tag(self, who: str, number: int) -> str:
        tag = f"{who}-{number}/{WELL}/0"
        self.promises.sent[tag] += 1
        return tag

    # --- Gearman's draft

    async def _draft_client(self, dice: random.Random) -> None:
        handles: dict[bytes, str] = {}
        number = 0
        while self.submitting:
            await self._until_up()
            with contextlib.suppress(OSError, EOFError):
                async with await DraftLink.open(self.hall.address) as link:
                    while self.submitting:
                        number += 1
                        tag = self._tag("draft", number)
                        handle = await self._draft_create(link, tag, dice.choice((*FUNCTIONS, *OTHERS)))
                        handles[handle] = tag
                        while len(handles) > HANDLES_KEPT:
                            del handles[next(iter(handles))]
                        asked = dice.choice(list(handles))
                        await self._draft_ask(link, asked, handles[asked])

    async def _draft_create(self, link: DraftLink, tag: str, function: bytes) -> bytes:
        request = draft.pack_job_create_req(
            function, tag.encode(), draft.FLAG_NORMAL, draft.ASYNC_HANDLE, tag.encode()
        )
        kind, handle = await link.ask(request)
        assert kind == draft.NAMES[draft.JOB_CREATE_RES], (kind, handle)
        self.promises.created[job_id(handle)] = tag
        return handle

    async def _draft_ask(self, link: DraftLink, handle: bytes, tag: str) -> None:
        """What has ended stays so, however often the hall is killed."""
        kind, body = await link.ask(draft.pack_job_complete_req(handle))
        said = draft.parse_job_complete_res(body)
        assert kind == draft.NAMES[draft.JOB_COMPLETE_RES], (kind, body)
        assert said is not None
        status, code, result = said
        if status == draft.INCOMPLETE:
            if handle in self.done_drafts:
                self.promises.surprises.append(f"{tag} was done, and is not any more")
        elif code != 0 or result.decode() != self.done_drafts.setdefault(handle, result.decode()):
            self.promises.surprises.append(f"the end of {tag} is told as {said}")

    async def _draft_worker(self) -> None:
        while True:
            await self._until_up()
            with contextlib.suppress(OSError, EOFError):
                async with await DraftLink.open(self.hall.address) as link:
                    link.send(draft.pack_worker_connect([DRAFT, PINGPONG]), draft.JOB_ASSIGN_REQ_PACKET)
                    while True:
                        await self._draft_work(link)

    async def _draft_work(self, link: DraftLink) -> None:
        kind, body = await link.receive(timeout_s=120)
        if kind == draft.NAMES[draft.NOOP]:
            link.send(draft.JOB_ASSIGN_REQ_PACKET)
        elif not body:
            link.send(draft.WORKER_SLEEP_PACKET)
        else:
            given = draft.parse_job_assign_res(body)
            assert given is not None
            link.send(draft.pack_job_complete_announce(0, given[1]), draft.JOB_ASSIGN_REQ_PACKET)

    # --- dwork

    def _dwork_producer(self, dice: random.Random) -> None:
        number = 0
        before = b""
        with self.doors.asker(ASK_S) as asker:
            while self.submitting:
                number += 1
                tag = self._tag("task", number)
                name = tag.encode()
                preds = [before] if before and dice.random() < 0.3 else None
                request = dwork.encode(dwork.CREATE, [dwork.encode_task(name, name, preds)])
                answer, resent = _ask(asker, request)
                assert answer.type == dwork.OK, answer.name
                # Sent again, it may be a task of its own: the first one may have been done by then.
                self.promises.sent[tag] += resent
                self.promises.acknowledged.add(tag)
                before = name
                self._rest()

    def _dwork_stealer(self, location: bytes) -> None:
        with self.doors.asker(ASK_S) as asker:
            while self._working.is_set():
                answer, resent = _ask(asker, dwork.encode(dwork.STEAL, n=2, location=location))
                if resent:
                    # It may own tasks that it was never told of.
                    asker.leave(location)
                elif answer.type == dwork.TRANSFER:
                    done = [dwork.encode_task(task.name, task.origin) for task in answer.tasks]
                    asker.ask(dwork.encode(dwork.COMPLETE, done, location=location))
                else:
                    self._rest()
            asker.leave(location)

    def _rest(self) -> None:
        """Peers that are told nothing when there is work have to ask for it now and then."""
        threading.Event().wait(PAUSE_S)

    # --- PING/PONG

    def _pingpong_client(self) -> None:
        number = 0
        with pingpong.Client(self.doors.frontend, timeout_s=1.0, retries=0) as client:
            while self.submitting:
                number += 1
                tag = self._tag("ping", number)
                # A job that is not answered for may be done all the same.
                with contextlib.suppress(pingpong.NoAnswer):
                    answer = client.submit(tag.encode()).decode()
                    if answer != tag:
                        self.promises.surprises.append(f"{tag} was answered with {answer}")
                    self.promises.acknowledged.add(tag)
                self._rest()

    def _pingpong_worker(self) -> None:
        with pingpong.Worker(
            self.doors.backend, lambda payload: payload, ping_s=0.1, broker_timeout_s=0.4, n_timeouts=2
        ):
            while self._working.is_set():
                self._rest()

    # --- WMP and hire

    async def _wmp_worker(self) -> None:
        worker = wmp.Worker(
            [self.doors.wmp],
            {WMP.decode(): _echo, DRAFT.decode(): _echo},
            slots=4,
            name="soaked",
            lock_timeout_s=1.0,
            ready_first_s=0.1,
            ready_max_s=0.4,
        )
        await worker.run()

    async def _wmp_manager(self) -> None:
        """Its jobs are its own: whatever becomes of the hall, they are done in the end."""
        number = 0
        async with wmp.Manager(self.doors.manager, identity="other", lease_s=1.0) as manager:
            while self.submitting:
                number += 1
                tag = self._tag("managed", number)
                result = await manager.do(WMP.decode(), tag.encode())
                if result.decode() != tag:
                    self.promises.surprises.append(f"{tag} was answered with {result!r}")
                self.managed += 1

    async def _hire_provider(self) -> None:
        """So are a provider's."""
        terms = {"window_s": self.window_s, "buffer_s": 0.5, "answer_s": 0.5, "pause_max_s": 0.5}
        async with hire.Provider(f"tcp://{self.doors.hire}", **terms) as provider:
            while self.submitting:
                await provider.employ(OWN_TYPE, 0.01)
                self.employed += 1

    async def _hire_worker(self, kind: str) -> None:
        async with hire.Worker(f"tcp://{self.doors.hire}", {kind: 5}, patience_s=1.0):
            await asyncio.Event().wait()


async def _echo(job: wmp.Job) -> bytes:
    return job.payload


def _ask(asker: Asker, request: bytes) -> tuple[dwork.Query, int]:
    """The answer, and how often the request had to be sent again."""
    before = asker.resent
    answer = asker.ask(request)
    return answer, asker.resent - before
