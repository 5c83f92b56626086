"""The bundles that tests in a browser load, compiled once for each state of the sources."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench.checkpoint import Shape
from bench.checkpoint import write_checkpoint as write_random
from edgewise.packs.making import make_packs, runners_of
from edgewise.packs.prompt import PackPrompt
from edgewise_compiler.compile import compile_model
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.seal import seal, unseal
from tests.parity.make_checkpoints import write_checkpoint as write_tiny
from tests.parity.outliers import write_overflowing
from tests.suite import FULL, QUICK

REPOSITORY = Path(__file__).resolve().parents[2]
DEMO_MODEL = REPOSITORY / "examples" / "demo-model"

# About 200 MB in float16, with one tensor, the embedding, in a file of several 32 MiB chunks.
WIDE = Shape("wide", 1024, 5, 8, 4, 128, 3072, 32000, context=256, family="llama")

# The demo model's own, but that it begins an answer's thought, or ends it where none is wanted.
THINKS = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n<think>' }}"
    "{% if enable_thinking is false %}{{ '</think>' }}{% endif %}{% endif %}"
)

# What web/tests/browser/windowed.test.ts says as well: a text longer than its model's window.
BEGINNING = "Of all that was said before, a layer with a window sees the end. " * 3

# What web/tests/browser/packs.test.ts says as well.
SYSTEM = "You answer in one word. You never explain, and you never ask. " * 12

_SOURCES = (
    "compiler",
    "runtime",
    "bench/checkpoint.py",
    "examples/demo-model",
    "sdk/edgewise/packs",
    "tests/browser",
    "tests/parity/fives.toml",
    "tests/parity/outliers.py",
)


def _demo(folder: Path) -> Path:
    return DEMO_MODEL


def _tiny(folder: Path) -> Path:
    written = write_tiny("qwen3-gqa2-tied", folder)
    config = json.loads((written / "config.json").read_text())
    # More than attention does in one segment, so that linears join some.
    (written / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 512}))
    return written


def _experts(folder: Path) -> Path:
    return write_tiny("gptoss-window", folder)


def _windowed(folder: Path) -> Path:
    return write_tiny("gemma2-window", folder)


def _wide(folder: Path) -> Path:
    write_random(folder / WIDE.name, WIDE)
    return folder / WIDE.name


class Made(NamedTuple):
    """How a bundle is made: its checkpoint, written into a folder, and options of compiling."""

    checkpoint: Callable[[Path], Path]
    quant: str | None = None
    targets: tuple[str, ...] = ("webgpu",)
    kv: str = "auto"
    prefill_chunk: int = 512
    recipe: Path | None = None


BUNDLES: dict[str, Made] = {
    "demo-q4": Made(_demo, "q4", ("cpu", "webgpu")),
    **({"tiny-q8": Made(_tiny, "q8")} if FULL else {}),
}
if not QUICK:
    BUNDLES |= {
        # Five schemes, two of them in the table of tokens, as the preset `balanced` has them.
        "tiny-mixed-kv8": Made(_tiny, kv="int8", recipe=REPOSITORY / "tests/parity/fives.toml"),
        # As tests/conftest.py compiles it, so that kernels are generated once.
        "overflowing-q4": Made(write_overflowing, "q4", prefill_chunk=128),
        "wide-f16": Made(_wide, "f16"),
        # As tests/conftest.py compiles them, too: two state groups, one of them with a window.
        "experts-q4": Made(_experts, "q4", prefill_chunk=128),
        "windowed-q4": Made(_windowed, "q4", prefill_chunk=128),
    }


def compile_bundles(out: Path) -> list[Path]:
    """Compile what is missing in the folder ``out``; return the bundles' folders.

    Where the sources changed since, all of it is made again.
    """
    stamp, key = out / "sources.txt", sources_key()
    if not stamp.is_file() or stamp.read_text() != key:
        shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    stamp.write_text(key)
    for name, made in BUNDLES.items():
        if (out / name / "bundle.json").is_file():
            continue
        scratch = out / f"checkpoint-{name}"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        checkpoint, options = made.checkpoint(scratch), made._asdict()
        del options["checkpoint"]
        compile_model(checkpoint, out / name, **options)
        shutil.rmtree(scratch)
    _with_template(out / "demo-q4", out / "thinks-q4", THINKS)
    served = [*BUNDLES, "thinks-q4"]
    if not QUICK:
        said = PackPrompt(messages=({"role": "system", "content": SYSTEM},))
        _with_pack(out / "demo-q4", out / "packed-q4", said)
        began = PackPrompt(text=BEGINNING)
        _with_pack(out / "windowed-q4", out / "windowed-packed-q4", began, program="webgpu-f32")
        served += ["packed-q4", "windowed-packed-q4"]
    return [out / name for name in served]


def _with_template(bundle: Path, out: Path, template: str) -> None:
    """Copy a bundle but for its chat template, unless that was done: kernels stay the same."""
    if (out / "bundle.json").is_file():
        return
    source = template.encode()
    manifest = _copied(bundle, out)
    (out / "chat_template.jinja").write_bytes(source)
    digest = hashlib.sha256(source).hexdigest()
    manifest["files"]["chat_template.jinja"] = {"bytes": len(source), "sha256": digest}
    (out / "bundle.json").write_bytes(seal(manifest))


def _with_pack(bundle: Path, out: Path, prompt: PackPrompt, program: str | None = None) -> None:
    """Copy a bundle, and ship the pages of a prompt with it, unless that was done: of ``program``,
    or of one for each arithmetic that WebGPU has."""
    if (out / "bundle.json").is_file():
        return
    made = out.with_name(f"{out.name}.making")
    shutil.rmtree(made, ignore_errors=True)
    (made / "bundle.json").write_bytes(seal(_copied(bundle, made, out.name)))
    opened = Bundle.open(made, verify=False)
    runners, _ = runners_of(opened, targets=["webgpu"], program=program)
    opened.close()
    make_packs(made, prompt, "shipped", runners)
    made.rename(out)


def _copied(bundle: Path, out: Path, name: str | None = None) -> dict[str, Any]:
    """Copy a bundle's files but for its manifest, which is given back with the copy's name."""
    shutil.copytree(bundle, out, dirs_exist_ok=True, ignore=shutil.ignore_patterns("bundle.json"))
    manifest = unseal((bundle / "bundle.json").read_bytes())
    return {**manifest, "name": name or out.name}


def sources_key() -> str:
    """Digest of everything that decides what the bundles and their expectations are."""
    digest = hashlib.sha256()
    for path in _source_files():
        digest.update(str(path.relative_to(REPOSITORY)).encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _source_files() -> Iterator[Path]:
    for name in _SOURCES:
        path = REPOSITORY / name
        found = [path] if path.is_file() else sorted(path.rglob("*"))
        yield from (file for file in found if file.is_file() and file.suffix not in (".pyc", ".c"))
