"""Templates are rendered as Jinja renders them, or refused."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from copy import deepcopy
from datetime import datetime
from typing import Any, NoReturn

import jinja2
import pytest
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from edgewise_runtime.errors import EdgewiseError
from edgewise_runtime.text import ChatTemplate
from tests.runtime.text.conversations import NOW, user
from tests.runtime.text.jinja.expressions import EXPRESSIONS
from tests.runtime.text.jinja.random_templates import CONTEXT, random_template

MESSAGES = [user("x")]


class _Generation(Extension):
    tags = {"generation"}  # noqa: RUF012 (declared so by jinja2)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller: Callable[[], str]) -> str:
        return caller()


def _raise(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _to_json(value: Any, ensure_ascii: bool = False, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, **options)


def _environment() -> ImmutableSandboxedEnvironment:
    """Jinja as transformers sets it up."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = NOW.strftime
    return environment


ENVIRONMENT = _environment()


def by_jinja(source: str) -> str | None:
    """The text that Jinja writes, or None where it refuses."""
    try:
        with warnings.catch_warnings():  # of Python's compiler, about what Jinja generates
            warnings.simplefilter("ignore")
            template = ENVIRONMENT.from_string(source)
        return template.render(**deepcopy(dict(CONTEXT)), messages=MESSAGES)
    except Exception:  # whatever a template raises
        return None


def by_us(source: str, clock: Callable[[], datetime] = lambda: NOW) -> str | None:
    try:
        return ChatTemplate(source, clock=clock).render(MESSAGES, **CONTEXT)
    except EdgewiseError:
        return None


@pytest.mark.parametrize("index", range(len(EXPRESSIONS)))
def test_what_templates_are_made_of_means_what_it_means_to_jinja(index: int) -> None:
    source = EXPRESSIONS[index]
    assert by_us(source) == by_jinja(source)


@pytest.mark.parametrize(
    "seeds", [range(100), pytest.param(range(100, 10_000), marks=pytest.mark.full)]
)
def test_a_template_made_at_random_is_rendered_as_by_jinja_or_refused(seeds: range) -> None:
    rendered = 0
    for seed in seeds:
        source = random_template(seed)
        text = by_us(source)
        if text is not None:
            rendered += 1
            assert text == by_jinja(source), source
    assert rendered > len(seeds) // 10
