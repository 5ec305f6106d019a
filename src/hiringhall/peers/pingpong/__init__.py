"""A PING/PONG worker and a client for the hall's frontend, as plain blocking code over ZeroMQ.

    >>> from hiringhall.peers.pingpong import Client, Worker
    >>> with Worker(backend, lambda job: job[::-1]), Client(frontend) as client:
    ...     client.submit(b"hello")
    b'olleh'

In this example `backend` and `frontend` are the two addresses of a door, such as "127.0.0.1:5560". The worker
follows the protocol and works with any broker that does. The protocol leaves the client's messages open; the
hall's page on the protocol defines them.
"""

from hiringhall.peers.pingpong.client import Client, Request
from hiringhall.peers.pingpong.errors import JobCancelled, JobFailed, NoAnswer, PingPongError, Refused
from hiringhall.peers.pingpong.sockets import Curve
from hiringhall.peers.pingpong.worker import Worker

__all__ = [
    "Client",
    "Curve",
    "JobCancelled",
    "JobFailed",
    "NoAnswer",
    "PingPongError",
    "Refused",
    "Request",
    "Worker",
]
