"""Compiled or plain: all of the hot packages are the one or the other, and the one that this run is about."""

from __future__ import annotations

import os

import hiringhall.core.scheduler
import hiringhall.dialects.gearman.session
import hiringhall.engine.turn
import hiringhall.transports.tcp

HOT = (
    hiringhall.core.scheduler,
    hiringhall.dialects.gearman.session,
    hiringhall.engine.turn,
    hiringhall.transports.tcp,
)


def test_the_hot_packages_are_what_this_run_is_about() -> None:
    modes = {"plain" if str(module.__file__).endswith(".py") else "compiled" for module in HOT}
    assert len(modes) == 1, "some of the hot packages are compiled and some are not"
    assert modes == {os.environ.get("TEST_MODE", *modes)}, "make test runs each mode under its own name"
