"""The real model compiled: it answers, and is as near its float32 self as its bits allow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from edgewise import Engine, evaluate
from edgewise_compiler.quantize import AS_FILE, DEFAULT_QUANT
from tools.demo_eval import looping

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[2]
ANSWERS = {
    "What is the capital of Japan?": "Tokyo",
    "How many days are in a week?": "7",
    "What color is the sky on a clear day?": "blue",
    "What is the opposite of hot?": "cold",
    "Which animal says meow?": "cat",
    "What is two plus two?": "four",
    "Name three fruits.": "Bananas",
    "What is the boiling point of water?": "100",
    "How do I make a cup of tea?": "kettle",
    "What is gravity?": "physics",
}
"""A word that must occur: at 135 million parameters other questions are answered wrong in float32
too, and the capital of France is right in float32 and lost in 8 bits."""

FRANCE = {"What is the capital of France?": "Paris"}

BOUNDS = {
    "q8": (0.01, 0.93),
    AS_FILE: (0.01, 0.93),
    DEFAULT_QUANT: (0.04, 0.88),
    "small": (0.16, 0.74),
}
"""By preset the largest mean KL from float32, in nats, and the least share of same best tokens.

As the file has them weights are exact: what is left are activations in 8 bits.
"""


@pytest.mark.parametrize(
    ("quant", "expected"), [("f32", FRANCE), (DEFAULT_QUANT, FRANCE), ("q8", ANSWERS)]
)
def test_plain_questions_are_answered(
    compiled: Callable[[str], Path], quant: str, expected: dict[str, str]
) -> None:
    with Engine(compiled(quant)) as engine:
        for question, word in expected.items():
            asked = [{"role": "user", "content": question}]
            answer = engine.chat(asked, max_tokens=40, temperature=0).text
            assert word in answer, (question, answer)
            assert not looping(answer)


@pytest.mark.parametrize("quant", BOUNDS)
def test_predictions_stay_near_those_in_float32(
    compiled: Callable[[str], Path], quant: str
) -> None:
    text = (ROOT / "examples/held-out/text.txt").read_text("utf-8")
    found = evaluate(compiled(quant), compiled("f32"), text, tokens=2048)
    most, least = BOUNDS[quant]
    assert found.apart is not None
    assert found.apart.mean <= most
    assert found.apart.same_top1 >= least
    assert found.reference is not None
    assert 10 < found.reference.perplexity < 25
