"""A model that can think before it answers, asked from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgewise import Engine
from tests.sdk.cli.conftest import Run

GREEDY = ("--max-tokens", 6, "--temperature", 0, "--ignore-eos")


@pytest.mark.parametrize(
    ("flag", "variables"),
    [("--think", {"enable_thinking": True}), ("--no-think", {"enable_thinking": False})],
)
def test_it_is_told_whether_to(
    edgewise: Run,
    thinking_bundle: Path,
    thinker: Engine,
    flag: str,
    variables: dict[str, bool],
) -> None:
    asked = [{"role": "user", "content": "Why?"}]
    expected = thinker.chat(
        asked, variables=variables, max_tokens=6, temperature=0, ignore_eos=True
    )
    out = edgewise("chat", thinking_bundle, "--question", "Why?", "--json", flag, *GREEDY)
    found = json.loads(out)
    assert found["token_ids"] == list(expected.token_ids)
    # Six tokens of a model that makes no sense end no thought.
    said, thought = ("", expected.reasoning) if flag == "--think" else (expected.text, None)
    assert found["message"]["content"] == said
    assert found["message"].get("reasoning_content") == thought


def test_a_thought_is_no_answer(edgewise: Run, thinking_bundle: Path) -> None:
    asked = ("chat", thinking_bundle, "--question", "Why?", *GREEDY)
    assert edgewise(*asked) == ""
    assert edgewise(*asked, "--no-think") != ""
