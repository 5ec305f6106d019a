"""Producers and consumers of dwork's task graphs, and the one who sees to the locations that are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.dialects.dwork import wire

from .callers import Caller
from .world import MS, SECOND

if TYPE_CHECKING:
    from collections.abc import Callable

    from .actors import Town
    from .post import Post

KINDS: Final = ("honest", "honest", "slow", "crashing", "lying", "duplicating", "returning", "forgetful")
PATIENCE_US: Final = 300 * MS
NAMES: Final = 12
"""Tasks have few names, so that they are met again."""


class Dworker(Caller):
    """Asks one thing at a time; after too much silence it asks again, by a new connection."""

    door = "dwork"

    def __init__(self, town: Town, post: Post, name: str) -> None:
        super().__init__(town, post, name)
        self.own_identity = b""
        self._envelope = (b"",) if self.world.chance(0.5) else ()
        """A REQ socket puts an empty frame before its request."""
        self._asked = 0
        self._waiting = False

    def ask(
        self, request: Callable[[], bytes], heard: Callable[[wire.Query], None], silence: Callable[[], None]
    ) -> None:
        self._asked += 1
        number = self._asked
        self._heard = heard
        self._waiting = True
        self.send(*self._envelope, request())
        self.later(PATIENCE_US, lambda: self._flush_coalesced(number, silence))

    def _flush_coalesced(self, number: int, silence: Callable[[], None]) -> None:
        if self._waiting and number == self._asked:
            self._waiting = False
            self.connect()
            silence()

    def listen(self, frames: list[bytes]) -> None:
        if self._waiting:
            self._waiting = False
            self._heard(wire.parse(frames[-1]))


class DworkProducer(Dworker):
    """Creates tasks that wait for others, some of which nobody has created yet."""

    def __init__(self, town: Town, post: Post, name: str) -> None:
        super().__init__(town, post, f"producer {name}")
        random = self.world.random
        self.acts = random.randrange(4, 16)
        self.pause_us = random.choice((MS, 30 * MS, 150 * MS))

    def started(self) -> None:
        self._act()

    def _act(self) -> None:
        if self.town.calm or not self.acts:
            return
        self.acts -= 1
        dice = self.world.random.random()
        if dice < 0.05:
            self.ask(lambda: wire.encode(wire.OK), self._answered, self._pause)
        elif dice < 0.15:
            name = self._name()
            self.ask(lambda: wire.encode(wire.LOOKUP, name=name), self._answered, self._pause)
        else:
            graph = [self._task() for _ in range(self.world.random.choice((1, 1, 2, 4)))]
            self._create(graph)

    def _create(self, graph: list[tuple[bytes, list[bytes] | None, list[bytes] | None]]) -> None:
        """Asked again, it is another payload under the same name, so that it can be seen which one counted."""

        def request() -> bytes:
            tasks = [wire.encode_task(name, self.town.payload(), preds, succs) for name, preds, succs in graph]
            return wire.encode(wire.CREATE, tasks)

        def again() -> None:
            if self.town.calm or self.world.chance(0.3):
                self._pause()
            else:
                self.ask(request, self._answered, again)

        self.ask(request, self._answered, again)

    def _task(self) -> tuple[bytes, list[bytes] | None, list[bytes] | None]:
        random = self.world.random
        preds = succs = None
        if random.random() < 0.5:
            preds = [self._name() for _ in range(random.choice((1, 1, 2)))]
        if random.random() < 0.1:
            succs = [self._name()]
        return self._name(), preds, succs

    def _name(self) -> bytes:
        random = self.world.random
        return random.choice(self.town.keys) if random.random() < 0.2 else b"n%d" % random.randrange(NAMES)

    def _answered(self, told: wire.Query) -> None:
        self._pause()

    def _pause(self) -> None:
        self.later(self.world.random.randrange(1, self.pause_us + 1), self._act)


class DworkConsumer(Dworker):
    """Steals, works, completes. A careful one says Exit when it does not know what it has."""

    def __init__(self, town: Town, post: Post, name: str, kind: str) -> None:
        super().__init__(town, post, f"{kind} consumer {name}")
        self.kind = kind
        self.location = f"{kind}-{name}".encode()
        town.locations.append(self.location)
        self.tasks: list[tuple[bytes, bytes]] = []
        """Names and payloads."""
        self._pause_us = 50 * MS

    def started(self) -> None:
        self.tasks = []
        self._exit()

    def die(self) -> None:
        if self.kind == "forgetful":
            self.town.dead.append(self.location)
        super().die()

    def retire(self) -> None:
        super().retire()
        self.town.dead.append(self.location)

    def _exit(self) -> None:
        """Whatever it had before, it does not know of it."""
        if self.kind == "forgetful":
            self._steal()
        else:
            self.ask(lambda: wire.encode(wire.EXIT, location=self.location), self._exited, self._exit)

    def _exited(self, told: wire.Query) -> None:
        self._steal()

    def _steal(self) -> None:
        n = self.world.random.choice((None, 1, 2, 4))
        self.ask(lambda: wire.encode(wire.STEAL, n=n, location=self.location), self._stolen, self._exit)

    def _stolen(self, told: wire.Query) -> None:
        if told.type != wire.TRANSFER:
            self.later(self._pause_us, self._steal)
            # It asks less and less often in a hall that is going to rest.
            self._pause_us = min(2 * self._pause_us, 2 * SECOND) if self.town.calm else 50 * MS
            return
        self._pause_us = 50 * MS
        self.tasks = [(task.name, task.origin) for task in told.tasks]
        random = self.world.random
        work_us = random.randrange(1, 40 * MS)
        if self.kind == "slow":
            work_us += random.randrange(700 * MS)
        if self.kind in ("crashing", "forgetful") and self.world.chance(0.3):
            self.later(work_us, self.die)
        else:
            self.later(work_us, self._finish)

    def _finish(self) -> None:
        tasks = self.tasks
        if not tasks:
            self._steal()
            return
        if self.kind == "returning" and self.world.chance(0.5):
            self._return_some()
            return
        done = tasks[: self.world.random.randrange(len(tasks)) + 1]
        if self.kind == "duplicating":
            done = done + done[:1]
        told = [
            wire.encode_task(
                name, self.town.product("r", payload), log=wire.encode_log(wire.DONE, self.world.now_us)
            )
            for name, payload in done
        ]
        if self.kind == "lying":
            told.append(wire.encode_task(b"n%d" % self.world.random.randrange(NAMES), self.town.result("lie")))
        request = wire.encode(wire.COMPLETE, told, location=self.location)
        self._complete(request, {name for name, _ in done})

    def _complete(self, request: bytes, names: set[bytes]) -> None:
        def completed(told: wire.Query) -> None:
            self.tasks = [task for task in self.tasks if task[0] not in names]
            self._finish()

        def again() -> None:
            self.ask(lambda: request, completed, again)

        again()

    def _return_some(self) -> None:
        """Give a task back, perhaps to wait for another; with one that is not its own nothing may happen."""
        random = self.world.random
        names = [random.choice(self.tasks)[0]]
        if self.world.chance(0.3):
            names.append(b"n%d" % random.randrange(NAMES))
        preds = [b"n%d" % random.randrange(NAMES)] if self.world.chance(0.5) else None
        told = [wire.encode_task(name, b"", preds) for name in names]
        request = wire.encode(wire.TRANSFER, told, location=self.location)

        def returned(told: wire.Query) -> None:
            if told.type == wire.OK:
                self.tasks = [task for task in self.tasks if task[0] not in names]
            elif told.type == wire.ERROR:
                self.tasks = []
                self._exit()
                return
            self.later(5 * MS, self._finish)

        self.ask(lambda: request, returned, self._exit)


class DworkSupervisor(Dworker):
    """Says Exit for locations whose workers are gone; now and then for one that is not."""

    def __init__(self, town: Town, post: Post, name: str) -> None:
        super().__init__(town, post, f"supervisor {name}")
        self._sure: list[bytes] = []
        """Locations that were dismissed a second time: nothing they had sent can still be on its way."""

    def started(self) -> None:
        self._look()

    def _look(self) -> None:
        random = self.world.random
        if self.town.dead:
            self._dismiss(self.town.dead.pop(0))
        elif self.town.locations and not self.town.calm and random.random() < 0.2:
            self._dismiss(random.choice(self.town.locations))
        else:
            self.later(200 * MS, self._look)

    def _dismiss(self, location: bytes) -> None:
        def exited(told: wire.Query) -> None:
            if self.town.calm and location not in self._sure:
                self._sure.append(location)
                self.world.after(2 * SECOND, lambda: self.town.dead.append(location))
            self.later(10 * MS, self._look)

        def again() -> None:
            self.ask(lambda: wire.encode(wire.EXIT, location=location), exited, again)

        again()
