"""gearmand's command line, parsed as gearmand 1.1.20 does.

Short options may be combined and may include their value (`-dp4731`); long ones take `--name value` or
`--name=value` and cannot be abbreviated; none may be given twice. A configuration file has the same syntax; the
command line overrides it.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

DEFAULT_CONFIG_FILE: Final = "/etc/gearmand.conf"
LEVELS: Final = ("FATAL", "ALERT", "CRITICAL", "ERROR", "WARNING", "NOTICE", "INFO", "DEBUG")


_NUMBER_MAX: Final = (1 << 32) - 1
"""The largest number that gearmand accepts, positive or negative."""


class UsageError(Exception):
    """The command line is not valid."""


class Option(NamedTuple):
    """One option of the command line."""

    name: str
    short: str = ""
    default: str = ""
    takes: str = "flag"
    """flag, text, or number."""
    least: int = 0
    about: str = ""
    most: int = (1 << 31) - 1
    repeats: bool = False
    idle: str = ""
    """Why it has no effect, for a warning; empty: it has one."""


_OTHER_QUEUE: Final = "this kind of queue is not supported"

GROUPS: Final[tuple[tuple[str, tuple[Option, ...]], ...]] = (
    (
        "General options",
        (
            Option("backlog", "b", "32", "number", 1, "Connections held until they are accepted."),
            Option("daemon", "d", about="Detach and run in the background."),
            Option("exceptions", about="Forward exceptions to clients that did not ask for them."),
            Option("file-descriptors", "f", "", "number", 1, "Limit of open files; by default the system's."),
            Option("help", "h", about="Print this help."),
            Option(
                "job-retries",
                "j",
                "0",
                "number",
                -_NUMBER_MAX,
                "A job fails after this many lost workers; 0: no limit. Only its lowest byte is used.",
                _NUMBER_MAX,
            ),
            Option(
                "job-handle-prefix", "", "", "text", about="Prefix of job handles; H:<host name> by default."
            ),
            Option("hashtable-buckets", "", "991", "number", 1, "Accepted.", idle="tables grow by themselves"),
            Option("keepalive", about="TCP keepalive; it is always on."),
            Option(
                "keepalive-idle", "", "-1", "number", -1, "Seconds of silence before the first probe.", 32_767
            ),
            Option("keepalive-interval", "", "-1", "number", -1, "Seconds between probes.", 32_767),
            Option("keepalive-count", "", "-1", "number", -1, "Unanswered probes until a peer is lost.", 127),
            Option("log-file", "l", "/var/log/gearmand.log", "text", about="Log file, or stderr, or none."),
            Option("log-format", "", "text", "text", about="text or json; gearmand does not have it."),
            Option("listen", "L", "", "text", about="Address to listen on; loopback by default."),
            Option("pid-file", "P", "/var/gearmand.pid", "text", about="File to write the process id to."),
            Option("protocol", "r", "", "text", about="An additional protocol; none is supported."),
            Option("round-robin", "R", about="Take jobs of a worker's functions in rotation."),
            Option("queue-type", "q", "builtin", "text", about="builtin (memory) or libsqlite3."),
            Option(
                "config-file", "", DEFAULT_CONFIG_FILE, "text", about="A file with more options; also @file."
            ),
            Option("syslog", about="Log to syslog."),
            Option("coredump", about="Write a core dump after a crash."),
            Option("threads", "t", "4", "number", 0, "Accepted.", idle="one thread serves every connection"),
            Option("user", "u", "", "text", about="Switch to this user after the start."),
            Option(
                "verbose",
                "",
                "ERROR",
                "text",
                about="FATAL, ALERT, CRITICAL, ERROR, WARNING, NOTICE, INFO or DEBUG.",
            ),
            Option("v", "v", about="More messages; repeat for more.", repeats=True),
            Option("version", "V", about="Print the version."),
            Option("worker-wakeup", "w", "0", "number", 0, "Accepted; one worker is woken for one job."),
            Option("check-args", about="Check the options and stop."),
        ),
    ),
    ("HTTP", (Option("http-port", "", "8080", "text", about="Accepted.", idle="there is no HTTP door here"),)),
    (
        "Gear",
        (
            Option("port", "p", "4730", "text", about="Port to listen on."),
            Option("ssl", about="Accept only TLS connections."),
            Option(
                "ssl-ca-file",
                "",
                "/etc/ssl/certs/gearmand-ca.pem",
                "text",
                about="The CA of the clients' certificates.",
            ),
            Option(
                "ssl-certificate", "", "/etc/ssl/certs/gearmand.pem", "text", about="The server's certificate."
            ),
            Option("ssl-key", "", "/etc/ssl/certs/gearmand.key", "text", about="The certificate's key."),
        ),
    ),
    (
        "libsqlite3",
        (
            Option("libsqlite3-db", "", "", "text", about="Jobs are stored in <this>.hall next to it."),
            Option(
                "store-queue-on-shutdown",
                about="Accepted.",
                idle="jobs are stored before they are acknowledged",
            ),
            Option(
                "libsqlite3-table",
                "",
                "gearman_queue",
                "text",
                about="Accepted.",
                idle="the table names are fixed",
            ),
        ),
    ),
    (
        "Queues that are not supported",
        tuple(
            Option(name, "", "", "text", about="Accepted.", idle=_OTHER_QUEUE)
            for name in (
                "libmemcached-servers",
                "libmemcached-prefix",
                "libpq-conninfo",
                "libpq-table",
                "redis-server",
                "redis-port",
                "redis-password",
                "redis-prefix",
                "mysql-host",
                "mysql-port",
                "mysql-user",
                "mysql-password",
                "mysql-db",
                "mysql-table",
                "libdrizzle-host",
                "libdrizzle-port",
                "libdrizzle-uds",
                "libdrizzle-user",
                "libdrizzle-password",
                "libdrizzle-db",
                "libdrizzle-table",
                "libtokyocabinet-file",
            )
        ),
    ),
)

OPTIONS: Final = {option.name: option for _, options in GROUPS for option in options}
_SHORT: Final = {option.short: option for option in OPTIONS.values() if option.short}


class Arguments:
    """The given options, in order."""

    def __init__(self) -> None:
        self.given: dict[str, list[str]] = {}
        """Values by long name; a flag has an empty text for each time it was given."""
        self.notes: list[str] = []
        """Warnings for the operator."""

    def has(self, name: str) -> bool:
        return name in self.given

    def text(self, name: str) -> str:
        return self.given[name][-1] if name in self.given else OPTIONS[name].default

    def number(self, name: str) -> int:
        return int(self.text(name))


def parse(words: list[str]) -> Arguments:
    """Read a command line and the configuration file it names. Raises UsageError."""
    arguments = _read(words, _unrecognised)
    path = Path(arguments.text("config-file"))
    try:
        written = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        if arguments.has("config-file"):
            raise UsageError(f"Could not open configuration file {path}: {error}") from None
        written = ""
    for name, values in _read_file(path, written, arguments.notes).given.items():
        arguments.given.setdefault(name, values)
    for name in arguments.given:
        _check(OPTIONS[name], arguments)
    return arguments


def _unrecognised(word: str) -> None:
    raise UsageError(f"unrecognised option '{word}'")


def _read(words: list[str], on_loose_word: Callable[[str], None]) -> Arguments:
    arguments = Arguments()
    rest = list(reversed(words))
    while rest:
        word = rest.pop()
        if word.startswith("@") and len(word) > 1:
            _give(arguments, OPTIONS["config-file"], word[1:])
        elif word.startswith("--") and len(word) > 2:
            _read_long(arguments, word, rest)
        elif word.startswith("-") and len(word) > 1 and word != "--":
            _read_short(arguments, word, rest)
        else:
            on_loose_word(word)
    return arguments


def _read_long(arguments: Arguments, word: str, rest: list[str]) -> None:
    name, equals, value = word[2:].partition("=")
    option = OPTIONS.get(name)
    if option is None or option.name == option.short:
        near = difflib.get_close_matches(name, [known for known in OPTIONS if len(known) > 1], n=1)
        raise UsageError(f"unrecognised option '{word}'" + (f"; did you mean --{near[0]}?" if near else ""))
    if option.takes == "flag":
        if equals:
            raise UsageError(f"option '--{name}' does not take any arguments")
    elif equals:
        if not value:
            raise UsageError(
                f"the argument for option '--{name}' should follow immediately after the equal sign"
            )
    else:
        value = _next(option, rest)
    _give(arguments, option, value)


def _read_short(arguments: Arguments, word: str, rest: list[str]) -> None:
    letters = word[1:]
    while letters:
        option = _SHORT.get(letters[0])
        if option is None:
            raise UsageError(f"unrecognised option '-{letters}'")
        letters = letters[1:]
        if option.takes == "flag":
            _give(arguments, option, "")
        else:
            _give(arguments, option, letters or _next(option, rest))
            return


def _next(option: Option, rest: list[str]) -> str:
    if not rest:
        raise UsageError(f"the required argument for option '--{option.name}' is missing")
    return rest.pop()


def _give(arguments: Arguments, option: Option, value: str) -> None:
    values = arguments.given.setdefault(option.name, [])
    if values and not option.repeats:
        raise UsageError(f"option '--{option.name}' cannot be specified more than once")
    values.append(value)


def _read_file(path: Path, written: str, notes: list[str]) -> Arguments:
    """Words separated by spaces. A # starts a comment; a word that is not an option is ignored with a note."""
    words: list[str] = []
    for line in written.splitlines():
        line_words = line.split()
        comment = next((i for i, word in enumerate(line_words) if word.startswith("#")), len(line_words))
        words += line_words[:comment]
        notes += [
            f"{path}: {word} is in a comment and is ignored, but gearmand would use it"
            for word in line_words[comment:]
            if word.startswith("--") and word[2:].partition("=")[0] in OPTIONS
        ]

    def ignore(word: str) -> None:
        notes.append(f"{path}: {word} is not an option and is ignored; write --name=value")

    try:
        arguments = _read(words, ignore)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
    for name in ("check-args", "config-file"):
        if arguments.has(name):
            raise UsageError(f"{path}: unrecognised option '--{name}'; it belongs on the command line")
    return arguments


def _check(option: Option, arguments: Arguments) -> None:
    """Check what gearmand checks while it parses: numbers are numbers, and the level is known."""
    value = arguments.text(option.name)
    if option.takes == "number":
        digits = value.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal()) or abs(int(value)) > _NUMBER_MAX:
            raise _invalid(option, value)
    if option.name == "hashtable-buckets" and int(value) == 0:
        raise UsageError("hashtable-buckets has to be greater than 0")
    if option.name == "verbose" and value not in LEVELS:
        raise UsageError(f"Invalid value for --verbose supplied; it takes one of {', '.join(LEVELS)}")
    if option.idle:
        arguments.notes.append(f"--{option.name} has no effect: {option.idle}")


def check_ranges(arguments: Arguments) -> None:
    """Refuse numbers that are out of range. Done at the start only: gearmand's --check-args accepts them."""
    for name in arguments.given:
        option = OPTIONS[name]
        if option.takes == "number" and not option.least <= arguments.number(name) <= option.most:
            raise _invalid(option, arguments.text(name))


def _invalid(option: Option, value: str) -> UsageError:
    return UsageError(
        f"the argument ('{value}') for option '--{option.name}' is invalid; "
        f"it takes a whole number from {option.least} to {option.most}"
    )


def usage() -> str:
    """The help text."""
    lines = [
        "hall-gearmand: a hiring hall with gearmand's command line and one Gearman door.",
        "",
        "Allowed options:",
    ]
    for heading, options in GROUPS:
        lines += ["", f"{heading}:"]
        for option in options:
            names = f"-{option.short}" if option.name == option.short else f"--{option.name}"
            if option.short and option.name != option.short:
                names = f"-{option.short} [ {names} ]"
            if option.takes != "flag":
                names += " arg" + (f" (={option.default})" if option.default else "")
            lines.append(
                f"  {names:<38}{option.about}" if len(names) < 37 else f"  {names}\n{'':40}{option.about}"
            )
    return "\n".join(lines)
