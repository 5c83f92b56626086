"""Chat templates that nobody would write: expressions and statements put together at random.

They lean towards what takes time and memory: powers, repeated texts, loops in loops, joins.
"""

from __future__ import annotations

from random import Random

HOSTILE = (
    "{{ 10**(10**9) }}",
    "{{ 9**9**9 }}",
    "{{ 10 ** 4000 }}",
    "{{ 1e308 * 10 }}",
    "{{ 'a' * 10**9 }}",
    "{% set x = 'a' * 1000000 %}",
    "{{ [[1] * 1000000] * 1000 }}",
    "{{ '%999999999d' % 1 }}",
    "{{ '%s%s' % (x, x) }}",
    "{% set x = x ~ x %}",
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "{% for i in range(10**9) %}{% endfor %}",
    "{% for i in range(40) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
    "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
    "{% macro f(x) %}{{ f(x ~ x) }}{{ f(x) }}{% endmacro %}{{ f('a') }}",
    "{{ messages | map(attribute='content') | join('x' * 99999) }}",
    "{{ 'a' | replace('', 'b' * 99999) | replace('b', 'c' * 99999) }}",
    "{{ range(99999) | list | tojson }}",
    "{{ range(99999) | join(range(99999) | join) }}",
    "{{ 'x' | indent(10**8) }}",
    "{{ 'x' | center(10**9) }}",
    "{{ 'x'.ljust(10**9) }}",
    "{{ 'x'.zfill(10**9) }}",
    "{{ messages | tojson(indent=10**8) }}",
    "{{ 1 / 0 }}{{ 1 % 0 }}{{ 2 ** -1 }}",
    "{{ strftime_now('%Y' * 99999) }}",
    "{{ raise_exception('x' * 99999) }}",
    "{% set ns = namespace() %}{% set ns.ns = ns %}{{ ns }}",
    "{{ x.__class__ }}{{ ''.__class__.__mro__ }}{{ '{0.__class__}'.format(x) }}",
    "{{ '{:999999999}'.format(1) }}",
    "{{ messages | sort(attribute='content') | groupby('role') }}",
    "{% include 'x' %}",
)
"""Whole statements."""
WORDS = (
    *HOSTILE,
    *(
        "{{",
        "}}",
        "{%",
        "%}",
        "{#",
        "#}",
        "{%-",
        "-%}",
        "(",
        ")",
        "[",
        "]",
        "|",
        "~",
        "+",
        "*",
        "**",
    ),
    *("{% for m in messages %}", "{% endfor %}", "{% if x %}", "{% endif %}", "{% else %}", "%"),
    *("{% generation %}", "{% endgeneration %}", "{% call f() %}", "{% break %}", "{% raw %}"),
    *("{{ loop }}", "{{ not ", "{{ (", "{{ -", "{{ namespace(a=1) }}", "{{ dict(a=1) }}"),
)

_NAMES = (
    "messages",
    "x",
    "y",
    "ns",
    "loop",
    "bos_token",
    "range",
    "tools",
    "message",
    "f",
    "true",
    "none",
)
_ATOMS = (
    "0",
    "1",
    "2",
    "-1",
    "7",
    "1000",
    "99999",
    "10**6",
    "2**31",
    "1.5",
    "1e300",
    "''",
    "'a'",
    "'ab c'",
)
_MORE = (
    "[]",
    "{}",
    "[1, 'a', none]",
    "{'a': 1}",
    "'é日本🙂'",
    "'%s'",
    "true",
    "false",
    "none",
    "'a' * 1000",
)
_BINARY = (
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "**",
    "~",
    "==",
    "!=",
    "<",
    ">=",
    "in",
    "not in",
    "and",
    "or",
)
_FILTERS = (
    *(
        "length",
        "upper",
        "trim",
        "join",
        "join('ab')",
        "list",
        "tojson",
        "tojson(indent=2)",
        "first",
        "last",
    ),
    *(
        "string",
        "int",
        "float",
        "default('d')",
        "replace('a', 'bb')",
        "sort",
        "reverse",
        "unique",
        "sum",
    ),
    *(
        "items",
        "map('upper')",
        "select",
        "selectattr('role')",
        "map(attribute='content')",
        "safe",
        "abs",
    ),
    *(
        "batch(2)",
        "indent(4)",
        "title",
        "dictsort",
        "groupby('role')",
        "e",
        "escape",
        "format(1)",
        "max",
    ),
)
_METHODS = (
    *(
        "split()",
        "split('a')",
        "strip()",
        "upper()",
        "items()",
        "keys()",
        "get('a')",
        "replace('a', 'b')",
    ),
    *(
        "startswith('a')",
        "format(1, a=2)",
        "join(['a', 'b'])",
        "encode()",
        "append(1)",
        "title()",
        "pop()",
    ),
    *(
        "zfill(999999)",
        "ljust(999999)",
        "center(999999)",
        "splitlines()",
        "__class__",
        "count('a')",
        "role",
    ),
)
_TESTS = (
    "defined",
    "string",
    "mapping",
    "none",
    "iterable",
    "number",
    "odd",
    "sameas none",
    "in [1]",
)


def template(rng: Random, depth: int = 3) -> str:
    """A few statements, written out one after the other."""
    return "".join(_statement(rng, depth) for _ in range(rng.randrange(1, 4)))


def _statement(rng: Random, depth: int) -> str:
    if rng.random() < 0.15:
        return rng.choice(HOSTILE)
    if depth == 0 or rng.random() < 0.4:
        return f"{{{{ {expression(rng, 3)} }}}}"
    name, value, body = rng.choice(("x", "y", "m")), expression(rng, 2), template(rng, depth - 1)
    match rng.randrange(7):
        case 0 | 1:
            return f"{{% for {name} in {value} %}}{body}{{% endfor %}}"
        case 2:
            return f"{{% if {value} %}}{body}{{% else %}}b{{% endif %}}"
        case 3 | 4:
            return f"{{% set {name} = {value} %}}{body}"
        case 5:
            return f"{{% macro f({name}) %}}{body}{{% endmacro %}}{{{{ f({value}) }}}}"
        case _:
            return f"{{% set ns = namespace(a={value}) %}}{{% set ns.a = ns.a ~ {value} %}}{body}"


def expression(rng: Random, depth: int) -> str:
    """An expression; most of them mean something."""
    if depth == 0:
        return rng.choice(rng.choice((_NAMES, _ATOMS, _MORE)))
    inner, other = expression(rng, depth - 1), expression(rng, depth - 1)
    match rng.randrange(10):
        case 0 | 1:
            return f"({inner} {rng.choice(_BINARY)} {other})"
        case 2 | 3:
            return f"({inner}) | {rng.choice(_FILTERS)}"
        case 4:
            return f"({inner}).{rng.choice(_METHODS)}"
        case 5:
            return f"({inner})[{other}]"
        case 6:
            return f"({inner})[{other}:{rng.choice(_ATOMS)}:{rng.choice(('', '-1', '0', '2'))}]"
        case 7:
            return f"({inner} is {rng.choice(_TESTS)})"
        case 8:
            return f"range({other})"
        case _:
            return f"({inner} if {other} else {rng.choice(_ATOMS)})"
