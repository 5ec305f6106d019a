"""The table of routes: everything that the HTTP API can be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET
from starlette.responses import Response

from hiringhall.web import (
    bodies,
    bulk,
    charts,
    downloads,
    events,
    flows,
    hall_shapes,
    history,
    job_events,
    job_shapes,
    jobs,
    openapi,
    overview,
    questions,
    queues,
    schedules,
    shapes,
    submitting,
    workers,
)
from hiringhall.web.openapi import PREFIX
from hiringhall.web.route import BYTES, EVENTS, JSON, Route

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hiringhall.web.calls import Call

__all__ = ["API", "PREFIX"]


async def document(call: Call) -> Response:
    """The OpenAPI document of this table."""
    del call
    return Response(openapi.encoded(API), media_type=JSON)


def get(path: str, summary: str, handler: Callable[[Call], Awaitable[Any]], answer: Any, **more: Any) -> Route:
    """A route that every role may use."""
    return Route("GET", path, "viewer", summary, handler, answer, **more)


def listed(
    path: str, summary: str, handler: Callable[[Call], Awaitable[Any]], answer: Any, query: Any
) -> Route:
    """A list that can be downloaded, too."""
    name = path.strip("/")

    async def paged(call: Call) -> Any:
        if call.query.format is not UNSET:
            return await downloads.download(call, name, handler)
        return await handler(call)

    return get(path, summary, paged, answer, query=query, download=True)


def post(path: str, summary: str, handler: Callable[[Call], Awaitable[Any]], answer: Any, **more: Any) -> Route:
    """A change that an operator may make."""
    more.setdefault("errors", (404, 409))
    return Route("POST", path, more.pop("role", "operator"), summary, handler, answer, **more)


GONE: Final = (404, 410)

API: Final = (
    get("/hall", "The hall, and who asks", overview.hall, shapes.HallShape),
    get("/summary", "Counts of the hall and of its most active queues", overview.summary, shapes.Summary),
    get("/events", "Summaries as they change", events.summaries, None, media=EVENTS),
    get("/doors", "Where the hall listens", overview.doors, hall_shapes.DoorList),
    get(
        "/auctions",
        "Announced jobs, and who was hired lately",
        overview.auctions,
        hall_shapes.AuctionList,
        query=questions.Page,
    ),
    Route("GET", "/settings", "admin", "The settings", overview.settings, hall_shapes.SettingList),
    Route(
        "GET",
        "/audit",
        "admin",
        "Who changed what, the latest first",
        overview.audit,
        hall_shapes.AuditList,
        questions.AuditQuestion,
    ),
    get("/openapi.json", "This API as an OpenAPI document", document, None),
    # Queues
    listed("/queues", "Queues", queues.queues, shapes.QueueList, questions.QueuesQuestion),
    get("/queues/{name}", "One queue", queues.queue, shapes.Queue, errors=(404,)),
    post("/queues/{name}/pause", "Start no more jobs of a queue", queues.pause, shapes.Queue),
    post("/queues/{name}/resume", "Start jobs of a queue again", queues.resume, shapes.Queue),
    get("/queues/{name}/rules", "The limits of a queue", queues.rules, shapes.QueueRules, errors=(404,)),
    Route(
        "PUT",
        "/queues/{name}/rules",
        "operator",
        "Set the limits of a queue, in place of all that it has",
        queues.set_rules,
        shapes.QueueRules,
        body=bodies.NewRules,
        errors=(409,),
    ),
    Route(
        "DELETE",
        "/queues/{name}/rules",
        "operator",
        "Go back to the limits of the settings",
        queues.clear_rules,
        shapes.QueueRules,
    ),
    post(
        "/queues/{name}/retry",
        "Retry all dead letters of a queue",
        bulk.retry_queue,
        job_shapes.Retried,
        body=bodies.QueueRetry,
        body_required=False,
    ),
    # Jobs
    listed("/jobs", "Live jobs, the oldest first", jobs.jobs, job_shapes.JobList, questions.JobsQuestion),
    get("/jobs/count", "How many live jobs match", jobs.count, job_shapes.JobCount, query=questions.JobsCount),
    post(
        "/jobs",
        "Submit jobs",
        submitting.submit,
        job_shapes.Submitted,
        body=bodies.Submission,
        status=201,
    ),
    post("/jobs/cancel", "Cancel many jobs", bulk.cancel, job_shapes.Changed, body=bodies.BulkCancel),
    post("/jobs/retry", "Retry many dead letters", bulk.retry, job_shapes.Changed, body=bodies.BulkRetry),
    get("/jobs/{id}", "One job, live or ended", jobs.job, job_shapes.Job, errors=GONE),
    get(
        "/jobs/{id}/result",
        "The bytes of the result",
        jobs.result,
        None,
        query=questions.WaitQuestion,
        media=BYTES,
        also=((202, job_shapes.JobLine),),
        errors=(*GONE, 409),
    ),
    get("/jobs/{id}/payload", "The bytes of the payload", jobs.payload, None, media=BYTES, errors=GONE),
    get(
        "/jobs/{id}/output",
        "What the workers of a job said",
        jobs.output,
        job_shapes.Output,
        query=questions.OutputQuestion,
        errors=GONE,
    ),
    get("/jobs/{id}/events", "A job as it changes", job_events.events, None, media=EVENTS, errors=GONE),
    post(
        "/jobs/{id}/cancel",
        "Cancel a job",
        jobs.cancel,
        job_shapes.Job,
        body=bodies.Reason,
        body_required=False,
        errors=(*GONE, 409),
    ),
    post("/jobs/{id}/retry", "Retry a dead letter", jobs.retry, job_shapes.Job, errors=(*GONE, 409)),
    # History
    listed(
        "/history", "Ended jobs, the newest first", history.lines, job_shapes.JobList, questions.HistoryQuestion
    ),
    get(
        "/history/count",
        "How many ended jobs match",
        history.count,
        job_shapes.JobCount,
        query=questions.HistoryCount,
    ),
    get("/history/chart", "Ends over time", charts.chart, hall_shapes.Chart, query=questions.ChartQuestion),
    # Workers
    listed("/workers", "Workers", workers.workers, hall_shapes.WorkerList, questions.WorkersQuestion),
    get("/workers/{number}", "One worker", workers.worker, hall_shapes.Worker, errors=(404,)),
    post("/workers/{number}/drain", "Give a worker no more jobs", workers.drain, hall_shapes.Worker),
    post("/workers/{number}/undrain", "Give a worker jobs again", workers.undrain, hall_shapes.Worker),
    # Flows
    listed("/flows", "Flows, the newest first", flows.flows, hall_shapes.FlowList, questions.FlowsQuestion),
    get("/flows/{name}", "One flow", flows.flow, hall_shapes.Flow, errors=(404,)),
    get("/flows/{name}/graph", "The jobs of a flow", flows.graph, hall_shapes.Graph, errors=(404,)),
    post("/flows/{name}/cancel", "Cancel what is left of a flow", flows.cancel, hall_shapes.Flow),
    post("/flows/{name}/retry", "Retry what failed of a flow", flows.retry, hall_shapes.Flow),
    get(
        "/graph",
        "The live jobs that are connected with one",
        flows.around,
        hall_shapes.Graph,
        query=questions.GraphQuestion,
        errors=GONE,
    ),
    # Schedules
    listed("/schedules", "Schedules", schedules.schedules, hall_shapes.ScheduleList, questions.Page),
    post(
        "/schedules",
        "Add a schedule",
        schedules.add,
        hall_shapes.Schedule,
        body=bodies.NewSchedule,
        role="admin",
        status=201,
    ),
    Route(
        "DELETE",
        "/schedules/{name}",
        "admin",
        "Remove a schedule",
        schedules.remove,
        hall_shapes.Done,
        errors=(404, 409),
    ),
    post("/schedules/{name}/pause", "Let a schedule rest", schedules.pause, hall_shapes.Schedule),
    post("/schedules/{name}/resume", "Let a schedule go on", schedules.resume, hall_shapes.Schedule),
    post("/schedules/{name}/run", "Submit the job of a schedule now", schedules.run, hall_shapes.Fired),
)
