"""The rules find what they are for, and leave the rest alone: a rule that never fires is no rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from session_rules import foreign_notices, session_writes
from tidy_rules import (
    Complaint,
    Source,
    compiled_ways,
    core_order,
    danger,
    docstring,
    length,
    module_name,
    purity,
    set_order,
    sleeping,
    who_imports_what,
    words,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CORE = "src/hiringhall/core/jobs.py"
GEARMAN = "src/hiringhall/dialects/gearman/session.py"

BAD: list[tuple[Callable[[Source], Iterator[Complaint]], str, str]] = [
    (who_imports_what, CORE, "import hiringhall.engine.turn"),
    (who_imports_what, CORE, "from hiringhall.dialects.session import Session"),
    (who_imports_what, CORE, "from hiringhall import dialects"),
    (who_imports_what, CORE, "from . import queues"),
    (who_imports_what, GEARMAN, "from hiringhall.dialects.hire import wire"),
    (who_imports_what, GEARMAN, "from hiringhall.engine.driver import Driver"),
    (who_imports_what, "src/hiringhall/dialects/session.py", "from hiringhall.dialects.gearman import wire"),
    (who_imports_what, "src/hiringhall/peers/gearman/client.py", "from hiringhall.core import jobs"),
    (
        who_imports_what,
        "src/hiringhall/peers/gearman/client.py",
        "from hiringhall.dialects.gearman import door",
    ),
    (who_imports_what, "src/hiringhall/peers/gearman.py", "from hiringhall.dialects.hire import wire"),
    (who_imports_what, "src/hiringhall/peers/gearman.py", "from hiringhall.peers.hire import Worker"),
    (who_imports_what, "src/hiringhall/peers/stream.py", "from hiringhall.peers.gearman import errors"),
    (who_imports_what, "src/hiringhall/storage/memory.py", "from hiringhall.core.scheduler import Scheduler"),
    (who_imports_what, "src/hiringhall/transports/tcp.py", "from hiringhall.core.jobs import Job"),
    (who_imports_what, "src/hiringhall/engine/turn.py", "from hiringhall.storage.sqlite import SqliteStore"),
    (who_imports_what, "src/hiringhall/cli/main.py", "from hiringhall.engine.driver import Driver"),
    (who_imports_what, "src/hiringhall/stray.py", "from hiringhall.core.jobs import Job"),
    (
        who_imports_what,
        "src/hiringhall/storage/memory.py",
        "if TYPE_CHECKING:\n    from hiringhall.core.peer import Peer",
    ),
    (core_order, "src/hiringhall/core/table.py", "from hiringhall.core.bidding.auctions import Auctions"),
    (core_order, "src/hiringhall/core/leasing.py", "from hiringhall.core import scheduler"),
    (
        core_order,
        "src/hiringhall/core/leasing.py",
        "if x:\n    from hiringhall.core.matching import y",
    ),
    (core_order, "src/hiringhall/core/novelty.py", "x = 1"),
    (session_writes, GEARMAN, "job.extras = {}"),
    (session_writes, GEARMAN, "lease.worker.bids = True"),
    (session_writes, GEARMAN, "self._worker.credit += 1"),
    (session_writes, GEARMAN, "worker.name, other = b'', 1"),
    (session_writes, GEARMAN, "scheduler.counters.stale += 1"),
    (foreign_notices, GEARMAN, "engagement.worker.peer.revoked(engagement)"),
    (foreign_notices, GEARMAN, "for peer in peers:\n    peer.woken()"),
    (foreign_notices, GEARMAN, "self._provider.ended(job)"),
    (purity, CORE, "import time"),
    (purity, CORE, "from os import path"),
    (purity, CORE, "import asyncio.events"),
    (purity, GEARMAN, "import logging"),
    (purity, GEARMAN, "from datetime import datetime\nnow = datetime.now()"),
    (purity, GEARMAN, "import datetime\nnow = datetime.datetime.utcnow()"),
    (purity, GEARMAN, "print('hello')"),
    (purity, CORE, "order = hash(b'x')"),
    (set_order, CORE, "for x in {1, 2}:\n    pass"),
    (set_order, CORE, "for x in set(y):\n    pass"),
    (set_order, GEARMAN, "z = [x for x in frozenset(y)]"),
    (set_order, CORE, "def f():\n    s = {x for x in y}\n    for z in s:\n        pass"),
    (
        set_order,
        CORE,
        "class A:\n    def f(self):\n        self.s: set[int] = set()\n        return list(self.s)",
    ),
    (set_order, CORE, "def f(s: set[int]):\n    return [x for x in s]"),
    (set_order, CORE, "s = set()\ns.pop()"),
    (set_order, CORE, "s = set()\nb','.join(s)"),
    (set_order, CORE, "s = set()\nfor x in s | {1}:\n    pass"),
    (set_order, CORE, "next(iter({1, 2}))"),
    (danger, "tests/x.py", "import pickle"),
    (danger, "bench/x.py", "from marshal import loads"),
    (danger, CORE, "eval('1')"),
    (danger, CORE, "exec('x = 1')"),
    (danger, "tests/x.py", "subprocess.run('ls', shell=True)"),
    (danger, "tests/x.py", "subprocess.run('ls', shell=maybe)"),
    (danger, "scripts/x.py", "import os\nos.system('ls')"),
    (compiled_ways, CORE, "self._thread = 1"),
    (compiled_ways, "src/hiringhall/transports/x.py", "self._unix = 1"),
    (compiled_ways, "src/hiringhall/engine/turn.py", "@dataclass(slots=True)\nclass A:\n    x: int"),
    (sleeping, "tests/x.py", "import time\ntime.sleep(1)"),
    (sleeping, "tests/x.py", "from time import sleep as nap\nnap(1)"),
    (sleeping, "tests/x.py", "import time as t\nt.sleep(1)"),
    (module_name, "src/hiringhall/core/utils.py", "x = 1"),
    (module_name, "tests/common/test_x.py", "x = 1"),
    (length, CORE, "x = 1\n" * 401),
    (length, GEARMAN, "x = 1\n" * 501),
    (docstring, CORE, "x = 1"),
]

GOOD: list[tuple[Callable[[Source], Iterator[Complaint]], str, str]] = [
    (who_imports_what, CORE, "from hiringhall.core import queues\nimport heapq"),
    (core_order, "src/hiringhall/core/table.py", "from hiringhall.core.jobs import Job"),
    (
        core_order,
        "src/hiringhall/core/table.py",
        "if TYPE_CHECKING:\n    from hiringhall.core.bidding.auctions import Auctions",
    ),
    (session_writes, GEARMAN, "self.worker = None\njob = worker.bids"),
    (session_writes, "src/hiringhall/core/leasing.py", "job.code = 1"),
    (foreign_notices, "src/hiringhall/core/leasing.py", "lease.worker.peer.revoked(lease)"),
    (foreign_notices, GEARMAN, "self.relay.ended(job)\nsuper().lost()"),
    (
        who_imports_what,
        GEARMAN,
        "from hiringhall.dialects.gearman import wire\nfrom hiringhall.core.jobs import Job",
    ),
    (who_imports_what, GEARMAN, "from hiringhall.dialects.session import Session"),
    (
        who_imports_what,
        "src/hiringhall/peers/gearman/client.py",
        "from hiringhall.dialects.gearman import wire",
    ),
    (who_imports_what, "src/hiringhall/peers/gearman.py", "from hiringhall.dialects.gearman.wire import pack"),
    (who_imports_what, "src/hiringhall/peers/gearman.py", "from hiringhall.peers.stream import Stream"),
    (who_imports_what, "src/hiringhall/storage/memory.py", "from hiringhall.core.jobs import FAILED"),
    (who_imports_what, "src/hiringhall/server/opening.py", "from hiringhall.storage.sqlite import SqliteStore"),
    (who_imports_what, "src/hiringhall/cli/main.py", "from hiringhall import __version__"),
    (who_imports_what, "tests/x.py", "from hiringhall.core.jobs import Job"),
    (purity, "src/hiringhall/engine/driver.py", "import time"),
    (purity, CORE, "from collections import deque\nimport heapq"),
    (purity, GEARMAN, "from datetime import datetime\nx = datetime.fromtimestamp(1)"),
    (set_order, CORE, "s = {1, 2}\nx = 1 in s"),
    (set_order, CORE, "for x in sorted({1, 2}):\n    pass"),
    (set_order, CORE, "n = len({x for x in y})"),
    (set_order, CORE, "s = set()\nt = {x for x in s}"),
    (set_order, CORE, "d = {}\nd.pop(1)\nfor x in d:\n    pass"),
    (set_order, "tests/x.py", "for x in {1, 2}:\n    pass"),
    (danger, "tests/x.py", "subprocess.run(['ls'], shell=False)\nre.compile('x')"),
    (sleeping, "tests/x.py", "core.sleep(worker)\nawait asyncio.sleep(0)"),
    (module_name, "src/hiringhall/core/jobs.py", "x = 1"),
    (length, CORE, "x = 1\n" * 400),
    (length, GEARMAN, "x = 1\n" * 500),
    (docstring, CORE, '"""What it is."""\nx = 1'),
    (docstring, "src/hiringhall/peers/__init__.py", ""),
]


@pytest.mark.parametrize(("rule", "path", "text"), BAD)
def test_a_breach_is_found(rule: Callable[[Source], Iterator[Complaint]], path: str, text: str) -> None:
    complaints = list(rule(Source(path, text)))
    assert len(complaints) == 1
    assert str(complaints[0]).startswith(f"{path}:")


@pytest.mark.parametrize(("rule", "path", "text"), GOOD)
def test_what_is_right_is_left_alone(
    rule: Callable[[Source], Iterator[Complaint]], path: str, text: str
) -> None:
    assert list(rule(Source(path, text))) == []


@pytest.mark.parametrize(
    "line",
    [
        "# TO" + "DO: later",
        "x = 1  # FIX" + "ME",
        "This will do for" + " now.",
        "see pypi" + ".org/project",
        "cd /ho" + "me/somebody/main",
        'open("/op' + 't/tools/x")',
        "PATH=/ro" + "ot/bin",
        "see ../" + "elsewhere/x.md",
    ],
)
def test_words_that_do_not_belong(line: str) -> None:
    assert len(list(words("x.md", f"fine\n{line}\n"))) == 1


def test_words_that_do() -> None:
    assert list(words("x.md", "A hackathon for todos; see PyPI for the package.\n")) == []
    assert (
        list(words("x.md", "#!/usr/bin/env, /proc/1/stat, /d/x, a/b/c, https://x/y/z, n/a, /hall-data/\n"))
        == []
    )
    assert list(words("docs/protocols/x.md", "see ../needs.md and ../../README.md\n")) == []
