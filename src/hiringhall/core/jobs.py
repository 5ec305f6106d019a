"""What is asked for (`JobSpec`), what exists (`Job`), and one attempt at it (`Lease`).

The law: a job is in exactly one state, moves only along `MOVES`, and its end is written once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.timers import NEVER, Timed

if TYPE_CHECKING:
    from hiringhall.core.peer import Peer
    from hiringhall.core.queues import Queue
    from hiringhall.core.workers import Worker

HELD: Final = 0
"""Waiting for its parents."""
DELAYED: Final = 1
"""Due later, or backing off after a failure."""
QUEUED: Final = 2
"""Ready for the next worker."""
LEASED: Final = 3
"""With a worker."""
DONE: Final = 4
FAILED: Final = 5
"""A dead letter when the job is durable: kept with its reason, and can be retried."""
CANCELLED: Final = 6

STATE_NAMES: Final = ("held", "delayed", "queued", "leased", "done", "failed", "cancelled")

MOVES: Final = (
    (HELD, (DELAYED, QUEUED, FAILED, CANCELLED)),
    (DELAYED, (HELD, QUEUED, LEASED, CANCELLED)),
    (QUEUED, (HELD, LEASED, CANCELLED)),
    (LEASED, (QUEUED, DELAYED, DONE, FAILED, CANCELLED)),
    (DONE, ()),
    (FAILED, (QUEUED,)),
    (CANCELLED, ()),
)
"""Every legal move of a job. A new job starts in HELD, DELAYED or QUEUED."""

HIGH: Final = 0
NORMAL: Final = 1
LOW: Final = 2
PRIORITIES: Final = 3

SUCCESS: Final = 0
FAILURE: Final = 1
"""The code of a failure whose worker gave none."""
TIMED_OUT: Final = 124
"""The code of a job that ran longer than it may."""
LOST: Final = 125
"""The code of a job that lost too many workers."""
PARENT_FAILED: Final = 126
WITHDRAWN: Final = 127
"""The code of a job that was taken back before it was acknowledged."""
GIVEN_BACK: Final = 0
"""The code of an attempt whose worker gave the job back."""
CALLED_OFF: Final = 130
"""The code of a job that was cancelled, that nobody waits for any more, or that no worker took in time."""
QUIT_TOO_OFTEN: Final = 122
"""The code of a job that too many hired workers quit after they had begun."""
CUT_SHORT: Final = 123
"""The code of an attempt that ended with the hall, or because another worker reported first."""

FAIL_WITH_PARENT: Final = 0
RUN_ANYWAY: Final = 1
HOLD: Final = 2

ParentRef = int | tuple[bytes, bytes]
"""A parent by id, or by (queue, key)."""

Try = tuple[int, int, bytes, int]
"""An attempt that did not end its job: when it started and ended (0: nobody saw it), its worker, its code."""
TRIES_KEPT: Final = 16
"""The latest attempts that are remembered of one job; all of them are counted."""

PROVIDER: Final = "provider"
"""Marks a provider's job, among its extras: its key is the name that its provider gave it, for itself only."""

QUITS: Final = "quits"
"""How many hired workers quit a job after they had begun, among its extras; counted where there is a bound."""


def is_named(key: bytes, extras: dict[str, bytes] | None) -> bool:
    """Whether a job with this key and these extras is found by its queue and key."""
    return len(key) > 0 and (extras is None or PROVIDER not in extras)


Shape = tuple[int, int]
"""The skill that jobs need, and the time in us that they take."""
PLAIN: Final[Shape] = (0, 0)
"""The shape of jobs that say neither; their terms have none."""


class Terms:
    """What holds for a whole kind of jobs; one object is shared by all jobs submitted alike."""

    __slots__ = (
        "backoff_max_us",
        "backoff_us",
        "detached",
        "durable",
        "expire_us",
        "failures_max",
        "key_is_work",
        "lease_us",
        "logged",
        "losses_max",
        "on_parent_failure",
        "priority",
        "quits_max",
        "run_us",
        "shape",
        "skill",
        "takes_us",
    )

    def __init__(
        self,
        *,
        priority: int = NORMAL,
        durable: bool = False,
        detached: bool = False,
        failures_max: int = 0,
        backoff_us: int = 1_000_000,
        backoff_max_us: int = 3_600_000_000,
        losses_max: int = 3,
        lease_us: int = 0,
        run_us: int = 0,
        on_parent_failure: int = FAIL_WITH_PARENT,
        expire_us: int = 0,
        logged: bool = False,
        skill: int = 0,
        takes_us: int = 0,
        quits_max: int = 0,
        key_is_work: bool = False,
    ) -> None:
        self.priority = priority
        self.durable = durable
        """It is on disk before it is acknowledged, and its end goes to the history."""
        self.detached = detached
        """It lives on when nobody watches it."""
        self.failures_max = failures_max
        """Failures reported by workers that are followed by another attempt."""
        self.backoff_us = backoff_us
        """The wait before the first retry; it doubles with each."""
        self.backoff_max_us = backoff_max_us
        self.losses_max = losses_max
        """Workers that may be lost while they hold the job; at this count it has failed. 0: no bound."""
        self.lease_us = lease_us
        """Silence after which its worker counts as lost; 0: only a closed connection does."""
        self.run_us = run_us
        """Time after which an attempt has failed, signs of life or not; 0: none."""
        self.on_parent_failure = on_parent_failure
        self.expire_us = expire_us
        """A ready job that no worker takes for so long is cancelled; 0: it waits for ever."""
        self.logged = logged
        """Its end goes to the history even if it is not durable."""
        self.skill = skill
        """Only workers with at least this skill in its queue are given it; 0: any."""
        self.takes_us = takes_us
        """How long it is expected to take: only workers with so much time left are given it; 0: unknown."""
        self.quits_max = quits_max
        """Hired workers that may quit after they have begun; at this count it has failed. 0: no bound."""
        self.key_is_work = key_is_work
        """Its workers are given its key. The payload is read by its own dialect only."""
        self.shape: Shape | None = (skill, _rounded_up(takes_us)) if skill or takes_us else None
        """Jobs of one shape fit the same workers; None: they fit all."""

    def as_tuple(
        self,
    ) -> tuple[int, bool, bool, int, int, int, int, int, int, int, int, bool, int, int, int, bool]:
        """All fields in the order of `__init__`, for comparing and for storing."""
        return (
            self.priority,
            self.durable,
            self.detached,
            self.failures_max,
            self.backoff_us,
            self.backoff_max_us,
            self.losses_max,
            self.lease_us,
            self.run_us,
            self.on_parent_failure,
            self.expire_us,
            self.logged,
            self.skill,
            self.takes_us,
            self.quits_max,
            self.key_is_work,
        )


def _rounded_up(takes_us: int) -> int:
    """To whole seconds, and to a sixteenth of longer times, so that jobs of about one length share a shape. Up:
    who has that long left can finish all of them.
    """
    seconds = -(-takes_us // 1_000_000)
    step = 1 << max(seconds.bit_length() - 5, 0)
    return -(-seconds // step) * step * 1_000_000


DEFAULT_TERMS: Final = Terms()


class JobSpec:
    """A job as somebody asks for it."""

    __slots__ = ("due_us", "extras", "key", "parents", "payload", "queue", "terms")

    def __init__(
        self,
        queue: bytes,
        payload: bytes,
        key: bytes = b"",
        terms: Terms = DEFAULT_TERMS,
        due_us: int = 0,
        parents: tuple[ParentRef, ...] = (),
        extras: dict[str, bytes] | None = None,
    ) -> None:
        self.queue = queue
        self.payload = payload
        self.key = key
        """Empty: no key, the job is never joined."""
        self.terms = terms
        self.due_us = due_us
        """Not before this time; 0: at once."""
        self.parents = parents
        self.extras = extras
        """What a dialect wants kept with the job and shown to its worker; the core knows some names in it."""

    @property
    def work(self) -> bytes:
        """What its worker is given."""
        return self.key if self.terms.key_is_work else self.payload


class Job(Timed):
    """A job that exists. Its timer is set while it is DELAYED, and stays set if it is HELD after that; while
    it is QUEUED its timer is for `expire_us`.
    """

    __slots__ = (
        "attempts",
        "before",
        "children",
        "code",
        "created_us",
        "denominator",
        "ended_us",
        "extras",
        "failures",
        "id",
        "in_lane",
        "key",
        "lease",
        "logged",
        "losses",
        "numerator",
        "parents",
        "payload",
        "queue",
        "ready_us",
        "result",
        "started_us",
        "state",
        "stored",
        "terms",
        "tries",
        "watchers",
        "worker_name",
    )

    def __init__(
        self, job_id: int, queue: Queue, key: bytes, payload: bytes, terms: Terms, created_us: int
    ) -> None:
        super().__init__()
        self.id = job_id
        """Boot epoch and count: grows with time, never used twice. Older is smaller."""
        self.queue = queue
        self.key = key
        self.payload = payload
        self.terms = terms
        self.before: Terms | None = None
        """Its terms before another submit made it durable, until it is on disk."""
        self.state = QUEUED
        self.created_us = created_us
        self.ready_us = 0
        """When the last of its parents was met; 0: it never waited for any."""
        self.started_us = 0
        """Start of the latest attempt; 0: never started."""
        self.ended_us = 0
        self.attempts = 0
        self.failures = 0
        self.losses = 0
        self.numerator = 0
        self.denominator = 0
        self.code = SUCCESS
        self.result = b""
        """The outcome's bytes: the result, what the failure said, or why it was cancelled."""
        self.worker_name = b""
        """Who had the latest attempt."""
        self.stored = False
        """The store's table of live jobs has it."""
        self.logged = False
        """The history has its end."""
        self.in_lane = False
        """Its queue's lane has an entry of it: a ghost, unless it is QUEUED."""
        self.lease: Lease | None = None
        """Set exactly while LEASED."""
        self.watchers: list[Peer] | None = None
        """Who hears of it, in the order in which they came; each has it in `watching`."""
        self.parents: dict[ParentRef, Job | None] | None = None
        """Parents not yet met: by id once they are known, else as they were named. None unless HELD."""
        self.children: dict[int, Job] | None = None
        """Live jobs that have this one in `parents`."""
        self.extras: dict[str, bytes] | None = None
        self.tries: list[Try] | None = None
        """Attempts before the latest, oldest first."""

    @property
    def ended(self) -> bool:
        return self.state >= DONE

    @property
    def work(self) -> bytes:
        """What its worker is given."""
        return self.key if self.terms.key_is_work else self.payload

    @property
    def named(self) -> bool:
        """It is found by its queue and key. The key of a provider's job is for its provider only."""
        return is_named(self.key, self.extras)


class Lease(Timed):
    """One attempt: this job, to this worker. Its timer is set while silence or run time can end it."""

    __slots__ = ("expected_us", "job", "number", "run_until_us", "started_us", "worker")

    def __init__(self, number: int, job: Job, worker: Worker, started_us: int, run_until_us: int) -> None:
        super().__init__()
        self.number = number
        """Grows with each lease of this boot."""
        self.job = job
        self.worker = worker
        self.started_us = started_us
        self.run_until_us = run_until_us
        """The attempt has failed at this time; 0: never."""
        self.expected_us = NEVER
        """When its worker expects to be done; 0: it has not said."""
