"""The job systems that are compared, with the settings of their workers; docs/benchmarks.md explains them."""

from __future__ import annotations

from systems import System

HALL_SYNC = "hall"
HALL_ASYNC = "hall, asyncio"

OURS = tuple(
    System(
        name,
        module,
        ("hall", "work", "jobs_hall", "--processes", "2", "--only", "jobs_hall.add"),
        ("hall", "work", "jobs_hall", "--concurrency", "500", "--only", "jobs_hall.nap"),
        server="hall",
    )
    for name, module in ((HALL_SYNC, "peer_hall"), (HALL_ASYNC, "peer_hall_async"))
)

HUEY = ("huey_consumer", "peer_huey.huey", "-k", "process", "-w", "2", "-d", "0.001", "-m", "0.001", "-q", "-n")
CELERY = ("--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "ERROR")
TASKIQ = ("taskiq", "worker", "peer_taskiq:broker", "--log-level", "WARNING", "--no-parse")

OTHERS = (
    System("huey", "peer_huey", HUEY, server="", variables={"BENCH_FSYNC": "off"}),
    System("huey, fsync", "peer_huey", HUEY, server="", variables={"BENCH_FSYNC": "full"}),
    System(
        "dramatiq",
        "peer_dramatiq",
        ("dramatiq", "peer_dramatiq", "--processes", "2", "--threads", "8"),
        variables={"dramatiq_queue_prefetch": "64", "dramatiq_worker_timeout": "20"},
        quick_variables={"dramatiq_worker_timeout": "2"},
    ),
    System(
        "rq",
        "peer_rq",
        ("rq", "worker-pool", "-n", "2", "-w", "rq.worker.SimpleWorker", "-q", "-u", "{redis}"),
    ),
    System("celery", "peer_celery", ("celery", "-q", "-A", "peer_celery", "worker", "-c", "2", *CELERY)),
    System(
        "taskiq",
        "peer_taskiq",
        (*TASKIQ, "--workers", "2", "--max-async-tasks", "64", "--max-prefetch", "64"),
        (*TASKIQ, "--workers", "1", "--max-async-tasks", "500", "--max-prefetch", "500"),
        quick_variables={"BENCH_BROKER": "list"},
    ),
    System(
        "streaq",
        "peer_streaq",
        ("streaq", "run", "peer_streaq:worker", "--workers", "2"),
        ("streaq", "run", "peer_streaq:worker", "--workers", "1"),
    ),
    System(
        "saq",
        "peer_saq",
        ("saq", "peer_saq.settings", "--workers", "2", "--quiet"),
        ("saq", "peer_saq.settings", "--workers", "1", "--quiet"),
    ),
    System(
        "arq",
        "peer_arq",
        ("arq", "peer_arq.Settings"),
        ("arq", "peer_arq.Settings"),
        environment="arq",
        processes=2,
    ),
)
