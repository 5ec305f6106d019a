"""The function that rq's workers import."""


def add(a: int, b: int) -> int:
    return a + b
