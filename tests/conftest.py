"""What every test shares: fixed Hypothesis profiles and a data folder of its own."""

from __future__ import annotations

import fcntl
import gc
import json
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants
from hypothesis import settings

from tests.sampling import mark_cases

# Derandomized, so that a suite that passed passes again; deadlines would measure the machine.
settings.register_profile("quick", derandomize=True, deadline=None, max_examples=40)
settings.register_profile("full", derandomize=True, deadline=None, max_examples=2000)

# What is imported and collected stays: looking through it for garbage took a third of collecting.
gc.disable()

# Bundles are flushed to the disk, which costs a run a minute: in memory, where that has room, not.
MEMORY, ROOM = Path("/dev/shm"), 6 << 30
if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ROOM:
    os.environ["TMPDIR"] = str(MEMORY)
    tempfile.tempdir = None

# Mesa's software GPU: more threads than one make its times bimodal, and the suite no faster.
os.environ.setdefault("LP_NUM_THREADS", "1")
# Without one, wgpu-native complains about the display it does not need.
os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())

# It compiles a shader at the first launch: what it compiled is kept for later runs, and so is what
# the compiler generated.
BUILD = Path(__file__).resolve().parents[1] / "build"
SHADER_CACHE = BUILD / "shader-cache"
SHADER_CACHE.mkdir(parents=True, exist_ok=True)
os.environ.setdefault("MESA_SHADER_CACHE_DIR", str(SHADER_CACHE))
os.environ.setdefault("EDGEWISE_KEPT_KERNELS", str(BUILD / "kernels"))
os.environ.setdefault("ZIG_GLOBAL_CACHE_DIR", str(BUILD / "zig"))

# A runner that starts the suite in the background hands down an ignored Ctrl-C, to children too.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what is marked `full`
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_cases(items)


def pytest_collection_finish() -> None:
    """From here on garbage is looked for among what tests make, and seldom: it was a tenth of all
    that the processor did for tests in Python."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the whole session, however many processes run its tests."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "shared"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session", autouse=True)
def own_data_folder(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Iterator[None]:
    """Keeps keys, measurements and caches of the person who runs the tests out of them."""
    with pytest.MonkeyPatch.context() as patch:
        # One key for all processes: what one of them compiled runs in the others.
        patch.setenv("XDG_DATA_HOME", str(shared / "data"))
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        cache = tmp_path_factory.mktemp("cache")
        patch.setenv("XDG_CACHE_HOME", str(cache))
        # Models of hubs. Their library reads the variable once, when it is imported.
        patch.setenv("HF_HUB_CACHE", str(cache / "hub"))
        patch.setattr(constants, "HF_HUB_CACHE", str(cache / "hub"))
        yield


def made_once(folder: Path, make: Callable[[Path], object]) -> Path:
    """``folder``, which ``make`` fills where no process of the session has done so yet."""
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=folder.parent) as unfinished:
                make(Path(unfinished) / folder.name)
                (Path(unfinished) / folder.name).rename(folder)
    return folder


BundleFactory = Callable[..., Path]
"""``bundles(case, quant="q4", cpu="native", targets=("cpu",), kv="auto")``: a compiled tiny
checkpoint, made once a session. A recipe of tests/parity may stand for ``quant``."""

RECIPES = Path(__file__).parent / "parity"


@pytest.fixture(scope="session")
def checkpoints(shared: Path) -> Callable[[str], Path]:
    """The tiny random checkpoints of tests/parity by name, each written once: its cases, and
    ``overflowing``, of which float16 cannot hold all keys."""
    from tests.parity.make_checkpoints import write_checkpoint
    from tests.parity.outliers import write_overflowing

    folder = shared / "checkpoints"
    folder.mkdir(exist_ok=True)

    def write(case: str, out: Path) -> Path:
        return write_overflowing(out) if case == "overflowing" else write_checkpoint(case, out)

    return lambda case: made_once(folder / case, lambda out: write(case, out.parent))


def with_context(checkpoint: Path, out: Path, tokens: int) -> Path:
    """A copy of a checkpoint, which says that it was made for so many tokens."""
    shutil.copytree(checkpoint, out)
    config = json.loads((out / "config.json").read_text())
    (out / "config.json").write_text(json.dumps({**config, "max_position_embeddings": tokens}))
    return out


@pytest.fixture(scope="session")
def long_bundle(shared: Path, checkpoints: Callable[[str], Path], own_data_folder: None) -> Path:
    """A tiny bundle of a model that was made for a long context: 131,072 tokens, 256 sequences, 512
    rows a step."""
    from edgewise_compiler.compile import compile_model

    def compile_to(out: Path) -> None:
        model = with_context(checkpoints("llama-mha"), out.with_name("checkpoint"), 131072)
        compile_model(model, out, quant="q4", max_batch=256)

    return made_once(shared / "long-bundle", compile_to)


@pytest.fixture(scope="session")
def bundles(
    shared: Path, checkpoints: Callable[[str], Path], own_data_folder: None
) -> BundleFactory:
    """Compiled tiny checkpoints; programs take 128 rows and 8 sequences a step."""
    from edgewise_compiler.compile import compile_model

    folder = shared / "bundles"
    folder.mkdir(exist_ok=True)

    def bundle(
        case: str,
        quant: str = "q4",
        cpu: str = "native",
        targets: tuple[str, ...] = ("cpu",),
        kv: str = "auto",
    ) -> Path:
        recipe = RECIPES / f"{quant}.toml"

        def compile_to(out: Path) -> None:
            compile_model(
                checkpoints(case),
                out,
                targets=targets,
                quant=quant,
                recipe=recipe if recipe.exists() else None,
                cpu=cpu,
                max_batch=8,
                prefill_chunk=128,
                kv=kv,
            )

        return made_once(folder / "-".join((case, quant, cpu, *targets, kv)), compile_to)

    return bundle
