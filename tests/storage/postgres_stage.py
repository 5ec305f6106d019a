"""Faults for the tests of the store on PostgreSQL: lost connections, locks, and a server that went back."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import asyncpg
from store_house import ignore

from hiringhall.storage.contract import Retention
from hiringhall.storage.postgres import Member, PostgresStore
from stage.databases import postgres_server

if TYPE_CHECKING:
    from collections.abc import Callable

EAST, WEST = Member("east", "east:1"), Member("west", "west:1")


def opened(url: str, member: Member = EAST, warn: Callable[[str], None] = ignore, **how: bool) -> PostgresStore:
    store = PostgresStore(url, Retention(), warn, member, **how)
    store.load(100)
    return store


def ids(store: PostgresStore) -> list[int]:
    return [row.id for row in store.live()]


def name_of(url: str) -> str:
    return url.rpartition("/")[2]


def end_backends(url: str) -> None:
    """End every connection of a hall to its database, and wait until they are gone."""
    sql = f"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '{name_of(url)}'"
    postgres_server().sql(sql)


class Proxy:
    """Passes bytes between a store and the server, and cuts what a test wants to be cut."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._mode = ""
        self._passed = 0
        """Bytes of questions that may still pass."""
        self._words = b""
        self._threads: list[threading.Thread] = []
        self._start()

    def url(self, url: str) -> str:
        return url.replace(f":{self._target}/", f":{self.port}/")

    def cut_answers(self) -> None:
        """The next question arrives; its answer is lost, with the connection."""
        self._passed = 0
        self._mode = "answers"

    def cut_questions(self, after: int = 0) -> None:
        """The next question is lost, with the connection; the first bytes of it may arrive."""
        self._passed = after
        self._mode = "questions"

    def cut_answer_to(self, words: bytes) -> None:
        """A question with these words arrives; its answer is lost, with the connection."""
        self._words = words

    def cut_when_silent(self) -> None:
        """The next question arrives; the connection is lost while the server works on it."""
        self._mode = "silent"

    def heal(self) -> None:
        self._mode = ""
        if self._listener.fileno() < 0:
            self._listener = socket.create_server(("127.0.0.1", self.port))
            self._start()

    def close_listener(self) -> None:
        # A thread that waits in accept() keeps the socket: shutting it down ends that.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._acceptor.join()

    def close(self) -> None:
        self.close_listener()
        for pair in self._pairs:
            _break(pair)
        for thread in self._threads:
            thread.join()
        for pair in self._pairs:
            for end_point in pair:
                end_point.close()

    def _start(self) -> None:
        self._acceptor = threading.Thread(target=self._accept, args=(self._listener,), daemon=True)
        self._acceptor.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            pair = (client, socket.create_connection(("127.0.0.1", self._target)))
            self._pairs.append(pair)
            for source, sink, way in ((*pair, "questions"), (*reversed(pair), "answers")):
                passing = threading.Thread(target=self._pass, args=(source, sink, way, pair), daemon=True)
                self._threads.append(passing)
                passing.start()

    def _pass(
        self, source: socket.socket, sink: socket.socket, way: str, pair: tuple[socket.socket, socket.socket]
    ) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if self._mode == way:
                    sink.sendall(data[: self._passed])
                    self._passed -= len(data)
                    if self._passed < 0:
                        break
                    continue
                if way == "questions" and self._words and self._words in data:
                    self._mode, self._words = "answers", b""
                sink.sendall(data)
                if self._mode == "silent" and way == "questions":
                    break
        _break(pair, only_client=self._mode == "silent")


def _break(pair: tuple[socket.socket, socket.socket], *, only_client: bool = False) -> None:
    for end_point in pair[:1] if only_client else pair:
        with suppress(OSError):
            end_point.shutdown(socket.SHUT_RDWR)


class Blocker:
    """Another client, which holds a lock."""

    def __init__(self, url: str, statement: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._connection = self._loop.run_until_complete(
            asyncpg.connect(url, server_settings={"search_path": "hiringhall"})
        )
        self._loop.run_until_complete(self._connection.execute("BEGIN"))
        self._loop.run_until_complete(self._connection.execute(statement))

    def release(self) -> None:
        self._loop.run_until_complete(self._connection.close())
        self._loop.close()


class Copy:
    """The tables of a database as they are now, to go back to them while the hall is connected."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._server = postgres_server()
        self._name = f"{name_of(url)}_copy"
        end_backends(url)
        self._server.sql(f"CREATE DATABASE {self._name} TEMPLATE {name_of(url)}")

    def restore(self) -> None:
        end_backends(self._url)
        name = name_of(self._url)
        self._server.sql(f"DROP DATABASE {name} WITH (FORCE)")
        self._server.sql(f"ALTER DATABASE {self._name} RENAME TO {name}")
