"""Bundles of a shape without its weights: plans, kernels and a manifest that `fill` ends."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import cast

from checkpoint import Shape, config
from edgewise_compiler.checkpoint import Checkpoint
from edgewise_compiler.compile import build_manifest, model_info
from edgewise_compiler.graph.build import (
    GPU_FEW_ROWS,
    GPU_MANY_ROWS,
    build_graphs,
    shared_sizes,
)
from edgewise_compiler.layouts.base import Tensors
from edgewise_compiler.layouts.order import linear_widths
from edgewise_compiler.layouts.packing import layout_tensors
from edgewise_compiler.layouts.rows import GPU
from edgewise_compiler.layouts.schemes import Schemes, linear_schemes
from edgewise_compiler.models.families import find_family
from edgewise_compiler.options import Options, check_options
from edgewise_compiler.quantize import find_preset
from edgewise_compiler.targets.gpu.language import (
    Language,
    build_program,
    make_binaries,
    write_program,
)
from edgewise_compiler.targets.gpu.lowering import GpuLowering
from edgewise_compiler.targets.gpu.plans import plans
from edgewise_compiler.targets.gpu.shader import Shader
from edgewise_compiler.targets.lowering import param_tensors, parts_of
from edgewise_compiler.weights.base import WeightReader
from edgewise_runtime.files import write_bytes
from edgewise_runtime.format.bundle import FileEntry, Program, TensorEntry, describe_files
from edgewise_runtime.format.seal import MANIFEST

NO_HASH = "0" * 64


def compile_skeleton(
    shape: Shape,
    quant: str,
    folder: Path,
    context: int | None = None,
    *,
    target: str = "webgpu",
    max_batch: int = 8,
) -> None:
    """Compile every program of a shape for a GPU target into ``folder``, which must not exist.

    Its bundle.json lists parameters that are not there yet, a file a tensor. Bounds are the
    compiler's own but for ``context`` and ``max_batch``. Native programs are this user's own.
    """
    checkpoint = _without_weights(shape)
    options = check_options(
        checkpoint.model,
        targets=(target,),
        recipe=partial(find_preset, quant),
        context=context,
        max_batch=max_batch,
        prefill_chunk=512,
        cpu="all",
        kv="auto",
        debug_dump=None,
    )
    params = checkpoint.family.params(checkpoint.model)
    bounds = options.bounds
    schemes = linear_schemes(options.recipe, params)
    tensors = layout_tensors(GPU, schemes, params, bounds.context)
    language: Language = import_module(f"edgewise_compiler.targets.{target}.program").LANGUAGE
    programs = _programs(language, checkpoint, options, schemes, tensors, folder)
    entries = _entries(tensors)
    name = f"{shape.name}-{quant}"
    weights = hashlib.sha256(name.encode()).hexdigest()
    model = model_info(checkpoint, options)
    made = build_manifest(
        name,
        model,
        weights,
        {GPU.name: {}},
        programs,
        describe_files(folder),
        checkpoint.model.windows,
    )
    missing = {
        entry.file: FileEntry(entry.bytes, NO_HASH, (NO_HASH,) * FileEntry.chunk_count(entry.bytes))
        for entry in entries.values()
    }
    whole = replace(made, layouts={GPU.name: entries}, files={**made.files, **missing})
    write_bytes(folder / MANIFEST, whole.to_bytes())


def _without_weights(shape: Shape) -> Checkpoint:
    hf = config(shape)
    family = find_family(hf)
    model = family.read_config(hf)
    # Nothing of what is compiled here looks at weights.
    nothing = cast(WeightReader, None)
    return Checkpoint(Path(), hf, family, model, nothing, {}, shape.vocab, None)


def _programs(
    language: Language,
    checkpoint: Checkpoint,
    options: Options,
    schemes: Schemes,
    tensors: Tensors,
    folder: Path,
) -> tuple[Program, ...]:
    cfg, family = checkpoint.model, checkpoint.family
    params = family.params(cfg)
    widths = linear_widths(params)
    many = build_graphs(family, cfg, widths, GPU_MANY_ROWS)
    few = build_graphs(family, cfg, widths, GPU_FEW_ROWS)
    parts = parts_of(GPU, schemes, params)
    default = options.recipe.default
    shaders: dict[str, Shader] = {}
    programs = []
    for variant in language.variants(default.name, options.kv):
        low = GpuLowering(
            shared_sizes(many),
            options.bounds,
            param_tensors(tensors),
            parts,
            variant.kv_dtype,
            variant,
            language.limits,
        )
        made = plans(low, many, few, joining=language.joining)
        built = build_program(language, low, made, shaders)
        make_binaries(language, shaders, lambda what, done, total: None)
        programs.append(
            write_program(language, folder, low, made, built, shaders, default.arithmetic)
        )
    return tuple(programs)


def _entries(tensors: Tensors) -> dict[str, TensorEntry]:
    """A raw file for each tensor."""
    return {
        name: TensorEntry(
            f"params/{GPU.name}/{index:05}.bin", spec.dtype, spec.shape, 0, spec.bytes
        )
        for index, (name, spec) in enumerate(tensors.items())
    }
