"""Templates made at random, of what chat templates are made of and of what nobody would write."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

CONTEXT: Mapping[str, Any] = {
    "n": 3,
    "f": 2.5,
    "s": "Ab c,é😀 <x>\n",
    "words": ["b", "A", "c", "a", "b"],
    "numbers": [3, 1, 2, 2],
    "people": [{"name": "Zoë", "age": 3}, {"name": "ann", "age": 12, "tags": ["x", "y"]}],
    "d": {"key": "value", "a": 1, "nested": {"k": [1, "two", None, True]}},
    "empty": "",
    "nothing": None,
    "yes": True,
}

_LITERALS = [
    *"0 1 2 7 -1 10 1.5 0.1 1e3 2.0 true false none '' 'a' 'b' 'ab'".split(),
    *"\"it's\" '\\n' 'é😀' '<&>'".split(),
    *"[] {} () [1,2] ['b','a'] (1,) (1,'x') {'a':1} {'k':[1]} ',' '%s' '{}' '12'".split(),
    *("' x '", "'a b  c'", "'%s and %d'", "'{0}-{1}'", "'x\\ty'", "'A b-c'", "' 7.5 '"),
]
_NAMES = [*CONTEXT, "missing", "loop", "ns", "x"]
_FILTERS = (
    "abs capitalize count default(1) d('z') d('z',true) dictsort e first float int items join "
    "join('-') join(',',attribute='name') last length list lower map('upper') "
    "map(attribute='name') map(attribute='age',default=0) max min reject('odd') "
    "rejectattr('tags') replace('a','bb') replace('b','') reverse safe select select('string') "
    "selectattr('age','gt',3) selectattr('tags','defined') sort sort(reverse=true) "
    "sort(attribute='age') string sum sum(attribute='age') title tojson tojson(indent=2) "
    "tojson(ensure_ascii=true) tojson(sort_keys=true) trim trim('a') unique upper indent(2) "
    "indent('> ',true) format(1,'x')"
).split()
_METHODS = (
    ".upper() .lower() .title() .capitalize() .strip() .strip('a') .lstrip() .rstrip('b') .split() "
    ".split(',') .split('b',1) .rsplit('b',1) .splitlines() .startswith('A') .endswith(('b','c')) "
    ".replace('b','') .replace('','-') .replace('b','c',1) .find('c') .rfind('b') .count('b') "
    ".join(words) .format(1,n) .partition(',') .removeprefix('A') .isdigit() .isupper() "
    ".get('a') .get('zz',5) .index('b') .append(1) .name .key .nested.k .a .zz "
    "[0] [-1] [9] [1:] [:-1] [::-1] [::2] [5:1:-2] ['a'] ['key'] [n] .0 .items .__class__ .first "
    ".index0 .last .length .previtem"
).split()
_TESTS = (
    "defined undefined none string mapping sequence iterable number integer float boolean true "
    "false odd even divisibleby(2) eq(1) equalto('a') gt(1) in([1,'a']) sameas(none) callable "
    "lower upper"
).split()
_OPERATORS = "+ + + - * / // % ~ ~ == != < <= > >= and or in".split()


def _expression(rng: random.Random, depth: int = 3) -> str:
    if depth <= 0 or rng.random() < 0.2:
        return rng.choice(_LITERALS) if rng.random() < 0.4 else rng.choice(_NAMES)

    def inner() -> str:
        return _expression(rng, depth - 1)

    forms: list[Callable[[], str]] = [
        lambda: f"{inner()} {rng.choice(_OPERATORS)} {inner()}",
        lambda: f"({inner()} {rng.choice(_OPERATORS)} {inner()})",
        lambda: f"{inner()}|{rng.choice(_FILTERS)}",
        lambda: f"({inner()})|{rng.choice(_FILTERS)}|{rng.choice(_FILTERS)}",
        lambda: f"({inner()}){rng.choice(_METHODS)}",
        lambda: f"{rng.choice(_NAMES)}{rng.choice(_METHODS)}{rng.choice(_METHODS)}",
        lambda: f"{inner()} is {rng.choice(_TESTS)}",
        lambda: f"{inner()} is not {rng.choice(_TESTS)}",
        lambda: f"not {inner()}",
        lambda: f"-{inner()}",
        lambda: f"{inner()} if {inner()} else {inner()}",
        lambda: f"{inner()} if {inner()}",
        lambda: f"[{inner()}, {inner()}]",
        lambda: f"{{'k': {inner()}, 'l': {inner()}}}",
        lambda: f"range({inner()})|list",
        lambda: f"m({inner()})",
        lambda: f"{inner()} ** {inner()}",
        lambda: f"{inner()} not in {inner()}",
    ]
    return rng.choice(forms)()


def random_template(seed: int) -> str:
    """Return a template; it may be wrong, and what it does may be refused."""
    given = "{% set ns = namespace(v=0) %}{% macro m(a) %}<{{ a }}>{% endmacro %}"
    return given + _template(random.Random(seed), 2)


def _template(rng: random.Random, depth: int) -> str:
    def inner() -> str:
        return _template(rng, depth - 1)

    def expression() -> str:
        return _expression(rng, rng.choice((0, 1, 1, 1, 2, 2, 3)))

    def tag(text: str) -> str:
        left, right = rng.choice(("", "", "-", "+")), rng.choice(("", "", "-"))
        return f"{{%{left} {text} {right}%}}" + rng.choice(("", "\n", "\n  "))

    simple: list[Callable[[], str]] = [
        lambda: f"{{{{ {expression()} }}}}",
        lambda: f"{{{{- {expression()} -}}}}",
        lambda: rng.choice((" text ", "\n", "  \n ", "a", "{# note #}", "{#- note -#}\n")),
        lambda: tag(f"set x = {expression()}"),
        lambda: tag(f"set ns.v = {expression()}") + "{{ ns.v }}",
    ]
    nested: list[Callable[[], str]] = [
        lambda: tag(f"if {expression()}") + inner() + tag("else") + inner() + tag("endif"),
        lambda: (
            tag(f"for x in {expression()}")
            + inner()
            + rng.choice(
                ("", tag("break"), tag(f"if {expression()}") + tag("continue") + tag("endif"))
            )
            + inner()
            + tag("endfor")
        ),
        lambda: tag(f"for k, v in d.items() if {expression()}") + inner() + tag("endfor"),
        lambda: tag("set x") + inner() + tag("endset") + "{{ x }}",
        lambda: tag(f"filter {rng.choice(_FILTERS)}") + inner() + tag("endfilter"),
        lambda: tag("macro m(a, b=2)") + "{{ a }}" + inner() + tag("endmacro"),
        lambda: tag("generation") + inner() + tag("endgeneration"),
        lambda: tag(f"with x = {expression()}") + inner() + tag("endwith"),
        lambda: tag("raw") + "{{ x }}" + tag("endraw"),
    ]
    parts = [rng.choice(simple)() for _ in range(rng.randint(1, 2))]
    if depth > 0 and rng.random() < 0.7:
        parts.append(rng.choice(nested)())
    rng.shuffle(parts)
    return "".join(parts)
