"""One schedule: when it is due, and the job that it hands in.

The law: `next_due_us` says which due times there are, and says the same whenever it is asked. What is done
about those that were missed is up to `missed`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator  # noqa: TC003 (msgspec looks its types up)
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice
from typing import Final, Literal

import msgspec

from hiringhall.core.jobs import JobSpec
from hiringhall.core.limits import SECOND_US, Limits
from hiringhall.core.terms import HIGH, LOW, NORMAL, Terms
from hiringhall.schedules.calendar import check_cron, find_zone, next_due

Priority = Literal["high", "normal", "low"]
Missed = Literal["latest", "all", "skip"]

NAME_LENGTH_MAX: Final = 64
LATE_US: Final = 60 * SECOND_US
EVERY_MIN_US: Final = SECOND_US
RETRIES_MAX: Final = 1_000_000
_STRETCH_US: Final = 3600 * SECOND_US
_PRIORITIES: Final = {"high": HIGH, "normal": NORMAL, "low": LOW}
_DUE: Final = re.compile(r"\{due(?::([^{}]*))?\}")
_FORMAT: Final = re.compile(r"(?:[^%\0]|%[aAbBcdfGHIjmMpSuUVwWxXyYzZ%])*")
_TEXTS: Final = ("name", "queue", "key", "payload")


class Plan(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, dict=True
):
    """A schedule as somebody wrote it down. It is used only if it has no `faults`."""

    name: str
    queue: str
    cron: str = ""
    """Five fields, or six with seconds in front; empty: `every_us` counts."""
    every_us: int = 0
    """Due at all multiples of it, counted from the beginning of 1970 in UTC."""
    timezone: str = "UTC"
    """Where the cron expression is read, and where {due} is told."""
    payload: str = ""
    key: str = ""
    """Empty: no key, each firing is a job of its own."""
    priority: Priority = "normal"
    retries: int = 0
    quits_max: int = 0
    """Hired workers that quit after which its job has failed; 0: no limit."""
    missed: Missed = "latest"
    late_us: int = LATE_US
    """A due time that is over for no longer than this is late, not missed."""

    def faults(self) -> Iterator[tuple[str, str]]:
        """What is wrong with it: (setting, what to do)."""
        for field in _TEXTS:
            if _bytes(getattr(self, field)) is None:
                yield field, "is not UTF-8 text"
        if not 0 < len(self.name) <= NAME_LENGTH_MAX or not self.name.isprintable():
            yield "name", f"takes 1 to {NAME_LENGTH_MAX} printable characters"
        if not self.queue:
            yield "queue", "is missing; name the queue (function) that the job is for"
        yield from self._time_faults()
        for field in ("key", "payload"):
            for found in _DUE.finditer(getattr(self, field)):
                if found[1] and _FORMAT.fullmatch(found[1]) is None:
                    yield field, f'"{found[0]}" is no format of a date; write it as in {{due:%Y-%m-%d}}'
        if not 0 <= self.retries <= RETRIES_MAX:
            yield "retries", f"takes a whole number from 0 to {RETRIES_MAX}"
        if not 0 <= self.quits_max <= RETRIES_MAX:
            yield "quits_max", f"takes a whole number from 0 to {RETRIES_MAX}"
        if self.late_us < 0:
            yield "late_s", "takes a number of seconds from 0"

    def _time_faults(self) -> Iterator[tuple[str, str]]:
        if bool(self.cron) == bool(self.every_us):
            yield (
                "cron",
                "and every are two ways to say when: give one of them"
                if self.cron
                else "is missing; give a cron expression, or every",
            )
        if self.every_us and self.every_us < EVERY_MIN_US:
            yield "every", 'takes "1s" or more'
        try:
            find_zone(self.timezone)
        except ValueError as error:
            yield "timezone", str(error)
        if self.cron:
            try:
                check_cron(self.cron)
            except ValueError as error:
                yield "cron", str(error)

    def excesses(self, limits: Limits) -> Iterator[tuple[str, str]]:
        """What a hall with these limits would refuse; asked of a plan without faults."""
        job = self.job(0, 0)
        for field, data, limit, name in (
            ("queue", job.queue, limits.queue_name_bytes_max, "queue_name_bytes_max"),
            ("key", job.key, limits.key_bytes_max, "key_bytes_max"),
            ("payload", job.payload, limits.payload_bytes_max, "payload_bytes_max"),
        ):
            if len(data) > limit:
                yield field, f"is too long: it has at most {limit} bytes (limits.{name})"

    # --- when

    def next_due_us(self, after_us: int) -> int:
        """The first due time later than `after_us`."""
        if self.every_us:
            return (after_us // self.every_us + 1) * self.every_us
        after = datetime.fromtimestamp(after_us // SECOND_US, UTC)
        due = next_due(self.cron, find_zone(self.timezone), after)
        return int(due.timestamp()) * SECOND_US

    def is_due(self, at_us: int) -> bool:
        """Whether it is a due time."""
        return self.next_due_us(at_us - 1) == at_us

    def due_between(self, after_us: int, until_us: int) -> Iterator[int]:
        """The due times later than the one and not later than the other, in order."""
        due_us = self.next_due_us(after_us)
        while due_us <= until_us:
            yield due_us
            due_us = self.next_due_us(due_us)

    def latest_due(self, after_us: int, until_us: int, most: int) -> list[int]:
        """The latest of those, so many at most. However many there are, few are looked at."""
        found: list[int] = []
        stretch_us = _STRETCH_US
        while until_us > after_us and len(found) < most:
            start_us = max(after_us, until_us - stretch_us)
            stretch = list(islice(self.due_between(start_us, until_us), 2 * most + 1))
            if len(stretch) > 2 * most:
                stretch_us //= 2
                continue
            found = stretch + found
            until_us = start_us
            stretch_us *= 2
        return found[-most:]

    @cached_property
    def digest(self) -> bytes:
        """Tells plans apart that are due at other times: one that is changed in this way begins anew."""
        when = f"{' '.join(self.cron.upper().split())}\n{self.every_us}\n{self.timezone}"
        return hashlib.sha256(when.encode()).digest()[:16]

    # --- what

    @cached_property
    def _terms(self) -> Terms:
        priority = _PRIORITIES[self.priority]
        return Terms(
            priority=priority,
            durable=True,
            detached=True,
            failures_max=self.retries,
            quits_max=self.quits_max,
        )

    def job(self, due_us: int, start_us: int) -> JobSpec:
        """The job of one due time, to start at `start_us`; 0: at once."""
        due = datetime.fromtimestamp(due_us // SECOND_US, find_zone(self.timezone))
        return JobSpec(
            self.queue.encode(),
            _render(self.payload, due).encode(),
            _render(self.key, due).encode(),
            self._terms,
            start_us,
        )


def _render(text: str, due: datetime) -> str:
    """The text with each {due} and {due:format} replaced."""
    return _DUE.sub(lambda found: due.strftime(found[1]) if found[1] else due.isoformat(), text)


def _bytes(text: str) -> bytes | None:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return None
