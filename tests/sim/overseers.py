"""Those who look after a hall by the native protocol: one drains workers, one retries what the history has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hiringhall.core.states import FAILED, STATE_NAMES
from hiringhall.dialects.native import wire

from .actors import Actor
from .nativeactors import HELLO, Speaker
from .world import MS

if TYPE_CHECKING:
    from .actors import Town

OVERSEEN_SEEDS_FROM: Final = 40_000_000
"""Native worlds of these seeds have overseers. Others are as they were before there were any."""
_KNOWN_MAX: Final = 20
_Request = tuple[str, Any]


class Overseer(Actor):
    """Asks for one thing at a time."""

    dialect = "native"
    tap = "native"

    def __init__(self, town: Town, name: str) -> None:
        super().__init__(town, name)
        self._asked: _Request | None = None
        """What is to be answered."""
        self.world.after(self.world.random.randrange(50 * MS), self._act)

    @property
    def done(self) -> bool:
        """What it has changed for a while is as it was."""
        return True

    def arrived(self) -> None:
        self._speaker = Speaker()
        self._asked = None
        self.send(HELLO)

    def _act(self) -> None:
        world = self.world
        if self.town.calm and self.done:
            return
        world.after(world.random.randrange(1, 60 * MS), self._act)
        if self.connection is None or self._asked is not None:
            return
        self._asked = kind, body = self.request()
        self.send(self._speaker.request(kind, body))
        if world.chance(0.03):
            self.hang_up()

    def request(self) -> _Request:
        """What it asks for next."""
        raise NotImplementedError

    def answered(self, asked: _Request, kind: str, body: Any) -> None:
        """It was told something."""
        raise NotImplementedError

    def listen(self, data: bytes) -> None:
        for kind, number, body in self._speaker.feed(data):
            if number in self._speaker.asked and self._asked is not None:
                asked, self._asked = self._asked, None
                self.answered(asked, kind, body)


class Drainer(Overseer):
    """Lets workers of any dialect drain, and gives them jobs again. When the faults stop, none drains."""

    def __init__(self, town: Town, name: str) -> None:
        super().__init__(town, name)
        self._known: list[int] = []
        """The workers that were listed last."""
        self._draining: set[int] = set()
        """Those that may drain."""

    @property
    def done(self) -> bool:
        return not self._draining

    def request(self) -> _Request:
        random = self.world.random
        if self._draining and (self.town.calm or self.world.chance(0.4)):
            return wire.UNDRAIN, [random.choice(sorted(self._draining))]
        if not self._known or self.world.chance(0.3):
            return wire.WORKERS, [0, _KNOWN_MAX]
        number = random.choice(self._known)
        self._draining.add(number)
        return wire.DRAIN, [number]

    def answered(self, asked: _Request, kind: str, body: Any) -> None:
        if asked[0] == wire.WORKERS and kind == wire.OK:
            self._known = [worker["number"] for worker in body]
        elif asked[0] == wire.UNDRAIN or kind == wire.ERROR:
            self._draining.discard(asked[1][0])  # An error: the worker is gone.


class Retrier(Overseer):
    """Looks for dead letters in the history, and retries them, some of them twice."""

    def __init__(self, town: Town, name: str) -> None:
        super().__init__(town, name)
        self._dead: list[int] = []

    def request(self) -> _Request:
        if not self._dead or self.world.chance(0.2):
            return wire.HISTORY, {"state": STATE_NAMES[FAILED], "count": _KNOWN_MAX}
        place = self.world.random.randrange(len(self._dead))
        job_id = self._dead[place] if self.world.chance(0.3) else self._dead.pop(place)
        return wire.RETRY, [job_id]

    def answered(self, asked: _Request, kind: str, body: Any) -> None:
        if asked[0] == wire.HISTORY and kind == wire.OK:
            self._dead = [job["id"] for job in body[0]]
            for job_id in self._dead:
                self.town.tell(job_id)
