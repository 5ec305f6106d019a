"""The rules of a queue as stores keep them: a map in MessagePack of what differs from the default."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from hiringhall.core.errors import Refusal
from hiringhall.core.rules.queue_rules import NO_RULES, QueueRules, check_rules

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(dict[str, int | bool | dict[bytes, int]])


def encode_rules(rules: QueueRules) -> bytes:
    stated = {name: value for name, value in rules._asdict().items() if value != getattr(NO_RULES, name)}
    return _ENCODER.encode(stated)


def decode_rules(data: bytes) -> QueueRules | None:
    """The rules that were stored; None: this code would not have written them."""
    try:
        stated: dict[str, Any] = _DECODER.decode(data)
        for name, value in stated.items():
            if type(value) is not type(getattr(NO_RULES, name, None)):
                return None
        rules = QueueRules(**stated)
        check_rules(rules)
    except (msgspec.DecodeError, UnicodeDecodeError, Refusal):
        return None
    return rules
