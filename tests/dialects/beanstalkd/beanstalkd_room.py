"""A hall in memory with one beanstalkd door, and its guests: the real engine and store, without sockets.

The test moves the clock. Each turn ends with an audit, and the store answers after it unless the test holds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from hiringhall.core.limits import Limits
from hiringhall.dialects.beanstalkd.context import BeanstalkdContext, BeanstalkdOptions
from hiringhall.dialects.beanstalkd.session import BeanstalkdSession
from hiringhall.dialects.session import Caller, Link
from hiringhall.engine.recovery import open_scheduler
from hiringhall.engine.turn import Engine
from hiringhall.storage.memory import MemoryStore

if TYPE_CHECKING:
    from hiringhall.core.changes import Batch
    from hiringhall.core.jobs import ParentRef
    from hiringhall.dialects.session import Reporter, Session

START_US: Final = 1_767_225_600_000_000
SECOND_US: Final = 1_000_000


class BeanstalkdGuest(Link):
    """One connection: says lines, hears lines."""

    def __init__(self, hall: BeanstalkdHall, caller: Caller) -> None:
        super().__init__()
        self.hall = hall
        self.session = BeanstalkdSession(caller, hall.context)
        self.session.link = self
        self.closed = False
        self.paused = False
        self._written: list[bytes] = []
        hall.engine.join(self.session)

    # --- for the engine

    def write(self, messages: list[bytes]) -> None:
        self._written += messages

    def close(self) -> None:
        self.closed = True

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    # --- for the test

    def say_bytes(self, data: bytes) -> Self:
        """These bytes arrive. The turn stays open."""
        self.hall.begin()
        self.session.receive(data)
        return self

    def reads(self) -> bytes:
        """End the turn; everything that was written since the last time."""
        self.hall.end()
        data = b"".join(self._written)
        self._written = []
        return data

    def says(self, *lines: str) -> str:
        """Send lines, end the turn; what comes back, as lines of text."""
        return self.say_bytes("".join([f"{line}\r\n" for line in lines]).encode()).hears()

    def hears(self) -> str:
        data = self.reads().decode()
        assert not data or data.endswith("\r\n")
        return data.removesuffix("\r\n").replace("\r\n", "\n")

    def puts(self, body: str = "x", priority: int = 1024, delay_s: int = 0, run_s: int = 60) -> int:
        """Put a job; its id."""
        word, number = self.says(f"put {priority} {delay_s} {run_s} {len(body)}", body).split()
        assert word == "INSERTED"
        return int(number)

    def reserves(self) -> int:
        """Reserve a job that is there; its id."""
        heard = self.says("reserve-with-timeout 0").split()
        assert heard[0] == "RESERVED", heard
        return int(heard[1])

    def stats(self, *command: object) -> dict[str, str]:
        """The mapping that answers a command such as `stats-job 7`."""
        ok, head, *lines = self.says(" ".join(map(str, command))).split("\n")
        assert ok.startswith("OK "), ok
        assert head == "---"
        return dict(line.split(": ", 1) for line in lines if line)

    def says_no_more(self) -> None:
        """Close the sending side."""
        self.hall.begin()
        self.hall.scheduler.leave(self.session)
        self.session.finish()
        self.hall.end()

    def leaves(self) -> None:
        """Disconnect."""
        self.hall.begin()
        self.hall.engine.leave(self.session)
        self.hall.end()


class BeanstalkdHall:
    """The hall around them. It can die and open again."""

    def __init__(
        self,
        options: BeanstalkdOptions | None = None,
        limits: Limits | None = None,
        reporter: Reporter | None = None,
    ) -> None:
        self.options = options or BeanstalkdOptions()
        self.limits = limits or Limits()
        self.store = MemoryStore(None, 1)
        self.now_us = START_US
        self.held = False
        """The store answers only when the test says so."""
        self._reporter = reporter
        self._port = 40_000
        self.reopen()

    def reopen(self) -> None:
        """Open on what was committed. Peers are gone."""
        self.scheduler = open_scheduler(self.store, self.limits, self.now_us)
        self.engine = Engine(self.scheduler, self, self._reporter)
        self.context = BeanstalkdContext(self.scheduler, self.options, "1.12+test", 4711)
        self._guests: list[BeanstalkdGuest] = []
        self._batch: Batch | None = None
        self._turning = False

    def guest(self) -> BeanstalkdGuest:
        self._port += 1
        guest = BeanstalkdGuest(self, Caller("127.0.0.1", self._port, (), self._port))
        self._guests.append(guest)
        return guest

    # --- turns

    def begin(self) -> None:
        """Start a turn, unless one is open."""
        if not self._turning:
            self._turning = True
            self.engine.begin(self.now_us)

    def end(self) -> None:
        """End the turn. The store answers in the next one, unless it is held."""
        self._end_turn()
        while not self.held and not self.scheduler.store_trouble:
            if self._batch is not None:
                self.begin()
                self.commit()
            elif any(guest.session.out for guest in self._guests):
                self.now_us = self.engine.next_deadline()  # The commit waits for more of its group.
            else:
                return
            self._end_turn()

    def _end_turn(self) -> None:
        self.begin()
        self.engine.end()
        self._turning = False
        self.scheduler.audit()

    def wait(self, duration_us: int) -> None:
        """Time passes; each deadline has a turn of its own, as on the event loop."""
        self.end()
        until_us = self.now_us + duration_us
        while 0 < (next_us := self.engine.next_deadline()) <= until_us:
            self.now_us = max(self.now_us, next_us)
            self.end()
        self.now_us = max(self.now_us, until_us)
        self.end()

    def pause(self, duration_us: int) -> None:
        """The process is stopped for so long; one turn ends that."""
        self.end()
        self.now_us += duration_us
        self._turning = True
        self.engine.begin(self.now_us, duration_us)
        self.end()

    # --- the store, inside a turn

    def commit(self) -> None:
        """The store takes the batch under way."""
        batch, self._batch = self._batch, None
        assert batch is not None
        self.store.commit(batch, self.now_us)
        self.engine.committed()

    def fail(self, trouble: str = "disk full") -> None:
        """The store cannot take the batch under way."""
        assert self._batch is not None
        self._batch = None
        self.engine.failed(trouble)

    # --- for the engine: its writer

    def write(self, batch: Batch, now_us: int) -> None:
        del now_us
        self._batch = batch

    def look_up(self, session: Session, job_id: int) -> None:
        raise AssertionError("this dialect looks nothing up")

    def look_up_parents(self, refs: list[ParentRef]) -> None:
        assert not refs, "this dialect has no parents"
