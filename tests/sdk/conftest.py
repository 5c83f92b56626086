"""One engine for all tests that only read from it, one checkpoint that was used directly, and
packages that are not there."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, fields
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from huggingface_hub import close_session, constants

from edgewise import Engine
from edgewise.cli.main import main
from edgewise_runtime import installed
from edgewise_runtime.installed import Package
from tests.conftest import made_once
from tests.sdk.hub.small_hub import SmallHub, serve_hub

CASE = "llama-gqa2-tied-linear"
DEMO = Path(__file__).parents[2] / "examples/demo-model"


@pytest.fixture(scope="session")
def bundle(bundles: Callable[..., Path]) -> Path:
    """A tiny q4 bundle: context 256, 8 sequences, 128 rows a step."""
    return bundles(CASE)


@pytest.fixture(scope="session")
def engine(bundle: Path) -> Iterator[Engine]:
    with Engine(bundle) as engine:
        yield engine


@pytest.fixture(scope="session")
def demo_bundle(shared: Path, own_data_folder: None) -> Path:
    """The demo model in 4 bits: 4,096 tokens, and sense enough to write words; context 512, 16
    sequences."""
    from edgewise_compiler.compile import compile_model

    def compile_to(out: Path) -> None:
        compile_model(DEMO, out, quant="q4", context=512, max_batch=16)

    return made_once(shared / "demo-bundle", compile_to)


@dataclass(frozen=True)
class FirstUse:
    """A checkpoint after `edgewise chat CHECKPOINT`, and what that wrote to stderr."""

    checkpoint: Path
    said: str


@pytest.fixture(scope="session")
def first_use(checkpoints: Callable[[str], Path]) -> FirstUse:
    checkpoint = checkpoints("llama-mha")
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as said:
        assert main(["chat", str(checkpoint), "--question", "Hi", "--max-tokens", "2"]) == 0
    return FirstUse(checkpoint, said.getvalue())


@pytest.fixture(scope="session")
def hub_servers() -> Iterator[SmallHub]:
    with serve_hub() as hub:
        yield hub


@pytest.fixture
def hub(
    hub_servers: SmallHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SmallHub]:
    """An empty hub, which this process and those it starts ask, with a cache of their own."""
    empty = SmallHub(url=hub_servers.url, cdn=hub_servers.cdn)
    for field in fields(SmallHub):
        setattr(hub_servers, field.name, getattr(empty, field.name))
    cache, token = str(tmp_path / "hub"), str(tmp_path / "token")
    variables = {"HF_ENDPOINT": hub_servers.url, "HF_HUB_CACHE": cache, "HF_TOKEN_PATH": token}
    for name, value in {**variables, "NO_PROXY": "127.0.0.1"}.items():
        monkeypatch.setenv(name, value)
    for name in ("HF_TOKEN", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    # The library reads the variables once, when it is imported.
    template = f"{hub_servers.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(constants, "ENDPOINT", hub_servers.url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", cache)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", token)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    close_session()
    yield hub_servers
    close_session()


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Callable[[Package], None]:
    """Makes a package as if it were not installed."""
    there = installed.version

    def hide(package: Package) -> None:
        def version(name: str) -> str:
            if name == package.name:
                raise PackageNotFoundError(name)
            return there(name)

        monkeypatch.setattr(installed, "version", version)

    return hide
