"""Which lines of the history go, and when: one rule for every store.

The law: a commit drops a bounded number of lines, so that no commit is long, and at least as much as it adds
once there is no more room, so that the history stays bounded. The oldest go first; for lack of room dead
letters go only when nothing else is left to go, and live jobs never do.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from hiringhall.storage.contract import RULED_QUEUES_MAX, QueueRetention, Retention, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

PAUSE_US: Final = 1_000_000
"""Ages are looked at once in this time, not with every commit."""
QUEUES_A_LOOK: Final = 8
"""Queues with rules of their own whose ages are looked at in one go; the others have their turn later."""
DROP_MIN: Final = 500
"""Lines that any commit may drop from each section that it looks at, however few it adds."""
SLACK_SHARE: Final = 64
"""What is full makes room for this part of itself at once, so that not every commit has to."""
HEADROOM_SHARE: Final = 16
"""The store counts as full with this part of it free, so that a commit has room before others make way."""
LINE_BYTES: Final = 100
"""What a line takes beside its content, at least."""
ROW_BYTES_MAX: Final = 4096
"""What a row takes beside its content, at most about."""
ANY: Final = (1 << 63) - 1
"""An age, a number, a size that sets no bound."""


def keep_all(queues: Iterable[bytes]) -> Retention:
    """Rules by which nothing goes; these queues have rules of their own, as they had."""
    apart = QueueRetention(age_us=ANY, dead_age_us=ANY, rows_max=ANY, bytes_max=ANY)
    return Retention(
        age_us=ANY, dead_age_us=ANY, rows_max=ANY, bytes_max=ANY, queues=dict.fromkeys(queues, apart)
    )


class Shelf:
    """Lines that are kept by the same rules. A store counts their number, and where a queue has rules of its
    own the bytes of their content: keys, results, payloads and extras.
    """

    __slots__ = ("bytes", "lines", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.lines = 0
        self.bytes = 0


class Section:
    """The shelves of one queue, or of all queues that have no rules of their own."""

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
    """All of them. `numbers` tells where the shelves of each queue with rules of its own begin."""

    def __init__(self, retention: Retention, numbers: Mapping[bytes, int]) -> None:
        if len(retention.queues) > RULED_QUEUES_MAX:
            raise StoreError(
                f"{len(retention.queues)} queues have rules of their own for their history:"
                f" at most {RULED_QUEUES_MAX} may"
            )
        self.common = Section(
            0, QueueRetention(retention.age_us, retention.dead_age_us, retention.rows_max, bytes_max=ANY)
        )
        self.ruled = {queue: Section(numbers[queue], rules) for queue, rules in retention.queues.items()}
        self.all = (*self.ruled.values(), self.common)
        self.others = tuple(section.others for section in self.all)
        self.dead = tuple(section.dead for section in self.all)
        self.shelves = {shelf.number: shelf for shelf in chain(self.others, self.dead)}

    @property
    def lines(self) -> int:
        return sum([section.lines for section in self.all])


class Brought(NamedTuple):
    """What a commit adds."""

    ends: int
    rows: int
    """Jobs and ends."""
    content_bytes: int
    """Payloads and results."""


class Shelving(Protocol):
    """What a store does for the rule."""

    def drop(
        self, shelves: Sequence[Shelf], before_us: int, lines_max: int, bytes_max: int, line_bytes: int
    ) -> int:
        """Take the oldest lines of some shelves that ended before a time: so many, and until their content
        and `line_bytes` for each of them come to so much. Gives their number; the shelves are counted anew.
        """

    def used_bytes(self) -> int:
        """How large the whole store is, without what is free to be used again."""


class Expiry:
    """Remembers when the ages were last looked at, and how much room there was."""

    def __init__(self, sections: Sections, bytes_max: int) -> None:
        self._sections = sections
        self._bytes_max = bytes_max
        self._looked_us = -PAUSE_US
        self._turns = list(sections.ruled.values())
        """Queues with rules of their own: the next to be looked at is first."""
        self._behind: list[Section] = []
        """Sections that had more to drop than they may at once."""
        self._room_bytes = 0
        """What can be added at least before the store has to be measured again."""

    def due(self, now_us: int, brought: Brought, touched: Iterable[Section]) -> bool:
        """Is there anything to do with this commit? A clock that was set back counts as a pause."""
        return (
            abs(now_us - self._looked_us) >= PAUSE_US
            or len(self._behind) > 0
            or self._sections.common.full
            or _growth(brought) >= self._room_bytes
            or any(section.full for section in touched)
        )

    def skip(self, brought: Brought) -> None:
        """Nothing was due."""
        self._room_bytes -= _growth(brought)

    def run(self, shelving: Shelving, now_us: int, brought: Brought, touched: Iterable[Section]) -> None:
        """Drop what is too old or too much. The shelves count already what the commit adds."""
        sections = dict.fromkeys(self._behind)
        sections |= dict.fromkeys([section for section in (self._sections.common, *touched) if section.full])
        if abs(now_us - self._looked_us) >= PAUSE_US:
            self._looked_us = now_us
            sections |= dict.fromkeys([self._sections.common, *self._turns[:QUEUES_A_LOOK]])
            self._turns = self._turns[QUEUES_A_LOOK:] + self._turns[:QUEUES_A_LOOK]
        lines_max = DROP_MIN + 2 * brought.ends
        self._behind = [section for section in sections if _tidy(shelving, section, now_us, lines_max) <= 0]
        self._room_bytes -= _growth(brought)
        if self._room_bytes <= 0:
            self._make_room(shelving, lines_max + brought.content_bytes // LINE_BYTES)

    def again(self) -> None:
        """What was added and dropped was not kept: look again with the next commit."""
        self._looked_us = -PAUSE_US
        self._room_bytes = 0

    def _make_room(self, shelving: Shelving, lines_max: int) -> None:
        """The store may be full."""
        full_bytes = self._bytes_max - self._bytes_max // HEADROOM_SHARE
        used_bytes = shelving.used_bytes()
        if used_bytes > full_bytes and self._sections.lines > 0:
            wanted_bytes = used_bytes - full_bytes + self._bytes_max // SLACK_SHARE
            dropped = shelving.drop(self._sections.others, ANY, lines_max, wanted_bytes, LINE_BYTES)
            used_bytes = shelving.used_bytes()
            if used_bytes > full_bytes and not any(shelf.lines for shelf in self._sections.others):
                wanted_bytes = used_bytes - full_bytes
                shelving.drop(self._sections.dead, ANY, lines_max - dropped, wanted_bytes, LINE_BYTES)
                used_bytes = shelving.used_bytes()
        self._room_bytes = full_bytes - used_bytes


def _tidy(shelving: Shelving, section: Section, now_us: int, lines_max: int) -> int:
    """Drop what one section has too much of; gives the number of lines that could have been dropped besides."""
    rules, left = section.rules, lines_max
    for shelf, age_us in ((section.others, rules.age_us), (section.dead, rules.dead_age_us)):
        if shelf.lines > 0:
            left -= shelving.drop([shelf], now_us - age_us, left, ANY, 0)
    # Of dead letters no more go than must, so they make no room ahead.
    rows_slack, bytes_slack = rules.rows_max // SLACK_SHARE, rules.bytes_max // SLACK_SHARE
    for shelf, more_rows, more_bytes in ((section.others, rows_slack, bytes_slack), (section.dead, 0, 0)):
        needed = section.lines - rules.rows_max
        if needed > 0 and shelf.lines > 0:
            left -= shelving.drop([shelf], ANY, min(left, needed + more_rows), ANY, 0)
        needed = section.bytes - rules.bytes_max
        if needed > 0 and shelf.lines > 0:
            left -= shelving.drop([shelf], ANY, left, needed + more_bytes, 0)
    return left


def _growth(brought: Brought) -> int:
    return 2 * brought.content_bytes + ROW_BYTES_MAX * brought.rows
