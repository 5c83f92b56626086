"""The folder of a job's answers: one job, one writer, and every row once."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from edgewise.ray.data.keys import Digests, Seen, sorted_digests
from edgewise.ray.data.parts import ROW_KEY, Parts
from edgewise_runtime.errors import EngineError, InputError
from edgewise_runtime.files import (
    read_bytes,
    storage_errors,
    sync_folder,
    write_bytes,
    write_json,
)
from edgewise_runtime.format.reading import parse_json, shorten
from edgewise_runtime.locks import lock_path

JOB = "_job.json"
"""What the answers are of. Readers of folders of Parquet pass over a name that begins so."""
MAX_JOB = 1 << 24
PART_ROWS = 1024
PART_BYTES = 16 << 20
PART_SECONDS = 30.0
"""A part is written when it has so many rows or bytes, or so long after its first row."""


@dataclass
class Written:
    """What a run has written.

    Attributes:
        rows: answered now.
        failed: of these, those with an error.
        before: rows that were there already.
        repeated: rows that came a second time and were dropped.
        seconds: from its beginning to its end.
    """

    rows: int = 0
    failed: int = 0
    before: int = 0
    repeated: int = 0
    seconds: float = 0.0


class Folder:
    """A folder that is being written. Make one with `Folder.opened`.

    Attributes:
        known: digests of the rows that lay in it, in order.
        written: since then.
    """

    def __init__(self, path: Path, parts: Parts, known: Digests) -> None:
        self.known = known
        self.written = Written(before=len(known))
        self._path = path
        self._parts = parts
        self._seen = Seen(known)
        self._pending: list[pa.Table] = []
        self._since = 0.0
        self._next = max((_number(one) for one in _files(path, parts)), default=-1) + 1

    @staticmethod
    @contextmanager
    def opened(
        path: Path, parts: Parts, job: Mapping[str, Any], *, retry_failed: bool
    ) -> Iterator[Folder]:
        """A folder to write to, which nobody else does meanwhile; what came is written at the end.

        Args:
            path: made where it is not there.
            job: what the answers are of, JSON. A folder has those of one job.
            retry_failed: remove rows that have failed, to answer them again.

        Raises:
            InputError: ``input.job`` for the folder of another job, or of something else.
            EngineError: ``engine.busy`` where another run is writing to it.
            StorageError: where it cannot be read or written, or has damaged parts.
        """
        with storage_errors("open", path):
            path.mkdir(parents=True, exist_ok=True)
            try:
                lock = lock_path(path)
            except BlockingIOError as cause:
                raise EngineError(
                    f"Another run writes to {path}.",
                    remedy="Wait for its end, or choose another folder.",
                    code="engine.busy",
                ) from cause
        began = time.monotonic()
        try:
            _claim(path, job)
            folder = Folder(path, parts, _known(path, parts, retry_failed=retry_failed))
            try:
                yield folder
            finally:
                folder.flush()
                folder.written.seconds = time.monotonic() - began
        finally:
            if lock is not None:
                os.close(lock)

    def add(self, table: pa.Table) -> None:
        """Take rows that have a column `ROW_KEY`; those that have come before are dropped.

        Raises what `flush` does.
        """
        digests = [bytes.fromhex(key) for key in table[ROW_KEY].to_pylist()]
        new = self._seen.new(digests)
        self.written.repeated += len(new) - int(new.sum())
        table = table if new.all() else table.filter(pa.array(new))
        if not table.num_rows:
            return
        if self._pending and self._pending[0].schema != table.schema:
            self.flush()
        self._since = self._since if self._pending else time.monotonic()
        self._pending.append(table)
        if (
            sum(one.num_rows for one in self._pending) >= PART_ROWS
            or sum(one.nbytes for one in self._pending) >= PART_BYTES
            or time.monotonic() - self._since >= PART_SECONDS
        ):
            self.flush()

    def flush(self) -> None:
        """Write what has come as a part.

        Raises:
            InputError: ``input.column`` for values that the format has no words for.
            StorageError: where it cannot be written.
        """
        if not self._pending:
            return
        table = pa.concat_tables(self._pending)
        self._pending = []
        name = f"part-{self._next:06}{self._parts.ending}"
        write_bytes(self._path / name, self._parts.data(table))
        self._next += 1
        self.written.rows += table.num_rows
        self.written.failed += self._parts.failed(table)


_PART = re.compile(r"part-([0-9]{6,12})\.[a-z]+")


def _files(path: Path, parts: Parts) -> list[Path]:
    """The parts in their order."""
    with storage_errors("read", path):
        names = sorted(one.name for one in path.iterdir())
    return [path / name for name in names if _PART.fullmatch(name) and name.endswith(parts.ending)]


def _number(part: Path) -> int:
    found = _PART.fullmatch(part.name)
    return int(found[1]) if found else -1


def _claim(path: Path, job: Mapping[str, Any]) -> None:
    """Say what the folder is for, or check that it is for that."""
    said = json.loads(json.dumps(job))
    if not (path / JOB).exists():
        with storage_errors("read", path):
            others = [one.name for one in path.iterdir() if not one.name.startswith(".")]
        if others:
            raise InputError(
                f"{path} has {shorten(others[0])} in it, and no {JOB}.",
                remedy="Choose an empty folder, or one that such a job has begun.",
                code="input.job",
            )
        write_json(path / JOB, said, indent=2)
        return
    data = read_bytes(path / JOB, MAX_JOB)
    found = parse_json(data, str(path / JOB), InputError, what="job")
    there = found if isinstance(found, dict) else {}
    for name in [*said, *there]:
        if said.get(name) != there.get(name):
            raise InputError(
                f"{path} is of another job: its {name} is {shorten(there.get(name))}, "
                f"and this one's {shorten(said.get(name))}.",
                remedy="Choose another folder; the answers of one come from one model and options.",
                code="input.job",
            )


def _known(path: Path, parts: Parts, *, retry_failed: bool) -> Digests:
    """What the rows are known by that lie in a folder, without those that are to be answered again;
    what a killed run has left half written goes, too."""
    found = [sorted_digests(())]
    for part in _files(path, parts):
        rows = list(parts.keys(part))
        if retry_failed and any(failed for _, failed in rows):
            left = parts.without_failures(part)
            if left:
                write_bytes(part, left)
            else:
                with storage_errors("remove", part):
                    part.unlink()
                    sync_folder(path)
        found.append(sorted_digests(key for key, failed in rows if not (failed and retry_failed)))
    return np.unique(np.concatenate(found))
