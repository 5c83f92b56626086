"""A wheel in an environment of its own: without Node, a C compiler, or what it did not ask for."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from edgewise import Engine
from edgewise_runtime.installed import CRYPTOGRAPHY, TVM
from tests.wheels import ROOT, build, clean_environment, copy_sources, put_app

CASE = "llama-gqa2-tied-linear"


@dataclass(frozen=True)
class Installed:
    """An environment's commands, which is all that its processes find."""

    commands: Path

    def __call__(self, *argv: object, status: int = 0) -> str:
        """What `edgewise argv…` writes to stdout, or where it fails to stderr."""
        kept = ("HOME", "TMPDIR", "XDG_DATA_HOME", "XDG_CACHE_HOME")
        own = {name: os.environ[name] for name in kept if name in os.environ}
        done = subprocess.run(
            [self.commands / "edgewise", *map(str, argv)],
            env={**own, "PATH": str(self.commands)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert done.returncode == status, done.stderr
        return done.stderr if status else done.stdout


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """edgewise-light, with a page in the place of the chat app."""
    folder = tmp_path_factory.mktemp("light")
    sources = copy_sources(folder / "sources")
    put_app(sources)
    wheel, _ = build("wheel", sources / "light", folder / "wheel")
    return Installed(clean_environment(folder / "environment", wheel))


@pytest.fixture(scope="module")
def both(bundles: Callable[..., Path]) -> Path:
    """A bundle for this CPU and for browsers."""
    return bundles(CASE, targets=("cpu", "webgpu"))


def answer(path: Path) -> list[int]:
    with Engine(path) as engine:
        return [*engine.generate("Once upon a time", max_tokens=6, temperature=0).token_ids]


def answered(installed: Installed, path: Path) -> list[int]:
    options = ("--max-tokens", 6, "--temperature", 0, "--json")
    ids: list[int] = json.loads(installed("run", path, "Once upon a time", *options))["token_ids"]
    return ids


@pytest.mark.landing
def test_the_light_install_runs_a_bundle_as_the_whole_one_does(
    light: Installed, both: Path
) -> None:
    assert not list(light.commands.parent.glob("lib/*/site-packages/tvm"))
    assert answered(light, both) == answer(both)


def test_the_light_install_serves_the_chat_app(light: Installed, both: Path) -> None:
    assert f"and {both.name} for WebGPU" in light("serve", both, "--check")


def test_compiling_in_the_light_install_says_what_to_install(
    light: Installed, checkpoints: Callable[[str], Path], tmp_path: Path
) -> None:
    said = " ".join(light("compile", checkpoints(CASE), "-o", tmp_path / "out", status=1).split())
    assert "apache-tvm, which is not installed" in said
    assert TVM.install in said
    assert "[compile.tvm]" in said
    assert not (tmp_path / "out").exists()


@pytest.mark.full
def test_a_certificate_in_the_light_install_says_what_to_install(
    light: Installed, both: Path
) -> None:
    said = " ".join(light("serve", both, "--check", "--tls", status=1).split())
    assert CRYPTOGRAPHY.install in said
    assert "[serve.tls]" in said


@pytest.mark.full
def test_doctor_finds_nothing_wrong_with_the_light_install(light: Installed) -> None:
    said = " ".join(light("doctor").split())
    assert "edgewise-light" in said
    assert TVM.install in said
    assert "✗" not in said


@pytest.mark.full
@pytest.mark.parametrize("project", [".", "light"])
def test_a_wheel_with_the_real_chat_app_runs_and_serves(
    project: str, both: Path, tmp_path: Path
) -> None:
    """Built as from a clone, where Node is; installed where it is not."""
    sources = copy_sources(tmp_path / "sources", "web")
    (sources / "web/node_modules").symlink_to(ROOT / "web/node_modules")
    wheel, said = build("wheel", sources / project, tmp_path / "wheel", os.environ["PATH"])
    assert "the chat app was built" in said
    installed = Installed(clean_environment(tmp_path / "environment", wheel))
    assert not any(shutil.which(name, path=str(installed.commands)) for name in ("node", "cc"))
    assert answered(installed, both) == answer(both)
    assert "edgewise serve: http://127.0.0.1:" in installed("serve", both, "--check")
