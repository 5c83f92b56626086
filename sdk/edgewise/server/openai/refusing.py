"""Parameters that mean something and are not obeyed: refused by name, never passed over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import model_validator

from edgewise.server.wire_types import Strict
from edgewise_runtime.errors import UnsupportedError
from edgewise_runtime.format.reading import shorten


@dataclass(frozen=True)
class Refused:
    """A parameter that is not obeyed.

    Attributes:
        remedy: what to do instead.
        harmless: values that ask for nothing, besides null.
    """

    remedy: str
    harmless: tuple[Any, ...] = ()


class Asking(Strict):
    """A request some of whose parameters are refused.

    Others that it does not know, such as `user` or `metadata`, change no answer and are left out.
    """

    REFUSED: ClassVar[Mapping[str, Refused]] = {}

    @model_validator(mode="before")
    @classmethod
    def _refuse(cls, value: Any) -> Any:
        if isinstance(value, dict):
            for name, refused in cls.REFUSED.items():
                asked = value.get(name)
                if asked is not None and asked not in refused.harmless:
                    raise UnsupportedError(
                        f"{name} is {shorten(asked)}, and is not supported.",
                        remedy=refused.remedy,
                        code="unsupported.parameter",
                    )
        return value
