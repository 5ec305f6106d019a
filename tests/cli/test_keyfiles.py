"""The files that encrypt doors: secrets that others can read and certificates that expire are warned of."""

from __future__ import annotations

import shutil
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
import zmq.auth
from running import HALL, Running, run

from hiringhall.config.quantities import Address, Words
from hiringhall.config.schema import CurveSettings, TlsSettings
from hiringhall.doors.dwork import DworkDoorSettings
from hiringhall.doors.gearman import GearmanDoorSettings
from hiringhall.doors.keyfiles import DAY_S, expiry_warnings, find_certificates, secret_warnings
from stage.needs import skip_without

if TYPE_CHECKING:
    from pathlib import Path

    from hiringhall.config.schema import DoorSettings

CONFIG = """
[hall]
storage = "memory"
[[door]]
dialect = "gearman"
address = "127.0.0.1:0"
[door.tls]
certificate = "hall.pem"
key = "hall.key"
verify_client = false
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a certificate for ten days, its key, and settings for a hall that uses them."""
    skip_without("openssl")
    make_certificate(tmp_path, days=10)
    (tmp_path / "hall.toml").write_text(CONFIG, encoding="utf-8")
    return tmp_path


def make_certificate(folder: Path, days: int) -> None:
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=hall")
    command = ["openssl", "req", "-x509", *kind, "-days", str(days), "-keyout", "hall.key", "-out", "hall.pem"]
    subprocess.run(command, cwd=folder, capture_output=True, timeout=30, check=True)


def tls_door(folder: Path) -> GearmanDoorSettings:
    tls = TlsSettings(certificate=str(folder / "hall.pem"), key=str(folder / "hall.key"), verify_client=False)
    return GearmanDoorSettings(address=Address("127.0.0.1:0"), tls=tls)


@pytest.mark.parametrize(
    ("owner", "mode", "warned"),
    [(1000, 0o600, False), (1000, 0o640, True), (1000, 0o604, True), (0, 0o640, False), (0, 0o644, True)],
)
def test_a_secret_key_that_others_can_read_is_warned_of(
    folder: Path, owner: int, mode: int, warned: bool
) -> None:
    key = folder / "hall.key"
    try:
        shutil.chown(key, owner)
    except PermissionError:
        pytest.skip("only root can give a file away")
    key.chmod(mode)
    warnings = list(secret_warnings([tls_door(folder), tls_door(folder)]))
    assert len(warnings) == warned
    if warned:
        assert f"{key} holds a secret key, and its permissions are {mode:04o}" in warnings[0]
        assert f"chmod 600 {key}" in warnings[0]


def test_a_curve_key_that_others_can_read_is_warned_of(tmp_path: Path) -> None:
    public, secret = zmq.auth.create_certificates(tmp_path, "hall")
    client, _ = zmq.auth.load_certificate(public)
    curve = CurveSettings(certificate=str(secret), clients=Words([client.decode()]))
    door: DoorSettings = DworkDoorSettings(address=Address("127.0.0.1:0"), curve=curve)
    (tmp_path / "hall.key_secret").chmod(0o604)
    (warning,) = secret_warnings([door])
    assert f"{secret} holds a secret key" in warning
    (tmp_path / "hall.key_secret").chmod(0o600)
    assert not list(secret_warnings([door]))


@pytest.mark.parametrize("days", [1, 10_000, 30_000])
def test_the_end_of_a_certificate_is_read_as_openssl_reads_it(folder: Path, days: int) -> None:
    before_s = time.time()
    make_certificate(folder, days)
    (certificate,) = find_certificates([tls_door(folder)])
    assert certificate.file == str(folder / "hall.pem")
    assert before_s - 1 <= certificate.expires_s - days * DAY_S <= time.time() + 1


def test_expiry_is_warned_of_two_weeks_ahead(folder: Path) -> None:
    certificates = find_certificates([tls_door(folder)])
    (certificate,) = certificates
    assert not list(expiry_warnings(certificates, certificate.expires_s - 15 * DAY_S))
    (soon,) = expiry_warnings(certificates, certificate.expires_s - 13 * DAY_S)
    assert "hall.pem expires on" in soon
    assert "in 13 days" in soon
    (late,) = expiry_warnings(certificates, certificate.expires_s + 1)
    assert "hall.pem has expired on" in late


def test_a_file_that_is_no_certificate_gives_no_warning(folder: Path) -> None:
    (folder / "hall.pem").write_bytes(b"-----BEGIN CERTIFICATE-----\nMIIC\n-----END CERTIFICATE-----\n")
    assert find_certificates([tls_door(folder)]) == []


def test_a_hall_and_check_config_tell_of_both(folder: Path) -> None:
    (folder / "hall.key").chmod(0o644)
    checked = run(HALL, "check-config", cwd=folder)
    assert checked.returncode == 0
    with Running(HALL, "serve", "--json", cwd=folder) as hall:
        hall.opened()
        hall.process.terminate()
        hall.wait()
        errors = hall.errors()
    for told in (checked.stderr, errors):
        assert "hall.key holds a secret key, and its permissions are 0644" in told
        assert "a certificate of hall.pem expires on" in told
