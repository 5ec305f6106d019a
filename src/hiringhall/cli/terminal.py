"""A terminal for a program that fills the screen: the alternate screen, single keys, and the size.

Invariant: however the program ends (a key, an error, Ctrl-C, SIGTERM, a hangup) or is stopped with Ctrl-Z, the
terminal is as it was before. A screen is written in one piece, line by line over the old one, so it does not
flicker.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import termios
import tty
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from types import FrameType, TracebackType

ENTER: Final = "\x1b[?1049h\x1b[?25l"
LEAVE: Final = "\x1b[?25h\x1b[?1049l"
HOME: Final = "\x1b[H"
REST_OF_LINE: Final = "\x1b[K"
REST_OF_SCREEN: Final = "\x1b[J"
READ_BYTES: Final = 1024
KEYS: Final = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1b[5~": "page up",
    "\x1b[6~": "page down",
    "\x1b": "escape",
    "\r": "enter",
    "\n": "enter",
    "\t": "tab",
}
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)


class Terminal:
    """The screen and the keyboard, while the block runs."""

    def __enter__(self) -> Self:
        self._input = sys.stdin.fileno()
        self._before = termios.tcgetattr(self._input)
        self._woken, wakes = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(wakes, False)
        self._wakes = wakes
        self._handlers = {number: signal.signal(number, _end) for number in _ENDING}
        self._handlers[signal.SIGWINCH] = signal.signal(signal.SIGWINCH, _ignore)
        self._handlers[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, self._stop)
        # A new size wakes `keys`, which would go on waiting after the signal otherwise.
        self._wakeup = signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        self._take()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._give_back()
        signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        os.close(self._woken)
        os.close(self._wakes)

    def draw(self, lines: list[str]) -> None:
        """Show these lines, the rest of the screen is empty. No line is wider than the screen."""
        shown = "\r\n".join(line + REST_OF_LINE for line in lines)
        sys.stdout.write(HOME + shown + REST_OF_SCREEN)
        sys.stdout.flush()

    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        found = shutil.get_terminal_size((80, 24))
        return found.columns, found.lines

    def keys(self, wait_s: float) -> list[str]:
        """The keys that are pressed within this time; as soon as there is one, or the size changes."""
        ready, _, _ = select.select([self._input, self._woken], [], [], max(0.0, wait_s))
        if self._woken in ready:
            os.read(self._woken, READ_BYTES)
        if self._input not in ready:
            return []
        data = os.read(self._input, READ_BYTES)
        if not data:
            raise EOFError
        return list(_split(data.decode(errors="replace")))

    def _take(self) -> None:
        tty.setcbreak(self._input)
        _command(ENTER)

    def _give_back(self) -> None:
        termios.tcsetattr(self._input, termios.TCSADRAIN, self._before)
        _command(LEAVE)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        """Ctrl-Z: give the terminal back, stop, and take it again when the program goes on."""
        self._give_back()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._stop)
        self._take()


def _command(sequence: str) -> None:
    """Write to the terminal without Python's buffer, which a signal may have interrupted in the middle."""
    with suppress(OSError):  # The terminal is gone.
        os.write(sys.stdout.fileno(), sequence.encode())


def _split(typed: str) -> list[str]:
    """The keys of what was read: names of special ones, others as they are."""
    found: list[str] = []
    while typed:
        sequence = max((each for each in KEYS if typed.startswith(each)), key=len, default="")
        if sequence:
            found.append(KEYS[sequence])
        elif typed[0].isprintable():
            found.append(typed[0])
        typed = typed[len(sequence) or 1 :]
    return found


def _end(number: int, _frame: FrameType | None) -> None:
    """A signal that ends the program unwinds the block first."""
    raise SystemExit(128 + number)


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """The signal has done its work by waking whoever waits."""
