"""What a command prints: results to stdout, messages and logs to stderr; and how it ends on an error."""

from __future__ import annotations

import functools
import io
import os
import sys
from typing import TYPE_CHECKING, Final, ParamSpec

from hiringhall.cli.escaping import escaped
from hiringhall.cli.paging import ENCODING_ERRORS
from hiringhall.config.sources import ConfigError
from hiringhall.endpoints import HallError
from hiringhall.storage.contract import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

Parameters = ParamSpec("Parameters")

FAILURE: Final = 1
WRONG_USE: Final = 2
INTERRUPTED: Final = 130


def print_error(text: str) -> None:
    """One line on stderr; a closed stderr is ignored."""
    try:
        print(escaped(text, lines=True), file=sys.stderr, flush=True)
    except OSError:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 (for the rest of the process)


def print_result(text: str) -> None:
    """A result on stdout, whole and at once."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors=ENCODING_ERRORS)
    sys.stdout.write(text)
    sys.stdout.flush()


def guarded(command: Callable[Parameters, int], program: str) -> Callable[Parameters, int]:
    """The same command; what it raises becomes one line on stderr and an exit code."""

    @functools.wraps(command)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> int:
        try:
            code = command(*args, **kwargs)
            sys.stdout.flush()
        except ConfigError as error:
            for problem in error.problems:
                print_error(f"{program}: {problem}")
            return WRONG_USE
        except BrokenPipeError:
            # Otherwise Python would flush again at exit and print its own error.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            print_error(f"{program}: stdout was closed before everything was written")
            return FAILURE
        except (HallError, StoreError, OSError) as error:
            print_error(f"{program}: {error}")
            return FAILURE
        except KeyboardInterrupt:
            return INTERRUPTED
        return code

    return run
