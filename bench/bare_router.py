"""A lower bound for a dwork hub in Python: a ROUTER that answers each request with prepared bytes.

It reads one byte of a request, to give tasks to a Steal. It keeps no state.
"""

from __future__ import annotations

import asyncio
import json
import sys

import uvloop
import zmq

STEAL = 1
OK = b"\x08\x06"
MESSAGES_MAX = 256


def transfer(count: int) -> bytes:
    """A Transfer of `count` tasks, as long as that of a hub without logs."""
    tasks = [b"\x0a\x06t%05d\x12\x01h" % number for number in range(count)]
    return b"\x08\x03" + b"".join(b"\x12%c" % len(task) + task for task in tasks)


async def serve(tasks: int) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    router = context.socket(zmq.ROUTER)
    port = router.bind_to_random_port("tcp://127.0.0.1")
    answer = transfer(tasks)

    def answer_all() -> None:
        while int(router.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
            requests: list[list[bytes]] = []
            try:
                while len(requests) < MESSAGES_MAX:
                    requests.append(router.recv_multipart(zmq.NOBLOCK))
            except zmq.Again:
                pass
            for identity, empty, body in requests:
                router.send_multipart([identity, empty, answer if body[1] == STEAL else OK], zmq.NOBLOCK)

    asyncio.get_running_loop().add_reader(int(router.getsockopt(zmq.FD)), answer_all)
    print(json.dumps({"doors": [{"address": f"127.0.0.1:{port}"}]}), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
