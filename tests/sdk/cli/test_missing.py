"""What commands say where a package that only some of them need is not installed."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from edgewise.cli.main import main
from edgewise.server import assets
from edgewise_runtime import installed
from edgewise_runtime.installed import CRYPTOGRAPHY, TVM, Package
from tests.sdk.cli.conftest import Run

CASE = "llama-gqa2-tied-linear"


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


def error_of(capsys: pytest.CaptureFixture[str], *argv: object) -> str:
    """What a command that fails writes to stderr, in a line."""
    assert main([*map(str, argv)]) == 1
    written = capsys.readouterr()
    assert written.out == ""
    return " ".join(written.err.split())


@pytest.mark.parametrize(
    "argv", [("compile", "{}", "-o", "out"), ("chat", "{}"), ("run", "{}", "Hi")]
)
def test_a_checkpoint_needs_the_compiler(
    argv: tuple[str, ...],
    without: Callable[[Package], None],
    checkpoints: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    without(TVM)
    said = error_of(capsys, *(part.format(checkpoints(CASE)) for part in argv))
    assert "Compiling a model needs the package apache-tvm, which is not installed." in said
    assert TVM.install in said
    assert "[compile.tvm]" in said
    assert not (tmp_path / "out").exists()


def test_https_needs_what_makes_certificates(
    without: Callable[[Package], None],
    bundles: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    without(CRYPTOGRAPHY)
    both = bundles(CASE, targets=("cpu", "webgpu"))
    said = error_of(capsys, "serve", both, "--tls", "--port", "0")
    assert CRYPTOGRAPHY.install in said
    assert "[serve.tls]" in said


def test_doctor_warns_of_a_missing_compiler_and_asks_for_no_linker(
    edgewise: Run, without: Callable[[Package], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installed, "DISTRIBUTIONS", ("edgewise-light",))
    without(TVM)
    out = edgewise("doctor")
    (line,) = [line for line in out.splitlines() if " compiler " in line]
    assert line.startswith("!")
    assert TVM.install in " ".join(out.split())
    assert "C compiler" not in out


@pytest.mark.parametrize("built", [True, False])
def test_doctor_tells_whether_the_chat_app_is_there(
    built: bool, edgewise: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assets, "FOLDER", tmp_path)
    if built:
        (tmp_path / "chat").mkdir()
        (tmp_path / "chat/index.html").touch()
    said = " ".join(edgewise("doctor").split())
    assert ("chat app built" in said) is built
    assert (f"chat app not built: {assets.BUILD}" in said) is not built
