"""The text protocol: a command is one line, its answer a line or a table, in the format of gearmand.

Invariant: no name that a peer chose, its own or that of a function, can break a line of a table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.errors import Refusal
from hiringhall.core.limits import SECOND_US
from hiringhall.core.needs import SKILL_MAX, TIME_US_MAX
from hiringhall.core.queues import NO_BOUND
from hiringhall.core.reasons import why
from hiringhall.core.states import STATE_NAMES
from hiringhall.core.terms import HIGH, LOW, NORMAL, PRIORITIES
from hiringhall.dialects.session import BAD_INPUT, Session

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.workers import Worker
    from hiringhall.dialects.gearman.context import GearmanContext

LINE_BYTES_MAX: Final = 65_536
ROWS_MAX: Final = 100_000
"""The limit for the lines of a table of jobs, so that a long table does not block the hall."""
WORDS_MAX: Final = 500_000
"""The limit for the names in the table of workers."""

OK: Final = b"OK\r\n"
DOT: Final = b".\n"
OVERLONG: Final = b"ERR LINE_TOO_LONG A+line+has+at+most+%d+bytes\r\n" % LINE_BYTES_MAX
UNKNOWN_JOB: Final = b"ERR UNKNOWN_JOB\r\n"
UNKNOWN_WORKER: Final = b"ERR UNKNOWN_WORKER\r\n"
UNKNOWN_ERROR: Final = b"ERR UNKNOWN_ERROR\r\n"
UNKNOWN_SHOW: Final = b"ERR UNKNOWN_SHOW_ARGUMENTS\r\n"
IN_USE: Final = b"ERR there are still connected workers or executing clients\r\n"
NO_FUNCTION: Final = b"ERR function not found\r\n"
NO_SHUTDOWN: Final = b"ERR NOT_ALLOWED shutdown+is+disabled+at+this+door\r\n"

NOT_FROM_HERE: Final = b"ERR NOT_ALLOWED %s+is+allowed+only+from+loopback+at+this+door+(admin_from)\r\n"

_PRINTABLE: Final = bytes(byte if byte >= 32 and byte != 127 else ord("?") for byte in range(256))
_WORD_BYTES_MAX: Final = 64
_NUMBER_DIGITS_MAX: Final = 10
_PLACES_MAX: Final = 6
_A_SKILL: Final = b"a+skill+from+0+to+%d" % SKILL_MAX
_A_TIME: Final = b"seconds+from+0+to+%d,+such+as+90+or+0.5" % (TIME_US_MAX // SECOND_US)


class LineReader:
    """Cuts a stream into lines, however it arrives."""

    __slots__ = ("_kept", "_line", "overlong", "partial")

    def __init__(self) -> None:
        self.partial = False
        """Whether a line is incomplete."""
        self.overlong = False
        self._kept = bytearray()
        self._line: bytes | None = None

    def feed(self, data: bytes, at: int) -> int:
        """Read the rest of one line, or all data. Returns where in `data` to continue."""
        cut = data.find(b"\n", at)
        after = len(data) if cut < 0 else cut
        if len(self._kept) + after - at > LINE_BYTES_MAX:
            self.overlong = True
            self._kept = bytearray()
            self.partial = False
            return len(data)
        self._kept += data[at:after]
        self.partial = cut < 0
        if cut < 0:
            return after
        self._line = bytes(self._kept).removesuffix(b"\r")
        self._kept = bytearray()
        return cut + 1

    def take(self) -> bytes | None:
        """The line that `feed` completed; None: there is none. It is returned once."""
        line = self._line
        self._line = None
        return line


def answer(session: Session, context: GearmanContext, line: bytes) -> None:
    """Execute a command, and send its answer."""
    words = line.split(b" ")
    words = words[:1] + [word for word in words[1:] if word]
    command = words[0].lower()
    count = len(words)
    if command == b"status":
        session.send(_status(context))
    elif command == b"prioritystatus":
        session.send(_priority_status(context))
    elif command == b"workers":
        session.send(_workers(context))
    elif command == b"jobs":
        session.send(_jobs(context))
    elif command == b"show" and count >= 2:
        session.send(_show(context, [word.lower() for word in words[1:]]))
    elif command == b"cancel" and count >= 3:
        _cancel(session, context, words)
    elif command == b"maxqueue":
        session.send(_limit(context, words))
    elif command == b"skill":
        session.send(_rate(context, words))
    elif command == b"time-left":
        session.send(_stay(context, words))
    elif command == b"needs":
        session.send(_need(context, words))
    elif command == b"why":
        session.send(_why(context, words))
    elif command == b"outcome":
        _send_outcome(session, context, words)
    elif command in (b"create", b"drop"):
        if count != 3 or words[1].lower() != b"function":
            session.send(_incomplete(command))
        elif command == b"create":
            session.send(_create(context, words[2]))
        else:
            session.send(_drop(context, words[2]))
    elif command == b"getpid":
        session.send(b"OK %d\n" % context.process.pid)
    elif command == b"verbose":
        session.send(b"OK %s\n" % context.process.verbose.encode())
    elif command == b"version":
        session.send(b"OK %s\n" % context.process.version.encode())
    elif command == b"shutdown":
        session.send(_shut_down(session, context, words))
    else:
        session.report(BAD_INPUT, "an unknown text command: " + line.decode("utf-8", "backslashreplace"))
        session.send(
            b"ERR UNKNOWN_COMMAND Unknown+server+command%s\r\n" % _printable(words[0][:_WORD_BYTES_MAX])
        )


def _printable(name: bytes) -> bytes:
    return name.translate(_PRINTABLE)


def _incomplete(command: bytes) -> bytes:
    return b"ERR INVALID_ARGUMENTS An+incomplete+set+of+arguments+was+sent+to+this+command+%s\r\n" % command


def _wrong(command: bytes, takes: bytes) -> bytes:
    """A value is wrong; gearmand has no text for this."""
    return b"ERR INVALID_ARGUMENTS %s+takes+%s\r\n" % (command, takes)


def _status(context: GearmanContext) -> bytes:
    """function, jobs, running jobs, workers."""
    rows: list[bytes] = []
    for name, queue in context.scheduler.queues.items():
        live, leased, workers = queue.counts()
        rows.append(b"%s\t%d\t%d\t%d\n" % (_printable(name), live, leased, workers))
    return b"".join(rows) + DOT


def _priority_status(context: GearmanContext) -> bytes:
    """function, waiting jobs of high, normal and low priority, workers."""
    rows: list[bytes] = []
    for name, queue in context.scheduler.queues.items():
        ready = [queue.parked_of(priority) for priority in range(PRIORITIES)]
        for lanes in queue.all_lanes().values():
            for priority, lane in enumerate(lanes):
                ready[priority] += lane.ready
        row = (_printable(name), ready[HIGH], ready[NORMAL], ready[LOW], len(queue.workers))
        rows.append(b"%s\t%d\t%d\t%d\t%d\n" % row)
    return b"".join(rows) + DOT


def _workers(context: GearmanContext) -> bytes:
    """All sessions of this door, and the workers of other doors: descriptor, address, id, functions."""
    peers: list[tuple[Session, bytes]] = [(session, session.client_id) for session in context.sessions]
    for worker in context.scheduler.workers:
        peer = worker.peer
        if isinstance(peer, Session) and peer not in context.sessions:
            peers.append((peer, worker.name))
    words: list[bytes] = []
    for session, name in peers:
        caller = session.caller
        address = caller.address.encode() or b"-"
        words.append(b"%d %s %s :" % (caller.descriptor, address, _printable(name) or b"-"))
        if session.worker is not None:
            words += [b" " + _printable(queue.name) for queue in session.worker.abilities]
        words.append(b"\n")
        if len(words) > WORDS_MAX:
            break
    return b"".join(words) + DOT


def _show(context: GearmanContext, words: list[bytes]) -> bytes:
    if words == [b"jobs"]:
        return _jobs(context)
    if words == [b"unique", b"jobs"]:
        return _unique_jobs(context)
    return UNKNOWN_SHOW


def _jobs(context: GearmanContext) -> bytes:
    """handle, lost workers, whether it was abandoned by its clients, whether it is durable."""
    rows: list[bytes] = []
    for job in context.scheduler.jobs.values():
        abandoned = job.watchers is None and not job.terms.detached
        row = (context.handle(job.id), job.losses, abandoned, job.terms.durable)
        rows.append(b"%s\t%d\t%d\t%d\n" % row)
        if len(rows) == ROWS_MAX:
            break
    return b"".join(rows) + DOT


def _unique_jobs(context: GearmanContext) -> bytes:
    rows: list[bytes] = []
    for job in context.scheduler.jobs.values():
        if job.key:
            rows.append((b"-" if b"\0" in job.key else _printable(job.key)) + b"\n")
            if len(rows) == ROWS_MAX:
                break
    return b"".join(rows) + DOT


def _cancel(session: Session, context: GearmanContext, words: list[bytes]) -> None:
    if len(words) != 3 or words[1].lower() != b"job":
        session.send(UNKNOWN_ERROR)
        return
    job: Job | None = context.scheduler.jobs.get(context.job_id(words[2]))
    if job is None:
        session.send(UNKNOWN_JOB)
    elif job not in session.watching and not _is_admin(session, context):
        session.send(NOT_FROM_HERE % b"cancel+job")
    else:
        context.scheduler.cancel(job, b"cancelled at the text protocol")
        session.conclude(job, OK)


def _limit(context: GearmanContext, words: list[bytes]) -> bytes:
    """`F`: no limit. `F N`: one for all priorities. `F high normal low`: one for each. 0 is no limit."""
    numbers = words[2:5]
    if len(words) < 2 or len(words) > 5:
        return _incomplete(b"maxqueue")
    maxima = [NO_BOUND] * 3
    for place, text in enumerate(numbers):
        digits = text.removeprefix(b"-")
        if not digits.isdigit() or len(digits) > _NUMBER_DIGITS_MAX:
            return _wrong(b"maxqueue", b"whole+numbers+of+at+most+%d+digits" % _NUMBER_DIGITS_MAX)
        if int(text) > 0:
            maxima[place] = int(text)
    if len(numbers) == 1:
        maxima = maxima[:1] * 3
    try:
        context.scheduler.length_limits.limit(words[1], maxima)
    except Refusal as refusal:
        return _refused(refusal)
    return OK


def _rate(context: GearmanContext, words: list[bytes]) -> bytes:
    """`skill ID F N`: the skill of all workers with this id for a function."""
    if len(words) != 4:
        return _incomplete(b"skill")
    if not words[3].isdigit() or len(words[3]) > _NUMBER_DIGITS_MAX:
        return _wrong(b"skill", _A_SKILL)
    workers = _named(context, words[1])
    try:
        for worker in workers:
            context.scheduler.needs.rate(worker, words[2], int(words[3]))
    except Refusal as refusal:
        return _refused(refusal)
    return OK if workers else UNKNOWN_WORKER


def _stay(context: GearmanContext, words: list[bytes]) -> bytes:
    """`time-left ID S`: all workers with this id stay for S seconds; `none`: for ever."""
    if len(words) != 3:
        return _incomplete(b"time-left")
    left_us = -1
    if words[2].lower() != b"none":
        left_us = _parse_seconds(words[2])
        if not 0 <= left_us <= TIME_US_MAX:
            return _wrong(b"time-left", _A_TIME + b",+or+none")
    workers = _named(context, words[1])
    for worker in workers:
        context.scheduler.needs.stay(worker, left_us)
    return OK if workers else UNKNOWN_WORKER


def _need(context: GearmanContext, words: list[bytes]) -> bytes:
    """`needs F`: its jobs need nothing. `needs F N S`: they need a skill of N, and S seconds."""
    if len(words) not in (2, 4):
        return _incomplete(b"needs")
    skill = takes_us = 0
    if len(words) == 4:
        takes_us = _parse_seconds(words[3])
        if not words[2].isdigit() or len(words[2]) > _NUMBER_DIGITS_MAX or takes_us < 0:
            return _wrong(b"needs", _A_SKILL + b",+and+" + _A_TIME)
        skill = int(words[2])
    try:
        context.scheduler.needs.need(words[1], skill, takes_us)
    except Refusal as refusal:
        return _refused(refusal)
    return OK


def _why(context: GearmanContext, words: list[bytes]) -> bytes:
    """Why a job is not done yet."""
    if len(words) != 2:
        return _incomplete(b"why")
    job = context.scheduler.find(context.job_id(words[1]))
    return b"OK %s\n" % why(context.scheduler, job).encode() if job is not None else UNKNOWN_JOB


def _send_outcome(session: Session, context: GearmanContext, words: list[bytes]) -> None:
    """The state of a job, and its code if it has ended."""
    if len(words) != 2:
        session.send(_incomplete(b"outcome"))
        return
    scheduler = context.scheduler
    job_id = context.job_id(words[1])
    unwritten = scheduler.unwritten(job_id)
    job = unwritten if unwritten is not None else scheduler.find(job_id)
    if unwritten is not None:
        session.conclude(unwritten, _outcome(unwritten))
    elif job is not None:
        session.send(_outcome(job))
    else:
        session.send(b"OK ended\n" if scheduler.issued(job_id) else UNKNOWN_JOB)


def _outcome(job: Job) -> bytes:
    name = STATE_NAMES[job.state].encode()
    return b"OK %s %d\n" % (name, job.code) if job.ended else b"OK %s\n" % name


def _named(context: GearmanContext, name: bytes) -> list[Worker]:
    """The workers with a name, at any door."""
    return [worker for worker in context.scheduler.workers if worker.name == name]


def _parse_seconds(text: bytes) -> int:
    """Microseconds, from seconds with up to six decimal places; -1: it is not such a number."""
    whole, dot, places = text.partition(b".")
    if not whole.isdigit() or len(whole) > _NUMBER_DIGITS_MAX:
        return -1
    if dot and not (places.isdigit() and len(places) <= _PLACES_MAX):
        return -1
    return int(whole) * SECOND_US + int(places.ljust(_PLACES_MAX, b"0"))


def _create(context: GearmanContext, name: bytes) -> bytes:
    try:
        context.scheduler.queue(name)
    except Refusal:
        return b"ERR CREATE_FUNCTION %s\r\n" % _printable(name[:_WORD_BYTES_MAX])
    return OK


def _drop(context: GearmanContext, name: bytes) -> bytes:
    queue = context.scheduler.queues.get(name)
    if queue is None:
        return NO_FUNCTION
    try:
        context.scheduler.length_limits.drop(queue)
    except Refusal:
        return IN_USE
    return OK


def _is_admin(session: Session, context: GearmanContext) -> bool:
    """Whether the peer may stop the hall and cancel the jobs of others."""
    return context.options.admin_anywhere or session.caller.is_loopback


def _shut_down(session: Session, context: GearmanContext, words: list[bytes]) -> bytes:
    graceful = len(words) == 2 and words[1].lower() == b"graceful"
    if len(words) > 1 and not graceful:
        return _incomplete(b"shutdown")
    if not context.options.shutdown_allowed:
        return NO_SHUTDOWN
    if not _is_admin(session, context):
        return NOT_FROM_HERE % b"shutdown"
    context.process.stop(graceful)
    return OK


def _refused(refusal: Refusal) -> bytes:
    return b"ERR %s %s\r\n" % (refusal.reason.upper().encode(), refusal.text.replace(" ", "+").encode())
