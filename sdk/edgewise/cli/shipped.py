"""What a bundle ships of prompts, as a table."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from edgewise.packs.writing import packs_of
from edgewise.units import size
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.packs import FOLDER

_HEADERS = ("for", "tokens", "pages", "size", "tokens/s", "computed by")


def packs_table(bundle: Bundle, name: str = "pack") -> Table:
    """A row for each pack and the programs it is for; none where there are none.

    Args:
        bundle: the bundle.
        name: what the first column is called.

    Raises:
        BundleError: a malformed index.
    """
    table = Table(name, *_HEADERS, box=None, padding=(0, 2, 0, 0))
    for place, index in packs_of(bundle).items():
        program = index.producer.split("/")[1:2]
        by = ", ".join(part for part in (*program, index.device) if part)
        for pack in index.packs:
            pages = index.file_count(pack)
            cells = (
                pack.name,
                place.removeprefix(f"{FOLDER}/"),
                f"{len(pack.keys) * index.page_tokens:,}",
                f"{pages:,}",
                size(pages * index.file_bytes),
                f"{pack.prefill_tokens_per_s:,}",
                by,
            )
            table.add_row(*map(Text, cells))
    return table
