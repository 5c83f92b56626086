"""What CUDA kernels take of a processor, for `edgewise inspect`."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from edgewise.units import size
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.fatbin import KernelUse, read_images, read_uses
from edgewise_runtime.format.manifest import Program
from edgewise_runtime.format.plan import Plan

SUFFIX = ".fatbin"


def kernel_uses(bundle: Bundle, program: Program, plan: Plan) -> dict[str, dict[int, KernelUse]]:
    """What each kernel of a plan takes, by architecture; nothing where kernels are no fatbins.

    Raises:
        BundleError: a file is damaged.
    """
    found: dict[str, dict[int, KernelUse]] = {}
    for name, kernel in plan.kernels.items():
        path = program.shaders.get(name, "")
        if not path.endswith(SUFFIX):
            continue
        uses = {
            image.arch: read_uses(path, image)
            for image in read_images(path, bundle.read(path))
            if image.kind == "cubin"
        }
        found[name] = {
            arch: use[kernel.symbol] for arch, use in uses.items() if kernel.symbol in use
        }
    return found


def uses_table(bundle: Bundle, program: Program, plan: Plan) -> Table:
    """A row for each kernel of a plan: registers and bytes of memory of a thread that do not fit
    them, by architecture; bytes that a block's threads share."""
    found = kernel_uses(bundle, program, plan)
    arches = sorted({arch for uses in found.values() for arch in uses})
    table = Table(box=None, padding=(0, 2, 0, 0))
    columns = [f"sm_{arch} registers" for arch in arches]
    for column in ("kernel", "threads", "shared", *columns, "spilled"):
        table.add_column(column)
    for name, uses in found.items():
        some = next(iter(uses.values()), None)
        if some is not None:
            registers = [str(uses[arch].registers) if arch in uses else "" for arch in arches]
            shared = size(max(use.shared for use in uses.values()))
            stack = max(use.stack for use in uses.values())
            cells = [str(some.threads[0]), shared, *registers, size(stack) if stack else ""]
            table.add_row(Text(name, overflow="fold"), *cells)
    return table
