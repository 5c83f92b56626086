"""What `/set` can change, and what holds where nothing is set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from edgewise.cli.flags import SAMPLING
from edgewise.cli.talk.conversation import Conversation
from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.reading import shorten

DEFAULT = "default"
_SWITCH = {"on": True, "off": False, DEFAULT: None}
_OTHERS = {"num_predict": "max-tokens", "repeat_penalty": "repetition-penalty"}
"""What other programs call them."""


@dataclass(frozen=True)
class Setting:
    """One thing that can be set.

    Attributes:
        read: its value in words.
        write: set it to what was typed; `DEFAULT` leaves it to the model. Raises InputError.
    """

    about: str
    read: Callable[[Conversation], str]
    write: Callable[[Conversation, str], None]


def _sampled(name: str, kind: type, about: str) -> Setting:
    option = name.replace("-", "_")

    def read(conversation: Conversation) -> str:
        value = conversation.options.get(option)
        if value is not None:
            return str(value)
        value = conversation.defaults[option]
        return f"{'any' if value is None else value} ({DEFAULT})"

    def write(conversation: Conversation, typed: str) -> None:
        value = None
        if typed != DEFAULT:
            try:
                value = kind(typed)
            except ValueError:
                raise _refused(name, typed, "a number") from None
            SamplingParams(**{option: value})
        conversation.options[option] = value

    return Setting(about, read, write)


def _read_stop(conversation: Conversation) -> str:
    stops = conversation.options.get("stop")
    return ", ".join(map(repr, stops)) if stops else f"none ({DEFAULT})"


def _write_stop(conversation: Conversation, typed: str) -> None:
    stops = None if typed == DEFAULT else [typed]
    SamplingParams(stop=tuple(stops or ()))
    conversation.options["stop"] = stops


def _read_think(conversation: Conversation) -> str:
    if not conversation.thinking.switchable:
        return "this model has no choice"
    return next(word for word, value in _SWITCH.items() if value is conversation.think)


def _write_think(conversation: Conversation, typed: str) -> None:
    if typed not in _SWITCH:
        raise _refused("think", typed, f"one of {', '.join(_SWITCH)}")
    conversation.set_think(_SWITCH[typed])


def _read_system(conversation: Conversation) -> str:
    return conversation.system or "none"


def _write_system(conversation: Conversation, typed: str) -> None:
    conversation.system = None if typed == DEFAULT else typed


SETTINGS: Mapping[str, Setting] = {
    **{
        name: _sampled(name, kind, about)
        for name, (kind, _, about) in (
            (flag.removeprefix("--"), told) for flag, told in SAMPLING.items()
        )
    },
    "stop": Setting("end before this text", _read_stop, _write_stop),
    "system": Setting("the system prompt", _read_system, _write_system),
    "think": Setting("on or off: think before the answer", _read_think, _write_think),
}


def set_value(conversation: Conversation, typed: str) -> str:
    """Do what was typed after `/set`; return what is set now, in words.

    A name alone sets nothing: what it is comes back, and what it is for.

    Raises:
        InputError: ``input.setting`` for what there is not and ``input.sampling`` for a value out
            of range; nothing is set then.
    """
    words = typed.removeprefix("parameter ").strip()
    # As it is said elsewhere: /set nothink.
    words = {"think": "think on", "nothink": "think off"}.get(words, words)
    name, _, value = words.partition(" ")
    name = _OTHERS.get(name, name.replace("_", "-"))
    if name not in SETTINGS:
        raise InputError(
            f"There is no setting {shorten(name)}.",
            remedy=f"There are {', '.join(SETTINGS)}.",
            code="input.setting",
        )
    setting, value = SETTINGS[name], value.strip()
    if not value:
        return f"{name}: {setting.read(conversation)}; {setting.about}"
    setting.write(conversation, value)
    return f"{name}: {setting.read(conversation)}"


def all_values(conversation: Conversation) -> list[tuple[str, str]]:
    """Each setting: its name, and its value in words."""
    return [(name, one.read(conversation)) for name, one in SETTINGS.items()]


def _refused(name: str, value: object, wanted: str) -> InputError:
    return InputError(
        f"{name} is {shorten(value)}; it must be {wanted}.",
        remedy=f"For example: /set {_EXAMPLES.get(name, name + ' 0.5')}",
        code="input.setting",
    )


_EXAMPLES = {
    "max-tokens": "max-tokens 500",
    "think": "think off",
    "system": "system Answer in rhymes.",
    "stop": "stop END",
}
