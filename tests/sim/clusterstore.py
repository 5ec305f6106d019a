"""The `Writer` of an active member: it commits to the fenced database, and finds out what became of a commit.

It does in events what `PostgresStore` does on its thread, with the same rules: `find_outcome` and
`find_fenced_outcome` judge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hiringhall.storage.postgres.outcome import find_fenced_outcome, find_outcome

from .clusterdatabase import Refused
from .world import Violation

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.core.changes import Batch, HistoryQuery
    from hiringhall.core.jobs import ParentRef
    from hiringhall.dialects.session import Session

    from .clusterdatabase import Claim, FencedDatabase
    from .clusterlink import DatabaseLink
    from .clustermember import Member

CUT = "the connection was cut"
FENCED = "another hall has taken over"


class FencedWriter:
    """Of one reign."""

    def __init__(self, member: Member, database: FencedDatabase, link: DatabaseLink, claim: Claim) -> None:
        self.fenced = False
        self.unknown = 0
        """The number of a commit that may be kept or not; 0: there is none."""
        self._member = member
        self._database = database
        self._link = link
        self._incarnation = claim.incarnation
        self._batch = claim.batch
        """The last one that is known to be kept."""

    # --- for the engine

    def write(self, batch: Batch, now_us: int) -> None:
        if self.fenced:
            self._member.after(1, lambda: self._member.store_failed(FENCED))
        elif self._link.connected:
            self._send(batch, now_us)
        else:
            self._reclaim(lambda found: self._reclaimed(found, batch, now_us), self._failed)

    def settle(self) -> None:
        if self.fenced:
            self._member.after(1, lambda: self._member.store_doubted(FENCED))
        else:
            self._reclaim(self._found, self._doubted)

    def look_up(self, session: Session, job_id: int) -> None:
        raise AssertionError("nobody asks")

    def search(self, query: HistoryQuery) -> None:
        raise AssertionError("nobody asks")

    def look_up_output(self, session: Session, job_id: int, position: int) -> None:
        raise AssertionError("nobody asks")

    def look_up_parents(self, refs: list[ParentRef]) -> None:
        raise AssertionError("nobody asks")

    # --- commits

    def _send(self, batch: Batch, now_us: int) -> None:
        database, incarnation, number = self._database, self._incarnation, self._batch + 1
        if batch.empty:
            self._link.ask(lambda backend: database.probe(backend, incarnation), self._probed, self._failed)
            return

        def sent(said: Any) -> None:
            if isinstance(said, Refused):
                if said.displaced:  # a new connection is needed, and tells that nothing is kept
                    self._link.hang_up()
                    cut()
                    return
                self._refused(said)
            else:
                self._batch = number
                self._member.store_committed()

        def cut() -> None:
            self.unknown = number
            self._doubted()

        self._link.ask(lambda backend: database.commit(backend, incarnation, number, batch, now_us), sent, cut)

    def _refused(self, refused: Refused) -> None:
        self.fenced = self.fenced or refused.fenced
        self._member.store_failed(str(refused))

    def _probed(self, said: Any) -> None:
        if isinstance(said, Refused):
            if said.displaced:
                self._link.hang_up()
            self._refused(said)
        else:
            self._member.store_committed()

    def _failed(self) -> None:
        self._member.store_failed(CUT)

    def _doubted(self) -> None:
        self._member.store_doubted(CUT)

    # --- after the connection was gone

    def _reclaim(self, found: Callable[[Any], None], lost: Callable[[], None]) -> None:
        self._link.hang_up()
        self._link.ask(lambda backend: self._database.reclaim(backend, self._incarnation), found, lost)

    def _reclaimed(self, found: int | None, batch: Batch, now_us: int) -> None:
        if found is None:
            self._refused(Refused(FENCED, fenced=True))
        elif found != self._batch:
            raise Violation("receipt", f"the database has batch {found}, and {self._batch} was the last one")
        else:
            self._send(batch, now_us)

    def _found(self, found: int | None) -> None:
        """Whether the commit in doubt is kept."""
        if found is None:
            self._link.ask(
                lambda _: self._database.last_batch(self._incarnation), self._found_fenced, self._doubted
            )
            return
        outcome = find_outcome(self.unknown, self._batch, found)
        if outcome.went_back:
            raise Violation("receipt", f"the database has batch {found}, and {self._batch} was the last one")
        self._settled(kept=outcome.kept)

    def _found_fenced(self, noted: int | None) -> None:
        self.fenced = True
        if noted is None:
            self._doubted()
        else:
            self._settled(kept=find_fenced_outcome(self.unknown, noted).kept)

    def _settled(self, *, kept: bool) -> None:
        if kept:
            self._batch = self.unknown
        self.unknown = 0
        if kept:
            self._member.store_committed()
        else:
            self._member.store_failed(CUT)
