"""Every Python block of the pages runs, in a folder that has what they speak of.

A block finds ``engine``, an Engine of a tiny bundle, and what the comment before it binds.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
from pathlib import Path
from typing import Any

import pytest

from edgewise import Engine
from tests.docs.blocks import ROOT, Block, blocks


@pytest.mark.quick(cases=8)
@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_it_runs(
    block: Block, engine: Engine, reader: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(reader)
    run(block, {"__name__": "page", "engine": engine})


def run(block: Block, names: dict[str, Any]) -> None:
    """Execute a block where it stands in its page, so that errors name its line."""
    exec(compile(block.given, f"{block} (given)", "exec", dont_inherit=True), names)
    code = compile(
        "\n" * (block.line - 1) + block.text,
        str(ROOT / block.page),
        "exec",
        flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
        dont_inherit=True,
    )
    if code.co_flags & inspect.CO_COROUTINE:
        asyncio.run(eval(code, names))
    else:
        exec(code, names)


def test_a_block_that_fails_names_its_page_and_line() -> None:
    block = Block("README.md", 7, "python", "", "x = 1", "y = x\n\nraise ValueError(y)")
    with pytest.raises(ValueError, match="1") as caught:
        run(block, {})
    last = caught.traceback[-1]
    assert (Path(last.path).name, last.lineno + 1) == ("README.md", 9)


def test_a_block_may_wait() -> None:
    names: dict[str, Any] = {}
    run(
        Block("README.md", 1, "python", "", "", "import asyncio\nx = await asyncio.sleep(0, 5)"),
        names,
    )
    assert names["x"] == 5
