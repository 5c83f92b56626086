"""Variables that stand for flags of `edgewise serve`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

import pytest

from edgewise.cli import serve
from edgewise.server.operations.environment import VARIABLES, by_environment, fill
from edgewise_runtime.errors import InputError
from tests.sdk.cli.commands import ROOT


def parsed(environ: Mapping[str, str], *words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    args = parser.parse_args(["BUNDLE", *words])
    return fill(args, args.settings, environ)


def test_without_variables_every_flag_is_what_it_was() -> None:
    args = parsed({})
    assert args.host == "127.0.0.1"
    assert args.port is None
    assert args.allow_host == []
    assert args.tls is False
    assert args.drain_seconds == 30
    assert args.log_format == "text"
    assert args.keep_agent_lines is False


def test_variables_stand_for_flags() -> None:
    args = parsed(
        {
            "EDGEWISE_HOST": "0.0.0.0",
            "EDGEWISE_PORT": "80",
            "EDGEWISE_ALLOW_HOSTS": "my-box, fd00::7,",
            "EDGEWISE_TLS": "yes",
            "EDGEWISE_DRAIN_SECONDS": "2.5",
            "EDGEWISE_LOG_FORMAT": "json",
            "EDGEWISE_KEEP_AGENT_LINES": "1",
        }
    )
    assert (args.host, args.port) == ("0.0.0.0", 80)
    assert args.allow_host == ["my-box", "fd00::7"]
    assert args.tls is True
    assert args.drain_seconds == 2.5
    assert args.log_format == "json"
    assert args.keep_agent_lines is True


@pytest.mark.parametrize(
    ("variable", "value", "flag", "dest", "expected"),
    [
        ("EDGEWISE_HOST", "0.0.0.0", ["--host", "127.0.0.1"], "host", "127.0.0.1"),
        ("EDGEWISE_PORT", "80", ["--port", "0"], "port", 0),
        ("EDGEWISE_PORT", "nonsense", ["--port", "0"], "port", 0),
        ("EDGEWISE_ALLOW_HOSTS", "a,b", ["--allow-host", "c"], "allow_host", ["c"]),
        ("EDGEWISE_TLS", "0", ["--tls"], "tls", True),
    ],
)
def test_a_flag_counts_more_also_where_it_says_the_default(
    variable: str, value: str, flag: list[str], dest: str, expected: object
) -> None:
    assert getattr(parsed({variable: value}, *flag), dest) == expected


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("EDGEWISE_PORT", "eighty"),
        ("EDGEWISE_PORT", "65536"),
        ("EDGEWISE_TLS", "maybe"),
        ("EDGEWISE_DRAIN_SECONDS", "-1"),
        ("EDGEWISE_DRAIN_SECONDS", "nan"),
        ("EDGEWISE_LOG_FORMAT", "xml"),
        ("EDGEWISE_HOST", "x" * 5000),
    ],
)
def test_a_wrong_value_is_said_with_its_variable(variable: str, value: str) -> None:
    with pytest.raises(InputError) as error:
        parsed({variable: value})
    assert error.value.code == "serve.environment"
    assert error.value.message.startswith(f"{variable} is '{value[:40]}")
    assert VARIABLES[variable] in error.value.remedy


@pytest.mark.parametrize("empty", ["", "  "])
def test_an_empty_variable_is_none(empty: str) -> None:
    assert parsed({"EDGEWISE_PORT": empty}).port is None


def test_a_secret_is_not_shown() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--api-key", choices=["right"])
    settings = by_environment(parser, {"EDGEWISE_API_KEY": "--api-key"})
    with pytest.raises(InputError) as error:
        fill(parser.parse_args([]), settings, {"EDGEWISE_API_KEY": "canary"})
    assert "canary" not in str(error.value)


def test_help_names_each_variable() -> None:
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    text = "".join(parser.format_help().split())
    for variable in VARIABLES:
        assert f"also{variable}" in text


def test_every_variable_is_documented_with_its_flag() -> None:
    page = (ROOT / "docs/operations.md").read_text()
    for variable, flag in VARIABLES.items():
        assert f"| `{variable}` | `{flag}`" in page
