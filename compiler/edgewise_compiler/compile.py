"""The compiler pipeline, top to bottom: a checkpoint in, a bundle folder out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path

from edgewise_compiler.as_file import file_codes, file_recipe, is_quantized
from edgewise_compiler.calibrate.budget import budget_recipe
from edgewise_compiler.calibrate.codes import calibrated_codes, read_calibration
from edgewise_compiler.checkpoint import Checkpoint, open_checkpoint
from edgewise_compiler.fingerprint import weights_fingerprint
from edgewise_compiler.job import Job, Progress
from edgewise_compiler.layouts.packing import layout_tensors, pack_weights
from edgewise_compiler.layouts.rows import GPU
from edgewise_compiler.layouts.schemes import linear_schemes
from edgewise_compiler.layouts.table import LAYOUTS
from edgewise_compiler.merge import bounds_beside, check_kept, copy_programs, kept_programs
from edgewise_compiler.options import Options, check_options
from edgewise_compiler.pages import check_pages
from edgewise_compiler.phases import (
    CALIBRATING,
    CHECKING,
    HASHING,
    PACKING,
    READING,
    WAITING,
    WRITING,
)
from edgewise_compiler.proof import make_proof
from edgewise_compiler.quantize import AS_FILE, DEFAULT_QUANT, Recipe, find_preset, read_recipe
from edgewise_compiler.smoothing import smoothed
from edgewise_compiler.state import state_groups
from edgewise_compiler.targets.table import DEFAULT, TARGETS
from edgewise_runtime import trust
from edgewise_runtime.errors import InputError, StorageError, memory_errors
from edgewise_runtime.files import write_bytes, write_json
from edgewise_runtime.folders import new_folder
from edgewise_runtime.format.bundle import (
    BundleManifest,
    FileEntry,
    ModelInfo,
    Program,
    TensorEntry,
    describe_files,
    has_programs,
    write_manifest,
)
from edgewise_runtime.format.proof import PROOF
from edgewise_runtime.installed import VERSION


@memory_errors("compiling")
def compile_model(
    path: str | Path,
    out: str | Path,
    *,
    targets: Sequence[str] = DEFAULT,
    quant: str | None = None,
    recipe: str | Path | None = None,
    bits: float | None = None,
    context: int | None = None,
    least_context: int = 2,
    max_batch: int | None = None,
    prefill_chunk: int = 512,
    cpu: str = "native",
    kv: str = "auto",
    calibrate: str | Path | bool | None = None,
    debug_dump: str | Path | None = None,
    once: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Compile a Hugging Face checkpoint folder, or a GGUF file, to a bundle.

    Args:
        path: folder with config.json, safetensors weights and tokenizer.json, or a GGUF file.
        out: the bundle folder; appears whole or not at all. A bundle already there keeps its
            programs for other targets, if it is of the same checkpoint, recipe and bounds.
        targets: what to generate code for, names of `targets.table.TARGETS`.
        quant: how weights are stored, a name of `quantize.recipes.QUANTS`. Default: a file that is
            quantized keeps its codes where a scheme has them (``as-file``), others ``balanced``.
        recipe: a TOML file (`quantize.recipe_file`) that says it instead, tensor by tensor.
        bits: bits a weight on average, scales included, instead of ``quant`` or ``recipe``: what is
            found to matter more gets more (`calibrate.sensitivity`). Takes a minute or more.
        context: most tokens of one sequence; default: those of the programs that stay in the
            bundle, else the model's own, at most `targets.table.DEFAULT_CONTEXT`.
        least_context: tokens that the model has to have room for: one that has fewer is refused
            before anything is compiled.
        max_batch: most sequences decoded together; default: as many as the programs that stay,
            else `targets.table.default_batch`.
        prefill_chunk: most prompt tokens of one step.
        cpu: ``native`` (the best path this machine runs), ``all``, one path by name, or what
            `kernels.cpu.isa.ELSEWHERE` has for other machines; several with commas between them.
        kv: what KV pages hold: ``auto`` (float16, float32 in f32 programs), or ``int8``, half of
            float16's bytes.
        calibrate: choose codes by GPTQ for what the model does with a text, a file in UTF-8; True
            for a neutral one (`calibrate.codes`). Takes minutes, and the memory of a byte a weight.
            None searches scales with a little of the neutral text where the recipe says so, which
            takes seconds; False takes the nearest codes.
        debug_dump: also write graphs, kernels and plans there, as text.
        once: a bundle that stands there stays as it is, if it has programs for the targets and
            room for ``least_context``: another process may have compiled it meanwhile.
        progress: told about phases as they go.

    Returns:
        The bundle's folder.

    Raises:
        CheckpointError: the checkpoint cannot be read.
        UnsupportedError: it asks for something edgewise does not do.
        InputError: an option is out of range.
        CompileError: a C compiler is missing, or code generation failed.
        StorageError: the output cannot be written, or holds what this cannot be added to.
    """
    tell = progress or (lambda phase, done, total: None)
    destination = Path(out)
    _check_destination(destination)
    with (
        suppress(_StandsError),
        # First: where nothing can be written, nothing is worth computing.
        new_folder(destination, replace=True, waiting=partial(tell, WAITING)) as folder,
        open_checkpoint(Path(path)) as opened,
    ):
        if once and has_programs(destination, targets, least_context):
            raise _StandsError
        # 1. What is asked for, against what the checkpoint is and what is already there.
        options = check_options(
            opened.model,
            targets=targets,
            recipe=partial(_recipe, opened, quant, recipe, bits, partial(tell, "Weighing")),
            context=context,
            max_batch=max_batch,
            prefill_chunk=prefill_chunk,
            cpu=cpu,
            kv=kv,
            debug_dump=debug_dump,
            beside=bounds_beside(destination, targets),
            least_context=least_context,
        )
        model = model_info(opened, options)
        schemes = linear_schemes(options.recipe, opened.family.params(opened.model))
        own = file_codes(opened, schemes) if options.recipe.name == AS_FILE else {}
        if own and calibrate not in (None, False):
            raise InputError(
                f"{opened.path.name} brings its codes: there are none to calibrate.",
                remedy=f"Leave --calibrate out, or have others made: --quant {DEFAULT_QUANT}.",
                code="input.option",
            )
        checkpoint = smoothed(opened, own, partial(tell, CHECKING))
        if options.half_pages:
            check_pages(checkpoint)
        calibration = read_calibration(checkpoint, calibrate, searched=options.recipe.searched)
        weights = weights_fingerprint(
            checkpoint, schemes, bytes(calibration), own, partial(tell, READING)
        )
        kept = kept_programs(destination, options.targets, model, weights)

        chosen = calibrated_codes(checkpoint, schemes, calibration, partial(tell, CALIBRATING))
        codes = own | chosen
        # 2. The weights, read once and packed in the layouts of all targets.
        job = Job(checkpoint, options, schemes, folder, tell)
        tensors = {
            layout: layout_tensors(layout, schemes, job.params, options.bounds.context)
            for layout in (LAYOUTS[TARGETS[target].layout] for target in options.targets)
        }
        layouts = pack_weights(
            folder,
            tensors,
            schemes,
            job.params,
            checkpoint.weights,
            partial(tell, PACKING),
            codes,
        )
        # 3. Each target's programs: graphs, passes, kernels, plans and code.
        programs: list[Program] = []
        for target in options.targets:
            programs += TARGETS[target].make(job, tensors[LAYOUTS[TARGETS[target].layout]])
        # Before files of an older bundle come: only what was just made is vouched for.
        name, windows = _name(destination), checkpoint.model.windows
        files = describe_files(folder, progress=partial(tell, HASHING))
        made = build_manifest(name, model, weights, layouts, programs, files, windows)
        programs = [*trust.sign_programs(made)]
        hashed = made.files
        # 4. Programs of other targets that were there before.
        if kept is not None:
            bundle, staying = kept
            copy_programs(bundle, staying, folder)
            hashed = {path: hashed[path] for path in hashed.keys() - bundle.manifest.files.keys()}
            bundle.close()
            layouts |= {p.layout: bundle.manifest.layouts[p.layout] for p in staying}
            programs += staying
        # 5. What GPU programs must answer, from the weights as they lie there.
        if GPU in tensors:
            proof = make_proof(job, layouts[GPU.name])
            if proof is not None:
                write_json(folder / PROOF, proof.to_json())
        # 6. Everything the runtime needs besides, and the manifest over all of it.
        tell(WRITING, 0, 1)
        for file, content in checkpoint.files.items():
            write_bytes(folder / file, content)
        files = {**hashed, **describe_files(folder, hashed)}
        if kept is not None:
            check_kept(*kept, files)
        write_manifest(
            folder, build_manifest(name, model, weights, layouts, programs, files, windows)
        )
        tell(WRITING, 1, 1)
    return destination


class _StandsError(Exception):
    """What is asked for stands there already: nothing is to take its place."""


def _recipe(
    checkpoint: Checkpoint,
    quant: str | None,
    file: str | Path | None,
    bits: float | None,
    progress: Callable[[int, int], None],
) -> Recipe:
    if file is not None:
        return read_recipe(Path(file))
    if bits is not None:
        return budget_recipe(smoothed(checkpoint), bits, progress)
    if quant is None:
        quant = AS_FILE if is_quantized(checkpoint) else DEFAULT_QUANT
    return file_recipe(checkpoint) if quant == AS_FILE else find_preset(quant)


def _check_destination(destination: Path) -> None:
    """Only a bundle, or nothing, may be replaced."""
    if destination.name in ("", ".."):
        raise StorageError(
            f"{str(destination)!r} is no name for a new folder.",
            remedy="Name one with -o, such as dist/model-q4.",
            code="storage.exists",
        )
    if not destination.exists() or (destination / "bundle.json").is_file():
        return
    if destination.is_dir() and not any(destination.iterdir()):
        return
    raise StorageError(
        f"{destination} exists and is no bundle.",
        remedy="Choose another output folder with -o, or remove it.",
        code="storage.exists",
    )


def _name(destination: Path) -> str:
    """The folder's name, with ``-`` for what a bundle's name may not hold."""
    name = re.sub(r"[^A-Za-z0-9_.+-]+", "-", destination.resolve().name)
    return name.strip("-.+")[:128] or "model"


def model_info(checkpoint: Checkpoint, options: Options) -> ModelInfo:
    """What the runtime needs to know about the model."""
    cfg, bounds, recipe = checkpoint.model, options.bounds, options.recipe
    return ModelInfo(
        family=cfg.family,
        hidden=cfg.hidden,
        layers=cfg.layers,
        heads=cfg.heads,
        kv_heads=cfg.kv_heads,
        head_dim=cfg.head_dim,
        intermediate=cfg.intermediate,
        vocab=cfg.vocab,
        context=bounds.context,
        max_batch=bounds.batch,
        prefill_chunk=bounds.rows,
        bos=cfg.bos,
        eos=cfg.eos,
        quant=recipe.default.name,
        recipe=None if recipe.name == recipe.default.name else recipe.name,
    )


def build_manifest(
    name: str,
    model: ModelInfo,
    weights: str,
    layouts: Mapping[str, Mapping[str, TensorEntry]],
    programs: Sequence[Program],
    files: Mapping[str, FileEntry],
    windows: Sequence[int | None] = (),
) -> BundleManifest:
    """The manifest of a bundle; `windows` are those of the layers, empty where none has one."""
    coded = any(program.state_dtype == "int8" for program in programs)
    return BundleManifest(
        name=name,
        model=model,
        weights_id=weights,
        created_by={
            "edgewise": VERSION,
            "tvm": version("apache-tvm"),
            "user": trust.key_id() or "",
        },
        state_groups=state_groups(
            windows or (None,) * model.layers,
            model.context,
            model.kv_heads,
            model.head_dim,
            scales=coded,
        ),
        layouts=layouts,
        programs=tuple(programs),
        files=files,
    )
