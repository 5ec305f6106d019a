"""The terms of a job as the native protocol states them: a map of names and values.

Invariant: maps with the same bytes give the same `Terms` object, so that a million jobs submitted alike share
one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.errors import BAD_REQUEST, Refusal
from hiringhall.core.jobs import RESOURCES
from hiringhall.core.needs import SKILL_MAX, TIME_US_MAX
from hiringhall.core.resources.resourcing import same_text
from hiringhall.core.rules.queue_rules import LIMIT_KEY, TENANT
from hiringhall.core.rules.spacing import Spacing
from hiringhall.core.terms import FAIL_WITH_PARENT, HIGH, HOLD, LOW, NORMAL, RUN_ANYWAY, Terms
from hiringhall.dialects.native import wire

if TYPE_CHECKING:
    from msgspec import Raw

CACHED_MAX: Final = 1000
"""Different maps whose terms are kept for the next job."""
CACHED_BYTES_MAX: Final = 1024
"""A longer map repeats itself, and is not kept."""
_COUNT_MAX: Final = 1_000_000

_PRIORITIES: Final = {"high": HIGH, "normal": NORMAL, "low": LOW}
_ON_PARENT_FAILURE: Final = {"fail": FAIL_WITH_PARENT, "run": RUN_ANYWAY, "hold": HOLD}
_FLAGS: Final = {"durable": "durable", "detached": "detached", "logged": "logged"}
_WORDS: Final = {
    "priority": ("priority", _PRIORITIES),
    "on_parent_failure": ("on_parent_failure", _ON_PARENT_FAILURE),
}
_NUMBERS: Final = {
    # Name on the wire: field of Terms, largest value.
    "retries": ("failures_max", _COUNT_MAX),
    "backoff_us": ("backoff_us", TIME_US_MAX),
    "backoff_max_us": ("backoff_max_us", TIME_US_MAX),
    "timeout_us": ("run_us", TIME_US_MAX),
    "silence_us": ("lease_us", TIME_US_MAX),
    "losses_max": ("losses_max", _COUNT_MAX),
    "quits_max": ("quits_max", _COUNT_MAX),
    "expire_us": ("expire_us", TIME_US_MAX),
    "skill": ("skill", SKILL_MAX),
    "takes_us": ("takes_us", TIME_US_MAX),
    "keep_us": ("keep_us", TIME_US_MAX),
}
DEFAULTS: Final = Terms(durable=True, detached=True)


_PRIORITY_NAMES: Final = {value: name for name, value in _PRIORITIES.items()}


_NAMES: Final = ("flow", LIMIT_KEY, TENANT, RESOURCES)
"""What a map states that is not among the terms: names and texts, given as `bin` or as `str`."""


_SPACING: Final = ("debounce_us", "debounce_max_us", "throttle_us")
"""What else it states that is not among the terms: times of `Spacing`, in this order."""


class Stated:
    """What a map states: the terms, the flow that the job belongs to, the names that limits go by, the
    resources that it needs, and debounce or throttle.
    """

    __slots__ = ("extras", "flow", "spacing", "terms")

    def __init__(
        self, terms: Terms, flow: bytes, extras: dict[str, bytes] | None, spacing: Spacing | None
    ) -> None:
        self.terms = terms
        self.spacing = spacing
        """None: neither."""
        self.flow = flow
        """Empty: none."""
        self.extras = extras
        """Its limit_key, its tenant and its resources; None: none of them. Shared by jobs that are submitted
        alike."""


class TermsCache:
    """Terms by the bytes of their map."""

    __slots__ = ("_defaults", "_known")

    def __init__(self, defaults: Terms = DEFAULTS) -> None:
        self._defaults = defaults
        self._known: dict[bytes, Stated] = {}

    def get(self, data: bytes) -> Stated:
        """What an encoded map states. Raises BadBody or Refusal."""
        stated = self._known.get(data)
        if stated is None:
            stated = self._read(data)
            if len(data) <= CACHED_BYTES_MAX:
                if len(self._known) >= CACHED_MAX:
                    self._known.clear()
                self._known[data] = stated
        return stated

    def _read(self, data: bytes) -> Stated:
        values = wire.decode(wire.STATED_BODY, data)
        names: dict[str, bytes] = {name: _name(name, values.pop(name)) for name in _NAMES if name in values}
        times = [_time(name, values.pop(name)) if name in values else 0 for name in _SPACING]
        if names or any(times):
            # Jobs of many flows, keys and tenants share their terms too.
            flow = names.pop("flow", b"")
            if RESOURCES in names:
                names[RESOURCES] = same_text(names[RESOURCES])
            extras = {name: data for name, data in names.items() if data} or None
            spacing = Spacing(*times) if any(times) else None
            return Stated(self.get(bytes(wire.encode_body(values))).terms, flow, extras, spacing)
        stated = wire.decode(wire.TERMS_BODY, wire.encode_body(values))
        return Stated(parse(stated, self._defaults), b"", None, None)


def _name(name: str, value: Raw) -> bytes:
    """A name, given as `bin` or as `str`."""
    try:
        return wire.decode(wire.BYTES_BODY, value)
    except wire.BadBody:
        text = wire.decode(wire.TERM_BODY, value)
    if not isinstance(text, str):
        raise Refusal(BAD_REQUEST, f"terms: {name} must be bytes (bin) or a text (str)")
    return text.encode()


def _time(name: str, value: Raw) -> int:
    """Microseconds."""
    time_us = wire.decode(wire.TERM_BODY, value)
    if not isinstance(time_us, int) or isinstance(time_us, bool) or not 0 <= time_us <= TIME_US_MAX:
        raise Refusal(BAD_REQUEST, f"terms: {name} must be a whole number from 0 to {TIME_US_MAX}")
    return time_us


def parse(stated: dict[str, bool | int | str], defaults: Terms = DEFAULTS) -> Terms:
    """The terms that a map states; what it leaves out has its default. Raises Refusal."""
    changes: dict[str, int] = {}
    for name, value in stated.items():
        if name in _FLAGS:
            if not isinstance(value, bool):
                raise Refusal(BAD_REQUEST, f"terms: {name} must be true or false")
            changes[_FLAGS[name]] = value
        elif name in _WORDS:
            field, words = _WORDS[name]
            if not isinstance(value, str) or value not in words:
                raise Refusal(BAD_REQUEST, f"terms: {name} must be one of {', '.join(words)}")
            changes[field] = words[value]
        elif name in _NUMBERS:
            field, most = _NUMBERS[name]
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
                raise Refusal(BAD_REQUEST, f"terms: {name} must be a whole number from 0 to {most}")
            changes[field] = value
        else:
            raise Refusal(BAD_REQUEST, f"terms: {name!r} is not known")
    if changes.get("durable", True) and not changes.get("detached", True):
        raise Refusal(BAD_REQUEST, "terms: a durable job must be detached")
    return defaults.replace(**changes) if changes else defaults


def priority_name(terms: Terms) -> str:
    return _PRIORITY_NAMES[terms.priority]


def describe(terms: Terms) -> dict[str, bool | int | str]:
    """The map that states these terms: those that differ from their defaults, and whether they are durable."""
    described: dict[str, bool | int | str] = {"durable": terms.durable}
    for name, field in _FLAGS.items():
        if getattr(terms, field) != getattr(DEFAULTS, field):
            described[name] = bool(getattr(terms, field))
    for name, (field, words) in _WORDS.items():
        value = getattr(terms, field)
        if value != getattr(DEFAULTS, field):
            described[name] = next(word for word, meant in words.items() if meant == value)
    for name, (field, _) in _NUMBERS.items():
        value = getattr(terms, field)
        if value != getattr(DEFAULTS, field):
            described[name] = value
    return described
