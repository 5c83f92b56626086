"""Whether, how hard and how long a model thinks before it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from edgewise_runtime.errors import EdgewiseError, InputError, UnsupportedError
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.text.template import Message

EFFORTS = ("minimal", "low", "medium", "high", "xhigh")
MAX_BUDGET = (1 << 31) - 1
_WORDS: dict[str, Any] = {
    "on": {"enabled": True},
    "off": {"enabled": False},
    "none": {"enabled": False},
    **{effort: {"effort": effort} for effort in EFFORTS},
}
_SWITCHES = ("enable_thinking", "thinking")
_EFFORT = "reasoning_effort"
_QUESTION = ({"role": "user", "content": "?"},)
_CODE = "input.reasoning"

Render = Callable[[Sequence[Message], Mapping[str, Any]], str]
"""Returns the prompt of messages, given variables of the template."""


@dataclass(frozen=True)
class Reasoning:
    """What is asked of a model's thoughts; None leaves it to the model.

    Attributes:
        enabled: whether it thinks.
        effort: how hard: ``minimal``, ``low``, ``medium``, ``high`` or ``xhigh``.
        budget: tokens of its thoughts at most, after which they are closed.
    """

    enabled: bool | None = None
    effort: str | None = None
    budget: int | None = None

    def __post_init__(self) -> None:
        """Raise InputError ``input.reasoning`` for what cannot be asked."""
        if self.enabled is not None and not isinstance(self.enabled, bool):
            raise _wrong("enabled", self.enabled, "True or False")
        if self.effort is not None and self.effort not in EFFORTS:
            raise _wrong("effort", self.effort, f"one of {', '.join(EFFORTS)}")
        budget = self.budget
        if budget is not None and (type(budget) is not int or not 0 <= budget <= MAX_BUDGET):
            raise _wrong("budget", budget, f"a whole number of tokens from 0 to {MAX_BUDGET:,}")
        if self.enabled is False and (self.effort is not None or budget is not None):
            raise InputError(
                "reasoning is off, and has an effort or a budget.",
                remedy="Leave one of them out.",
                code=_CODE,
            )

    def to_json(self) -> dict[str, Any]:
        """What is asked, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def reasoning_of(value: Any) -> Reasoning:
    """Read and check the option `reasoning`.

    Args:
        value: True or ``"on"``; False, ``"off"`` or ``"none"``; an effort; a budget in tokens; a
            dict or a `Reasoning` with several of them; None to leave it to the model.

    Raises:
        InputError: ``input.reasoning``.
    """
    if value is None or isinstance(value, Reasoning):
        return value or Reasoning()
    if isinstance(value, bool):
        return Reasoning(enabled=value)
    if isinstance(value, int):
        return Reasoning(budget=value)
    given = _WORDS.get(value) if isinstance(value, str) else value
    if not isinstance(given, Mapping):
        raise _wrong("it", value, "on, off, an effort, a budget in tokens, or several in a dict")
    known = [one.name for one in fields(Reasoning)]
    for name in given:
        if name not in known:
            raise InputError(
                f"reasoning has no {shorten(name)}.",
                remedy=f"There are {', '.join(known)}.",
                code=_CODE,
            )
    return Reasoning(**given)


def variables_of(reasoning: Reasoning, render: Render) -> dict[str, Any]:
    """Return the variables of a chat template that ask for it.

    Args:
        render: of the template, which is asked what difference they make.

    Raises:
        UnsupportedError: ``unsupported.reasoning`` where they make none.
    """
    variables: dict[str, Any] = {}
    if reasoning.enabled is not None:
        if _same(render, _switched(True), _switched(False)):
            raise _unsupported(
                f"no switch for thoughts, and reasoning.enabled is {reasoning.enabled}"
            )
        variables |= _switched(reasoning.enabled)
    if reasoning.effort is not None:
        others = [{_EFFORT: effort} for effort in EFFORTS if effort != reasoning.effort]
        asked = {_EFFORT: reasoning.effort}
        if all(_same(render, asked, other) for other in others):
            raise _unsupported(
                f"no effort of thoughts, and reasoning.effort is {reasoning.effort!r}"
            )
        variables |= asked
    return variables


def _switched(on: bool) -> dict[str, Any]:
    """A switch has one of two names, and the other one is not read."""
    return dict.fromkeys(_SWITCHES, on)


def _same(render: Render, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return _prompt(render, one) == _prompt(render, other)


def _prompt(render: Render, variables: Mapping[str, Any]) -> str | None:
    """A short prompt; None where the template refuses it."""
    try:
        return render(_QUESTION, variables)
    except EdgewiseError:
        return None


def _wrong(name: str, value: object, wanted: str) -> InputError:
    whose = "reasoning" if name == "it" else f"reasoning.{name}"
    return InputError(f"{whose} is {shorten(value)}; it must be {wanted}.", code=_CODE)


def _unsupported(what: str) -> UnsupportedError:
    return UnsupportedError(
        f"The model's chat template has {what}.",
        remedy="Leave it out, or use another model.",
        code="unsupported.reasoning",
    )
