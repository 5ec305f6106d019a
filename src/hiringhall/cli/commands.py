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
    options_first: bool = False
    """Its options stand before its arguments: what follows may look like options, and is none."""


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

FLOW: Final = Group(
    "flow",
    "Run a file of tasks that need each other as one flow. List, show, cancel and retry flows.",
    RUN,
    (
        Entry(
            "run",
            "flow_run:run",
            "Run the tasks of a file as a flow: each when those that it needs are done.",
            RUN,
        ),
        Entry(
            "list",
            "flow:listing",
            "List the flows, newest first: their state, and how their jobs stand.",
            LOOK,
        ),
        Entry(
            "show",
            "flow:show",
            "Show a flow: its state, what the rest of it waits for, and its graph.",
            LOOK,
        ),
        Entry(
            "cancel",
            "flow:cancel",
            "Cancel a flow: all of its jobs that wait or run. Workers that have one are told to stop.",
            CHANGE,
        ),
        Entry("retry", "flow:retry", "Run what failed of a flow again, and what waits for it.", CHANGE),
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
    Entry(
        "work",
        "work:work",
        "Run the job functions of a module, or shell commands with --shell, until it is stopped.",
        RUN,
    ),
    Entry(
        "run",
        "run:run",
        "Run a command for each argument, like GNU parallel, as jobs of a hall. Without a hall, it opens one.",
        RUN,
        options_first=True,
    ),
    Entry(
        "dev",
        "dev:dev",
        "Start a hall and a worker for a module, and load the code again when it changes.",
        RUN,
    ),
    FLOW,
    Entry("web", "web:web", "Serve the dashboard and the HTTP API of a hall until it is stopped.", RUN),
    Entry("device", "device:device", "Forward messages between WMP workers and managers.", RUN),
    Entry(
        "top",
        "top:top",
        "Watch a hall live: queues, workers, jobs and rates, with keys to sort, pause, drain and cancel.",
        LOOK,
    ),
    Entry(
        "queues",
        "queues:queues",
        "List the queues: how many jobs are ready, running, waiting and failed, and the number of workers.",
        LOOK,
    ),
    Entry(
        "jobs",
        "jobs:jobs",
        "List the live jobs: those that wait or run, oldest first. For ended jobs see hall history.",
        LOOK,
    ),
    Entry(
        "job",
        "job:job",
        "Show everything about a job: why it is not running, its attempts, its output and its result.",
        LOOK,
    ),
    Entry("result", "submit:result", "Print the result of a job; with --wait, when it has ended.", LOOK),
    Entry(
        "workers",
        "workers:workers",
        "List the workers. With --drain, some of them finish what they have and get no more jobs.",
        LOOK,
    ),
    Entry(
        "doors",
        "queues:doors",
        "List the doors of a hall: where it listens, for which dialect, and how many connections are open.",
        LOOK,
    ),
    Entry(
        "halls",
        "halls:halls",
        "List the halls on a database: which one is active, which stand by, and which are gone.",
        LOOK,
    ),
    Entry(
        "history",
        "history:history",
        "Show ended jobs, newest first; with --state failed, the dead letters.",
        LOOK,
    ),
    Entry(
        "submit",
        "submit:submit",
        "Submit a job and print its id; with --wait, its result when it has ended.",
        CHANGE,
    ),
    Entry(
        "cancel",
        "bulk:cancel",
        "Cancel live jobs by their ids, or all that match a filter. A worker that has one is told to stop.",
        CHANGE,
    ),
    Entry(
        "retry",
        "bulk:retry",
        "Run failed jobs (dead letters) again, by their ids, or all that match a filter such as --queue.",
        CHANGE,
    ),
    Entry(
        "pause",
        "queues:pause",
        "Pause queues: no job of them starts. Jobs that run go on. A pause survives a restart.",
        CHANGE,
    ),
    Entry("resume", "queues:resume", "Resume paused queues: their jobs start again.", CHANGE),
    Entry(
        "limit",
        "limit:limit",
        "Show, set or clear the limits of queues: how many jobs run, and how fast they start.",
        CHANGE,
    ),
    Entry(
        "switch-over",
        "halls:switch_over",
        "Make a standby the active hall. Nothing is lost; clients connect again.",
        CHANGE,
    ),
    SCHEDULE,
    Entry(
        "backup",
        "backup:backup",
        "Copy the data folder while the hall runs: jobs, history, schedules and tokens at one moment.",
        DATA,
    ),
    Entry(
        "restore",
        "backup:restore",
        "Make a data folder of a backup. Every file is checked first, and an existing data folder is refused.",
        DATA,
    ),
    Entry(
        "migrate",
        "migrate:migrate",
        "Move a stopped hall from a data folder to PostgreSQL, or back.",
        DATA,
    ),
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
        "gearmand-import",
        "gearmand_queue:gearmand_import",
        "Import the jobs of gearmand's SQLite queue into a running hall, or into a data folder.",
        DATA,
    ),
    Entry(
        "bench",
        "bench:bench",
        "Measure this machine: its disk, and how fast a hall takes and hands out jobs on it.",
        SETTINGS,
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
