"""What is tried with faults, in a process of its own: started by `faults.trial`."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgewise_runtime.errors import EdgewiseError
from tests.fault.faults import KINDS, Fault

STDOUT = 1
PAGE = 4096
CONTEXTS = [128, 256]
"""What tells the bundles apart that are compiled in turn; the next one first."""


@dataclass(frozen=True)
class Doing:
    """Something to try in a folder.

    Attributes:
        load: what a process needs once.
        prepare: brings the folder into its state before, without faults.
        act: what is tried.
    """

    load: Callable[[Path], object]
    prepare: Callable[[Path], object]
    act: Callable[[Path], object]


def _load_compiler(folder: Path) -> None:
    # Code of both contexts is generated once, and every fork has it.
    for _ in CONTEXTS:
        _another_context(folder)
        _compile(folder)


def _another_context(folder: Path) -> None:
    CONTEXTS.reverse()


def _compile(folder: Path) -> None:
    """Replace the bundle by one with another context."""
    from edgewise_compiler.compile import compile_model

    bundle = folder / "dist/bundle"
    compile_model(folder / "checkpoint", bundle, quant="q4", prefill_chunk=128, context=CONTEXTS[0])


def _load_engine(folder: Path) -> None:
    import edgewise  # noqa: F401
    from edgewise_runtime.devices.cpu.tvm_library import ffi

    ffi()


def _forget_what_was_verified(folder: Path) -> None:
    shutil.rmtree(folder / "cache", ignore_errors=True)


def _run(folder: Path) -> None:
    """Open a bundle and ask it something."""
    from edgewise import Engine

    with Engine(folder / "dist/bundle", threads=1) as engine:
        assert engine.generate("A fox", max_tokens=2, ignore_eos=True).token_ids


def _keep_pages(folder: Path) -> None:
    """Keep pages on disk, and find them again; what is found must be right."""
    from edgewise_runtime.kv.page_disk import DiskStore
    from edgewise_runtime.kv.write_behind import WriteBehind

    # Room for three files: the others make some.
    store = WriteBehind(DiskStore(folder / "cache/pages", 4 * PAGE, "faults", PAGE))
    for number in range(5):
        store.put(_key(number), _page(number))
    store.close()
    again = DiskStore(folder / "cache/pages", 4 * PAGE, "faults", PAGE)
    for number in range(5):
        if again.get(_key(number)) not in (None, _page(number)):
            raise ValueError(f"page {number} is another")


def _key(number: int) -> bytes:
    return bytes([number]) * 32


def _page(number: int) -> bytes:
    return bytes([number, 1]) * (PAGE // 2)


def _load_hub(folder: Path) -> None:
    import edgewise.hub.pull  # noqa: F401


def _older_model(folder: Path) -> None:
    if (folder / "older").exists():
        shutil.rmtree(folder / "hub", ignore_errors=True)
        shutil.copytree(folder / "older", folder / "hub", symlinks=True)


def _pull(folder: Path) -> None:
    from edgewise.hub import download
    from edgewise.hub.names import HubModel
    from edgewise.hub.pull import pull

    download.PAUSE_S = 0.0
    pull(HubModel(os.environ["MODEL"]))


DOINGS = {
    "compile": Doing(_load_compiler, _another_context, _compile),
    "run": Doing(_load_engine, _forget_what_was_verified, _run),
    "pages": Doing(_load_engine, lambda folder: None, _keep_pages),
    "pull": Doing(_load_hub, _older_model, _pull),
}


def main(what: str, folder: Path, limit_s: int) -> None:
    """Answer requests, a line of JSON each, until there are no more."""
    os.environ.pop("LD_PRELOAD")  # a linker, say, is not to fail
    answers = os.fdopen(os.dup(STDOUT), "w")
    os.dup2(2, STDOUT)
    doing = DOINGS[what]
    doing.load(folder)
    for line in sys.stdin:
        doing.prepare(folder)
        print(json.dumps(_forked(doing, folder, Fault(**json.loads(line)), limit_s)), file=answers)
        answers.flush()


def _forked(doing: Doing, folder: Path, fault: Fault, limit_s: int) -> dict[str, Any]:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(limit_s)
        os.write(writing, json.dumps(_tried(doing, folder, fault)).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    status = os.waitpid(child, 0)[1]
    return {
        "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
        **json.loads(said or b"{}"),
    }


def _tried(doing: Doing, folder: Path, fault: Fault) -> dict[str, Any]:
    shim = ctypes.CDLL(None)
    told: dict[str, Any] = {}
    shim.fault_arm(
        os.fsencode(folder), KINDS.index(fault.kind), ctypes.c_long(fault.nth), fault.action
    )
    try:
        doing.act(folder)
    except EdgewiseError as error:
        told["code"] = error.code
    except BaseException:
        told["error"] = traceback.format_exc()
    shim.fault_disarm()
    return {**told, "calls": {kind: shim.fault_calls(at) for at, kind in enumerate(KINDS)}}


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
