"""Runs no-op tasks with HyperQueue in this process: a server and one worker. Prints the seconds.

python hyperqueue_tasks.py TASKS CORES FOLDER
"""

from __future__ import annotations

import os
import sys
import time

from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig


def main(tasks: int, cores: int, folder: str) -> None:
    os.chdir(folder)
    with LocalCluster(os.path.join(folder, "server"), WorkerConfig(cores=cores)) as cluster:  # noqa: PTH118
        client = cluster.client()
        job = Job()
        for _ in range(tasks):
            # Without files for their output, which HyperQueue would make for each task.
            job.program(["true"], stdout=None, stderr=None)
        start_s = time.perf_counter()
        client.wait_for_jobs([client.submit(job)])
        print(time.perf_counter() - start_s, flush=True)


main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
