"""Tiny models that call tools and think, to be hosted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sdk.other_texts import with_texts
from tests.sdk.test_tool_calls import TEMPLATE


@pytest.fixture(scope="session")
def calling(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny bundle with a template that shows tools, in Hermes' way, and opens thoughts."""
    folder = tmp_path_factory.mktemp("calling") / "caller"
    return with_texts(bundle, folder, {"chat_template.jinja": TEMPLATE})
