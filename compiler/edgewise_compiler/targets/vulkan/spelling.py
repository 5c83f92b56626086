"""How SPIR-V writes the neutral operations of kernels, by instructions instead of words."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from edgewise_compiler.targets.vulkan import opcodes as spv
from edgewise_compiler.targets.vulkan.arithmetic import Arithmetic
from edgewise_compiler.targets.vulkan.module import U32, Kind, Value

Spelling = Callable[..., Value]
"""From the arithmetic of the function being written, the kind of the result and the arguments to
the result."""

_NOTHING = Value(0, Kind("int32"))


def _extended(name: str) -> Spelling:
    """An extended instruction of the same arguments; scalars go to all lanes."""

    def spell(arithmetic: Arithmetic, kind: Kind, *arguments: Value) -> Value:
        wide = (arithmetic.spread(argument, kind).id for argument in arguments)
        return arithmetic.function.extended(name, kind, *wide)

    return spell


def _halves(name: str) -> Spelling:
    """An extended instruction of a word of two float16, or of what is in one."""

    def spell(arithmetic: Arithmetic, kind: Kind, value: Value) -> Value:
        return arithmetic.function.extended(name, kind, value.id)

    return spell


def _splat(arithmetic: Arithmetic, kind: Kind, scalar: Value) -> Value:
    return arithmetic.spread(scalar, kind)


def _vector(arithmetic: Arithmetic, kind: Kind, *scalars: Value) -> Value:
    return arithmetic.function.construct(kind, tuple(scalar.id for scalar in scalars))


def _join(arithmetic: Arithmetic, kind: Kind, low: Value, high: Value) -> Value:
    lanes = range(kind.lanes)
    return arithmetic.function.pure("VectorShuffle", kind, low.id, high.id, *lanes)


def _bits(arithmetic: Arithmetic, kind: Kind, value: Value) -> Value:
    return arithmetic.bits(value, kind.scalar)


def _select(arithmetic: Arithmetic, kind: Kind, condition: Value, a: Value, b: Value) -> Value:
    return arithmetic.choose(condition, a, b)


def _dot_int8(arithmetic: Arithmetic, kind: Kind, a: Value, b: Value) -> Value:
    function = arithmetic.function
    function.module.need("DotProduct", "DotProductInput4x8BitPacked")
    return function.pure("SDot", kind, a.id, b.id, spv.PACKED_4X8)


def _subgroup_size(arithmetic: Arithmetic, kind: Kind) -> Value:
    # Not the builtin of that name: it counts threads that a small workgroup does not have.
    function = arithmetic.function
    function.module.need("GroupNonUniform", "GroupNonUniformArithmetic")
    scope, one = function.module.integer(spv.SCOPE_SUBGROUP), function.module.integer(1)
    return function.needed("GroupNonUniformIAdd", kind, scope, spv.REDUCE, one)


def _shuffle_xor(arithmetic: Arithmetic, kind: Kind, value: Value, mask: Value) -> Value:
    function = arithmetic.function
    function.module.need("GroupNonUniform", "GroupNonUniformShuffle")
    scope = function.module.integer(spv.SCOPE_SUBGROUP)
    return function.needed("GroupNonUniformShuffleXor", kind, scope, value.id, mask.id)


def _waits(memory: int) -> Spelling:
    """A barrier of the workgroup that orders its stores to a kind of memory."""

    def spell(arithmetic: Arithmetic, kind: Kind) -> Value:
        function = arithmetic.function
        scope = function.module.integer(spv.SCOPE_WORKGROUP)
        semantics = function.module.integer(spv.ACQUIRE_RELEASE | memory, U32)
        function.effect("ControlBarrier", scope, scope, semantics)
        return _NOTHING

    return spell


SPIRV: Mapping[str, Spelling] = {
    "fma": _extended("Fma"),
    "exp2": _extended("Exp2"),
    "round": _extended("RoundEven"),
    "abs": _extended("FAbs"),
    "inverse_sqrt": _extended("InverseSqrt"),
    "bits": _bits,
    "select": _select,
    "splat": _splat,
    "vector": _vector,
    "join": _join,
    "unpack_halves": _halves("UnpackHalf2x16"),
    "pack_halves": _halves("PackHalf2x16"),
    "dot_int8": _dot_int8,
    "subgroup_size": _subgroup_size,
    "shuffle_xor": _shuffle_xor,
    "barrier": _waits(spv.WORKGROUP_MEMORY),
    "buffer_barrier": _waits(spv.UNIFORM_MEMORY),
}
"""Every operation of `kernels.gpu.operations.OPERATIONS`."""
