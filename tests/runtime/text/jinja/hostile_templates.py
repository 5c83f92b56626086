"""Templates that ask for more time, memory or depth than any prompt needs, by what they do."""

from __future__ import annotations

from collections.abc import Mapping

MESSAGE = "x" * 1000


def _grown(step: str, start: str = "'é😀'", turns: int = 99) -> str:
    """A value that every turn of a loop makes larger."""
    body = f"{{% set ns.s = {step} %}}"
    loop = f"{{% for i in range({turns}) %}}{body}{{% endfor %}}"
    return f"{{% set ns = namespace(s={start}) %}}{loop}{{{{ ns.s | length }}}}"


_DEEP = 3_000
HOSTILE: Mapping[str, str] = {
    "power": "{{ 10 ** (10 ** 9) }}",
    "power of powers": "{{ 9 ** 9 ** 9 ** 9 }}",
    "power in a condition": "{% if false %}{{ 2 ** (2 ** 40) }}{% endif %}{{ 7 ** (10 ** 8) }}",
    "product of numbers": _grown("ns.s * ns.s", "10"),
    "product of text": "{{ ('x' * 999999) * 999999 }}",
    "product of lists": "{{ ([1] * 99999) * 99999 }}",
    "sum of text": _grown("ns.s + ns.s"),
    "sum of lists": _grown("ns.s + ns.s", "[1]"),
    "sum filter": _grown("[ns.s, ns.s] | sum(start=[])", "[1]"),
    "text joined": _grown("ns.s ~ ns.s"),
    "join": _grown("[ns.s, ns.s] | join(ns.s)"),
    "join of characters": _grown("ns.s | join('abcdefgh')", "'ab'"),
    "percent": _grown("'%s%s' % (ns.s, ns.s)"),
    "format": _grown("'{0}{0}{0}'.format(ns.s)"),
    "format filter": _grown("'%s%s' | format(ns.s, ns.s)"),
    "replace": _grown("ns.s | replace('x', 'xxxxxxxx')", "'xx'"),
    "replace of nothing": _grown("ns.s.replace('', 'yyyyyyyy')", "'xx'"),
    "indent": _grown("(ns.s ~ '\\n' ~ ns.s) | indent(99999)"),
    "wide indent": "{{ 'a\\nb' | indent(999999999) }}",
    "json indent": "{{ [[[[1]]]] | tojson(indent=999999999) }}",
    "lines": "{{ ('\\n' * 9999999).splitlines() | length }}",
    "lines to indent": "{{ ('\\n' * 9999999) | indent(0) | length }}",
    "json indent of deep lists": "{{ " + "[" * 20 + "1" + "]" * 20 + " | tojson(indent=9999999) }}",
    "json of nested lists": _grown("[ns.s, ns.s]", "[1]").replace("length", "tojson"),
    "text of nested lists": _grown("[ns.s, ns.s]", "[1]").replace("| length", ""),
    "equal nested lists": _grown("[ns.s, ns.s]", "[1]").replace("| length", "== ns.s"),
    "deep lists": _grown("[ns.s]", "[1]", 9999).replace("length", "tojson"),
    "escape": _grown("(ns.s ~ ns.s) | e ~ ''", "'<'"),
    "captured": "{% set x = 'ab' %}"
    + "{% set x %}{{ x }}{{ x }}{{ x }}{{ x }}{% endset %}" * 40
    + "{{ x | length }}",
    "ranges": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "range": "{{ range(10 ** 12) | length }}",
    "lists of ranges": _grown("ns.s + [range(99999) | list]", "[]"),
    "turns": "{% for a in range(999) %}" * 4 + "{% set x = 1 %}" + "{% endfor %}" * 4,
    "looking": _grown("('x' in 'y' * 99999)", "0", 99999),
    "sorting": "{% for a in range(999) %}{% set x = range(999) | sort | list %}{% endfor %}",
    "unique": "{{ range(99999) | unique | list | length }}",
    "written": "{% for i in range(99999) %}{{ messages[0].content }}{% endfor %}",
    "recursion": "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
    "branching recursion": "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
    "recursion by names": "{% macro f(g) %}{{ g(g) }}{% endmacro %}{{ f(f) }}",
    "recursion by default": "{% macro f(n=f()) %}{% endmacro %}{{ f() }}",
    "recursion of callers": "{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{% endmacro %}"
    "{{ f() }}",
    "doubled macros": "".join(
        f"{{% macro m{i} () %}}{{{{ m{i - 1}() }}}}{{{{ m{i - 1}() }}}}{{% endmacro %}}"
        for i in range(1, 60)
    )
    + "{% macro m0() %}x{% endmacro %}{{ m59() }}",
    "doubled filters": "{{ 'x'" + " | replace('x', 'xx')" * 60 + " }}",
    "many filters": "{{ 'x'" + " | upper" * 300 + " }}",
    "numbers": _grown("ns.s + 1e308", "1e308"),
    "time": "{{ strftime_now('%Y' * 9999999) }}",
}
"""Those that are parsed, and stopped while they are rendered."""

UNREADABLE: Mapping[str, str] = {
    "deep parentheses": "{{ " + "(" * _DEEP + "1" + ")" * _DEEP + " }}",
    "deep brackets": "{{ " + "[" * _DEEP + "]" * _DEEP + " }}",
    "deep signs": "{{ " + "-" * _DEEP + "1 }}",
    "deep negations": "{{ " + "not " * _DEEP + "1 }}",
    "deep conditions": "{{ " + "1 if 1 else " * _DEEP + "1 }}",
    "deep blocks": "{% if true %}" * _DEEP + "{% endif %}" * _DEEP,
    "deep sets": "{% set x %}" * _DEEP + "{% endset %}" * _DEEP,
    "deep dicts": "{{ " + "{1:" * _DEEP + "1" + "}" * _DEEP + " }}",
    "tokens": "{{ [" + "1," * 99_999 + "] }}",
    "digits": "{{ " + "9" * 100_000 + " }}",
    "large number": "{{ 9007199254740993 }}",
    "open raw blocks": "{% raw %}" + "{% " * 99_999,
    "open comments": "{# " * 99_999,
    "open text": "{{ '" + "\\'" * 99_999,
    "blanks": "{% " + " " * 500_000,
}
"""Those that are refused before they are rendered."""

SLOW = frozenset(
    ("doubled macros", "equal nested lists", "text of nested lists", "turns", "unique")
)
"""Those that take up to a second until they are stopped."""
