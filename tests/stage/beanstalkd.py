"""A hall in memory with one beanstalkd door, and its guests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.dialects.beanstalkd.context import BeanstalkdContext, BeanstalkdOptions
from hiringhall.dialects.beanstalkd.session import BeanstalkdSession
from hiringhall.dialects.session import Caller
from stage.guest import Guest
from stage.hall import Hall

if TYPE_CHECKING:
    from hiringhall.core.limits import Limits
    from hiringhall.dialects.session import Reporter


class BeanstalkdGuest(Guest):
    """One connection: says lines, hears lines."""

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


class BeanstalkdHall(Hall):
    """A hall with a beanstalkd door."""

    def __init__(
        self,
        options: BeanstalkdOptions | None = None,
        limits: Limits | None = None,
        reporter: Reporter | None = None,
    ) -> None:
        self.options = options or BeanstalkdOptions()
        self._port = 40_000
        super().__init__(limits, reporter=reporter)

    def open(self) -> None:
        super().open()
        self.context = BeanstalkdContext(self.scheduler, self.options, "1.12+test", 4711)

    def guest(self) -> BeanstalkdGuest:
        self._port += 1
        return BeanstalkdGuest(
            self, BeanstalkdSession(Caller("127.0.0.1", self._port, (), self._port), self.context)
        )
