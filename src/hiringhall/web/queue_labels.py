"""Which queues have a label of their own in the metrics, and what is counted for the rest.

Invariant: there are at most `labels_max` labels beside OTHER, and no two queues share one. A queue keeps its
label while the hall lists it. No count of OTHER falls while the hall is open, whichever queues get a label.
"""

from __future__ import annotations

import hashlib
from heapq import nlargest
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

OTHER: Final = "_other"
"""The label of all queues that have none of their own."""
LABELS_MAX: Final = 200
LABEL_CHARACTERS_MAX: Final = 120
STATES: Final = ("ready", "parked", "running", "held", "delayed")
"""Of unfinished jobs."""
DEPTHS: Final = (*STATES, "failed")
TOTALS: Final = (
    "submitted_total",
    "done_total",
    "failed_total",
    "cancelled_total",
    "retried_total",
    "lost_total",
)

Counts = tuple[int, ...]
"""Everything about a queue that only grows: TOTALS, then the sum and the buckets of `wait`, and of `run`."""


class Labelled(NamedTuple):
    """A queue as it is shown, or OTHER."""

    label: str
    queue: Mapping[str, Any]
    """As in the answer of the hall."""


class QueueLabels:
    """The labels of one web process."""

    def __init__(self, labels_max: int = LABELS_MAX) -> None:
        self._labels_max = labels_max
        self._labels: dict[bytes, str] = {}
        self._hall = 0
        """When the hall started that the counts are of."""
        self._before: dict[bytes, Counts] = {}
        """The counts of each queue with a label, in the latest answer."""
        self._sum_before: Counts = ()
        """The counts of all queues, in the latest answer."""
        self._other: Counts = ()
        """What was counted for OTHER since the first answer."""

    def arrange(self, answer: Mapping[str, Any]) -> list[Labelled]:
        """The queues of an answer with their labels, and OTHER at the end."""
        queues: dict[bytes, Any] = answer["queues"]
        self._assign(queues)
        self._count_other(answer)
        rest = [queue for name, queue in queues.items() if name not in self._labels]
        other = {depth: sum(queue[depth] for queue in [answer["other"], *rest]) for depth in DEPTHS}
        shown = [Labelled(label, queues[name]) for name, label in self._labels.items()]
        return [*shown, Labelled(OTHER, {**other, **_named(self._other)})]

    def _assign(self, queues: Mapping[bytes, Any]) -> None:
        """Labels of queues that are gone become free; the busiest of the others get them."""
        for name in [name for name in self._labels if name not in queues]:
            del self._labels[name]
        free = self._labels_max - len(self._labels)
        unlabelled = [
            (queue["submitted_total"] + sum(queue[state] for state in STATES), name)
            for name, queue in queues.items()
            if name not in self._labels
        ]
        used = set(self._labels.values())
        for _, name in nlargest(free, unlabelled, key=itemgetter(0)):
            label = label_of(name)
            if label in used or label == OTHER:
                label = f"{label}~{hashlib.sha256(name).hexdigest()[:12]}"
            used.add(label)
            self._labels[name] = label

    def _count_other(self, answer: Mapping[str, Any]) -> None:
        """Add to OTHER what all queues have counted since the latest answer, without those with a label."""
        queues = answer["queues"]
        everything = _sum([_counts(answer["other"]), *map(_counts, queues.values())])
        labelled = {name: _counts(queues[name]) for name in self._labels}
        started_us = answer.get("hall", {}).get("started_us", 0)
        nothing = (0,) * len(everything)
        if not self._sum_before:
            # Counts begin at 0 with the web process, as those of any process do.
            self._hall, self._sum_before, self._before, self._other = started_us, everything, labelled, nothing
        elif self._hall != started_us:
            self._hall, self._sum_before, self._before, self._other = started_us, nothing, {}, nothing
        # A queue that is listed for the first time is new, unless the hall does not list all.
        unknown = nothing if not answer["other"]["queues"] else None
        shown = _sum(
            [
                nothing,
                *[_minus(now, self._before.get(name, unknown) or now) for name, now in labelled.items()],
            ]
        )
        added = _minus(_minus(everything, self._sum_before), shown)
        self._other = _sum([self._other, tuple(max(count, 0) for count in added)])
        self._sum_before, self._before = everything, labelled


def label_of(name: bytes) -> str:
    """A queue's name as people can read it: printable, and not too long."""
    text = "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in name.decode("utf-8", "backslashreplace")
    )
    if len(text) <= LABEL_CHARACTERS_MAX:
        return text
    return f"{text[:LABEL_CHARACTERS_MAX]}~{hashlib.sha256(name).hexdigest()[:12]}"


def _counts(queue: Mapping[str, Any]) -> Counts:
    wait_us, waits = queue["wait"]
    run_us, runs = queue["run"]
    return (*[queue[name] for name in TOTALS], wait_us, *waits, run_us, *runs)


def _named(counts: Counts) -> dict[str, Any]:
    """Counts by their names in an answer."""
    times = counts[len(TOTALS) :]
    half = len(times) // 2
    named: dict[str, Any] = dict(zip(TOTALS, counts, strict=False))
    named["wait"] = times[0], times[1:half]
    named["run"] = times[half], times[half + 1 :]
    return named


def _sum(rows: Iterable[Counts]) -> Counts:
    return tuple(map(sum, zip(*rows, strict=True)))


def _minus(one: Counts, other: Counts) -> Counts:
    return tuple(a - b for a, b in zip(one, other, strict=True))
