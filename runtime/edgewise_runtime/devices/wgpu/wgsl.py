"""What a shader may look like before wgpu-native sees it.

Its compiler, naga, goes down a text by recursion, and drivers lay out arrays as large as they are
asked to: brackets, types or arrays without a bound end the process. Shaders of a bundle are
therefore held to what the compiler of edgewise writes: one function, flat statements, small arrays.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from edgewise_runtime.errors import BundleError

MAX_NESTING = 64
"""Brackets inside brackets, of all kinds; edgewise's own have 18."""

MAX_STATEMENT = 2048
"""Bytes between two of ``; { }``, which bound how deep an expression or a type can be without
brackets; edgewise's own have 331."""

MAX_BLOCKS = 24
"""Blocks inside blocks; edgewise's own have 13."""

MAX_LOOPS = 64
"""Loops of a shader, which drivers unroll; edgewise's own have 36."""

MAX_SHARED = 16384
"""Elements of all arrays of a workgroup; edgewise's own have 3,618."""

MAX_PRIVATE = 2048
"""Elements of all arrays of a thread; edgewise's own have 611."""

_FOREIGN = tuple(
    re.compile(pattern)
    for pattern in (
        r"//",
        r"/\*",
        r"alias\b",
        r"const\b",
        r"const_assert\b",
        r"continuing\b",
        r"diagnostic\b",
        r"else\s+if\b",
        r"loop\b",
        r"override\b",
        r"ptr\b(?<!_ptr)",
        r"requires\b",
        r"switch\b",
        r"while\b",
    )
)
"""What edgewise's shaders do without. Patterns that begin with letters are found quickly."""

_ARRAY = re.compile(
    r"var(<workgroup>|<storage, read>|<storage, read_write>|) (\w+) ?: ?"
    r"array<(?:\w+|vec[234]<\w+>)(?:, (\d{1,5}))?>;"
)
_ASSIGNED = re.compile(r"=[\s(*&]*([a-z]\w*)[\s)]*;")
_COUNTS = {"fn": 1, "struct": 1, "for": MAX_LOOPS}


def _steps(up: bytes, down: bytes) -> npt.NDArray[np.int8]:
    steps = np.zeros(256, np.int8)
    steps[list(up)], steps[list(down)] = 1, -1
    return steps


_NESTED = {
    "brackets": (_steps(b"([{", b")]}"), MAX_NESTING),
    "blocks": (_steps(b"{", b"}"), MAX_BLOCKS),
}
_ENDS = np.zeros(256, np.bool_)
_ENDS[list(b";{}")] = True


def check_shader(path: str, data: bytes) -> str:
    """Return the text of a shader that is safe to compile.

    Raises:
        BundleError: ``bundle.shader`` for one that is no text, or that has what shaders of
            edgewise do not have.
    """
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError as cause:
        raise _refusal(path, "is no plain text") from cause
    for pattern in _FOREIGN:
        if found := pattern.search(text):
            raise _refusal(path, f"has {found[0]!r} in it")
    _check_depth(path, np.frombuffer(data, np.uint8))
    _check_arrays(path, text)
    for word, limit in _COUNTS.items():
        if (count := len(re.findall(rf"{word}\b", text))) > limit:
            raise _refusal(path, f"has {count:,} times {word!r}, more than {limit}")
    return text


def _check_depth(path: str, data: npt.NDArray[np.uint8]) -> None:
    for what, (steps, limit) in _NESTED.items():
        if (depth := int(steps[data].cumsum(dtype=np.int32).max(initial=0))) > limit:
            raise _refusal(path, f"nests {depth:,} {what}, more than {limit}")
    ends = np.flatnonzero(_ENDS[data])
    longest = int(np.diff(ends, prepend=-1, append=len(data)).max())
    if longest > MAX_STATEMENT:
        raise _refusal(path, f"has a statement of {longest:,} bytes, more than {MAX_STATEMENT:,}")


def _check_arrays(path: str, text: str) -> None:
    arrays = _ARRAY.findall(text)
    if len(arrays) != len(re.findall(r"array\b", text)):
        raise _refusal(path, "has arrays that are not variables of numbers or vectors")
    for scope, limit in (("<workgroup>", MAX_SHARED), ("", MAX_PRIVATE)):
        elements = sum(int(count or limit + 1) for of, _, count in arrays if of == scope)
        if elements > limit:
            raise _refusal(path, f"has arrays of {elements:,} elements, more than {limit:,}")
    # A driver moves the elements of an array that is copied one by one.
    if copied := {name for _, name, _ in arrays}.intersection(_ASSIGNED.findall(text)):
        raise _refusal(path, f"copies the array {min(copied)!r}")


def _refusal(path: str, what: str) -> BundleError:
    return BundleError(
        f"The shader {path} {what}: edgewise writes none like that.",
        remedy="Compile the model again with this version of edgewise.",
        code="bundle.shader",
    )
