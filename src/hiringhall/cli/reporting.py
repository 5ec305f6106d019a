"""What a command prints: results to stdout, messages and logs to stderr; and how it ends on an error."""

from __future__ import annotations

import functools
import io
import json
import os
import re
import sys
from typing import TYPE_CHECKING, Any, Final, ParamSpec

from hiringhall.cli.escaping import escaped
from hiringhall.cli.paging import ENCODING_ERRORS

if TYPE_CHECKING:
    from collections.abc import Callable

Parameters = ParamSpec("Parameters")

FAILURE: Final = 1
WRONG_USE: Final = 2
UNREACHABLE: Final = 2
"""No hall answers. As for wrong use, nothing was changed."""
NOT_ENDED: Final = 3
"""The job that was waited for has not ended in the given time."""
INTERRUPTED: Final = 130
_CONTROLS: Final = re.compile("[\x7f-\x9f]")
"""Control characters that JSON allows in a text, and terminals obey."""


class CommandError(Exception):
    """Why a command cannot go on, in one line for the person who called it, and its exit code."""

    def __init__(self, text: str, code: int = FAILURE) -> None:
        super().__init__(text)
        self.code = code


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


def print_line(text: str) -> None:
    """A result of one line, with control characters escaped: names of files and schedules are in it."""
    print_result(f"{escaped(text)}\n")


def json_line(document: Any) -> str:
    """A document as one line of JSON. Control characters are escaped, and so are bytes of names that are not
    UTF-8, as in the arguments of a program.
    """
    import msgspec  # noqa: PLC0415 (only with --json)

    try:
        line = msgspec.json.encode(document, enc_hook=str).decode()
    except UnicodeEncodeError:
        line = json.dumps(msgspec.to_builtins(document, enc_hook=str), separators=(",", ":"))
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", line) + "\n"


def guarded(
    command: Callable[Parameters, int], program: str, *, quiet_pipe: bool = False
) -> Callable[Parameters, int]:
    """The same command; what it raises becomes one line on stderr and an exit code. With `quiet_pipe` a reader
    that leaves, such as `head`, is no matter to report.
    """

    @functools.wraps(command)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> int:
        try:
            code = command(*args, **kwargs)
            sys.stdout.flush()
        except BrokenPipeError:
            # Otherwise Python would flush again at exit and print its own error.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if not quiet_pipe:
                print_error(f"{program}: stdout was closed before everything was written")
            return FAILURE
        except CommandError as error:
            print_error(f"{program}: {error}")
            return error.code
        except OSError as error:
            print_error(f"{program}: {error}")
            return FAILURE
        except KeyboardInterrupt:
            return INTERRUPTED
        except Exception as error:  # noqa: BLE001 (what is not for people is raised again)
            return _end_on(error, program)
        return code

    return run


def _end_on(error: Exception, program: str) -> int:
    """The exit code for an error of another part; what is not an error for people is raised again."""
    # Imported here: a command that needs none of these parts does not load them.
    from hiringhall.config.sources import ConfigError  # noqa: PLC0415
    from hiringhall.endpoints import HallError  # noqa: PLC0415
    from hiringhall.storage.contract import StoreError  # noqa: PLC0415

    if isinstance(error, ConfigError):
        for problem in error.problems:
            print_error(f"{program}: {problem}")
        return WRONG_USE
    if isinstance(error, HallError | StoreError):
        print_error(f"{program}: {error}")
        return FAILURE
    raise error
