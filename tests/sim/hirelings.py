"""Those who bid for jobs and those who announce their own, by lines or on the bus.

What they say and hear is the same by either way; how it gets there is their mouth's business.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Protocol

from hiringhall.dialects.hire import wire
from hiringhall.dialects.hire.wire import Line

from .world import MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from .actors import Town

WORKERS = ("honest", "honest", "absent", "late", "quitter", "quitter", "mute", "hasty", "greedy", "crashing")
PROVIDERS = ("honest", "honest", "mute", "fickle", "dying")
PATIENCE_US = 250 * MS
"""How long a worker that said START waits for PERFORM before it says so again, and then before it goes."""


class Mouth(Protocol):
    """How somebody speaks."""

    def say(self, line: Line) -> None: ...

    def soon(self, delay_us: int, action: Callable[[], None]) -> None:
        """Do something later, unless the speaker is gone by then."""

    def stumble(self) -> None:
        """Be gone, in some way, and come back."""


def uuid_of(name: str) -> bytes:
    return sha256(name.encode()).digest()[:16]


class Hireling:
    """A worker's mind."""

    def __init__(self, town: Town, name: str, kind: str, queues: list[bytes], mouth: Mouth) -> None:
        self.town = town
        self.world = town.world
        self.kind = kind
        self.queues = queues
        self.uuid = uuid_of(name)
        self._mouth = mouth
        self.forget()

    def forget(self) -> None:
        """It starts anew."""
        self.next_job = b""
        self.job = b""
        """What it performs, or has come for."""
        self.performing = False

    def hear(self, line: Line) -> None:
        verb = line.verb
        if verb == wire.ANNOUNCE:
            self._announced(line)
        elif verb == wire.HIRE and line.worker == self.uuid:
            self._hired(line)
        elif verb == wire.PERFORM and line.job == self.job:
            self._told_to_perform(line)
        elif verb == wire.DISMISS and line.worker == self.uuid:
            self._dismissed(line)

    def _announced(self, line: Line) -> None:
        taken = self.next_job and self.kind != "greedy"
        if line.type not in self.queues or taken or self.world.chance(0.35):
            return
        random = self.world.random
        time_us = random.choice((0, 0, 5 * MS, 60 * MS))
        self._mouth.soon(
            random.randrange(1, 20 * MS),
            lambda: self._say(wire.AVAIL, line.job, time_us=time_us, skill=random.randrange(3)),
        )

    def _hired(self, line: Line) -> None:
        if line.job in (self.next_job, self.job):
            return
        self.next_job = line.job
        if self.kind == "crashing" and self.world.chance(0.2):
            self._mouth.stumble()
        elif self.kind == "quitter" and self.world.chance(0.3):
            self.next_job = b""
            self._say(wire.QUIT, line.job)
        elif self.kind == "hasty" and self.world.chance(0.5):
            self._say(wire.PERFORMING, line.job)
        elif self.kind != "absent" or self.world.chance(0.4):
            late_us = 400 * MS if self.kind == "late" else 60 * MS
            self._mouth.soon(self.world.random.randrange(1, late_us), self._go_on)

    def _go_on(self) -> None:
        """To the next job, when there is one and the one before is done."""
        if self.job or not self.next_job:
            return
        self.job, self.next_job = self.next_job, b""
        self.performing = False
        self._arrive(self.job, 2)

    def _arrive(self, job: bytes, times: int) -> None:
        if job != self.job or self.performing:
            return
        if not times:
            self._say(wire.QUIT, job)
            self._leave(job)
            return
        self._say(wire.START, job)
        self._mouth.soon(PATIENCE_US, lambda: self._arrive(job, times - 1))

    def _told_to_perform(self, line: Line) -> None:
        random = self.world.random
        if self.kind == "crashing" and self.world.chance(0.3):
            self._mouth.stumble()
            return
        if self.kind == "mute" and self.world.chance(0.6):
            return
        self.performing = True
        self._say(wire.PERFORMING, line.job)
        if self.kind == "quitter" and self.world.chance(0.6):
            self._mouth.soon(random.randrange(1, 2 + line.time_us), lambda: self._quit(line.job))
        elif self.kind == "crashing" and self.world.chance(0.4):
            self._mouth.soon(random.randrange(1, 2 + line.time_us), self._mouth.stumble)
        # That it was dismissed may never reach it: it does not stay for ever.
        self._mouth.soon(line.time_us + 2 * PATIENCE_US, lambda: self._quit(line.job))

    def _quit(self, job: bytes) -> None:
        if job == self.job:
            self._say(wire.QUIT, job)
            self._leave(job)

    def _dismissed(self, line: Line) -> None:
        if line.job == self.next_job:
            self.next_job = b""
        self._leave(line.job)

    def _leave(self, job: bytes) -> None:
        if job == self.job:
            self.job = b""
            self.performing = False
            self._go_on()

    def _say(self, verb: bytes, job: bytes, time_us: int = 0, skill: int = 0) -> None:
        self._mouth.say(Line(self.uuid, verb, job, time_us=time_us, skill=skill))


class Founder:
    """A provider's mind: it has one job after the other, and chooses for itself."""

    def __init__(self, town: Town, name: str, kind: str, hall: bytes, mouth: Mouth) -> None:
        self.town = town
        self.world = town.world
        self.kind = kind
        self.uuid = uuid_of(name)
        self._name = name.replace(" ", "-").encode()
        self._hall = hall
        self._mouth = mouth
        self._last = 0
        self._announced = 0
        """How often it has announced a job. What it has in mind for later is void once it has done so again:
        one that is refused at once, time and again, would have ever more in mind."""
        self.forget()

    def forget(self) -> None:
        self.job = b""
        self.type = b""
        self.worker = b""

    def begin(self) -> None:
        """Announce a job, and another when that one is over."""
        if self.town.calm:
            return
        if not self.job:
            self._last += 1
            self.job = b"%s-%d" % (self._name, self._last)
            if self.world.chance(0.3):  # as clients call theirs
                self.job = self.world.random.choice(self.town.keys)
            self.type = self.world.random.choice(self.town.queues)
        self.worker = b""
        self._say(wire.ANNOUNCE, type_=self.type)
        self._announced += 1
        announced = self._announced
        self._mouth.soon(self.world.random.randrange(100 * MS, 600 * MS), lambda: self._again(announced))

    def _again(self, announced: int, *, quit_: bool = False) -> None:
        if announced == self._announced and (quit_ or not self.worker):
            self.begin()

    def hear(self, line: Line) -> None:
        if not self.job or line.job != self.job:
            return
        random = self.world.random
        if line.verb == wire.AVAIL and (line.speaker[:8] != self._hall[:8] or self.world.chance(0.3)):
            if not self.worker or (self.kind == "fickle" and self.world.chance(0.3)):
                self.worker = line.speaker
                self._say(wire.HIRE, worker=line.speaker)
                if self.kind == "dying" and self.world.chance(0.4):
                    self._mouth.soon(random.randrange(1, 100 * MS), self._mouth.stumble)
        elif line.speaker != self.worker:
            return
        elif line.verb == wire.START and (self.kind != "mute" or self.world.chance(0.4)):
            self._say(wire.PERFORM, type_=self.type, time_us=random.randrange(1, 60 * MS))
        elif line.verb == wire.PERFORMING:
            if self.kind == "dying" and self.world.chance(0.5):
                self._mouth.soon(random.randrange(1, 30 * MS), self._mouth.stumble)
            job = self.job
            self._mouth.soon(random.randrange(1, 80 * MS), lambda: self._satisfied(job))
        elif line.verb == wire.QUIT:
            announced = self._announced
            self._mouth.soon(random.randrange(1, 50 * MS), lambda: self._again(announced, quit_=True))

    def _satisfied(self, job: bytes) -> None:
        if job == self.job and self.worker:
            self._say(wire.DISMISS, worker=self.worker)
            self.forget()
            self.begin()

    def _say(self, verb: bytes, *, type_: bytes = b"", worker: bytes = b"", time_us: int = 0) -> None:
        self._mouth.say(Line(self.uuid, verb, self.job, worker=worker, type=type_, time_us=time_us))
