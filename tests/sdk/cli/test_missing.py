"""What commands say where a package that only some of them need is not installed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from edgewise.cli.main import main
from edgewise.server import assets
from edgewise_runtime import installed
from edgewise_runtime.devices.cpu import tvm_library
from edgewise_runtime.errors import DeviceError
from edgewise_runtime.installed import (
    CRYPTOGRAPHY,
    LLAMA_CPP,
    TORCH,
    TRANSFORMERS,
    TVM,
    Package,
)
from tests.sdk.cli.conftest import Run

CASE = "llama-gqa2-tied-linear"


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


@pytest.mark.landing
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


def said_by_doctor(capsys: pytest.CaptureFixture[str]) -> str:
    main(["doctor"])
    return " ".join(capsys.readouterr().out.split())


def sentence(error: str) -> str:
    """The message and the remedy in what a command wrote."""
    return error.removeprefix("error: ").rpartition(" [")[0]


@pytest.mark.landing
@pytest.mark.parametrize(
    ("package", "line"),
    [
        (TVM, "compile {checkpoint} -o {out}"),
        (CRYPTOGRAPHY, "serve {both} --tls --port 0"),
        (LLAMA_CPP, "eval {gguf} --text {gguf}"),
        (TORCH, "diff {checkpoint} {both}"),
        (TRANSFORMERS, "diff {checkpoint} {both}"),
    ],
)
def test_doctor_says_of_a_missing_package_what_the_command_says(
    package: Package,
    line: str,
    without: Callable[[Package], None],
    checkpoints: Callable[[str], Path],
    bundles: Callable[..., Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    gguf = tmp_path / "model.gguf"
    gguf.write_bytes(b"GGUF")
    places = {
        "checkpoint": checkpoints(CASE),
        "both": bundles(CASE, targets=("cpu", "webgpu")),
        "gguf": gguf,
        "out": tmp_path / "out",
    }
    without(package)
    error = sentence(error_of(capsys, *(word.format(**places) for word in line.split())))
    assert "needs the package" in error
    assert error in said_by_doctor(capsys)


@pytest.mark.landing
def test_doctor_says_of_missing_gpus_what_the_command_says(
    bundles: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "wgpu", None)
    both = bundles(CASE, targets=("cpu", "webgpu"))
    error = sentence(error_of(capsys, "run", both, "x", "--device", "wgpu"))
    assert error in said_by_doctor(capsys)


def test_doctor_says_of_a_missing_runtime_what_running_on_the_cpu_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(tvm_library.RUNTIME_NAMES, sys.platform, "libabsent.so")
    with pytest.raises(DeviceError, match=r"libabsent\.so") as refused:
        tvm_library.runtime_path()
    assert refused.value.said in said_by_doctor(capsys)


def test_doctor_says_of_a_missing_c_compiler_what_compile_says(
    checkpoints: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PATH", "")
    error = sentence(error_of(capsys, "compile", checkpoints(CASE), "-o", tmp_path / "out"))
    assert "C compiler" in error
    assert error in said_by_doctor(capsys)
