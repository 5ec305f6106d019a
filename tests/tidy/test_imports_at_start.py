"""What a program loads before it does something: a part that is not used is not loaded.

Each module below once took a good part of the time until a command answered, or until a hall was open.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

DRAWING: Final = ("rich.console", "rich.style", "markdown_it", "pygments")
WEB: Final = ("starlette", "uvicorn", "prometheus_client", "hiringhall.web")
DATABASE: Final = ("asyncpg", "hiringhall.storage.postgres", "hiringhall.cluster")
ELSEWHERE: Final = (
    "pydantic",
    "yaml",
    "pyarrow",
    "multiprocessing",
    "unittest",
    "pydoc",
    *DRAWING,
    *WEB,
    *DATABASE,
)
NO_GEARMAN: Final = (
    *(f"hiringhall.doors.{name}" for name in ("beanstalkd", "dwork", "hire", "native", "pingpong", "wmp")),
    *(f"hiringhall.dialects.{name}" for name in ("beanstalkd", "dwork", "hire", "pingpong", "wmp")),
    "hiringhall.dialects.native.session",
    "hiringhall.transports.closing",
    "hiringhall.transports.zmtp",
    "hiringhall.peers",
    "nacl",
    "zmq",
)
"""Other dialects and their transports."""
SERVER: Final = ("hiringhall.server", "hiringhall.core", "hiringhall.engine", "sqlite3", "zmq")
NETWORK: Final = ("asyncio", "uvloop", "ssl", "msgspec")

COMMAND: Final = "from hiringhall.cli.main import app\napp({words!r}, standalone_mode=False)"
SERVE: Final = """
import os, signal
from hiringhall.cli import serve
serve._announce = lambda opened: os.kill(os.getpid(), signal.SIGTERM)
""" + COMMAND.format(words=["serve", "--storage", "memory", "--no-web", "--door", "gearman=127.0.0.1:0"])
"""A hall from its start to its end."""
STARTS: Final = {
    "hall --help": (COMMAND.format(words=["--help"]), (*ELSEWHERE, *SERVER, *NETWORK, "hiringhall.sdk")),
    "hall version": (COMMAND.format(words=["version"]), (*ELSEWHERE, *SERVER, *NETWORK, "hiringhall.sdk")),
    "hall queues": ("import hiringhall.cli.queues", (*ELSEWHERE, *SERVER)),
    "hall serve": (
        SERVE,
        (*ELSEWHERE, *NO_GEARMAN, "importlib.resources", "rich.cells", "tomllib"),
    ),
    "import hiringhall": ("import hiringhall", (*ELSEWHERE, *SERVER, *NETWORK, "typer")),
    "from hiringhall import Hall": ("from hiringhall import Hall", (*ELSEWHERE, *SERVER, "typer")),
    "a process of hall work": ("import hiringhall.worker.child", (*ELSEWHERE, *SERVER, "typer")),
}


@pytest.mark.parametrize("start", STARTS)
def test_a_start_loads_only_what_it_uses(start: str) -> None:
    program, unused = STARTS[start]
    # The end of the program: a command leaves with an exception.
    report = "import atexit, sys\natexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
    ended = subprocess.run(
        [sys.executable, "-c", report + program], capture_output=True, text=True, timeout=60, check=True
    )
    loaded = ended.stderr.split()
    assert "hiringhall" in loaded
    found = [name for name in loaded if any(name == part or name.startswith(f"{part}.") for part in unused)]
    assert not found, f"{start} loads parts that it does not use; import them where they are used"
