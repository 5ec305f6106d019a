"""What became of a commit whose answer was lost, by the numbers of batches alone.

Invariant: each batch has the number after the last one that is kept. So the number in the database tells: that
of the lost commit, it is kept; the one before, it is not; a smaller one, the database went back.
"""

from __future__ import annotations

from typing import NamedTuple


class Outcome(NamedTuple):
    """Of one commit."""

    kept: bool
    went_back: bool = False
    """The database lacks earlier commits too, which it had acknowledged."""


def find_outcome(sent: int, last: int, found: int) -> Outcome:
    """Of batch `sent`, if `last` was known to be kept and the database has `found`. The one that asks is the
    only one that may write, and its old connection can do nothing any more.
    """
    return Outcome(found == sent, found not in (sent, last))


def find_fenced_outcome(sent: int, noted: int) -> Outcome:
    """The same after another hall has taken over: it noted the last batch that was kept."""
    return Outcome(noted >= sent)
