"""A model whose chat template lets it think, and what a conversation shows."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from edgewise import Engine
from tests.sdk.other_texts import with_texts

THINKING = (
    "{{ '<|begin|>' }}{% for m in messages %}{{ '<|' + m.role + '|>' }}"
    "{{ m.content.split('</think>')[-1] + '<|end|>' }}{% endfor %}{{ '<|assistant|>' }}"
    "{% if enable_thinking is defined and not enable_thinking %}{{ 'ok: ' }}"
    "{% else %}{{ '<think>\n' }}{% endif %}"
)
"""Opens a thought itself, can be told not to, and forgets those of earlier answers."""
LIMIT = 40
"""Tokens of an answer, by generation_config.json."""


@pytest.fixture(scope="session")
def thinking_bundle(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny bundle with another chat template, and a limit of its own for answers."""
    limited = {"eos_token_id": [1, 3], "max_new_tokens": LIMIT}
    texts = {"chat_template.jinja": THINKING, "generation_config.json": json.dumps(limited)}
    return with_texts(bundle, tmp_path_factory.mktemp("thinking") / "thinker", texts)


@pytest.fixture(scope="session")
def thinker(thinking_bundle: Path) -> Iterator[Engine]:
    with Engine(thinking_bundle) as engine:
        yield engine


@pytest.fixture
def shown() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def console(shown: io.StringIO) -> Console:
    """A terminal of 60 columns that shows no styles."""
    return Console(
        file=shown,
        force_terminal=True,
        no_color=True,
        color_system=None,
        width=60,
        emoji=False,
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
