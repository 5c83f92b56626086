"""From the neutral operations of kernels to those of a language, before its code is generated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

import tvm_ffi
from tvm.ir import Call, Expr, Op
from tvm.tirx import PrimFunc

from edgewise_compiler.kernels.gpu.operations import PREFIX
from edgewise_runtime.errors import CompileError

Spelling = Callable[..., Expr]
"""How a language writes an operation: from the dtype it returns and its arguments to TIR which that
language's code generator prints."""

_CALLS = tuple(Op.get(f"tirx.{name}") for name in ("call_pure_extern", "call_extern"))


def spelled(function: PrimFunc, spellings: Mapping[str, Spelling], language: str) -> PrimFunc:
    """``function`` with every operation in the words of a language.

    Args:
        spellings: by the operations' names, see `kernels.gpu.operations.OPERATIONS`.

    Raises:
        CompileError: an operation has no spelling, or a kernel calls what is not an operation.
    """

    missing: list[str] = []

    def spell(expression: Call) -> Expr:
        name = operation_of(expression)
        if name is None:
            return expression
        spelling = spellings.get(name.removeprefix(PREFIX)) if name.startswith(PREFIX) else None
        if spelling is None:
            missing.append(name)
            return expression
        return spelling(str(expression.ty), *expression.args[1:])

    body = tvm_ffi.structural_map(function.body, (Call, spell))
    if missing:
        symbol = str(function.attrs["global_symbol"])
        raise CompileError(
            f"Kernel {symbol!r} asks for {missing[0]!r}, which has no spelling in {language}.",
            remedy=f"Operations it has: {', '.join(spellings)}.",
            code="compile.operation",
        )
    return function.with_body(body)


def operation_of(expression: Call) -> str | None:
    """The name of what a call of no TIR operation calls, with its prefix; None for any other."""
    if not any(expression.op.same_as(op) for op in _CALLS):
        return None
    return cast(str, expression.args[0].value)
