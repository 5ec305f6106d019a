"""Maps of the native protocol as shapes of the API.

A map may lack entries that a hall of another version does not send; they have plain defaults here.
"""

from __future__ import annotations

import time
from typing import Any, Final

import msgspec

from hiringhall.records.record import as_moment
from hiringhall.sdk.failures import Failure
from hiringhall.web import hall_shapes, job_shapes, shapes
from hiringhall.web.values import SECOND_US, seconds, shown, text

RESULT_SHOWN: Final = 200
"""Characters of a result in a list."""
PAYLOAD_SHOWN: Final = 100
"""Characters of a payload in a list."""
_KINDS: Final = ("data", "warning", "log")
_STATES: Final = {"leased": "running"}
_FAILURE: Final = msgspec.json.Decoder(Failure)
_UNITS: Final = "_us"


def job_line(described: dict[str, Any]) -> job_shapes.JobLine:
    """A job in a list."""
    line = _line(described)
    line["payload"] = _beginning(described.get("payload", b""), PAYLOAD_SHOWN)
    line["result"] = _beginning(described.get("result", b""), RESULT_SHOWN)
    return job_shapes.JobLine(**line)


def _beginning(data: bytes, characters: int) -> str:
    """As much as a list shows: at most four bytes are one character, so the last one is whole."""
    return shown(data[: 4 * characters])[:characters]


def job(described: dict[str, Any]) -> job_shapes.Job:
    """A job with everything."""
    line = _line(described)
    result: bytes = described.get("result", b"")
    payload, payload_base64 = text(described.get("payload", b""))
    shown_result, result_base64 = text(result)
    numerator, denominator = described.get("progress") or (0, 0)
    expected_us = described.get("expected_us", 0)
    children = described.get("children", ())
    return job_shapes.Job(
        **line,
        result=shown_result,
        result_base64=result_base64,
        result_bytes=len(result),
        truncated=described.get("truncated", False),
        why=shown(described.get("why", "")),
        failures=described.get("failures", 0),
        terms=terms(described.get("terms", {})),
        progress=(numerator, denominator) if denominator else None,
        remaining_s=max(0.0, expected_us / SECOND_US - time.time()) if expected_us else None,
        payload=payload,
        payload_base64=payload_base64,
        payload_bytes=described.get("payload_bytes", len(described.get("payload", b""))),
        parents=[_parent(*parent) for parent in described.get("parents", ())],
        children=[str(child) for child in children],
        children_count=described.get("children_count", len(children)),
        tries=[_try(*attempt) for attempt in described.get("tries", ())],
        error=_error(described, result),
    )


def _line(described: dict[str, Any]) -> dict[str, Any]:
    """What lists and single jobs have in common."""
    queue, queue_base64 = text(described["queue"])
    key, key_base64 = text(described["key"])
    worker, worker_base64 = text(described.get("worker", b""))
    flow, flow_base64 = text(described.get("flow", b""))
    state = _STATES.get(described["state"], described["state"])
    return {
        "id": str(described["id"]),
        "queue": queue,
        "queue_base64": queue_base64,
        "key": key,
        "key_base64": key_base64,
        "state": state,
        "situation": described.get("situation", state),
        "created": as_moment(described["created_us"]),
        "started": as_moment(described.get("started_us", 0)),
        "ended": as_moment(described.get("ended_us", 0)),
        "due": as_moment(described.get("due_us", 0)),
        "attempts": described.get("attempts", 0),
        "attempts_max": described.get("attempts_max", 0),
        "losses": described.get("losses", 0),
        "worker": worker,
        "worker_base64": worker_base64,
        "dialect": described.get("dialect", ""),
        "priority": described.get("priority", "normal"),
        "durable": described.get("durable", True),
        "code": described.get("code", 0),
        "flow": flow,
        "flow_base64": flow_base64,
    }


def queue(described: dict[str, Any], done_s: float) -> shapes.Queue:
    """A queue. The hall does not know its rate."""
    name, encoded = text(described["name"])
    oldest_us = described.get("oldest_us", 0)
    waited_s = max(0.0, time.time() - oldest_us / SECOND_US) if oldest_us else 0.0
    return shapes.Queue(
        name=name,
        name_base64=encoded,
        ready=described["ready"],
        parked=described.get("parked", 0),
        running=described["running"],
        held=described.get("held", 0),
        delayed=described.get("delayed", 0),
        failed=described["failed"],
        workers=described["workers"],
        paused=described["paused"],
        oldest=as_moment(oldest_us),
        oldest_s=waited_s,
        average_run_s=seconds(described.get("average_run_us", 0)),
        done_total=described.get("done_total", 0),
        failed_total=described.get("failed_total", 0),
        cancelled_total=described.get("cancelled_total", 0),
        done_s=done_s,
        rules=_rules(described.get("rules", {})),
        rules_set=described.get("rules_set", False),
    )


def queue_rules(rules: dict[str, Any], *, are_set: bool) -> shapes.QueueRules:
    """The rules of a queue."""
    return shapes.QueueRules(rules=_rules(rules), set=are_set)


def _rules(stated: dict[str, Any]) -> dict[str, Any]:
    rules = terms(stated)
    if "tenant_weights" in rules:
        rules["tenant_weights"] = {
            text(tenant)[0]: weight for tenant, weight in rules["tenant_weights"].items()
        }
    return rules


def terms(stated: dict[str, Any]) -> dict[str, Any]:
    """Terms with times in seconds: `timeout_us` is `timeout_s`; names are texts."""
    return {
        f"{name.removesuffix(_UNITS)}_s" if name.endswith(_UNITS) else name: (
            seconds(value) if name.endswith(_UNITS) else text(value)[0] if isinstance(value, bytes) else value
        )
        for name, value in stated.items()
    }


def _parent(number: int, queue: bytes, key: bytes, state: str) -> job_shapes.Parent:
    queue_text, queue_base64 = text(queue)
    key_text, key_base64 = text(key)
    return job_shapes.Parent(
        id=str(number) if number else None,
        queue=queue_text,
        queue_base64=queue_base64,
        key=key_text,
        key_base64=key_base64,
        state=_STATES.get(state, state),
    )


def _try(
    started_us: int, ended_us: int, worker: bytes, code: int, dialect: str = "", *_: object
) -> job_shapes.TryLine:
    name, encoded = text(worker)
    return job_shapes.TryLine(
        started=as_moment(started_us),
        ended=as_moment(ended_us),
        worker=name,
        worker_base64=encoded,
        dialect=shown(dialect),
        code=code,
    )


def _error(described: dict[str, Any], result: bytes) -> job_shapes.WorkerError | None:
    """The exception in the result of a failed job, if it is one of the SDK's."""
    if described["state"] != "failed" or not result.startswith(b"{"):
        return None
    try:
        failure = _FAILURE.decode(result)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if not failure.type:
        return None
    return job_shapes.WorkerError(type=failure.type, text=failure.text, traceback=failure.traceback)


def output_line(at_us: int, kind: int, data: bytes) -> job_shapes.OutputLine:
    said, encoded = text(data)
    word = _KINDS[kind] if 0 <= kind < len(_KINDS) else _KINDS[0]
    return job_shapes.OutputLine(at=as_moment(at_us), kind=word, text=said, text_base64=encoded)


def worker(described: dict[str, Any]) -> hall_shapes.Worker:
    name, encoded = text(described["name"])
    return hall_shapes.Worker(
        number=str(described["number"]),
        name=name,
        name_base64=encoded,
        dialect=described.get("dialect", ""),
        door=described.get("door", ""),
        address=shown(described.get("address", "")),
        queues=[shown(queue) for queue in described["queues"]],
        skills={shown(queue): skill for queue, skill in described.get("skills", {}).items()},
        slots=described.get("slots", 1),
        jobs=[str(number) for number in described["jobs"]],
        state=described.get("state", "working" if described["jobs"] else "idle"),
        draining=described.get("draining", False),
        since=as_moment(described.get("since_us", 0)),
        heard=as_moment(described.get("heard_us", 0)),
        until=as_moment(described.get("until_us", 0)),
        resident=described.get("resident", False),
        resources={
            shown(name): hall_shapes.Resource(used=used, total=total)
            for name, (used, total) in described.get("resources", {}).items()
        },
    )


def auction(described: dict[str, Any]) -> hall_shapes.Auction:
    queue, queue_base64 = text(described["queue"])
    key, key_base64 = text(described["key"])
    return hall_shapes.Auction(
        job=str(described["job"]),
        queue=queue,
        queue_base64=queue_base64,
        key=key,
        key_base64=key_base64,
        open=described["open"],
        closes=as_moment(described.get("closes_us", 0)),
        skill=described.get("skill", 0),
        needs_s=seconds(described.get("needs_us", 0)),
        bids=[
            hall_shapes.Bid(worker=shown(name), skill=skill, arrives=as_moment(arrives_us))
            for name, skill, arrives_us, *_ in described.get("bids", ())
        ],
    )


def hiring(
    at_us: int, job_id: int, queue: bytes, name: bytes, skill: int, arrives_us: int, bids: int, policy: str
) -> hall_shapes.Hiring:
    return hall_shapes.Hiring(
        at=as_moment(at_us),
        job=str(job_id),
        queue=shown(queue),
        worker=shown(name),
        skill=skill,
        arrives=as_moment(arrives_us),
        bids=bids,
        policy=shown(policy),
    )


def flow(described: dict[str, Any]) -> hall_shapes.Flow:
    name, encoded = text(described["name"])
    counts = {
        word: int(described.get(word, 0))
        for word in ("jobs", "held", "delayed", "ready", "running", "done", "failed", "cancelled")
    }
    return hall_shapes.Flow(
        name=name,
        name_base64=encoded,
        created=as_moment(described.get("created_us", 0)),
        ended=as_moment(described.get("ended_us", 0)),
        state=described["state"],
        **counts,
    )
