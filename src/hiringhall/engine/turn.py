"""The turn, free of any event loop: the same code runs under asyncio and inside the simulator.

The laws: the changes of a turn are one transaction, and one is under way at a time; a peer that was told
a fact which must be on disk first is held back until the commit that holds it has returned, nobody
else waits for it; a peer's messages keep their order; at most one write for each peer and turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from hiringhall.core.errors import STORE_DOWN, Refusal, invariant
from hiringhall.dialects.session import REFUSED_SUBMIT, Reporter

if TYPE_CHECKING:
    from hiringhall.core.changes import Batch, EndRow
    from hiringhall.core.jobs import Job, ParentRef
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.dialects.session import Link, Pledge, Session

HELD_MESSAGES_MAX: Final = 20_000
"""If more messages than this wait for the store, the peer is not read from until the commit returns."""
HELD_BYTES_MAX: Final = 1 << 20
"""The same for bytes."""
COALESCED_BYTES_MAX: Final = 65_536
"""Output above this size is sent at once, not coalesced."""
LINGER_US: Final = 10_000
"""How long changes that no peer waits for may stay uncommitted, so that more of them share a commit."""
LINGER_CHANGES_MAX: Final = 2_000
GROUP_COMMIT_US: Final = 2_000
"""The group commit window: how long a commit waits for the sessions that shared the last ones."""
GROUP_COMMIT_CHANGES_MAX: Final = 256
"""A commit with more changes than this does not wait."""
STARTED_US: Final = 250_000
"""A job that has been with its worker for about this long is stored as started."""
PARENTS_ASKED_MAX: Final = 128
"""Parents looked up at once in the history: a commit may have to wait for them."""
RETRY_FIRST_US: Final = 250_000
RETRY_MAX_US: Final = 5_000_000


class Writer(Protocol):
    """Takes a batch to the store, elsewhere; answers inside a later turn by `committed` or `failed`. What is
    looked up is answered inside a later turn, by the session's `looked_up` or by `parents_looked_up`.
    """

    def write(self, batch: Batch, now_us: int) -> None: ...

    def look_up(self, session: Session, job_id: int) -> None: ...

    def look_up_parents(self, refs: list[ParentRef]) -> None: ...


class Engine:
    """Gathers, commits, releases."""

    __slots__ = (
        "_answer_is_void",
        "_answered",
        "_ask_us",
        "_asked",
        "_batch",
        "_coalesced",
        "_commit_us",
        "_commits",
        "_deferred_until_us",
        "_flushed",
        "_gathering",
        "_group_size",
        "_group_until_us",
        "_linger_until_us",
        "_retry_due",
        "_retry_pause_us",
        "_retry_us",
        "_sealed",
        "_started_until_us",
        "_writer",
        "outbox",
        "reporter",
        "scheduler",
    )

    def __init__(self, scheduler: Scheduler, writer: Writer, reporter: Reporter | None = None) -> None:
        self.scheduler = scheduler
        self.reporter = reporter if reporter is not None else Reporter()
        """Hears of what is worth a line in the log, from the core, the sessions and the transports."""
        scheduler.table.observer = self.reporter
        self.outbox: list[Session] = []
        """Sessions with something to send, filled by themselves. Each shares this very list."""
        self._writer = writer
        self._batch: Batch | None = None
        """The transaction under way."""
        self._sealed: list[Session] = []
        """Sessions whose `sealed` waits for it."""
        self._gathering: list[Session] = []
        """Sessions whose `out` waits for the next one, or for their own `sealed`."""
        self._coalesced: list[Session] = []
        """Sessions whose output is kept back to be sent together with that of the next turns; see `end`."""
        self._linger_until_us = 0
        """When the changes that no peer waits for are committed; 0: there are none."""
        self._deferred_until_us = 0
        """When the deferred notes of the ledger are flushed; 0: there are none."""
        self._flushed = False
        """Deferred notes were flushed: they are committed at once."""
        self._started_until_us = 0
        """When jobs that are still with their workers are noted as started; 0: there are none."""
        self._commit_us = 0
        """When the latest commit was begun."""
        self._commits = 0
        self._answered: list[Session] = []
        """Sessions that waited for the latest commit."""
        self._group_size = 0
        """How many sessions waited for the latest two commits."""
        self._group_until_us = 0
        """The end of the group commit window."""
        self._asked: list[ParentRef] = []
        """The parents that are being looked up in the history."""
        self._answer_is_void = False
        """A commit failed meanwhile: the history lacks ends that it should have."""
        self._ask_us = 0
        """Not to ask again before this time, after trouble."""
        self._retry_us = 0
        """When to try the store again after trouble; 0: no trouble."""
        self._retry_pause_us = RETRY_FIRST_US
        self._retry_due = False

    def join(self, session: Session) -> None:
        """A peer has come in."""
        session.outbox = self.outbox
        if session.out:
            self.outbox.append(session)  # its dialect greets those who come in
        session.reporter = self.reporter

    def part(self, session: Session) -> None:
        """A peer is gone, inside a turn: what it was still to be told is nobody's any more."""
        session.link = None
        self.scheduler.leave(session)
        session.parted()

    def look_up(self, session: Session, job_id: int) -> None:
        """Ask the history for one job's line; the session hears of it in a later turn."""
        self._writer.look_up(session, job_id)

    def looked_up(self, session: Session, job_id: int, line: EndRow | None, trouble: str) -> None:
        """Inside a turn: what the history knows. Nobody answers who is gone."""
        if session.link is not None:
            session.looked_up(job_id, line, trouble)

    def _ask_for_parents(self) -> None:
        """Look up parents that are not in memory, once every end so far is on its way to the store."""
        scheduler = self.scheduler
        if self._asked or scheduler.store_trouble or len(scheduler.ledger) or scheduler.now_us < self._ask_us:
            return
        self._asked = scheduler.graph.inquiries.take(PARENTS_ASKED_MAX)
        self._writer.look_up_parents(self._asked)

    def parents_looked_up(self, lines: list[EndRow], trouble: str) -> None:
        """Inside a turn: what the history knows of the parents asked for, or why it could not be asked."""
        refs, self._asked = self._asked, []
        if trouble or self._answer_is_void:
            self._answer_is_void = False
            self._ask_us = self.scheduler.now_us + RETRY_FIRST_US
            self.scheduler.graph.inquiries.repeat(refs)
        else:
            self.scheduler.dependencies.found_parents(refs, lines)

    def begin(self, now_us: int, paused_us: int = 0, *, deadlines: bool = True) -> None:
        """A turn starts: it is `now_us` for all of it, and a pause of `paused_us` has just ended. Deadlines act
        now, or in a later turn if there may be something to read first.
        """
        scheduler = self.scheduler
        scheduler.set_time(now_us)
        if paused_us:
            scheduler.resume(paused_us)
        if deadlines:
            scheduler.advance(now_us)
        if self._retry_us and now_us >= self._retry_us:
            self._retry_us = 0
            self._retry_due = True

    def end(self, *, coalesce: bool = False) -> None:
        """A turn ends: match, start a commit if none is under way, send what may be sent.

        In a busy hall the caller may ask to coalesce: workers are sent their output at once, clients when
        `flush_coalesced` is called, so that a client of many jobs gets several answers with one write.
        """
        scheduler = self.scheduler
        scheduler.settle()
        if self._coalesced:
            self._gather_coalesced()
        if scheduler.ledger.has_deferred:
            self._note_deferred()
        else:
            self._deferred_until_us = 0
        if scheduler.ledger.has_started:
            self._note_started()
        else:
            self._started_until_us = 0
        outbox = self.outbox
        for session in outbox:
            if session.waits_if_idle:
                session.waits_if_idle = False
                if session.pledges is None and not self._deferred_until_us:
                    session.pledges = []
            if session.pledges is not None or session.sealed is not None:
                self._gathering.append(session)
            elif (
                coalesce
                and session.worker is None
                and not session.prompt
                and session.out_bytes < COALESCED_BYTES_MAX
            ):
                self._coalesced.append(session)
            else:
                self._flush(session)
        outbox.clear()
        if self._batch is None:
            if scheduler.store_trouble:
                if self._retry_due:
                    self._retry_due = False
                    self._commit()
            elif len(scheduler.ledger):
                if (self._gathering and not self._waits_for_group()) or self._lingered():
                    self._commit()
            else:
                self._linger_until_us = 0
                self._release_all()
        if scheduler.graph.inquiries.waiting:
            self._ask_for_parents()
        for session in self._gathering:
            much = len(session.out) > HELD_MESSAGES_MAX or session.out_bytes > HELD_BYTES_MAX
            if much and session.link is not None:
                session.link.pause()

    @property
    def has_coalesced(self) -> bool:
        """Output is kept back until `flush_coalesced`."""
        return len(self._coalesced) > 0

    def flush_coalesced(self) -> None:
        """Send the output that was kept back."""
        self._gather_coalesced()
        for session in self._coalesced:
            self._flush(session)
        self._coalesced.clear()

    def _gather_coalesced(self) -> None:
        """A session with a pledge since then waits for the commit; one with much output is sent it now."""
        kept: list[Session] = []
        for session in self._coalesced:
            if session.pledges is not None:
                self._gathering.append(session)
            elif session.out_bytes < COALESCED_BYTES_MAX:
                kept.append(session)
            else:
                self._flush(session)
        self._coalesced = kept

    def _note_deferred(self) -> None:
        """Flush the ledger's deferred notes: at once in an idle hall, otherwise after LINGER_US. Most of those
        jobs have ended by then, and need no row of their own.
        """
        now_us = self.scheduler.now_us
        shared = len(self._answered) > 1 and now_us < self._commit_us + LINGER_US
        if not self._deferred_until_us and (self._batch is not None or shared):
            self._deferred_until_us = now_us + LINGER_US
        if now_us >= self._deferred_until_us or self.scheduler.closing:
            self._deferred_until_us = 0
            self._flushed = True
            self.scheduler.ledger.flush_deferred()

    def _note_started(self) -> None:
        """Store that a job was started only if it takes longer than most do."""
        now_us = self.scheduler.now_us
        if not self._started_until_us:
            self._started_until_us = now_us + STARTED_US
        elif now_us >= self._started_until_us:
            self._started_until_us = 0
            self.scheduler.ledger.note_started()

    def _lingered(self) -> bool:
        """Whether changes that no peer waits for are due to be committed."""
        scheduler = self.scheduler
        if scheduler.closing or self._flushed or len(scheduler.ledger) >= LINGER_CHANGES_MAX:
            return True
        if not self._linger_until_us:
            self._linger_until_us = scheduler.now_us + LINGER_US
        return scheduler.now_us >= self._linger_until_us

    def _waits_for_group(self) -> bool:
        """Group commit: whether to wait for more of the sessions that shared the last two commits.

        Peers that wait for each answer would otherwise have the disk synced for a few of them at a time. A
        single session, or a large batch, does not wait.
        """
        scheduler = self.scheduler
        return (
            len(self._gathering) < self._group_size
            and scheduler.now_us < self._group_until_us
            and len(scheduler.ledger) < GROUP_COMMIT_CHANGES_MAX
            and not scheduler.closing
        )

    def _count_group(self, answered: list[Session]) -> None:
        self._commits += 1
        group = len(answered)
        for session in answered:
            session.answered_by = self._commits
        for session in self._answered:
            group += session.answered_by != self._commits
        self._answered = answered
        self._group_size = group
        self._group_until_us = self.scheduler.now_us + GROUP_COMMIT_US

    @property
    def busy(self) -> bool:
        """Something is still on its way to the store, or held back until it is there."""
        ledger = self.scheduler.ledger
        return self._batch is not None or len(ledger) > 0 or ledger.has_deferred or len(self._gathering) > 0

    @property
    def asking(self) -> bool:
        """Parents are still to be looked up in the history, or to be asked for."""
        return len(self._asked) > 0 or self.scheduler.graph.inquiries.waiting

    @property
    def changes_under_way(self) -> int:
        """How many changes the transaction under way holds."""
        batch = self._batch
        return len(batch.inserts) + len(batch.updates) + len(batch.ends) if batch is not None else 0

    def next_deadline(self) -> int:
        """When to start a turn even if nothing arrives; 0: never, as things stand."""
        next_us = self.scheduler.next_deadline()
        if self._retry_us and (not next_us or self._retry_us < next_us):
            next_us = self._retry_us
        if self._deferred_until_us and (not next_us or self._deferred_until_us < next_us):
            next_us = self._deferred_until_us
        if self._started_until_us and (not next_us or self._started_until_us < next_us):
            next_us = self._started_until_us
        asking_later = self._ask_us > self.scheduler.now_us and self.scheduler.graph.inquiries.waiting
        if asking_later and (not next_us or self._ask_us < next_us):
            next_us = self._ask_us
        group_us = self._group_until_us
        waiting = self._gathering and self._batch is None and group_us > self.scheduler.now_us
        if waiting and (not next_us or group_us < next_us):
            next_us = group_us
        if self._linger_until_us and (not next_us or self._linger_until_us < next_us):
            next_us = self._linger_until_us
        return next_us

    def committed(self) -> None:
        """Inside a turn: the transaction under way is on disk."""
        batch = self._batch
        invariant(batch is not None, "a commit that returns was under way")
        assert batch is not None
        self._batch = None
        self._retry_pause_us = RETRY_FIRST_US
        self.scheduler.committed(batch)
        for session in self._sealed:
            sealed = session.sealed
            session.sealed = None
            session.sealed_pledges = None
            if sealed is not None and session.link is not None:
                session.link.write(sealed)
                session.link.resume()
                if session.closing and not session.out:
                    session.link.close()
        self._count_group(self._sealed)
        self._sealed = []
        self._flush_unpledged()

    def failed(self, trouble: str) -> None:
        """Inside a turn: nothing of the transaction under way is on disk. Try again after a while."""
        batch = self._batch
        invariant(batch is not None, "a commit that fails was under way")
        assert batch is not None
        self._batch = None
        self._answer_is_void = len(self._asked) > 0
        scheduler = self.scheduler
        withdrawn = scheduler.withdraw(batch, trouble)
        refusal = Refusal(STORE_DOWN, trouble)
        for session in self._sealed:
            self._unseal(session)
        self._sealed = []
        for session in self._gathering:
            self._recall(session, withdrawn, refusal)
        for session in self._coalesced:
            self._recall(session, withdrawn, refusal)
        for session in self.outbox:
            self._recall(session, withdrawn, refusal)
        scheduler.submissions.drop_withdrawn(withdrawn)
        self._flush_unpledged()
        self._retry_us = scheduler.now_us + self._retry_pause_us
        self._retry_pause_us = min(self._retry_pause_us * 2, RETRY_MAX_US)

    def probe(self) -> None:
        """Inside a turn: try the store, although there may be nothing to commit."""
        if self._batch is None and not self.scheduler.store_trouble:
            self._commit()

    def _commit(self) -> None:
        batch = self.scheduler.seal()
        self._batch = batch
        self._commit_us = self.scheduler.now_us
        self._flushed = False
        self._linger_until_us = 0
        for session in self._gathering:
            session.sealed = session.out
            session.sealed_pledges = session.pledges
            session.out = []
            session.out_bytes = 0
            session.pledges = None
        self._sealed = self._gathering
        self._gathering = []
        self._writer.write(batch, self.scheduler.now_us)

    def _unseal(self, session: Session) -> None:
        """Put what was sealed back before what has gathered since."""
        sealed = session.sealed or []
        pledges = session.sealed_pledges
        session.sealed = None
        session.sealed_pledges = None
        if not session.out:
            self._gathering.append(session)
        if session.pledges is not None:
            for pledge in session.pledges:
                pledge.place += len(sealed)
            pledges = (pledges or []) + session.pledges
        session.out = sealed + session.out
        session.out_bytes += sum([len(message) for message in sealed])
        session.pledges = pledges

    def _recall(self, session: Session, withdrawn: dict[int, Job], refusal: Refusal) -> None:
        """Replace the acknowledgements of jobs that were taken back; what else was pledged goes on waiting."""
        remaining: list[Pledge] = []
        refused: dict[int, int] = {}
        unsaid = 0
        for pledge in session.pledges or ():
            pledge.place -= unsaid
            job = pledge.job
            if job is None or job.id not in withdrawn:
                remaining.append(pledge)
            elif not pledge.ending:
                session.report(REFUSED_SUBMIT, refusal.text, job.queue.name, job.key)
                answer = session.recalled(job, refusal)
                session.out_bytes += len(answer) - len(session.out[pledge.place])
                session.out[pledge.place] = answer
                if pledge.watching:
                    refused[job.id] = refused.get(job.id, 0) + 1
                    self.scheduler.table.unwatch_once(job, session)
            elif refused.get(job.id, 0):
                refused[job.id] -= 1
                unsaid += 1
                session.out_bytes -= len(session.out.pop(pledge.place))
        session.pledges = remaining or None

    def _flush_unpledged(self) -> None:
        """Send what gathered only to keep its order."""
        waiting: list[Session] = []
        for session in self._gathering:
            if session.pledges is None:
                self._release(session)
            else:
                waiting.append(session)
        self._gathering = waiting

    def _release_all(self) -> None:
        """There is nothing to commit: what was pledged is on disk already."""
        for session in self._gathering:
            self._release(session)
        self._gathering = []

    def _release(self, session: Session) -> None:
        self._flush(session)
        if session.link is not None:
            session.link.resume()

    def _flush(self, session: Session) -> None:
        out = session.out
        link = session.link
        session.pledges = None
        if link is not None:
            _send(link, out)
            if session.closing:
                link.close()
        out.clear()
        session.out_bytes = 0


def _send(link: Link, messages: list[bytes]) -> None:
    # Compiled, a call on what may be None is looked up by name; on a Link it is not.
    link.write(messages)
