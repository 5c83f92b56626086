"""What fields of requests are made of: bounded types, and the base of what is read into them."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

MAX_TEXT = 1 << 24
"""Characters of one text."""
MAX_ITEMS = 1 << 20
"""Of one list; what is too much for a model is told from what is too much for a server."""
MAX_COUNT = (1 << 31) - 1

Text: TypeAlias = Annotated[str, Field(max_length=MAX_TEXT)]
Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=256)]
Note: TypeAlias = Annotated[str, Field(max_length=4096)]
"""Text that is kept beside something, such as who asks."""
Count: TypeAlias = Annotated[int, Field(ge=0, le=MAX_COUNT)]
Number: TypeAlias = Annotated[float, Field(ge=-1e9, le=1e9)]
Seed: TypeAlias = Annotated[int, Field(ge=-(1 << 63), lt=1 << 64)]
TokenIds: TypeAlias = Annotated[list[Count], Field(max_length=MAX_ITEMS)]
Stops: TypeAlias = Annotated[list[Text], Field(max_length=64)]
JsonObject: TypeAlias = Annotated[dict[str, Any], Field(max_length=1024)]
"""Handed to the engine as it is, which copies and bounds it (`edgewise.plain`)."""


class Strict(BaseModel):
    """A request, or a part of one: no text is read as a number, and nothing as it nearly is.

    Fields that it does not know are left out: clients send more than servers need.
    """

    model_config = ConfigDict(
        allow_inf_nan=False, extra="ignore", frozen=True, protected_namespaces=(), strict=True
    )


class Shape(BaseModel):
    """The shape of an answer, or of a part of one. Answers are not made of it: what has to be
    quick is written as it is, and tests hold that to its shape."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())
