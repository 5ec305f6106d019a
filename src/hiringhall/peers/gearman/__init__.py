"""A Gearman client and a Gearman worker, for asyncio (`AsyncClient`, `AsyncWorker`) and for plain blocking
code (`Client`, `Worker`). They work with any Gearman server, not only with the hall.

    >>> from hiringhall.peers.gearman import Client, Worker
    >>> worker = Worker(server)
    >>> worker.register("reverse", lambda job: job.data[::-1])
    >>> with worker, Client(server) as client:
    ...     client.run("reverse", b"hello")
    b'olleh'

In these examples `server` is an address such as "127.0.0.1:4730". Invariant: the blocking classes have no
protocol code; every call is a call of the asyncio class, on a loop in a thread.
"""

from hiringhall.peers.gearman.blocking import Client, Job, Worker
from hiringhall.peers.gearman.client import AsyncClient
from hiringhall.peers.gearman.errors import ConnectionLost, GearmanError, JobFailed, ServerError
from hiringhall.peers.gearman.jobs import AsyncJob, Data, Progress, Receipt, Status, Warned
from hiringhall.peers.gearman.session import WorkerJob
from hiringhall.peers.gearman.worker import AsyncWorker

__all__ = [
    "AsyncClient",
    "AsyncJob",
    "AsyncWorker",
    "Client",
    "ConnectionLost",
    "Data",
    "GearmanError",
    "Job",
    "JobFailed",
    "Progress",
    "Receipt",
    "ServerError",
    "Status",
    "Warned",
    "Worker",
    "WorkerJob",
]
