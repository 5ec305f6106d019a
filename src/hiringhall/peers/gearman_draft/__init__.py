"""A client, a worker and a result log of Gearman's first draft, for asyncio; `blocking` has the same for plain
code.

    >>> import asyncio
    >>> from hiringhall.peers.gearman_draft import Client, Worker
    >>> async def hello() -> bytes:
    ...     worker = Worker(server)
    ...     worker.can_do("reverse", lambda task: task.args[::-1])
    ...     async with Client(server) as client, asyncio.TaskGroup() as group:
    ...         group.create_task(worker.run())
    ...         answer = await client.run("reverse", b"hello")
    ...         worker.stop()
    ...     return answer
    >>> asyncio.run(hello())
    b'olleh'

In these examples `server` is an address such as "127.0.0.1:4730"; a list of addresses is accepted too.
Invariant: what the draft leaves to the application, such as which job is repeated after a server is lost, is
left to it here, with all the information that it needs to decide.
"""

from hiringhall.peers.gearman_draft.client import Client
from hiringhall.peers.gearman_draft.errors import ConnectionLost, DraftError, JobFailed, ServerError, TaskError
from hiringhall.peers.gearman_draft.jobs import Job, Outcome, Status
from hiringhall.peers.gearman_draft.resultlog import ResultLog
from hiringhall.peers.gearman_draft.session import Task
from hiringhall.peers.gearman_draft.worker import Worker

__all__ = [
    "Client",
    "ConnectionLost",
    "DraftError",
    "Job",
    "JobFailed",
    "Outcome",
    "ResultLog",
    "ServerError",
    "Status",
    "Task",
    "TaskError",
    "Worker",
]
