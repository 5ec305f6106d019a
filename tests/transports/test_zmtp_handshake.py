"""How a ZeroMQ connection begins: peers of all spoken versions are understood, others are refused in time."""

from __future__ import annotations

import pytest
import zmq
from zmtp_wire import COMMAND, OLD_GREETING, SIGNATURE, HallSide, command, frame, greeting, message, ready

from hiringhall.transports.zmtp.curve import CurveKeys
from hiringhall.transports.zmtp.handshake import OPENING, ROUTER, SUB, XPUB
from hiringhall.transports.zmtp.keys import decode_key, public_key, read_secret_key

OWN_REST = b"\x01" + b"NULL".ljust(20, b"\0") + bytes(32)
OWN_READY = command(b"READY", b"\x0bSocket-Type\0\0\0\x06ROUTER\x08Identity\0\0\0\0")


def keys() -> CurveKeys:
    return CurveKeys(zmq.curve_keypair()[1], frozenset())


def fed(stream: bytes, step: int, **options: object) -> HallSide:
    hall = HallSide(**options)  # type: ignore[arg-type]
    for at in range(0, len(stream), step):
        hall.feed(stream[at : at + step])
    return hall


@pytest.mark.parametrize("step", [1, 7, 10_000])
@pytest.mark.parametrize(
    ("stream", "sent", "identity"),
    [
        (greeting() + ready(b"ann"), OWN_REST + OWN_READY, b"ann"),
        (greeting(0) + ready(), OWN_REST + OWN_READY, b""),
        (greeting(7, major=4) + ready(kind=b"REQ"), OWN_REST + OWN_READY, b""),
        (greeting() + command(b"READY"), OWN_REST + OWN_READY, b""),
        (greeting() + command(b"READY", b"\x08IDENTITY\0\0\0\x01i"), OWN_REST + OWN_READY, b"i"),
        (greeting() + command(b"READY", b"\x03X-Y\0\0\1\0" + bytes(256)), OWN_REST + OWN_READY, b""),
        (OLD_GREETING + frame(b"bob"), b"\x06" + frame(b""), b"bob"),
        (OLD_GREETING[:-1] + b"\x03" + frame(b""), b"\x06" + frame(b""), b""),
    ],
    ids=["3.1", "3.0", "4.7", "no properties", "upper case", "other properties", "2.0", "2.0 REQ"],
)
def test_a_peer_of_any_version_is_let_in_and_what_follows_is_read(
    stream: bytes, sent: bytes, identity: bytes, step: int
) -> None:
    hall = fed(stream + message(b"", b"hello"), step)
    assert (hall.refused, hall.sent, hall.identity) == ("", sent, identity)
    assert hall.heard == [(b"",), b"hello"]


NO_ZMTP = "it does not speak ZeroMQ's protocol in version 2.0 or later"


@pytest.mark.parametrize("step", [1, 10_000])
@pytest.mark.parametrize(
    ("stream", "text"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", NO_ZMTP),
        (b"\x01\x00", NO_ZMTP),
        (b"\xff" + bytes(8) + b"\x00", NO_ZMTP),
        (SIGNATURE + b"\x00\x05", NO_ZMTP),
        (greeting(mechanism=b"PLAIN"), "its security is PLAIN, that of this door is NULL"),
        (greeting() + ready(b"\0own"), "its identity begins with a zero or has more than 255 bytes"),
        (greeting() + ready(b"x" * 256), "its identity begins with a zero or has more than 255 bytes"),
        (greeting() + ready(kind=b"PUSH"), "its socket is a PUSH; this address is for DEALER or REQ or ROUTER"),
        (greeting() + command(b"HELLO"), "its first command is not READY"),
        (greeting() + command(b"READY", b"\0\0\0\0\0"), "its READY cannot be read"),
        (greeting() + command(b"READY", b"\x01a\0\0\0\x05b"), "its READY cannot be read"),
        (greeting() + command(b"READY", b"\xff"), "its READY cannot be read"),
        (greeting() + command(b"ERROR", b"\x03bad"), "it refuses this hall: b'bad'"),
        (greeting() + message(b"a"), "something else than its introduction follows its greeting"),
        (greeting() + b"\x06" + (1 << 40).to_bytes(8, "big"), f"its introduction has {1 << 40} bytes"),
        (OLD_GREETING[:-1] + b"\x08", "its socket is a PUSH; this address is for DEALER or REQ or ROUTER"),
        (OLD_GREETING[:-1] + b"\xf0", "its socket is a 240; this address is for DEALER or REQ or ROUTER"),
        (OLD_GREETING + frame(b"x", COMMAND), "something else than its introduction follows its greeting"),
    ],
)
def test_who_cannot_be_understood_is_refused(stream: bytes, text: str, step: int) -> None:
    hall = fed(stream, step)
    assert hall.refused == text
    assert hall.identity is None
    assert OWN_READY not in hall.sent


@pytest.mark.parametrize(
    ("own", "kind", "accepted"),
    [
        (ROUTER, b"ROUTER", True),
        (ROUTER, b"REP", False),
        (ROUTER, b"SUB", False),
        (SUB, b"PUB", True),
        (SUB, b"XPUB", True),
        (SUB, b"PUSH", False),
        (XPUB, b"SUB", True),
        (XPUB, b"XSUB", True),
        (XPUB, b"PULL", False),
    ],
)
def test_which_sockets_talk_to_each_other(own: bytes, kind: bytes, accepted: bool) -> None:
    hall = fed(greeting() + ready(kind=kind), 1000, own=own)
    assert (hall.refused == "") is accepted
    assert (b"\x05ERROR\x13Invalid socket type" in hall.sent) is not accepted


@pytest.mark.parametrize(
    ("stream", "text"),
    [
        (greeting() + ready(), "its security is NULL, that of this door is CURVE"),
        (OLD_GREETING + frame(b""), "it speaks ZMTP 2.0, which has no encryption"),
        (greeting(mechanism=b"CURVE") + ready(), "its first command is not a HELLO of CURVE"),
        (
            greeting(mechanism=b"CURVE") + frame(b"\x05HELLO\x01\x00".ljust(200, b"\1"), COMMAND),
            "it has another public key of this hall",
        ),
        (
            greeting(mechanism=b"CURVE") + frame(b"\x05HELLO\x01\x00".ljust(200, b"\0"), COMMAND),
            "it has another public key of this hall",
        ),
    ],
)
def test_with_curve_nothing_else_is_spoken(stream: bytes, text: str) -> None:
    assert fed(stream, 11, keys=keys()).refused == text


def test_the_first_bytes_of_the_hall_are_those_of_every_version() -> None:
    assert OPENING == SIGNATURE + b"\x03"


def test_keys_are_read_as_pyzmq_writes_them(tmp_path: object) -> None:
    import zmq.auth
    from zmq.utils import z85

    for _ in range(50):
        public, secret = zmq.curve_keypair()
        assert decode_key(secret) == z85.decode(secret)
        assert public_key(decode_key(secret)) == z85.decode(public)
    public_file, secret_file = zmq.auth.create_certificates(str(tmp_path), "hall")
    assert read_secret_key(secret_file) == zmq.auth.load_certificate(secret_file)[1]
    assert read_secret_key(public_file) == b""


@pytest.mark.parametrize("text", [b"", b"short", b"#" * 40, b" " * 40, b"a" * 41, b"a" * 39 + b"~"])
def test_what_is_no_key_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        decode_key(text)
