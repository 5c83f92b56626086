"""The grammar of a template's expressions."""

from __future__ import annotations

from collections.abc import Callable

from edgewise_runtime.text.jinja.expressions import (
    Attribute,
    Call,
    Chain,
    Choice,
    Compared,
    Constant,
    Filter,
    Given,
    Index,
    Items,
    Joined,
    Logic,
    Name,
    Not,
    Pairs,
    Signed,
    Slice,
    Test,
)
from edgewise_runtime.text.jinja.reader import CONSTANTS, RESERVED, TokenReader
from edgewise_runtime.text.jinja.run import Expression

_Ranked = Callable[[Expression, list[tuple[str, Expression]]], Expression]
_NEGATION, _COMPARISON = 3, 4
_RANKS: dict[str, int] = {
    "or": 1,
    "and": 2,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in", "not in"), _COMPARISON),
    **dict.fromkeys(("+", "-"), 5),
    "~": 6,
    **dict.fromkeys(("*", "/", "//", "%"), 7),
    "**": 8,
}
_NODES: dict[int, _Ranked] = {
    1: Logic,
    2: Logic,
    _COMPARISON: Compared,
    5: Chain,
    6: Joined,
    7: Chain,
    8: Chain,
}
_NO_ARGUMENTS = Given([], [])


class ExpressionParser(TokenReader):
    """Reads expressions."""

    def tuple_(self, *, conditional: bool = True, parenthesized: bool = False) -> Expression:
        """One expression, or several with commas between them, which are a tuple."""
        items: list[Expression] = []
        several = False
        while not self._ends_tuple():
            items.append(self.expression() if conditional else self._binary(1))
            if not self.skip(","):
                break
            several = True
        if len(items) == 1 and not several:
            return items[0]
        if not items and not parenthesized:
            raise self.error(f"an expression is missing before {self.next()}")
        return Items(items, is_tuple=True)

    def _ends_tuple(self) -> bool:
        return self.token.kind == "close" or self.is_sign(")")

    def expression(self) -> Expression:
        self.enter()
        node = self._binary(1)
        while self.skip_word("if"):
            test = self._binary(1)
            node = Choice(test, node, self.expression() if self.skip_word("else") else None)
        self.leave()
        return node

    def _operator(self) -> str:
        """The operator that comes next, or nothing."""
        kind, value, _ = self.token
        if kind == "name" and value == "not":
            after = self.peek(1)
            return "not in" if after.kind == "name" and after.value == "in" else ""
        known = kind in ("sign", "name") and isinstance(value, str) and value in _RANKS
        return str(value) if known else ""

    def _binary(self, lowest: int) -> Expression:
        node = self._unary() if lowest > _NEGATION else self._negated()
        while (rank := _RANKS.get(self._operator(), 0)) >= lowest:
            rest: list[tuple[str, Expression]] = []
            while _RANKS.get(operator := self._operator()) == rank:
                self.at += 2 if operator == "not in" else 1
                rest.append((operator, self._binary(rank + 1)))
            node = _NODES[rank](node, rest)
        return node

    def _negated(self) -> Expression:
        if not self.skip_word("not"):
            return self._unary()
        self.enter()
        node = Not(self._binary(_NEGATION))
        self.leave()
        return node

    def _unary(self) -> Expression:
        self.enter()
        node = self._filtered(self._signed())
        self.leave()
        return node

    def _signed(self) -> Expression:
        for sign, factor in (("-", -1), ("+", 1)):
            if self.skip(sign):
                self.enter()
                node = Signed(self._signed(), factor)
                self.leave()
                return node
        return self._postfix(self._primary())

    def _primary(self) -> Expression:
        token = self.advance()
        match token.kind, token.value:
            case "name", str(name):
                if name in RESERVED or name in ("varargs", "kwargs"):
                    raise self.error(f"{name} is unexpected, or not supported")
                return Constant(CONSTANTS[name]) if name in CONSTANTS else Name(name)
            case "number", value:
                return Constant(value)
            case "text", str(text):
                while self.token.kind == "text":
                    text += str(self.advance().value)
                return Constant(text)
            case "sign", "(":
                node = self.tuple_(parenthesized=True)
                self.sign(")")
                return node
            case "sign", "[":
                items = []
                while not self.is_sign("]"):
                    items.append(self.expression())
                    if not self.skip(","):
                        break
                self.sign("]")
                return Items(items, is_tuple=False)
            case "sign", "{":
                return self._dict()
        self.at -= 1
        raise self.error(f"{self.next()} is unexpected")

    def _dict(self) -> Expression:
        pairs = []
        while not self.is_sign("}"):
            key = self.expression()
            self.sign(":")
            pairs.append((key, self.expression()))
            if not self.skip(","):
                break
        self.sign("}")
        return Pairs(pairs)

    def _postfix(self, node: Expression) -> Expression:
        while True:
            if self.skip("."):
                if self.token.kind == "number" and isinstance(self.token.value, int):
                    node = Index(node, Constant(self.advance().value))
                else:
                    node = Attribute(node, self.name("a name"))
            elif self.skip("["):
                node = self._subscript(node)
            elif self.skip("("):
                node = Call(node, self.given())
            else:
                return node

    def _subscript(self, node: Expression) -> Expression:
        bounds: list[Expression | None] = []
        while len(bounds) < 3:
            ends = self.is_sign(":") or self.is_sign("]")
            bounds.append(None if ends else self.expression())
            if not self.skip(":"):
                break
        self.sign("]")
        if len(bounds) > 1:
            return Slice(node, [*bounds, None, None][:3])
        if bounds[0] is None:
            raise self.error("an index is missing")
        return Index(node, bounds[0])

    def _filtered(self, node: Expression) -> Expression:
        while True:
            if self.skip("|"):
                name = self.dotted("a filter")
                node = Filter(node, name, self.given() if self.skip("(") else _NO_ARGUMENTS)
            elif self.skip_word("is"):
                node = self._test(node)
            elif self.skip("("):
                node = Call(node, self.given())
            else:
                return node

    def _test(self, node: Expression) -> Expression:
        negated = self.skip_word("not")
        name = self.dotted("a test")
        given = _NO_ARGUMENTS
        if self.skip("("):
            given = self.given()
        elif self._begins_argument():
            given = Given([self._postfix(self._primary())], [])
        test = Test(node, name, given)
        return Not(test) if negated else test

    def _begins_argument(self) -> bool:
        if self.token.kind == "name":
            if self.token.value in ("is", "if", "in", "not"):
                raise self.error(f"{self.token.value} cannot follow a test")
            return self.token.value not in ("else", "or", "and")
        opening = self.is_sign("[") or self.is_sign("{")
        return opening or self.token.kind in ("text", "number")

    def given(self) -> Given:
        """The arguments of a call, after its parenthesis."""
        placed: list[Expression] = []
        named: list[tuple[str, Expression]] = []
        while not self.skip(")"):
            if placed or named:
                self.sign(",")
                if self.skip(")"):
                    break
            after = self.peek(1)
            if self.token.kind == "name" and after.kind == "sign" and after.value == "=":
                name = self.name("a name")
                self.sign("=")
                if name in (known for known, _ in named):
                    raise self.error(f"{name} is given twice")
                named.append((name, self.expression()))
            elif named:
                raise self.error("an argument without a name follows one with one")
            else:
                placed.append(self.expression())
        return Given(placed, named)

    def called(self) -> tuple[Expression, Given]:
        """A call, as its parts."""
        node = self._postfix(self._primary())
        if not isinstance(node, Call):
            raise self.error("a call is missing")
        return node.callee, node.given
