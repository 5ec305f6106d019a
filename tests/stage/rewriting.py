"""The asserts of test files are rewritten once, and not by every process of pytest-xdist.

Pytest rewrites a file where it is imported first. All processes import all files, at the same time and in the
same order: where nothing was kept from an earlier run, each would rewrite all of them. So each rewrites its
share before it collects tests, and keeps it where pytest looks for it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from _pytest.assertion import rewrite

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest


def rewrite_share(config: pytest.Config) -> None:
    """Does nothing in a process that is not one of several."""
    given = getattr(config, "workerinput", None)
    if given is None or sys.dont_write_bytecode:
        return
    place = int(given["workerid"].removeprefix("gw"))
    for file in sorted(set(_test_files(config)))[place :: given["workercount"]]:
        _rewrite(file, config)


def _test_files(config: pytest.Config) -> Iterator[Path]:
    for argument in config.args:
        path = Path(config.invocation_params.dir, argument.partition("::")[0])
        yield from path.rglob("test_*.py") if path.is_dir() else (path,)


def _rewrite(file: Path, config: pytest.Config) -> None:
    folder = rewrite.get_cache_dir(file)
    kept = folder / (file.stem + rewrite.PYC_TAIL)
    if rewrite.try_makedirs(folder) and rewrite._read_pyc(file, kept) is None:
        source_hash, code = rewrite._rewrite_test(file, config)
        rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, source_hash, kept)
