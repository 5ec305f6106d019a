"""Settings of a native door: a port or a socket, and who may come in."""

from __future__ import annotations

from pathlib import Path

import pytest

from hiringhall.config.loading import Flags, Loaded, load
from hiringhall.config.quantities import Address, StreamAddress
from hiringhall.config.sources import ConfigError
from hiringhall.server import DEFAULT_DOORS, DOOR_SETTINGS


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def read(toml: str, *doors: str) -> Loaded:
    Path("hall.toml").write_text(toml, encoding="utf-8")
    return load(Flags(None, doors), {}, DOOR_SETTINGS, DEFAULT_DOORS)


def problems(toml: str, *doors: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(toml, *doors)
    return caught.value.problems


@pytest.mark.parametrize(
    ("toml", "problem"),
    [
        ('address = "unix:"', f'address: "unix:" is not allowed; it takes {StreamAddress.allowed}'),
        ('address = "4731"', f'address: "4731" is not allowed; it takes {StreamAddress.allowed}'),
        (
            'address = "unix:a.sock"\n[door.tls]\ncertificate = "c"\nkey = "k"\nca = "a"',
            "tls: is not possible at a Unix socket; only this machine reaches it, and only its owner",
        ),
    ],
)
def test_a_wrong_socket_of_a_native_door_is_named(toml: str, problem: str) -> None:
    assert problems(f'[[door]]\ndialect = "native"\n{toml}') == [f"hall.toml: door[0].{problem}"]


def test_a_native_door_may_be_a_socket_and_two_of_them_not_the_same() -> None:
    (settings,) = read("", "native=unix:run/hall.sock").config.door
    assert (settings.address, settings.address.path) == ("unix:run/hall.sock", "run/hall.sock")
    assert problems("", "native=unix:a", "native=unix:b", "native=unix:a") == [
        "--door: door[2].address: unix:a is used by door[0]"
    ]
    assert problems("", "gearman=unix:a") == [
        f'--door: door[0].address: "unix:a" is not allowed; it takes {Address.allowed}'
    ]


@pytest.mark.parametrize(
    ("lines", "safe"),
    [
        ('tokens = "required"\n[door.tls]\ncertificate = "c"\nkey = "k"\nverify_client = false\n', True),
        ('tokens = "auto"\n[door.tls]\ncertificate = "c"\nkey = "k"\nverify_client = false\n', False),
        ('tokens = "off"\n[door.tls]\ncertificate = "c"\nkey = "k"\nca = "a"\n', True),
        ('tokens = "required"\n', False),
        ('tokens = "required"\ninsecure = true\n', True),
    ],
)
def test_a_native_door_for_other_machines_needs_tls_and_tokens_or_certificates(lines: str, safe: bool) -> None:
    toml = f'[[door]]\ndialect = "native"\naddress = "0.0.0.0:4731"\n{lines}'
    if safe:
        read(toml)
        return
    (problem,) = problems(toml)
    assert 'configure tls with verify_client or with tokens = "required", listen on 127.0.0.1' in problem
