"""Between Python's values and JavaScript's: plain data crosses as JSON."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

from edgewise_client.errors import InputError, UnsupportedError, shorten

MOST_NUMBER = 2**53
"""JavaScript's numbers hold whole numbers up to here."""


def javascript() -> Any:
    """The global scope of JavaScript.

    Raises:
        UnsupportedError: ``unsupported.python`` where this Python runs in no JavaScript.
    """
    try:
        return import_module("js")
    except ImportError as error:
        raise UnsupportedError(
            "This Python does not run in JavaScript.",
            remedy="Load the package in Pyodide; elsewhere, use `edgewise.AsyncEngine`.",
            code="unsupported.python",
        ) from error


def json_of(name: str, value: Any) -> str:
    """The JSON text of plain data.

    Raises:
        InputError: ``input.value`` for what is none, such as a function among the tools.
    """
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"{name} is {shorten(value)}, which is not plain data: {error}.",
            remedy="Give dicts, lists, numbers, texts, bools and None; tools as JSON schemas.",
            code="input.value",
        ) from error


def to_js(name: str, value: Any) -> Any:
    """Plain data as JavaScript has it; raises as `json_of` does."""
    return javascript().JSON.parse(json_of(name, value))


def options_to_js(options: dict[str, Any]) -> Any:
    """Options by TypeScript's names; a seed that a number does not hold becomes a bigint."""
    seed = options.get("seed")
    large = isinstance(seed, int) and abs(seed) >= MOST_NUMBER
    plain = {name: one for name, one in options.items() if not (large and name == "seed")}
    made = javascript().Object.new()
    for name, value in plain.items():
        setattr(made, name, to_js(name, value))
    if large:
        made.seed = javascript().BigInt(str(seed))
    return made


def from_js(value: Any) -> Any:
    """Plain data of JavaScript's: undefined members are left out, null is None."""
    return json.loads(javascript().JSON.stringify(value))


async def module(library: Any) -> Any:
    """A JavaScript module: itself, or imported from its URL."""
    if not isinstance(library, str):
        return library
    url = javascript().URL.new(library, javascript().location.href).href
    return await import_module("pyodide.code").run_js("(url) => import(url)")(url)
