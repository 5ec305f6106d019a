"""The blocks of docs/limits.md on a real hall: its settings, its program, and what the command tells."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from hall_process import CODE, HallProcess
from native_peer import NativePeer
from page_blocks import read_blocks

if TYPE_CHECKING:
    from pathlib import Path

SPACED_MORE = """
print([product_changed(product, "red") for product in (1, 1, 2)])
print([disk_is_full(host) for host in ("a", "b", "a")])
hall.close()
"""
PROGRAM_MORE = "\nprint([order_came(order, 'acme') for order in range(5)])\nhall.close()\n"


def test_the_page_is_true(tmp_path: Path) -> None:
    (settings,) = read_blocks("limits.md", "toml")
    program, spaced = read_blocks("limits.md", "python")
    with HallProcess(tmp_path, door={"dialect": "native"}, more=settings.text) as hall:
        url = f"hall://{hall.address}"
        environment = {**os.environ, "PYTHONPATH": CODE, "HALL_URL": url}

        def run(*arguments: str) -> str:
            command = [sys.executable, "-W", "error", *arguments]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            return done.stdout

        (tmp_path / "shop.py").write_text(program.text + PROGRAM_MORE)
        jobs = json.loads(run(str(tmp_path / "shop.py")))
        queue = json.loads(run("-m", "hiringhall", "queues", "--json"))
        assert (queue["ready"], queue["parked"]) == (2, 3)
        assert queue["rules"] == {
            "running_max": 20,
            "key_running_max": 2,
            "starts_per_second": 10.0,
            "burst": 5,
            "fair": True,
            "tenant_weights": {"acme": 3},
            "age_max_s": 3600.0,
        }
        parked = run("-m", "hiringhall", "jobs", "--state", "parked", "--json").splitlines()
        assert [json.loads(line)["id"] for line in parked] == [str(job) for job in jobs[2:]]
        shown = json.loads(run("-m", "hiringhall", "job", str(jobs[4]), "--json"))
        assert shown["why"].startswith("it is parked by the limit of 2 running for key printer of acme")
        terms = shown["terms"]
        assert (terms["limit_key"], terms["tenant"]) == ("printer of acme", "acme")
        assert "no workers, 3 parked" in run("-m", "hiringhall", "queues")
        flags = ("--limit-key", "printer of acme", "--tenant", "acme")
        run("-m", "hiringhall", "submit", "shop.invoice", "{}", *flags)
        with NativePeer(hall.port) as peer:
            assert peer.ask("queue", (b"shop.invoice",))["parked"] == 4
        (tmp_path / "spaced.py").write_text(spaced.text + SPACED_MORE)
        debounced, throttled = map(json.loads, run(str(tmp_path / "spaced.py")).splitlines())
        assert debounced[0] == debounced[1] != debounced[2]
        assert throttled[0] == throttled[2] != throttled[1]
