"""Which terms a store has, and under which ids.

Invariant: terms that a batch adds are forgotten if the batch is not kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hiringhall.core.terms import Terms


class KnownTerms:
    """The terms of one store, by id."""

    def __init__(self, by_id: dict[int, Terms], id_max: int) -> None:
        self.by_id = by_id
        self._ids = {kept.as_tuple(): terms_id for terms_id, kept in by_id.items()}
        self._id_max = id_max
        self.fresh: list[int] = []
        """Those that the current batch adds, until it is committed or rolled back."""

    def find(self, terms: Terms) -> int | None:
        """The id of terms; None: the store does not have them."""
        return self._ids.get(terms.as_tuple())

    def add(self, terms: Terms) -> int:
        """The current batch stores these terms: their id."""
        self._id_max += 1
        self._ids[terms.as_tuple()] = self._id_max
        self.by_id[self._id_max] = terms
        self.fresh.append(self._id_max)
        return self._id_max

    def ids(self, column: Sequence[Terms]) -> list[int]:
        """The id of each; only one id if all have the same, as most batches do."""
        found: dict[Terms, int] = {}
        for terms in dict.fromkeys(column):
            known = self.find(terms)
            found[terms] = self.add(terms) if known is None else known
        return [found[terms] for terms in column] if len(found) > 1 else list(found.values())

    def committed(self) -> None:
        """The batch is kept."""
        self.fresh.clear()

    def rolled_back(self) -> None:
        """The batch is not kept, and neither are the terms it added."""
        for terms_id in self.fresh:
            del self._ids[self.by_id.pop(terms_id).as_tuple()]
        self.fresh.clear()

    def replace(self, by_id: dict[int, Terms]) -> None:
        """The store has these terms, and no others."""
        self.by_id.clear()
        self.by_id |= by_id
        self._ids = {kept.as_tuple(): terms_id for terms_id, kept in by_id.items()}
