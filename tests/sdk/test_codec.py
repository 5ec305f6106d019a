"""Arguments and results on the wire: what goes out, what comes back, and what a wrong payload is told."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import inspect
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest

from hiringhall import Hall, Job
from hiringhall.sdk.codec import (
    BadArguments,
    BadResult,
    argument_parents,
    decode_arguments,
    decode_result,
    encode_arguments,
    encode_result,
)

HALL = Hall("hall://127.0.0.1:1")


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Box(msgspec.Struct):
    corner: Point
    colour: Colour = Colour.RED


class Movie(TypedDict):
    title: str
    year: int


class Person(pydantic.BaseModel):
    name: str
    age: int


@HALL.job
def thumbnail(path: str, width: int = 200) -> str:
    return f"{path} {width}"


@HALL.job
def typed(
    box: Box, movie: Movie, person: Person, at: dt.datetime, data: bytes, sizes: dict[int, Point] | None = None
) -> Person:
    return person


@HALL.job
def anything(value: Any, *rest: int, **others: Point) -> Any:
    return value


@HALL.job
def narrow(path: str, /, width: int = 1) -> None: ...


@HALL.job
def wide(*, path: str, width: int = 1) -> None: ...


@HALL.job
def split(path: str, /, *, width: int) -> None: ...


@HALL.job
def nothing() -> None: ...


@HALL.job(codec="msgpack")
def packed(data: bytes, point: Point) -> Point:
    return point


REMOTE = HALL.function("resize", returns=int)
RAW = HALL.function("resize", raw=True)
JOB = HALL.job_of(5)
OTHER = HALL.job_of(6)

SENT = [
    (thumbnail, ("cat.jpg",), {}, b'["cat.jpg"]'),
    (thumbnail, ("cat.jpg", 100), {}, b'["cat.jpg",100]'),
    (thumbnail, ("cat.jpg",), {"width": 100}, b'["cat.jpg",100]'),
    (thumbnail, (), {"path": "cat.jpg", "width": 100}, b'{"path":"cat.jpg","width":100}'),
    (narrow, ("cat.jpg",), {"width": 2}, b'["cat.jpg",2]'),
    (wide, (), {"path": "cat.jpg"}, b'{"path":"cat.jpg"}'),
    (wide, (), {"width": 5, "path": "cat.jpg"}, b'{"path":"cat.jpg","width":5}'),
    (anything, (1, 2, 3), {}, b"[1,2,3]"),
    (anything, (1,), {"p": Point(2)}, b'{"value":1,"p":{"x":2,"y":0}}'),
    (nothing, (), {}, b""),
    (REMOTE, ("cat.jpg", 1), {}, b'["cat.jpg",1]'),
    (REMOTE, (), {"path": "cat.jpg"}, b'{"path":"cat.jpg"}'),
    (RAW, (b"\0\xff",), {}, b"\0\xff"),
    (anything, ({"$job": 5},), {}, b'[{"$$job":5}]'),
    (anything, ({"$$job": [{"$job": 1}]},), {}, b'[{"$$$job":[{"$$job":1}]}]'),
    (anything, ("$job",), {}, b'["$job"]'),
]


@pytest.mark.parametrize(("function", "args", "kwargs", "payload"), SENT)
def test_a_call_is_one_array_or_one_object(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], payload: bytes
) -> None:
    assert encode_arguments(function, args, kwargs) == (payload, [])
    if function.body is not None:
        bind = inspect.signature(function.body).bind
        args_there, kwargs_there = decode_arguments(function, payload)
        assert bind(*args_there, **kwargs_there) == bind(*args, **kwargs)


@pytest.mark.parametrize(
    ("args", "payload", "parents"),
    [
        ((JOB,), b'[{"$job":5}]', [5]),
        (([JOB, {"deep": OTHER}, JOB],), b'[[{"$job":5},{"deep":{"$job":6}},{"$job":5}]]', [5, 6]),
        (({"$job": JOB},), b'[{"$$job":{"$job":5}}]', [5]),
    ],
)
def test_a_handle_becomes_a_parent(args: tuple[Any, ...], payload: bytes, parents: list[int]) -> None:
    assert encode_arguments(anything, args, {}) == (payload, parents)
    assert argument_parents(anything, payload) == parents


@pytest.mark.parametrize("codec", ["json", "msgpack"])
def test_results_of_parents_become_arguments(codec: Any) -> None:
    function = anything if codec == "json" else HALL.job(codec="msgpack", name="packed.anything")(anything.body)
    value = [JOB, {"$job": 1, "deep": OTHER}]
    payload, parents = encode_arguments(function, (value,), {})
    assert parents == [5, 6]
    results = {5: encode_result(function, {"$job": "a result"}), 6: encode_result(function, None)}
    args, _ = decode_arguments(function, payload, results)
    assert args == ([{"$job": "a result"}, {"$job": 1, "deep": None}],)


def test_a_result_in_another_codec_is_refused_and_never_another_number() -> None:
    packed = HALL.job(codec="msgpack", name="packed.number")(anything.body)
    with pytest.raises(TypeError, match=r"the result of job 7 is msgpack: give both functions the same codec"):
        encode_arguments(anything, (Job(HALL, packed, 7),), {})
    payload, _ = encode_arguments(anything, (JOB,), {})
    with pytest.raises(BadArguments, match="the result of job 5 is an argument, but it is not json"):
        decode_arguments(anything, payload, {5: b"a"})


def test_a_result_of_a_parent_is_converted_by_the_annotation() -> None:
    payload, _ = encode_arguments(typed_point, (JOB,), {})
    assert decode_arguments(typed_point, payload, {5: b'{"x":3}'}) == ((Point(3),), {})
    with pytest.raises(BadArguments, match=r"Expected `int`, got `str` - at `point.x`"):
        decode_arguments(typed_point, payload, {5: b'{"x":"3"}'})
    with pytest.raises(BadArguments, match="the result of job 5 is an argument, and it is not there"):
        decode_arguments(typed_point, payload, {})


@HALL.job
def typed_point(point: Point) -> None: ...


def test_types_come_back_as_they_were_sent() -> None:
    at = dt.datetime(2026, 11, 17, 3, 0, tzinfo=dt.UTC)
    call = (
        Box(Point(1, 2)),
        Movie(title="M", year=1931),
        Person(name="Ann", age=3),
        at,
        b"\0\1",
        {4: Point(5)},
    )
    payload, _ = encode_arguments(typed, call, {})
    assert decode_arguments(typed, payload) == (call, {})


def test_msgpack_by_choice() -> None:
    payload, parents = encode_arguments(packed, (b"\0\1", Point(1)), {})
    assert msgspec.msgpack.decode(payload) == [b"\0\1", {"x": 1, "y": 0}]
    assert parents == []
    assert decode_arguments(packed, payload) == ((b"\0\1", Point(1)), {})
    assert decode_result(packed, encode_result(packed, Point(3))) == Point(3)


FITTING = [
    (thumbnail, b'{"path": "cat.jpg"}', (), {"path": "cat.jpg"}),
    (thumbnail, b' {"path": "cat.jpg", "width": 3} ', (), {"path": "cat.jpg", "width": 3}),
    (nothing, b"", (), {}),
    (nothing, b" \n", (), {}),
    (nothing, b"[]", (), {}),
    (nothing, b"{}", (), {}),
    (anything, b"[1, 2, 3]", (1, 2, 3), {}),
    (anything, b'{"value": 1, "p": {"x": 1}}', (), {"value": 1, "p": Point(1)}),
    (REMOTE, b"[1]", (1,), {}),
    (RAW, b"\xff", (b"\xff",), {}),
]


@pytest.mark.parametrize(("function", "payload", "args", "kwargs"), FITTING)
def test_a_payload_of_another_client(
    function: Any, payload: bytes, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    assert decode_arguments(function, payload) == (args, kwargs)


WRONG = [
    (thumbnail, b"cat.jpg", "must be a JSON array or object, such as"),
    (thumbnail, b'"cat.jpg"', "must be a JSON array or object, such as"),
    (thumbnail, b'["cat.jpg"', "JSON is malformed|truncated"),
    (thumbnail, b'["cat.jpg", "wide"]', "Expected `int`, got `str` - at `width`"),
    (thumbnail, b'{"path": "cat.jpg", "width": "wide"}', "Expected `int`, got `str` - at `width`"),
    (thumbnail, b'{"path": "cat.jpg", "height": 3}', "unknown argument `height`"),
    (thumbnail, b'{"width": 3}', "missing argument `path`"),
    (thumbnail, b"[]", r"wrong number of arguments.*it needs: path"),
    (thumbnail, b"", r"wrong number of arguments.*it needs: path"),
    (thumbnail, b'["cat.jpg", 1, 2]', "wrong number of arguments"),
    (typed_point, b'[{"x": 1, "y": "a"}]', "at `point.y`"),
    (typed_point, b'{"point": {"y": 1}}', "missing required field `x` - at `point`"),
    (anything, b'[1, 2, "three"]', "Expected `int`, got `str`"),
    (anything, b'{"value": 1, "p": {"x": "a"}}', "Expected `int`, got `str`"),
    (anything, b'[{"$job": "x"}]', "stands for the result of a job"),
    (packed, b"\x01", "must be an array or a map"),
    (typed, b'{"person": {"name": "Ann"}}', "."),
]


@pytest.mark.parametrize(("function", "payload", "complaint"), WRONG)
def test_a_wrong_payload_is_told_where(function: Any, payload: bytes, complaint: str) -> None:
    with pytest.raises(BadArguments, match=complaint) as raised:
        decode_arguments(function, payload)
    assert str(raised.value).startswith(function.queue)


def test_a_wrong_pydantic_model_is_told_where() -> None:
    @HALL.job
    def greet(people: list[Person]) -> None: ...

    with pytest.raises(BadArguments, match=r"age: Field required - at `people\[0\]`"):
        decode_arguments(greet, b'[[{"name": "Ann"}]]')


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "complaint"),
    [
        (thumbnail, (), {}, "missing a required argument: 'path'"),
        (thumbnail, ("a", 1, 2), {}, "too many positional arguments"),
        (thumbnail, ("a",), {"height": 1}, "unexpected keyword argument 'height'"),
        (thumbnail, ("a",), {"path": 1}, "multiple values for argument 'path'"),
        (thumbnail, (object(),), {}, "builtins.object has no form for the wire"),
        (split, ("a",), {"width": 1}, "do not mix positional-only with keyword-only"),
        (REMOTE, (1,), {"a": 2}, "all arguments by position, or all by name"),
        (RAW, ("text",), {}, "its argument must be one object of bytes"),
    ],
)
def test_a_wrong_call_fails_where_it_is_made(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(TypeError, match=complaint):
        encode_arguments(function, args, kwargs)


def test_results() -> None:
    assert encode_result(nothing, None) == b"null"
    assert decode_result(nothing, b"null") is None
    assert decode_result(REMOTE, b"7") == 7
    assert decode_result(REMOTE, b"") is None
    assert decode_result(RAW, b"\xff") == b"\xff"
    assert decode_result(typed, b'{"name": "Ann", "age": 3}') == Person(name="Ann", age=3)
    with pytest.raises(BadResult, match="does not fit its annotation: Expected `int`, got `str`"):
        decode_result(REMOTE, b'"x"')
    with pytest.raises(BadResult, match="no form for the wire"):
        encode_result(nothing, object())
    with pytest.raises(BadResult, match="a handle of a job can be an argument, not a result"):
        encode_result(nothing, JOB)
    with pytest.raises(BadResult, match="must be bytes, not str"):
        encode_result(RAW, "text")


def test_annotations_that_cannot_be_read_are_named() -> None:
    def broken(value: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    function = HALL.job(broken)
    assert encode_arguments(function, (1,), {}) == (b"[1]", [])
    with pytest.raises(TypeError, match="import their types for the running program too"):
        function.signature.check()
