"""The one hierarchy of errors: what happened, the offending value, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import TypeVar


class EdgewiseError(Exception):
    """Base of every error edgewise raises on purpose.

    Attributes:
        code: a stable identifier a program can test, such as ``"bundle.checksum"``.
        message: what happened, with the offending value.
        remedy: what a person can do about it; may be empty where nothing can be done.
    """

    default_code = "edgewise"

    def __init__(self, message: str, *, remedy: str = "", code: str | None = None) -> None:
        self.code = code or self.default_code
        self.message = message
        self.remedy = remedy
        super().__init__(message)

    @property
    def said(self) -> str:
        """What happened and what to do about it, for people who know where they are."""
        return f"{self.message} {self.remedy}".rstrip()

    def __str__(self) -> str:
        return f"{self.said} [{self.code}]"


class CheckpointError(EdgewiseError):
    """A checkpoint folder, its config, its tensors or its tokenizer cannot be read."""

    default_code = "checkpoint"


class UnsupportedError(EdgewiseError):
    """A well-formed request for something edgewise does not do (yet)."""

    default_code = "unsupported"


class CompileError(EdgewiseError):
    """The compiler could not turn a model into a program."""

    default_code = "compile"


class PlanError(EdgewiseError):
    """A plan is malformed or would touch memory outside its buffers."""

    default_code = "plan"


class BundleError(EdgewiseError):
    """A bundle is malformed, incomplete or damaged."""

    default_code = "bundle"


class TrustError(EdgewiseError):
    """Native code that this user did not compile, loaded without ``trust=True``."""

    default_code = "trust"


class DeviceError(EdgewiseError):
    """A device cannot run the program, or failed while doing so."""

    default_code = "device"


class EngineError(EdgewiseError):
    """The engine cannot take or finish a request: too busy, closed, or out of context."""

    default_code = "engine"


class InputError(EdgewiseError):
    """A prompt, parameter or option is out of range."""

    default_code = "input"


class HubError(EdgewiseError):
    """A hub of models cannot be reached, or does not hand out what was asked for."""

    default_code = "hub"


class StorageError(EdgewiseError):
    """Reading or writing a file failed: no space, no permission, not there."""

    default_code = "storage"


def raised_by_rust(error: BaseException) -> bool:
    """Whether an extension written in Rust may have raised it, such as the package tokenizers.

    Those raise bare Exceptions, and a panic arrives as something that is not even one.
    """
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


@contextmanager
def memory_errors(doing: str) -> Iterator[None]:
    """Say of a block that the system refused memory for, in the words of ours, what it was doing.

    Raises:
        EdgewiseError: ``memory``.
    """
    try:
        yield
    except MemoryError as cause:
        raise EdgewiseError(
            f"Memory ran out while {doing}.",
            remedy="Free some, or raise the limit that this process has (`ulimit -v`).",
            code="memory",
        ) from cause


AnError = TypeVar("AnError", bound=EdgewiseError)


def again(error: AnError) -> AnError:
    """The same error, to be raised once more, perhaps by several threads.

    Raising one object again and again would keep every frame that it has ever passed through.
    """
    fresh = copy(error).with_traceback(error.__traceback__)
    fresh.__cause__ = error.__cause__
    return fresh
