"""Every failure is one sentence, what to do, a code and a status: never a traceback."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from edgewise.cli import main as cli
from edgewise.cli.main import main
from tests.sdk.cli.commands import command, environment


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def failed(capsys: pytest.CaptureFixture[str], *argv: object, status: int = 1) -> str:
    assert main([str(arg) for arg in argv]) == status
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert "Traceback" not in said
    return said


@pytest.mark.quick(cases=6)
@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["chat", "nowhere"], "input.model"),
        (["run", "nowhere", "x"], "input.model"),
        (["compile", "nowhere"], "checkpoint"),
        (["inspect", "nowhere"], "input.bundle"),
        (["rm", "nowhere", "-y"], "input.bundle"),
        (["doctor", "nowhere"], "input.bundle"),
        (["diff", "nowhere", "nowhere"], "input.bundle"),
        (["run", "BUNDLE", ""], "input.empty"),
        (["run", "BUNDLE", "x" * 2000], "input.context"),
        (["run", "BUNDLE", "x", "--temperature", "-1"], "input.sampling"),
        (["run", "BUNDLE", "x", "--context", "100000"], "input.context"),
        (["run", "BUNDLE", "x", "--threads", "0"], "device.threads"),
        (["run", "BUNDLE", "x", "--device", "tpu"], "input.device"),
        (["run", "BUNDLE", "x", "--device", "wgpu"], "device.no_program"),
        (["run", "BUNDLE", "x", "--device", "wgpu:99"], "device.adapter"),
        (["run", "BUNDLE", "x", "--program", "nothing"], "bundle.unknown_name"),
        (["chat", "BUNDLE", "--question", "x" * 2000], "input.context"),
        (["chat", "BUNDLE", "--question", "x", "--top-p", "2"], "input.sampling"),
        (["chat", "BUNDLE", "--question", "x", "--max-tokens", "-1"], "input.sampling"),
        (["inspect", "BUNDLE", "--plan", "nothing"], "input.plan"),
        (["inspect", "BUNDLE", "--program", "nothing"], "bundle.unknown_name"),
        (["inspect", "BUNDLE", "--cost", "--batch", "99"], "input.range"),
        (["inspect", "BUNDLE", "--cost", "--history", "-1"], "input.range"),
        (["diff", "BUNDLE", "BUNDLE", "--tolerance", "-1"], "input.range"),
        (["rm", "BUNDLE"], "input.confirm"),
        (["compile", "BUNDLE"], "checkpoint"),
        (["compile", "CHECKPOINT", "--target", "abacus"], "unsupported.target"),
        (["compile", "CHECKPOINT", "--context", "1"], "input.range"),
        (["compile", "CHECKPOINT", "--cpu", "i386"], "unsupported"),
    ],
)
def test_a_failure_is_said_in_a_sentence(
    argv: list[str],
    code: str,
    bundle: Path,
    checkpoints: object,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    places = {"BUNDLE": str(bundle), "CHECKPOINT": str(checkpoints("llama-mha"))}  # type: ignore[operator]
    assert f"[{code}" in failed(capsys, *(places.get(arg, arg) for arg in argv))


def test_a_damaged_bundle_is_said_to_be(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damaged = shutil.copytree(bundle, "damaged")
    plan = next(Path(damaged).rglob("decode.json"))
    plan.write_bytes(plan.read_bytes().replace(b"decode", b"DECODE", 1))
    said = failed(capsys, "run", damaged, "x")
    assert "[bundle.checksum]" in said
    assert "is damaged" in said


def test_a_bundle_nobody_can_read_is_not_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    Path("old one").mkdir()
    (Path("old one") / "bundle.json").write_text("{")
    assert "rm -r 'old one'" in failed(capsys, "rm", "old one", "-y")


@pytest.mark.parametrize(
    ("name", "said"), [("notes.txt", "a file, and no GGUF"), ("model.bin", "a pickle")]
)
def test_a_file_is_no_model(name: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(name).write_text("")
    assert said in failed(capsys, "run", name, "x")


@pytest.mark.parametrize("command", [("compile", "--quant", "q4"), ("run", "--quant", "q8")])
def test_a_damaged_gguf_file_is_refused_after_what_would_become_of_it(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("model.gguf").write_text("")
    prompt = ["x"] if command[0] == "run" else []
    assert main([*command, "model.gguf", *prompt]) == 1
    said = "".join(capsys.readouterr())
    assert "model.gguf are read as floats and stored again as q" in said
    assert "model.gguf is damaged" in said


def test_a_link_is_not_deleted(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("link").symlink_to(bundle)
    assert "is a link" in failed(capsys, "rm", "link", "-y")
    assert (bundle / "bundle.json").exists()


def test_a_folder_that_only_claims_to_be_a_bundle_is_not_deleted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = Path("claims")
    folder.mkdir()
    (folder / "bundle.json").write_text('{"files": {"../precious": {"bytes": 1}}}')
    assert "[bundle" in failed(capsys, "rm", folder, "-y")
    assert (folder / "bundle.json").exists()


@pytest.mark.parametrize(
    "argv", [[], ["frobnicate"], ["run"], ["compile", "x", "--quant", "q3"], ["ls", "--nope"]]
)
def test_wrong_usage_has_status_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 2
    assert "usage: edgewise" in capsys.readouterr().err


def test_a_mistake_of_ours_is_admitted_without_a_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(args: object) -> int:
        raise ZeroDivisionError("oops")

    broken = SimpleNamespace(add_arguments=lambda parser: None, run=fail)
    monkeypatch.setitem(cli.COMMANDS, "broken", "fail")
    monkeypatch.setitem(sys.modules, "edgewise.cli.broken", broken)  # type: ignore[arg-type]
    said = failed(capsys, "broken")
    assert "inside edgewise: ZeroDivisionError: oops" in said
    assert "EDGEWISE_DEBUG" in said
    monkeypatch.setenv("EDGEWISE_DEBUG", "1")
    assert main(["broken"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("edgewise 0.")


def test_an_interrupt_has_status_130(bundle: Path) -> None:
    with subprocess.Popen(
        command("chat", bundle, "--max-tokens", "2"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(PYTHONUNBUFFERED="1"),
    ) as waiting:
        assert waiting.stdin is not None
        assert waiting.stdout is not None
        waiting.stdin.write(b"Hello\n")
        waiting.stdin.flush()
        while b"first token" not in waiting.stdout.readline():
            assert waiting.poll() is None
        waiting.send_signal(signal.SIGINT)  # while it waits for the next line
        _, said = waiting.communicate(timeout=60)
    assert (waiting.returncode, said) == (130, b"")


@pytest.mark.parametrize("stdout", ["/dev/full", "closed"])
def test_output_that_cannot_be_written_is_no_mistake_of_ours(bundle: Path, stdout: str) -> None:
    run = shlex.join(command("run", bundle, "x", "--max-tokens", "3"))
    where = ">&-" if stdout == "closed" else f">{stdout}"
    done = subprocess.run(
        f"{run} {where}", shell=True, stderr=subprocess.PIPE, env=environment(), check=False
    )
    assert done.returncode == (0 if stdout == "closed" else 1)
    assert (b"[storage.full]" in done.stderr) == (stdout != "closed")
    assert b"inside edgewise" not in done.stderr
    assert b"Exception ignored" not in done.stderr


def test_a_terminal_that_lacks_characters_gets_others(bundle: Path) -> None:
    done = subprocess.run(
        command("chat", bundle, "--max-tokens", "3"),
        input=b"e\n",
        stdout=subprocess.PIPE,
        env=environment(PYTHONIOENCODING="ascii"),
        check=False,
    )
    assert done.returncode == 0
    assert done.stdout.startswith(b"? e\n")


def test_a_reader_that_leaves_is_no_reason_for_a_traceback(bundle: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    left = subprocess.run(
        command("run", bundle, "x", "--max-tokens", "3"),
        stdout=write,
        stderr=subprocess.PIPE,
        env=environment(),
        check=False,
    )
    os.close(write)
    assert left.returncode == 1
    assert b"Traceback" not in left.stderr
    assert b"Exception ignored" not in left.stderr
