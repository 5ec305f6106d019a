"""The client at a frontend that does as the test says."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest
import zmq
from pingpong_broker import Broker

from hiringhall.peers.pingpong import Client, Curve, JobCancelled, JobFailed, NoAnswer, Refused

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def client(broker: Broker) -> Iterator[Client]:
    with Client(broker.address, timeout_s=20.0) as client:
        yield client


def test_one_job_and_its_frames(broker: Broker, client: Client) -> None:
    request = client.start(b"job")
    peer, request_id, empty, payload = broker.hear()
    assert (empty, payload) == (b"", b"job")
    answered = [request.answered]
    broker.say(peer, request_id, b"", b"result")
    assert request.result() == b"result"
    answered.append(request.answered)
    assert answered == [False, True]
    assert request.result() == b"result", "as often as one likes"


@pytest.mark.parametrize("body", [b"", b"PONG", b"READY", b"ERROR disk full", b"\xff\0"])
def test_any_body_that_is_no_error_is_a_result(broker: Broker, client: Client, body: bytes) -> None:
    request = client.start(body)
    peer, request_id, _, payload = broker.hear()
    broker.say(peer, request_id, b"", payload)
    assert request.result() == body


def test_answers_in_any_order_find_their_requests(broker: Broker, client: Client) -> None:
    requests = [client.start(b"%d" % number) for number in range(20)]
    messages = [broker.hear() for _ in range(20)]
    for peer, request_id, _, payload in reversed(messages):
        broker.say(peer, request_id, b"", b"r" + payload)
    assert [request.result() for request in requests] == [b"r%d" % number for number in range(20)]


def test_map_keeps_the_order_and_the_bound(broker: Broker, client: Client) -> None:
    results = client.map([b"%d" % number for number in range(5)], outstanding_max=2)
    answering = threading.Thread(target=_answer, args=(broker, 5))
    answering.start()
    assert list(results) == [b"<%d>" % number for number in range(5)]
    answering.join()


def _answer(broker: Broker, count: int) -> None:
    for _ in range(count):
        peer, request_id, _, payload = broker.hear()
        broker.say(peer, request_id, b"", b"<" + payload + b">")


def test_map_has_no_more_under_way_than_it_may(broker: Broker, client: Client) -> None:
    asked: list[bytes] = []

    def payloads() -> Iterator[bytes]:
        for number in range(4):
            asked.append(b"%d" % number)
            yield asked[-1]

    results = client.map(payloads(), outstanding_max=2)
    answering = threading.Thread(target=_answer, args=(broker, 2))
    answering.start()
    assert next(results) == b"<0>"
    assert asked == [b"0", b"1"]
    answering.join()


def test_a_failure_in_the_midst_of_map_leaves_nothing_under_way(broker: Broker, client: Client) -> None:
    results = client.map([b"0", b"1", b"2"])
    failing = threading.Thread(target=lambda: broker.say(*broker.hear()[:3], b"ERROR 1 no"))
    failing.start()
    with pytest.raises(JobFailed):
        next(results)
    failing.join()
    assert not client._tries, "so nothing is sent again"
    assert [broker.hear()[3] for _ in range(2)] == [b"1", b"2"]
    request = client.start(b"3")
    peer, request_id, _, _ = broker.hear()
    broker.say(peer, request_id, b"", b"three")
    assert request.result() == b"three"


def test_a_job_that_failed(broker: Broker, client: Client) -> None:
    request = client.start(b"job")
    peer, request_id, _, _ = broker.hear()
    broker.say(peer, request_id, b"", b"ERROR 77 it \xff broke")
    with pytest.raises(JobFailed) as failure:
        request.result()
    assert (failure.value.code, failure.value.reason) == (77, b"it \xff broke")


def test_a_job_that_was_refused(broker: Broker, client: Client) -> None:
    request = client.start(b"job")
    peer, request_id, _, _ = broker.hear()
    broker.say(peer, request_id, b"", b"ERROR closing go elsewhere")
    with pytest.raises(Refused) as refusal:
        request.result()
    assert (refusal.value.reason, refusal.value.text) == ("closing", "go elsewhere")


def test_a_job_that_was_cancelled(broker: Broker, client: Client) -> None:
    request = client.start(b"job")
    peer, request_id, _, _ = broker.hear()
    broker.say(peer, request_id, b"", b"ERROR cancelled not needed")
    with pytest.raises(JobCancelled, match="not needed"):
        request.result()


def test_a_job_without_an_answer_is_sent_again_on_a_new_socket_with_a_new_id(broker: Broker) -> None:
    with Client(broker.address, timeout_s=1.5, retries=1) as client:
        request = client.start(b"job")
        started_s = time.monotonic()
        with pytest.raises(NoAnswer, match=r"2 attempts of 1\.5 s each"):
            request.result()
        assert time.monotonic() - started_s >= 2.9
        tries = [broker.hear() for _ in range(2)]
        assert [payload for _, _, _, payload in tries] == [b"job"] * 2
        assert len({peer for peer, _, _, _ in tries}) == 2
        assert len({request_id for _, request_id, _, _ in tries}) == 2
        assert broker.is_silent(0.2)


def test_the_second_try_is_answered_and_the_first_answer_comes_too_late(broker: Broker) -> None:
    with Client(broker.address, timeout_s=1.5, retries=5) as client:
        request = client.start(b"job")
        first = broker.hear()
        answering = threading.Thread(target=lambda: broker.say(*broker.hear()[:3], b"second"))
        answering.start()
        assert request.result() == b"second"
        answering.join()
        assert request.tries == 2
        assert broker.loses(first[0]), "the socket of the first try is closed"


def test_a_try_that_ran_out_of_time_does_not_take_others_along(broker: Broker) -> None:
    with Client(broker.address, timeout_s=2.0, retries=0) as client:
        slow = client.start(b"slow")
        old, _, _, _ = broker.hear()
        assert broker.is_silent(1.0)
        quick = client.start(b"quick")
        peer, request_id, _, _ = broker.hear()
        assert peer == old
        with pytest.raises(NoAnswer):
            slow.result()
        broker.say(peer, request_id, b"", b"in time")
        assert quick.result() == b"in time"


def test_messages_that_answer_nothing_are_passed_over(broker: Broker, client: Client) -> None:
    request = client.start(b"job")
    peer, request_id, _, _ = broker.hear()
    broker.say(peer, b"other", b"", b"x")
    broker.say(peer, request_id, b"not empty", b"x")
    broker.say(peer, request_id, b"", b"too", b"many")
    broker.say(peer, b"", b"no id")
    broker.say(peer, request_id, b"", b"result")
    broker.say(peer, request_id, b"", b"twice")
    assert request.result() == b"result"
    assert client.start(b"next").tries == 1


def test_a_closed_client_has_no_answer_for_what_was_under_way(broker: Broker) -> None:
    client = Client(broker.address)
    request = client.start(b"job")
    client.close()
    with pytest.raises(NoAnswer, match="closed"):
        request.result()


def test_a_client_that_comes_before_its_hall() -> None:
    with Broker() as chosen:
        address = chosen.address
    with Client(address, timeout_s=20.0) as client:
        request = client.start(b"early")
        with Broker(address) as broker:
            _answer(broker, 1)
            assert request.result() == b"<early>"


def test_curve() -> None:
    public_key, secret_key = zmq.curve_keypair()
    with (
        Broker(curve_secret_key=secret_key) as broker,
        Client(broker.address, timeout_s=20.0, curve=Curve(public_key, *zmq.curve_keypair())) as client,
    ):
        request = client.start(b"secret")
        _answer(broker, 1)
        assert request.result() == b"<secret>"


@pytest.mark.parametrize(("timeout_s", "retries"), [(0.0, 1), (1.0, -1)])
def test_settings_that_cannot_work(timeout_s: float, retries: int) -> None:
    with pytest.raises(ValueError, match="retries"):
        Client("127.0.0.1:1", timeout_s=timeout_s, retries=retries)


def test_a_failures_code_has_its_bounds() -> None:
    with pytest.raises(ValueError, match="1 to 255"):
        JobFailed(b"", 0)
    assert str(JobFailed()) == "no reason was given (code 1)"
