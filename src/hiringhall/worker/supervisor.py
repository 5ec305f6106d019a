"""The worker's main process: it starts the pools, watches memory and files, and ends in good order.

Invariant: the user's code is imported by children only, so the supervisor outlives whatever it does. The first
child is the scout: it tells which functions there are, and then works like the others.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from hiringhall.sdk.addresses import TOKEN_VARIABLE, VARIABLE, read_addresses, read_token
from hiringhall.worker import messages
from hiringhall.worker.board import Board, counted
from hiringhall.worker.crew import Crew
from hiringhall.worker.link import Link, LinkLost, Refused
from hiringhall.worker.parents import Parents
from hiringhall.worker.pool import Pool
from hiringhall.worker.process import WORKING, Child
from hiringhall.worker.reloading import INTERVAL_S, Files
from hiringhall.worker.stating import Stated, names_of

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from hiringhall.worker.board import Told
    from hiringhall.worker.process import Owner

MEMORY_S: Final = 0.1
"""How often the memory of the processes is read."""
LAST_WORDS_S: Final = 2.0
"""How long the hall may take to read the last reports."""
KILLED_S: Final = 2.0
"""How long killed processes may take to end."""

DONE: Final = 0
BROKEN: Final = 1
INTERRUPTED: Final = 130


@dataclass
class Settings:
    """What `hall work` was told."""

    target: str
    processes: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))
    threads: int = 1
    concurrency: int = 100
    only: tuple[str, ...] = ()
    reload: bool = False
    grace_s: float = 30.0
    recycle: int = 0
    """Jobs after which a process is replaced; 0: never."""
    memory_max: int = 0
    """Bytes; 0: no limit."""
    skill: int = 0
    """What the hall is told of each function."""
    skills: dict[str, int] = field(default_factory=dict)
    """The same for single functions, by name."""
    stays_s: float | None = None
    """The time after which it takes no more jobs; None: no limit."""
    resources: str = ""
    """What it has, for jobs that need some of it."""
    url: str = ""
    """Empty: as the module says."""
    token: str = ""
    """Empty: that of HALL_TOKEN."""
    name: str = field(default_factory=lambda: f"{socket.gethostname()} {os.getpid()}")
    folder: str = field(default_factory=os.getcwd)

    @property
    def environment(self) -> dict[str, str]:
        """What functions that submit jobs are told: the hall, if it was named, and the token."""
        return {name: value for name, value in ((VARIABLE, self.url), (TOKEN_VARIABLE, self.token)) if value}


class Supervisor:
    """One worker."""

    def __init__(self, settings: Settings, told: Told, output: tuple[int, int] | None = None) -> None:
        """`output`: descriptors in place of stdout and stderr of the functions."""
        self.settings = settings
        self.board = Board(told, settings.grace_s)
        self.board.on_drained.append(self._check_drained)
        self.pools: dict[str, Pool] = {}
        self.draining = False
        self._aborting = False
        self._empty = asyncio.Event()
        """Set when it drains and has no more jobs."""
        self._output = output
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[int] = self._loop.create_future()
        self._scout: Child | None = None
        self._stated = Stated(settings.skill, settings.skills, settings.stays_s, settings.resources)
        self._files = Files()
        self._generation = 0
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self) -> int:
        """Work until it is told to end; the exit code."""
        for number in (signal.SIGINT, signal.SIGTERM):
            self._loop.add_signal_handler(number, self.stop)
        self._loop.set_exception_handler(self._fault)
        self._send_scout()
        if self.settings.reload:
            self._start(self._watch_files())
        if self.settings.memory_max:
            self._start(self._watch_memory())
        try:
            return await self._over
        finally:
            self._end_all()

    def _end_all(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._scout is not None:
            self._scout.kill()
        for pool in self.pools.values():
            pool.crew.kill_all()
            pool.link.close()

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not self._over.done():
            self._over.set_exception(error)

    def _fault(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An error of the supervisor itself ends it: half a worker would be worse than none."""
        loop.default_exception_handler(context)
        error = context.get("exception")
        if isinstance(error, BaseException) and not self._over.done():
            self._over.set_exception(error)

    def spawn(self, owner: Owner) -> Child:
        settings = self.settings
        return Child(
            settings.target, owner, settings.folder, settings.environment, self._output, self._generation
        )

    # --- the scout

    def _send_scout(self) -> None:
        if self._scout is not None:
            self._scout.kill("replaced")
        self._scout = self.spawn(self)

    def heard(self, child: Child, tag: int, _: int, body: bytes) -> None:
        if tag == messages.BROKEN:
            child.broken = messages.BROKEN_BODY.decode(body)
        elif tag == messages.READY and child is self._scout:
            child.ready = messages.READY_BODY.decode(body)
            self._scout = None
            self._welcome(child, child.ready)

    def ended(self, child: Child) -> None:
        """The scout ended before it was ready."""
        if child is not self._scout:
            return
        self._scout = None
        if child.broken is not None:
            self._files.watch(child.broken.files)
            text = child.broken.text
        else:
            text = f"{self.settings.target} ended while it was imported: {child.ending}"
        self._broken(text)

    def _broken(self, text: str) -> None:
        """There is nothing to run, or nothing new."""
        if self.settings.reload:
            old = "the code from before goes on" if self.pools else "waiting for a change"
            self.board.tell("broken", f"{text}\n({old})", reason=text)
        else:
            self.board.tell("broken", text, reason=text)
            self._end(BROKEN)

    def _welcome(self, child: Child, ready: messages.Ready) -> None:
        """A child can run jobs: the pools are made for its functions, or changed."""
        self._files.watch(ready.files)
        chosen = self._chosen(ready.served)
        unknown = self._stated.unknown(ready.served)
        if not chosen or unknown:
            child.kill()
            names = ", ".join(served.queue.decode() for served in ready.served)
            wanted, option = (unknown, "--skill") if chosen else (self.settings.only, "--only")
            self._broken(f"no function is called {' or '.join(wanted)} ({option}); there are: {names}")
            return
        kinds: dict[str, list[messages.Served]] = {}
        plain = messages.THREADS if self.settings.threads > 1 else messages.PLAIN
        for served in chosen:
            kinds.setdefault(messages.ASYNC if served.is_async else plain, []).append(served)
            self.board.counts_of(served.queue)
        self._say_what_is_served(chosen, kinds)
        try:
            addresses = read_addresses(self.settings.url or ready.url or None)
            read_token(self.settings.token or None)
        except ValueError as error:
            child.kill()
            self._broken(str(error))
            return
        for mode in [mode for mode in self.pools if mode not in kinds]:
            self._close_pool(self.pools.pop(mode))
        adopted = False
        for mode, queues in kinds.items():
            pool = self.pools.get(mode)
            if pool is None:
                pool = self._open_pool(mode, queues, addresses)
            else:
                self._renew_pool(pool, queues)
            if not adopted:
                adopted = True
                pool.crew.adopt(child)
            pool.crew.want(1 if mode == messages.ASYNC else self.settings.processes)
            for old in [old for old in pool.crew.working if old.generation < child.generation]:
                pool.retire(old)

    def _chosen(self, served: list[messages.Served]) -> list[messages.Served]:
        only = self.settings.only
        return [each for each in served if not only or any(name in only for name in names_of(each.queue))]

    def _say_what_is_served(
        self, chosen: list[messages.Served], kinds: dict[str, list[messages.Served]]
    ) -> None:
        names = [served.queue.decode("utf-8", "backslashreplace") for served in chosen]
        settings = self.settings
        words = {
            messages.PLAIN: counted(settings.processes, "process"),
            messages.THREADS: f"{counted(settings.processes, 'process')} of {settings.threads} threads",
            messages.ASYNC: f"{counted(settings.concurrency, 'async job')} at a time",
        }
        self.board.tell(
            "serving",
            f"serving {', '.join(names)} ({'; '.join(words[kind] for kind in kinds)})",
            functions=names,
            worker=settings.name,
            pid=os.getpid(),
        )

    # --- pools

    def _open_pool(self, mode: str, queues: list[messages.Served], addresses: list[Any]) -> Pool:
        settings = self.settings
        capacity = {messages.ASYNC: settings.concurrency, messages.THREADS: settings.threads}.get(mode, 1)
        crew = Crew(self.spawn, self._complain)
        pool = Pool(mode, capacity, crew, self.board, settings.name, settings.recycle)
        pool.queues = queues
        pool.stated = self._stated
        pool.parents = Parents(pool)
        pool.link = Link(addresses, pool, settings.name, read_token(settings.token or None))
        self.pools[mode] = pool
        self._start(pool.link.run())
        return pool

    def _renew_pool(self, pool: Pool, queues: list[messages.Served]) -> None:
        pool.crew.renew()
        if queues != pool.queues:
            pool.queues = queues
            if pool.link.up:
                pool.introduce()

    def _close_pool(self, pool: Pool) -> None:
        """Its functions are gone from the module."""
        pool.crew.wanted = 0
        pool.drain()
        for child in list(pool.crew.working):
            pool.retire(child)
        self._start(self._say_goodbye(pool))

    def _complain(self, child: Child, pause_s: float) -> None:
        text = child.broken.text if child.broken is not None else f"a process cannot start: {child.ending}"
        self.board.trouble = text.splitlines()[-1]
        self.board.tell("broken", f"{text}\n(tried again in {pause_s:g} s)", reason=text)

    # --- watching

    async def _watch_memory(self) -> None:
        limit = self.settings.memory_max
        while True:
            await asyncio.sleep(MEMORY_S)
            for pool in list(self.pools.values()):
                for child in [child for child in pool.crew.everyone if child.state == WORKING]:
                    used = child.resident_bytes()
                    if used > limit:
                        pool.over_memory(child, used, limit)

    async def _watch_files(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_S)
            changed = self._files.changed()
            if changed and not self.draining:
                self._reload(changed)

    def _reload(self, changed: list[str]) -> None:
        names = ", ".join(os.path.relpath(file, self.settings.folder) for file in changed[:3])
        self.board.tell("reload", f"{names} changed: loading again", files=changed)
        self._generation += 1
        self._send_scout()

    # --- the end

    def stop(self) -> None:
        """Once: finish what runs, within the grace. Twice: end at once."""
        if self.draining:
            if not self._aborting:
                self._aborting = True
                self.board.tell("ending", "ending at once")
                self._start(self._abort())
            return
        self.draining = True
        running = sum(len(pool.tasks) for pool in self.pools.values())
        self.board.tell(
            "draining",
            f"ending: {counted(running, 'job')} may finish within {self.settings.grace_s:g} s "
            "(a second signal or Ctrl-C ends at once)"
            if running
            else "ending",
            running=running,
        )
        for pool in self.pools.values():
            pool.crew.wanted = 0
            pool.drain()
        self._loop.call_later(self.settings.grace_s, self._expire)
        self._check_drained()

    def _expire(self) -> None:
        for pool in self.pools.values():
            pool.kill_all()

    def _check_drained(self) -> None:
        if self.draining and not any(pool.tasks for pool in self.pools.values()):
            self._empty.set()
            if not self._aborting:
                self._start(self._leave())

    async def _leave(self) -> None:
        for pool in self.pools.values():
            await self._say_goodbye(pool)
        self._end(DONE)

    async def _say_goodbye(self, pool: Pool) -> None:
        """Wait until the hall has read the last reports."""
        if pool.link.up:
            try:
                async with asyncio.timeout(LAST_WORDS_S):
                    await pool.link.ask("beat", None)
            except (TimeoutError, LinkLost, Refused):
                pass
        pool.link.close()

    async def _abort(self) -> None:
        self._expire()
        try:
            async with asyncio.timeout(KILLED_S):
                await self._empty.wait()
        except TimeoutError:
            pass
        for pool in self.pools.values():
            await self._say_goodbye(pool)
        self._end(INTERRUPTED)

    def _end(self, code: int) -> None:
        if not self._over.done():
            self._over.set_result(code)
