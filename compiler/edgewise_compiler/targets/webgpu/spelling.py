"""How WGSL writes the neutral operations of kernels (https://www.w3.org/TR/WGSL/)."""

from __future__ import annotations

from collections.abc import Mapping

from tvm import DataType, tirx
from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T

from edgewise_compiler.targets.gpu.spelling import Spelling

_SCALARS = {"float32": "f32", "float16": "f16", "int32": "i32", "uint32": "u32"}


def type_name(dtype: str) -> str:
    """A dtype as WGSL spells it: ``float32x4`` is ``vec4<f32>``."""
    kind = DataType(dtype)
    scalar = _SCALARS[str(kind.with_lanes(1))]
    return scalar if kind.lanes == 1 else f"vec{kind.lanes}<{scalar}>"


def _function(name: str) -> Spelling:
    """A builtin function of the same arguments."""
    return lambda dtype, *arguments: tirx.call_pure_extern(dtype, name, *arguments)


def _construct(dtype: str, *parts: Expr) -> Expr:
    return tirx.call_pure_extern(dtype, type_name(dtype), *parts)


def _bitcast(dtype: str, value: Expr) -> Expr:
    return tirx.call_pure_extern(dtype, f"bitcast<{type_name(dtype)}>", value)


def _select(dtype: str, condition: Expr, a: Expr, b: Expr) -> Expr:
    return tirx.call_pure_extern(dtype, "select", b, a, condition)


def _subgroup_size(dtype: str) -> Expr:
    # The builtin value `subgroup_size` is no call, and TVM prints calls only.
    return tirx.call_extern(dtype, "subgroupAdd", tirx.const(1, dtype))


def _shuffle_xor(dtype: str, value: Expr, mask: Expr) -> Expr:
    return tirx.call_extern(dtype, "subgroupShuffleXor", value, mask)


def _barrier(dtype: str) -> Expr:
    return T.tvm_storage_sync("shared")


def _buffer_barrier(dtype: str) -> Expr:
    return tirx.call_extern(dtype, "storageBarrier")


WGSL: Mapping[str, Spelling] = {
    "fma": _function("fma"),
    "exp2": _function("exp2"),
    "round": _function("round"),
    "abs": _function("abs"),
    "inverse_sqrt": _function("inverseSqrt"),
    "bits": _bitcast,
    "select": _select,
    "splat": _construct,
    "vector": _construct,
    "join": _construct,
    "unpack_halves": _function("unpack2x16float"),
    "pack_halves": _function("pack2x16float"),
    "dot_int8": _function("dot4I8Packed"),
    "subgroup_size": _subgroup_size,
    "shuffle_xor": _shuffle_xor,
    "barrier": _barrier,
    "buffer_barrier": _buffer_barrier,
}
"""Every operation of `kernels.gpu.operations.OPERATIONS`."""
