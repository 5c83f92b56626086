"""A template, from its source to the text that it writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from edgewise_runtime.text.jinja.parser import parse
from edgewise_runtime.text.jinja.run import (
    Output,
    Run,
    Scope,
    Statement,
    TemplateError,
    TemplateLimitError,
    Value,
)


@dataclass(frozen=True, slots=True)
class Template:
    """A template that has been parsed."""

    body: list[Statement]

    def render(self, variables: Mapping[str, Value], now: datetime, given: int) -> str:
        """Return the text that the template writes.

        Args:
            variables: plain JSON values, and tuples.
            now: what `strftime_now` reads.
            given: characters of the conversation, by which the limits grow.

        Raises TemplateError for what a template does wrong, and TemplateLimitError where it asks
        for too much.
        """
        run = Run(now, given)
        out = Output(run.writable)
        try:
            run.execute(self.body, Scope(names=dict(variables)), out)
        except RecursionError as error:  # where the caller is deep already
            raise TemplateLimitError("it nests too deeply") from error
        return out.text()


def compile_template(source: str) -> Template:
    """Parse a template.

    Raises TemplateError for what is none, uses what is not supported, or is too large.
    """
    try:
        return Template(parse(source))
    except RecursionError as error:
        raise TemplateError("it nests too deeply") from error
