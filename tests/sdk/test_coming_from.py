"""docs/coming-from.md: what it says edgewise has under these names is there."""

from __future__ import annotations

import argparse
import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

import edgewise
from edgewise import AsyncEngine, Engine, Settings, SubmitOptions
from edgewise.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/coming-from.md").read_text("utf-8")


def ours(section: str) -> list[str]:
    """The code in the right columns of a section's table."""
    _, _, text = PAGE.partition(f"\n## {section}\n")
    text, _, _ = text.partition("\n## ")
    rows = [line.split(" | ")[-1] for line in text.splitlines() if line.startswith("| `")]
    return [code for row in rows for code in re.findall(r"`([^`]+)`", row)]


PYTHON = ours("vLLM") + ours("llama-cpp-python and llama.cpp") + ours("mlx-lm")


def test_the_tables_are_found() -> None:
    assert len(PYTHON) > 60
    assert len(ours("WebLLM")) > 20


def options_of(command: str) -> set[str]:
    assert command in COMMANDS
    parser = argparse.ArgumentParser()
    import_module(f"edgewise.cli.{command}").add_arguments(parser)
    return {option for action in parser._actions for option in action.option_strings}


@pytest.mark.parametrize("line", [code for code in PYTHON if code.startswith("edgewise ")])
def test_a_command_has_these_options(line: str) -> None:
    _, command, *words = line.split()
    assert {word for word in words if word.startswith("--")} <= options_of(command)


def test_calls_are_of_something_that_is_there() -> None:
    called = {name for code in PYTHON for name in re.findall(r"\bengine\.(\w+)", code)}
    assert called
    there = {*dir(Engine), *dir(AsyncEngine)}
    assert called - there == set()
    made = {name for code in PYTHON for name in re.findall(r"\b([A-Z]\w+)\(", code)}
    assert {"Engine", "Settings"} <= made
    assert [name for name in made if not hasattr(edgewise, name)] == []


def test_keywords_are_taken_somewhere() -> None:
    known = {
        *SubmitOptions.__annotations__,
        *Settings.__annotations__,
        *inspect.signature(Engine.__init__).parameters,
        *inspect.signature(Engine.chat).parameters,
        *inspect.signature(Engine.embed).parameters,
    }
    keywords = {name for code in PYTHON for name in re.findall(r"\b([a-z_]\w*)=", code)}
    assert {"temperature", "prefix_disk", "draft"} <= keywords
    assert keywords - known == set()


def test_what_a_tab_is_told_is_in_the_types_of_its_library() -> None:
    sources = "".join((ROOT / "web/client" / f).read_text() for f in ("engine.ts", "types.ts"))
    for code in ours("WebLLM"):
        for name in re.findall(r"\b[a-z]\w+[A-Z]\w*|\b(?:usage|timings|completion|signal)\b", code):
            assert re.search(rf"\b{name}\b", sources), name
        for name in re.findall(r"\b(?i:engine)\.(\w+)\(", code):
            assert re.search(rf"^  (?:static )?async {name}\(|^  {name}\(", sources, re.M), name
