"""A process that commits until it is killed, and tells of each commit that returned.

Usage: commit_forever.py FILE. Each line of its output is "+ID ID ..." for jobs taken in or "-ID ID ..." for
jobs that ended, written when the commit had returned. A schedule fires with each commit of jobs: it is due at
the id after theirs.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

from store_rows import NOW_US, batch, end, job

from hiringhall.core.changes import Firing
from hiringhall.storage.contract import Retention
from hiringhall.storage.sqlite import SqliteStore


def main() -> None:
    store = SqliteStore(Path(sys.argv[1]), Retention(), print)
    loaded = store.load(0)
    chance = random.Random(loaded.epoch)
    live = [row.id for row in loaded.jobs]
    next_id = loaded.epoch << 32
    while True:
        fresh = range(next_id, next_id + chance.randint(1, 300))
        next_id = fresh.stop
        jobs = [job(i, key=b"%d" % i, payload=b"p" * (i % 5000)) for i in fresh]
        store.commit(batch(inserts=jobs, fired={"tick": Firing(next_id, b"plan")}), NOW_US)
        live += fresh
        tell("+", fresh)
        chance.shuffle(live)
        done, live = live[: len(live) // 2], live[len(live) // 2 :]
        store.commit(batch(ends=[end(i) for i in done], deletes=done), NOW_US)
        tell("-", done)


def tell(sign: str, ids: list[int] | range) -> None:
    os.write(1, (sign + " ".join(map(str, ids)) + "\n").encode())


main()
