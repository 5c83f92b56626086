"""The grammar of templates: Jinja's, without inheritance, imports and recursive loops."""

from __future__ import annotations

from collections.abc import Callable

from edgewise_runtime.text.jinja.expressions import Given
from edgewise_runtime.text.jinja.grammar import ExpressionParser
from edgewise_runtime.text.jinja.lexer import tokenize
from edgewise_runtime.text.jinja.run import Expression, Flow, Statement
from edgewise_runtime.text.jinja.statements import (
    CallBlock,
    Captured,
    For,
    If,
    Leave,
    Macro,
    Set,
    Target,
    Text,
    With,
    Written,
)

_NO_ARGUMENTS = Given([], [])


def parse(source: str) -> list[Statement]:
    """Return the statements of a template.

    Raises TemplateSyntaxError for what is none, or uses what is not supported.
    """
    return _Parser(tokenize(source)).body(())


class _Parser(ExpressionParser):
    _loops = 0

    def body(self, ends: tuple[str, ...]) -> list[Statement]:
        """The statements up to a tag named in `ends`, whose name is the next token."""
        statements: list[Statement] = []
        self.enter()
        while self.token.kind != "end":
            token = self.advance()
            if token.kind == "data":
                statements.append(Text(str(token.value)))
            elif token.value == "{":
                statements.append(Written(self.tuple_()))
                self.close()
            else:
                if self.token.kind == "name" and self.token.value in ends:
                    break
                statements.append(self._statement())
        else:
            if ends:
                raise self.error(f"{' or '.join(ends)} is missing")
        self.leave()
        return statements

    def _statement(self) -> Statement:
        name = self.name("a tag")
        parse = _TAGS.get(name)
        if parse is None:
            raise self.error(f"the tag {name!r} is unknown here")
        return parse(self)

    def _block(self, *ends: str) -> list[Statement]:
        """The statements after a tag, whose end comes first, up to a tag that ends them."""
        self.close()
        return self.body(ends)

    def _inner(self, end: str) -> list[Statement]:
        """A body whose loops are its own, with its end."""
        loops, self._loops = self._loops, 0
        body = self._block(end)
        self._loops = loops
        self._end(end)
        return body

    def _end(self, name: str) -> None:
        if self.name("a tag") != name:
            raise self.error(f"{name} is missing")
        self.close()

    def if_(self) -> Statement:
        branches: list[tuple[Expression, list[Statement]]] = []
        otherwise: list[Statement] = []
        ending = "elif"
        while ending == "elif":
            test = self.tuple_(conditional=False)
            branches.append((test, self._block("elif", "else", "endif")))
            ending = self.name("a tag")
        if ending == "else":
            otherwise = self._block("endif")
            self.name("a tag")
        self.close()
        return If(branches, otherwise)

    def for_(self) -> Statement:
        target = self._target()
        self.word("in")
        items = self.tuple_(conditional=False)
        condition = self.expression() if self.skip_word("if") else None
        if self.skip_word("recursive"):
            raise self.error("recursive loops are not supported")
        self._loops += 1
        body = self._block("else", "endfor")
        self._loops -= 1
        otherwise: list[Statement] = []
        if self.name("a tag") == "else":
            otherwise = self._block("endfor")
            self.name("a tag")
        self.close()
        return For(target, items, condition, body, otherwise)

    def set_(self) -> Statement:
        target = self._target(member=True)
        if self.skip("="):
            value = self.tuple_()
            self.close()
            return Set(target, value)
        return Captured(target, self._filters(), self._inner("endset"))

    def filter_(self) -> Statement:
        name = self.dotted("a filter")
        first = (name, self.given() if self.skip("(") else _NO_ARGUMENTS)
        return Captured(None, [first, *self._filters()], self._inner("endfilter"))

    def macro(self) -> Statement:
        name = self.name("the name of a macro")
        return self._macro(name, "endmacro")

    def call(self) -> Statement:
        parameters = self._parameters() if self.is_sign("(") else ([], [])
        callee, given = self.called()
        return CallBlock(callee, given, Macro("caller", *parameters, self._inner("endcall")))

    def generation(self) -> Statement:
        body = Macro("generation", [], [], self._inner("endgeneration"))
        return CallBlock(None, _NO_ARGUMENTS, body)

    def with_(self) -> Statement:
        values: list[tuple[Target, Expression]] = []
        while self.token.kind != "close":
            if values:
                self.sign(",")
            target = self._target()
            self.sign("=")
            values.append((target, self.expression()))
        body = self._block("endwith")
        self._end("endwith")
        return With(values, body)

    def break_(self) -> Statement:
        return self._leave(Flow.BREAK)

    def continue_(self) -> Statement:
        return self._leave(Flow.CONTINUE)

    def _leave(self, flow: Flow) -> Statement:
        if not self._loops:
            raise self.error(f"{flow.name.lower()} is outside of a loop")
        self.close()
        return Leave(flow)

    def _macro(self, name: str, end: str) -> Macro:
        parameters, defaults = self._parameters()
        return Macro(name, parameters, defaults, self._inner(end))

    def _parameters(self) -> tuple[list[str], list[Expression]]:
        self.sign("(")
        names: list[str] = []
        defaults: list[Expression] = []
        while not self.skip(")"):
            if names:
                self.sign(",")
            name = self.settable()
            if name in names:
                raise self.error(f"{name} is a parameter twice")
            names.append(name)
            if self.skip("="):
                defaults.append(self.expression())
            elif defaults:
                raise self.error("a parameter without a default follows one with one")
        return names, defaults

    def _target(self, *, member: bool = False) -> Target:
        parenthesized = self.skip("(")
        names = [self.settable()]
        if member and self.skip("."):
            return Target(names, member=self.name("a name"))
        several = parenthesized
        while self.skip(","):
            several = True
            if self.token.kind != "name" or self.token.value == "in":
                break
            names.append(self.settable())
        if parenthesized:
            self.sign(")")
            several = several and len(names) > 1
        return Target(names, several)

    def _filters(self) -> list[tuple[str, Given]]:
        filters: list[tuple[str, Given]] = []
        while self.skip("|"):
            name = self.dotted("a filter")
            filters.append((name, self.given() if self.skip("(") else _NO_ARGUMENTS))
        return filters


_TAGS: dict[str, Callable[[_Parser], Statement]] = {
    "break": _Parser.break_,
    "call": _Parser.call,
    "continue": _Parser.continue_,
    "filter": _Parser.filter_,
    "for": _Parser.for_,
    "generation": _Parser.generation,
    "if": _Parser.if_,
    "macro": _Parser.macro,
    "set": _Parser.set_,
    "with": _Parser.with_,
}
