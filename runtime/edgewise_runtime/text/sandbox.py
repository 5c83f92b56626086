"""The Jinja environment of chat templates: a sandbox with the names templates expect.

It is transformers' environment: trimmed blocks, loop controls, a `tojson` that escapes nothing,
`raise_exception`, `strftime_now`, and a `{% generation %}` block. Besides, what a template could
use to fill the memory in one expression is bounded.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

MAX_REPEATED = 1 << 20
"""Items that multiplying a string or list may give."""


class _Generation(Extension):
    """Accepts ``{% generation %}…{% endgeneration %}``, which marks what the assistant wrote."""

    tags = {"generation"}  # noqa: RUF012 (declared so by jinja2)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        # A call block, so that what the body sets stays inside, as with transformers.
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller: Callable[[], str]) -> str:
        return caller()


class _Environment(ImmutableSandboxedEnvironment):
    """Refuses to multiply a string or list into something huge."""

    intercepted_binops = frozenset(["*"])

    def call_binop(
        self, context: jinja2.runtime.Context, operator: str, left: Any, right: Any
    ) -> Any:
        for repeated, times in ((left, right), (right, left)):
            if not isinstance(repeated, str | list | tuple) or not isinstance(times, int):
                continue
            if len(repeated) * times > MAX_REPEATED:
                raise jinja2.TemplateError(f"{len(repeated)} items repeated {times} times")
        return super().call_binop(context, operator, left, right)


class _Namespace(Namespace):
    """Refuses names that begin with an underscore, which reach into Python."""

    def __setitem__(self, name: str, value: Any) -> None:
        _check_attribute(name)
        super().__setitem__(name, value)


def _namespace(*args: Any, **kwargs: Any) -> _Namespace:
    for name in dict(*args, **kwargs):
        _check_attribute(name)
    return _Namespace(*args, **kwargs)


class _Dict:
    """The `dict` a template may call, without the rest of the class."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict(*args, **kwargs)

    def fromkeys(self, *args: Any) -> dict[Any, Any]:
        return dict.fromkeys(*args)


def _check_attribute(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a namespace cannot hold {name!r}")


def template_environment(clock: Callable[[], datetime]) -> ImmutableSandboxedEnvironment:
    """Return the environment chat templates are compiled in; `strftime_now` reads `clock`."""
    environment = _Environment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, "jinja2.ext.loopcontrols"]
    )

    def strftime_now(form: str) -> str:
        return clock().strftime(form)

    environment.filters["tojson"] = _to_json
    environment.globals |= {
        "raise_exception": _raise_exception,
        "strftime_now": strftime_now,
        "dict": _Dict(),
        "namespace": _namespace,
    }
    return environment


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
