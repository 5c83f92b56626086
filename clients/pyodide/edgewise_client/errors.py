"""Errors in the shape of `edgewise.EdgewiseError`, and what becomes of JavaScript's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class EdgewiseError(Exception):
    """Base of every error that is raised on purpose.

    Attributes:
        code: a stable identifier a program can test, such as ``"device.memory"``.
        message: what happened, with the offending value.
        remedy: what a person can do about it; may be empty where nothing can be done.
    """

    default_code = "edgewise"

    def __init__(self, message: str, *, remedy: str = "", code: str | None = None) -> None:
        self.code = code or self.default_code
        self.message = message
        self.remedy = remedy
        super().__init__(message)

    def __str__(self) -> str:
        said = f"{self.message} {self.remedy}".rstrip()
        return f"{said} [{self.code}]"


class UnsupportedError(EdgewiseError):
    """A well-formed request for something that Python in a tab cannot do."""

    default_code = "unsupported.tab"


class InputError(EdgewiseError):
    """A prompt, parameter or option is out of range."""

    default_code = "input"


class AbsentError(UnsupportedError, AttributeError):
    """A method that `edgewise.AsyncEngine` has and engines of tabs have not; `hasattr` is False."""


KINDS: dict[str, type[EdgewiseError]] = {"unsupported": UnsupportedError, "input": InputError}
"""Classes by the first part of a code; all others are plain."""


def translated(error: Exception) -> Exception:
    """An EdgewiseError for one of JavaScript's that has its parts; any other error as it is."""
    parts = [getattr(error, name, None) for name in ("code", "message", "remedy")]
    if isinstance(error, EdgewiseError) or not all(isinstance(part, str) for part in parts):
        return error
    code, message, remedy = map(str, parts)
    kind = KINDS.get(code.partition(".")[0], EdgewiseError)
    return kind(message, remedy=remedy, code=code)


@contextmanager
def errors_of_javascript() -> Iterator[None]:
    """Raise the engine's errors out of this block as EdgewiseErrors."""
    try:
        yield
    except Exception as error:
        ours = translated(error)
        if ours is error:
            raise
        raise ours from error


def shorten(value: object) -> str:
    """The value as an error message quotes it: at most 80 characters."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
