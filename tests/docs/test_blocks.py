"""Every code block says what it is, and those that are not run are few and say why."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgewise_compiler.quantize import read_recipe
from tests.docs.blocks import NOT_RUN, ROOT, Block, blocks, blocks_of

RUN = {"json", "python", "sh", "toml", "ts"}
"""Languages of blocks that a test runs or checks; ``ts`` is for web/tests/package, ``json`` for
tests/sdk/server/socket."""
DRAWN = {"text"}
"""What is no code: trees of folders, drawings, extracts of files."""
MOST_NOT_RUN = 0
"""So many blocks say that they are not run. One more is a decision."""


def test_every_block_has_a_language_that_something_reads() -> None:
    assert [str(block) for block in blocks() if block.language not in RUN | DRAWN] == []


def test_blocks_that_are_not_run_are_counted() -> None:
    marked = [f"{block}: {block.reason}" for block in blocks() if block.reason]
    assert len(marked) <= MOST_NOT_RUN, marked


def test_a_note_beside_the_language_is_a_reason() -> None:
    notes = [
        line
        for page in {block.page for block in blocks()}
        for line in (ROOT / page).read_text("utf-8").splitlines()
        if line.strip().startswith("```") and " " in line.strip() and f" {NOT_RUN} " not in line
    ]
    assert notes == []


def test_json_is_of_the_protocol() -> None:
    assert {block.page for block in blocks("json")} <= {"docs/protocol.md", "docs/tabs.md"}


@pytest.mark.parametrize("block", blocks("toml"), ids=str)
def test_recipes_are_read(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "recipe.toml"
    file.write_text(block.text, "utf-8")
    assert read_recipe(file).rules


def test_a_page_is_read_as_it_is_written() -> None:
    page = """\
# Title

    edgewise ls   # lists
    edgewise rm X

- a point
  that goes on
  ```ts
  let x = 1
  ```

<!-- given: x = 1
y = 2 -->
```python
print(x)

print(y)
```
```sh not-run: needs a network
edgewise pull ORG/REPO
```
"""
    assert list(blocks_of(page, "page.md")) == [
        Block("page.md", 3, "sh", "", "", "edgewise ls   # lists\nedgewise rm X"),
        Block("page.md", 9, "ts", "", "", "let x = 1"),
        Block("page.md", 15, "python", "", "x = 1\ny = 2", "print(x)\n\nprint(y)"),
        Block("page.md", 20, "sh", "needs a network", "", "edgewise pull ORG/REPO"),
    ]


def test_a_block_without_an_end_is_told() -> None:
    with pytest.raises(ValueError, match="line 2 has no end"):
        list(blocks_of("text\n```python\nprint()\n", "page.md"))
