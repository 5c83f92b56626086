"""Flags of `edgewise serve` by environment variables, for containers and service managers.

A flag on the command line counts more than its variable, also where it takes a list.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgewise_runtime.errors import InputError
from edgewise_runtime.format.reading import shorten

PREFIX = "EDGEWISE_"
MAX_VALUE = 4096  # characters
VARIABLES: Mapping[str, str] = {
    "EDGEWISE_HOST": "--host",
    "EDGEWISE_PORT": "--port",
    "EDGEWISE_ALLOW_HOSTS": "--allow-host",
    "EDGEWISE_ALLOW_ORIGINS": "--allow-origin",
    "EDGEWISE_TLS": "--tls",
    "EDGEWISE_TLS_CERT": "--tls-cert",
    "EDGEWISE_TLS_KEY": "--tls-key",
    "EDGEWISE_API_KEY": "--api-key",
    "EDGEWISE_KEEP_ALIVE": "--keep-alive",
    "EDGEWISE_MEMORY": "--memory",
    "EDGEWISE_PREFIX_DISK": "--prefix-disk",
    "EDGEWISE_ALLOW_PULL": "--allow-pull",
    "EDGEWISE_NO_API": "--no-api",
    "EDGEWISE_DRAIN_SECONDS": "--drain-seconds",
    "EDGEWISE_LOG_FORMAT": "--log-format",
    "EDGEWISE_KEEP_AGENT_LINES": "--keep-agent-lines",
}
"""The flag that a variable stands for. One that may be repeated takes several, with commas."""

SECRET = frozenset({"EDGEWISE_API_KEY"})
"""Variables whose values no message shows."""

_SWITCHES = {"1": True, "true": True, "yes": True, "on": True} | dict.fromkeys(
    ("0", "false", "no", "off"), False
)


@dataclass(frozen=True)
class Setting:
    """A flag, its variable, and what it is where neither is given."""

    variable: str
    action: argparse.Action
    default: Any


def by_environment(
    parser: argparse.ArgumentParser, variables: Mapping[str, str] = VARIABLES
) -> tuple[Setting, ...]:
    """Let flags be given by variables, too: their help says so, and `fill` reads them."""
    # argparse has no public way to ask; this attribute is as old as the module.
    flags = parser._option_string_actions
    settings = tuple(
        Setting(variable, flags[flag], flags[flag].default) for variable, flag in variables.items()
    )
    for setting in settings:
        action = setting.action
        action.default = argparse.SUPPRESS  # so that `fill` sees what was given
        action.help = f"{action.help}; also {setting.variable}"
    return settings


def fill(
    args: argparse.Namespace, settings: tuple[Setting, ...], environ: Mapping[str, str]
) -> argparse.Namespace:
    """The arguments with those that were not given on the command line. An empty variable is none.

    Raises:
        InputError: ``serve.environment``, which names the variable and its value.
    """
    for setting in settings:
        if hasattr(args, setting.action.dest):
            continue
        text = environ.get(setting.variable, "").strip()
        value = _value(setting, text) if text else setting.default
        setattr(args, setting.action.dest, value)
    return args


def _value(setting: Setting, text: str) -> Any:
    """What the flag would have been."""
    if len(text) > MAX_VALUE:
        raise _wrong(setting, text, f"it has {len(text)} characters, of {MAX_VALUE} at most")
    if setting.action.nargs == 0:
        if text.lower() not in _SWITCHES:
            raise _wrong(setting, text, "it is neither 1 nor 0")
        return _SWITCHES[text.lower()]
    if isinstance(setting.default, list):
        return [_one(setting, part.strip()) for part in text.split(",") if part.strip()]
    return _one(setting, text)


def _one(setting: Setting, text: str) -> Any:
    read = setting.action.type
    try:
        value = read(text) if callable(read) else text
    except (argparse.ArgumentTypeError, ValueError, InputError) as cause:
        raise _wrong(setting, text, str(cause) or "it cannot be read") from cause
    if setting.action.choices is not None and value not in setting.action.choices:
        raise _wrong(setting, text, f"it is none of {', '.join(map(str, setting.action.choices))}")
    return value


def _wrong(setting: Setting, text: str, why: str) -> InputError:
    secret = setting.variable in SECRET
    value, reason = ("a value", "it cannot be used") if secret else (shorten(text), why)
    return InputError(
        f"{setting.variable} is {value}: {reason}.",
        remedy=f"Set it to what {setting.action.option_strings[-1]} takes, or unset it.",
        code="serve.environment",
    )
