"""Grammars at random, and written down as people would in GBNF and in Lark."""

from __future__ import annotations

from random import Random

from edgewise_runtime.grammar.nodes import (
    Chars,
    Choice,
    Grammar,
    Literal,
    Node,
    Repeat,
    Rule,
    Sequence,
)

_NAMES = ("root", "a", "b")
_RANGES = (((97, 99),), ((45, 45), (93, 94)), ((34, 34), (128512, 128515)))
_COUNTS = ((0, 1), (0, None), (1, None), (2, 2), (1, 3), (2, None))
_LETTERS = 'ab"\\[]\n-^é日😀/'


def random_rules(random: Random) -> Grammar:
    """Three rules, of which each refers only to later ones, so that texts end."""
    rules = {name: _node(random, _NAMES[i + 1 :], 3) for i, name in enumerate(_NAMES)}
    return Grammar(rules, "root")


def _node(random: Random, names: tuple[str, ...], depth: int) -> Node:
    kind = random.randrange(4 if depth == 0 else 9)
    if kind == 0 or (kind == 1 and not names):
        return Literal("".join(random.choices(_LETTERS, k=random.randint(1, 3))))
    if kind == 1:
        return Rule(random.choice(names))
    if kind == 2:
        return Chars(random.choice(_RANGES))
    if kind == 3:
        return Sequence(())
    inner = tuple(_node(random, names, depth - 1) for _ in range(random.randint(1, 3)))
    if kind == 4:
        return Repeat(inner[0], *random.choice(_COUNTS))
    return Sequence(inner) if kind < 7 else Choice(inner)


def as_gbnf(grammar: Grammar) -> str:
    return "\n".join(f"{name} ::= {_gbnf(node)}" for name, node in grammar.rules.items())


def as_lark(grammar: Grammar) -> str:
    rules = {"start" if name == "root" else name: node for name, node in grammar.rules.items()}
    return "\n".join(f"{name}: {_lark(node)}" for name, node in rules.items())


def _escaped(text: str) -> str:
    return "".join(f"\\U{ord(c):08x}" if c in '"\\[]\n-^/' else c for c in text)


def _gbnf(node: Node) -> str:
    match node:
        case Literal(text):
            return f'"{_escaped(text)}"'
        case Chars(ranges):
            return f"[{''.join(f'{_escaped(chr(a))}-{_escaped(chr(b))}' for a, b in ranges)}]"
        case Sequence(items):
            return f"({' '.join(map(_gbnf, items))})"
        case Choice(items):
            return f"({' | '.join(map(_gbnf, items))})"
        case Repeat(item, least, most):
            return f"({_gbnf(item)}){{{least},{'' if most is None else most}}}"
        case Rule(name):
            return name


def _lark(node: Node) -> str:
    match node:
        case Literal(text):
            return f'"{_escaped(text)}"'
        case Chars(ranges):
            one = (f'"{_escaped(chr(a))}".."{_escaped(chr(b))}"' for a, b in ranges)
            return f"({' | '.join(one)})"
        case Sequence(items):
            return f"({' '.join(map(_lark, items))})"
        case Choice(items):
            return f"({' | '.join(map(_lark, items))})"
        case Repeat(item, 0, 1):
            return f"[{_lark(item)}]"
        case Repeat(item, least, None):
            return f"({_lark(item)}) ~ {least} ({_lark(item)})*" if least else f"({_lark(item)})*"
        case Repeat(item, least, most):
            return f"({_lark(item)}) ~ {least}..{most}"
        case Rule(name):
            return name
