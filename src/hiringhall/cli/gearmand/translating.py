"""Translates gearmand's options to the hall's settings, with a warning for each difference.

Invariant: no option that is relevant for security or durability is ignored. TLS is honoured or refused; a
persistent queue is honoured or refused; an address that other machines can reach is used, with a warning.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from hiringhall.cli.gearmand.options import LEVELS, OPTIONS, Arguments, UsageError, check_ranges
from hiringhall.config.quantities import Address
from hiringhall.config.schema import Config, HallSettings, HistorySettings, LimitsSettings, TlsSettings
from hiringhall.dialects.handles import PREFIX_BYTES_MAX
from hiringhall.doors.gearman import GearmanDoorSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hiringhall.config.schema import LogFormat, LogLevel

_TLS_VARIABLES: Final = {
    "ssl-ca-file": "GEARMAND_CA_CERTIFICATE",
    "ssl-certificate": "GEARMAND_SERVER_PEM",
    "ssl-key": "GEARMAND_SERVER_KEY",
}
_REFUSED_QUEUES: Final = (
    "libmemcached",
    "postgres",
    "redis",
    "mysql",
    "libdrizzle",
    "libtokyocabinet",
    "libpq",
)
_RETRIES_MASK: Final = 0xFF
"""gearmand uses only the lowest byte of --job-retries: -1 is 255, and 256 is 0, no limit."""
_LOOPBACK: Final = ("127.0.0.1", "::1")
_OWN: Final = GearmanDoorSettings()
_KEEPALIVE: Final = {
    "keepalive-idle": _OWN.keepalive_idle_s,
    "keepalive-interval": _OWN.keepalive_interval_s,
    "keepalive-count": _OWN.keepalive_count,
}
_LEVEL_NUMBERS: Final = {
    "FATAL": logging.CRITICAL,
    "ALERT": logging.CRITICAL,
    "CRITICAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARNING": logging.WARNING,
    "NOTICE": logging.INFO,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
}

_LEVEL_WORDS: Final[Mapping[int, LogLevel]] = {
    logging.CRITICAL: "error",
    logging.ERROR: "error",
    logging.WARNING: "warning",
    logging.INFO: "info",
    logging.DEBUG: "debug",
}


_LOG_FORMATS: Final[Mapping[str, LogFormat]] = {"text": "text", "json": "json"}


class Plan(NamedTuple):
    """The settings of the hall, and of its process."""

    config: Config
    log_file: str
    syslog: bool
    log_level: int
    pid_file: Path
    pid_file_required: bool
    daemon: bool
    user: str
    descriptors: int
    """0: as many as the system allows."""
    coredump: bool
    notes: list[str]
    """One line for each difference from what was asked for."""


def plan(arguments: Arguments, environ: Mapping[str, str]) -> Plan:
    """The plan for these arguments. Raises UsageError for an option that cannot be honoured."""
    notes = list(arguments.notes)
    check_ranges(arguments)
    _note_retries(arguments, notes)
    _note_protocol(arguments, notes)
    if arguments.has("worker-wakeup") and arguments.number("worker-wakeup") != 1:
        notes.append("--worker-wakeup has no effect: one worker is woken for one job")
    level = _log_level(arguments)
    log_format = _log_format(arguments)
    hall = msgspec.structs.replace(
        _storage(arguments, notes), log_level=_LEVEL_WORDS[level], log_format=log_format
    )
    config = Config(
        hall=hall,
        limits=LimitsSettings(),
        history=HistorySettings(),
        door=_doors(arguments, environ, hall.storage == "sqlite", notes),
    )
    log_file = arguments.text("log-file")
    return Plan(
        config=config,
        log_file=log_file if log_file in ("stderr", "none") else str(Path(log_file).absolute()),
        syslog=arguments.has("syslog"),
        log_level=level,
        pid_file=Path(arguments.text("pid-file")).absolute(),
        pid_file_required=arguments.has("pid-file"),
        daemon=arguments.has("daemon"),
        user=arguments.text("user"),
        descriptors=int(arguments.text("file-descriptors") or 0),
        coredump=arguments.has("coredump"),
        notes=notes,
    )


def _note_protocol(arguments: Arguments, notes: list[str]) -> None:
    protocol = arguments.text("protocol")
    if protocol == "http":
        notes.append("--protocol=http has no effect: there is no HTTP door, only the Gearman door")
    elif protocol:
        raise UsageError(f"Unknown protocol module : {protocol}")


def _note_retries(arguments: Arguments, notes: list[str]) -> None:
    asked = arguments.number("job-retries")
    taken = asked & _RETRIES_MASK
    if taken != asked:
        meaning = f"{taken} lost workers" if taken else "no limit"
        notes.append(f"--job-retries={asked} means {meaning}: as in gearmand, only its lowest byte is used")


def _log_level(arguments: Arguments) -> int:
    level = _LEVEL_NUMBERS[arguments.text("verbose")]
    louder = len(arguments.given.get("v", ()))
    if louder:
        name = LEVELS[min(LEVELS.index("ERROR") + louder, len(LEVELS) - 1)]
        level = min(level, _LEVEL_NUMBERS[name])
    return level


def _log_format(arguments: Arguments) -> LogFormat:
    log_format = arguments.text("log-format")
    if log_format not in _LOG_FORMATS:
        raise UsageError(f"--log-format: '{log_format}' is not allowed; it takes text or json")
    return _LOG_FORMATS[log_format]


def _storage(arguments: Arguments, notes: list[str]) -> HallSettings:
    """The settings of the hall. SIGTERM stops at once, as in gearmand; SIGUSR1 waits for running jobs."""
    kind = arguments.text("queue-type")
    if kind.lower() == "builtin":
        return HallSettings(name="hall-gearmand", storage="memory", drain_grace_s=0)
    if kind.lower() == "libsqlite3":
        if not arguments.text("libsqlite3-db"):
            raise UsageError("--queue-type=libsqlite3 needs --libsqlite3-db: jobs are stored next to that file")
        database = Path(arguments.text("libsqlite3-db")).absolute()
        _refuse_leftovers(database, arguments.text("libsqlite3-table"))
        folder = f"{database}.hall"
        notes.append(f"--libsqlite3-db: the jobs are stored in the folder {folder}")
        return HallSettings(name="hall-gearmand", storage="sqlite", data=folder, drain_grace_s=0)
    if kind.lower() in _REFUSED_QUEUES:
        raise UsageError(
            f"--queue-type={kind} is not supported: the jobs would not be stored where you expect them. "
            "Use libsqlite3 (durable) or builtin (memory)"
        )
    raise UsageError(f"Error while initializing the queue : {kind}; it takes builtin or libsqlite3")


def _refuse_leftovers(database: Path, table: str) -> None:
    """Refuse to start if gearmand's file still has jobs: they would never be run."""
    if not database.is_file():
        return
    quoted = '"' + table.replace('"', '""') + '"'
    try:
        with contextlib.closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
            (count,) = connection.execute(f"SELECT count(*) FROM {quoted}").fetchone()  # noqa: S608 (quoted above)
    except sqlite3.Error:
        return
    if count:
        raise UsageError(
            f"{database} still has {count} jobs of gearmand, which hall-gearmand cannot read: "
            "let gearmand run them first, or move the file away; "
            "`hall gearmand-import` takes them over from there"
        )


def _doors(
    arguments: Arguments, environ: Mapping[str, str], durable: bool, notes: list[str]
) -> tuple[GearmanDoorSettings, ...]:
    tls = _tls(arguments, environ)
    if len(arguments.text("job-handle-prefix")) > PREFIX_BYTES_MAX:
        raise UsageError(f"--job-handle-prefix: at most {PREFIX_BYTES_MAX} characters are allowed")
    door = GearmanDoorSettings(
        tls=tls,
        background="durable" if durable else "memory",
        losses_max=arguments.number("job-retries") & _RETRIES_MASK,
        # Clients with a certificate signed by the CA are trusted.
        admin_from="loopback" if tls is None else "anywhere",
        timeout_unit="ms",
        timeout_min_s=1.0,
        on_timeout="requeue",
        exceptions=arguments.has("exceptions"),
        round_robin=arguments.has("round-robin"),
        handle_prefix=arguments.text("job-handle-prefix") or f"H:{socket.gethostname()}"[:PREFIX_BYTES_MAX],
        backlog=min(arguments.number("backlog"), 65_535),
        keepalive_idle_s=_keepalive(arguments, "keepalive-idle"),
        keepalive_interval_s=_keepalive(arguments, "keepalive-interval"),
        keepalive_count=_keepalive(arguments, "keepalive-count"),
    )
    port = _port(arguments, environ)
    addresses = _addresses(arguments.text("listen"), port, notes)
    exposed = [address for address in addresses if not address.is_loopback]
    if exposed and tls is None:
        notes.append(
            f"{', '.join(exposed)}: open to other machines without TLS; "
            "anyone who can connect can submit and take jobs"
        )
    doors = tuple(
        msgspec.structs.replace(door, address=address, insecure=not address.is_loopback)
        for address in addresses
    )
    for key, problem in doors[0].faults():
        raise UsageError(f"{key.replace('handle_prefix', '--job-handle-prefix')}: {problem}")
    return doors


def _keepalive(arguments: Arguments, name: str) -> int:
    """The given value; with 0 or -1, the hall's default."""
    return arguments.number(name) if arguments.number(name) > 0 else _KEEPALIVE[name]


def _port(arguments: Arguments, environ: Mapping[str, str]) -> int:
    written = arguments.text("port")
    if written == OPTIONS["port"].default:
        written = environ.get("GEARMAND_PORT") or written
    if written.isascii() and written.isdecimal() and int(written) <= 65_535:
        return int(written)
    try:
        return socket.getservbyname(written, "tcp")
    except (OSError, ValueError):
        raise UsageError(
            f"--port: '{written}' is neither a port number up to 65535 nor a known service"
        ) from None


def _addresses(host: str, port: int, notes: list[str]) -> list[Address]:
    """All addresses of the host name; loopback if none is given."""
    if not host:
        notes.append("listening on loopback only; -L 0.0.0.0 opens the port to other machines")
        return [Address.of(host, port) for host in _LOOPBACK if _is_ours(host)][: 1 if port == 0 else None]
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"--listen: {host} cannot be resolved: {reason}") from None
    hosts = dict.fromkeys(str(entry[4][0]) for entry in sorted(found, key=lambda entry: entry[0]))
    return [Address.of(host, port) for host in hosts][: 1 if port == 0 else None]


def _is_ours(host: str) -> bool:
    """Whether this machine has this address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((host, 0))
    except OSError:
        return False
    return True


def _tls(arguments: Arguments, environ: Mapping[str, str]) -> TlsSettings | None:
    """The given certificate and key; clients need a certificate signed by the CA file."""
    if not arguments.has("ssl"):
        for name in _TLS_VARIABLES:
            if arguments.has(name):
                raise UsageError(f"--{name} needs --ssl: add --ssl, or remove --{name} to serve without TLS")
        return None
    files = {name: environ.get(variable) or arguments.text(name) for name, variable in _TLS_VARIABLES.items()}
    for name, path in files.items():
        if not Path(path).is_file():
            raise UsageError(f"--ssl: {path} does not exist; give the file with --{name}")
    return TlsSettings(
        certificate=str(Path(files["ssl-certificate"]).absolute()),
        key=str(Path(files["ssl-key"]).absolute()),
        ca=str(Path(files["ssl-ca-file"]).absolute()),
        verify_client=True,
    )
