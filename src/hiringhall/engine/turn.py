"""The turn, without an event loop: the same code runs under asyncio and in the simulator.

The invariants:
- The changes of a turn are one transaction. One transaction is under way at a time.
- If a session was told something that must be on disk first, its output waits until the commit has returned.
  Other sessions do not wait for it. If nobody knows whether the commit has succeeded, they wait until that is
  found out.
- A session's messages keep their order. A session gets at most one write in a turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.errors import STORE_DOWN, Refusal, invariant
from hiringhall.dialects.session import Reporter
from hiringhall.engine import output
from hiringhall.engine.deadlines import (
    LINGER_US,
    NEVER,
    STARTED_US,
    Deadlines,
)
from hiringhall.engine.grouping import GROUP_COMMIT_CHANGES_MAX, GroupCommit
from hiringhall.engine.parents import HistoryLookups, KeyQuestion
from hiringhall.engine.searching import EndReads, OutputReads, Searches
from hiringhall.engine.store_retries import StoreRetries

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.core.changes import Batch, EndRow, HistoryPage, HistoryQuery, OutputPage
    from hiringhall.core.jobs import ParentRef
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.dialects.session import Session
    from hiringhall.engine.writer import Writer

HELD_MESSAGES_MAX: Final = 20_000
"""If more messages than this wait for the store, the peer is not read from until the commit returns."""
HELD_BYTES_MAX: Final = 1 << 20
"""The same for bytes."""
GATHERED_CHANGES_MAX: Final = 20_000
"""If this many changes wait for the commit under way, peers that wait for the store are not read from until it
has returned, so that the next batch is not much larger. A batch cannot be cut: the changes of a turn belong
together."""
COALESCED_BYTES_MAX: Final = 65_536
"""Output above this size is sent at once, not coalesced."""
LINGER_CHANGES_MAX: Final = 2_000
"""With this many changes or more, a commit that no peer waits for starts at once."""


class Engine:
    """Gathers what the sessions have to say, commits the changes, and sends what may be sent."""

    __slots__ = (
        "_batch",
        "_coalesced",
        "_commit_us",
        "_end_reads",
        "_flushed",
        "_gathering",
        "_group",
        "_output_reads",
        "_parents",
        "_retries",
        "_sealed",
        "_searches",
        "_writer",
        "deadlines",
        "hands_out_until_us",
        "in_doubt",
        "outbox",
        "reporter",
        "scheduler",
    )

    def __init__(self, scheduler: Scheduler, writer: Writer, reporter: Reporter | None = None) -> None:
        self.scheduler = scheduler
        self.reporter = reporter if reporter is not None else Reporter()
        """Receives the events for the log, from the core, the sessions and the transports."""
        scheduler.table.observer = self.reporter
        self.outbox: list[Session] = []
        """Sessions with something to send. They add themselves: all of them share this list."""
        self._writer = writer
        self.deadlines = Deadlines()
        self._parents = HistoryLookups(scheduler, writer, self.deadlines)
        self._end_reads = EndReads(scheduler, writer)
        self._searches = Searches(writer)
        self._output_reads = OutputReads(writer)
        self._batch: Batch | None = None
        """The transaction under way."""
        self.in_doubt = False
        """It is on disk or it is not: the store has to find out."""
        self._sealed: list[Session] = []
        """Sessions whose `sealed` waits for it."""
        self._gathering: list[Session] = []
        """Sessions whose `out` waits for the next transaction, or for their own `sealed`."""
        self._coalesced: list[Session] = []
        """Sessions whose output is kept back and sent together with that of the next turns; see `end`."""
        self._flushed = False
        """Deferred notes were flushed: they are committed at once."""
        self._commit_us = 0
        """When the latest commit was started."""
        self._group = GroupCommit()
        self._retries = StoreRetries(self.deadlines)
        self.hands_out_until_us = NEVER
        """A turn that begins after this time hands out nothing: then another hall may do so."""

    def join(self, session: Session) -> None:
        """A peer has connected."""
        session.outbox = self.outbox
        if session.out:
            self.outbox.append(session)  # its dialect sends a greeting
        session.reporter = self.reporter

    def leave(self, session: Session) -> None:
        """Inside a turn: a peer has disconnected. Its unsent output is dropped."""
        session.link = None
        self.scheduler.leave(session)
        session.disconnected()

    def look_up(self, session: Session, job_id: int) -> None:
        """Read one job from the history; `Session.looked_up` is called in a later turn."""
        self._end_reads.ask(session, job_id)

    def looked_up(self, session: Session, job_id: int, line: EndRow | None, trouble: str) -> None:
        """Inside a turn: what the history holds. Ignored if the session has closed."""
        self._end_reads.answered(session, job_id, line, trouble)

    def look_up_keys(self, session: Session, ticket: int, refs: list[ParentRef]) -> None:
        """Read the latest ends of these keys from the history; `Session.keys_looked_up` is called in a later
        turn.
        """
        self._parents.questions.append(KeyQuestion(session, ticket, refs))

    def search(self, session: Session, number: int, query: HistoryQuery) -> None:
        """Read a page of the history; `Session.searched` is called with this number in a later turn."""
        self._searches.ask(session, number, query)

    def searched(self, page: HistoryPage | None, trouble: str) -> None:
        """Inside a turn: a page of the history, or why it could not be read."""
        self._searches.answered(page, trouble)

    def look_up_output(self, session: Session, job_id: int, position: int) -> None:
        """Read what the workers of a job said; `Session.output_looked_up` is called in a later turn."""
        self._output_reads.ask(session, job_id, position)

    def output_looked_up(
        self, session: Session, job_id: int, position: int, page: OutputPage, trouble: str
    ) -> None:
        """Inside a turn: what the store has, to which the lines that are not on disk are added."""
        if session.link is not None:
            if not trouble:
                page = self.scheduler.ledger.output.complete(page, job_id, position)
            session.output_looked_up(job_id, page, trouble)
        self._output_reads.answered()

    def parents_looked_up(self, lines: list[EndRow], trouble: str) -> None:
        """Inside a turn: what the history holds about the jobs asked for, or why it could not be read."""
        self._parents.answered(lines, trouble)

    def begin(self, now_us: int, paused_us: int = 0, *, deadlines: bool = True) -> None:
        """A turn starts. `now_us` is the time for all of it; a pause of `paused_us` has just ended. Without
        `deadlines`, leases and timers do not expire in this turn: there may be input to read first.
        """
        scheduler = self.scheduler
        withholding = now_us > self.hands_out_until_us
        if withholding != scheduler.withholding:
            scheduler.withhold(withholding)
        scheduler.set_time(now_us)
        if paused_us:
            scheduler.resume(paused_us)
        if deadlines:
            scheduler.advance(now_us)
        if now_us >= self.deadlines.retry_us:
            self._retries.ring()

    def end(self, *, coalesce: bool = False, is_too_late: Callable[[], bool] | None = None) -> None:
        """A turn ends: match, start a commit if none is under way, send what may be sent.

        In a busy hall the caller may ask to coalesce: workers get their output at once, clients when
        `flush_coalesced` is called. A client of many jobs then gets several answers with one write. Once
        `is_too_late` says so, output is dropped, and its peers are disconnected.
        """
        scheduler = self.scheduler
        deadlines = self.deadlines
        scheduler.settle()
        if self._coalesced:
            self._gather_coalesced()
        if scheduler.ledger.has_deferred:
            self._note_deferred()
        else:
            deadlines.deferred_us = NEVER
        if scheduler.ledger.has_started:
            self._note_started()
        else:
            deadlines.started_us = NEVER
        outbox = self.outbox
        for session in outbox:
            if session.waits_if_idle:
                session.waits_if_idle = False
                if session.pledges is None and deadlines.deferred_us == NEVER:
                    session.pledges = []
            if session.pledges is not None or session.sealed is not None:
                self._gathering.append(session)
                if not session.held_since_us:
                    session.held_since_us = scheduler.now_us
            elif (
                coalesce
                and session.worker is None
                and not session.prompt
                and session.out_bytes < COALESCED_BYTES_MAX
            ):
                self._coalesced.append(session)
            elif is_too_late is not None and is_too_late():
                output.drop(session)
            else:
                output.flush(session)
        outbox.clear()
        if self._batch is None:
            self._commit_if_due()
        elif self.in_doubt and self._retries.take():
            self._writer.settle()
        if scheduler.graph.parent_lookups.waiting or self._parents.questions:
            self._parents.ask()
        else:
            deadlines.parents_us = NEVER
        self._pause_waiting_peers()

    def _pause_waiting_peers(self) -> None:
        """Read no more from peers that wait for the store while too much waits for it."""
        many = self._batch is not None and len(self.scheduler.ledger) >= GATHERED_CHANGES_MAX
        for session in self._gathering:
            much = len(session.out) > HELD_MESSAGES_MAX or session.out_bytes > HELD_BYTES_MAX
            if (many or much) and session.link is not None:
                session.link.pause()

    def drop_output(self) -> None:
        """Inside a turn: drop what was said in it, and disconnect the peers that it was for."""
        for session in self.outbox:
            output.drop(session)
        self.outbox.clear()

    @property
    def has_coalesced(self) -> bool:
        """Output is kept back until `flush_coalesced` is called."""
        return len(self._coalesced) > 0

    def flush_coalesced(self) -> None:
        """Send the output that was kept back."""
        self._gather_coalesced()
        for session in self._coalesced:
            output.flush(session)
        self._coalesced.clear()

    def _gather_coalesced(self) -> None:
        """Sessions that made a pledge since then wait for the commit; large output is sent now."""
        kept: list[Session] = []
        for session in self._coalesced:
            if session.pledges is not None:
                self._gathering.append(session)
            elif session.out_bytes < COALESCED_BYTES_MAX:
                kept.append(session)
            else:
                output.flush(session)
        self._coalesced = kept

    def _note_deferred(self) -> None:
        """Flush the ledger's deferred notes: at once in an idle hall, otherwise after LINGER_US. Most of those
        jobs have ended by then, and need no row of their own.
        """
        now_us = self.scheduler.now_us
        deadlines = self.deadlines
        shared = self._group.shared and now_us < self._commit_us + LINGER_US
        if deadlines.deferred_us == NEVER:
            deadlines.deferred_us = now_us + LINGER_US if self._batch is not None or shared else now_us
        if now_us >= deadlines.deferred_us or self.scheduler.closing:
            deadlines.deferred_us = NEVER
            self._flushed = True
            self.scheduler.ledger.flush_deferred()

    def _note_started(self) -> None:
        """Store the start of a job only if the job takes longer than most do."""
        now_us = self.scheduler.now_us
        deadlines = self.deadlines
        if deadlines.started_us == NEVER:
            deadlines.started_us = now_us + STARTED_US
        elif now_us >= deadlines.started_us:
            deadlines.started_us = NEVER
            self.scheduler.ledger.flush_started()

    def _commit_if_due(self) -> None:
        """No transaction is under way: start one if there is a reason to, or release what waits for none."""
        scheduler = self.scheduler
        deadlines = self.deadlines
        deadlines.group_us = NEVER
        if scheduler.store_trouble:
            if self._retries.take():
                self._commit()
        elif len(scheduler.ledger):
            if (self._gathering and not self._waits_for_group()) or self._lingered():
                self._commit()
        else:
            deadlines.linger_us = NEVER
            self._release_all()

    def _lingered(self) -> bool:
        """Whether changes that no peer waits for are due to be committed."""
        scheduler = self.scheduler
        if scheduler.closing or self._flushed or len(scheduler.ledger) >= LINGER_CHANGES_MAX:
            return True
        if self.deadlines.linger_us == NEVER:
            self.deadlines.linger_us = scheduler.now_us + LINGER_US
        return scheduler.now_us >= self.deadlines.linger_us

    def _waits_for_group(self) -> bool:
        """Group commit: whether to wait for more that can share this commit."""
        scheduler = self.scheduler
        if scheduler.closing or len(scheduler.ledger) >= GROUP_COMMIT_CHANGES_MAX:
            return False
        self.deadlines.group_us = until_us = self._group.wait_until_us(self._gathering, scheduler.now_us)
        return until_us < NEVER

    @property
    def busy(self) -> bool:
        """Something is not committed yet, or waits for a commit."""
        ledger = self.scheduler.ledger
        return self._batch is not None or len(ledger) > 0 or ledger.has_deferred or len(self._gathering) > 0

    @property
    def asking(self) -> bool:
        """Ended jobs are being looked up in the history, or wait to be."""
        return self._parents.pending

    @property
    def changes_under_way(self) -> int:
        """The number of changes in the transaction under way."""
        batch = self._batch
        return len(batch.inserts) + len(batch.updates) + len(batch.ends) if batch is not None else 0

    @property
    def jobs_under_way(self) -> list[int]:
        """The ids of the jobs in the transaction under way."""
        batch = self._batch
        if batch is None:
            return []
        return [job.id for jobs in (batch.inserted, batch.updated, batch.ended) for job in jobs]

    def next_deadline(self) -> int:
        """When to start a turn even if nothing arrives; 0: there is no need to."""
        return self.deadlines.next_us(self.scheduler.next_deadline())

    def committed(self) -> None:
        """Inside a turn: the transaction under way is on disk."""
        batch = self._batch
        invariant(batch is not None, "committed() needs a transaction under way")
        assert batch is not None
        self._batch = None
        self.in_doubt = False
        self._retries.reset()
        self.scheduler.committed(batch)
        self._end_reads.committed()
        for session in self._sealed:
            if self._is_held_back(session):
                if not session.out:
                    self._gathering.append(session)  # the others are in it already
                output.keep_sealed(session)
            else:
                output.send_sealed(session)
                session.held_since_us = self._commit_us if session.out else 0
        self._group.count(self._sealed, self.scheduler.now_us, self.scheduler.now_us - self._commit_us)
        self._sealed = []
        self._release_unpledged()

    def failed(self, trouble: str) -> None:
        """Inside a turn: nothing of the transaction under way is on disk. Try again after a pause."""
        batch = self._batch
        invariant(batch is not None, "failed() needs a transaction under way")
        assert batch is not None
        self._batch = None
        if self.in_doubt:
            self.in_doubt = False
            self._retries.reset()
        self._parents.commit_failed(trouble)
        scheduler = self.scheduler
        withdrawn = scheduler.withdraw(batch, trouble)
        refusal = Refusal(STORE_DOWN, trouble)
        for session in self._sealed:
            if not session.out:
                self._gathering.append(session)  # the others are in it already
            output.unseal(session)
        self._sealed = []
        for session in self._gathering:
            output.replace_withdrawn(session, withdrawn, refusal, scheduler)
        for session in self._coalesced:
            output.replace_withdrawn(session, withdrawn, refusal, scheduler)
        for session in self.outbox:
            output.replace_withdrawn(session, withdrawn, refusal, scheduler)
        scheduler.submissions.drop_withdrawn(withdrawn)
        self._release_unpledged()
        self._retries.plan(scheduler.now_us)

    def unknown(self, trouble: str) -> None:
        """Inside a turn: the transaction under way is on disk or it is not. What waits for it goes on waiting.
        The store is asked after a pause; then it is committed, failed, or unknown again.
        """
        invariant(self._batch is not None, "unknown() needs a transaction under way")
        self.in_doubt = True
        # A look-up that was asked for behind this commit may have found too little.
        self._parents.commit_failed(trouble)
        self.scheduler.distrust_store(trouble)
        self._retries.plan(self.scheduler.now_us)

    def probe(self) -> None:
        """Inside a turn: test the store, even if there is nothing to commit."""
        if self._batch is None and not self.scheduler.store_trouble:
            self._commit()

    def expire(self) -> None:
        """Inside a turn: drop what is due from the history, even if there is nothing to commit."""
        if self._batch is None and not self.scheduler.store_trouble:
            self._commit(expires=True)

    def _commit(self, *, expires: bool = False) -> None:
        batch = self.scheduler.seal()
        batch.expires = expires
        self._batch = batch
        self._commit_us = self.scheduler.now_us
        self._flushed = False
        self.deadlines.linger_us = NEVER
        self.deadlines.group_us = NEVER
        for session in self._gathering:
            output.seal(session)
        self._sealed = self._gathering
        self._gathering = []
        self._writer.write(batch, self.scheduler.now_us)

    def _release_unpledged(self) -> None:
        """Send the output of sessions that waited only to keep their order."""
        waiting: list[Session] = []
        for session in self._gathering:
            if session.pledges is not None:
                waiting.append(session)
            elif self._is_held_back(session):
                self._hold_back(session, waiting)
            else:
                output.release(session)
        self._gathering = waiting

    def _release_all(self) -> None:
        """There is nothing to commit: everything pledged is on disk already."""
        waiting: list[Session] = []
        for session in self._gathering:
            if self._is_held_back(session):
                self._hold_back(session, waiting)
            else:
                output.release(session)
        self._gathering = waiting

    def _is_held_back(self, session: Session) -> bool:
        """Whether its output may tell of a job that was handed out, and another hall hands out jobs by now."""
        return session.worker is not None and self.scheduler.now_us > self.hands_out_until_us

    def _hold_back(self, session: Session, waiting: list[Session]) -> None:
        """Wait until this hall may hand out again. A hall that closes does not wait: the peer comes again."""
        if self.scheduler.closing:
            output.drop(session)
        else:
            waiting.append(session)
