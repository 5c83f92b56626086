"""A run's results as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any


def markdown(result: Mapping[str, Any]) -> str:
    """Everything a run found, as tables; what it did not run is not mentioned."""
    return "\n".join(_lines(result)) + "\n"


def _lines(result: Mapping[str, Any]) -> Iterator[str]:
    adapter = result["adapter"]
    yield f"# {adapter['name']} ({adapter['kind']}, {adapter['backend']})"
    yield ""
    yield f"{result['machine']['date']}, driver {adapter['driver']}, "
    yield f"features {', '.join(adapter['features']) or 'none'}."
    if "bandwidth" in result:
        rates = ", ".join(f"{name} {rate:,.1f}" for name, rate in result["bandwidth"].items())
        yield f"Memory, GB/s read and written: {rates}."
    yield ""
    if "kernels" in result:
        yield from _kernels(result["kernels"])
    if "contract" in result:
        rows = [
            [c["program"], c["name"], "yes" if c["passed"] else "NO", c["detail"]]
            for c in result["contract"]
        ]
        yield from table(["program", "contract", "holds", ""], rows)
    for program in result.get("speed", ()):
        yield from _program(program)
    if "peer" in result:
        yield "## PyTorch, float16"
        yield ""
        rows = [[p["shape"], p["name"], f"{p['tokens_per_s']:,.1f}"] for p in result["peer"]]
        yield from table(["shape", "", "tokens/s"], rows)
    for problem in result.get("problems", ()):
        yield f"- {problem}"


def _kernels(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"Kernel calls as recorded: {found['passed']} of {found['calls']}."
    yield ""
    if found["failed"]:
        rows = [
            [f["kernel"], f"{f['error']:.2g}", f"{f['tolerance']:.0e}", f["failure"]]
            for f in found["failed"]
        ]
        yield from table(["kernel", "error", "allowed", "failure"], rows)


def _program(program: Mapping[str, Any]) -> Iterator[str]:
    """Tokens a second, steps and kernels."""
    yield f"## {program['bundle']}, {program['program']}"
    yield ""
    rows = [
        [name, f"{s['median']:,.1f}", f"{s['low']:,.1f} to {s['high']:,.1f}"]
        for name, s in program["speed"].items()
    ]
    yield from table(["generation loop", "tokens/s", "rounds"], rows)
    yield from table(STEP_COLUMNS, [_step(step) for step in program["steps"]])
    for step in program["steps"]:
        if step["sequences"] == 1:
            yield f"Kernels of {_name(step)}, {step['clock']} clock:"
            yield ""
            yield from table(KERNEL_COLUMNS, _kernel_rows(step["kernels"]))
            yield from _sampler(step["kernels"])


STEP_COLUMNS = [
    "step",
    "launches",
    "MB",
    "floor, tokens/s",
    "device, tokens/s",
    "of the floor",
    "device, ms",
    "encode, µs",
    "a launch, µs",
    "gap, µs",
]

KERNEL_COLUMNS = ["kernel", "launches", "MB", "ms", "of the step", "GB/s", "GFLOP/s"]

SHORT = 128
"""Tokens in KV that go without saying."""

SAMPLER = ("scores", "weigh", "sample", "whole", "record")
"""Labels of launches after the logits."""


def _name(step: Mapping[str, Any]) -> str:
    size = f"x{step['sequences']}" if step["operation"] == "decode" else str(step["rows"])
    size += f" after {step['kv']}" if step["kv"] > SHORT else ""
    return f"{step['operation']} {size}"


def _step(step: Mapping[str, Any]) -> Sequence[str]:
    floor, device = step["floor_s"], step["device_s"]["median"]
    encode, each = step["encode_s"], step["encode_s_per_launch"]
    return [
        _name(step),
        str(step["launches"]),
        f"{step['bytes'] / 1e6:,.1f}",
        f"{step['rows'] / floor:,.1f}",
        f"{step['rows'] / device:,.1f}",
        f"{floor / device:.2f}",
        f"{device * 1e3:,.3f}",
        " / ".join(f"{s * 1e6:,.0f}" for s in encode.values()),
        " / ".join(f"{s * 1e6:,.1f}" for s in each.values()),
        f"{step['gap_s_per_launch'] * 1e6:,.2f}",
    ]


def _kernel_rows(kernels: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[str]]:
    """A row a kernel, the one that takes longest first."""
    total = sum(kernel["seconds"] for kernel in kernels)
    for kernel in sorted(kernels, key=lambda kernel: -float(kernel["seconds"])):
        yield [
            # A label can be that of several kernels: a tied embedding is looked up and multiplied.
            f"{kernel['label']} ({'_'.join(kernel['kernel'].split('_')[:2])})",
            str(kernel["launches"]),
            f"{kernel['bytes'] / 1e6:,.2f}",
            f"{kernel['seconds'] * 1e3:,.3f}",
            f"{kernel['seconds'] / total:.0%}",
            f"{kernel['gigabytes_per_s']:,.1f}",
            f"{kernel['gigaflops_per_s']:,.0f}",
        ]


def _sampler(kernels: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What all launches of the sampler take, if the step has one."""
    own = [kernel for kernel in kernels if kernel["label"] in SAMPLER]
    if own:
        seconds, total = (sum(k["seconds"] for k in some) for some in (own, kernels))
        launches = sum(kernel["launches"] for kernel in own)
        yield f"The sampler: {launches} launches, {seconds * 1e3:,.3f} ms, {seconds / total:.0%}."
        yield ""


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A Markdown table and the empty line after it."""
    yield f"| {' | '.join(columns)} |"
    yield "|" + "---|" * len(columns)
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', '/') for cell in row)} |"
    yield ""
