"""Peers of every dialect that set each field they can to a hostile text, and where the dashboard shows it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

from dwork_peer import Asker
from hall_process import wait_until
from native_peer import NativePeer

from hiringhall.dialects.dwork import wire as dwork
from hiringhall.dialects.gearman import wire as gearman
from hiringhall.dialects.gearman_draft import wire as draft
from hiringhall.peers import pingpong, wmp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    import httpx
    from web_process import WebHall

ANSWER_S: Final = 20.0
DOORS: Final = ("gearman", "hire", "dwork", "wmp", "beanstalkd", "pingpong")
"""After the native door. A PING/PONG door has two ports."""
PROVIDER: Final = b"5e1d8c30-0f55-4b0e-9a47-2bc168117d03"
BIDDER: Final = b"5e1d8c30-0f55-4b0e-9a47-2bc168117d04"


class Sighting(NamedTuple):
    """A page that shows a text which a peer has set."""

    path: str
    text: str


def settings() -> str:
    """The doors, as settings."""
    doors = "".join(f'[[door]]\ndialect = "{dialect}"\naddress = "127.0.0.1:0"\n' for dialect in DOORS)
    return f'{doors}frontend = "127.0.0.1:0"\n'


def port(hall: WebHall, dialect: str) -> int:
    return hall.ports[1 + DOORS.index(dialect)]


def job_page(api: httpx.Client, **wanted: str) -> str:
    """The page of the one job that matches, live or ended."""
    found: list[dict[str, Any]] = []

    def find() -> bool:
        found[:] = [
            job for path in ("/jobs", "/history") for job in api.get(path, params=wanted).json()["items"]
        ]
        return bool(found)

    wait_until(find, f"there is a job with {wanted}")
    return f"/jobs/{found[0]['id']}"


def worker_pages(api: httpx.Client, name: str) -> list[Sighting]:
    """The list of workers, and the page of the one with this name."""
    found: list[dict[str, Any]] = []

    def find() -> bool:
        found[:] = api.get("/workers", params={"text": name}).json()["items"]
        return bool(found)

    wait_until(find, f"there is a worker {name}")
    listed = Sighting(f"/workers?text={quote(name, safe='')}", name)
    return [listed, Sighting(f"/workers/{found[0]['number']}", name)]


def queue_pages(name: str) -> list[Sighting]:
    step = quote(name, safe="")
    return [Sighting(f"/queues?text={step}", name), Sighting(f"/queues/{step}", name)]


class GearmanLink:
    """One connection; `fill` makes a packet that is complete of what the peer sends."""

    def __init__(self, place: int, reader: gearman.Reader | draft.Reader) -> None:
        self._socket = socket.create_connection(("127.0.0.1", place), ANSWER_S)
        self._reader = reader
        self._heard: list[tuple[int, bytes]] = []

    def ask(self, data: bytes) -> tuple[int, bytes]:
        self.send(data)
        while not self._heard:
            received = self._socket.recv(65536)
            assert received, "the hall has closed the connection"
            self._heard += self._reader.feed(received)
        return self._heard.pop(0)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def __enter__(self) -> GearmanLink:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()


@contextlib.contextmanager
def of_gearman(hall: WebHall, api: httpx.Client, text: str) -> Iterator[list[Sighting]]:
    """The function, the unique id, the payload, the worker's id; warning, data, status and result."""
    names = ("unique", "payload", "warning", "data", "result")
    unique, payload, warning, data, result = (f"{name}{text}".encode() for name in names)
    function = text.encode()
    pack = gearman.pack_request
    with (
        GearmanLink(port(hall, "gearman"), gearman.Reader(gearman.RESPONSE)) as client,
        GearmanLink(port(hall, "gearman"), gearman.Reader(gearman.RESPONSE)) as worker,
    ):
        kind, _ = client.ask(pack(gearman.SUBMIT_JOB_BG, function, unique, payload))
        assert kind == gearman.JOB_CREATED
        worker.send(pack(gearman.SET_CLIENT_ID, function) + pack(gearman.CAN_DO, function))
        kind, body = worker.ask(pack(gearman.GRAB_JOB))
        assert kind == gearman.JOB_ASSIGN
        handle = body.split(b"\0", 1)[0]
        worker.send(pack(gearman.WORK_WARNING, handle, warning) + pack(gearman.WORK_DATA, handle, data))
        worker.send(pack(gearman.WORK_STATUS, handle, function, function))
        seen = [*queue_pages(text), *worker_pages(api, text)]
        page = job_page(api, queue=text)
        worker.send(pack(gearman.WORK_COMPLETE, handle, result))
        wait_until(lambda: api.get(page).json()["state"] == "done", "the job is done")
        seen += [Sighting(page, f"{name}{text}") for name in names]
        yield [*seen, Sighting(f"/history?queue={quote(text, safe='')}", f"result{text}")]


@contextlib.contextmanager
def of_gearman_draft(hall: WebHall, api: httpx.Client, text: str) -> Iterator[list[Sighting]]:
    """The name, the key and the arguments of a job, and the names that a worker knows."""
    data = f"draft{text}".encode()
    with (
        GearmanLink(port(hall, "gearman"), draft.Reader()) as client,
        GearmanLink(port(hall, "gearman"), draft.Reader()) as worker,
    ):
        client.ask(draft.pack_job_create_req(data, data, 0, draft.ASYNC_THROW_AWAY, data))
        page = job_page(api, queue=data.decode())
        worker.send(draft.pack_worker_connect([data]))
        yield [*queue_pages(data.decode()), Sighting(page, text)]


@contextlib.contextmanager
def of_dwork(hall: WebHall, api: httpx.Client, text: str) -> Iterator[list[Sighting]]:
    """The name of a task, of its origin and of the location that has it."""
    data = text.encode()
    with Asker(f"127.0.0.1:{port(hall, 'dwork')}") as asker:
        task = dwork.encode_task(data, data)
        assert asker.ask(dwork.encode(dwork.CREATE, [task])).type == dwork.OK
        page = job_page(api, key=text)
        assert asker.steal(data, 1)[1] == [data]
        yield [*worker_pages(api, text), Sighting(page, text)]


@contextlib.contextmanager
def of_hire(hall: WebHall, api: httpx.Client, text: str) -> Iterator[list[Sighting]]:
    """The type and the id of an announcement; a bid for it."""
    data = text.encode()
    with (
        socket.create_connection(("127.0.0.1", port(hall, "hire")), ANSWER_S) as provider,
        NativePeer(hall.port) as peer,
    ):
        peer.submit(f"hire{text}".encode(), data, data, durable=True)
        provider.sendall(b"%b AVAIL %b:0:5\n" % (BIDDER, data))
        provider.sendall(b"%b ANNOUNCE %b:hire%b\n" % (PROVIDER, data, data))
        wait_until(lambda: text in api.get("/auctions").text.replace('\\"', '"'), "it is announced")
        yield [Sighting("/auctions", text), *queue_pages(f"hire{text}")]


@contextlib.contextmanager
def of_wmp(hall: WebHall, api: httpx.Client, text: str) -> Iterator[list[Sighting]]:
    """The role and the name of a worker; the payload, progress and result of its job."""
    data = text.encode()
    role = f"wmp{text}"

    async def answer(job: wmp.Job) -> bytes:
        return job.payload

    worker = wmp.Worker([f"127.0.0.1:{port(hall, 'wmp')}"], {role: answer}, name=text)
    with running(worker), NativePeer(hall.port) as peer:
        seen = worker_pages(api, text)
        job = peer.submit(role.encode(), data, data, durable=True)
        wait_until(lambda: api.get(f"/jobs/{job}").json()["state"] == "done", "the job is done")
        yield [*seen, Sighting(f"/jobs/{job}", text)]


@contextlib.contextmanager
def running(peer: Any) -> Iterator[None]:
    """A peer of asyncio, in a thread: the browser has the event loop of this one."""
    ready, over = threading.Event(), threading.Event()

    async def run() -> None:
        async with peer:
            ready.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    try:
        assert ready.wait(ANSWER_S)
        yield
    finally:
        over.set()
        thread.join()


@contextlib.contextmanager
def of_beanstalkd(hall: WebHall, api: httpx.Client, text: str) -> Iterator[list[Sighting]]:
    """The tube, as far as a name may go, and the body of a job."""
    data = text.encode()
    tube = "javascript;alert(1)/$+-_."
    with socket.create_connection(("127.0.0.1", port(hall, "beanstalkd")), ANSWER_S) as link:
        lines = link.makefile("rb")
        link.sendall(b"use %b\r\n" % data)
        assert lines.readline() == b"BAD_FORMAT\r\n"
        link.sendall(b"use %b\r\nput 1 0 60 %d\r\n%b\r\n" % (tube.encode(), len(data), data))
        assert lines.readline().startswith(b"USING")
        number = int(lines.readline().split()[1])
        assert number
        page = job_page(api, queue=tube, text=text)
        yield [*queue_pages(tube), Sighting(page, text)]


@contextlib.contextmanager
def of_pingpong(hall: WebHall, api: httpx.Client, text: str) -> Iterator[list[Sighting]]:
    """The identity of a worker, a job and its result."""
    data = text.encode()
    backend, frontend = (f"127.0.0.1:{number}" for number in hall.ports[-2:])
    with pingpong.Worker(backend, lambda job: job, identity=data), pingpong.Client(frontend) as client:
        seen = worker_pages(api, text)
        assert client.submit(data) == data
        yield seen


@contextlib.contextmanager
def of_native(hall: WebHall, api: httpx.Client, text: str) -> Iterator[list[Sighting]]:
    """The flow, the key, a schedule, a reason, a log line, the name of a program and of a person."""
    queue, key, payload, log, reason, rest = (
        f"{name}{text}".encode() for name in ("queue", "key", "payload", "log", "reason", "rest")
    )
    flow = text.encode()
    with NativePeer(hall.port, greet=False) as peer:
        peer.ask("hello", {"version": 1, "name": text, "person": f"person{text}"})
        job = peer.submit(queue, payload, key, durable=True, flow=flow)
        texts = {name: f"{name}{text}" for name in ("name", "queue", "payload", "key")}
        peer.ask("schedule", {**texts, "every_us": 3_600_000_000})
        peer.work(queue, name=queue)
        peer.ask("log", [peer.hear("assign")[0], log])
        cancelled = peer.submit(rest, payload, key, durable=True, flow=flow)
        peer.ask("cancel", [cancelled, reason])
        step = quote(text, safe="")
        yield [
            Sighting(f"/flows?text={step}", text),
            Sighting(f"/flows/{step}", f"key{text}"),
            Sighting(f"/graph?job={job}", f"key{text}"),
            *(Sighting("/schedules", f"{name}{text}") for name in ("name", "queue")),
            *(Sighting(f"/jobs/{job}", f"{name}{text}") for name in ("queue", "key", "payload", "log", "")),
            Sighting(f"/jobs/{cancelled}", f"reason{text}"),
            Sighting("/settings?part=audit", f"person{text}"),
            *worker_pages(api, f"queue{text}"),
        ]


PEERS: Final[dict[str, Callable[[WebHall, httpx.Client, str], AbstractContextManager[list[Sighting]]]]] = {
    "gearman": of_gearman,
    "gearman_draft": of_gearman_draft,
    "dwork": of_dwork,
    "hire": of_hire,
    "wmp": of_wmp,
    "beanstalkd": of_beanstalkd,
    "pingpong": of_pingpong,
    "native": of_native,
}
"""By dialect."""
