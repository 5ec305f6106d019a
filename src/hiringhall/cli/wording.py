"""Values of the hall as people read them: names, times, ages, durations and states. No I/O but the clock.

Invariant: what comes from a job, a worker or a client is escaped here, so that it cannot command the terminal.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any, Final

from hiringhall.cli.escaping import escaped
from hiringhall.cli.layout import cut
from hiringhall.cli.styling import PLAIN, Style

SECOND_US: Final = 1_000_000
NAME_MAX: Final = 60
_SPANS: Final = ((86_400, "d"), (3600, "h"), (60, "min"))
_BYTES_A_CHARACTER: Final = 4
STYLES: Final = {
    "running": Style("cyan"),
    "working": Style("cyan"),
    "done": Style("green"),
    "failed": Style("red"),
    "backoff": Style("red"),
    "no_workers": Style("yellow"),
    "paused": Style("yellow"),
    "parked": Style("yellow"),
    "limited": Style("yellow"),
    "draining": Style("yellow"),
    "cancelled": Style("yellow"),
}
"""Of the words for states and situations."""


def style_of(word: str) -> Style:
    return STYLES.get(word, PLAIN)


def short(data: bytes | str, length: int = NAME_MAX) -> str:
    """A name, or the beginning of a text, on one line."""
    return cut(escaped(data[: length * _BYTES_A_CHARACTER]), length)


def duration(span_us: float) -> str:
    """How long something takes, such as `12 ms` or `3 min`."""
    seconds = span_us / SECOND_US
    if seconds < 1:
        return f"{span_us / 1000:.0f} ms" if span_us >= 1000 else f"{span_us:.0f} us"
    for size, unit in _SPANS:
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def age(at_us: int, now_us: int) -> str:
    """How long ago a time is; empty for 0."""
    return duration(max(0, now_us - at_us)) if at_us else ""


def now() -> int:
    """Microseconds since 1970, as this machine says."""
    return time.time_ns() // 1000


def moment(at_us: int) -> str:
    """A time in this machine's zone; empty for 0."""
    if at_us <= 0:
        return ""
    try:
        return f"{datetime.fromtimestamp(at_us / SECOND_US, UTC).astimezone():%Y-%m-%d %H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return "never"


def situation_of(described: dict[str, Any]) -> str:
    """How a job stands, in a word."""
    state = str(described["state"])
    return str(described.get("situation", "running" if state == "leased" else state))


def counted(count: int, thing: str) -> str:
    """`1 job`, `2 jobs`."""
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def rules_text(rules: dict[str, Any]) -> str:
    """The limits of a queue, as the hall describes them."""
    texts: list[str] = []
    if "running_max" in rules:
        texts.append(f"at most {rules['running_max']} running")
    if "key_running_max" in rules:
        texts.append(f"at most {rules['key_running_max']} running for each key")
    if "starts_per_second" in rules:
        burst = rules.get("burst", 1)
        texts.append(
            f"{rules['starts_per_second']:g} starts a second" + (f", burst {burst}" if burst > 1 else "")
        )
    if "fair" in rules:
        weights = [f"{short(tenant)}={weight}" for tenant, weight in rules.get("tenant_weights", {}).items()]
        texts.append("fair" + (f" with {' '.join(weights)}" if weights else ""))
    if "age_max_us" in rules:
        texts.append(f"cancelled after {duration(rules['age_max_us'])}")
    return ", ".join(texts) or "no limits"
