"""Choosing the program of a bundle that suits a machine."""

from __future__ import annotations

from edgewise_runtime.errors import DeviceError
from edgewise_runtime.format.manifest import BundleManifest, Program


def best_program(
    manifest: BundleManifest,
    features: frozenset[str],
    arithmetic: str | None = None,
    *,
    target: str,
) -> Program:
    """The best program of a target for a machine with these features (its arch among them).

    A manifest lists programs in the compiler's order of preference. The first that fits settles
    the arithmetic, unless `arithmetic` does; of that arithmetic the program that needs the most
    features wins, because it was made for the better machine.

    Raises:
        DeviceError: ``device.no_program``, saying what each program lacks here.
    """
    wanted = [
        program
        for program in manifest.programs
        if program.target == target and arithmetic in (None, program.arithmetic)
    ]
    fitting = [program for program in wanted if not program.needs.missing(features)]
    if fitting:
        same = [program for program in fitting if program.arithmetic == fitting[0].arithmetic]
        return max(same, key=lambda program: len(program.needs.features))
    described = "" if arithmetic is None else f" in {arithmetic}"
    lacking = "; ".join(
        f"{program.id} needs {', '.join(program.needs.missing(features))}" for program in wanted
    )
    others = ", ".join(program.id for program in manifest.programs)
    raise DeviceError(
        f"No program of bundle {manifest.name!r} runs on {target}{described} here: "
        f"{lacking or 'the bundle has none'}.",
        remedy=f"The bundle has: {others or 'no programs'}. "
        f"Compile the model on this machine with `--target {target}`.",
        code="device.no_program",
    )
