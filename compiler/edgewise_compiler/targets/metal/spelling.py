"""How Metal Shading Language writes kernels (its specification, version 3)."""

from __future__ import annotations

from collections.abc import Mapping

from edgewise_compiler.targets.gpu.clike.dialect import (
    Dialect,
    Signature,
    Spelling,
    Text,
    conditional,
    function,
)
from edgewise_compiler.targets.metal.prelude import FUNCTIONS, HEADER

_TYPES = {
    "bool": "bool",
    "int32": "int",
    "uint32": "uint",
    "uint32x2": "uint2",
    "uint32x4": "uint4",
    "float32": "float",
    "float32x2": "float2",
    "float32x4": "float4",
    "float16": "half",
    "float16x2": "half2",
    "float16x4": "half4",
}

_VECTORS = {dtype: name for dtype, name in _TYPES.items() if "x" in dtype}
"""A type's own name makes a vector of one scalar, of as many as it has lanes, and of halves."""

_FLOATS = ("float32", "float32x2", "float32x4")
_HALVES = ("float16", "float16x2", "float16x4")


def _made(dtype: str, *arguments: Text) -> str:
    return function(_TYPES[dtype])(dtype, *arguments)


def _bits(dtype: str, value: Text) -> str:
    return f"as_type<{_TYPES[dtype]}>({value.text})"


def _simd(name: str) -> Spelling:
    return lambda dtype, value, mask: f"{name}({value.text}, ushort({mask.text}))"


def _barrier(*memory: str) -> Spelling:
    flags = " | ".join(f"mem_flags::mem_{name}" for name in memory)
    return lambda dtype: f"threadgroup_barrier({flags})"


OPERATIONS: Mapping[str, Spelling] = {
    "fma": function("fma"),
    "exp2": function("precise::exp2"),
    "round": function("rint"),
    "abs": function("fabs"),
    "inverse_sqrt": function("precise::rsqrt"),
    "bits": _bits,
    "select": conditional,
    "splat": _made,
    "vector": _made,
    "join": _made,
    "unpack_halves": function("ew_unpack"),
    "pack_halves": function("ew_pack"),
    "dot_int8": function("ew_dot_int8"),
    "subgroup_size": lambda dtype: "simd_width",
    "shuffle_xor": _simd("simd_shuffle_xor"),
    "barrier": _barrier("threadgroup"),
    "buffer_barrier": _barrier("device", "threadgroup"),
}
"""Every operation of `kernels.gpu.operations.OPERATIONS`."""


def _head(dialect: Dialect, signature: Signature) -> str:
    arguments = [
        f"    device {'' if p.written else 'const '}{dialect.types[p.dtype]}* {p.name} "
        f"[[buffer({place})]]"
        for place, p in enumerate(signature.parameters)
    ]
    arguments.append("    uint3 group [[threadgroup_position_in_grid]]")
    arguments.append("    uint index [[thread_index_in_threadgroup]]")
    if signature.subgroups:
        arguments.append("    uint simd_width [[threads_per_simdgroup]]")
    bounds = f"[[max_total_threads_per_threadgroup({signature.threads})]]"
    joined = ",\n".join(arguments)
    return f"{bounds} kernel void {signature.entry}(\n{joined}) {{"


MSL = Dialect(
    language="MSL",
    types=_TYPES,
    operations=OPERATIONS,
    functions={"sqrt": "precise::sqrt"},
    binary={
        **{("Min", dtype): "min" for dtype in ("int32", "uint32")},
        **{("Max", dtype): "max" for dtype in ("int32", "uint32")},
        **{("Min", dtype): "fmin" for dtype in _FLOATS},
        **{("Max", dtype): "fmax" for dtype in _FLOATS},
        ("Mul", "float16x2"): "ew_mul",
    },
    casts={
        ("float32", "int32"): "ew_int",
        **{(old, old.replace("float", "uint")): "ew_uint" for old in _FLOATS},
        **{(old.replace("float", "uint"), old): _TYPES[old] for old in _FLOATS},
        **{(old, new): _TYPES[new] for old, new in zip(_HALVES, _FLOATS, strict=True)},
        **{(old, new): _TYPES[new] for old, new in zip(_FLOATS, _HALVES, strict=True)},
    },
    splats=_VECTORS,
    vectors=_VECTORS,
    literals={"float16": "half"},
    places=("int(group.x)", "int(group.y)", "int(index)"),
    shared="threadgroup",
    head=_head,
    preludes=((r"\bkernel void\b", HEADER), (r"\bew_\w+\(", FUNCTIONS)),
)
