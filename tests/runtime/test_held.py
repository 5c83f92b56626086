"""Who has opened a folder goes on reading it, whatever comes in its place."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from edgewise_runtime import folders, held, locks
from edgewise_runtime.held import Held


def make(path: Path, content: str) -> None:
    with folders.new_folder(path, replace=True) as folder:
        (folder / "a").write_text(content)


def entries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_stays_what_it_was_until_it_is_let_go(tmp_path: Path) -> None:
    path = tmp_path / "bundle"
    make(path, "first")
    first = Held(path)
    make(path, "second")
    second = Held(path)
    assert (first.files / "a").read_text() == "first"
    assert (second.files / "a").read_text() == "second"
    assert len(entries(tmp_path)) == 2, "what was replaced is there as long as it is read"
    first.release()
    assert entries(tmp_path) == ["bundle"]
    first.release()
    second.release()
    assert (path / "a").read_text() == "second"


def test_what_nobody_refers_to_is_let_go(tmp_path: Path) -> None:
    path = tmp_path / "bundle"
    make(path, "first")
    first = Held(path)
    make(path, "second")
    del first
    gc.collect()
    assert entries(tmp_path) == ["bundle"]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_last_one_who_reads_it_removes_it(tmp_path: Path, order: tuple[int, int]) -> None:
    path = tmp_path / "bundle"
    make(path, "first")
    readers = [Held(path), Held(path)]
    make(path, "second")
    readers[order[0]].release()
    assert (readers[order[1]].files / "a").read_text() == "first"
    readers[order[1]].release()
    assert entries(tmp_path) == ["bundle"]


def test_one_that_is_gone_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name, error in (("gone", FileNotFoundError), ("file", NotADirectoryError)):
        with pytest.raises(error):
            Held(tmp_path / name)


def test_somebody_who_keeps_a_lock_for_ever_keeps_nobody_from_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "PATIENCE_S", 0.0)
    make(tmp_path / "bundle", "first")
    handle = os.open(tmp_path / "bundle", os.O_RDONLY)
    assert locks.lock(handle)
    assert (Held(tmp_path / "bundle").files / "a").read_text() == "first"
    os.close(handle)


def test_without_paths_of_handles_the_folder_is_read_by_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held, "HANDLES", tmp_path / "nothing")
    make(tmp_path / "bundle", "first")
    reader = Held(tmp_path / "bundle")
    assert reader.files == tmp_path / "bundle"
    reader.release()
