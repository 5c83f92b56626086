"""How CUDA C writes kernels (the CUDA C++ Programming Guide, and CUDA's Math API for functions)."""

from __future__ import annotations

from collections.abc import Mapping

from edgewise_compiler.targets.cuda.limits import WARP
from edgewise_compiler.targets.cuda.prelude import HALVES, MATRICES, VECTORS
from edgewise_compiler.targets.gpu.clike.dialect import (
    Dialect,
    Signature,
    Spelling,
    Text,
    by_dtype,
    conditional,
    function,
)

_TYPES = {
    "bool": "bool",
    "int32": "int",
    "uint32": "unsigned int",
    "uint32x2": "uint2",
    "uint32x4": "uint4",
    "float32": "float",
    "float32x2": "float2",
    "float32x4": "float4",
    "float16": "ew_half",
    "float16x2": "ew_half2",
    "float16x4": "ew_half4",
}

_BITS = {
    ("float32", "uint32"): "__float_as_uint",
    ("float32", "int32"): "__float_as_int",
    ("uint32", "float32"): "__uint_as_float",
    ("int32", "float32"): "__int_as_float",
    ("float32x2", "uint32x2"): "ew_bits",
    ("float32x4", "uint32x4"): "ew_bits",
    ("uint32x2", "float32x2"): "ew_bits",
    ("uint32x4", "float32x4"): "ew_bits",
}

_SPLATS = {
    "float32x2": "ew_splat2",
    "float32x4": "ew_splat4",
    "uint32x2": "ew_splat2",
    "uint32x4": "ew_splat4",
    "float16x2": "ew_pair",
    "float16x4": "ew_four",
}

_VECTORS = {
    "float32x2": "make_float2",
    "float32x4": "make_float4",
    "uint32x2": "make_uint2",
    "uint32x4": "make_uint4",
    "float16x2": "ew_pair",
    "float16x4": "ew_four",
}


def _bits(dtype: str, value: Text) -> str:
    name = _BITS.get((value.dtype, dtype))
    if name is None:  # an integer as another
        return f"(({_TYPES[dtype]}){value.text})"
    return f"{name}({value.text})"


def _dot_int8(dtype: str, a: Text, b: Text) -> str:
    return f"__dp4a((int){a.text}, (int){b.text}, 0)"


def _shuffle_xor(dtype: str, value: Text, mask: Text) -> str:
    return f"__shfl_xor_sync(0xffffffffu, {value.text}, {mask.text})"


def _lanewise(scalar: str, vector: str) -> Spelling:
    return by_dtype({"float32": scalar, "float32x2": vector, "float32x4": vector})


OPERATIONS: Mapping[str, Spelling] = {
    # Rounded once whatever the compiler is told of contracting.
    "fma": by_dtype(
        {
            "float32": "__fmaf_rn",
            "float32x2": "ew_fma",
            "float32x4": "ew_fma",
            "float16x2": "ew_fma",
        }
    ),
    "exp2": _lanewise("exp2f", "ew_exp2"),
    "round": _lanewise("rintf", "ew_round"),
    "abs": _lanewise("fabsf", "ew_abs"),
    "inverse_sqrt": by_dtype({"float32": "rsqrtf"}),
    "bits": _bits,
    "select": conditional,
    "splat": by_dtype(_SPLATS),
    "vector": by_dtype(_VECTORS),
    "join": function("ew_join"),
    "unpack_halves": function("ew_unpack"),
    "pack_halves": function("ew_pack"),
    "dot_int8": _dot_int8,
    "subgroup_size": lambda dtype: f"{WARP}u",
    "shuffle_xor": _shuffle_xor,
    "barrier": function("__syncthreads"),
    # Which also has the block see what its threads wrote to memory.
    "buffer_barrier": function("__syncthreads"),
    "mma": function("ew_mma"),
}
"""Every operation of `kernels.gpu.operations`, those of matrices too."""


def _half_lane(vector: str, lane: int) -> str:
    return f"ew_lane({vector}, {lane})"


def _head(dialect: Dialect, signature: Signature) -> str:
    arguments = ",\n".join(
        f"    {'' if p.written else 'const '}{dialect.types[p.dtype]}* __restrict__ {p.name}"
        for p in signature.parameters
    )
    bounds = f"__launch_bounds__({signature.threads})"
    return f'extern "C" __global__ void {bounds} {signature.entry}(\n{arguments}) {{'


CUDA = Dialect(
    language="CUDA C",
    types=_TYPES,
    operations=OPERATIONS,
    functions={"sqrt": "__fsqrt_rn"},
    binary={
        ("Min", "int32"): "min",
        ("Max", "int32"): "max",
        ("Min", "uint32"): "min",
        ("Max", "uint32"): "max",
        ("Min", "float32"): "fminf",
        ("Max", "float32"): "fmaxf",
        ("Min", "float32x2"): "ew_min",
        ("Max", "float32x2"): "ew_max",
        ("Min", "float32x4"): "ew_min",
        ("Max", "float32x4"): "ew_max",
        ("Mul", "float16x2"): "ew_mul",
    },
    casts={
        # What is out of range becomes the nearest number, as in every other language here.
        ("float32", "int32"): "__float2int_rz",
        ("float32", "uint32"): "__float2uint_rz",
        ("float32x2", "uint32x2"): "ew_uints",
        ("float32x4", "uint32x4"): "ew_uints",
        ("uint32x2", "float32x2"): "ew_floats",
        ("uint32x4", "float32x4"): "ew_floats",
        ("float16", "float32"): "ew_float",
        ("float16x2", "float32x2"): "ew_float",
        ("float16x4", "float32x4"): "ew_float",
        ("float32", "float16"): "ew_to_half",
        ("float32x2", "float16x2"): "ew_to_half",
        ("float32x4", "float16x4"): "ew_to_half",
    },
    splats=_SPLATS,
    vectors=_VECTORS,
    literals={"float16": "ew_to_half"},
    lanes={"float16x2": _half_lane, "float16x4": _half_lane},
    places=("(int)blockIdx.x", "(int)blockIdx.y", "(int)threadIdx.x"),
    shared="__shared__",
    head=_head,
    preludes=(
        (r"(float|uint)[24]|ew_splat", VECTORS),
        (r"\bew_(half|pair|four|unpack|pack|to_half)", HALVES),
        (r"\bew_mma\b", MATRICES),
    ),
)
