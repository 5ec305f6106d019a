"""A message as plain values that can be compared: how a test says what a message says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from hiringhall.dialects.dwork import wire

if TYPE_CHECKING:
    from hiringhall.dialects.dwork.wire import Query


class SaidTask(NamedTuple):
    name: bytes
    origin: bytes
    preds: tuple[bytes, ...] = ()
    succs: tuple[bytes, ...] = ()
    log: tuple[tuple[int, int], ...] = ()

    def encode(self) -> bytes:
        """As we write it."""
        log = b"".join(wire.encode_log(state, time_us) for state, time_us in self.log)
        return wire.encode_task(self.name, self.origin, list(self.preds), list(self.succs), log)


class Said(NamedTuple):
    type: int
    tasks: tuple[SaidTask, ...] = ()
    name: bytes | None = None
    n: int | None = None
    location: bytes | None = None

    def encode(self) -> bytes:
        """As we write it."""
        return wire.encode(self.type, [task.encode() for task in self.tasks], self.name, self.n, self.location)


def said(query: Query) -> Said:
    """What `parse` found. A list that is there is not empty."""
    tasks = []
    for task in query.tasks:
        assert task.preds != []
        assert task.succs != []
        assert task.log != []
        tasks.append(
            SaidTask(
                task.name, task.origin, tuple(task.preds or ()), tuple(task.succs or ()), tuple(task.log or ())
            )
        )
    return Said(query.type, tuple(tasks), query.name, query.n, query.location)


def said_by_protobuf(message: Any) -> Said:
    """What protobuf found."""
    return Said(
        message.type,
        tuple(
            SaidTask(
                task.name,
                task.origin,
                tuple(dep.name for dep in task.pred),
                tuple(dep.name for dep in task.succ),
                tuple((entry.state, entry.time) for entry in task.log),
            )
            for task in message.task
        ),
        *(getattr(message, field) if message.HasField(field) else None for field in ("name", "n", "location")),
    )


def fill(message: Any, words: Said) -> None:
    """Say it with protobuf, in a new message."""
    message.type = words.type
    for task in words.tasks:
        deps = {"pred": task.preds, "succ": task.succs}
        message.task.add(
            name=task.name,
            origin=task.origin,
            log=[{"state": state, "time": time_us} for state, time_us in task.log],
            **{field: [{"name": name} for name in names] for field, names in deps.items()},
        )
    for field in ("name", "n", "location"):
        value = getattr(words, field)
        if value is not None:
            setattr(message, field, value)
