"""Somebody sets up the ZeroMQ doors: right settings reach their parts, wrong ones are named at the start."""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING, Final

import msgspec
import pytest
import zmq.auth
from running import HALL, Running, run
from zmq_settings import KEY, OTHER_KEY, ZMQ_DIALECTS, door, problems, read, zmq_door

from hiringhall.config.quantities import Address, Words
from hiringhall.core.terms import FAIL_WITH_PARENT, HOLD, RUN_ANYWAY
from hiringhall.dialects.dwork.context import DworkOptions
from hiringhall.dialects.pingpong.context import PingPongOptions
from hiringhall.dialects.wmp.context import WmpOptions
from hiringhall.doors.dwork import DworkDoorSettings
from hiringhall.doors.pingpong import PingPongDoorSettings
from hiringhall.doors.wmp import WmpDoorSettings
from hiringhall.endpoints import zmq_options
from hiringhall.transports.zmtp.options import ZmqOptions

if TYPE_CHECKING:
    from pathlib import Path

EXPOSED: Final = "can be reached from other machines: configure curve with the public keys of the clients"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


# --- what is right


def test_each_dialect_listens_on_loopback_at_its_own_port() -> None:
    toml = "".join(f'[[door]]\ndialect = "{dialect}"\n' for dialect in ZMQ_DIALECTS)
    dwork, pingpong, wmp = read(toml).config.door
    assert dwork.addresses == ("127.0.0.1:6125",)
    assert isinstance(pingpong, PingPongDoorSettings)
    assert pingpong.addresses == ("127.0.0.1:5556", "127.0.0.1:5555")
    assert wmp.addresses == ("127.0.0.1:5814",)


def test_the_defaults_are_those_of_the_parts() -> None:
    dwork, pingpong, wmp = (zmq_door(dialect) for dialect in ZMQ_DIALECTS)
    assert isinstance(dwork, DworkDoorSettings)
    assert dwork.options() == DworkOptions()
    assert isinstance(pingpong, PingPongDoorSettings)
    assert pingpong.options() == PingPongOptions()
    assert isinstance(wmp, WmpDoorSettings)
    assert wmp.options() == WmpOptions()
    for settings in (dwork, pingpong, wmp):
        assert zmq_options(settings, 0) == ZmqOptions()


def test_every_option_of_the_transport_follows_its_setting() -> None:
    settings = zmq_door(
        "wmp",
        peers_max="5",
        idle_s="2.5",
        message_bytes_max="1 MiB",
        receive_messages_max="7",
        unsent_bytes_max="2 MiB",
        stall_s="3.5",
        backlog="9",
        handshake_s="0.5",
        heartbeat_s="1.5",
        takeover="true",
    )
    assert zmq_options(settings, 0) == ZmqOptions(
        peers_max=5,
        idle_s=2.5,
        message_bytes_max=1 << 20,
        receive_messages_max=7,
        unsent_bytes_max=2 << 20,
        stall_s=3.5,
        backlog=9,
        handshake_s=0.5,
        heartbeat_s=1.5,
        takeover=True,
    )


def test_every_option_of_a_dwork_door_follows_its_setting() -> None:
    settings = zmq_door(
        "dwork",
        queue="mill",
        tasks="memory",
        lease_s="1.5",
        losses_max="0",
        quits_max="6",
        retries="4",
        on_predecessor_failure="hold",
        keep_open="true",
    )
    assert isinstance(settings, DworkDoorSettings)
    assert settings.options() == DworkOptions(
        queue=b"mill",
        durable=False,
        lease_us=1_500_000,
        losses_max=0,
        quits_max=6,
        failures_max=4,
        on_parent_failure=HOLD,
        keep_open=True,
    )


@pytest.mark.parametrize(("word", "policy"), [("fail", FAIL_WITH_PARENT), ("run", RUN_ANYWAY), ("hold", HOLD)])
def test_what_becomes_of_a_task_whose_predecessor_failed(word: str, policy: int) -> None:
    settings = zmq_door("dwork", on_predecessor_failure=word)
    assert isinstance(settings, DworkDoorSettings)
    assert settings.options().on_parent_failure == policy


def test_every_option_of_a_pingpong_door_follows_its_setting() -> None:
    settings = zmq_door(
        "pingpong",
        frontend="[::1]:0",
        queue="mill",
        worker_expire_s="0.25",
        job_timeout_s="3",
        losses_max="9",
        quits_max="8",
        durable="true",
    )
    assert isinstance(settings, PingPongDoorSettings)
    assert settings.addresses == ("127.0.0.1:0", "[::1]:0")
    assert settings.options() == PingPongOptions(
        queue=b"mill", expire_us=250_000, job_timeout_us=3_000_000, losses_max=9, quits_max=8, durable=True
    )


def test_every_option_of_a_wmp_door_follows_its_setting() -> None:
    settings = zmq_door("wmp", manager="north", lease_s="2", expire_s="0.5", slots="3")
    assert isinstance(settings, WmpDoorSettings)
    assert settings.options() == WmpOptions(manager=b"north", lease_us=2_000_000, expire_us=500_000)
    assert settings.slots == 3


# --- lists


@pytest.mark.parametrize(
    "written",
    ['["10.0.0.7:5814", "localhost:1"]', '"10.0.0.7:5814 localhost:1"', '"10.0.0.7:5814,localhost:1,"'],
)
def test_a_list_in_the_file_is_an_array_or_one_text(written: str) -> None:
    settings = door(f'[[door]]\ndialect = "wmp"\nmanagers = {written}\nroles = ["cut"]')
    assert isinstance(settings, WmpDoorSettings)
    assert settings.managers == ("10.0.0.7:5814", "localhost:1")
    assert settings.roles == ("cut",)


def test_a_list_in_the_environment_and_in_a_flag_is_text() -> None:
    environ = {"HALL_DOOR_0_MANAGERS": "a:1, b:2", "HALL_DOOR_0_ROLES": " cut\tsew "}
    settings = door('[[door]]\ndialect = "wmp"\nroles = ["dig"]', environ)
    assert isinstance(settings, WmpDoorSettings)
    assert (settings.managers, settings.roles) == (("a:1", "b:2"), ("cut", "sew"))
    settings = door('[[door]]\ndialect = "wmp"', environ, assignments=("door[0].roles=plane",))
    assert isinstance(settings, WmpDoorSettings)
    assert settings.roles == ("plane",)


def test_an_empty_list_is_a_list() -> None:
    settings = door('[[door]]\ndialect = "wmp"\nmanagers = []\nroles = ""')
    assert isinstance(settings, WmpDoorSettings)
    assert (settings.managers, settings.roles) == ((), ())


@pytest.mark.parametrize("written", ["5", "true", "[1, 2]", '["a", 2]', '[["a"]]'])
def test_what_is_no_list_of_texts_is_named(written: str) -> None:
    (problem,) = problems(f'[[door]]\ndialect = "wmp"\nroles = {written}')
    assert problem.startswith("hall.toml: door[0].roles: ")
    assert problem.endswith(f"is not allowed; it takes {Words.allowed}")


@pytest.mark.parametrize("words", [(), ("a",), ("a", "b:1"), (KEY, OTHER_KEY)])
def test_a_list_is_read_as_it_is_printed(words: tuple[str, ...]) -> None:
    settings = door(f'[[door]]\ndialect = "wmp"\nroles = {Words(words).text}')
    assert isinstance(settings, WmpDoorSettings)
    assert settings.roles == words


@pytest.mark.parametrize("role", ['say "hi"', "back\\slash"])
def test_a_word_with_signs_of_toml_is_printed_so_that_it_can_be_read(role: str) -> None:
    word = role.replace(" ", "")
    settings = door(f'[[door]]\ndialect = "wmp"\nroles = {Words([word]).text}')
    assert isinstance(settings, WmpDoorSettings)
    assert settings.roles == (word,)


# --- who may reach a door


@pytest.mark.parametrize("dialect", ZMQ_DIALECTS)
@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.2:0", "example.org:0"])
def test_a_door_that_others_reach_needs_curve_or_the_word(dialect: str, address: str) -> None:
    (problem,) = problems(doors=(f"{dialect}={address}",))
    assert problem.startswith(f"--door: door[0].address: {address} {EXPOSED}")
    assert door(doors=(f"{dialect}={address}",), assignments=("door[0].insecure=true",)).address == address
    curve = ("door[0].curve.certificate=c", f"door[0].curve.clients={KEY}")
    assert door(doors=(f"{dialect}={address}",), assignments=curve).address == address


@pytest.mark.parametrize(
    ("backend", "frontend", "exposed"),
    [
        ("127.0.0.1:1", "127.0.0.1:2", ""),
        ("0.0.0.0:1", "127.0.0.1:2", "0.0.0.0:1"),
        ("127.0.0.1:1", "0.0.0.0:2", "0.0.0.0:2"),
        ("[::]:1", "0.0.0.0:2", "[::]:1"),
    ],
)
def test_either_address_of_a_pingpong_door_exposes_it(backend: str, frontend: str, exposed: str) -> None:
    toml = f'[[door]]\ndialect = "pingpong"\naddress = "{backend}"\nfrontend = "{frontend}"\n'
    if not exposed:
        assert door(toml).addresses == (backend, frontend)
        return
    (problem,) = problems(toml)
    assert f"{exposed} {EXPOSED}" in problem
    assert door(toml + "insecure = true").addresses == (backend, frontend)


def test_no_two_endpoints_listen_on_one_address() -> None:
    toml = '[[door]]\ndialect = "pingpong"\naddress = "127.0.0.1:7"\nfrontend = "127.0.0.1:8"\n'
    assert problems(toml + '[[door]]\ndialect = "wmp"\naddress = "127.0.0.1:8"') == [
        "hall.toml: door[1].address: 127.0.0.1:8 is used by door[0]"
    ]
    (problem,) = problems('[[door]]\ndialect = "pingpong"\naddress = "127.0.0.1:7"\nfrontend = "127.0.0.1:7"\n')
    assert "127.0.0.1:7" in problem


# --- other managers


def test_managers_without_roles_are_refused() -> None:
    assert problems('[[door]]\ndialect = "wmp"\nmanagers = ["127.0.0.1:1"]') == [
        "hall.toml: door[0].roles: is needed with managers: name the queues for which the hall takes their jobs"
    ]


@pytest.mark.parametrize(
    "manager",
    ["nowhere", "127.0.0.1:", ":5814", "127.0.0.1:70000", "127.0.0.1:x", "127.0.0.1:0", "tcp://a:1:2"],
)
def test_a_manager_that_has_no_endpoint_is_named(manager: str) -> None:
    (problem,) = problems(
        f'[[door]]\ndialect = "wmp"\nroles = ["cut"]\nmanagers = ["127.0.0.1:1", "{manager}"]'
    )
    assert problem.startswith("hall.toml: door[0].managers: ")
    assert manager in problem


def test_a_role_that_no_queue_can_be_called_is_named() -> None:
    (problem,) = problems(f'[[door]]\ndialect = "wmp"\nroles = ["{"r" * 5000}"]\nmanagers = ["127.0.0.1:1"]')
    assert problem.startswith("hall.toml: door[0].roles: ")


# --- other mistakes

MISTAKES: Final = [
    ("dwork", 'tasks = "disk"', 'tasks: "disk" is not allowed; it takes one of "durable", "memory"'),
    (
        "dwork",
        'on_predecessor_failure = "cry"',
        'on_predecessor_failure: "cry" is not allowed; it takes one of "fail", "run", "hold"',
    ),
    ("dwork", 'queue = ""', 'queue: "" is not allowed; it takes text of 1 to 512 characters'),
    ("dwork", "keep_opn = true", "keep_opn: no such setting; did you mean keep_open?"),
    (
        "pingpong",
        "worker_expire_s = 0",
        "worker_expire_s: 0 is not allowed; it takes a number of seconds from 0.001 to 31536000",
    ),
    (
        "pingpong",
        "job_timeout_s = 0",
        "job_timeout_s: 0 is not allowed; it takes a number of seconds from 0.001 to 31536000",
    ),
    ("pingpong", 'frontend = "5557"', f'frontend: "5557" is not allowed; it takes {Address.allowed}'),
    ("wmp", 'manager = ""', 'manager: "" is not allowed; it takes text of 1 to 255 characters'),
    ("wmp", "slots = 0", "slots: 0 is not allowed; it takes a whole number from 1 to 100000"),
    ("wmp", "lease_s = 0", "lease_s: 0 is not allowed; it takes a number of seconds from 0.001 to 31536000"),
    ("wmp", "peers_max = 0", "peers_max: 0 is not allowed; it takes a whole number from 1"),
    ("wmp", "idle_s = 0", "idle_s: 0 is not allowed; it takes a number of seconds from 1 to 31536000"),
    (
        "wmp",
        "handshake_s = 0",
        "handshake_s: 0 is not allowed; it takes a number of seconds from 0.1 to 3600",
    ),
    ("wmp", 'curve = "on"', "curve: must be a table of settings, such as [door[0].curve]"),
]


@pytest.mark.parametrize(("dialect", "line", "problem"), MISTAKES)
def test_a_wrong_setting_is_named_with_what_is_allowed(dialect: str, line: str, problem: str) -> None:
    assert problems(f'[[door]]\ndialect = "{dialect}"\n{line}') == [f"hall.toml: door[0].{problem}"]


@pytest.mark.parametrize("name", ["n" * 256, "é" * 200, "two\\nlines"])
def test_a_managers_name_that_the_wire_cannot_carry_is_named(name: str) -> None:
    (problem,) = problems(f'[[door]]\ndialect = "wmp"\nmanager = "{name}"')
    assert problem.startswith("hall.toml: door[0].manager: ")


@pytest.mark.parametrize("dialect", ["dwork", "pingpong"])
def test_a_queue_that_the_hall_cannot_have_is_named(dialect: str) -> None:
    """512 letters may be more bytes than the name of a queue may have."""
    toml = f'[limits]\nqueue_name_bytes_max = 8\n[[door]]\ndialect = "{dialect}"\nqueue = "longer than that"'
    (problem,) = problems(toml)
    assert "door[0].queue" in problem


def test_a_setting_of_another_dialect_is_not_one_of_this() -> None:
    for dialect, setting in (("dwork", "managers"), ("pingpong", "keep_open"), ("wmp", "frontend")):
        (problem,) = problems(f'[[door]]\ndialect = "{dialect}"\n{setting} = "x"')
        assert problem.startswith(f"hall.toml: door[0].{setting}: no such setting")


# --- the commands


def test_check_config_says_where_all_doors_are(folder: Path) -> None:
    toml = "".join(f'[[door]]\ndialect = "{dialect}"\n' for dialect in ZMQ_DIALECTS)
    (folder / "hall.toml").write_text(toml, encoding="utf-8")
    ended = run(HALL, "check-config", cwd=folder)
    assert ended.returncode == 0, ended.stderr
    for part in ("dwork on 127.0.0.1:6125", "pingpong on 127.0.0.1:5556", "wmp on 127.0.0.1:5814"):
        assert part in ended.stdout


def test_serve_says_where_each_endpoint_is_and_how_it_is_shielded(folder: Path) -> None:
    _, secret = zmq.auth.create_certificates(folder, "hall")
    doors = [f"--door={dialect}=127.0.0.1:0" for dialect in ZMQ_DIALECTS]
    doors.append("--set=door[1].frontend=127.0.0.1:0")
    curve = [f"--set=door[2].curve.certificate={secret}", f"--set=door[2].curve.clients={KEY}"]
    with Running(HALL, "serve", "--json", "--storage", "memory", *doors, *curve, cwd=folder) as hall:
        opened = hall.opened()["doors"]
        assert [door["dialect"] for door in opened] == ["dwork", "pingpong", "pingpong", "wmp"]
        for each in opened:
            host, _, port = each["address"].rpartition(":")
            socket.create_connection((host, int(port)), 20).close()


def test_an_address_in_use_is_named(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for dialect in ZMQ_DIALECTS:
            words = ("--door", f"{dialect}={address}")
            if dialect == "pingpong":
                words = (*words, "--set", "door[0].frontend=127.0.0.1:0")
            ended = run(HALL, "serve", "--storage", "memory", *words, cwd=folder)
            assert ended.returncode != 0
            assert f"door[0]: {address} is in use by another program" in ended.stderr
            assert "Traceback" not in ended.stderr
        words = ("--door", "pingpong=127.0.0.1:0", "--set", f"door[0].frontend={address}")
        ended = run(HALL, "serve", "--storage", "memory", *words, cwd=folder)
        assert f"door[0]: {address} is in use by another program" in ended.stderr


@pytest.mark.parametrize("dialect", ZMQ_DIALECTS)
def test_the_printed_file_has_every_setting_and_is_read_back(folder: Path, dialect: str) -> None:
    blocks = printed(folder).split("# Remove one # from each of these lines for a door of this dialect.\n")
    (block,) = (block for block in blocks if f'\n# dialect = "{dialect}"\n' in block)
    toml = re.sub("^# ?", "", block, flags=re.MULTILINE)
    settings = door(toml)
    assert settings == door(f'[[door]]\ndialect = "{dialect}"')
    written = set(re.findall(r"^(\w+) = ", toml, re.MULTILINE))
    assert written == set(type(settings).__struct_fields__) - {"curve"}
    outer, _, curve = toml.partition("# [door.curve]\n")
    inner = re.sub("^# (?=\\w+ = )", "", curve, flags=re.MULTILINE)
    inner = inner.replace('certificate = ""', 'certificate = "c"').replace(
        "clients = []", f'clients = ["{KEY}"]'
    )
    assert door(f"{outer}[door.curve]\n{inner}") == zmq_door(
        dialect, address=settings.address, curve__certificate="c", curve__clients=KEY
    )


def test_the_printed_file_opens_no_door_that_was_not_open_before(folder: Path) -> None:
    stated, default = (msgspec.structs.replace(read(text).config, origins={}) for text in (printed(folder), ""))
    assert stated == default


def printed(folder: Path) -> str:
    ended = run(HALL, "config", cwd=folder)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout
