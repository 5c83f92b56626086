"""A format is told by the text of a chat template, or by its name."""

from __future__ import annotations

import json

import pytest

from edgewise_runtime.calls import FORMATS, format_named, format_of
from edgewise_runtime.errors import UnsupportedError
from tests.runtime.calls.cases import FOLDER, cases

TEMPLATES = json.loads((FOLDER / "templates.json").read_text("utf-8"))


@pytest.mark.parametrize(("name", "template"), TEMPLATES)
def test_a_template_tells_of_its_format(name: str, template: str) -> None:
    assert format_of(template) is format_named(name)


def test_every_format_has_cases_and_a_template() -> None:
    assert {case.form for case in cases()} == set(FORMATS)
    assert {name for name, _ in TEMPLATES} == set(FORMATS)


def test_a_name_of_no_format_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="'xml'") as refused:
        format_named("xml")
    assert refused.value.code == "unsupported.calls"
    assert "hermes, json, llama3" in refused.value.remedy


def test_the_marks_of_thoughts_have_to_be_shown_too() -> None:
    assert set(FORMATS["mistral"].shown) >= {"[TOOL_CALLS]", "[ARGS]", "[THINK]", "</think>"}


@pytest.mark.parametrize("name", sorted(FORMATS.keys() - {"llama3", "json"}))
def test_a_call_that_is_spelled_begins_with_what_triggers_one(name: str) -> None:
    form = FORMATS[name]
    assert (form.spelling.first + form.spelling.begin).startswith(form.triggers)
