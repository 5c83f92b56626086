"""Answers in formats that transformers knows are what it makes of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgewise_runtime.calls import Arguments, CallBegins, Content, Reasoning
from tests.runtime.calls.cases import cases, parsed

GOLDENS = json.loads((Path(__file__).parent / "goldens/transformers.json").read_text("utf-8"))
CASES = {(case.form, case.what): case for case in cases()}
DIFFERENT = {
    "words before and after a call": "it keeps the last of two contents",
    "a mark of a thought later on": "it looks for thoughts everywhere",
    "so much white space that no thought follows": "it holds everything back",
    "arguments that are no object": "it takes any JSON for arguments",
    "a name that is none": "it takes any text for a name",
    "a whole number with a fraction of zeros": "it knows no call without the first mark",
    "two calls, the first mark forgotten": "it knows no call without the first mark",
    "a thought before": "it knows no call without the first mark",
    "code with line ends and marks in it": "it strips values of all white space",
    "a stream that ends in a value": "what is cut it takes for whole",
    "no parameter": "it leaves out what it does not know",
    "no function": "it takes a mark without a call for content",
}
"""Cases in which we differ on purpose, and what transformers does."""
ALIKE = [golden for golden in GOLDENS if golden["what"] not in DIFFERENT]


@pytest.mark.parametrize(
    "golden", ALIKE, ids=lambda golden: f"{golden['format']}: {golden['what']}"
)
def test_a_case_is_what_transformers_makes_of_it(golden: dict[str, object]) -> None:
    case = CASES[str(golden["format"]), str(golden["what"])]
    deltas = parsed(case, [case.text])
    assert "".join(d.text for d in deltas if isinstance(d, Content)).strip() == golden["content"]
    said = "".join(d.text for d in deltas if isinstance(d, Reasoning)).strip()
    assert said == golden["reasoning"]
    names = [delta.name for delta in deltas if isinstance(delta, CallBegins)]
    arguments = [json.loads(delta.text) for delta in deltas if isinstance(delta, Arguments)]
    assert [list(call) for call in zip(names, arguments, strict=True)] == golden["calls"]


def test_what_differs_has_been_asked() -> None:
    assert {golden["what"] for golden in GOLDENS} >= set(DIFFERENT)
    assert len(ALIKE) >= 18
