"""Rules that no text ever ends, and rules that begin with themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from edgewise_runtime.grammar.nodes import Chars, Choice, Literal, Node, Repeat, Rule, Sequence


def endless_rule(rules: Mapping[str, Node]) -> str | None:
    """The first rule that has no text, since each would hold another of it; None if all have."""
    ending = ending_rules(rules)
    return next((name for name in rules if name not in ending), None)


def ending_rules(rules: Mapping[str, Node]) -> set[str]:
    """The rules that have a text."""
    return _those_with(rules, leaves=True)


def left_recursive_rule(rules: Mapping[str, Node]) -> str | None:
    """A rule that may begin with itself before any character, or None.

    Rules are taken away that begin with none that is left (Kahn 1962); from what stays, each rule
    leads to another that stays, and so to one that comes again.
    """
    empty = empty_rules(rules)
    begins = {name: dict.fromkeys(_beginnings(node, empty)) for name, node in rules.items()}
    users: dict[str, list[str]] = {name: [] for name in rules}
    for name, others in begins.items():
        for other in others:
            users[other].append(name)
    left = {name: len(others) for name, others in begins.items()}
    free = [name for name, count in left.items() if count == 0]
    while free:
        for user in users[free.pop()]:
            left[user] -= 1
            if left[user] == 0:
                free.append(user)
    found = next((name for name, count in left.items() if count), None)
    seen: set[str] = set()
    while found is not None and found not in seen:
        seen.add(found)
        found = next(other for other in begins[found] if left[other])
    return found


def empty_rules(rules: Mapping[str, Node]) -> set[str]:
    """The rules that the empty text is one of."""
    return _those_with(rules, leaves=False)


def _those_with(rules: Mapping[str, Node], *, leaves: bool) -> set[str]:
    """Rules with a property that characters have by `leaves`, items in a row if all have it, a
    choice if one has it, and what may be repeated no times always has. Linear in the nodes."""
    needs: list[int] = []  # of each node, how many of its items must still be found to have it
    parents: list[int] = []
    roots: dict[int, str] = {}
    users: dict[str, list[int]] = {name: [] for name in rules}
    ready: list[int] = []

    def add(node: Node, parent: int) -> int:
        at = len(needs)
        items: tuple[Node, ...] = ()
        match node:
            case Sequence(items):
                need = len(items)
            case Choice(items):
                need = 1
            case Repeat(item, least):
                need = min(least, 1)
                items = (item,) if least else ()
            case Rule(name):
                need = 1
                users[name].append(at)
            case Literal() | Chars():
                need = 0 if leaves else 1
        needs.append(need)
        parents.append(parent)
        if need == 0:
            ready.append(at)
        for each in items:
            add(each, at)
        return at

    for name, node in rules.items():
        roots[add(node, -1)] = name
    found: set[str] = set()
    while ready:
        at = ready.pop()
        above = [parents[at]]
        if at in roots:
            found.add(roots[at])
            above = users[roots[at]]
        for each in above:
            needs[each] -= 1
            if needs[each] == 0:
                ready.append(each)
    return found


def _beginnings(node: Node, empty: set[str]) -> Iterator[str]:
    """Rules that a node may begin with."""
    match node:
        case Rule(name):
            yield name
        case Sequence(items):
            for item in items:
                yield from _beginnings(item, empty)
                if not may_be_empty(item, empty):
                    return
        case Choice(items):
            for item in items:
                yield from _beginnings(item, empty)
        case Repeat(item):
            yield from _beginnings(item, empty)


def may_be_empty(node: Node, empty: set[str]) -> bool:
    """Whether the empty text is one of a node's, where `empty` are the rules of which it is one."""
    match node:
        case Rule(name):
            return name in empty
        case Sequence(items):
            return all(may_be_empty(item, empty) for item in items)
        case Choice(items):
            return any(may_be_empty(item, empty) for item in items)
        case Repeat(item, least):
            return not least or may_be_empty(item, empty)
    return False
