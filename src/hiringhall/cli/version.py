"""`hall version`."""

from __future__ import annotations

import json
import platform
import sys
from typing import Annotated, Final

import typer

from hiringhall import __version__

VERSION: Final = f"hiringhall {__version__}\n"


def version(
    as_json: Annotated[bool, typer.Option("--json", help="Print it as one line of JSON.")] = False,
) -> int:
    """Print the version."""
    facts = {"version": __version__, "python": platform.python_version()}
    sys.stdout.write(json.dumps(facts) + "\n" if as_json else VERSION)
    sys.stdout.flush()
    return 0
