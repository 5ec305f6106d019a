"""All commands of `hall`: where each is, its line in the help, and the group of the help in which it stands.

Invariant: this table imports no command, so `hall --help` and the completion of names load none of them. The
summary of a command is the first paragraph of its docstring; a test compares the two.
"""

from __future__ import annotations

from typing import Final, NamedTuple

RUN: Final = "Run"
LOOK: Final = "Look"
CHANGE: Final = "Change"
DATA: Final = "Data"
SETTINGS: Final = "Settings"


class Entry(NamedTuple):
    """A command."""

    name: str
    place: str
    """MODULE:FUNCTION, below `hiringhall.cli`."""
    summary: str
    panel: str = ""


class Group(NamedTuple):
    """A command that has commands."""

    name: str
    summary: str
    panel: str
    entries: tuple[Entry, ...]


SCHEDULE: Final = Group(
    "schedule",
    "Add, list, pause, run and remove schedules: jobs that are submitted at fixed times.",
    DATA,
    (
        Entry("add", "schedule:add", "Add a schedule. A running hall reads it at once."),
        Entry("list", "schedule:show", "List all schedules, with their last and next due times."),
        Entry(
            "remove",
            "schedule:remove",
            "Remove a schedule that was added with hall schedule add. Its jobs stay.",
        ),
        Entry(
            "pause",
            "schedule_control:pause",
            "Pause a schedule, also one of hall.toml. "
            "Due times that pass meanwhile do not fire, also not later.",
        ),
        Entry(
            "resume",
            "schedule_control:resume",
            "Resume a paused schedule: it fires again, from its next due time on.",
        ),
        Entry(
            "run",
            "schedule_control:run",
            "Submit the job of a schedule once now. Its due times stay as they are, and it may be paused.",
        ),
    ),
)

TOKEN: Final = Group(
    "token",
    "Make, list and revoke tokens: who may come in, and what they may do.",
    SETTINGS,
    (
        Entry("add", "token:add", "Make a token and print it. It is shown once; only a digest of it is kept."),
        Entry(
            "list", "token:show", "List the tokens, with their last use. The tokens themselves are not kept."
        ),
        Entry(
            "revoke",
            "token:revoke",
            "Revoke a token. A running hall closes its connections within two seconds.",
        ),
    ),
)

COMMANDS: Final[tuple[Entry | Group, ...]] = (
    Entry("serve", "serve:serve", "Start a hall and serve until it is stopped.", RUN),
    Entry("work", "work:work", "Run the job functions of a module until it is stopped.", RUN),
    Entry(
        "dev",
        "dev:dev",
        "Start a hall and a worker for a module, and load the code again when it changes.",
        RUN,
    ),
    Entry("web", "web:web", "Serve the dashboard and the HTTP API of a hall until it is stopped.", RUN),
    Entry("device", "device:device", "Forward messages between WMP workers and managers.", RUN),
    Entry(
        "history",
        "history:history",
        "Show ended jobs, newest first; with --state failed, the dead letters.",
        LOOK,
    ),
    SCHEDULE,
    Entry(
        "export",
        "transfer:export_jobs",
        "Write the unfinished durable jobs to a file, one JSON object per line.",
        DATA,
    ),
    Entry(
        "import",
        "transfer:import_jobs",
        "Import jobs from a file into a stopped hall, or into a running one with --door.",
        DATA,
    ),
    Entry(
        "check-config",
        "checking:check_config",
        "Check the settings. Opens no door and no data folder.",
        SETTINGS,
    ),
    Entry(
        "config",
        "checking:print_config",
        "Print a complete hall.toml: every setting with its description and default.",
        SETTINGS,
    ),
    TOKEN,
    Entry("version", "version:version", "Print the version.", SETTINGS),
)
