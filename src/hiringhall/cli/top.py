"""`hall top`: the hall, live: its queues, its workers and its jobs, with keys to change them."""

from __future__ import annotations

import sys
import time
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from hiringhall.cli.remote import HallFlag, Remote, connected, print_json, refusal
from hiringhall.cli.reporting import WRONG_USE, CommandError
from hiringhall.cli.styling import terminal_colours
from hiringhall.cli.terminal import Terminal
from hiringhall.cli.top_screen import JOBS, QUEUES, VIEWS, WORKERS, Look, Rates, Screen
from hiringhall.cli.wording import now, short
from hiringhall.dialects.native import wire
from hiringhall.sdk.errors import HallRefused, HallUnreachable

if TYPE_CHECKING:
    from collections.abc import Callable

INTERVAL_S: Final = 1.0
QUEUES_MAX: Final = 5000
WORKERS_MAX: Final = 1000
JOBS_MAX: Final = 200
PAGE: Final = 10
NAME_MAX: Final = 30
"""Characters of a name in a message, which has one line."""


def top(
    interval: Annotated[
        float,
        typer.Option("--interval", metavar="SECONDS", min=0.25, max=3600, help="Time between two updates."),
    ] = INTERVAL_S,
    hall: HallFlag = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Ask twice, print the counts and rates as JSON, and end.")
    ] = False,
) -> int:
    """Watch a hall live: queues, workers, jobs and rates, with keys to sort, pause, drain and cancel.

    Keys: h shows them all, q quits. It needs a terminal.
    """
    if not as_json and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CommandError("top needs a terminal; for scripts use hall queues, or --json", WRONG_USE)
    with connected(hall, tell=lambda _: None) as remote:
        remote.connection.patience_s = 0.0  # A hall that is gone is shown, and asked again at the next look.
        if as_json:
            return _print_once(remote, interval)
        screen = Screen(remote.connection.url, terminal_colours())
        screen.update(_look(remote, screen))
        with Terminal() as terminal:
            _Top(remote, screen, terminal, interval).run()
    return 0


def _look(remote: Remote, screen: Screen | None = None) -> Look:
    queues = list(islice(remote.positions(wire.QUEUES), QUEUES_MAX))
    workers = list(islice(remote.positions(wire.WORKERS), WORKERS_MAX))
    jobs: list[dict[str, Any]] = []
    if screen is not None and screen.view == JOBS:
        filters = {} if screen.queue is None else {"queue": screen.queue}
        jobs, _ = remote.ask(wire.JOBS, {**filters, "count": JOBS_MAX})
    return Look(now(), queues, workers, jobs)


def _print_once(remote: Remote, interval_s: float) -> int:
    rates = Rates()
    rates.add(_look(remote))
    time.sleep(interval_s)
    look = _look(remote)
    rates.add(look)
    done_s, failed_s = rates.total()
    names = ("ready", "running", "waiting", "failed")
    document = {
        "queues": len(look.queues),
        "jobs": {name: sum(each[name] for each in look.queues) for name in names},
        "workers": len(look.workers),
        "busy": sum(1 for worker in look.workers if worker["jobs"]),
        "rates": {"done_s": done_s, "failed_s": failed_s},
    }
    print_json([document])
    return 0


class _Top:
    """The loop: look, draw, obey keys."""

    def __init__(self, remote: Remote, screen: Screen, terminal: Terminal, interval_s: float) -> None:
        self._remote = remote
        self._screen = screen
        self._terminal = terminal
        self._interval_s = interval_s
        self._confirmed: Callable[[], None] | None = None
        """What a `y` does."""
        screen_keys = {
            "up": lambda: screen.move(-1),
            "k": lambda: screen.move(-1),
            "down": lambda: screen.move(1),
            "j": lambda: screen.move(1),
            "page up": lambda: screen.move(-PAGE),
            "page down": lambda: screen.move(PAGE),
            "s": screen.sort_next,
        }
        self._keys: dict[str, Callable[[], None]] = {
            **screen_keys,
            "tab": self._next_view,
            "enter": self._enter,
            "escape": self._back,
            "p": lambda: self._change_queue(wire.PAUSE, "is paused"),
            "r": lambda: self._change_queue(wire.RESUME, "is not paused"),
            "d": lambda: self._change_worker(wire.DRAIN, "drains"),
            "u": lambda: self._change_worker(wire.UNDRAIN, "gets jobs again"),
            "c": self._ask_cancel,
        }

    def run(self) -> None:
        """Until `q` is pressed or the terminal is gone."""
        next_s = time.monotonic() + self._interval_s
        while True:
            self._terminal.draw(self._screen.lines(*self._terminal.size()))
            try:
                pressed = self._terminal.keys(next_s - time.monotonic())
            except EOFError:
                return
            for key in pressed:
                if key == "q" and self._confirmed is None:
                    return
                self._press(key)
            if pressed or time.monotonic() >= next_s:
                self._refresh()
                next_s = time.monotonic() + self._interval_s

    def _refresh(self) -> None:
        try:
            self._screen.update(_look(self._remote, self._screen))
        except HallUnreachable:
            self._screen.message = "The hall does not answer; trying again."
        else:
            if self._screen.message.startswith("The hall does not answer"):
                self._screen.message = ""

    def _press(self, key: str) -> None:
        screen = self._screen
        screen.message = ""
        confirmed, self._confirmed, screen.question = self._confirmed, None, ""
        if confirmed is not None:
            if key in {"y", "Y"}:
                confirmed()
        elif key in {"h", "?"}:
            screen.helping = not screen.helping
        elif key in self._keys:
            screen.helping = False
            self._keys[key]()

    def _next_view(self) -> None:
        self._screen.show(VIEWS[(VIEWS.index(self._screen.view) + 1) % len(VIEWS)])

    def _enter(self) -> None:
        chosen = self._screen.chosen()
        if self._screen.view == QUEUES and chosen is not None:
            self._screen.show(JOBS, chosen["name"])

    def _back(self) -> None:
        self._screen.show(QUEUES)

    def _change_queue(self, kind: str, done: str) -> None:
        chosen = self._screen.chosen() if self._screen.view == QUEUES else None
        if chosen is None:
            self._screen.message = "Choose a queue first: Tab shows them."
        else:
            self._ask(kind, (chosen["name"],), f"Queue {short(chosen['name'], NAME_MAX)} {done}.")

    def _change_worker(self, kind: str, done: str) -> None:
        chosen = self._screen.chosen() if self._screen.view == WORKERS else None
        if chosen is None:
            self._screen.message = "Choose a worker first: Tab shows them."
        else:
            self._ask(kind, (chosen["number"],), f"Worker {chosen['number']} {done}.")

    def _ask_cancel(self) -> None:
        chosen = self._screen.chosen() if self._screen.view == JOBS else None
        if chosen is None:
            self._screen.message = "Choose a job first: Enter shows those of a queue."
            return
        number = chosen["id"]
        self._screen.question = f"Cancel job {number} of {short(chosen['queue'], NAME_MAX)}?"
        self._confirmed = lambda: self._ask(wire.CANCEL, (number, b""), f"Job {number} is cancelled.")

    def _ask(self, kind: str, body: tuple[Any, ...], done: str) -> None:
        try:
            self._remote.ask(kind, body)
        except HallRefused as error:
            self._screen.message = short(refusal(error), 200)
        except HallUnreachable:
            self._screen.message = "The hall does not answer; nothing was changed."
        else:
            self._screen.message = done
