"""The digest of bundle.json: no bit of it changes unnoticed, and it costs little to find out."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import pytest

from edgewise_runtime.errors import BundleError
from edgewise_runtime.format import reading
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.manifest import BundleManifest
from edgewise_runtime.format.reading import parse_json
from edgewise_runtime.format.seal import seal, unseal
from tests.format.cases import Case, cases, what
from tests.format.make_goldens import GOLDENS
from tests.runtime import sample
from tests.runtime.format.test_format_cases import written

SEED = 9
FLIPS = 4000


def refused(data: bytes) -> str:
    with pytest.raises(BundleError) as error:
        BundleManifest.from_bytes(data)
    assert len(str(error.value)) < 500
    return error.value.code


def test_a_manifest_that_was_written_is_read() -> None:
    data = (GOLDENS / "bundle.json").read_bytes()
    manifest = BundleManifest.from_bytes(data)
    assert manifest.to_bytes() == data
    assert seal(unseal(data)) == data
    # Sealed again after a change it has another digest, and not two.
    changed = seal({"digest": "old", **unseal(data), "name": "other"})
    assert BundleManifest.from_bytes(changed).name == "other"


def test_no_flipped_bit_goes_unnoticed() -> None:
    data = bytearray((GOLDENS / "bundle.json").read_bytes())
    places = random.Random(SEED).sample(range(8 * len(data)), FLIPS)
    # The beginning is what the digest itself does not cover.
    for place in (*range(8 * 80), *places):
        data[place // 8] ^= 1 << place % 8
        with pytest.raises(BundleError):
            BundleManifest.from_bytes(bytes(data))
        data[place // 8] ^= 1 << place % 8
    BundleManifest.from_bytes(bytes(data))


def test_a_number_put_right_by_hand_is_found_before_anything_else(tmp_path: Path) -> None:
    sample.write_bundle(tmp_path / "tiny")
    path = tmp_path / "tiny/bundle.json"
    path.write_bytes(path.read_bytes().replace(b'"offset": 64', b'"offset": 32'))
    with pytest.raises(BundleError, match="is damaged") as error:
        Bundle.open(tmp_path / "tiny")
    assert error.value.code == "bundle.checksum"
    assert "compile the bundle again" in error.value.remedy


def test_a_bundle_of_the_format_before_is_to_be_compiled_again() -> None:
    with pytest.raises(BundleError, match="version 3 is not 4") as error:
        BundleManifest.from_bytes(b'{\n "version": 3,\n "name": "old"\n}\n')
    assert "Compile the model again" in error.value.remedy


@pytest.mark.parametrize("case", cases("seals"), ids=what)
def test_a_file_is_refused_for(case: Case) -> None:
    assert refused(written(case)) == case["code"]


SMALL = 4 << 20
"""Instead of `SPARE`, so that it takes less time."""


def most(piece: str) -> bytes:
    """A list of as many of these as are parsed, each with its number in it."""
    one = piece.format(99999).encode()
    each = sum(one.count(sign) * size for sign, size in reading.PARSED.items())
    if not one.isascii():
        each += reading.WIDE * len(one)
    count = SMALL // each - 100
    return f"[{''.join(piece.format(100000 + i) for i in range(count))}0]".encode()


@pytest.mark.parametrize("piece", ['{{"{:x}":0}},', "[{}.5],", '"{:x}",', '"🦊{:x}",'])
def test_what_is_parsed_takes_twice_the_text_and_a_little_at_most(
    piece: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "SPARE", SMALL)
    data = most(piece)
    tracemalloc.start()
    try:
        parse_json(data, "a text", BundleError)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * len(data) + SMALL
    with pytest.raises(BundleError) as error:
        parse_json(data * 2, "a text", BundleError)
    assert error.value.code == "bundle.size"
