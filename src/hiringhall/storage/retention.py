"""When lines of the history are dropped, and which: the same rules for every store.

Invariant: a commit drops a bounded number of lines, so that no commit takes long. When the store is full it
drops at least as much as it adds, so that the history stays bounded. The oldest lines are dropped first. For
lack of room, dead letters are dropped only when no other line is left; live jobs are never dropped. A job can
shorten the time for which its line is kept, and never extend it.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from hiringhall.core.states import FAILED
from hiringhall.storage.contract import RULED_QUEUES_MAX, QueueRetention, Retention, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hiringhall.core.terms import Terms

PAUSE_US: Final = 1_000_000
"""Ages are checked once in this time, not with every commit."""
IDLE_PAUSE_US: Final = 60_000_000
"""Without commits, ages are checked once in this time."""
QUEUES_PER_CHECK: Final = 8
"""Queues with their own rules whose ages are checked at a time; the others are checked later, in rotation."""
DROP_MIN: Final = 500
"""Lines that any commit may drop from each section that it checks, even if it adds few."""
SLACK_SHARE: Final = 64
"""A full section or store frees this fraction of itself at once, so that not every commit has to drop lines."""
HEADROOM_SHARE: Final = 16
"""The store counts as full while this fraction is still free, so that the next commit has room."""
LINE_BYTES: Final = 100
"""Minimum size of a line, without its content."""
ROW_BYTES_MAX: Final = 4096
"""Approximate maximum size of a row, without its content."""
UNBOUNDED: Final = (1 << 63) - 1
"""As an age, a number or a size: no limit."""


def drop_time_us(terms: Terms, state: int, ended_us: int) -> int:
    """When a line is dropped because its job says so; 0: only by the rules. A dead letter is work that was not
    done, so its job does not decide.
    """
    return min(ended_us + terms.keep_us, UNBOUNDED) if terms.keep_us and state != FAILED else 0


def keep_all(queues: Iterable[bytes]) -> Retention:
    """Rules that drop nothing. The given queues keep shelves of their own."""
    apart = QueueRetention(age_us=UNBOUNDED, dead_age_us=UNBOUNDED, rows_max=UNBOUNDED, bytes_max=UNBOUNDED)
    return Retention(
        age_us=UNBOUNDED,
        dead_age_us=UNBOUNDED,
        rows_max=UNBOUNDED,
        bytes_max=UNBOUNDED,
        queues=dict.fromkeys(queues, apart),
        heeds_keep=False,
    )


class Shelf:
    """Lines that are kept by the same rules. A store counts them. If their queue has its own rules, it also
    counts the bytes of their content: keys, results, payloads, extras and output.
    """

    __slots__ = ("bytes", "lines", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.lines = 0
        self.bytes = 0


class Section:
    """The shelves of one queue, or of all queues without rules of their own."""

    __slots__ = ("dead", "others", "rules")

    def __init__(self, number: int, rules: QueueRetention) -> None:
        self.rules = rules
        self.others = Shelf(number)
        self.dead = Shelf(number + 1)

    @property
    def lines(self) -> int:
        return self.others.lines + self.dead.lines

    @property
    def bytes(self) -> int:
        return self.others.bytes + self.dead.bytes

    @property
    def full(self) -> bool:
        return self.lines > self.rules.rows_max or self.bytes > self.rules.bytes_max


class Sections:
    """All sections. `numbers` has the first shelf number of each queue with its own rules."""

    def __init__(self, retention: Retention, numbers: Mapping[bytes, int]) -> None:
        if len(retention.queues) > RULED_QUEUES_MAX:
            raise StoreError(
                f"{len(retention.queues)} queues have retention rules of their own:"
                f" at most {RULED_QUEUES_MAX} are allowed"
            )
        self.common = Section(
            0, QueueRetention(retention.age_us, retention.dead_age_us, retention.rows_max, bytes_max=UNBOUNDED)
        )
        self.ruled = {queue: Section(numbers[queue], rules) for queue, rules in retention.queues.items()}
        self.all = (*self.ruled.values(), self.common)
        self.others = tuple(section.others for section in self.all)
        self.dead = tuple(section.dead for section in self.all)
        self.shelves = {shelf.number: shelf for shelf in chain(self.others, self.dead)}

    @property
    def lines(self) -> int:
        return sum([section.lines for section in self.all])


class CommitSize(NamedTuple):
    """What a commit adds."""

    ends: int
    rows: int
    """Jobs and ends."""
    content_bytes: int
    """Payloads, results and output."""
    drop_us: int = UNBOUNDED
    """The earliest time at which one of its lines is dropped because its job says so."""


class Shelving(Protocol):
    """What a store does to apply the rules."""

    def drop(
        self, shelves: Sequence[Shelf], before_us: int, lines_max: int, bytes_max: int, line_bytes: int
    ) -> int:
        """Drop the oldest lines of these shelves that ended before a time: at most `lines_max`, and until their
        content plus `line_bytes` for each reaches `bytes_max`. Return how many were dropped; the counts of the
        shelves are updated.
        """

    def drop_due(self, now_us: int, lines_max: int) -> int:
        """Drop lines whose jobs say that they are kept until now at most: at most `lines_max`, the first due
        first. Return how many were dropped; the counts of the shelves are updated.
        """

    def next_drop_us(self) -> int:
        """When the next line is dropped because its job says so; UNBOUNDED: none is."""

    def used_bytes(self) -> int:
        """The size of the whole store, without free space that can be reused."""


class Expiry:
    """Remembers when the ages were last checked, and how much room was left. `drop_us` is the earliest time at
    which a stored line is dropped because its job says so.
    """

    def __init__(self, sections: Sections, retention: Retention, drop_us: int) -> None:
        self._sections = sections
        self._bytes_max = retention.bytes_max
        self._heeds_keep = retention.heeds_keep
        self._drop_us = drop_us
        """No line is dropped earlier because its job says so."""
        self._drops_behind = False
        """There were more of these lines than one commit may drop."""
        self._looked_us = -PAUSE_US
        self._turns = list(sections.ruled.values())
        """Sections of queues with their own rules. The next one to check is first."""
        self._behind: list[Section] = []
        """Sections that had more to drop than one commit may."""
        self._room_bytes = 0
        """How much can safely be added before the store must be measured again."""

    def due(self, now_us: int, added: CommitSize, touched: Iterable[Section]) -> bool:
        """Whether this commit has anything to drop. A clock that was set back counts as a pause."""
        return (
            abs(now_us - self._looked_us) >= PAUSE_US
            or len(self._behind) > 0
            or self._drops_behind
            or self._sections.common.full
            or _growth(added) >= self._room_bytes
            or any(section.full for section in touched)
        )

    def skip(self, added: CommitSize) -> None:
        """Nothing was due."""
        self._room_bytes -= _growth(added)
        self._drop_us = min(self._drop_us, added.drop_us)

    @property
    def next_us(self) -> int:
        """When to check even if nothing is added."""
        if self._behind or self._drops_behind:
            return self._looked_us
        drop_us = self._drop_us if self._heeds_keep else UNBOUNDED
        return min(max(drop_us, self._looked_us + PAUSE_US), self._looked_us + IDLE_PAUSE_US)

    def run(self, shelving: Shelving, now_us: int, added: CommitSize, touched: Iterable[Section]) -> None:
        """Drop what is too old or too much. The shelves already count what the commit adds."""
        lines_max = DROP_MIN + 2 * added.ends
        self._drop_us = min(self._drop_us, added.drop_us)
        paused = abs(now_us - self._looked_us) >= PAUSE_US
        if self._heeds_keep and (paused or self._drops_behind):
            self._drop_due(shelving, now_us, lines_max)
        sections = dict.fromkeys(self._behind)
        sections |= dict.fromkeys([section for section in (self._sections.common, *touched) if section.full])
        if paused:
            self._looked_us = now_us
            sections |= dict.fromkeys([self._sections.common, *self._turns[:QUEUES_PER_CHECK]])
            self._turns = self._turns[QUEUES_PER_CHECK:] + self._turns[:QUEUES_PER_CHECK]
        self._behind = [section for section in sections if _tidy(shelving, section, now_us, lines_max) <= 0]
        self._room_bytes -= _growth(added)
        if self._room_bytes <= 0:
            self._make_room(shelving, lines_max + added.content_bytes // LINE_BYTES)

    def _drop_due(self, shelving: Shelving, now_us: int, lines_max: int) -> None:
        """Drop lines because their jobs say so."""
        self._drops_behind = False
        if self._drop_us <= now_us:
            self._drops_behind = shelving.drop_due(now_us, lines_max) >= lines_max
            self._drop_us = shelving.next_drop_us()

    def reset(self) -> None:
        """The commit failed: check everything again with the next one."""
        self._looked_us = -PAUSE_US
        self._room_bytes = 0
        self._drop_us = 0

    def _make_room(self, shelving: Shelving, lines_max: int) -> None:
        """Measure the store, and drop lines if it is full."""
        full_bytes = self._bytes_max - self._bytes_max // HEADROOM_SHARE
        used_bytes = shelving.used_bytes()
        if used_bytes > full_bytes and self._sections.lines > 0:
            wanted_bytes = used_bytes - full_bytes + self._bytes_max // SLACK_SHARE
            dropped = shelving.drop(self._sections.others, UNBOUNDED, lines_max, wanted_bytes, LINE_BYTES)
            used_bytes = shelving.used_bytes()
            if used_bytes > full_bytes and not any(shelf.lines for shelf in self._sections.others):
                wanted_bytes = used_bytes - full_bytes
                shelving.drop(self._sections.dead, UNBOUNDED, lines_max - dropped, wanted_bytes, LINE_BYTES)
                used_bytes = shelving.used_bytes()
        self._room_bytes = full_bytes - used_bytes


def _tidy(shelving: Shelving, section: Section, now_us: int, lines_max: int) -> int:
    """Drop what one section has too much of. Return how many more lines could have been dropped."""
    rules, left = section.rules, lines_max
    for shelf, age_us in ((section.others, rules.age_us), (section.dead, rules.dead_age_us)):
        if shelf.lines > 0:
            left -= shelving.drop([shelf], now_us - age_us, left, UNBOUNDED, 0)
    # Only as many dead letters are dropped as necessary, so no extra room is made with them.
    rows_slack, bytes_slack = rules.rows_max // SLACK_SHARE, rules.bytes_max // SLACK_SHARE
    for shelf, more_rows, more_bytes in ((section.others, rows_slack, bytes_slack), (section.dead, 0, 0)):
        needed = section.lines - rules.rows_max
        if needed > 0 and shelf.lines > 0:
            left -= shelving.drop([shelf], UNBOUNDED, min(left, needed + more_rows), UNBOUNDED, 0)
        needed = section.bytes - rules.bytes_max
        if needed > 0 and shelf.lines > 0:
            left -= shelving.drop([shelf], UNBOUNDED, left, needed + more_bytes, 0)
    return left


def _growth(added: CommitSize) -> int:
    return 2 * added.content_bytes + ROW_BYTES_MAX * added.rows
