"""Resources in Python: the text of what a job needs, what it is given, and the variables of a command."""

from __future__ import annotations

import msgspec
import pytest

from hiringhall.sdk.context import CurrentJob
from hiringhall.sdk.options import Options
from hiringhall.sdk.resources import Given, environment_of, text_of


def test_a_mapping_becomes_the_text_of_the_protocol() -> None:
    assert text_of({"mem": "1.5G", "cpus": 2, "gpus": 0.5}) == "cpus=2 gpus=0.5 mem=1536M"
    terms = msgspec.msgpack.decode(Options(resources={"cpus": 2}).terms)
    assert terms == {"resources": "cpus=2"}
    assert "resources" not in msgspec.msgpack.decode(Options(resources={}).terms)


@pytest.mark.parametrize(
    "wrong", [{"cpus": -1}, {"cpus": 0.0001}, {"cpus": True}, {"cpus": "two"}, {"a b": 1}, {"gpus": "[0]"}]
)
def test_wrong_resources_are_refused_where_they_are_written(wrong: dict[str, float | str]) -> None:
    with pytest.raises(ValueError, match="resources"):
        Options(resources=wrong)


def test_resources_that_are_no_mapping_are_refused() -> None:
    with pytest.raises(TypeError, match=r"resources must be a mapping such as .*, not 'cpus=2'"):
        Options(resources="cpus=2")  # type: ignore[arg-type]


def test_a_job_knows_what_it_was_given() -> None:
    class Nobody:
        def say(self, lease: int, frame: bytes) -> None:
            raise AssertionError

    plain = (1, 2, b"q", b"", b"", 1, 0)
    assert CurrentJob(plain, Nobody()).resources == {}
    given = CurrentJob((*plain, b"cpus=0.5 gpus=2[0,3]"), Nobody()).resources
    assert given == {"cpus": Given(0.5), "gpus": Given(2, ("0", "3"))}


def test_a_command_is_told_in_variables() -> None:
    assert environment_of(b"cpus=1.5 gpus=1[3] my-disk=1[sda]") == {
        b"HALL_RESOURCE_CPUS": b"1.5",
        b"HALL_RESOURCE_GPUS": b"1",
        b"HALL_RESOURCE_GPUS_UNITS": b"3",
        b"CUDA_VISIBLE_DEVICES": b"3",
        b"HALL_RESOURCE_MY_DISK": b"1",
        b"HALL_RESOURCE_MY_DISK_UNITS": b"sda",
    }


def test_a_sum_of_fractions_is_the_decimal_sum() -> None:
    assert text_of({"cpus": 0.1 + 0.2, "gpus": 1 - 0.9}) == "cpus=0.3 gpus=0.1"
    for wrong in (1 / 3, 0.0001, float("inf"), float("nan"), -0.5):
        with pytest.raises(ValueError, match="cpus"):
            text_of({"cpus": wrong})
