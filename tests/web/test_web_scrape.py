"""A scrape of a real hall: exact counts of jobs of two dialects, and every name that the dashboard for Grafana
and the documentation use.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
from hall_process import wait_until
from house_worker import HouseWorker
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text
from web_process import WebHall

from hiringhall.peers.gearman import Client

DOCS: Final = Path(__file__).parents[2] / "docs"
GEARMAN: Final = '[[door]]\ndialect = "gearman"\naddress = "127.0.0.1:0"\n'
NAME: Final = re.compile(r"\bhall_[a-z_]+")
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scrape(hall: WebHall) -> str:
    with hall.browser() as browser:
        answer = browser.get("/metrics")
        assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
        return answer.text


def samples(text: str) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in read_text(text)
        for sample in family.samples
    }


def wait_for(hall: WebHall, name: str, value: float, **labels: str) -> Samples:
    """Scrape until a sample has this value: the hall and the web share answers for a second."""
    found: list[Samples] = []

    def look() -> bool:
        found.append(samples(scrape(hall)))
        return found[-1].get((name, frozenset(labels.items()))) == value

    wait_until(look, f"{name} of {labels} is {value}")
    return found[-1]


def test_jobs_of_two_dialects_are_counted_exactly(tmp_path: Path) -> None:
    with WebHall(tmp_path, more=GEARMAN) as hall:
        gearman = f"127.0.0.1:{hall.ports[1]}"
        with HouseWorker(gearman), Client(gearman) as client, hall.native() as ann, hall.native() as bob:
            for number in range(6):
                assert client.submit("reverse", b"ab%d" % number).result() == b"%dba" % number
            for number in range(4):
                ann.submit(b"q", b"%d" % number)
            bob.work(b"q")
            for place in range(4):
                lease = bob.hear("assign")[0]
                bob.ask(*(("fail", (lease, 1, b"", False)) if place == 3 else ("finish", (lease, b""))))
            held = ann.submit(b"q", b"held")
            bob.hear("assign")
            found = wait_for(hall, "hall_queue_jobs", 1, queue="q", state="running")

            def value(name: str, **labels: str) -> float:
                return found[name, frozenset(labels.items())]

            assert held
            assert value("hall_up") == value("hall_store_up") == 1
            for queue, submitted, done, failed in (("reverse", 6, 6, 0), ("q", 5, 3, 1)):
                assert value("hall_jobs_submitted_total", queue=queue) == submitted
                assert value("hall_jobs_ended_total", queue=queue, outcome="done") == done
                assert value("hall_jobs_ended_total", queue=queue, outcome="failed") == failed
                assert value("hall_jobs_ended_total", queue=queue, outcome="cancelled") == 0
                assert value("hall_job_run_seconds_count", queue=queue) == done + failed
                assert value("hall_job_wait_seconds_bucket", queue=queue, le="+Inf") == done + failed
            assert value("hall_queue_dead_letters", queue="q") == 1
            assert value("hall_attempts_total") == 11
            assert value("hall_workers", dialect="native", state="busy") == 1
            assert value("hall_workers", dialect="gearman", state="idle") >= 1
            assert value("hall_commit_seconds_count") >= 1
            assert value("hall_jobs_submitted_total", queue="_other") == 0


def test_both_formats_are_valid_and_have_the_same_families(tmp_path: Path) -> None:
    with WebHall(tmp_path) as hall, hall.browser() as browser:
        text = browser.get("/metrics", headers={"Accept": "text/plain"})
        openmetrics = browser.get("/metrics", headers={"Accept": "application/openmetrics-text;version=1.0.0"})
        assert text.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert openmetrics.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
        named = {sample.name for family in read_text(text.text) for sample in family.samples}
        found = {sample.name for family in read_openmetrics(openmetrics.text) for sample in family.samples}
        assert named == found


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Every name of a sample of a hall with a queue and a worker."""
    with WebHall(tmp_path_factory.mktemp("hall")) as hall, hall.native() as ann:
        ann.submit(b"q", b"")
        ann.work(b"another")
        found = wait_for(hall, "hall_queue_jobs", 1, queue="q", state="ready")
    return {name for name, _ in found}


def expressions(panels: list[Any]) -> list[str]:
    return [target["expr"] for panel in panels for target in panel.get("targets", [])]


def test_every_metric_of_the_dashboard_for_grafana_exists(names: set[str]) -> None:
    dashboard = json.loads((DOCS / "grafana" / "hiringhall.json").read_text())
    asked = expressions(dashboard["panels"])
    assert len(asked) > 30
    variables = [str(one.get("definition", "")) for one in dashboard["templating"]["list"]]
    used = {name for text in [*asked, *variables] for name in NAME.findall(text)}
    assert used <= names


def test_the_panels_of_the_dashboard_do_not_overlap_and_have_rows() -> None:
    dashboard = json.loads((DOCS / "grafana" / "hiringhall.json").read_text())
    rows = [panel["title"] for panel in dashboard["panels"] if panel["type"] == "row"]
    assert rows == ["Overview", "Queues", "Workers", "Store and process", "Doors"]
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    used: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not used & cells, panel["title"]
        used |= cells
    assert max(x for x, _ in used) == 23


def test_the_page_lists_every_metric_and_no_other(names: set[str]) -> None:
    page = (DOCS / "monitoring.md").read_text()
    listed = {name for line in page.splitlines() if line.startswith("| `hall_") for name in NAME.findall(line)}
    families = {re.sub("_(bucket|sum|count)$", "", name) for name in names if not name.startswith("hall_web_")}
    assert listed - {"hall_web_process_"} == families
    assert set(NAME.findall(page)) - {"hall_web_process_"} <= families | names


def test_ready_with_a_hall_and_not_ready_without(tmp_path: Path) -> None:
    with WebHall(tmp_path) as hall, hall.browser() as browser:
        answer = browser.get("/readyz")
        assert (answer.status_code, answer.json()) == (200, {"ready": True, "reasons": []})
        assert browser.get("/healthz").text == "ok\n"
