"""What the API is asked: parameters of queries and bodies of requests."""

from typing import Annotated

from msgspec import Meta, Struct

Limit = Annotated[int, Meta(ge=1, le=1000, description="How many items a page has.")]
Cursor = Annotated[str, Meta(max_length=2000, description="`next` of the page before.")]
Text = Annotated[str, Meta(max_length=1000)]


class Question(Struct, frozen=True, kw_only=True):
    """The parameters of a request. Those that are not here are refused."""


class QueuesQuestion(Question, frozen=True, kw_only=True):
    text: Annotated[str, Meta(max_length=1000, description="Only queues whose name contains this.")] = ""
    limit: Limit = 100
    cursor: Cursor = ""
