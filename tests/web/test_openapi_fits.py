"""The OpenAPI document and the API agree: schemathesis asks what the document allows, and what it forbids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
import requests
import schemathesis
from schemathesis.specs.openapi import checks
from web_process import REQUESTED, WebHall

from hiringhall.web import openapi
from hiringhall.web.routes import API

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLES = 8
POSITIVE = checks.positive_data_acceptance
DEPENDS_ON_THE_HALL = ("/jobs", "/schedules")
"""What these take depends on the limits of the hall, and on rules between fields that a schema cannot state."""
STREAMS = [route.path for route in API if route.media == "text/event-stream"]
SCHEMA = schemathesis.openapi.from_dict(openapi.made(API)).exclude(path=STREAMS)


@pytest.fixture(scope="module")
def base_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with WebHall(tmp_path_factory.mktemp("openapi")) as hall, hall.api() as api:
        jobs: list[dict[str, Any]] = [{"queue": "q", "key": str(place)} for place in range(3)]
        assert api.post("/jobs", json={"jobs": jobs}).status_code == 201
        yield f"{hall.web}/api/v1"


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    """One connection for all requests. Looking for proxies takes longer than the answers."""
    with requests.Session() as session:
        session.trust_env = False
        yield session


@SCHEMA.parametrize()
@hypothesis.settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
def test_the_api_is_as_its_document_says(
    case: schemathesis.Case, base_url: str, session: requests.Session
) -> None:
    excluded = [POSITIVE] if case.path in DEPENDS_ON_THE_HALL else []
    case.call_and_validate(
        base_url=base_url, session=session, headers=REQUESTED, timeout=20, excluded_checks=excluded
    )
