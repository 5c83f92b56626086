"""The statements of a template, as the parser builds them."""

from __future__ import annotations

from edgewise_runtime.text.jinja.expressions import Given
from edgewise_runtime.text.jinja.filters import filtered
from edgewise_runtime.text.jinja.functions import check_settable
from edgewise_runtime.text.jinja.run import (
    TURN_STEPS,
    Expression,
    Flow,
    Output,
    Run,
    Scope,
    Statement,
    TemplateError,
    Value,
    a_node,
)
from edgewise_runtime.text.jinja.values import (
    Arguments,
    Function,
    Loop,
    Marked,
    Namespace,
    Undefined,
    items_of,
    kind,
    text_of,
    truth,
)


@a_node
class Text:
    text: str

    def execute(self, run: Run, scope: Scope, out: Output) -> Flow:
        out.write(self.text)
        return Flow.NEXT


@a_node
class Written:
    """``{{ of }}``."""

    of: Expression

    def execute(self, run: Run, scope: Scope, out: Output) -> Flow:
        out.write(text_of(run, run.evaluate(self.of, scope)))
        return Flow.NEXT


@a_node
class If:
    branches: list[tuple[Expression, list[Statement]]]
    otherwise: list[Statement]

    def execute(self, run: Run, scope: Scope, out: Output) -> Flow:
        for test, body in self.branches:
            if truth(run.evaluate(test, scope)):
                return run.execute(body, scope, out)
        return run.execute(self.otherwise, scope, out)


@a_node
class Target:
    """What is set: one name, several that share the items of a value, or a namespace's."""

    names: list[str]
    several: bool = False
    member: str | None = None

    def assign(self, run: Run, scope: Scope, value: Value) -> None:
        if self.member is not None:
            check_settable(self.member)
            inner: Scope | None = scope
            while inner is not None and self.names[0] not in inner.names:
                inner = inner.parent
            space = inner and inner.names[self.names[0]]
            if not isinstance(space, Namespace):
                raise TemplateError(f"{self.names[0]!r} is no namespace")
            space.values[self.member] = value
        elif self.several:
            values = items_of(run, value)
            if len(values) != len(self.names):
                raise TemplateError(f"{len(values)} values for {len(self.names)} names")
            scope.names.update(zip(self.names, values, strict=True))
        else:
            scope.names[self.names[0]] = value


@a_node
class For:
    target: Target
    items: Expression
    condition: Expression | None
    body: list[Statement]
    otherwise: list[Statement]

    def execute(self, run: Run, scope: Scope, out: Output) -> Flow:
        items = items_of(run, run.evaluate(self.items, scope))
        if self.condition is not None:
            items = [item for item in items if self._wanted(run, scope, self.condition, item)]
        loop = Loop(items)
        for loop.index0, item in enumerate(items):
            run.spend(TURN_STEPS)
            inner = run.inner(scope)
            inner.names["loop"] = loop
            self.target.assign(run, inner, item)
            if run.execute(self.body, inner, out) is Flow.BREAK:
                break
        if not items:
            return run.execute(self.otherwise, run.inner(scope), out)
        return Flow.NEXT

    def _wanted(self, run: Run, scope: Scope, condition: Expression, item: Value) -> bool:
        run.spend(TURN_STEPS)
        inner = run.inner(scope)
        self.target.assign(run, inner, item)
        return truth(run.evaluate(condition, inner))


@a_node
class Set:
    target: Target
    to: Expression

    def execute(self, run: Run, scope: Scope, out: Output) -> Flow:
        self.target.assign(run, scope, run.evaluate(self.to, scope))
        return Flow.NEXT


@a_node
class Captured:
    """What a body writes, filtered: set as a value, or written where there is no target."""

    target: Target | None
    filters: list[tuple[str, Given]]
    body: list[Statement]

    def execute(self, run: Run, scope: Scope, out: Output) -> Flow:
        value: Value = run.captured(self.body, run.inner(scope))
        for name, given in self.filters:
            value = filtered(run, name, value, given.arguments(run, scope))
        if self.target is not None:
            self.target.assign(run, scope, value)
        elif isinstance(value, str | Marked):
            out.write(text_of(run, value))
        else:
            raise TemplateError(f"a filtered block is text, not {kind(value)}")
        return Flow.NEXT


@a_node
class Macro:
    """A function whose result is what its body writes.

    Attributes:
        defaults: of the last parameters.
    """

    name: str
    parameters: list[str]
    defaults: list[Expression]
    body: list[Statement]

    def execute(self, run: Run, scope: Scope, out: Output) -> Flow:
        scope.names[self.name] = self.function(scope)
        return Flow.NEXT

    def function(self, scope: Scope) -> Function:
        def call(run: Run, given: Arguments) -> Value:
            inner = run.inner(scope)
            named = dict(given.named)
            inner.names["caller"] = named.pop("caller", Undefined("'caller' is undefined"))
            unset = dict.fromkeys(self.parameters, _UNSET)
            values = Arguments(given.placed, named).bind(self.name, **unset)
            required = len(self.parameters) - len(self.defaults)
            for i, (name, value) in enumerate(zip(self.parameters, values, strict=True)):
                if value is _UNSET and i >= required:
                    value = run.evaluate(self.defaults[i - required], inner)
                inner.names[name] = (
                    Undefined(f"{name!r} is undefined") if value is _UNSET else value
                )
            return run.captured(self.body, inner)

        return Function(self.name, call)


_UNSET = Undefined("an argument is missing")


@a_node
class CallBlock:
    """A call of a macro that is handed a body as `caller`; without a macro, the body alone."""

    callee: Expression | None
    given: Given
    caller: Macro

    def execute(self, run: Run, scope: Scope, out: Output) -> Flow:
        caller = self.caller.function(scope)
        if self.callee is None:
            out.write(text_of(run, caller.call(run, Arguments([], {}))))
            return Flow.NEXT
        callee = run.evaluate(self.callee, scope)
        if not isinstance(callee, Function):
            raise TemplateError("a call block calls no function")
        given = self.given.arguments(run, scope)
        value = callee.call(run, Arguments(given.placed, {**given.named, "caller": caller}))
        out.write(text_of(run, value))
        return Flow.NEXT


@a_node
class With:
    """Names that are known in a body only."""

    values: list[tuple[Target, Expression]]
    body: list[Statement]

    def execute(self, run: Run, scope: Scope, out: Output) -> Flow:
        inner = run.inner(scope)
        for target, node in self.values:
            target.assign(run, inner, run.evaluate(node, scope))
        return run.execute(self.body, inner, out)


@a_node
class Leave:
    """``{% break %}`` and ``{% continue %}``."""

    flow: Flow

    def execute(self, run: Run, scope: Scope, out: Output) -> Flow:
        return self.flow
