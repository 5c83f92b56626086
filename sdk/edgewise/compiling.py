"""Compiling from Python: `edgewise compile` as a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from edgewise.cache import Progress, find_model, keeps_codes, model_name
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.bundle import Bundle


def compile(  # noqa: A001 (called as edgewise.compile)
    path: str | Path,
    out: str | Path | None = None,
    *,
    target: str | Sequence[str] = "cpu",
    quant: str | None = None,
    recipe: str | Path | None = None,
    bits: float | None = None,
    context: int | None = None,
    max_batch: int | None = None,
    prefill_chunk: int = 512,
    cpu: str = "native",
    kv: str = "auto",
    calibrate: str | Path | bool | None = None,
    prefix: str | Path | None = None,
    debug_dump: str | Path | None = None,
    progress: Progress | None = None,
) -> Path:
    """Compile a checkpoint to a bundle, as `edgewise compile` does, in a process of its own.

        bundle = edgewise.compile("models/SmolLM2-135M-Instruct", quant="small")
        engine = edgewise.Engine(bundle)

    Args:
        path: a folder in Hugging Face layout (config.json, safetensors, tokenizer.json), a GGUF
            file, or a model at a hub, ``hf:ORG/REPO``, which is fetched.
        out: the bundle's folder, which appears whole or not at all. A bundle that is there already
            keeps its programs for other targets, if all else is the same. Default:
            ``dist/<name>-<quant>``, as the command names it.
        target: what to make programs for: ``"cpu"``, ``"webgpu"``, ``"cpu,webgpu"`` or a list of
            such names. Default: ``"cpu"``.
        quant: how weights are stored, one of ``edgewise compile --help``. Default: ``"balanced"``,
            of what is quantized already ``"as-file"``. At most one of `quant`, `recipe` and
            `bits` is given.
        recipe: a TOML file that says it tensor by tensor. Default: none.
        bits: bits a weight on average, scales included, from 4.5 on: what is found to matter more
            gets more, which takes a minute or more. Default: none.
        context: tokens of prompt and answer, at most. Default: that of the programs that stay in
            the bundle, else the model's own, up to 131,072.
        max_batch: sequences decoded together at most, 1 to 256. Default: that of the programs that
            stay in the bundle, else 32, or 8 where one of the targets is a GPU's.
        prefill_chunk: tokens of prompts computed together at most, 1 to 4096. Default: 512.
        cpu: the programs for CPUs: ``"native"``, the best one for this machine; ``"all"``, one for
            each kind; ``"avx512vnni"``, ``"avx2"`` or ``"portable"``; or those for other machines,
            ``"generic-arm64"`` (Linux) or ``"apple-m1"``, which Zig links. Several with commas
            between them. Default: ``"native"``.
        kv: what KV pages hold: ``"auto"``, float16, and float32 in f32 programs; ``"int8"``, half
            of float16's bytes; or ``"f32"``, twice as many, for models whose keys or values float16
            cannot hold. Default: ``"auto"``.
        calibrate: choose codes by GPTQ for what the model does with a text: a file in UTF-8, or
            True for a neutral one; takes minutes, and the memory of a byte a weight. False takes
            the nearest codes. Default: None, scales searched in seconds where the preset says so.
        prefix: a file whose KV pages are then computed and shipped, as `edgewise prefix` takes it.
            Default: none.
        debug_dump: a folder to write graphs, kernels and plans into, as text. Default: none.
        progress: called with the phase, and how much of how much of it is done. Default: bars, if
            the standard error is a terminal.

    Returns:
        The bundle's folder.

    Raises:
        CheckpointError: the checkpoint cannot be read.
        UnsupportedError: it asks for something edgewise does not do.
        InputError: an option is out of range, or there are two where one is meant.
        CompileError: code generation failed, or TVM is not installed.
        StorageError: the output cannot be written, or holds what this cannot be added to.
    """
    # rich takes a while to import, which running a bundle should not wait for.
    from edgewise.phases import told
    from edgewise_compiler.apart import compile_apart

    _one_of(quant=quant, recipe=recipe, bits=bits)
    names = target.split(",") if isinstance(target, str) else target
    targets = tuple(name.strip() for name in names)
    with_packs = None if prefix is None else _packs_of(Path(prefix), targets)
    with told(progress, f"Compiling {path}") as tell:
        checkpoint = find_model(Path(path), tell, targets=targets)
        named = output_folder(checkpoint, quant=quant, recipe=recipe, bits=bits, kv=kv)
        made = compile_apart(
            checkpoint,
            named if out is None else out,
            targets=targets,
            quant=quant,
            recipe=recipe,
            bits=bits,
            context=context,
            max_batch=max_batch,
            prefill_chunk=prefill_chunk,
            cpu=cpu,
            kv=kv,
            calibrate=calibrate,
            debug_dump=debug_dump,
            progress=tell,
        )
        if with_packs is not None:
            with_packs(made, tell)
        return made


def _packs_of(file: Path, targets: Sequence[str]) -> Callable[[Path, Progress | None], None]:
    """What adds packs of a prompt to a bundle; the file is read before minutes of compiling."""
    # They load what runs a bundle, which compiling alone does not need.
    from edgewise.packs.making import make_packs, runners_of
    from edgewise.packs.prompt import read_prompt

    prompt = read_prompt(file, plain=False)

    def add(folder: Path, tell: Progress | None) -> None:
        with closing(Bundle.open(folder, verify=False)) as bundle:
            runners, _ = runners_of(bundle, targets=targets)
        make_packs(folder, prompt, file.stem, runners, progress=tell)

    return add


def output_folder(
    path: str | Path, *, quant: str | None, recipe: str | Path | None, bits: float | None, kv: str
) -> Path:
    """Where the bundle of a checkpoint goes unless told otherwise: ``dist/<name>-<stored as>``.

    A quantized file or folder that is stored as it is gives ``dist/<name>``; pages asked for end
    the name in ``-kv8`` or ``-kv32``.
    """
    from edgewise_compiler.quantize import DEFAULT_QUANT

    stored = stored_as(quant, recipe, bits)
    if stored is None and not keeps_codes(Path(path)):
        stored = DEFAULT_QUANT
    pages = {"int8": "kv8", "f32": "kv32"}.get(kv)
    parts = (model_name(Path(path)), stored, pages)
    return Path("dist") / "-".join(filter(None, parts))


def stored_as(quant: str | None, recipe: str | Path | None, bits: float | None) -> str | None:
    """What names call the way in which weights are stored; None where nothing is asked for."""
    if recipe is not None:
        return Path(recipe).stem
    return quant if bits is None else f"b{bits:g}"


def _one_of(**given: object) -> None:
    named = [name for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise InputError(
            f"{' and '.join(named)} both say how weights are stored.",
            remedy="Give one of them.",
            code="input.option",
        )
