"""The terms of a job, as a map of the native protocol."""

from __future__ import annotations

import msgspec
import pytest

from hiringhall.core.errors import BAD_REQUEST, Refusal
from hiringhall.core.terms import HIGH, HOLD
from hiringhall.dialects.native import wire
from hiringhall.dialects.native.terms import CACHED_MAX, DEFAULTS, TermsCache, parse


def test_an_empty_map_is_a_durable_job_that_lives_on() -> None:
    assert parse({}) is DEFAULTS
    assert (DEFAULTS.durable, DEFAULTS.detached) == (True, True)


def test_each_term_has_its_field() -> None:
    terms = parse(
        {
            "priority": "high",
            "durable": False,
            "detached": False,
            "logged": True,
            "retries": 3,
            "backoff_us": 4,
            "backoff_max_us": 5,
            "timeout_us": 6,
            "silence_us": 7,
            "losses_max": 8,
            "quits_max": 9,
            "expire_us": 10,
            "skill": 11,
            "takes_us": 12,
            "keep_us": 13,
            "on_parent_failure": "hold",
        }
    )
    assert (terms.priority, terms.durable, terms.detached, terms.logged) == (HIGH, False, False, True)
    assert (terms.failures_max, terms.backoff_us, terms.backoff_max_us) == (3, 4, 5)
    assert (terms.run_us, terms.lease_us, terms.losses_max, terms.quits_max) == (6, 7, 8, 9)
    assert (terms.expire_us, terms.skill, terms.takes_us, terms.on_parent_failure) == (10, 11, 12, HOLD)
    assert terms.keep_us == 13


@pytest.mark.parametrize(
    ("stated", "text"),
    [
        ({"speed": 1}, "terms: 'speed' is not known"),
        ({"retries": -1}, "terms: retries must be a whole number from 0 to 1000000"),
        ({"retries": True}, "terms: retries must be a whole number from 0 to 1000000"),
        ({"skill": 1_000_001}, "terms: skill must be a whole number from 0 to 1000000"),
        ({"durable": 1}, "terms: durable must be true or false"),
        ({"priority": "urgent"}, "terms: priority must be one of high, normal, low"),
        ({"on_parent_failure": 0}, "terms: on_parent_failure must be one of fail, run, hold"),
        ({"detached": False}, "terms: a durable job must be detached"),
    ],
)
def test_a_wrong_term_is_named(stated: dict[str, bool | int | str], text: str) -> None:
    with pytest.raises(Refusal) as caught:
        parse(stated)
    assert (caught.value.reason, caught.value.text) == (BAD_REQUEST, text)


def test_equal_maps_share_their_terms_and_few_are_kept() -> None:
    cache = TermsCache()
    first = cache.get(msgspec.msgpack.encode({"retries": 1}))
    assert cache.get(msgspec.msgpack.encode({"retries": 1})) is first
    for retries in range(CACHED_MAX + 1):
        cache.get(msgspec.msgpack.encode({"retries": retries}))
    assert cache.get(msgspec.msgpack.encode({"retries": 1})).terms.failures_max == 1


def test_a_long_map_is_not_kept() -> None:
    cache = TermsCache()
    data = b"\xde\x01\x00" + b"\xa7retries\x01" * 256
    assert cache.get(data).terms.failures_max == 1
    assert cache.get(data) is not cache.get(data)


def test_what_is_no_map_is_refused() -> None:
    with pytest.raises(wire.BadBody):
        TermsCache().get(msgspec.msgpack.encode([1]))


def test_jobs_of_many_flows_share_their_terms() -> None:
    cache = TermsCache()
    plain = cache.get(msgspec.msgpack.encode({"retries": 1}))
    flows = [cache.get(msgspec.msgpack.encode({"flow": b"f%d" % number, "retries": 1})) for number in range(3)]
    assert [stated.terms for stated in flows] == [plain.terms] * 3
    assert [stated.flow for stated in flows] == [b"f0", b"f1", b"f2"]
