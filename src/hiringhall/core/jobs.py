"""Jobs: what is asked for (`JobSpec`) and what exists (`Job`).

Invariant: a job is in exactly one state, moves only along `MOVES`, and its end is recorded once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from hiringhall.core.states import DONE, NEW, QUEUED, SUCCESS
from hiringhall.core.terms import DEFAULT_TERMS
from hiringhall.core.timers import Timed

if TYPE_CHECKING:
    from hiringhall.core.flows.flows import Flow
    from hiringhall.core.id_blocks import IdBlock
    from hiringhall.core.leases import Lease
    from hiringhall.core.peer import Peer
    from hiringhall.core.queues import Queue
    from hiringhall.core.rules.spacing import Spacing
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.core.terms import Terms

ParentRef = int | tuple[bytes, bytes]
"""A parent by id, or by (queue, key)."""

Try = tuple[int, int, bytes, int, str]
"""An attempt that did not end its job: its start, its end (0: unknown), its worker, its code, and the dialect
of its worker (empty: unknown)."""
TRIES_KEPT: Final = 16
"""The latest attempts that are kept with a job; all of them are counted."""

PROVIDER: Final = "provider"
"""The extra that marks a provider's job: its key is a name for its provider only."""

QUITS: Final = "quits"
"""The extra that counts hired workers that quit after they had begun; kept where there is a limit."""

OUTPUT: Final = "output"
"""The extra that marks a job whose workers have said something that is kept."""

RESOURCES: Final = "resources"
"""The extra with the text of what a job needs of the resources of its worker."""

RESULT_CUT: Final = "result_cut"
"""The extra that marks a done job whose result is longer than the history keeps."""


def is_named(key: bytes, extras: dict[str, bytes] | None) -> bool:
    """Whether a job with this key and these extras can be found by its queue and key."""
    return len(key) > 0 and (extras is None or PROVIDER not in extras)


# Compiled, the memory of the latest one is used again, and the garbage collector has nothing to look at.
@mypyc_attr(free_list_len=1, acyclic=True)
class JobSpec:
    """A job as a client asks for it."""

    __slots__ = ("due_us", "extras", "flow", "key", "parents", "payload", "queue", "spacing", "terms")

    def __init__(
        self,
        queue: bytes,
        payload: bytes,
        key: bytes = b"",
        terms: Terms = DEFAULT_TERMS,
        due_us: int = 0,
        parents: tuple[ParentRef, ...] = (),
        extras: dict[str, bytes] | None = None,
        flow: bytes = b"",
        spacing: Spacing | None = None,
    ) -> None:
        self.queue = queue
        self.payload = payload
        self.key = key
        """Submits with the same queue and key join one live job; empty: never joined."""
        self.terms = terms
        self.due_us = due_us
        """Not before this time; 0: at once."""
        self.parents = parents
        self.extras = extras
        """Named values that a dialect keeps with the job; the core uses some names itself."""
        self.flow = flow
        """The name of the flow that it belongs to; empty: none."""
        self.spacing = spacing
        """Debounce or throttle by its key; None: neither."""

    @property
    def work(self) -> bytes:
        """The bytes that its worker receives."""
        return self.key if self.terms.key_is_work else self.payload


class Job(Timed):
    """A job that exists. Its timer is its due time while it is DELAYED, and stays set if it becomes HELD; while
    it is QUEUED its timer is its expiry.
    """

    __slots__ = (
        "all_parents",
        "attempts",
        "behind",
        "children",
        "code",
        "created_us",
        "denominator",
        "dialect",
        "ended_us",
        "extras",
        "failures",
        "flow",
        "id",
        "id_block",
        "in_lane",
        "key",
        "lease",
        "logged",
        "losses",
        "numerator",
        "parents",
        "payload",
        "queue",
        "queued_us",
        "ready_us",
        "result",
        "started_us",
        "state",
        "stored",
        "terms",
        "terms_before",
        "tries",
        "watchers",
        "worker_name",
    )

    def __init__(
        self,
        job_id: int,
        queue: Queue,
        key: bytes,
        payload: bytes,
        terms: Terms,
        created_us: int,
        state: int = NEW,
    ) -> None:
        super().__init__()
        self.id = job_id
        """See `ids`: grows with time, never used twice."""
        self.queue = queue
        self.key = key
        self.payload = payload
        self.terms = terms
        self.terms_before: Terms | None = None
        """Its terms before a joined submit made it durable; until it is on disk."""
        self.state = state
        """Changed by `move` only."""
        self.created_us = created_us
        self.ready_us = 0
        """When its last parent was met; 0: it had none."""
        self.queued_us = 0
        """When it was last ready for a worker, or will be, if it is DELAYED; 0: it was never ready."""
        self.started_us = 0
        """Start of the latest attempt; 0: none."""
        self.ended_us = 0
        self.attempts = 0
        self.failures = 0
        self.losses = 0
        self.numerator = 0
        self.denominator = 0
        self.code = SUCCESS
        self.result = b""
        """The result, the text of the failure, or the reason of the cancellation."""
        self.worker_name = b""
        """The worker of the latest attempt."""
        self.dialect = ""
        """The dialect of that worker; empty: unknown."""
        self.stored = False
        """It is in the store's table of live jobs."""
        self.logged = False
        """Its end is in the history."""
        self.in_lane = False
        """It is in its lane: as a ghost, unless it is QUEUED."""
        self.behind: Job | None = None
        """The job behind it in its lane."""
        self.id_block: IdBlock | None = None
        """Where it is counted while it is live; see `IdBlocks`."""
        self.lease: Lease | None = None
        """Set exactly while LEASED."""
        self.watchers: list[Peer] | None = None
        """Peers that are told of it, in the order in which they came; each has it in `watching`."""
        self.parents: dict[ParentRef, Job | None] | None = None
        """Unmet parents: by id if known, otherwise as they were named. None unless HELD."""
        self.children: dict[int, Job] | None = None
        """Live jobs that have this one in `parents`."""
        self.extras: dict[str, bytes] | None = None
        self.tries: list[Try] | None = None
        """Attempts before the latest, oldest first."""
        self.flow: Flow | None = None
        """The flow that it belongs to; its name stays with the job after its end."""
        self.all_parents: tuple[ParentRef, ...] = ()
        """If it belongs to a flow: every parent that it was given, met or not, as it was named."""

    def ring(self, scheduler: Scheduler) -> None:
        scheduler.job_due(self)

    @property
    def counts_down(self) -> bool:
        return self.state == QUEUED

    @property
    def ended(self) -> bool:
        return self.state >= DONE

    @property
    def abandoned(self) -> bool:
        """No peer watches it, and it does not live on without a watcher."""
        return self.watchers is None and not self.terms.detached

    @property
    def work(self) -> bytes:
        """The bytes that its worker receives."""
        return self.key if self.terms.key_is_work else self.payload

    @property
    def named(self) -> bool:
        """It can be found by its queue and key. The key of a provider's job is for its provider only."""
        return is_named(self.key, self.extras)
