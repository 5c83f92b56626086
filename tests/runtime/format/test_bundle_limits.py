"""Bundles beyond all measure, which are refused by their bytes or by what is counted in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgewise_runtime.errors import BundleError
from edgewise_runtime.format import bundle as bundles
from edgewise_runtime.format.bundle import Bundle
from tests.runtime import sample
from tests.runtime.format.test_bundle import PLAN, change_manifest, refused


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A valid bundle's folder."""
    sample.write_bundle(tmp_path / "tiny")
    return tmp_path / "tiny"


def test_a_manifest_beyond_all_measure_is_not_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundles, "MAX_BYTES", 100)
    assert refused(folder).code == "storage.size"


def test_a_plan_beyond_all_measure_is_not_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("MAX_PLANS", "MAX_PLAN_VALUES", "MAX_PLANS_VALUES"):
        with monkeypatch.context() as smaller:
            smaller.setattr(bundles, limit, 100)
            assert refused(folder).code == "bundle.size"


def test_a_plan_of_too_many_values_is_not_parsed(folder: Path) -> None:
    (folder / PLAN).write_bytes(b"[" + b"[]," * (bundles.MAX_PLAN_VALUES // 2) + b"0]")
    change_manifest(folder, lambda m: m.update(files=sample.list_files(folder)))
    with pytest.raises(BundleError, match="262,144 are read at most") as error:
        Bundle.open(folder).plans("cpu-f32-portable")
    assert error.value.code == "bundle.size"
