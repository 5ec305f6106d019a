"""The output of one session on its way to its link.

`out` is what the session has said. A commit moves it to `sealed`, and what is said meanwhile gathers in `out`
again. A session's messages keep their order in every case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.states import LEASED
from hiringhall.dialects.session import REFUSED_SUBMIT

if TYPE_CHECKING:
    from hiringhall.core.errors import Refusal
    from hiringhall.core.jobs import Job
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.dialects.session import Link, Pledge, Session


def flush(session: Session) -> None:
    """Send all of `out`."""
    out = session.out
    link = session.link
    session.pledges = None
    if link is not None:
        _send(link, out)
        if session.closing:
            link.close()
    out.clear()
    session.out_bytes = 0
    session.held_since_us = 0


def release(session: Session) -> None:
    """Send all of `out`, and read from the peer again if it was paused."""
    flush(session)
    if session.link is not None:
        session.link.resume()


def drop(session: Session) -> None:
    """Drop what was said, and disconnect the peer. What waits for the commit under way is sent before."""
    session.out.clear()
    session.out_bytes = 0
    session.pledges = None
    session.closing = True
    if session.link is not None and session.sealed is None:
        session.link.close()


def keep_sealed(session: Session) -> None:
    """The commit has returned, but what was said may not be sent now: it waits as `out`, pledged no more."""
    session.sealed_pledges = None
    unseal(session)


def seal(session: Session) -> None:
    """A commit starts: what was said so far is sent when the commit returns."""
    session.sealed = session.out
    session.sealed_pledges = session.pledges
    session.out = []
    session.out_bytes = 0
    session.pledges = None


def send_sealed(session: Session) -> None:
    """The commit has returned."""
    sealed = session.sealed
    session.sealed = None
    session.sealed_pledges = None
    if sealed is not None and session.link is not None:
        session.link.write(sealed)
        session.link.resume()
        if session.closing and not session.out:
            session.link.close()


def unseal(session: Session) -> None:
    """The commit has failed: put what was sealed back in front of what has gathered since."""
    sealed = session.sealed or []
    pledges = session.sealed_pledges
    session.sealed = None
    session.sealed_pledges = None
    if session.pledges is not None:
        for pledge in session.pledges:
            pledge.place += len(sealed)
        pledges = (pledges or []) + session.pledges
    session.out = sealed + session.out
    session.out_bytes += sum([len(message) for message in sealed])
    session.pledges = pledges


def replace_withdrawn(
    session: Session, withdrawn: dict[int, Job], refusal: Refusal, scheduler: Scheduler
) -> None:
    """Replace the acknowledgements of jobs that were withdrawn, also those to their workers. One of several
    jobs is replaced if any of these was. So is the answer to a watch that ends with a refused submit. The other
    pledges stay.
    """
    pledges = session.pledges or []
    places = {pledge.place for pledge in pledges if _acknowledges(pledge, withdrawn)}
    remaining: list[Pledge] = []
    refused: dict[int, int] = {}
    answered_watches: list[tuple[int, Job]] = []
    unwatched: set[int] = set()
    removed = 0
    for pledge in pledges:
        job = pledge.job
        replaced = pledge.place in places
        pledge.place -= removed
        if pledge.watched is not None and not replaced:
            answered_watches.append((pledge.place, pledge.watched))
        if job is None:
            if pledge.watched is None:
                remaining.append(pledge)
        elif pledge.ending and refused.get(job.id, 0):
            refused[job.id] -= 1
            removed += 1
            session.out_bytes -= len(session.out.pop(pledge.place))
        elif replaced:
            if job.id in withdrawn:
                if not pledge.reported:
                    session.report(REFUSED_SUBMIT, refusal.text, job.queue.name, job.key)
                _refuse(session, pledge.place, job, refusal)
            if pledge.watching:
                refused[job.id] = refused.get(job.id, 0) + 1
                if scheduler.watchers.unwatch_once(job, session):
                    unwatched.add(job.id)
                if job.id not in withdrawn and job.state < LEASED and job.abandoned:
                    # It was only in memory, and is refused together with a job that it came with.
                    scheduler.submissions.take_back(job)
        elif not pledge.ending or job.id not in withdrawn:
            remaining.append(pledge)
    for place, watched in answered_watches:
        if watched.id in unwatched:
            _refuse(session, place, watched, refusal)
    session.pledges = remaining or None


def _refuse(session: Session, place: int, job: Job, refusal: Refusal) -> None:
    """Replace the acknowledgement of a job."""
    said = session.out[place]
    answer = session.withdrawn(job, said, refusal)
    session.out_bytes += len(answer) - len(said)
    session.out[place] = answer


def _acknowledges(pledge: Pledge, withdrawn: dict[int, Job]) -> bool:
    """It tells that a job was accepted, or done, that was withdrawn."""
    return pledge.job is not None and not pledge.ending and pledge.job.id in withdrawn


def _send(link: Link, messages: list[bytes]) -> None:
    # Compiled, a call on a value that may be None is looked up by name; on a Link it is not.
    link.write(messages)
