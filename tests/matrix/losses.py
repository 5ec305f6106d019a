"""What is lost between two dialects, and why: the only table of expectations.

Every fact of `FACTS` holds for every pair, unless a loss of this table names it. The test fails if a fact does
not hold and is not named here, and also if it is named here and holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from .aspects import FACTS
from .house import SUBMITTERS, WORKERS

if TYPE_CHECKING:
    from .cells import Cell


class Loss(NamedTuple):
    """Facts of an aspect that do not hold for some dialects, for one reason."""

    aspect: str
    facts: tuple[str, ...]
    reason: str
    """One plain sentence."""
    submitters: tuple[str, ...] = SUBMITTERS
    workers: tuple[str, ...] = WORKERS

    def concerns(self, cell: Cell) -> bool:
        return cell.aspect == self.aspect and cell.submitter in self.submitters and cell.worker in self.workers


_OTHERS: Final = tuple(worker for worker in WORKERS if worker != "dwork")
_FAILURE: Final = tuple(FACTS["failure"])
_CHUNKS: Final = tuple(FACTS["chunks"])

LOSSES: Final = (
    # Success. Where one loss covers another, the wider one stands first.
    Loss(
        "success",
        ("payload", "end", "result"),
        "A provider's job has no payload, and no line tells a provider that a worker is done: it dismisses the"
        " worker when the time is over or when it is satisfied.",
        submitters=("hire",),
    ),
    Loss(
        "success",
        ("payload", "result"),
        "A hire worker is told the type of a job and its time: PERFORM has no room for a payload, and the job"
        " is done, with an empty result, when the time is over.",
        workers=("hire",),
    ),
    Loss(
        "success", ("result",), "`delete` says that a job is done, and has no result.", workers=("beanstalkd",)
    ),
    Loss(
        "success",
        ("payload",),
        "Workers of other dialects are given the name of a dwork task, which says what to do; its origin is for"
        " dwork.",
        submitters=("dwork",),
        workers=_OTHERS,
    ),
    Loss(
        "success",
        ("result",),
        "Lookup says that a task is done and by whom; results are only in the history.",
        submitters=("dwork",),
    ),
    Loss(
        "success",
        ("result",),
        "No command asks for a result: a producer sees that the job is gone, and the result is in the history.",
        submitters=("beanstalkd",),
    ),
    # Failure.
    Loss(
        "failure",
        _FAILURE,
        "A location completes a task or gives it back: no message says that it failed.",
        workers=("dwork",),
    ),
    Loss("failure", _FAILURE, "QUIT is not a failure: the job is announced again.", workers=("hire",)),
    Loss(
        "failure",
        ("text", "code"),
        "`bury` has neither text nor number: the text is `buried`, the code 1.",
        workers=("beanstalkd",),
    ),
    Loss(
        "failure",
        ("text", "code"),
        "The status counts failed tasks; their texts and codes are in the history.",
        submitters=("dwork",),
    ),
    Loss(
        "failure",
        ("text", "code"),
        "The provider is sent QUIT in the name of the worker, which has neither text nor number.",
        submitters=("hire",),
    ),
    Loss(
        "failure",
        ("text", "code"),
        "`stats-job` says `buried`; text and code are in the history.",
        submitters=("beanstalkd",),
    ),
    Loss(
        "failure",
        ("code",),
        "WORK_EXCEPTION has a text and no number, and is for clients with the option `exceptions`; others get"
        " WORK_FAIL, without a text.",
        submitters=("gearman",),
    ),
    Loss(
        "failure",
        ("code",),
        "WORK_FAIL and WORK_EXCEPTION have no number: the code is 1.",
        workers=("gearman",),
    ),
    # Progress.
    Loss(
        "progress",
        ("progress",),
        "No message of dwork has room for progress; the log of a task has the times of its steps.",
        workers=("dwork",),
    ),
    Loss("progress", ("progress",), "A PING/PONG worker sends nothing but its result.", workers=("pingpong",)),
    Loss("progress", ("progress",), "PERFORMING says that a worker has begun, and no more.", workers=("hire",)),
    Loss("progress", ("progress",), "`touch` has no numbers.", workers=("beanstalkd",)),
    Loss(
        "progress",
        ("progress",),
        "A producer can ask where a task is, not how far it is.",
        submitters=("dwork",),
    ),
    Loss(
        "progress",
        ("progress",),
        "A PING/PONG client receives one frame, the result.",
        submitters=("pingpong",),
    ),
    Loss("progress", ("progress",), "No line tells a provider how far a worker is.", submitters=("hire",)),
    Loss("progress", ("progress",), "`stats-job` has no field for progress.", submitters=("beanstalkd",)),
    # Chunks.
    Loss("chunks", _CHUNKS, "The draft has no packet for data before the result.", workers=("draft",)),
    Loss("chunks", _CHUNKS, "A location sends nothing about a task before Complete.", workers=("dwork",)),
    Loss("chunks", _CHUNKS, "A PING/PONG worker sends nothing but its result.", workers=("pingpong",)),
    Loss("chunks", _CHUNKS, "A hire worker has no line for data.", workers=("hire",)),
    Loss("chunks", _CHUNKS, "beanstalkd has no command for data.", workers=("beanstalkd",)),
    Loss("chunks", _CHUNKS, "A dwork task has no output; the history keeps it.", submitters=("dwork",)),
    Loss("chunks", _CHUNKS, "No line tells a provider anything of a worker's data.", submitters=("hire",)),
    Loss("chunks", _CHUNKS, "No command asks for output; the history keeps it.", submitters=("beanstalkd",)),
    Loss(
        "chunks",
        ("ahead",),
        "The draft has no packet for it: the application gets the data with the result, before it.",
        submitters=("draft",),
    ),
    Loss(
        "chunks",
        ("ahead",),
        "A client receives one frame: the data, and the result behind it.",
        submitters=("pingpong",),
    ),
    # Cancel.
    Loss("cancel", ("asked",), "The draft has no packet for it.", submitters=("draft",)),
    Loss("cancel", ("asked",), "dwork has no message for it.", submitters=("dwork",)),
    Loss("cancel", ("asked",), "PING/PONG has no message for it.", submitters=("pingpong",)),
    Loss(
        "cancel",
        ("asked",),
        "`delete` cancels a job that no worker has; a job that a worker has is `NOT_FOUND`.",
        submitters=("beanstalkd",),
    ),
    Loss(
        "cancel",
        ("asked",),
        "Nobody waits for the job of a schedule: who wants to cancel it does so by its id.",
        submitters=("schedule",),
    ),
    Loss(
        "cancel",
        ("told", "prompt"),
        "PING/PONG has no message for it: the worker goes on, and its result is dropped.",
        workers=("pingpong",),
    ),
    Loss(
        "cancel",
        ("prompt",),
        "No packet tells a Gearman worker: its next report is answered with JOB_NOT_FOUND.",
        workers=("gearman",),
    ),
    Loss(
        "cancel",
        ("prompt",),
        "No packet tells a worker of the draft: its next report is answered with error 9.",
        workers=("draft",),
    ),
    Loss(
        "cancel",
        ("prompt",),
        "The hall speaks to a location only when it is asked: Complete is answered with NotFound.",
        workers=("dwork",),
    ),
    Loss(
        "cancel",
        ("prompt",),
        "The hall answers, and says nothing by itself: `delete`, `bury` and `touch` are `NOT_FOUND`.",
        workers=("beanstalkd",),
    ),
    # Needs.
    Loss(
        "needs",
        ("asked",),
        "The protocol has no field for what a job needs: the queue has it, by `[[queue]]` or `needs`.",
        submitters=("gearman", "draft", "dwork", "pingpong", "wmp", "beanstalkd"),
    ),
    Loss(
        "needs",
        ("stated",),
        "The protocol has no field for the skill of a worker: `[[worker]]` has it, by the worker's name, or an"
        " operator sets it.",
        workers=("gearman", "draft", "dwork", "pingpong", "beanstalkd"),
    ),
    # Resources.
    Loss(
        "resources",
        ("asked",),
        "The protocol has no field for the resources that a job needs: its jobs need none.",
        submitters=("gearman", "draft", "dwork", "pingpong", "wmp", "hire", "beanstalkd"),
    ),
    Loss(
        "resources",
        ("given",),
        "The protocol has no field for the resources of a worker: its workers get only jobs that need none.",
        workers=("gearman", "draft", "dwork", "pingpong", "hire", "beanstalkd"),
    ),
    # Limits.
    Loss(
        "limits",
        ("full",),
        "A manager is not refused: the hall gives the job back, or does not take it, and it stays with its"
        " manager until there is room.",
        submitters=("wmp",),
    ),
    Loss(
        "limits",
        ("full",),
        "A provider keeps its job until it has hired a worker: only then it counts in the hall.",
        submitters=("hire",),
    ),
    # Keys.
    Loss(
        "key", ("joined", "shown"), "A PING/PONG job is its payload, without a key.", submitters=("pingpong",)
    ),
    Loss(
        "key",
        ("joined", "shown"),
        "The id of a provider's job is the provider's own: nobody else can join the job.",
        submitters=("hire",),
    ),
    Loss("key", ("joined", "shown"), "`put` has no key.", submitters=("beanstalkd",)),
    Loss("key", ("shown",), "job_assign_res has no room for a key.", workers=("draft",)),
    Loss("key", ("shown",), "A PING/PONG worker is sent the payload alone.", workers=("pingpong",)),
    Loss(
        "key", ("shown",), "A hire worker knows a job by the id that it was announced with.", workers=("hire",)
    ),
    Loss("key", ("shown",), "A beanstalkd worker is given an id and the body.", workers=("beanstalkd",)),
)


def expected(cell: Cell) -> frozenset[str]:
    """The facts that hold."""
    lost = {fact for loss in LOSSES if loss.concerns(cell) for fact in loss.facts}
    return frozenset(FACTS[cell.aspect]) - lost


def reasons(cell: Cell) -> list[Loss]:
    """The losses that explain a cell, without those that others cover."""
    found: list[Loss] = []
    covered: set[str] = set()
    for loss in LOSSES:
        if loss.concerns(cell) and not covered.issuperset(loss.facts):
            covered.update(loss.facts)
            found.append(loss)
    return found
