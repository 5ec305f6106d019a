"""The worker at a broker that does as the test says: present, silent, late, gone and back."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest
import zmq
from pingpong_broker import Broker

from hiringhall.peers.pingpong import Curve, JobFailed, Worker
from stage.stopwatch import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Iterator

PING_S = 0.1
TIMEOUT_S = 0.4
N_TIMEOUTS = 3
SILENCE_S = TIMEOUT_S * N_TIMEOUTS
MUCH = 4 << 20
"""So often repeated, a word is too much for the buffers of a socket."""


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def hasty(address: str, ping_s: float = PING_S) -> Worker:
    """A worker that turns jobs round, and is soon out of patience."""
    return Worker(
        address,
        lambda job: job[::-1],
        ping_s=ping_s,
        broker_timeout_s=TIMEOUT_S,
        n_timeouts=N_TIMEOUTS,
    )


def patient(address: str, ping_s: float = 60.0) -> Worker:
    """A worker that says nothing by itself for as long as a test lasts."""
    return Worker(address, lambda job: job[::-1], ping_s=ping_s, broker_timeout_s=60.0)


def test_its_first_word_is_ready_then_it_pings(broker: Broker) -> None:
    with hasty(broker.address):
        peer = broker.welcome()
        for _ in range(5):
            broker.hear_from(peer, b"", b"PING")
            broker.say(peer, b"", b"PONG")


def test_pings_come_at_their_interval(broker: Broker) -> None:
    with Worker(broker.address, bytes, ping_s=0.2, broker_timeout_s=60.0):
        peer = broker.welcome()
        started_s = time.monotonic()
        with Stopwatch() as watch:
            for _ in range(3):
                broker.hear_from(peer, b"", b"PING")
        assert time.monotonic() - started_s > 0.55
        assert watch.elapsed_s < 2.0


def test_a_job_is_answered_with_its_result(broker: Broker) -> None:
    with patient(broker.address):
        peer = broker.welcome()
        for job in (b"abc", b"", b"READY", b"PING", b"pong"):
            broker.say(peer, b"", job)
            broker.hear_from(peer, b"", job[::-1])


def test_pong_is_no_job(broker: Broker) -> None:
    with patient(broker.address):
        peer = broker.welcome()
        broker.say(peer, b"", b"PONG")
        broker.say(peer, b"", b"abc")
        broker.hear_from(peer, b"", b"cba")


def test_jobs_are_done_one_after_the_other(broker: Broker) -> None:
    with patient(broker.address):
        peer = broker.welcome()
        broker.say(peer, b"", b"12")
        broker.say(peer, b"", b"34")
        broker.hear_from(peer, b"", b"21")
        broker.hear_from(peer, b"", b"43")


def test_it_does_not_ping_while_it_works_and_is_not_impatient_afterwards(broker: Broker) -> None:
    entered, gate = threading.Event(), threading.Event()

    def work(job: bytes) -> bytes:
        entered.set()
        gate.wait(30)
        return job

    worker = Worker(broker.address, work, ping_s=PING_S, broker_timeout_s=TIMEOUT_S, n_timeouts=N_TIMEOUTS)
    with worker:
        try:
            peer = broker.welcome()
            broker.say(peer, b"", b"long")
            assert entered.wait(10)
            while not broker.is_silent(0.05):
                broker.hear_from(peer, b"", b"PING")  # it met the job on its way
            assert broker.is_silent(1.5 * SILENCE_S)
        finally:
            gate.set()
        broker.hear_from(peer, b"", b"long")
        # The work took longer than N_TIMEOUTS periods, and the socket is still the same.
        broker.hear_from(peer, b"", b"PING")


def test_a_silent_broker_gets_ready_from_a_new_socket_after_n_timeouts(broker: Broker) -> None:
    with hasty(broker.address, ping_s=60.0):
        first = broker.welcome()
        started_s = time.monotonic()
        with Stopwatch() as watch:
            second = broker.welcome()
        assert time.monotonic() - started_s > SILENCE_S - 0.05
        assert watch.elapsed_s < SILENCE_S + 1.0
        assert second != first
        assert broker.loses(first), "the old socket is closed"
        assert broker.welcome() not in {first, second}, "and so on, as long as it takes"


def test_one_timeout_can_be_enough(broker: Broker) -> None:
    with Worker(broker.address, bytes, ping_s=0.1, broker_timeout_s=1.0, n_timeouts=1):
        first = broker.welcome()
        started_s = time.monotonic()
        with Stopwatch() as watch:
            while (heard := broker.hear()) == [first, b"", b"PING"]:
                pass
        assert heard[1:] == [b"", b"READY"]
        assert time.monotonic() - started_s > 0.9
        assert watch.elapsed_s < 1.9


@pytest.mark.parametrize("word", [b"PONG", b"a job"])
def test_any_message_starts_the_count_again(broker: Broker, word: bytes) -> None:
    with hasty(broker.address, ping_s=60.0):
        peer = broker.welcome()
        for _ in range(3):
            assert broker.is_silent(SILENCE_S / 2)
            broker.say(peer, b"", word)
            if word != b"PONG":
                broker.hear_from(peer, b"", word[::-1])
        said_s = time.monotonic()
        assert broker.welcome() != peer
        assert time.monotonic() - said_s > SILENCE_S - 0.1, "all periods, from the last message on"


def test_a_broker_that_answers_keeps_the_connection(broker: Broker) -> None:
    with hasty(broker.address):
        peer = broker.welcome()
        assert broker.pings_until(peer, time.monotonic() + 2 * SILENCE_S) >= 3


def test_a_broker_that_answers_late_but_within_the_count_keeps_it(broker: Broker) -> None:
    with hasty(broker.address, ping_s=SILENCE_S / 3):
        peer = broker.welcome()
        for _ in range(3):
            broker.hear_from(peer, b"", b"PING")
            broker.hear_from(peer, b"", b"PING")
            broker.say(peer, b"", b"PONG")


def test_a_broker_that_answers_too_late_talks_to_nobody(broker: Broker) -> None:
    with hasty(broker.address, ping_s=60.0):
        first = broker.welcome()
        second = broker.welcome()
        assert broker.loses(first), "its socket is closed"
        broker.say(second, b"", b"in time")
        broker.hear_from(second, b"", b"emit ni")


def test_a_broker_that_was_restarted_hears_of_the_worker_again() -> None:
    with Broker() as before:
        worker = hasty(before.address)
        with worker:
            before.welcome()
            before.close()
            with Broker(before.address) as after:
                while True:
                    peer, *frames = after.hear()
                    if frames == [b"", b"READY"]:
                        break
                    assert frames == [b"", b"PING"], "its old socket may have found the way back first"
                after.say(peer, b"", b"abc")
                while (heard := after.hear())[1:] == [b"", b"PING"]:
                    pass
                assert heard == [peer, b"", b"cba"]


def test_a_worker_that_comes_before_its_broker() -> None:
    with Broker() as chosen:
        address = chosen.address
    with hasty(address), Broker(address) as broker:
        assert broker.welcome()


def test_a_handler_that_raises_is_a_failure_with_its_text(broker: Broker) -> None:
    def fail(job: bytes) -> bytes:
        if job == b"chosen":
            raise JobFailed(b"on purpose", 77)
        raise ValueError(f"cannot do {job.decode(errors='surrogateescape')}")

    with Worker(broker.address, fail, ping_s=60.0, broker_timeout_s=60.0):
        peer = broker.welcome()
        broker.say(peer, b"", b"this")
        broker.hear_from(peer, b"", b"ERROR 1 ValueError: cannot do this")
        broker.say(peer, b"", b"\xff")
        broker.hear_from(peer, b"", b"ERROR 1 ValueError: cannot do \\udcff")
        broker.say(peer, b"", b"chosen")
        broker.hear_from(peer, b"", b"ERROR 77 on purpose")


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (None, b""),
        (bytearray(b"x"), b"x"),
        (memoryview(b"x"), b"x"),
        ("text", b"ERROR 1 TypeError: a handler must return bytes or None, not str"),
        (
            b"READY",
            b"ERROR 1 ValueError: the result READY is not allowed: the broker would read it as a command",
        ),
        (b"PING", b"ERROR 1 ValueError: the result PING is not allowed: the broker would read it as a command"),
        (b"PONG", b"PONG"),
    ],
)
def test_what_a_handler_may_return(broker: Broker, returned: bytes, said: bytes) -> None:
    with Worker(broker.address, lambda _: returned, ping_s=60.0, broker_timeout_s=60.0):
        peer = broker.welcome()
        broker.say(peer, b"", b"job")
        broker.hear_from(peer, b"", said)


def test_a_message_of_another_protocol_is_passed_over(broker: Broker) -> None:
    with patient(broker.address):
        peer = broker.welcome()
        broker.say(peer, b"no empty frame")
        broker.say(peer, b"x", b"not empty")
        broker.say(peer, b"", b"one", b"too many")
        broker.say(peer, b"", b"abc")
        broker.hear_from(peer, b"", b"cba")


def test_an_identity_of_its_own(broker: Broker) -> None:
    worker = Worker(broker.address, bytes, ping_s=60.0, broker_timeout_s=60.0, identity=b"worker-7")
    with worker:
        assert broker.welcome() == b"worker-7"


def test_stop_is_quick_while_it_waits(broker: Broker) -> None:
    worker = patient(broker.address)
    thread = threading.Thread(target=worker.run)
    thread.start()
    broker.welcome()
    with Stopwatch() as watch:
        worker.stop()
        worker.stop()
        thread.join()
    assert watch.elapsed_s < 1.0


def test_stop_is_quick_where_no_broker_is() -> None:
    with Broker() as chosen:
        address = chosen.address
    worker = patient(address)
    thread = threading.Thread(target=worker.run)
    thread.start()
    with Stopwatch() as watch:
        worker.stop()
        thread.join()
    assert watch.elapsed_s < 2.0


def test_stop_waits_for_the_job_under_way_and_its_result_is_sent(broker: Broker) -> None:
    entered, gate = threading.Event(), threading.Event()

    def work(job: bytes) -> bytes:
        entered.set()
        gate.wait(30)
        return job * MUCH

    worker = Worker(broker.address, work, ping_s=60.0, broker_timeout_s=60.0)
    thread = threading.Thread(target=worker.run)
    thread.start()
    peer = broker.welcome()
    broker.say(peer, b"", b"last")
    broker.say(peer, b"", b"one too many")
    assert entered.wait(10)
    worker.stop()
    gate.set()
    thread.join(10)
    assert broker.hear() == [peer, b"", b"last" * MUCH]
    assert not thread.is_alive()
    assert broker.is_silent(0.1)


def test_a_worker_that_was_stopped_before_it_ran_does_not_run(broker: Broker) -> None:
    worker = patient(broker.address)
    worker.stop()
    worker.run()
    assert broker.is_silent(0.1)


@pytest.mark.parametrize("own_pair", [True, False])
def test_curve(own_pair: bool) -> None:
    public_key, secret_key = zmq.curve_keypair()
    keys = Curve(public_key, *zmq.curve_keypair()) if own_pair else Curve(public_key)
    with (
        Broker(curve_secret_key=secret_key) as broker,
        Worker(broker.address, bytes, ping_s=60.0, broker_timeout_s=60.0, curve=keys),
    ):
        assert broker.welcome()


@pytest.mark.parametrize(
    "settings", [{"ping_s": 0.0}, {"broker_timeout_s": -1.0}, {"n_timeouts": 0}], ids=["ping", "timeout", "n"]
)
def test_settings_that_cannot_work(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="n_timeouts at least 1"):
        Worker("127.0.0.1:1", bytes, **settings)  # type: ignore[arg-type]
