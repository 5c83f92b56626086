"""The numbers of SPIR-V that kernels need (https://registry.khronos.org/SPIR-V/).

Numbers of instructions and enumerants are those of the specification's tables; a name is that of
the specification without its prefix.
"""

from __future__ import annotations

from collections.abc import Mapping

MAGIC = 0x07230203
VERSION = 0x00010300
"""1.3, the version of Vulkan 1.1."""

OPCODES: Mapping[str, int] = {
    "Undef": 1,
    "Extension": 10,
    "ExtInstImport": 11,
    "ExtInst": 12,
    "MemoryModel": 14,
    "EntryPoint": 15,
    "ExecutionMode": 16,
    "Capability": 17,
    "TypeVoid": 19,
    "TypeBool": 20,
    "TypeInt": 21,
    "TypeFloat": 22,
    "TypeVector": 23,
    "TypeArray": 28,
    "TypeRuntimeArray": 29,
    "TypeStruct": 30,
    "TypePointer": 32,
    "TypeFunction": 33,
    "ConstantTrue": 41,
    "ConstantFalse": 42,
    "Constant": 43,
    "ConstantComposite": 44,
    "Function": 54,
    "FunctionEnd": 56,
    "Variable": 59,
    "Load": 61,
    "Store": 62,
    "AccessChain": 65,
    "Decorate": 71,
    "MemberDecorate": 72,
    "VectorShuffle": 79,
    "CompositeConstruct": 80,
    "CompositeExtract": 81,
    "ConvertFToU": 109,
    "ConvertFToS": 110,
    "ConvertSToF": 111,
    "ConvertUToF": 112,
    "FConvert": 115,
    "Bitcast": 124,
    "IAdd": 128,
    "FAdd": 129,
    "ISub": 130,
    "FSub": 131,
    "IMul": 132,
    "FMul": 133,
    "UDiv": 134,
    "SDiv": 135,
    "FDiv": 136,
    "UMod": 137,
    "SRem": 138,
    "LogicalEqual": 164,
    "LogicalNotEqual": 165,
    "LogicalOr": 166,
    "LogicalAnd": 167,
    "LogicalNot": 168,
    "Select": 169,
    "IEqual": 170,
    "INotEqual": 171,
    "UGreaterThan": 172,
    "SGreaterThan": 173,
    "UGreaterThanEqual": 174,
    "SGreaterThanEqual": 175,
    "ULessThan": 176,
    "SLessThan": 177,
    "ULessThanEqual": 178,
    "SLessThanEqual": 179,
    "FOrdEqual": 180,
    "FUnordNotEqual": 183,
    "FOrdLessThan": 184,
    "FOrdGreaterThan": 186,
    "FOrdLessThanEqual": 188,
    "FOrdGreaterThanEqual": 190,
    "ShiftRightLogical": 194,
    "ShiftRightArithmetic": 195,
    "ShiftLeftLogical": 196,
    "BitwiseOr": 197,
    "BitwiseXor": 198,
    "BitwiseAnd": 199,
    "Not": 200,
    "ControlBarrier": 224,
    "Phi": 245,
    "LoopMerge": 246,
    "SelectionMerge": 247,
    "Label": 248,
    "Branch": 249,
    "BranchConditional": 250,
    "Return": 253,
    "GroupNonUniformShuffleXor": 346,
    "GroupNonUniformIAdd": 349,
    "SDot": 4450,
}

NAMES: Mapping[int, str] = {number: name for name, number in OPCODES.items()}
"""The other way round."""

GLSL = "GLSL.std.450"
"""The set of extended instructions that Vulkan has."""

EXTENDED: Mapping[str, int] = {
    "RoundEven": 2,
    "FAbs": 4,
    "Exp2": 29,
    "Sqrt": 31,
    "InverseSqrt": 32,
    "FMin": 37,
    "UMin": 38,
    "SMin": 39,
    "FMax": 40,
    "UMax": 41,
    "SMax": 42,
    "Fma": 50,
    "PackHalf2x16": 58,
    "UnpackHalf2x16": 62,
}
"""Instructions of `GLSL`."""

CAPABILITIES: Mapping[str, int] = {
    "Shader": 1,
    "Float16": 9,
    "GroupNonUniform": 61,
    "GroupNonUniformArithmetic": 63,
    "GroupNonUniformShuffle": 65,
    "StorageBuffer16BitAccess": 4433,
    "DotProductInput4x8BitPacked": 6018,
    "DotProduct": 6019,
}

EXTENSIONS: Mapping[str, str] = {"DotProduct": "SPV_KHR_integer_dot_product"}
"""What a capability comes from, where SPIR-V 1.3 does not have it."""

# Storage classes.
INPUT, WORKGROUP, FUNCTION, STORAGE_BUFFER = 1, 4, 7, 12

# Decorations.
BLOCK, ARRAY_STRIDE, BUILT_IN, RESTRICT, COHERENT, NON_WRITABLE = 2, 6, 11, 19, 23, 24
BINDING, DESCRIPTOR_SET, OFFSET, NO_CONTRACTION = 33, 34, 35, 42

BUILT_INS: Mapping[str, int] = {"blockIdx": 26, "threadIdx": 27}
"""WorkgroupId and LocalInvocationId, by the names that TIR has for threads."""

# Scopes; GLCompute, Logical addressing, the memory model GLSL450, the execution mode LocalSize.
SCOPE_WORKGROUP, SCOPE_SUBGROUP = 2, 3
GL_COMPUTE, LOGICAL, GLSL450, LOCAL_SIZE = 5, 0, 1, 17

# Memory semantics: AcquireRelease, and what it orders.
ACQUIRE_RELEASE, UNIFORM_MEMORY, WORKGROUP_MEMORY = 0x8, 0x40, 0x100

DONT_UNROLL = 2
"""Loop control. Kernels write out what is to be: Mesa unrolls what it can count on top of that, and
then lavapipe compiles for minutes instead of a fraction of a second."""

REDUCE = 0
"""The group operation of all threads of a group."""

PACKED_4X8 = 0
"""The packed vector format of four bytes in a word."""
