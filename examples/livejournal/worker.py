"""A worker of the journal: `python worker.py HALL FOLDER MAIL_PORT WEB_PORT`. It works until SIGTERM."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from journal import Journal
from tasks import TASKS

from hiringhall.peers.gearman_draft.blocking import Worker

if TYPE_CHECKING:
    from hiringhall.peers.gearman_draft import Task

hall, folder, mail_port, web_port = sys.argv[1:]
journal = Journal(Path(folder), int(mail_port), int(web_port))


def do(task: Task) -> bytes:
    return TASKS[task.name](journal, task).encode()


worker = Worker(hall)
for name in TASKS:
    worker.can_do(name, do)
signal.signal(signal.SIGTERM, lambda *_: worker.stop())
worker.run()
