"""Resources: what workers state that they have, and what jobs state that they need.

Invariant: what a job needs is among its extras, as text, and so is stored with it. Its terms say the same as
numbers; they are made here, also for jobs that come from a store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.amounts import BadAmounts, needs_text, parse_needs, parse_totals
from hiringhall.core.errors import BAD_REQUEST, WRONG_STATE, Refusal
from hiringhall.core.jobs import RESOURCES
from hiringhall.core.resources.capacity import Capacity

if TYPE_CHECKING:
    from hiringhall.amounts import Stated
    from hiringhall.core.table import JobTable
    from hiringhall.core.terms import Amounts, Terms
    from hiringhall.core.workers import Worker

CACHED_MAX: Final = 1000
SCALES_MAX: Final = 1000
"""Names of resources whose largest amounts are kept."""


def needs_of(text: bytes) -> Amounts:
    """What a job needs, as a text states it. Raises Refusal."""
    try:
        return parse_needs(text)
    except BadAmounts as error:
        raise Refusal(BAD_REQUEST, str(error)) from None


def totals_of(text: bytes) -> Stated:
    """What a worker has, as a text states it. Raises Refusal."""
    try:
        return parse_totals(text)
    except BadAmounts as error:
        raise Refusal(BAD_REQUEST, str(error)) from None


def same_text(text: bytes) -> bytes:
    """The one text for what a job needs. Raises Refusal."""
    return needs_text(needs_of(text))


def needing(terms: Terms, extras: dict[str, bytes] | None) -> Terms:
    """The terms of a job that was stored with these extras: with the resources that it needs, and no others."""
    text = extras.get(RESOURCES, b"") if extras is not None else b""
    try:
        resources = parse_needs(text)
    except BadAmounts:
        resources = ()  # Not written by a hall of this version.
    return terms if terms.resources == resources else terms.with_resources(resources)


class ResourceTerms:
    """Terms with resources; jobs that are submitted alike share them."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[Terms, bytes], Terms] = {}

    def of(self, terms: Terms, text: bytes) -> Terms:
        """The same terms with the resources that a text states. Raises Refusal."""
        key = (terms, text)
        found = self._known.get(key)
        if found is None:
            found = terms.with_resources(needs_of(text))
            if len(self._known) >= CACHED_MAX:
                self._known.clear()
            self._known[key] = found
        return found

    def restored(self, terms: Terms, extras: dict[str, bytes]) -> Terms:
        """The terms of a job that was stored with these extras."""
        try:
            return self.of(terms, extras[RESOURCES]) if RESOURCES in extras else terms
        except Refusal:
            return terms  # Not written by a hall of this version.


class Resources:
    """The verb of workers that have resources."""

    def __init__(self, table: JobTable) -> None:
        self._table = table

    def equip(self, worker: Worker, text: bytes, machine: bytes = b"") -> None:
        """The worker has these resources, in place of those that it stated before; empty: none.

        Workers of one dialect that name the same machine and state the same share them: a worker with several
        connections, or with jobs that others hold for it.
        """
        capacity = worker.capacity
        if capacity is not None and (capacity.text, capacity.machine) == (text, machine):
            return
        stated = totals_of(text) if text else []
        if capacity is not None and capacity.shares:
            raise Refusal(WRONG_STATE, "a worker can change its resources only while no job uses them")
        self.leave(worker)
        if not text:
            return
        capacity = self._shared(worker, text, machine) if machine else None
        if capacity is None:
            capacity = Capacity(text, machine, stated)
            self._measure(capacity)
        worker.capacity = capacity
        capacity.workers[worker] = None
        self._table.look_again(capacity)

    def leave(self, worker: Worker) -> None:
        """The worker goes away, or has no resources any more."""
        capacity = worker.capacity
        if capacity is None:
            return
        worker.capacity = None
        if (
            capacity.workers.pop(worker, capacity) is None
            and not capacity.workers
            and capacity.reservation is not None
        ):
            capacity.reservation.end()

    def unreserve(self, worker: Worker) -> None:
        """The worker gets no more jobs, or none of some queue: another is reserved if it was."""
        if worker.capacity is not None and worker.capacity.reservation is not None:
            worker.capacity.reservation.end()

    def _measure(self, capacity: Capacity) -> None:
        """Keep the largest amounts that workers have stated."""
        scales = self._table.scales
        if len(scales) > SCALES_MAX:
            scales.clear()
        for name, amount in capacity.totals.items():
            scales[name] = max(amount, scales.get(name, 0))

    def _shared(self, worker: Worker, text: bytes, machine: bytes) -> Capacity | None:
        for other in self._table.workers:
            capacity = other.capacity
            known = capacity is not None and (capacity.text, capacity.machine) == (text, machine)
            if known and other.dialect == worker.dialect:
                return capacity
        return None
