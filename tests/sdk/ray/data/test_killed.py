"""A worker that is killed midway: every row once, no more memory, and nothing left running."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from edgewise import Settings
from edgewise.ray.data import folder as folder_module
from tests.processes import children, eventually
from tests.sdk.ray.conftest import Cluster

MIB = 1 << 20
WORKER = "ray::MapWorker"
GROWTH = 24 * MIB
"""What a process may have more of than one had until half of the rows had been written: pools of
Arrow's and of the allocator fill up for a while."""


def workers() -> list[int]:
    """Processes of this cluster that answer rows."""
    return [pid for raylet in children("raylet/raylet") for pid in children(WORKER, raylet)]


def resident(pid: int) -> int:
    """Bytes of a process that lie in memory and are its own; 0 where it has gone."""
    try:
        fields = Path(f"/proc/{pid}/statm").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE")


@dataclass
class Watched:
    """Watches processes while rows are written, and kills a worker once some are.

    Attributes:
        parts: how many there are when it kills one.
        killed: its process.
        seen: of each process the parts that were there and the bytes it had.
    """

    folder: Path
    parts: int
    killed: int = 0
    seen: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    _done: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Watched:
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.1):
            parts = len(list(self.folder.glob("part-*")))
            running = workers()
            for pid in (os.getpid(), *running):
                self.seen.setdefault(pid, []).append((parts, resident(pid)))
            if not self.killed and parts >= self.parts and running:
                self.killed = running[0]
                os.kill(self.killed, signal.SIGKILL)

    def growth(self, parts: int) -> tuple[int, int]:
        """Bytes that this process, and a worker, had at most, beyond what one had at most until so
        many parts were there."""
        workers = [pid for pid in self.seen if pid != os.getpid()]
        return self._growth([os.getpid()], parts), self._growth(workers, parts)

    def _growth(self, pids: list[int], parts: int) -> int:
        seen = [each for pid in pids for each in self.seen[pid]]
        early = [size for there, size in seen if there <= parts]
        late = [size for there, size in seen if there > parts]
        return max(late) - max(early)


@pytest.mark.full
@pytest.mark.parametrize(("rows", "part"), [(480, 32), (10_000, 256)], ids=["some", "all"])
def test_every_row_is_there_once_where_a_worker_was_killed(
    cluster: Cluster,
    tiny: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rows: int,
    part: int,
) -> None:
    import ray.data

    from edgewise.ray import Workers, complete_to

    monkeypatch.setattr(folder_module, "PART_ROWS", part)
    ray.data.DataContext.get_current().enable_progress_bars = False
    table = pa.table({"id": range(rows), "question": [f"Once upon {at}" for at in range(rows)]})
    pq.write_table(table, tmp_path / "rows.parquet")
    before, began = set(workers()), time.monotonic()
    with Watched(tmp_path / "answers", rows // part // 3) as watched:
        written = complete_to(
            ray.data.read_parquet(str(tmp_path / "rows.parquet")),
            tiny,
            tmp_path / "answers",
            prompt="question",
            key="id",
            max_tokens=6,
            temperature=1.0,
            workers=Workers(
                concurrency=2,
                num_cpus=0.5,
                batch_size=16,
                context=256,
                threads=1,
                # Prefixes fill what they may have, here 17 KB a row: they are to be full soon.
                settings=Settings(prefix_memory=8 * MIB),
            ),
        )
    took = time.monotonic() - began
    assert watched.killed, "it ended before any worker could be killed"
    assert (written.rows, written.failed, written.before) == (rows, 0, 0)
    found = pq.ParquetDataset(tmp_path / "answers").read(["id", "completion", "row_key"])
    assert sorted(found["id"].to_pylist()) == list(range(rows))
    assert found["completion"].null_count == 0
    assert len(set(found["row_key"].to_pylist())) == rows
    grown = watched.growth(rows // part // 2)
    print(
        f"{rows:,} rows in {took:.1f} s; MiB more: {[one // MIB for one in grown]}; "
        f"at most {[max(s for _, s in seen) // MIB for seen in watched.seen.values()]}"
    )
    assert max(grown) < GROWTH
    assert eventually(lambda: set(workers()) <= before)
