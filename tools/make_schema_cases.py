"""Writes what schemas become to tests/grammar, for both languages to check.

    python -m tools.make_schema_cases

Of what is at random or long only a hash of the grammar's JSON is kept, or the code of the error.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

from edgewise_runtime.grammar.nodes import to_json
from edgewise_runtime.grammar.schema import lower_schema
from tests.runtime.grammar.schema.random_schemas import random_schema
from tests.runtime.grammar.schemas import EXAMPLES, UNSUPPORTED, WRONG
from tools.make_pattern_cases import CASES, Case, compact, hashed, lines, outcome

RANDOM = 400
LONGEST = 2000
"""Characters of what is kept as it is."""


def schema_json(schema: Any, prefix: str = "") -> Case:
    grammar = lower_schema(schema, prefix=prefix)
    return {"root": grammar.root, "rules": [[n, to_json(r)] for n, r in grammar.rules.items()]}


def schema_cases() -> Iterator[Case]:
    schemas = {name: example.schema for name, example in EXAMPLES.items()}
    for name, schema in {**schemas, **UNSUPPORTED, **WRONG}.items():
        yield {"what": name, "schema": schema, **short(outcome(partial(schema_json, schema)))}
    tree = schemas["a tree"]
    found = outcome(partial(schema_json, tree, "x_"))
    yield {"what": "names with a prefix", "schema": tree, "prefix": "x_", **found}


def short(found: Case) -> Case:
    return found if len(compact(found)) <= LONGEST else hashed(found)


def random_cases() -> Iterator[Case]:
    random = Random(3)
    for _ in range(RANDOM):
        schema = random_schema(random)
        yield {"schema": schema, **hashed(outcome(partial(schema_json, schema)))}


def written() -> dict[str, str]:
    """Every file's name and content."""
    return {
        "schemas.json": lines(schema_cases()),
        "random-schemas.json": lines(random_cases()),
    }


def main() -> None:
    for name, content in written().items():
        (CASES / name).write_text(content, "utf-8")


if __name__ == "__main__":
    main()
