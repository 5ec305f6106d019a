"""Settings of a beanstalkd door become the options of its sessions."""

from __future__ import annotations

from hiringhall.config.loading import Flags, load
from hiringhall.dialects.beanstalkd.context import BeanstalkdOptions
from hiringhall.doors.beanstalkd import BeanstalkdDoorSettings
from hiringhall.server import DEFAULT_DOORS, DOOR_SETTINGS


def read(*assignments: str) -> BeanstalkdDoorSettings:
    flags = Flags(None, ("beanstalkd=127.0.0.1:0",), assignments)
    (settings,) = load(flags, {}, DOOR_SETTINGS, DEFAULT_DOORS).config.door
    assert isinstance(settings, BeanstalkdDoorSettings)
    return settings


def test_the_defaults_are_those_of_the_sessions() -> None:
    assert read().options() == BeanstalkdOptions()
    assert BeanstalkdDoorSettings().address == "127.0.0.1:11300"


def test_every_option_follows_its_setting() -> None:
    settings = read("door[0].jobs=memory", "door[0].job_bytes_max=2 MiB", "door[0].log=all")
    assert settings.options() == BeanstalkdOptions(durable=False, job_bytes_max=2 << 20, log_all=True)
