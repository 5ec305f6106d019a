"""The sockets between the supervisor and one child.

Invariant: a job is in exactly one place: unread in the socket, or begun by the child. The supervisor has a
duplicate of the end from which the child reads jobs, so it can take unread jobs back, whether the child is
busy, stuck or dead.
"""

from __future__ import annotations

import contextlib
import os
import socket
from array import array
from typing import Final, Self

from hiringhall.worker import messages

RESULT_BYTES: Final = 1 << 18
"""Read from a child at once."""
_DESCRIPTOR_BYTES: Final = socket.CMSG_SPACE(array("i").itemsize)


class Channel:
    """The supervisor's ends. None of its methods blocks."""

    def __init__(self) -> None:
        self._jobs, self._unread = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._stream, self.child_stream = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._jobs.setblocking(False)
        self._stream.setblocking(False)
        self._send = self._jobs.send
        self._controls = bytearray()

    @property
    def child_descriptors(self) -> tuple[int, int]:
        """To be inherited by the child: its end for jobs, and its end of the stream."""
        return self._unread.fileno(), self.child_stream.fileno()

    def fileno(self) -> int:
        """Readable when the child has said something."""
        return self._stream.fileno()

    def give(self, packet: bytes, lease: int) -> bool:
        """Send a job. False: the socket is full, try again when the child has ended one."""
        try:
            if len(packet) <= messages.MESSAGE_BYTES_MAX:
                self._send(packet)
            else:
                self._give_long(packet, lease)
        except BlockingIOError:
            return False
        except OSError:
            # The child is dead; its end is about to be noticed, and unread jobs are taken back then.
            return False
        return True

    def _give_long(self, packet: bytes, lease: int) -> None:
        descriptor = os.memfd_create("hiringhall-job")
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(packet)
            head = bytes((messages.LONG,)) + messages.LEASE.pack(lease)
            socket.send_fds(self._jobs, [head], [descriptor])
        finally:
            os.close(descriptor)

    def take_back(self) -> list[int]:
        """The leases of the jobs that the child has not begun, in order; it will not see them."""
        leases: list[int] = []
        while True:
            try:
                packet, extra, _, _ = self._unread.recvmsg(
                    messages.READ_BYTES, _DESCRIPTOR_BYTES, socket.MSG_DONTWAIT
                )
            except BlockingIOError:
                return leases
            if not packet:
                return leases
            for descriptor in _descriptors(extra):
                os.close(descriptor)
            leases.append(messages.lease_of(packet))

    def control(self, message: bytes) -> None:
        """Tell the child something that is not a job."""
        self._controls += message
        with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            del self._controls[: self._stream.send(self._controls)]

    def read(self) -> bytes | None:
        """What the child has said; None: nothing; empty: it has closed its end."""
        try:
            return self._stream.recv(RESULT_BYTES)
        except BlockingIOError:
            return None
        except ConnectionResetError:
            return b""

    def finish(self) -> None:
        """No more jobs: the child ends when it has done those that it has."""
        with contextlib.suppress(OSError):
            self._jobs.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        for each in (self._jobs, self._unread, self._stream, self.child_stream):
            each.close()


class ChildChannel:
    """The child's ends."""

    def __init__(self, jobs: int, stream: int) -> None:
        for descriptor in (jobs, stream):
            # A program that a function starts must not keep them open.
            os.set_inheritable(descriptor, False)
        self.jobs = socket.socket(fileno=jobs)
        self.stream = socket.socket(fileno=stream)
        self._receive = self.jobs.recvmsg
        self.send = self.stream.sendall
        """Send a message; blocks while the supervisor does not read."""

    def next_job(self) -> bytes | None:
        """Begin a job; None: there will be no more."""
        packet, extra, _, _ = self._receive(messages.READ_BYTES, _DESCRIPTOR_BYTES)
        if not packet:
            return None
        return _content(extra) if extra else packet

    def read_control(self) -> tuple[int, int, bytes] | None:
        """The next message of the supervisor; None: it has gone."""
        header = self._read_exactly(messages.HEADER.size)
        if header is None:
            return None
        length, tag, lease = messages.HEADER.unpack(header)
        body = self._read_exactly(length)
        return None if body is None else (tag, lease, body)

    def _read_exactly(self, count: int) -> bytes | None:
        data = b""
        while len(data) < count:
            part = self.stream.recv(count - len(data))
            if not part:
                return None
            data += part
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.jobs.close()
        self.stream.close()


def _content(extra: list[tuple[int, int, bytes]]) -> bytes:
    """The message of a long job, from its file."""
    (descriptor,) = _descriptors(extra)
    with open(descriptor, "rb") as file:  # noqa: PTH123 (a descriptor, not a path)
        file.seek(0)
        return file.read()


def _descriptors(extra: list[tuple[int, int, bytes]]) -> list[int]:
    found = array("i")
    for level, kind, data in extra:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            found.frombytes(data[: len(data) - len(data) % found.itemsize])
    return list(found)
