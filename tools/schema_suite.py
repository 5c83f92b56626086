"""Counts which schemas of a suite are lowered, which are refused by name, and whether any is wrong.

    python -m tools.schema_suite FOLDER...

A file of a folder is a list of groups as the JSON Schema Test Suite has them, or one group as
JSONSchemaBench has it: a schema, and values that are valid under it or not. Each value is tried in
its canonical spelling, and texts drawn from the grammar are validated by `jsonschema`. Wrong is an
invalid value that is taken, and a drawn text that is invalid.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from jsonschema import Draft7Validator, Draft202012Validator, ValidationError
from jsonschema.validators import extend, validator_for
from referencing.exceptions import Unresolvable

from edgewise_runtime.errors import EdgewiseError
from edgewise_runtime.grammar.nodes import Grammar
from edgewise_runtime.grammar.schema import lower_schema
from edgewise_runtime.grammar.schema.values import spelled
from tests.runtime.grammar.drawing import drawn
from tests.runtime.grammar.recognise import accepts

DRAWN = 10
"""Texts drawn of each grammar."""
LONGEST = 2000
"""Characters of a value that is tried: the recogniser is slow."""
_DRAFTS = {"draft7": Draft7Validator, "draft2020-12": Draft202012Validator}


@dataclass
class Counts:
    """What became of the schemas of a folder, and of their values."""

    schemas: Counter[str] = field(default_factory=Counter)
    values: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    slowest: float = 0.0


def groups(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each group, and where it is from."""
    for path in sorted(folder.rglob("*.json")):
        held = json.loads(path.read_text("utf-8"))
        for group in held if isinstance(held, list) else [held]:
            yield f"{path.name}: {group.get('description', '')}", group


def count(folder: Path) -> Counts:
    counts = Counts()
    for name, group in groups(folder):
        start = time.perf_counter()
        try:
            grammar = lower_schema(group["schema"])
        except EdgewiseError as error:
            counts.schemas["refused" if error.code.startswith("unsupported") else "no schema"] += 1
            counts.reasons[reason(error.message)] += 1
            continue
        finally:
            counts.slowest = max(counts.slowest, time.perf_counter() - start)
        counts.schemas["accepted"] += 1
        _count_values(counts, name, grammar, group.get("tests", []))
        _count_drawn(counts, name, grammar, validator(folder, group["schema"]))
    return counts


def reason(message: str) -> str:
    """What an error says without its place and what differs from schema to schema."""
    said = message.partition(": ")[2]
    return re.sub(r"(reference|pattern:|nothing is at) .*|\d[\d,.]+", r"\1 …", said)


def _count_values(
    counts: Counts, name: str, grammar: Grammar, values: list[dict[str, Any]]
) -> None:
    for value in values:
        text = spelled(value["data"])
        if len(text) > LONGEST:
            counts.values["too long to try"] += 1
            continue
        taken = accepts(grammar, text)
        kind = "valid" if value["valid"] else "invalid"
        counts.values[f"{kind}, {'taken' if taken else 'not taken'}"] += 1
        if taken and not value["valid"]:
            counts.wrong.append(f"{name}: {value.get('description', '')} {text[:200]}")


def _count_drawn(counts: Counts, name: str, grammar: Grammar, validate: Any) -> None:
    for seed in range(DRAWN):
        text = drawn(grammar, grammar.rules[grammar.root], Random(seed))
        try:
            valid = validate.is_valid(json.loads(text))
        except (Unresolvable, RecursionError, AttributeError, TypeError, re.error) as error:
            counts.values[f"drawn, {type(error).__name__} of the validator"] += 1
            return
        counts.values[f"drawn, {'valid' if valid else 'invalid'}"] += 1
        if not valid:
            counts.wrong.append(f"{name}: drawn {text[:200]}")


def validator(folder: Path, schema: Any) -> Any:
    """The validator of a folder's draft, else of the schema's, with expressions over ASCII as
    ECMA-262 has them, and with formats asserted."""
    draft = _DRAFTS.get(folder.name) or validator_for(schema, default=Draft202012Validator)
    found = extend(draft, {"pattern": _pattern, "patternProperties": _pattern_properties})
    return found(schema, format_checker=draft.FORMAT_CHECKER)


def _pattern(_: Any, pattern: str, value: Any, __: Any) -> Iterator[ValidationError]:
    if isinstance(value, str) and not _found(pattern, value):
        yield ValidationError(f"{value!r} has no {pattern!r}")


def _pattern_properties(
    validator: Any, patterns: dict[str, Any], value: Any, _: Any
) -> Iterator[ValidationError]:
    for pattern, schema in patterns.items() if isinstance(value, dict) else ():
        for name, held in value.items():
            if _found(pattern, name):
                yield from validator.descend(held, schema, path=name, schema_path=pattern)


def _found(pattern: str, text: str) -> bool:
    """As ECMAScript has ``$``: not before a line break at the end."""
    return re.search(re.sub(r"(?<!\\)\$$", r"\\Z", pattern), text, re.ASCII) is not None


def main() -> None:
    for folder in map(Path, sys.argv[1:]):
        counts = count(folder)
        print(f"{folder}: {dict(counts.schemas)}, slowest {counts.slowest:.2f} s")
        for kind, number in sorted(counts.values.items()):
            print(f"  {number:7,} {kind}")
        for what, number in counts.reasons.most_common(25):
            print(f"  {number:7,} {what[:110]}")
        print(f"  {len(counts.wrong):7,} wrong")
        for each in counts.wrong[:50]:
            print(f"    {each}")


if __name__ == "__main__":
    main()
