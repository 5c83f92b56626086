"""A module as text, for people who debug the compiler: an instruction a line, as in the
specification's examples."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from edgewise_compiler.targets.vulkan.opcodes import EXTENDED, MAGIC, NAMES
from edgewise_runtime.errors import CompileError

_HEADER = 5  # words before the first instruction
_EXTENDED = {number: name for name, number in EXTENDED.items()}

# How many words of an instruction stand before its operands: type and result, a result, nothing.
_BARE = frozenset(
    "Extension MemoryModel EntryPoint ExecutionMode Capability FunctionEnd Store Decorate "
    "MemberDecorate ControlBarrier LoopMerge SelectionMerge Branch BranchConditional Return".split()
)
_TEXTS = {"Extension": 0, "ExtInstImport": 0, "EntryPoint": 2}
"""Which operand is a text."""


def listing(binary: bytes) -> str:
    """The instructions of a module that `statements.assemble` made.

    Raises:
        CompileError: it is no such module.
    """
    if len(binary) % 4 or len(binary) < _HEADER * 4:
        raise CompileError(f"{len(binary)} bytes are no SPIR-V module.")
    words = struct.unpack(f"<{len(binary) // 4}I", binary)
    if words[0] != MAGIC:
        raise CompileError(f"A SPIR-V module begins with {MAGIC:#x}, not with {words[0]:#x}.")
    return "".join(f"{line}\n" for line in _lines(words))


def _lines(words: tuple[int, ...]) -> Iterator[str]:
    yield f"; SPIR-V {words[1] >> 16}.{words[1] >> 8 & 255}, {words[3]} ids"
    at = _HEADER
    while at < len(words):
        count, opcode = words[at] >> 16, words[at] & 0xFFFF
        if not count or at + count > len(words) or opcode not in NAMES:
            raise CompileError(f"Word {at} of a SPIR-V module, {words[at]:#x}, is no instruction.")
        yield _line(NAMES[opcode], words[at + 1 : at + count])
        at += count


def _line(name: str, words: tuple[int, ...]) -> str:
    result = ""
    if name not in _BARE:
        typed = not name.startswith("Type") and name not in ("Label", "ExtInstImport")
        result = f"%{words[typed]} = "
        words = (*words[:typed], *words[typed + 1 :])
    text = _TEXTS.get(name)
    if text is not None:
        data = struct.pack(f"<{len(words) - text}I", *words[text:])
        said, _, _ = data.partition(b"\0")
        used = len(said) // 4 + 1 + text
        return f"{result}Op{name} {_joined((*words[:text], repr(said.decode()), *words[used:]))}"
    if name == "ExtInst":
        return f"{result}OpExtInst {_EXTENDED[words[2]]} {_joined((words[0], *words[3:]))}"
    return f"{result}Op{name} {_joined(words)}".rstrip()


def _joined(words: tuple[object, ...]) -> str:
    return " ".join(map(str, words))
