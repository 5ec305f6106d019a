"""What all sessions of one beanstalkd door share: its options, the terms of its jobs, and some counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hiringhall.core.limits import SECOND_US
from hiringhall.core.terms import HIGH, LOW, NORMAL, Terms
from hiringhall.dialects.beanstalkd import wire

if TYPE_CHECKING:
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.dialects.beanstalkd.session import BeanstalkdSession

DEFAULT_TUBE: Final = b"default"
"""The tube that a connection uses and watches until it says otherwise."""
URGENT_BELOW: Final = 1024
"""beanstalkd's own bound: jobs with a smaller number are urgent."""
LOW_ABOVE: Final = 1 << 31
SHOWN_PRIORITIES: Final = {HIGH: 0, NORMAL: URGENT_BELOW, LOW: LOW_ABOVE + 1}
"""The number that stands for each range: its smallest."""
TERMS_MAX: Final = 1000
"""Terms that are kept for the next job with the same priority and time to run."""


@dataclass(frozen=True)
class BeanstalkdOptions:
    """How one door treats what comes in by it."""

    durable: bool = True
    """A job is on disk before its client is told so."""
    job_bytes_max: int = 65_535
    log_all: bool = False
    """The end of every job goes to the history, and not only that of durable ones."""


class BeanstalkdContext:
    """One door."""

    def __init__(self, scheduler: Scheduler, options: BeanstalkdOptions, version: str, pid: int) -> None:
        self.scheduler = scheduler
        self.options = options
        self.version = version
        self.pid = pid
        self.opened_us = scheduler.now_us
        self.connections = 0
        """How many have come in so far."""
        self.sessions: dict[BeanstalkdSession, None] = {}
        self.commands = dict.fromkeys(wire.ARGUMENTS, 0)
        """How often each was used."""
        self._terms: dict[tuple[int, int], Terms] = {}
        self._changed: dict[tuple[Terms, int, bool], Terms] = {}

    def terms(self, priority: int, run_s: int) -> Terms:
        """What holds for a job with this number as its priority, and this time to run. beanstalkd gives a job
        out again for as long as it takes, so losses have no bound.
        """
        key = (level_of(priority), max(run_s, 1))
        found = self._terms.get(key)
        if found is None:
            if len(self._terms) >= TERMS_MAX:
                self._terms.clear()
            found = self._terms[key] = Terms(
                priority=key[0],
                durable=self.options.durable,
                detached=True,
                losses_max=0,
                run_us=key[1] * SECOND_US,
                logged=self.options.log_all,
            )
        return found

    def changed(self, terms: Terms, priority: int, *, durable: bool) -> Terms:
        """The same terms with this priority; jobs that are changed alike share them."""
        level = level_of(priority)
        if level == terms.priority and durable == terms.durable:
            return terms
        key = (terms, level, durable)
        found = self._changed.get(key)
        if found is None:
            if len(self._changed) >= TERMS_MAX:
                self._changed.clear()
            found = self._changed[key] = terms.replace(priority=level, durable=durable)
        return found


def level_of(priority: int) -> int:
    """The priority of the hall for one of 2**32."""
    if priority < URGENT_BELOW:
        return HIGH
    return LOW if priority > LOW_ABOVE else NORMAL
