"""The compiler pipeline, top to bottom: a checkpoint folder in, a bundle folder out."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

from tvm.tirx import PrimFunc

from edgewise_compiler.checkpoint import Checkpoint, open_checkpoint
from edgewise_compiler.graph import Graph, GraphBuilder
from edgewise_compiler.layout import layout_specs, linear_widths, pack_layout, param_tensors
from edgewise_compiler.models.base import Family, ModelConfig
from edgewise_compiler.passes import (
    fuse_gather,
    fuse_residual,
    fuse_swiglu,
    quantize_activations,
)
from edgewise_compiler.plan.build import BuiltPlan, build_plan, check_program
from edgewise_compiler.quantize import ArraySpec, Scheme, find_scheme
from edgewise_compiler.targets import cpu as cpu_target
from edgewise_compiler.targets.cpu_codegen import build_library
from edgewise_compiler.targets.cpu_isa import ISAS, Isa, isa_named
from edgewise_runtime import plan as p
from edgewise_runtime import trust
from edgewise_runtime.bundle import (
    BundleManifest,
    Entry,
    ModelInfo,
    Needs,
    Program,
    StateGroup,
    TensorEntry,
    describe_files,
    weights_id,
    write_manifest,
)
from edgewise_runtime.cpuid import cpu_features
from edgewise_runtime.errors import CompileError, InputError, StorageError, UnsupportedError
from edgewise_runtime.files import new_folder, sha256_file, storage_errors, write_json

Progress = Callable[[str, int, int], None]
"""Told the phase, and how much of how much of it is done."""

DEFAULT_CONTEXT = 4096
MAX_CONTEXT = 1 << 20
MAX_BATCH = 64
MAX_PREFILL_CHUNK = 4096
MAX_PAGES = 1 << 16


@dataclass(frozen=True)
class Options:
    """What a caller asked for, checked."""

    scheme: Scheme
    bounds: cpu_target.Bounds
    isas: tuple[Isa, ...]
    debug_dump: Path | None


def compile_model(
    path: str | Path,
    out: str | Path,
    *,
    targets: Sequence[str] = ("cpu",),
    quant: str = "q4",
    context: int | None = None,
    max_batch: int = 8,
    prefill_chunk: int = 512,
    cpu: str = "native",
    debug_dump: str | Path | None = None,
    progress: Progress | None = None,
) -> Path:
    """Compile a Hugging Face checkpoint folder to a bundle.

    Args:
        path: folder with config.json, safetensors weights and tokenizer.json.
        out: the bundle folder; appears whole or not at all, replacing a bundle already there.
        targets: what to generate code for; ``"cpu"`` is what there is so far.
        quant: how weights are stored: ``f32``, ``f16``, ``q8`` or ``q4``.
        context: most tokens of one sequence; default: the model's own, at most 4096.
        max_batch: most sequences decoded together.
        prefill_chunk: most prompt tokens of one step.
        cpu: ``native`` (the best path this machine runs), ``all``, or one path by name.
        debug_dump: also write graphs, kernels and plans there, as text.
        progress: told about phases as they go.

    Returns:
        The bundle's folder.

    Raises:
        CheckpointError: the checkpoint cannot be read.
        UnsupportedError: it asks for something edgewise does not do.
        InputError: an option is out of range.
        CompileError: code generation failed.
        StorageError: the output cannot be written.
    """
    tell = progress or (lambda phase, done, total: None)
    destination = Path(out)
    _check_destination(destination)
    with open_checkpoint(Path(path)) as checkpoint:
        # 1. What is asked for, against what the checkpoint is.
        tell("Reading", 0, 1)
        options = _options(
            checkpoint.model,
            targets,
            quant,
            context,
            max_batch,
            prefill_chunk,
            cpu,
            debug_dump,
        )
        cfg, family, scheme = checkpoint.model, checkpoint.family, options.scheme
        params = family.params(cfg)
        specs = layout_specs(scheme, cfg, params, options.bounds.context)
        tell("Reading", 1, 1)

        with new_folder(destination, replace=True) as folder:
            # 2. Weights: read, quantize and pack, one tensor at a time.
            tensors = pack_layout(
                folder / "params" / "cpu",
                "params/cpu",
                scheme,
                cfg,
                params,
                specs,
                checkpoint.weights,
                lambda done, total: tell("Packing weights", done, total),
            )
            # 3. The model as semantic graphs, fused for what the program computes in.
            arithmetic = cpu_target.ARITHMETICS[scheme.arithmetic]
            graphs = build_graphs(family, cfg, specs, quantized=arithmetic.weight_bits is not None)
            # 4. For each instruction set: kernels, plans, host functions, machine code.
            programs = []
            for isa in options.isas:
                phase = f"Compiling for {isa.name}"
                tell(phase, 0, 1)
                low = cpu_target.CpuLowering(
                    cfg, options.bounds, arithmetic, isa.name, param_tensors(specs)
                )
                built = build_program(low, graphs)
                _dump(options, graphs, low, built)
                compiled = partial(tell, phase)
                programs.append(_write_program(folder, low, built, isa, compiled))
            # 5. Everything the runtime needs besides, and the manifest over all of it.
            tell("Writing the bundle", 0, 1)
            _copy_files(checkpoint.files, folder)
            name = _name(destination)
            write_manifest(folder, _manifest(name, folder, checkpoint, options, tensors, programs))
            tell("Writing the bundle", 1, 1)
    return destination


def build_graphs(
    family: Family, cfg: ModelConfig, specs: Mapping[str, ArraySpec], *, quantized: bool
) -> dict[str, Graph]:
    """The family's three graphs after all passes."""

    def builder(name: str) -> GraphBuilder:
        return GraphBuilder(
            name,
            hidden=cfg.hidden,
            attention_width=cfg.heads * cfg.head_dim,
            widths=linear_widths(specs),
        )

    embed, layers, head = builder("embed"), builder("layers"), builder("head")
    family.embed(embed, cfg)
    family.layers(layers, cfg, layers.hidden())
    family.head(head, cfg, head.hidden())
    passes = [fuse_gather, fuse_swiglu, fuse_residual]
    if quantized:
        passes.append(quantize_activations)
    graphs = {}
    for recorded in (embed, layers, head):
        graph = recorded.graph()
        for apply in passes:
            graph = apply(graph)
        graphs[graph.name] = graph
    return graphs


def build_program(
    low: cpu_target.CpuLowering, graphs: Mapping[str, Graph]
) -> tuple[BuiltPlan, ...]:
    """All plans of one program, checked against each other."""
    bounds = low.bounds
    symbols = (
        p.Symbol("pages", "load", 1, MAX_PAGES),
        p.Symbol("n", "step", 1, bounds.rows),
        p.Symbol("b", "step", 1, bounds.batch),
        p.Symbol("r", "step", 1, bounds.batch),
    )
    built = tuple(build_plan(calls, symbols) for calls in cpu_target.plans(low, graphs))
    check_program(item.plan for item in built)
    return built


def _options(
    cfg: ModelConfig,
    targets: Sequence[str],
    quant: str,
    context: int | None,
    max_batch: int,
    prefill_chunk: int,
    cpu: str,
    debug_dump: str | Path | None,
) -> Options:
    for target in targets:
        if target != "cpu":
            raise UnsupportedError(
                f"There is no target {target!r} yet.",
                remedy="Targets: cpu.",
                code="unsupported.target",
            )
    if context is None:
        context = min(cfg.context, DEFAULT_CONTEXT)
    _in_range("context", context, 2, min(cfg.context, MAX_CONTEXT))
    _in_range("max_batch", max_batch, 1, MAX_BATCH)
    _in_range("prefill_chunk", prefill_chunk, 1, MAX_PREFILL_CHUNK)
    rows = max(min(prefill_chunk, context), max_batch)
    return Options(
        scheme=find_scheme(quant),
        bounds=cpu_target.Bounds(rows=rows, batch=max_batch, context=context),
        isas=_isas(cpu),
        debug_dump=Path(debug_dump) if debug_dump is not None else None,
    )


def _in_range(name: str, value: int, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InputError(
            f"{name} is {value!r}, outside {low}..{high}.",
            remedy="The model's config.json says how long its context can be."
            if name == "context"
            else "Choose a number in that range.",
            code="input.range",
        )


def _isas(name: str) -> tuple[Isa, ...]:
    if name == "all":
        return tuple(ISAS.values())
    if name != "native":
        return (isa_named(name),)
    features = cpu_features()
    return (next(isa for isa in ISAS.values() if features.issuperset(isa.features)),)


def _check_destination(destination: Path) -> None:
    """Only a bundle, or nothing, may be replaced."""
    if not destination.exists() or (destination / "bundle.json").is_file():
        return
    if destination.is_dir() and not any(destination.iterdir()):
        return
    raise StorageError(
        f"{destination} exists and is no bundle.",
        remedy="Choose another output folder with -o, or remove it.",
        code="storage.exists",
    )


def _write_program(
    folder: Path,
    low: cpu_target.CpuLowering,
    built: Sequence[BuiltPlan],
    isa: Isa,
    progress: Callable[[int, int], None],
) -> Program:
    program_id = f"cpu-{low.arithmetic.name}-{isa.name}"
    home = f"programs/{program_id}"
    library = f"{home}/kernels.so"
    (folder / home / "plans").mkdir(parents=True)
    functions: dict[str, PrimFunc] = {}
    for item in built:
        for symbol, function in item.kernels.items():
            if functions.setdefault(symbol, function) is not function:
                raise CompileError(f"Two plans mean different kernels by {symbol!r}.")
    build_library(functions, [item.host for item in built], isa, folder / library, progress)
    plans = {}
    for item in built:
        plans[item.plan.name] = f"{home}/plans/{item.plan.name}.json"
        write_json(folder / plans[item.plan.name], item.plan.to_json())
    rows, batch = (1, low.bounds.rows), (1, low.bounds.batch)
    when = {"embed": ("n", rows), "prefill": ("n", rows), "logits": ("r", batch)}
    return Program(
        id=program_id,
        target="cpu",
        arithmetic=low.arithmetic.name,
        layout="cpu",
        needs=Needs(isa.arch, isa.features),
        library=library,
        plans=plans,
        entries={name: (Entry(dict([when.get(name, ("b", batch))]), name),) for name in plans},
        state_dtype=low.arithmetic.kv_dtype,
        signature=trust.sign(sha256_file(folder / library)),
    )


def _copy_files(files: Sequence[Path], folder: Path) -> None:
    for source in files:
        with storage_errors("copy", source):
            shutil.copyfile(source, folder / source.name)


def _name(destination: Path) -> str:
    """The folder's name, with ``-`` for what a bundle's name may not hold."""
    name = re.sub(r"[^A-Za-z0-9_.+-]+", "-", destination.resolve().name)
    return name.strip("-.+")[:128] or "model"


def _manifest(
    name: str,
    folder: Path,
    checkpoint: Checkpoint,
    options: Options,
    tensors: Mapping[str, TensorEntry],
    programs: Sequence[Program],
) -> BundleManifest:
    cfg, bounds = checkpoint.model, options.bounds
    files = describe_files(folder)
    return BundleManifest(
        name=name,
        model=ModelInfo(
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
            quant=options.scheme.name,
        ),
        weights_id=weights_id(files, tensors),
        created_by={
            "edgewise": version("edgewise"),
            "tvm": version("apache-tvm"),
            "user": trust.key_id() or "",
        },
        state_groups=(
            StateGroup(
                kind="paged",
                layers=tuple(range(cfg.layers)),
                window=None,
                page_tokens=cpu_target.PAGE,
                kv_heads=cfg.kv_heads,
                head_dim=cfg.head_dim,
                buffers=tuple(f"kv.{i}" for i in range(cfg.layers)),
            ),
        ),
        layouts={"cpu": tensors},
        programs=tuple(programs),
        files=files,
    )


def _dump(
    options: Options,
    graphs: Mapping[str, Graph],
    low: cpu_target.CpuLowering,
    built: Sequence[BuiltPlan],
) -> None:
    """Graphs, kernels and plans as text, for whoever debugs the compiler."""
    if options.debug_dump is None:
        return
    folder = options.debug_dump / f"cpu-{low.arithmetic.name}-{low.isa}"
    with storage_errors("write", folder):
        folder.mkdir(parents=True, exist_ok=True)
        for graph in graphs.values():
            lines = [f"{node.output.id} = {node.op} {node}" for node in graph.nodes]
            (folder / f"graph.{graph.name}.txt").write_text("\n".join(lines) + "\n")
        for item in built:
            plan_text = json.dumps(item.plan.to_json(), indent=1)
            (folder / f"plan.{item.plan.name}.json").write_text(plan_text)
            (folder / f"host.{item.plan.name}.py").write_text(item.host.script())
            for symbol, function in item.kernels.items():
                (folder / f"kernel.{symbol}.py").write_text(function.script())
