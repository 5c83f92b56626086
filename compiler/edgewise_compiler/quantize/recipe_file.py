"""Recipes in TOML files.

name = "q4-first-layers-q8"
default = "q4"
searched = true

[[rule]]
tensors = ["model.embed_tokens.weight", "model.layers.[01].*"]
scheme = "q8"

[[rule]]
tensors = "lm_head.weight"
scheme = "q6"
rows = 16384
rest = "q5"
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgewise_compiler.quantize.codes import Scheme
from edgewise_compiler.quantize.recipes import QUANTS, Recipe, Rule
from edgewise_compiler.quantize.schemes import find_scheme
from edgewise_compiler.quantize.split import ROW_STEP, AnyScheme, Split
from edgewise_runtime.errors import InputError, UnsupportedError
from edgewise_runtime.files import read_bytes
from edgewise_runtime.format.reading import ID, Fields, shorten

MAX_BYTES = 1 << 20
MAX_RULES = 256
MAX_GLOBS = 4096
"""Of a rule."""
MAX_GLOB = 256
"""Characters: what a glob means is worked out in time that grows faster than its length."""

MAX_ROWS = 1 << 30
"""Of a matrix."""

MAX_PARTS = 32
"""Of a key, with dots between them."""
_MANY_KEYS = re.compile(
    r"""(?<![\w-])(?:(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+)"""
    rf"{{{MAX_PARTS}}}"
)
"""Reading a key takes time and memory that grow with more than the square of its parts' number. No
recipe has one of so many, and no text in one is such a name."""


def read_recipe(path: Path) -> Recipe:
    """The recipe in a TOML file: ``name``, ``default``, ``searched`` (which may be left out) and
    any number of ``[[rule]]`` tables.

    Raises:
        StorageError: the file cannot be read.
        InputError: it is no TOML, or says something else.
        UnsupportedError: a scheme that there is not, or schemes that do not go together.
    """
    fields = Fields(_table(path), str(path), InputError)
    name = fields.text("name", ID, most=64)
    if name in QUANTS:
        raise fields.fail("recipe", f"{name!r} is what --quant calls a preset")
    default = _scheme(fields)
    rules = fields.items("rule", most=MAX_RULES) if fields.has("rule") else []
    searched = fields.flag("searched") if fields.has("searched") else False
    fields.done()
    read = tuple(_rule(path, i, rule) for i, rule in enumerate(rules, 1))
    return Recipe(name, default, read, searched)


def _table(path: Path) -> object:
    try:
        text = read_bytes(path, MAX_BYTES).decode()
        if many := _MANY_KEYS.search(text):
            line = text.count("\n", 0, many.start()) + 1
            raise ValueError(f"a key in line {line} has more than {MAX_PARTS} parts")
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path} is not valid TOML: {shorten(str(error))}.",
            remedy="docs/guide.md has an example of a recipe.",
            code="input.recipe",
        ) from error


def _rule(path: Path, number: int, value: object) -> Rule:
    fields = Fields(value, f"{path}, rule {number} {shorten(value)}", InputError)
    if isinstance(fields.get("tensors"), str):
        globs = [fields.text("tensors")]
    else:
        globs = fields.items("tensors", most=MAX_GLOBS)
    if not globs or not all(isinstance(g, str) and 0 < len(g) <= MAX_GLOB for g in globs):
        wanted = f"a glob of at most {MAX_GLOB} characters over names, or a list of them"
        raise fields.fail("type", f"'tensors' must be {wanted}")
    rule = Rule(tuple(globs), _any_scheme(fields))
    fields.done()
    return rule


def _any_scheme(fields: Fields) -> AnyScheme:
    first = _scheme(fields, "scheme")
    if not fields.has("rows") and not fields.has("rest"):
        return first
    rows, rest = fields.integer("rows", ROW_STEP, MAX_ROWS), _scheme(fields, "rest")
    with _naming(fields):
        return Split(first, rows, rest)


def _scheme(fields: Fields, key: str = "default") -> Scheme:
    with _naming(fields):
        return find_scheme(fields.text(key))


@contextmanager
def _naming(fields: Fields) -> Iterator[None]:
    """Errors about schemes say where in the file."""
    try:
        yield
    except UnsupportedError as error:
        message = f"{fields.where}: {error.message}"
        raise UnsupportedError(message, remedy=error.remedy, code=error.code) from error
