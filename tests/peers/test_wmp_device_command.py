"""Somebody types `hall device`: it says where it is, forwards, ends when told, and explains what is wrong."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from typing import TYPE_CHECKING, Any, Final, Self

import pytest
import zmq
import zmq.auth

from hiringhall.peers.wmp import Curve, Job, Manager, Worker
from stage import forking
from stage.forking import HALL

if TYPE_CHECKING:
    from pathlib import Path

DEVICE: Final = (*HALL, "device")
DEADLINE_S: Final = 30
NOWHERE: Final = "127.0.0.1:1"


class Running:
    """The command as a process."""

    def __init__(self, *words: str) -> None:
        self.process = forking.popen(
            [*DEVICE, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def json_line(self) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(self.line())
        return said

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def refused(*words: str) -> tuple[int, str]:
    """The exit code and the complaint of a command that does not open."""
    done = forking.run(
        [*DEVICE, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


async def reverse(job: Job) -> bytes:
    return job.payload[::-1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_opens_forwards_and_ends_with_its_counts(number: int) -> None:
    async def use(device: Running, manager: Manager) -> None:
        opened = await asyncio.to_thread(device.json_line)
        assert opened["pid"] == device.process.pid
        assert opened["managers"] == [manager.address, NOWHERE]
        async with Worker([opened["device"]], {"reverse": reverse}):
            assert await manager.do("reverse", b"abc") == b"cba"

    async def story() -> Running:
        async with asyncio.timeout(DEADLINE_S), Manager("127.0.0.1:0", identity="me") as manager:
            words = ("--json", "--listen", "127.0.0.1:0", "--manager", manager.address, "--manager", NOWHERE)
            with Running(*words) as device:
                await use(device, manager)
                device.process.send_signal(number)
                counts = await asyncio.to_thread(device.json_line)
                # At least READY to both, WAKE, GIVE, TAKE and DONE.
                assert counts["forwarded"] >= 6
                assert counts["dropped"] == 0
                assert await asyncio.to_thread(device.process.wait, DEADLINE_S) == 0
            return device

    asyncio.run(story())


def test_people_read_where_it_is_and_what_it_did() -> None:
    with Running("--listen", "[::1]:0", "--manager", NOWHERE) as device:
        opening = device.line()
        assert opening.startswith("device on [::1]:")
        assert f"for {NOWHERE} (pid {device.process.pid}); Ctrl-C stops it" in opening
        device.process.send_signal(signal.SIGINT)
        assert device.line() == "0 messages forwarded, 0 dropped\n"
        assert device.process.wait(DEADLINE_S) == 0


@pytest.mark.parametrize("address", ["0.0.0.0:0", "*:0"])
def test_other_machines_are_let_in_only_when_that_is_said(address: str) -> None:
    code, complaint = refused("--listen", address, "--manager", NOWHERE)
    assert code == 2
    assert f"--listen: {address} can be reached from other machines: use --curve" in complaint
    with Running("--listen", address, "--manager", NOWHERE, "--insecure", "--json") as device:
        assert device.json_line()["device"].startswith("0.0.0.0:")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "--manager: give at least one"),
        (("--manager", "nonsense"), "--manager: 'nonsense' is not an address: write HOST:PORT"),
        (("--manager", NOWHERE, "--listen", "x"), "--listen: 'x' is not an address: write HOST:PORT"),
        (("--manager", NOWHERE, "--client-key", "k"), "--client-key and --manager-key: need --curve"),
        (
            ("--manager", NOWHERE, "--message-bytes-max", "1023"),
            "--message-bytes-max: 1023 is not allowed; it takes a whole number from 1024",
        ),
        (("--manager", NOWHERE, "--queue-max", "0"), "--queue-max: 0 is not allowed"),
        (("--manager", NOWHERE, "--curve", "f"), "give the keys that may connect with --client-key"),
        (
            ("--manager", NOWHERE, "--curve", "no/such/file", "--client-key", "k", "--manager-key", "k"),
            "--curve: no/such/file cannot be read",
        ),
    ],
)
def test_wrong_use_is_explained(words: tuple[str, ...], complaint: str) -> None:
    code, said = refused(*words)
    assert code == 2
    assert complaint in said
    assert "Traceback" not in said


def test_an_address_that_is_taken() -> None:
    with Running("--listen", "127.0.0.1:0", "--manager", NOWHERE, "--json") as device:
        address = device.json_line()["device"]
        code, said = refused("--listen", address, "--manager", NOWHERE)
    assert (code, said) == (1, f"hall: cannot listen on {address}: Address already in use\n")


@pytest.mark.parametrize(
    ("private", "client_key", "manager_keys", "complaint"),
    [
        (False, "k" * 40, 1, "has no secret key; give the file that ends with .key_secret"),
        (True, "short", 1, "a CURVE key must have 40 characters"),
        (True, "k" * 40, 2, "give one for all managers, or one for each of the 3"),
    ],
)
def test_keys_that_do_not_do(
    tmp_path: Path, private: bool, client_key: str, manager_keys: int, complaint: str
) -> None:
    files = zmq.auth.create_certificates(tmp_path, "device")
    words = ["--curve", files[private], "--client-key", client_key, *("--manager", NOWHERE) * 3]
    code, said = refused(*words, *("--manager-key", "k" * 40) * manager_keys)
    assert code == 2
    assert complaint in said


def test_with_curve_on_both_sides(tmp_path: Path) -> None:
    async def story() -> None:
        manager_keys, worker_keys = zmq.curve_keypair(), zmq.curve_keypair()
        public_file, secret_file = zmq.auth.create_certificates(tmp_path, "device")
        device_key = zmq.auth.load_certificate(public_file)[0]
        door = Curve(*manager_keys, callers=(device_key,))
        async with asyncio.timeout(DEADLINE_S), Manager("127.0.0.1:0", identity="me", curve=door) as manager:
            words = ["--curve", secret_file, "--client-key", worker_keys[0].decode()]
            words += ["--manager", manager.address, "--manager-key", manager_keys[0].decode()]
            with Running("--json", "--listen", "0.0.0.0:0", *words) as device:
                opened = await asyncio.to_thread(device.json_line)
                address = opened["device"].replace("0.0.0.0", "127.0.0.1")
                own = Curve(*worker_keys, managers=(device_key,))
                async with Worker([address], {"reverse": reverse}, curve=own):
                    assert await manager.do("reverse", b"abc") == b"cba"

    asyncio.run(story())


def test_a_message_with_nowhere_to_go_is_told_in_the_log() -> None:
    words = ("--json", "--listen", "127.0.0.1:0", "--manager", NOWHERE, "--log-format", "json")
    with Running(*words) as device:
        address = device.json_line()["device"]
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        stranger = context.socket(zmq.DEALER)
        stranger.connect(f"tcp://{address}")
        stranger.send_multipart([b"no hop of this device", b"", b"", b"body"])
        assert device.process.stderr is not None
        line = json.loads(device.process.stderr.readline())
        context.destroy(linger=0)
    assert line["level"] == "warning"
    assert line["message"] == "a message from a worker had no route, and was dropped"


def test_an_unknown_format_of_the_log_is_explained() -> None:
    code, complaint = refused("--manager", NOWHERE, "--log-format", "xml")
    assert code == 2
    assert complaint == 'hall: --log-format: "xml" is not allowed; it takes one of "text", "json"\n'
