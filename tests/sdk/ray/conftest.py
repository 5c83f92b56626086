"""A cluster of one node on this machine, and a model that two of its processes serve."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from edgewise import Engine
from tests.processes import eventually, running
from tests.sdk.hub.small_hub import SmallHub
from tests.sdk.other_texts import with_texts
from tests.sdk.test_constrained import TEMPLATE

MODEL = "tiny"
KEY = "sk-edgewise-0123456789"
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_SERVE_LOG_TO_STDERR": "0",
    "RAY_enable_metrics_collection": "0",
    # Processes for tasks that never come.
    "RAY_prestart_worker_first_driver": "0",
    "RAY_enable_worker_prestart": "0",
    # A machine that does much else is slow to start them.
    "RAY_raylet_start_wait_time_s": "25",
    "RAY_agent_register_timeout_ms": "120000",
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "120",
    "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "60",
}
MARK = "EDGEWISE_TEST_CLUSTER"
"""A variable that every process of the cluster has, with the folder of its logs."""
CPUS = 4
STORE_BYTES = 100_000_000
TRIES = 6


@dataclass(frozen=True)
class Cluster:
    """Where its doors listen. What runs in it has another key than who deploys, as on other nodes.

    Attributes:
        folder: of its logs.
        cache: of the user that its processes belong to.
        served: what is served, and before it what is served again once that ends.
    """

    port: int
    folder: Path
    cache: Path
    served: list[Any] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @contextmanager
    def serving(self, model: str | Path, **options: Any) -> Iterator[str]:
        """Serve a model while the block runs; gives the address."""
        from ray import serve

        import edgewise.ray

        given = {"cpus": 0.1, "threads": 1, **options}
        app = edgewise.ray.app(model, edgewise.ray.ServeOptions(**given))
        self.served.append(app)
        try:
            try:
                serve.run(app, name=MODEL, route_prefix="/")
            except RuntimeError as error:
                raise RuntimeError(str(serve.status().applications.get(MODEL))) from error
            yield self.url
        finally:
            self.served.pop()
            serve.delete(MODEL)
            if self.served:
                serve.run(self.served[-1], name=MODEL, route_prefix="/")


def processes(folder: Path) -> list[int]:
    """Those of the cluster with these logs that have not ended."""
    wanted, found = f"{MARK}={folder}".encode(), []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            there = wanted in (path / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if there and running(int(path.name)):
            found.append(int(path.name))
    return found


def start(folder: Path) -> None:
    """Start Ray, again where its parts have not found each other within a time that is fixed in
    it, as on a machine that does much else."""
    import ray

    for left in reversed(range(TRIES)):
        try:
            ray.init(
                num_cpus=CPUS,
                object_store_memory=STORE_BYTES,
                include_dashboard=False,
                _node_ip_address="127.0.0.1",
                _temp_dir=str(folder),
                log_to_driver=False,
            )
            return
        except Exception:
            ray.shutdown()
            if not left:
                raise


@pytest.fixture(scope="session")
def cluster(hub_servers: SmallHub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    import ray
    from ray import serve

    user = tmp_path_factory.mktemp("another user")
    # The names of sockets are short.
    folder = Path(tempfile.mkdtemp(prefix="edgewise-ray-", dir="/tmp"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in {**ENVIRONMENT, MARK: str(folder)}.items():
                patch.setenv(name, value)
            patch.setenv("XDG_DATA_HOME", str(user / "data"))
            patch.setenv("XDG_CACHE_HOME", str(user / "cache"))
            patch.setenv("HF_ENDPOINT", hub_servers.url)
            patch.setenv("HF_HUB_CACHE", str(user / "hub"))
            start(folder)
            serve.start(http_options={"host": "127.0.0.1", "port": port})
        there = processes(folder)
        yield Cluster(port, folder, user / "cache/edgewise")
    finally:
        serve.shutdown()
        ray.shutdown()
        gone = eventually(lambda: not processes(folder))
        rmtree(folder, ignore_errors=True)
    assert there
    assert gone, "The cluster has ended, and some of its processes have not."


@pytest.fixture(scope="session")
def tiny(long_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that writes nonsense, knows tools and may think."""
    folder = tmp_path_factory.mktemp("ray") / MODEL
    return with_texts(long_bundle, folder, {"chat_template.jinja": TEMPLATE})


@pytest.fixture(scope="session")
def engine(tiny: Path) -> Iterator[Engine]:
    """The same model, asked directly."""
    with Engine(tiny, context=4096) as engine:
        yield engine


@pytest.fixture(scope="session")
def url(cluster: Cluster, tiny: Path) -> Iterator[str]:
    """Two replicas of it, to which a prompt goes where its beginning is."""
    with cluster.serving(tiny, replicas=2, context=4096, api_key=KEY, drain_s=10.0) as url:
        yield url
