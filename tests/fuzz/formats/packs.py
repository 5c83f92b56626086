"""What a bundle says of the prompts whose pages it ships."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random

from edgewise_runtime.format.manifest import FileEntry
from edgewise_runtime.format.packs import MAX_PAGES, index_from, page_path, parse_index
from tests.format.cases import cases
from tests.fuzz.case import Files, Format, WrongAnswerError
from tests.fuzz.mutate import raw, values

NAME = "index.json"
KNOWN = [cases("pack-indices"), cases("pack-indices-windows")]
PLACE = "prefixes/a-b"
SIZES = {
    page_path(PLACE, bytes.fromhex(Path(path).stem)): size
    for known in KNOWN
    for path, size in known["sizes"].items()
}
LISTED = {path: FileEntry(size, "0" * 64) for path, size in SIZES.items()}
KEYS = [Path(path).stem for path in SIZES]


def _seeds() -> Sequence[Files]:
    good = [case["index"] for known in KNOWN for case in known["cases"] if case["code"] is None]
    return [{NAME: json.dumps(index).encode()} for index in good]


def _mutate(rng: Random, files: Files) -> Files:
    data = files[NAME]
    if rng.random() < 0.2:
        return {NAME: raw.changed(rng, data)}
    return {NAME: values.written(rng, values.changed(rng, json.loads(data), KEYS))}


def _use(folder: Path, files: Files) -> None:
    index = parse_index((folder / NAME).read_bytes(), PLACE, LISTED)
    if index_from(json.loads(json.dumps(index.to_json())), PLACE, SIZES) != index:
        raise WrongAnswerError("the index does not read back as written")
    if any(SIZES.get(page_path(PLACE, key)) != index.file_bytes for key in index.files):
        raise WrongAnswerError("a page that the bundle does not have")
    if any(index.file_count(pack) != len(index.files_of(pack)) for pack in index.packs):
        raise WrongAnswerError("another number of files than is counted")
    if any(not set(pack.keys) <= index.files for pack in index.packs if None in index.windows[:1]):
        raise WrongAnswerError("a group without a window that lacks pages")
    if sum(map(index.file_count, index.packs)) > MAX_PAGES or index.page_tokens < 1:
        raise WrongAnswerError("more than there may be")


PACKS = Format(_seeds, _mutate, _use)
