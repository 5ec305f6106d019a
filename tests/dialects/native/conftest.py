"""The hall of every test of the native door."""

import pytest

from stage.native import NativeGuest, NativeHall


@pytest.fixture
def hall() -> NativeHall:
    return NativeHall()


@pytest.fixture
def guest(hall: NativeHall) -> NativeGuest:
    return hall.guest()
