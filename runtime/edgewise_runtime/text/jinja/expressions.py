"""The expressions of a template, as the parser builds them."""

from __future__ import annotations

from collections.abc import Callable

from edgewise_runtime.text.jinja.arithmetic import OPERATORS, joined, negative
from edgewise_runtime.text.jinja.checks import check
from edgewise_runtime.text.jinja.compare import contains, equal, order
from edgewise_runtime.text.jinja.filters import filtered
from edgewise_runtime.text.jinja.functions import GLOBALS
from edgewise_runtime.text.jinja.members import attribute, item, part
from edgewise_runtime.text.jinja.run import Expression, Run, Scope, TemplateError, Value, a_node
from edgewise_runtime.text.jinja.values import (
    Arguments,
    Function,
    Undefined,
    kind,
    text_of,
    truth,
)


@a_node
class Constant:
    of: Value

    def value(self, run: Run, scope: Scope) -> Value:
        return self.of


@a_node
class Name:
    name: str

    def value(self, run: Run, scope: Scope) -> Value:
        inner: Scope | None = scope
        while inner is not None:
            if self.name in inner.names:
                return inner.names[self.name]
            inner = inner.parent
        return GLOBALS.get(self.name) or Undefined(f"{self.name!r} is undefined")


@a_node
class Items:
    """A list or tuple that is written out."""

    items: list[Expression]
    is_tuple: bool

    def value(self, run: Run, scope: Scope) -> Value:
        run.items(len(self.items))
        values = [run.evaluate(item, scope) for item in self.items]
        return tuple(values) if self.is_tuple else values


@a_node
class Pairs:
    """A dict that is written out."""

    pairs: list[tuple[Expression, Expression]]

    def value(self, run: Run, scope: Scope) -> Value:
        run.items(2 * len(self.pairs))
        values: dict[str | int, Value] = {}
        for key_node, value_node in self.pairs:
            key = run.evaluate(key_node, scope)
            if isinstance(key, bool) or not isinstance(key, str | int):
                raise TemplateError(f"a key is text or a whole number, not {kind(key)}")
            values[key] = run.evaluate(value_node, scope)
        return values


@a_node
class Attribute:
    base: Expression
    name: str

    def value(self, run: Run, scope: Scope) -> Value:
        return attribute(run.evaluate(self.base, scope), self.name)


@a_node
class Index:
    base: Expression
    key: Expression

    def value(self, run: Run, scope: Scope) -> Value:
        base = run.evaluate(self.base, scope)
        return item(base, run.evaluate(self.key, scope))


@a_node
class Slice:
    """``base[start:stop:step]``; None for what is left out."""

    base: Expression
    bounds: list[Expression | None]

    def value(self, run: Run, scope: Scope) -> Value:
        base = run.evaluate(self.base, scope)
        bounds = [None if node is None else run.evaluate(node, scope) for node in self.bounds]
        return part(run, base, bounds)


@a_node
class Given:
    """The arguments of a call."""

    placed: list[Expression]
    named: list[tuple[str, Expression]]

    def arguments(self, run: Run, scope: Scope) -> Arguments:
        run.items(len(self.placed) + 2 * len(self.named))
        return Arguments(
            [run.evaluate(node, scope) for node in self.placed],
            {name: run.evaluate(node, scope) for name, node in self.named},
        )


@a_node
class Call:
    callee: Expression
    given: Given

    def value(self, run: Run, scope: Scope) -> Value:
        callee = run.evaluate(self.callee, scope)
        if not isinstance(callee, Function):
            unknown = callee.said if isinstance(callee, Undefined) else None
            raise TemplateError(unknown or f"a {kind(callee)} cannot be called")
        return callee.call(run, self.given.arguments(run, scope))


@a_node
class Filter:
    base: Expression
    name: str
    given: Given

    def value(self, run: Run, scope: Scope) -> Value:
        base = run.evaluate(self.base, scope)
        return filtered(run, self.name, base, self.given.arguments(run, scope))


@a_node
class Test:
    base: Expression
    name: str
    given: Given

    def value(self, run: Run, scope: Scope) -> Value:
        base = run.evaluate(self.base, scope)
        return check(run, self.name, base, self.given.arguments(run, scope))


@a_node
class Signed:
    operand: Expression
    sign: int

    def value(self, run: Run, scope: Scope) -> Value:
        return negative(run.evaluate(self.operand, scope), self.sign)


@a_node
class Not:
    operand: Expression

    def value(self, run: Run, scope: Scope) -> Value:
        return not truth(run.evaluate(self.operand, scope))


@a_node
class Chain:
    """Operators of one rank, from left to right: ``first + a - b``."""

    first: Expression
    rest: list[tuple[str, Expression]]

    def value(self, run: Run, scope: Scope) -> Value:
        value = run.evaluate(self.first, scope)
        for operator, node in self.rest:
            value = OPERATORS[operator](run, value, run.evaluate(node, scope))
        return value


@a_node
class Joined:
    """``first ~ a ~ b``."""

    first: Expression
    rest: list[tuple[str, Expression]]

    def value(self, run: Run, scope: Scope) -> Value:
        nodes = [self.first, *(node for _, node in self.rest)]
        return joined(
            run, [text_of(run, value) for value in [run.evaluate(n, scope) for n in nodes]]
        )


_COMPARISONS: dict[str, Callable[[Run, Value, Value], bool]] = {
    "==": equal,
    "!=": lambda run, a, b: not equal(run, a, b),
    "<": lambda run, a, b: order(run, a, b) < 0,
    "<=": lambda run, a, b: order(run, a, b) <= 0,
    ">": lambda run, a, b: order(run, a, b) > 0,
    ">=": lambda run, a, b: order(run, a, b) >= 0,
    "in": lambda run, a, b: contains(run, b, a),
    "not in": lambda run, a, b: not contains(run, b, a),
}


@a_node
class Compared:
    """``first < a <= b``: true where every one of them is."""

    first: Expression
    rest: list[tuple[str, Expression]]

    def value(self, run: Run, scope: Scope) -> Value:
        left = run.evaluate(self.first, scope)
        for operator, node in self.rest:
            right = run.evaluate(node, scope)
            if not _COMPARISONS[operator](run, left, right):
                return False
            left = right
        return True


@a_node
class Logic:
    """``first and a and b``, or the same with ``or``: the value that decides."""

    first: Expression
    rest: list[tuple[str, Expression]]

    def value(self, run: Run, scope: Scope) -> Value:
        value = run.evaluate(self.first, scope)
        for operator, node in self.rest:
            if truth(value) == (operator == "or"):
                break
            value = run.evaluate(node, scope)
        return value


@a_node
class Choice:
    test: Expression
    yes: Expression
    no: Expression | None

    def value(self, run: Run, scope: Scope) -> Value:
        if truth(run.evaluate(self.test, scope)):
            return run.evaluate(self.yes, scope)
        return (
            Undefined("a condition has no else")
            if self.no is None
            else run.evaluate(self.no, scope)
        )
