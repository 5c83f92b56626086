"""Bundles with other texts: another chat template, say, or other defaults."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from tests.runtime import sample


def with_texts(bundle: Path, folder: Path, texts: Mapping[str, str]) -> Path:
    """A copy of a bundle in which files have these contents, by their names."""
    copy = Path(shutil.copytree(bundle, folder))
    manifest = sample.read_manifest(copy)
    for name, text in texts.items():
        (copy / name).write_text(text, "utf-8")
        raw = text.encode()
        described = {"bytes": len(raw), "sha256": sha256(raw).hexdigest()}
        manifest["files"][name] = {**manifest["files"].get(name, {}), **described}
    sample.write_manifest(copy, manifest)
    return copy
