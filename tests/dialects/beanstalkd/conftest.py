"""The hall of every test of the beanstalkd door."""

import pytest

from stage.beanstalkd import BeanstalkdGuest, BeanstalkdHall


@pytest.fixture
def hall() -> BeanstalkdHall:
    return BeanstalkdHall()


@pytest.fixture
def guest(hall: BeanstalkdHall) -> BeanstalkdGuest:
    return hall.guest()
