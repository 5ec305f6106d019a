"""One schedule: when it is due, and the job that it submits.

Invariant: `next_due_us` defines the due times, and its answer never depends on the current time. `missed`
decides what happens to due times that were missed.
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

from hiringhall.core.errors import Refusal
from hiringhall.core.jobs import RESOURCES, JobSpec
from hiringhall.core.limits import SECOND_US, Limits
from hiringhall.core.needs import SKILL_MAX, TIME_US_MAX
from hiringhall.core.resources.resourcing import same_text
from hiringhall.core.rules.queue_rules import LIMIT_KEY, TENANT
from hiringhall.core.terms import DEFAULT_TERMS, HIGH, LOW, NORMAL, Terms
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
_TERMS: Final = {
    "backoff_us": TIME_US_MAX,
    "backoff_max_us": TIME_US_MAX,
    "timeout_us": TIME_US_MAX,
    "silence_us": TIME_US_MAX,
    "losses_max": RETRIES_MAX,
    "expire_us": TIME_US_MAX,
    "skill": SKILL_MAX,
    "takes_us": TIME_US_MAX,
    "keep_us": TIME_US_MAX,
}
"""The terms that only a peer or the book can set, and the largest value of each."""
NUMBERS: Final = {
    "retries": "failures_max",
    "quits_max": "quits_max",
    **{name: name for name in _TERMS},
    "timeout_us": "run_us",
    "silence_us": "lease_us",
}
"""The fields of a plan that are numbers among the terms of its jobs, and what they are called there."""
_NAMES: Final = (LIMIT_KEY, TENANT)
_TEXTS: Final = ("name", "queue", "key", "payload", *_NAMES, RESOURCES)


class Plan(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, dict=True
):
    """A schedule as the user wrote it. It is used only if it has no `faults`."""

    name: str
    queue: str
    cron: str = ""
    """Five fields, or six with seconds first; empty: `every_us` is used."""
    every_us: int = 0
    """Due at all multiples of it since the start of 1970 in UTC."""
    timezone: str = "UTC"
    """The time zone of the cron expression and of {due}."""
    payload: str = ""
    key: str = ""
    """Empty: no key, so each firing submits a separate job."""
    priority: Priority = "normal"
    retries: int = 0
    quits_max: int = 0
    """Its job fails after this many hired workers quit; 0: no limit."""
    backoff_us: int = DEFAULT_TERMS.backoff_us
    """The wait before the first retry; it doubles with each."""
    backoff_max_us: int = DEFAULT_TERMS.backoff_max_us
    timeout_us: int = 0
    """An attempt that takes longer fails; 0: no limit."""
    silence_us: int = 0
    """Silence of its worker after which it is lost; 0: only a closed connection."""
    losses_max: int = DEFAULT_TERMS.losses_max
    """Its job fails after this many lost workers; 0: no limit."""
    expire_us: int = 0
    """A ready job that no worker takes within this time is cancelled; 0: it waits."""
    skill: int = 0
    """What its worker needs."""
    takes_us: int = 0
    """How much time its worker must have left."""
    keep_us: int = 0
    """How long its job stays in the history; 0: as the rules of the history say."""
    limit_key: str = ""
    """What the limits of its queue count its jobs by; empty: nothing."""
    tenant: str = ""
    """For whom its jobs are, in a queue that is shared fairly; empty: nobody in particular."""
    resources: str = ""
    """What its jobs need of the resources of their worker, such as "cpus=2 mem=8G"; empty: nothing."""
    missed: Missed = "latest"
    late_us: int = LATE_US
    """A due time that is later than this is missed."""

    def faults(self) -> Iterator[tuple[str, str]]:
        """What is wrong with it: (setting, message)."""
        for field in _TEXTS:
            if _bytes(getattr(self, field)) is None:
                yield field, "is not UTF-8 text"
        if not 0 < len(self.name) <= NAME_LENGTH_MAX or not self.name.isprintable():
            yield "name", f"must have 1 to {NAME_LENGTH_MAX} printable characters"
        if not self.queue:
            yield "queue", "is missing; give the queue (function) of the job"
        yield from self._time_faults()
        for field in ("key", "payload"):
            for found in _DUE.finditer(getattr(self, field)):
                if found[1] and _FORMAT.fullmatch(found[1]) is None:
                    yield field, f'"{found[0]}" is not a date format; write it as in {{due:%Y-%m-%d}}'
        if not 0 <= self.retries <= RETRIES_MAX:
            yield "retries", f"must be a whole number from 0 to {RETRIES_MAX}"
        if not 0 <= self.quits_max <= RETRIES_MAX:
            yield "quits_max", f"must be a whole number from 0 to {RETRIES_MAX}"
        for field, most in _TERMS.items():
            if not 0 <= getattr(self, field) <= most:
                yield field, f"must be a whole number from 0 to {most}"
        try:
            same_text(self.resources.encode("utf-8", "replace"))
        except Refusal as refusal:
            yield RESOURCES, refusal.text.removeprefix("resources: ")
        if self.late_us < 0:
            yield "late_s", "must be 0 seconds or more"

    def _time_faults(self) -> Iterator[tuple[str, str]]:
        if bool(self.cron) == bool(self.every_us):
            yield (
                "cron",
                "and every are both set: remove one of them" if self.cron else "is missing; set cron or every",
            )
        if self.every_us and self.every_us < EVERY_MIN_US:
            yield "every", 'must be "1s" or more'
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
        """What a hall with these limits would refuse. The plan must have no faults."""
        job = self.job(0, 0)
        for field, data, limit, name in (
            ("queue", job.queue, limits.queue_name_bytes_max, "queue_name_bytes_max"),
            ("key", job.key, limits.key_bytes_max, "key_bytes_max"),
            ("payload", job.payload, limits.payload_bytes_max, "payload_bytes_max"),
            *((name, getattr(self, name).encode(), limits.key_bytes_max, "key_bytes_max") for name in _NAMES),
        ):
            if len(data) > limit:
                yield field, f"is too long: at most {limit} bytes are allowed (limits.{name})"

    # --- when

    def next_due_us(self, after_us: int) -> int:
        """The first due time later than `after_us`."""
        if self.every_us:
            return (after_us // self.every_us + 1) * self.every_us
        after = datetime.fromtimestamp(after_us // SECOND_US, UTC)
        due = next_due(self.cron, find_zone(self.timezone), after)
        return int(due.timestamp()) * SECOND_US

    def is_due(self, at_us: int) -> bool:
        """Whether this is a due time."""
        return self.next_due_us(at_us - 1) == at_us

    def due_between(self, after_us: int, until_us: int) -> Iterator[int]:
        """The due times in (after, until], in order."""
        due_us = self.next_due_us(after_us)
        while due_us <= until_us:
            yield due_us
            due_us = self.next_due_us(due_us)

    def latest_due(self, after_us: int, until_us: int, most: int) -> list[int]:
        """The latest `most` due times in (after, until]. Computes few of them, even if there are many."""
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
        """Differs for plans with other due times: a plan that is changed in this way starts over."""
        when = f"{' '.join(self.cron.upper().split())}\n{self.every_us}\n{self.timezone}"
        return hashlib.sha256(when.encode()).digest()[:16]

    # --- what

    def further_terms(self) -> dict[str, int | str]:
        """The terms beside priority, retries and quits_max that are not as usual."""
        usual = Plan(name=self.name, queue=self.queue)
        names = (*_TERMS, *_NAMES, RESOURCES)
        return {name: getattr(self, name) for name in names if getattr(self, name) != getattr(usual, name)}

    @cached_property
    def _terms(self) -> Terms:
        numbers = {term: getattr(self, field) for field, term in NUMBERS.items()}
        return Terms(priority=_PRIORITIES[self.priority], durable=True, detached=True, **numbers)

    def job(self, due_us: int, start_us: int) -> JobSpec:
        """The job for one due time. It starts at `start_us`; 0: at once."""
        due = datetime.fromtimestamp(due_us // SECOND_US, find_zone(self.timezone))
        return JobSpec(
            self.queue.encode(),
            _render(self.payload, due).encode(),
            _render(self.key, due).encode(),
            self._terms,
            start_us,
            extras=self._extras,
        )

    @cached_property
    def _extras(self) -> dict[str, bytes] | None:
        extras = {name: getattr(self, name).encode() for name in _NAMES}
        extras[RESOURCES] = same_text(self.resources.encode())
        return {name: data for name, data in extras.items() if data} or None


def _render(text: str, due: datetime) -> str:
    """The text with each {due} and {due:format} replaced."""
    return _DUE.sub(lambda found: due.strftime(found[1]) if found[1] else due.isoformat(), text)


def _bytes(text: str) -> bytes | None:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return None
