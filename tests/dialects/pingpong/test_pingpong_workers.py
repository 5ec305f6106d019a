"""The backend, line by line as the protocol has it, and then where it is silent."""

from __future__ import annotations

import pytest

from hiringhall.core.jobs import JobSpec
from hiringhall.core.limits import SECOND_US, Limits
from hiringhall.core.states import CALLED_OFF, FAILED, FAILURE, LOST, QUEUED
from hiringhall.core.terms import Terms
from hiringhall.dialects.pingpong.context import PingPongContext, PingPongOptions
from stage.pingpong import EXPIRE_US, JOB_TIMEOUT_US, PingPongHall

# --- "Worker is ready"


def test_ready_puts_a_worker_into_the_queue(hall: PingPongHall) -> None:
    worker = hall.worker().say(b"READY")
    assert hall.is_ready(worker)
    assert worker.hears() == []


def test_ready_twice_is_ready_once(hall: PingPongHall) -> None:
    worker = hall.worker().say(b"READY", b"READY").say(b"READY")
    client = hall.client().say(b"one", b"two")
    assert worker.hears() == [b"one"]
    assert client.hears() == []


# --- "Worker sends PING"


def test_ping_is_answered_with_pong(hall: PingPongHall) -> None:
    worker = hall.ready_worker()
    assert worker.say(b"PING").hears() == [b"PONG"]
    assert worker.say(b"PING", b"PING", b"PING").hears() == [b"PONG"] * 3


def test_ping_of_a_worker_that_is_not_in_the_queue_puts_it_there(hall: PingPongHall) -> None:
    worker = hall.worker().say(b"PING")
    assert worker.hears() == [b"PONG"]
    assert hall.is_ready(worker)


def test_a_burst_of_pings_is_one_credit(hall: PingPongHall) -> None:
    hall.client().say(b"one", b"two")
    worker = hall.worker().say(b"PING", b"PING", b"PING")
    assert worker.hears() == [b"PONG", b"PONG", b"PONG", b"one"]


def test_answers_keep_their_order(hall: PingPongHall) -> None:
    hall.client().say(b"one", b"two")
    worker = hall.ready_worker()
    assert worker.hears() == [b"one"]
    assert worker.say(b"PING", b"done", b"PING").hears() == [b"PONG", b"PONG", b"two"]


# --- "Broker assign job to worker"


def test_a_job_and_its_result(hall: PingPongHall) -> None:
    worker, client = hall.ready_worker(), hall.client()
    client.say(b"a job")
    assert worker.hears() == [b"a job"]
    assert not hall.is_ready(worker), "it was popped from the queue"
    worker.say(b"a result")
    assert client.hears() == [b"a result"]
    assert hall.is_ready(worker)


def test_workers_are_popped_in_the_order_in_which_they_became_ready(hall: PingPongHall) -> None:
    first, second, third = hall.ready_worker(), hall.ready_worker(), hall.ready_worker()
    first.say(b"PING").hears()
    hall.client().say(b"1", b"2")
    assert (first.hears(), second.hears(), third.hears()) == ([b"1"], [b"2"], [])
    first.say(b"done")
    hall.client().say(b"3", b"4")
    assert (third.hears(), first.hears()) == ([b"3"], [b"4"])


@pytest.mark.parametrize(
    "payload", [b"", b"\0", b"PONG ", b"pong", b"READY", b"PING", b"ERROR 1 x", b"x" * 10**6]
)
def test_any_payload_but_one_is_sent_as_it_is(hall: PingPongHall, payload: bytes) -> None:
    worker = hall.ready_worker()
    hall.client().say(payload)
    assert worker.hears() == [payload]


@pytest.mark.parametrize(
    "result", [b"", b"\0", b"PONG", b"ping", b"READY\n", b"ERROR", b"ERROR 0 x", b"x" * 10**6]
)
def test_any_result_but_the_workers_own_words_is_a_result(hall: PingPongHall, result: bytes) -> None:
    worker, client = hall.ready_worker(), hall.client().say(b"job")
    worker.say(result)
    assert client.hears() == [result]
    assert hall.scheduler.counters.done == 1


# --- "Worker timeout"


def test_a_silent_worker_leaves_the_queue_and_is_sent_no_job(hall: PingPongHall) -> None:
    worker = hall.ready_worker()
    hall.wait(EXPIRE_US - 1)
    assert hall.is_ready(worker)
    hall.wait(1)
    assert not hall.is_ready(worker)
    assert not hall.scheduler.workers
    hall.client().say(b"job")
    assert worker.hears() == []


@pytest.mark.parametrize("word", [b"PING", b"READY", b"a late result"])
def test_any_message_puts_the_expiry_off(hall: PingPongHall, word: bytes) -> None:
    worker = hall.ready_worker()
    for _ in range(3):
        hall.wait(EXPIRE_US - 1)
        worker.say(word)
    hall.wait(EXPIRE_US - 1)
    assert hall.is_ready(worker)
    hall.wait(1)
    assert not hall.is_ready(worker)


@pytest.mark.parametrize("word", [b"PING", b"READY", b"a late result"])
def test_any_message_brings_an_expired_worker_back(hall: PingPongHall, word: bytes) -> None:
    worker = hall.ready_worker()
    hall.wait(10 * EXPIRE_US)
    worker.say(word)
    assert hall.is_ready(worker)


def test_a_working_worker_may_be_silent(hall: PingPongHall) -> None:
    worker, client = hall.ready_worker(), hall.client().say(b"long")
    hall.wait(JOB_TIMEOUT_US - 1)
    worker.say(b"done")
    assert client.hears() == [b"done"]
    assert hall.is_ready(worker)
    hall.wait(EXPIRE_US)
    assert not hall.is_ready(worker), "once it is idle its silence counts again"


# --- what the protocol has no mechanism for


def test_a_job_whose_worker_is_silent_too_long_is_sent_to_another(hall: PingPongHall) -> None:
    silent, client = hall.ready_worker(), hall.client().say(b"job")
    assert silent.hears() == [b"job"]
    hall.wait(JOB_TIMEOUT_US - 1)
    other = hall.ready_worker()
    assert other.hears() == []
    hall.wait(1)
    assert other.hears() == [b"job"]
    other.say(b"done")
    assert client.hears() == [b"done"]


def test_a_worker_that_is_lost_with_its_job_is_known_no_more(hall: PingPongHall) -> None:
    hall.ready_worker()
    hall.client().say(b"job")
    hall.wait(JOB_TIMEOUT_US + EXPIRE_US)
    assert not hall.scheduler.workers


def test_a_job_that_loses_three_workers_has_failed(hall: PingPongHall) -> None:
    client = hall.client().say(b"deadly")
    for _ in range(3):
        assert client.hears() == []
        assert hall.ready_worker().hears() == [b"deadly"]
        hall.wait(JOB_TIMEOUT_US)
    assert client.hears() == [b"ERROR %d its workers were lost 3 times" % LOST]


def test_a_ping_of_a_working_worker_is_a_sign_of_life_and_no_second_credit(hall: PingPongHall) -> None:
    worker, client = hall.ready_worker(), hall.client().say(b"long", b"next")
    assert worker.hears() == [b"long"]
    for _ in range(3):
        hall.wait(JOB_TIMEOUT_US - 1)
        assert worker.say(b"PING").hears() == [b"PONG"]
    worker.say(b"done")
    assert client.hears() == [b"done"]
    assert worker.hears() == [b"next"]


def test_ready_from_a_worker_that_has_a_job_is_a_loss_of_that_job(hall: PingPongHall) -> None:
    worker, client = hall.ready_worker(), hall.client().say(b"job")
    other = hall.ready_worker()
    job = worker.lease().job
    worker.hears()
    worker.say(b"READY")
    assert (job.losses, job.attempts) == (1, 2)
    assert other.hears() == [b"job"], "it went behind the one that was ready before"
    assert hall.is_ready(worker)
    other.say(b"done")
    assert client.hears() == [b"done"]


def test_a_job_that_ends_its_worker_each_time_fails_and_the_job_behind_it_is_done(hall: PingPongHall) -> None:
    worker, client = hall.ready_worker(), hall.client().say(b"deadly", b"harmless")
    for _ in range(hall.context.options.losses_max):
        assert worker.hears() == [b"deadly"]
        worker.say(b"READY")
    assert client.hears() == [b"ERROR %d its workers were lost 3 times" % LOST]
    assert worker.hears() == [b"harmless"]
    worker.say(b"done")
    assert client.hears() == [b"done"]


def test_a_worker_alone_is_sent_its_own_job_again(hall: PingPongHall) -> None:
    worker = hall.ready_worker()
    hall.client().say(b"job", b"later")
    worker.say(b"READY")
    assert worker.hears() == [b"job", b"job"]


def test_a_result_out_of_nowhere_makes_a_worker(hall: PingPongHall) -> None:
    """As after a restart of the hall: the worker has a job of the hall before."""
    worker = hall.worker().say(b"of another hall")
    assert hall.is_ready(worker)
    assert hall.scheduler.counters.stale == 1


def test_a_ping_that_was_under_way_cannot_pass_one_jobs_result_off_as_anothers(hall: PingPongHall) -> None:
    """The hall was stopped. A PING from before the job, and its result, are there when it goes on."""
    worker, client = hall.ready_worker(), hall.client().say(b"first", b"second")
    assert worker.hears() == [b"first"]
    hall.wait(JOB_TIMEOUT_US)
    assert worker.say(b"PING").hears() == [b"PONG"]
    assert not hall.is_ready(worker)
    worker.say(b"result of first")
    assert client.hears() == [b"result of first"]
    assert worker.hears() == [b"second"], "it has answered, so it is sent a job again"


@pytest.mark.parametrize("answer", [b"READY", b"result of the job"])
def test_a_worker_that_has_answered_owes_nothing_any_more(hall: PingPongHall, answer: bytes) -> None:
    worker = hall.ready_worker()
    hall.client().say(b"job")
    hall.wait(JOB_TIMEOUT_US)
    hall.ready_worker()
    worker.say(answer)
    hall.wait(EXPIRE_US)
    assert not hall.is_ready(worker)
    worker.say(b"PING")
    assert hall.is_ready(worker)


def test_a_worker_that_only_pings_after_its_job_was_taken_is_ready_after_a_while(hall: PingPongHall) -> None:
    """It never had the job: the message was lost."""
    worker = hall.ready_worker()
    hall.client().say(b"job")
    worker.hears()
    hall.wait(JOB_TIMEOUT_US)
    waited_us = 0
    while worker.say(b"PING").hears() == [b"PONG"]:
        hall.wait(SECOND_US)
        waited_us += SECOND_US
    assert waited_us == JOB_TIMEOUT_US
    assert worker.lease().job.losses == 1


def test_a_worker_whose_job_was_cancelled_is_ready_when_it_answers(hall: PingPongHall) -> None:
    worker, client = hall.ready_worker(), hall.client().say(b"job", b"next")
    hall.scheduler.cancel(worker.lease().job, b"not needed")
    assert worker.hears() == [b"job"]
    assert client.hears() == [b"ERROR cancelled not needed"]
    worker.say(b"for nothing")
    assert worker.hears() == [b"next"]
    assert client.hears() == []


def test_a_pinging_worker_that_owes_a_result_is_forgotten_when_it_falls_silent(hall: PingPongHall) -> None:
    worker = hall.ready_worker()
    hall.client().say(b"job")
    hall.wait(JOB_TIMEOUT_US + EXPIRE_US)
    assert worker.say(b"PING").hears() == [b"job", b"PONG"]
    assert len(hall.scheduler.workers) == 1
    hall.wait(EXPIRE_US)
    assert not hall.scheduler.workers


# --- failures


@pytest.mark.parametrize(
    ("result", "code"), [(b"ERROR 1 broke", 1), (b"ERROR 77 \xff", 77), (b"ERROR 255 ", 255)]
)
def test_a_result_that_says_error_is_a_failure_and_reaches_the_client_as_it_is(
    hall: PingPongHall, result: bytes, code: int
) -> None:
    worker, client = hall.ready_worker(), hall.client().say(b"job")
    job = worker.lease().job
    worker.say(result)
    assert (job.state, job.code) == (FAILED, code)
    assert client.hears() == [result]
    assert hall.is_ready(worker)


def test_an_error_that_only_the_hall_gives_is_a_result_when_a_worker_sends_it(hall: PingPongHall) -> None:
    worker, client = hall.ready_worker(), hall.client().say(b"job")
    worker.say(b"ERROR closing says the worker")
    assert hall.scheduler.counters.done == 1
    assert client.hears() == [b"ERROR closing says the worker"]


# --- jobs of other doors


def test_a_job_of_another_door(hall: PingPongHall) -> None:
    job, watcher = hall.submit_elsewhere(b"from elsewhere")
    worker = hall.ready_worker(b"named")
    assert worker.hears() == [b"from elsewhere"]
    worker.say(b"done here")
    assert watcher.hears() == [("done 0", b"done here")]
    assert job.worker_name == b"named"


def test_a_failure_of_a_job_of_another_door(hall: PingPongHall) -> None:
    _, watcher = hall.submit_elsewhere(b"from elsewhere")
    hall.ready_worker().say(b"ERROR 3 no luck")
    assert watcher.hears() == [("failed 3", b"no luck")]


def test_a_job_of_another_door_that_sets_no_time_has_ours(hall: PingPongHall) -> None:
    job, _ = hall.submit_elsewhere(b"from elsewhere")
    worker = hall.ready_worker()
    worker.hears()
    hall.wait(JOB_TIMEOUT_US)
    assert job.lease is worker.lease(), "the time runs from the worker's last word, so it gets a little more"
    hall.wait(EXPIRE_US)
    assert (job.state, job.losses) == (QUEUED, 1)
    assert not hall.scheduler.workers
    assert hall.ready_worker().hears() == [b"from elsewhere"]


def test_signs_of_life_keep_a_job_of_another_door(hall: PingPongHall) -> None:
    job, watcher = hall.submit_elsewhere(b"from elsewhere")
    worker = hall.ready_worker()
    for _ in range(5):
        hall.wait(JOB_TIMEOUT_US)
        worker.say(b"PING")
    worker.say(b"done")
    assert watcher.hears() == [("done 0", b"done")]
    assert job.attempts == 1
    hall.wait(EXPIRE_US)
    assert not hall.is_ready(worker), "idle again, its silence counts as it did before"


def test_a_job_of_another_door_with_its_own_time_keeps_it(hall: PingPongHall) -> None:
    job, _ = hall.submit_elsewhere(b"from elsewhere", Terms(lease_us=7 * SECOND_US))
    hall.ready_worker()
    hall.wait(7 * SECOND_US - 1)
    assert job.lease is not None
    hall.wait(1)
    assert job.lease is None


@pytest.mark.parametrize("word", [b"PING", b"READY", b"a late result"])
def test_the_payload_pong_is_not_sent_and_fails_at_the_workers_next_word(
    hall: PingPongHall, word: bytes
) -> None:
    _, watcher = hall.submit_elsewhere(b"PONG")
    worker = hall.ready_worker()
    assert worker.hears() == []
    assert watcher.hears() == []
    worker.say(word)
    ((end, text),) = watcher.hears()
    assert end == f"failed {FAILURE}"
    assert b"PONG cannot be sent" in text
    assert worker.hears() == ([b"PONG"] if word == b"PING" else [])
    assert hall.is_ready(worker)


def test_the_payload_pong_at_a_worker_that_is_gone_goes_to_another(hall: PingPongHall) -> None:
    job, watcher = hall.submit_elsewhere(b"PONG", Terms(lease_us=SECOND_US))
    hall.ready_worker()
    hall.wait(SECOND_US)
    assert job.losses == 1
    hall.ready_worker().say(b"PING")
    assert watcher.hears()[0][0] == f"failed {FAILURE}"


def test_a_worker_whose_unsayable_job_is_cancelled_owes_nothing(hall: PingPongHall) -> None:
    job, watcher = hall.submit_elsewhere(b"PONG")
    worker = hall.ready_worker()
    hall.scheduler.cancel(job)
    assert watcher.hears() == [(f"cancelled {CALLED_OFF}", b"")]
    worker.say(b"PING")
    assert hall.is_ready(worker)


# --- names, bounds, the end


@pytest.mark.parametrize(("identity", "name"), [(b"worker-7", b"worker-7"), (b"\x00k\x8bEg", b"006b8b4567")])
def test_a_workers_name_is_its_identity(hall: PingPongHall, identity: bytes, name: bytes) -> None:
    worker = hall.ready_worker(identity)
    assert worker.session.worker is not None
    assert worker.session.worker.name == name


def test_a_hall_without_room_for_the_queue_takes_the_worker_later() -> None:
    hall = PingPongHall(limits=Limits(queues_max=1))
    hall.scheduler.submit(JobSpec(b"another queue", b"", terms=Terms(detached=True)), None)
    worker = hall.worker().say(b"READY", b"PING")
    assert worker.hears() == [b"PONG"]
    assert not hall.is_ready(worker)
    hall.scheduler.cancel(next(iter(hall.scheduler.jobs.values())))
    hall.wait(2 * SECOND_US)
    worker.say(b"PING")
    assert hall.is_ready(worker)


def test_a_closing_hall_answers_pings_and_takes_results_but_gives_no_jobs(hall: PingPongHall) -> None:
    busy, client = hall.ready_worker(), hall.client().say(b"running")
    idle = hall.ready_worker()
    hall.submit_elsewhere(b"waiting", Terms(detached=True))
    idle.hears()
    idle.say(b"done")
    hall.scheduler.close()
    hall.submit_elsewhere(b"waits for the next hall", Terms(durable=True, detached=True))
    assert idle.say(b"PING").hears() == [b"PONG"]
    busy.say(b"finished")
    assert client.hears() == [b"finished"]
    assert busy.hears() == [b"running"]


@pytest.mark.parametrize(
    "options",
    [PingPongOptions(queue=b""), PingPongOptions(expire_us=0), PingPongOptions(job_timeout_us=0)],
)
def test_a_door_refuses_options_that_cannot_work(options: PingPongOptions) -> None:
    with pytest.raises(ValueError, match=r"queue|timeout"):
        PingPongContext(PingPongHall().scheduler, options)


def test_the_terms_of_a_doors_jobs() -> None:
    options = PingPongOptions(job_timeout_us=3, losses_max=7, durable=True)
    terms = PingPongContext(PingPongHall().scheduler, options).terms
    assert (terms.lease_us, terms.losses_max, terms.durable, terms.detached) == (3, 7, True, True)
