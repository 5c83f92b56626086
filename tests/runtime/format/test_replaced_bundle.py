"""Bundles that are replaced while they are read."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from edgewise_runtime.folders import new_folder, remove_unfinished
from edgewise_runtime.format.bundle import Bundle
from tests.runtime import sample

REPLACEMENTS = 40


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put_in_place(tmp_path / "tiny", b"{}")
    return tmp_path / "tiny"


def put_in_place(folder: Path, tokenizer: bytes) -> None:
    """Write a bundle with this tokenizer, in the place of what is there."""
    with new_folder(folder, replace=True) as new:
        sample.write_files(new)
        (new / "tokenizer.json").write_bytes(tokenizer)
        sample.write_manifest(new, sample.manifest() | {"files": sample.list_files(new)})


def test_it_stays_the_one_that_was_opened(folder: Path) -> None:
    bundle = Bundle.open(folder)
    put_in_place(folder, b'{"another": true}')
    assert bundle.read("tokenizer.json") == b"{}"
    assert bundle.file("tokenizer.json").read_text() == "{}"
    bundle.check()
    assert Bundle.open(folder).read("tokenizer.json") == b'{"another": true}'
    bundle.close()
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_an_error_names_a_file_as_people_know_it(folder: Path) -> None:
    bundle = Bundle.open(folder)
    bundle.file("tokenizer.json").unlink()
    with pytest.raises(Exception, match=r"tiny/tokenizer\.json") as error:
        bundle.check()
    assert "/proc" not in str(error.value)


def test_who_reads_and_who_replaces_it_never_hinder_each_other(folder: Path) -> None:
    ended = threading.Event()

    def read() -> int:
        count = 0
        while not ended.is_set():
            bundle = Bundle.open(folder)
            bundle.check()
            bundle.close()
            count += 1
        return count

    def write(number: int) -> None:
        for index in range(REPLACEMENTS):
            # All of them have another length, so that no file of one fits to another.
            put_in_place(folder, b'{"another": "' + b"x" * (number + 2 * index) + b'"}')

    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        writers = [pool.submit(write, number) for number in range(2)]
        try:
            for writer in writers:
                writer.result()
        finally:
            ended.set()
        assert all(reader.result() > 0 for reader in readers)
    remove_unfinished(folder)
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
