"""The parameters of a job function: how a call is arranged for the wire, and how a payload becomes a call.

Invariant: types are looked at only when a payload or result is decoded, so that a program that only submits
pays nothing for them, and needs no type that is imported for type checkers alone.
"""

from __future__ import annotations

import inspect
import re
import typing
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hiringhall.sdk.hooks import from_wire

if TYPE_CHECKING:
    from collections.abc import Callable

_MISSING: Final = object()
"""The value of a field whose argument was not given: the function's own default holds."""
_INDEX: Final = re.compile(r"`\$\[(\d+)\](.*)`$")
_FIELD: Final = re.compile(r"`\$\.(\w+)(.*)`$")
_JSON_SPACE: Final = b" \t\r\n"


def _missing() -> Any:
    return _MISSING


class Signature:
    """The signature of a function; of one that is known by name only, `function` is None."""

    def __init__(self, name: str, function: Callable[..., Any] | None, returns: Any = Any) -> None:
        self._name = name
        self._function = function
        self._returns = returns
        self._decoders: dict[tuple[str, bool], Any] = {}
        self._result_decoders: dict[str, Callable[[bytes], Any]] = {}
        self._signature = inspect.signature(function) if function is not None else None
        parameters = list(self._signature.parameters.values()) if self._signature is not None else []
        self._positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        self._named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        self._rest = next((p for p in parameters if p.kind is p.VAR_POSITIONAL), None)
        self._others = next((p for p in parameters if p.kind is p.VAR_KEYWORD), None)
        self.required = any(p.default is p.empty for p in self._positional + self._named)
        """It cannot be called without arguments."""
        least = sum(p.default is p.empty for p in self._positional)
        keyword_only = any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in parameters)
        self._counts: range | None = None
        """Numbers of positional arguments that make a complete call; None: any."""
        if function is not None and not self._rest:
            self._counts = range(least, len(self._positional) + 1) if not keyword_only else range(0)

    # --- a call, before it is sent

    def arrange(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...] | dict[str, Any]:
        """The arguments as one array or one object. Raises TypeError for a call that would fail."""
        if not kwargs and (self._counts is None or len(args) in self._counts):
            return args
        if self._signature is None:
            if args and kwargs:
                raise TypeError(
                    f"{self._name} is known by its name only: give all arguments by position, or all by name"
                )
            return kwargs
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self._name}: {error}") from None
        given = bound.arguments
        rest = given.pop(self._rest.name, ()) if self._rest else ()
        others = given.pop(self._others.name, {}) if self._others else {}
        by_name = [p.name for p in self._named if p.kind is p.KEYWORD_ONLY and p.name in given]
        if args and not by_name and not others and self._gapless(given):
            return (*(given[p.name] for p in self._positional if p.name in given), *rest)
        if rest or any(p.kind is p.POSITIONAL_ONLY and p.name in given for p in self._positional):
            raise TypeError(
                f"{self._name}: a call is sent as an array or as an object, and this one needs both: "
                "do not mix positional-only with keyword-only parameters"
            )
        return {**given, **others}

    def _gapless(self, given: dict[str, Any]) -> bool:
        """Whether the given positional parameters are the first ones."""
        present = [p.name in given for p in self._positional]
        return present == sorted(present, reverse=True) and (not given or present[:1] == [True])

    # --- a payload, before it is called

    def decode(self, payload: bytes, codec: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The call that a payload asks for. Raises ValueError."""
        if not payload.strip(_JSON_SPACE):
            return self.convert([])
        form = _form_of(payload, codec)
        if self._function is None or self._rest is not None or self._others is not None:
            return self.convert(_ANY[codec](payload))
        if form is list:
            return self._array_call(self._decoder(codec, as_array=True).decode(payload))
        return (), self._object_call(self._decoder(codec, as_array=False).decode(payload))

    def convert(self, plain: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The same from a decoded payload."""
        if isinstance(plain, list):
            if self._function is None:
                return tuple(plain), {}
            count = len(self._positional) if self._rest is not None else len(plain)
            args = self._array_call(_convert(plain[:count], self._array))[0]
            if self._rest is None:
                return args, {}
            kind: Any = self._hint(self._rest.name)
            rest = [_convert(value, kind) for value in plain[count:]]
            return (*args, *rest), {}
        if not isinstance(plain, dict):
            raise ValueError(  # noqa: TRY004 (the peer's data, not the caller's type)
                "the payload must be an array (arguments by position) or an object (by name)"
            )
        if self._function is None:
            return (), plain
        others: dict[str, Any] = {}
        if self._others is not None:
            names = {p.name for p in self._named}
            others = {name: value for name, value in plain.items() if name not in names}
            plain = {name: value for name, value in plain.items() if name in names}
            kind = self._hint(self._others.name)
            others = {name: _convert(value, kind) for name, value in others.items()}
        return (), {**self._object_call(_convert(plain, self._object)), **others}

    def explain(self, text: str) -> str:
        """An error of msgspec in terms of the function's parameters."""
        if found := _INDEX.search(text):
            index = int(found[1])
            name = self._positional[index].name if index < len(self._positional) else f"[{index}]"
            return f"{text[: found.start()]}`{name}{found[2]}`"
        if found := _FIELD.search(text):
            return f"{text[: found.start()]}`{found[1]}{found[2]}`"
        if text.startswith("Expected `array` of at "):
            needed = [p.name for p in self._positional if p.default is p.empty]
            return f"wrong number of arguments: {text} (it needs: {', '.join(needed) or 'none'})"
        text = text.replace("Object missing required field", "missing argument")
        return text.replace("Object contains unknown field", "unknown argument")

    def decode_result(self, data: bytes, codec: str) -> Any:
        """Raises ValueError."""
        decode = self._result_decoders.get(codec)
        if decode is None:
            decode = self._result_decoders[codec] = self._result_decoder(codec).decode
        return decode(data)

    def check(self) -> None:
        """Raise TypeError if the annotations cannot be used to decode."""
        try:
            for codec in ("json", "msgpack"):
                self._decoder(codec, as_array=True)
                self._decoder(codec, as_array=False)
                self._result_decoder(codec)
        except TypeError as error:
            raise TypeError(f"{self._name}: {error}") from error

    # --- types

    @cached_property
    def _hints(self) -> dict[str, Any]:
        if self._function is None:
            return {"return": self._returns}
        function = inspect.unwrap(self._function)
        try:
            return typing.get_type_hints(function, include_extras=True)
        except (NameError, AttributeError, TypeError) as error:
            raise TypeError(
                f"{self._name}: its annotations cannot be read ({error}): "
                "import their types for the running program too, not only for type checkers"
            ) from error

    def _hint(self, name: str) -> Any:
        return self._hints.get(name, Any)

    @cached_property
    def _array(self) -> type[msgspec.Struct]:
        return self._structure(self._positional, as_array=True)

    @cached_property
    def _object(self) -> type[msgspec.Struct]:
        return self._structure(self._named, as_array=False)

    def _structure(self, parameters: list[inspect.Parameter], *, as_array: bool) -> type[msgspec.Struct]:
        # The fields have names of their own, since those of parameters may be any.
        fields: list[Any] = [
            (f"field_{number}", self._hint(p.name), msgspec.field(name=p.name))
            if p.default is p.empty
            else (f"field_{number}", self._hint(p.name), msgspec.field(name=p.name, default_factory=_missing))
            for number, p in enumerate(parameters)
        ]
        return msgspec.defstruct(
            "Arguments", fields, array_like=as_array, forbid_unknown_fields=True, kw_only=not as_array
        )

    def _array_call(self, arguments: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        values = [getattr(arguments, field) for field in arguments.__struct_fields__]
        return tuple(value for value in values if value is not _MISSING), {}

    def _object_call(self, arguments: Any) -> dict[str, Any]:
        values = [getattr(arguments, field) for field in arguments.__struct_fields__]
        names = [p.name for p in self._named]
        return {name: value for name, value in zip(names, values, strict=True) if value is not _MISSING}

    def _decoder(self, codec: str, *, as_array: bool) -> Any:
        kind = self._array if as_array else self._object
        decoder = self._decoders.get((codec, as_array))
        if decoder is None:
            make: Any = msgspec.json.Decoder if codec == "json" else msgspec.msgpack.Decoder
            decoder = self._decoders[codec, as_array] = make(kind, dec_hook=from_wire)
        return decoder

    def _result_decoder(self, codec: str) -> Any:
        make: Any = msgspec.json.Decoder if codec == "json" else msgspec.msgpack.Decoder
        return make(self._hint("return"), dec_hook=from_wire)


_ANY: Final[dict[str, Callable[[bytes], Any]]] = {
    "json": msgspec.json.decode,
    "msgpack": msgspec.msgpack.decode,
}


def _convert(value: Any, kind: Any) -> Any:
    return msgspec.convert(value, kind, dec_hook=from_wire, str_keys=True)


def _form_of(payload: bytes, codec: str) -> type[list[Any]] | type[dict[Any, Any]]:
    """Whether the payload is an array or an object. Raises ValueError."""
    if codec == "json":
        first = payload.lstrip(_JSON_SPACE)[:1]
        if first in (b"[", b"{"):
            return list if first == b"[" else dict
        example = '["cat.jpg", 100] or {"path": "cat.jpg", "width": 100}'
        raise ValueError(f"the payload must be a JSON array or object, such as {example}")
    first_byte = payload[0]
    if first_byte & 0xF0 == 0x90 or first_byte in (0xDC, 0xDD):
        return list
    if first_byte & 0xF0 == 0x80 or first_byte in (0xDE, 0xDF):
        return dict
    raise ValueError("the payload must be an array or a map of MessagePack")
