"""Every setting of the hall, with its type, default, bounds and description.

This is the only place where a setting is described: the file, the environment, the flags, error messages,
`hall config` and the tables in docs/configuration.md are all derived from it. A dialect's own settings are a
subclass of `DoorSettings`, which the composition root registers.
"""

import string
from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import Meta, field

from hiringhall.config.needs import QueueSettings, WorkerSettings
from hiringhall.config.quantities import Address, Age, Size, SizeOrZero, Words
from hiringhall.config.schedules import ScheduleSettings
from hiringhall.config.section import Section
from hiringhall.config.web import WebSettings
from hiringhall.core.limits import LIMITED_SHARE, Limits
from hiringhall.storage.contract import RULED_QUEUES_MAX, QueueRetention, Retention

_LIMITS = Limits()
_RETENTION = Retention()

Z85 = frozenset(string.digits + string.ascii_letters + ".-:+=^!/*?&<>()[]{}@%$#")
"""The characters of ZeroMQ's keys."""

Storage = Literal["sqlite", "memory"]
LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["text", "json"]


class HallSettings(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The hall itself."""

    name: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=64,
            description="The name of this hall. Hire doors without an id derive theirs from it.",
        ),
    ] = "hall"
    data: Annotated[
        str,
        Meta(
            min_length=1,
            description="The folder for all durable data, which is created if it is missing; or the URL of a "
            "PostgreSQL database, postgresql://USER:PASSWORD@HOST/DATABASE.",
        ),
    ] = "hall-data"
    folder: Annotated[
        str,
        Meta(
            min_length=1,
            description="If data is a URL, the folder for what belongs to this machine: the Unix socket.",
        ),
    ] = "hall-data"
    storage: Annotated[
        Storage,
        Meta(description="sqlite keeps durable jobs on disk; memory loses everything when the hall stops."),
    ] = "sqlite"
    drain_grace_s: Annotated[
        float,
        Meta(
            ge=0,
            le=86_400,
            description="On SIGTERM, how long running jobs may continue before they are released.",
        ),
    ] = 30.0
    log_level: Annotated[LogLevel, Meta(description="The lowest level of messages written to stderr.")] = "info"
    log_format: Annotated[LogFormat, Meta(description="The format of the log: lines of text, or of JSON.")] = (
        "text"
    )
    buffer_bytes_max: Annotated[
        Size,
        Meta(description="Incomplete input and unsent output of all peers. Above it, the largest are closed."),
    ] = Size(256 << 20)
    slow_commit_s: Annotated[
        float,
        Meta(ge=0, le=3600, description="A commit that takes longer than this is logged."),
    ] = 1.0


class LimitsSettings(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of the whole hall."""

    jobs_max: Annotated[int, Meta(ge=1, description="Live jobs in the hall. Further submits are refused.")] = (
        _LIMITS.jobs_max
    )
    queues_max: Annotated[int, Meta(ge=1, description="Queues at the same time.")] = _LIMITS.queues_max
    queue_name_bytes_max: Annotated[Size, Meta(description="Length of the name of a queue.")] = Size(
        _LIMITS.queue_name_bytes_max
    )
    key_bytes_max: Annotated[
        Size, Meta(description="Length of the key of a job, and of the name of a dwork location.")
    ] = Size(_LIMITS.key_bytes_max)
    payload_bytes_max: Annotated[
        Size, Meta(description="Size of a job's payload, of a chunk of data, and of a result.")
    ] = Size(_LIMITS.payload_bytes_max)
    parents_max: Annotated[int, Meta(ge=1, description="Parents of one job.")] = _LIMITS.parents_max
    graph_walk_max: Annotated[
        int, Meta(ge=1, description="Jobs visited when a new dependency is checked for a cycle.")
    ] = _LIMITS.graph_walk_max
    watchers_max: Annotated[int, Meta(ge=1, description="Clients that wait for one job.")] = (
        _LIMITS.watchers_max
    )
    abilities_max: Annotated[int, Meta(ge=1, description="Queues that one worker serves.")] = (
        _LIMITS.abilities_max
    )
    residents_max: Annotated[
        int, Meta(ge=1, description="Workers known by name, such as dwork's locations.")
    ] = _LIMITS.residents_max
    ended_max: Annotated[
        int, Meta(ge=1, description="Ended jobs kept in memory so that they can be found and retried.")
    ] = _LIMITS.ended_max
    ended_bytes_max: Annotated[
        Size, Meta(description="Payload bytes of failed jobs kept in memory for a retry.")
    ] = Size(_LIMITS.ended_bytes_max)
    flows_max: Annotated[
        int, Meta(ge=1, description="Flows kept after their end, with their counts; the oldest are dropped.")
    ] = _LIMITS.flows_max
    wake_us: Annotated[
        int, Meta(ge=1, description="A woken worker that does not ask for a job in this time is skipped.")
    ] = _LIMITS.wake_us
    reserve_after_us: Annotated[
        int,
        Meta(ge=0, description="A job that fits no worker for so long has one reserved for it (resources)."),
    ] = _LIMITS.reserve_after_us

    def limits(self) -> Limits:
        return Limits(**{name: int(getattr(self, name)) for name in self.__struct_fields__})


class QueueHistorySettings(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Retention rules for the history of one queue, separate from all others."""

    name: Annotated[str, Meta(min_length=1, description="The queue (function) with its own rules.")]
    age: Annotated[Age | None, Meta(description="Its age. Default: as in [history].")] = None
    dead_age: Annotated[Age | None, Meta(description="Its dead_age. Default: as in [history].")] = None
    rows_max: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="Maximum number of its lines. Default: as in [history]."),
    ] = None
    bytes_max: Annotated[
        Size | None,
        Meta(description="Maximum size of its results, payloads, keys and output. Default: as in [history]."),
    ] = None


class HistorySettings(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long ended durable jobs are kept on disk."""

    age: Annotated[Age, Meta(description="How long a done or cancelled job stays in the history.")] = Age(
        _RETENTION.age_us
    )
    dead_age: Annotated[
        Age, Meta(description="How long a failed job, a dead letter, stays in the history.")
    ] = Age(_RETENTION.dead_age_us)
    rows_max: Annotated[
        int, Meta(ge=1, description="Maximum number of history lines. The oldest are dropped first.")
    ] = _RETENTION.rows_max
    result_bytes_max: Annotated[
        Size, Meta(description="A longer result is truncated in the history. The client gets all of it.")
    ] = Size(_RETENTION.result_bytes_max)
    payload_bytes_max: Annotated[
        SizeOrZero,
        Meta(description="A longer payload is truncated in the history, unless the job failed."),
    ] = SizeOrZero(_RETENTION.payload_bytes_max)
    output_bytes_max: Annotated[
        SizeOrZero,
        Meta(description="How much data, warnings and log lines of one job are kept, the latest."),
    ] = SizeOrZero(_RETENTION.output_bytes_max)
    bytes_max: Annotated[
        Size, Meta(description="Size of the data file. Above it, the oldest lines of any queue are dropped.")
    ] = Size(_RETENTION.bytes_max)
    queue: Annotated[
        tuple[QueueHistorySettings, ...], Meta(description="Queues with retention rules of their own.")
    ] = ()

    def faults(self) -> Iterator[tuple[str, str]]:
        seen: dict[str, int] = {}
        if len(self.queue) > RULED_QUEUES_MAX:
            yield "queue", f"at most {RULED_QUEUES_MAX} queues can have rules of their own"
        for index, queue in enumerate(self.queue):
            if queue.name in seen:
                yield f"queue[{index}].name", f'"{queue.name}" is used by history.queue[{seen[queue.name]}]'
            seen.setdefault(queue.name, index)

    def retention(self) -> Retention:
        return Retention(
            int(self.age),
            int(self.dead_age),
            self.rows_max,
            int(self.result_bytes_max),
            int(self.payload_bytes_max),
            int(self.output_bytes_max),
            int(self.bytes_max),
            {queue.name.encode(): self._apart(queue) for queue in self.queue},
        )

    def _apart(self, queue: QueueHistorySettings) -> QueueRetention:
        return QueueRetention(
            int(queue.age or self.age),
            int(queue.dead_age or self.dead_age),
            int(queue.rows_max or self.rows_max),
            int(queue.bytes_max or self.bytes_max),
        )


class TlsSettings(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Encryption, and which clients may connect."""

    certificate: Annotated[str, Meta(min_length=1, description="The hall's certificate chain, a PEM file.")]
    key: Annotated[str, Meta(min_length=1, description="The certificate's private key, a PEM file.")]
    ca: Annotated[str, Meta(description="The authorities that sign the clients' certificates, a PEM file.")] = (
        ""
    )
    verify_client: Annotated[
        bool, Meta(description="Accept only clients with a certificate signed by one of `ca`.")
    ] = True
    handshake_s: Annotated[
        float,
        Meta(ge=0.1, le=3600, description="How long a handshake may take; then the connection is closed."),
    ] = 10.0

    def faults(self) -> Iterator[tuple[str, str]]:
        if self.verify_client and not self.ca:
            yield "ca", "is required to verify clients; give a PEM file, or set verify_client = false"


class DoorSettings(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings that all doors have. Subclasses add a dialect's own settings."""

    dialect: Annotated[str, Meta(description="The protocol spoken at this door.")]
    address: Annotated[Address, Meta(description="Where to listen; port 0 lets the system choose.")]
    insecure: Annotated[
        bool,
        Meta(description="Accept other machines without verification: anyone who reaches the door may use it."),
    ] = False
    log: Annotated[
        Literal["durable", "all"],
        Meta(description="Which jobs of this door go to the history when they end: only durable ones, or all."),
    ] = "durable"

    @property
    def addresses(self) -> tuple[Address, ...]:
        """All addresses that the door listens on."""
        return (self.address,)

    @property
    def queues(self) -> tuple[tuple[str, str], ...]:
        """The queues in its settings: (setting, queue)."""
        return ()

    @property
    def verified(self) -> bool:
        """Whether only verified peers can connect."""
        return False

    @property
    def encryption(self) -> str:
        """The kind of encryption; empty: none."""
        return ""

    def faults(self) -> Iterator[tuple[str, str]]:
        exposed = [address for address in self.addresses if not address.is_loopback]
        if exposed and not self.verified and not self.insecure:
            remedy = (
                f"{self.remedy}, listen on 127.0.0.1 or [::1], "
                "or set insecure = true if anyone who reaches it may use it"
            )
            yield "address", f"{exposed[0]} can be reached from other machines: {remedy}"

    @property
    def remedy(self) -> str:
        """How to make the door safe for other machines."""
        return "protect the door"


class TcpDoorSettings(DoorSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A door whose peers connect by TCP."""

    connections_max: Annotated[
        int, Meta(ge=1, description="Connections at the same time. Further ones are refused.")
    ] = 100_000
    backlog: Annotated[
        int, Meta(ge=1, le=65_535, description="Connections that the system holds until they are accepted.")
    ] = 4096
    output_soft_bytes: Annotated[
        Size, Meta(description="With more unsent output, the hall stops reading from the connection.")
    ] = Size(1 << 20)
    output_hard_bytes: Annotated[
        Size, Meta(description="With more unsent output, the connection is closed.")
    ] = Size(256 << 20)
    keepalive: Annotated[bool, Meta(description="Detect dead peers with TCP keepalive.")] = True
    keepalive_idle_s: Annotated[int, Meta(ge=1, le=32_767, description="Silence before the first probe.")] = 60
    keepalive_interval_s: Annotated[int, Meta(ge=1, le=32_767, description="Time between probes.")] = 10
    keepalive_count: Annotated[
        int, Meta(ge=1, le=127, description="Unanswered probes after which the connection is closed.")
    ] = 6
    tls: Annotated[TlsSettings | None, Meta(description="Encryption. Without this table there is none.")] = None

    def faults(self) -> Iterator[tuple[str, str]]:
        if self.output_hard_bytes < self.output_soft_bytes:
            yield (
                "output_hard_bytes",
                f"must be at least output_soft_bytes, which is {int(self.output_soft_bytes)}",
            )
        yield from super().faults()

    @property
    def verified(self) -> bool:
        return self.tls is not None and self.tls.verify_client

    @property
    def encryption(self) -> str:
        return "TLS" if self.tls is not None else ""

    @property
    def remedy(self) -> str:
        return "configure tls with verify_client"


class CurveSettings(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """ZeroMQ's encryption, and which clients may connect."""

    certificate: Annotated[
        str, Meta(min_length=1, description="The hall's key pair, a .key_secret file in the format of pyzmq.")
    ]
    clients: Annotated[
        Words, Meta(description="The public keys of the clients that may connect, 40 characters each.")
    ] = Words()

    def faults(self) -> Iterator[tuple[str, str]]:
        if not self.clients:
            yield "clients", "is required: without the public key of a client nobody can connect"
        for key in self.clients:
            if len(key) != 40 or not Z85.issuperset(key):
                yield "clients", f'"{key}" is not a public key of 40 characters in Z85'


class ZmqDoorSettings(DoorSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A door whose peers connect by ZeroMQ."""

    peers_max: Annotated[
        int, Meta(ge=1, description="Peers at the same time. If none can be forgotten, new ones are ignored.")
    ] = 100_000
    idle_s: Annotated[
        float, Meta(ge=1, le=31_536_000, description="Silence after which an idle peer is forgotten.")
    ] = 600.0
    message_bytes_max: Annotated[
        Size, Meta(description="Size of one frame. A peer that sends a longer one is disconnected.")
    ] = Size(65 << 20)
    receive_messages_max: Annotated[
        int,
        Meta(ge=1, le=1_000_000, description="Messages of one connection that are taken in one turn."),
    ] = 200
    unsent_bytes_max: Annotated[
        Size, Meta(description="Unsent messages to one connection. Above this size it is closed.")
    ] = Size(64 << 20)
    stall_s: Annotated[
        float,
        Meta(ge=0.1, le=3600, description="A connection whose peer reads nothing for this long is closed."),
    ] = 10.0
    backlog: Annotated[
        int, Meta(ge=1, le=65_535, description="Connections that the system holds until they are accepted.")
    ] = 4096
    handshake_s: Annotated[
        float, Meta(ge=0.1, le=3600, description="How long the ZeroMQ handshake may take.")
    ] = 10.0
    heartbeat_s: Annotated[
        float,
        Meta(
            ge=0.1,
            le=600,
            description="Time between probes. A connection is closed after three times this without an answer.",
        ),
    ] = 10.0
    takeover: Annotated[
        bool, Meta(description="Let a peer take over an identity that another connection still uses.")
    ] = False
    curve: Annotated[
        CurveSettings | None, Meta(description="Encryption. Without this table there is none.")
    ] = None

    @property
    def verified(self) -> bool:
        return self.curve is not None

    @property
    def encryption(self) -> str:
        return "CURVE" if self.curve is not None else ""

    @property
    def remedy(self) -> str:
        return "configure curve with the public keys of the clients"


class Config(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings."""

    hall: HallSettings
    limits: LimitsSettings
    history: HistorySettings
    door: tuple[DoorSettings, ...]
    web: WebSettings = WebSettings(enabled=False)
    schedule: tuple[ScheduleSettings, ...] = ()
    queue: tuple[QueueSettings, ...] = ()
    worker: tuple[WorkerSettings, ...] = ()
    origins: dict[str, str] = field(default_factory=dict)
    """The file, variable or flag of each setting that was set, by its key; others have their defaults."""

    def faults(self) -> Iterator[tuple[str, str]]:
        yield from self._door_faults()
        yield from self._schedule_faults()
        yield from self._queue_faults()

    def _queue_faults(self) -> Iterator[tuple[str, str]]:
        seen: dict[str, int] = {}
        longest = int(self.limits.queue_name_bytes_max)
        if len(self.queue) > self.limits.queues_max:
            yield "queue", f"at most {self.limits.queues_max} queues are allowed (limits.queues_max)"
        ruled_max = max(self.limits.queues_max // LIMITED_SHARE, 1)
        if sum(not queue.rules.empty for queue in self.queue) > ruled_max:
            yield "queue", f"at most {ruled_max} queues can have limits, a tenth of limits.queues_max"
        for index, queue in enumerate(self.queue):
            if queue.name in seen:
                yield f"queue[{index}].name", f'"{queue.name}" is used by queue[{seen[queue.name]}]'
            seen.setdefault(queue.name, index)
            if len(queue.name.encode()) > longest:
                text = f"at most {longest} bytes are allowed (limits.queue_name_bytes_max)"
                yield f"queue[{index}].name", f'"{queue.name[:40]}..." is too long: {text}'

    def _schedule_faults(self) -> Iterator[tuple[str, str]]:
        seen: dict[str, int] = {}
        limits = self.limits.limits()
        for index, schedule in enumerate(self.schedule):
            if schedule.name in seen:
                yield (
                    f"schedule[{index}].name",
                    f'"{schedule.name}" is used by schedule[{seen[schedule.name]}]',
                )
            seen.setdefault(schedule.name, index)
            for setting, problem in schedule.plan().excesses(limits):
                yield f"schedule[{index}].{setting}", problem

    def _door_faults(self) -> Iterator[tuple[str, str]]:
        seen: dict[str, int] = {}
        longest = int(self.limits.queue_name_bytes_max)
        for index, door in enumerate(self.door):
            for address in door.addresses:
                if address in seen and (address.port or address.path):
                    yield f"door[{index}].address", f"{address} is used by door[{seen[address]}]"
                seen.setdefault(address, index)
            for setting, queue in door.queues:
                if len(queue.encode()) > longest:
                    text = f"at most {longest} bytes are allowed (limits.queue_name_bytes_max)"
                    yield f"door[{index}].{setting}", f'"{queue[:40]}..." is too long: {text}'
