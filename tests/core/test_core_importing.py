"""Any module of the compiled packages may be the first that a program imports.

Compiled, a module whose types are not there yet does not raise: it takes the process down.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).parents[2] / "src" / "hiringhall"
MODULES: Final = sorted(
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    for folder in ("core", "dialects", "engine")
    for path in (PACKAGE / folder).rglob("*.py")
)

# One process loads what others wrote, and nothing of ours; each of its children imports one module of ours.
PROGRAM: Final = """
import asyncio, dataclasses, json, logging, os, sys, traceback, zoneinfo, cronsim, msgspec, mypy_extensions

ended = {}
for module in sys.argv[1:]:
    child = os.fork()
    if not child:
        try:
            __import__(module)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    ended[module] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert not any(name.startswith("hiringhall") for name in sys.modules)
print(json.dumps(ended))
"""


def ends(*modules: str) -> tuple[dict[str, int], str]:
    """The exit code after each import, negative for a signal; and what was written to stderr."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *modules], check=True, capture_output=True, text=True, timeout=100
    )
    found: dict[str, int] = json.loads(done.stdout)
    return found, done.stderr


def test_each_can_come_first() -> None:
    assert len(MODULES) > 100
    found, errors = ends(*MODULES)
    assert found == dict.fromkeys(MODULES, 0), errors


def test_an_import_that_fails_or_ends_the_process_is_found() -> None:
    found, errors = ends("hiringhall.no_such_module", "hiringhall.core.jobs")
    assert found == {"hiringhall.no_such_module": 1, "hiringhall.core.jobs": 0}
    assert "No module named 'hiringhall.no_such_module'" in errors
