"""The tests of that name in tests/compiler/kernels/gpu, on the emulator."""

from tests.compiler.kernels.gpu.test_experts import *  # noqa: F403
