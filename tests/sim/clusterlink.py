"""The connection of a member to the database, with the faults of a network.

The law: what is asked happens once, twice, later or not at all. Whoever asked is answered rightly, or learns
after a while that the connection is gone. What it asked may happen even then, unless the database has ended
that connection.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .clusterdatabase import Refused
from .world import MS, SECOND

if TYPE_CHECKING:
    from collections.abc import Callable

    from .clusterdatabase import FencedDatabase
    from .clustermember import Member
    from .world import World

BEAT_ANSWER_US = 2 * SECOND
"""`ANSWER_S` of the connection for beats."""


class LinkWeather:
    """How bad the way to the database is, drawn once a run."""

    def __init__(self, world: World, *, faulty: bool) -> None:
        random = world.random
        self.delay_max_us = random.choice((500, 5 * MS, 60 * MS, 300 * MS))
        self.lost = random.choice((0.0, 0.01, 0.05)) if faulty else 0.0
        """How often a question does not arrive."""
        self.unanswered = random.choice((0.0, 0.02, 0.1)) if faulty else 0.0
        """How often the answer does not."""
        self.late = random.choice((0.0, 0.02, 0.1)) if faulty else 0.0
        """How often the question arrives after the connection is gone for its member."""
        self.doubled = random.choice((0.0, 0.02, 0.1)) if faulty else 0.0
        self.noticed_us = random.choice((50 * MS, SECOND, 5 * SECOND))
        """How long it takes at most to learn that a connection is gone."""

    def calm(self) -> None:
        self.delay_max_us = 500
        self.lost = self.unanswered = self.late = self.doubled = 0.0
        self.noticed_us = 50 * MS


class DatabaseLink:
    """One connection at a time. It connects again with the next question."""

    def __init__(self, member: Member, database: FencedDatabase, weather: LinkWeather, answer_us: int) -> None:
        self._member = member
        self._world = member.world
        self._database = database
        self._weather = weather
        self._answer_us = answer_us
        """A question that takes longer has failed."""
        self._backend = 0
        self._question = 0
        """The number of the last question. An answer to an earlier one is not heard."""

    @property
    def connected(self) -> bool:
        return self._backend > 0 and self._backend not in self._database.ended_backends

    def ask(
        self, statement: Callable[[int], Any], answered: Callable[[Any], None], lost: Callable[[], None]
    ) -> None:
        """Have the database do something, with the number of this connection. `answered` is called with what it
        returned, or with a `Refused`; `lost` if the connection is gone.
        """
        if not self.connected:
            self._backend = self._database.accept()
        self._question += 1
        question, backend = self._question, self._backend
        weather, world = self._weather, self._world
        random = world.random
        dice = random.random()

        def act() -> Any:
            if backend in self._database.ended_backends:
                return None
            try:
                return statement(backend)
            except Refused as refused:
                return refused

        def give_up() -> None:
            if question == self._question:
                self._question += 1
                self._backend = 0
                lost()

        def hear(said: Any) -> None:
            if question == self._question:
                self._question += 1
                answered(said)

        def arrive(*, unanswered: bool = False) -> None:
            reachable = not self._database.away and not self._member.cut_off
            if not reachable or backend in self._database.ended_backends:
                self._member.after_real(random.randrange(weather.noticed_us), give_up)
                return
            said = act()
            if unanswered:
                self._member.after_real(random.randrange(weather.noticed_us), give_up)
            else:
                self._member.after_real(random.randrange(weather.delay_max_us), lambda: hear(said))

        def arrive_late() -> None:
            if not self._database.away:
                act()

        def arrive_again() -> None:
            """Something on the way has sent it twice: by another connection, since one keeps the order."""
            if not self._database.away:
                with suppress(Refused):
                    statement(self._database.accept())

        self._member.after(self._answer_us, give_up)
        if (dice := dice - weather.lost) < 0:
            self._member.after_real(random.randrange(weather.noticed_us), give_up)
        elif (dice := dice - weather.late) < 0:
            world.after(random.randrange(6 * SECOND), arrive_late)
            self._member.after_real(random.randrange(weather.noticed_us), give_up)
        elif (dice := dice - weather.unanswered) < 0:
            world.after(random.randrange(weather.delay_max_us), lambda: arrive(unanswered=True))
        else:
            world.after(random.randrange(weather.delay_max_us), arrive)
            if dice - weather.doubled < 0:
                world.after(weather.delay_max_us + random.randrange(SECOND), arrive_again)

    def hang_up(self) -> None:
        """Close the connection: nothing more is heard of it."""
        self._question += 1
        self._backend = 0
